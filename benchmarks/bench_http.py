"""The newest observation, and 1,000 of history, over HTTP: the real application against FastAPI with plain dicts.

Each server runs in a process of its own under uvicorn with uvloop and httptools, on a port that the system picks; `wrk`
asks both in turn. The peer holds the very same content as dicts in memory, so that it is not charged for a store. Its
handlers declare no return type: that is the plain way, and goes through FastAPI's own encoder. With a return type a
recent FastAPI serialises in Rust and is several times faster on long answers, about as fast as ours from its store.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import uvicorn
import uvloop
from fastapi import FastAPI

from benchmarks.table import Row
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock, SystemClock
from stormjay.ground.keyed.sqlite import SqliteKeyedStore, migration
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web.app import WebSettings, create_app
from stormjay.ground.web.health import Health
from stormjay.ground.web.server import bind, serve
from stormjay.ground.web.tokens import READ, WEATHER_WRITE, Principal, Tokens
from stormjay.weather.cloud.routes import routes
from stormjay.weather.cloud.serving import Cloud, CloudSettings
from stormjay.weather.cloud.store import TABLE, Observations

STATION = "!5c32d4d9"
FIRST_S = 1786000000
HISTORY = 1000
ROUNDS = 3
SECONDS = 2
CONNECTIONS = {"latest": 32, "history": 4}
"""Few for the long answers: what `wrk` leaves unanswered at its end is still worked off afterwards."""
DRAIN_SECONDS = 60.0
LATEST_PATH = f"/observations/latest?stationId={STATION}"
HISTORY_PATH = f"/observations?stationId={STATION}&from={FIRST_S}&to={FIRST_S + 60 * HISTORY}&limit={HISTORY}"
TARGET = 3.0
_FILE, _CONTENT = "cloud.db", "content.json"


def payload_of(number: int) -> dict[str, Any]:
    """Return a payload with all values that a station sends."""
    return {
        "source_node_id": STATION,
        "source_name": "garden",
        "msg_id": number,
        "source_ts_utc": str(FIRST_S + 60 * number),
        "received_at_utc": "2026-08-06T07:06:41.5Z",
        "weather": {
            "air_temp_c": 21.8,
            "relative_humidity_pct": 56.5,
            "station_pressure_hpa": 1011.9,
            "wind_avg_ms": 2.2,
            "wind_dir_deg": 240,
            "rain_interval_mm": 0.2,
            "wind_lull_ms": 0.4,
            "wind_gust_ms": 5.1,
            "wind_sample_interval_s": 3,
            "illuminance_lux": 45123,
            "uv_index": 4.2,
            "solar_radiation_wm2": 376,
            "precipitation_type": 1,
            "lightning_avg_distance_km": 0,
            "lightning_strike_count": 0,
            "battery_voltage_v": 2.61,
            "report_interval_min": 1,
            "timestamp": FIRST_S + 60 * number,
        },
    }


def _observations(database: Database) -> Observations:
    return Observations(
        SqliteKeyedStore(database, TABLE), clock=SystemClock(), statistics=Statistics(), announcer=Announcer()
    )


async def fill(folder: Path, count: int) -> None:
    """Make the file that our server serves."""
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    database = await Database.open(folder / _FILE, [migration(TABLE)], clock=clock, synchronous="NORMAL")
    try:
        cloud = Cloud(_observations(database), settings=CloudSettings(), stations={}, clock=clock)
        sender = Principal(name="sender", scopes=frozenset({WEATHER_WRITE}))
        for first in range(0, count, 1000):
            payloads = [payload_of(number) for number in range(first, min(count, first + 1000))]
            await cloud.ingest_batch(json.dumps({"payloads": payloads}).encode(), sender)
    finally:
        await database.close()


def ours(folder: Path) -> None:
    """Serve the file with the real application."""

    async def run() -> None:
        clock = SystemClock()
        database = await Database.open(folder / _FILE, [migration(TABLE)], clock=clock)
        tokens, settings = Tokens(public=[READ]), WebSettings(port=0)
        cloud = Cloud(_observations(database), settings=CloudSettings(), stations={}, clock=clock)
        app = create_app(
            route_handlers=routes(cloud, tokens),
            settings=settings,
            tokens=tokens,
            statistics=Statistics(),
            health=Health(clock),
            announcer=Announcer(),
            clock=clock,
        )
        await serve(app, settings, on_started=_tell)

    uvloop.run(run())


def fastapi(folder: Path) -> None:
    """Serve the same content from memory, as a FastAPI handler that returns dicts."""
    content = json.loads((folder / _CONTENT).read_text())
    app = FastAPI()

    @app.get("/observations/latest")
    async def latest(stationId: str):  # type: ignore[no-untyped-def]  # noqa: ANN202, N803, ARG001 - plain dicts; see above
        return {"ok": True, "item": content["latest"]}

    @app.get("/observations")
    async def history(stationId: str, limit: int = 200):  # type: ignore[no-untyped-def]  # noqa: ANN202, N803 - as above
        items = content["items"][:limit]
        return {"ok": True, "mode": "raw", "stationId": stationId, "order": "desc", "count": len(items), "items": items}

    listener = bind("127.0.0.1", 0)
    _tell(f"http://127.0.0.1:{listener.getsockname()[1]}")
    config = uvicorn.Config(app, loop="none", http="httptools", log_level="error", access_log=False)
    uvloop.run(uvicorn.Server(config).serve(sockets=[listener]))


def _tell(url: str) -> None:
    print(url, flush=True)


@contextmanager
def _running(role: str, folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.bench_http", role, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("http://"):
                yield line.strip()
                break
        else:
            raise RuntimeError(f"{role} did not start")
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def requests_per_second(url: str, connections: int) -> float:
    """Ask one URL for some seconds; every answer must be 2xx. Returns when the server has nothing left to do.

    Raises:
        RuntimeError: `wrk` failed, an answer was an error, or there was none.
    """
    command = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "--timeout", "20s", url]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS + 30).stdout
    found = re.search(r"Requests/sec:\s+([\d.]+)", output)
    httpx.get(url, timeout=DRAIN_SECONDS).raise_for_status()
    if found is None or "Non-2xx" in output or float(found[1]) == 0:
        raise RuntimeError(f"{url}: {output}")
    return float(found[1])


async def _content_of(folder: Path) -> None:
    """Write down what our server answers with, for the peer to hold in memory."""
    clock = SystemClock()
    database = await Database.open(folder / _FILE, [migration(TABLE)], clock=clock)
    try:
        store = SqliteKeyedStore(database, TABLE)
        latest = await store.get(f"STATION#{STATION}", "LATEST")
        page = await store.query(f"STATION#{STATION}", "OBS#", "OBS#~", limit=HISTORY, descending=True)
    finally:
        await database.close()
    assert latest is not None
    content = {"latest": json.loads(latest), "items": [json.loads(document) for document in page.documents]}
    (folder / _CONTENT).write_text(json.dumps(content))


def run() -> list[Row]:
    """Measure both routes, alternating between the servers; medians of three rounds."""
    rates: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        asyncio.run(fill(folder, HISTORY))
        asyncio.run(_content_of(folder))
        urls = {role: stack.enter_context(_running(role, folder)) for role in ("ours", "fastapi")}
        for _ in range(ROUNDS):
            for kind, path in (("latest", LATEST_PATH), ("history", HISTORY_PATH)):
                for role, url in urls.items():
                    rates.setdefault((role, path), []).append(requests_per_second(url + path, CONNECTIONS[kind]))
    middle = {key: statistics.median(values) for key, values in rates.items()}
    return [
        Row(what, middle["ours", path], "FastAPI, plain dicts in memory", middle["fastapi", path], "requests/s", TARGET)
        for what, path in (
            ("newest observation over HTTP", LATEST_PATH),
            ("1,000 observations of history over HTTP", HISTORY_PATH),
        )
    ]


if __name__ == "__main__":
    {"ours": ours, "fastapi": fastapi}[sys.argv[1]](Path(sys.argv[2]))
