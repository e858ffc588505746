"""The outbox against a durable queue library: in with 256 producers, out in settled groups; memory of a long backlog.

Both sides fsync what they acknowledge. The peer is persist-queue's ``FIFOSQLiteQueue``, the faster of its two durable
forms here; like most queue libraries it commits each message by itself.
"""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from persistqueue import FIFOSQLiteQueue

from benchmarks.table import Row
from stormjay.ground.clock import SystemClock
from stormjay.ground.outbox.intake import Intake
from stormjay.ground.outbox.port import Done
from stormjay.ground.outbox.sqlite import SqliteOutbox
from stormjay.ground.sqlite import Database, script

TABLE = "delivery_queue_bench"
SCHEMA = f"""
CREATE TABLE items (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE {TABLE} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    reading_id INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    attempt_count INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_utc TEXT,
    last_attempt_at_utc TEXT,
    delivered_at_utc TEXT,
    last_error TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE (reading_id)
);
CREATE INDEX idx_bench_due ON {TABLE} (status, next_attempt_at_utc, id)
"""
MESSAGE = json.dumps(
    {"payload": {"source_node_id": "!5c32d4d9", "weather": {f"field_{i}": 12.5 + i for i in range(20)}}}
)
PRODUCERS = 256
OURS, THEIRS = 20_000, 2_000
CLAIM_ROWS = 500
SHORT, LONG = 1_000, 1_000_000
MEMORY_MB = 50


def load(connection: sqlite3.Connection, ids: Sequence[int]) -> Mapping[int, str]:
    """Load messages by id."""
    rows = connection.execute(
        "SELECT id, body FROM items WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
    )
    return {row[0]: row[1] for row in rows}


def enqueue(connection: sqlite3.Connection, messages: Sequence[str]) -> None:
    """Store messages and their queue rows."""
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM items").fetchone()
    ids = range(last + 1, last + 1 + len(messages))
    connection.executemany("INSERT INTO items (id, body) VALUES (?, ?)", zip(ids, messages, strict=True))
    connection.executemany(f"INSERT INTO {TABLE} (reading_id) VALUES (?)", ((id_,) for id_ in ids))  # noqa: S608 - a constant


async def ours(folder: Path) -> tuple[float, float]:
    """Return messages in and out per second."""
    clock = SystemClock()
    database = await Database.open(folder / "outbox.db", [script("queue", SCHEMA)], clock=clock)
    outbox = await SqliteOutbox.open(database, TABLE, load, destination="bench", clock=clock)

    intake = Intake(database, enqueue)

    async def produce() -> None:
        for _ in range(OURS // PRODUCERS):
            await intake.put(MESSAGE)

    begin = time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(PRODUCERS)))
    number = OURS // PRODUCERS * PRODUCERS
    rate_in = number / (time.perf_counter() - begin)
    begin, taken = time.perf_counter(), 0
    while claimed := await outbox.claim(CLAIM_ROWS):
        await outbox.settle([Done(item.id) for item in claimed])
        taken += len(claimed)
    rate_out = taken / (time.perf_counter() - begin)
    await database.close()
    assert taken == number
    return rate_in, rate_out


def theirs(folder: Path) -> tuple[float, float]:
    """Return messages in and out per second."""
    queue = FIFOSQLiteQueue(str(folder / "persist-queue"), auto_commit=True)
    begin = time.perf_counter()
    for _ in range(THEIRS):
        queue.put(MESSAGE)
    rate_in = THEIRS / (time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(THEIRS):
        queue.get(block=False)
    return rate_in, THEIRS / (time.perf_counter() - begin)


def run() -> list[Row]:
    """Measure both sides in turn, three times, and take the medians."""
    results: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for _ in range(3):
        folder = Path(tempfile.mkdtemp())
        try:
            results.append((asyncio.run(ours(folder)), theirs(folder)))
        finally:
            shutil.rmtree(folder)

    def median(side: int, way: int) -> float:
        return sorted(result[side][way] for result in results)[1]

    peer = "persist-queue FIFOSQLiteQueue"
    return [
        Row(f"outbox in, {PRODUCERS} producers", median(0, 0), peer, median(1, 0), "messages/s", 10),
        Row("outbox out, claimed and settled", median(0, 1), peer, median(1, 1), "messages/s", 10),
        memory_row(),
    ]


def memory_row() -> Row:
    """Compare the memory of a process that works on a short and on a long backlog."""
    short, long = (_peak_mb(rows) for rows in (SHORT, LONG))
    name = f"memory allowed over memory grown, backlog of {LONG:,} against {SHORT:,} rows"
    return Row(name, MEMORY_MB, "growth of the process", max(long - short, 0.1), "MB", 1)


def _peak_mb(rows: int) -> float:
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(rows)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    return float(done.stdout)


async def work_on_backlog(path: Path, rows: int) -> None:
    """Claim, settle and count on a backlog of so many rows."""
    clock = SystemClock()
    database = await Database.open(path, [script("queue", SCHEMA)], clock=clock)

    def fill(connection: sqlite3.Connection) -> None:
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"  # noqa: S608 - a number
        connection.execute(f"{numbers} INSERT INTO items SELECT i, 'message ' || i FROM n")  # noqa: S608 - numbers
        connection.execute(f"INSERT INTO {TABLE} (reading_id) SELECT id FROM items")  # noqa: S608 - a constant

    await database.write(fill)
    outbox = await SqliteOutbox.open(database, TABLE, load, destination="bench", clock=clock)
    for _ in range(20):
        claimed = await outbox.claim(CLAIM_ROWS)
        await outbox.counts()
        await outbox.oldest()
        await outbox.next_due()
        await outbox.settle([Done(item.id) for item in claimed])
    await database.close()


def main() -> None:
    """Print the peak memory of working on a backlog, in MB (child process of ``memory_row``)."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(work_on_backlog(Path(folder) / "backlog.db", int(sys.argv[1])))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
