"""The newest value of each station among the metrics; only where the setting asks for it, for each makes a series.

Names follow OpenMetrics: base units, last in the name. The number of stations is bounded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import structlog

from stormjay.errors import StoreUnavailable
from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcement, Announcer
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.weather.fields import FIELDS, Field
from stormjay.weather.views_rows import OWN

STATIONS_MAX = 50
"""Stations beyond this have no series of their own."""
_UNITS = {
    "c": ("celsius", 1.0),
    "pct": ("ratio", 0.01),
    "hpa": ("pascals", 100.0),
    "ms": ("meters_per_second", 1.0),
    "deg": ("degrees", 1.0),
    "mm": ("meters", 0.001),
    "km": ("meters", 1000.0),
    "v": ("volts", 1.0),
    "lux": ("lux", 1.0),
    "wm2": ("watts_per_square_meter", 1.0),
    "min": ("seconds", 60.0),
    "s": ("seconds", 1.0),
}
READING_TIME = Metric(
    "weather_station_reading_timestamp_seconds", "gauge", "Source time of a station's newest reading.", ("station",)
)
_log = structlog.get_logger(__name__)


def _metric(field: Field) -> tuple[Metric, float]:
    stem, _, unit = field.cloud.rpartition("_")
    name, factor = (field.cloud, 1.0) if unit not in _UNITS else (f"{stem}_{_UNITS[unit][0]}", _UNITS[unit][1])
    return Metric(f"weather_station_{name}", "gauge", f"{field.label}, newest reading.", ("station",)), factor


METRICS = {field.column: _metric(field) for field in FIELDS}


class StationMetrics:
    """The part that keeps the gauges; ``run`` works until cancelled."""

    def __init__(
        self,
        database: Database,
        *,
        statistics: Statistics,
        announcer: Announcer,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._statistics = statistics
        self._announcer = announcer
        self._heartbeat = heartbeat
        self._stations: set[str] = set()
        statistics.declare(READING_TIME, *(metric for metric, _ in METRICS.values()))

    async def run(self) -> None:
        """Set the gauges of all stations at start, then of whoever is heard."""
        async with self._announcer.listen() as heard:
            for known in await self._known():
                await self._refresh(known)
            while True:
                self._heartbeat()
                await self._refresh_from(await heard.get())

    async def _refresh_from(self, said: Announcement) -> None:
        station = said.body.get("source_node_id")
        if said.topic == "reading" and isinstance(station, str):
            await self._refresh(station)

    async def _known(self) -> list[str]:
        try:
            rows = await self._database.read(
                lambda connection: connection.execute(
                    "SELECT source_node_id FROM device_status_current ORDER BY last_heard_at_utc DESC LIMIT ?",
                    (STATIONS_MAX,),
                ).fetchall()
            )
        except StoreUnavailable as error:
            _log.warning("station_metrics.not_read", error=str(error))
            return []
        return [row[0] for row in rows]

    async def _refresh(self, station: str) -> None:
        if station not in self._stations and len(self._stations) >= STATIONS_MAX:
            return

        def newest(connection: sqlite3.Connection) -> sqlite3.Row | None:
            row: sqlite3.Row | None = connection.execute(
                f"SELECT * FROM weather_readings WHERE {OWN} ORDER BY source_ts_canonical DESC LIMIT 1",  # noqa: S608 - constant
                (station,),
            ).fetchone()
            return row

        try:
            row = await self._database.read(newest)
        except StoreUnavailable as error:
            _log.warning("station_metrics.not_read", error=str(error))
            return
        if row is None or row["source_ts_canonical"] is None:
            return
        self._stations.add(station)
        self._statistics.set(READING_TIME, timestamps.to_epoch_us(row["source_ts_canonical"]) / 1e6, station=station)
        for column, (metric, factor) in METRICS.items():
            if row[column] is not None:
                self._statistics.set(metric, row[column] * factor, station=station)
