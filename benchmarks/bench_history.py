"""An even sample of 200 out of 50,000 observations: stepping through the index against scanning all and picking.

Both read the same SQLite file; the peer does what the seed's read function does: parse every observation of
the window, then choose. That both give the same items is checked before anything is measured.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bench_http import FIRST_S, STATION, fill
from benchmarks.table import Row
from stormjay.ground.clock import SystemClock
from stormjay.ground.keyed.sqlite import SqliteKeyedStore, migration
from stormjay.ground.sqlite import Database
from stormjay.ground.web.query import Query
from stormjay.weather.cloud.read import History, TokenSeal, history_query, ranks
from stormjay.weather.cloud.store import TABLE

WINDOW = 50_000
SAMPLE = 200
ROUNDS = 5
TARGET = 50.0
_QUERY = f"stationId={STATION}&from={FIRST_S}&to={FIRST_S + 60 * WINDOW}&sample={SAMPLE}".encode()


def scan_then_pick(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the sample by parsing everything, as the seed's design does."""
    rows = connection.execute(
        f"SELECT document FROM {TABLE.name} WHERE pk = ? AND sk BETWEEN 'OBS#' AND 'OBS#~' ORDER BY sk",  # noqa: S608 - a constant
        (f"STATION#{STATION}",),
    )
    every = [json.loads(document) for (document,) in rows]
    return [every[rank] for rank in ranks(len(every), SAMPLE)]


async def _measured(path: Path) -> tuple[float, float]:
    clock = SystemClock()
    database = await Database.open(path, [migration(TABLE)], clock=clock)
    connection = sqlite3.connect(path)
    try:
        history = History(
            SqliteKeyedStore(database, TABLE),
            clock=clock,
            seal=TokenSeal(b""),
            zones={},
            sample_window_max=WINDOW,
            bucket_window_max=WINDOW,
        )
        query = history_query(Query(_QUERY), TokenSeal(b""))
        answer = json.loads(await history.answer(query))
        expected = scan_then_pick(connection)
        assert answer["totalMatched"] == WINDOW
        assert [item["sk"] for item in answer["items"]] == [item["sk"] for item in expected]
        assert all(item["weather"] == whole["weather"] for item, whole in zip(answer["items"], expected, strict=True))
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            await history.answer(query)
            middle = time.perf_counter()
            scan_then_pick(connection)
            ours.append(middle - begin)
            theirs.append(time.perf_counter() - middle)
        return statistics.median(ours), statistics.median(theirs)
    finally:
        connection.close()
        await database.close()


def run() -> list[Row]:
    """Measure in turns; the figures are whole answers per second."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(fill(folder, WINDOW))
        ours, theirs = asyncio.run(_measured(folder / "cloud.db"))
    what = f"sample of {SAMPLE} from {WINDOW:,} observations"
    return [Row(what, 1 / ours, "scan, parse, pick (the seed's way)", 1 / theirs, "answers/s", TARGET)]
