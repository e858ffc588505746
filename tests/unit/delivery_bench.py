"""A journal file with readings in its queue, and a delivery on it, for tests against a real server."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Statistics
from stormjay.weather.delivery import Delivery
from stormjay.weather.delivery_http import DeliverySettings
from stormjay.weather.journal_schema import FIRST_QUEUE, MIGRATIONS

START = datetime(2026, 3, 18, 9, tzinfo=UTC)
NODE = "!5c32d4d9"
KEY = "a-secret-of-the-station"

READING: dict[str, Any] = {
    "source_node_id": NODE,
    "source_name": None,
    "msg_id": 17,
    "received_at_utc": "2026-03-18T00:45:46.982324+00:00",
    "temp_c": 22.5,
    "humidity_pct": 52,
    "pressure_hpa": 1011.4,
    "wind_ms": 3.4,
    "wind_dir_deg": 230,
    "rain_mm": 0.0,
    "raw_payload": "{}",
}


@dataclass
class DeliveryBench:
    """An open journal file."""

    database: Database
    clock: ManualClock = field(default_factory=lambda: ManualClock(START))
    statistics: Statistics = field(default_factory=Statistics)

    async def add(self, number: int = 1, **columns: Any) -> None:
        """Journal readings, each with its queue row."""

        def work(connection: sqlite3.Connection) -> None:
            (begin,) = connection.execute("SELECT count(*) FROM weather_readings").fetchone()
            for index in range(number):
                reading = {**READING, "source_ts_utc": str(1741985112 + begin + index), **columns}
                names, marks = ", ".join(reading), ", ".join("?" * len(reading))
                row = connection.execute(
                    f"INSERT INTO weather_readings ({names}) VALUES ({marks})",  # noqa: S608 - column names
                    tuple(reading.values()),
                )
                connection.execute(
                    f"INSERT INTO {FIRST_QUEUE} (reading_id) VALUES (?)",  # noqa: S608 - a constant
                    (row.lastrowid,),
                )

        await self.database.write(work)

    async def rows(self) -> list[dict[str, Any]]:
        """Return the queue."""
        statement = f"SELECT * FROM {FIRST_QUEUE} ORDER BY id"  # noqa: S608 - a constant
        return await self.database.read(lambda connection: [dict(row) for row in connection.execute(statement)])

    async def states(self) -> list[tuple[str, int]]:
        """Return status and attempts of each row."""
        return [(row["status"], row["attempt_count"]) for row in await self.rows()]

    async def delivery(self, url: str, **settings: Any) -> Delivery:
        """Return a delivery to that address."""
        made = DeliverySettings(api_url=url, api_key=KEY, **{"timeout_seconds": 5.0, "concurrency": 8, **settings})
        return await Delivery.open(
            self.database,
            FIRST_QUEUE,
            made,
            clock=self.clock,
            statistics=self.statistics,
            announcer=Announcer(),
        )


@asynccontextmanager
async def open_bench(folder: Path) -> AsyncIterator[DeliveryBench]:
    """Open a fresh journal file."""
    clock = ManualClock(START)
    database = await Database.open(folder / "weatherstation.db", MIGRATIONS, clock=clock, synchronous="NORMAL")
    try:
        yield DeliveryBench(database, clock)
    finally:
        await database.close()
