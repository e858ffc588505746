"""Keeps the MQTT state of every station in step with the journal.

What is published is read from the journal after each announcement and now and then by the clock, so it is always the
newest reading by source time: one that comes late moves rain totals, never the state back. Announcements are hints; one
that is lost is made good at the next turn of the clock.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec
import structlog

from stormjay.errors import NotFound, StoreUnavailable
from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcement, Announcer
from stormjay.ground.clock import Clock
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.homeassistant import Device
from stormjay.weather import discovery, views, views_link
from stormjay.weather.journal_status import Thresholds
from stormjay.weather.views import Site
from stormjay.weather.views_rain import RainLedger

_INTERVAL_READINGS = 10
_log = structlog.get_logger(__name__)


class WeatherMqttSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How stations are published.

    Attributes:
        base_topic: First part of the topics.
        expire_factor: A measured value expires after this many of its expected periods.
        refresh_seconds: How often all stations are looked at without being announced.
        pause_seconds: Shortest pause between two looks, so that a burst of packets makes one message.
        sites: What is known of the stations, by node id.
        thresholds: When a station counts as what.
    """

    base_topic: str = "stormjay"
    expire_factor: float = 2.5
    refresh_seconds: float = 60.0
    pause_seconds: float = 0.5
    sites: Mapping[str, Site] = {}
    thresholds: Thresholds = Thresholds()


class Sink(Protocol):
    """Where states go: the newest payload of a topic counts."""

    def put(self, topic: str, payload: dict[str, Any] | str) -> None:
        """Make this the newest payload of a topic."""
        ...

    def announce(self, device: Device) -> None:
        """Make a device known."""
        ...


class WeatherMqtt:
    """The part that publishes stations; ``run`` works until cancelled."""

    def __init__(
        self,
        database: Database,
        sink: Sink,
        *,
        clock: Clock,
        announcer: Announcer,
        settings: WeatherMqttSettings | None = None,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._sink = sink
        self._clock = clock
        self._announcer = announcer
        self._settings = settings or WeatherMqttSettings()
        self._heartbeat = heartbeat
        self._rain = RainLedger()

    async def run(self) -> None:
        """Publish every station at start, then whoever is heard, and all of them now and then."""
        async with self._announcer.listen() as heard:
            while True:
                self._heartbeat()
                await self._publish(await self._all_stations())
                until = self._clock.monotonic() + self._settings.refresh_seconds
                while (left := until - self._clock.monotonic()) > 0:
                    stations = await self._heard(heard, left)
                    self._heartbeat()
                    await self._publish(stations)
                    if stations:
                        await self._clock.sleep(self._settings.pause_seconds)

    async def _heard(self, heard: asyncio.Queue[Announcement], seconds: float) -> list[str]:
        """Wait for an announcement, at most that long; return the stations of all that wait."""
        getting = asyncio.ensure_future(heard.get())
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([getting, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            waiting = [getting.result()] if getting.done() and not getting.cancelled() else []
            getting.cancel()
        while not heard.empty():
            waiting.append(heard.get_nowait())
        nodes = (item.body.get("source_node_id") for item in waiting if item.topic in _TOPICS)
        return sorted({node for node in nodes if isinstance(node, str)})

    async def _all_stations(self) -> list[str]:
        now_us = timestamps.from_datetime(self._clock.now())
        sites = self._settings.sites
        try:
            found = await self._database.read(lambda connection: views.stations(connection, sites, now_us))
        except StoreUnavailable as error:
            _log.warning("discovery.stations_not_read", error=str(error))
            return []
        return [view.station for view in found if view.last_heard_utc is not None]

    async def _publish(self, stations: list[str]) -> None:
        for station in stations:
            try:
                device, state, available = await self._database.read(partial(self._look, station=station))
            except NotFound:
                continue  # heard, but not of the weather
            except StoreUnavailable as error:
                _log.warning("discovery.station_not_read", source_node_id=station, error=str(error))
                return
            state_topic, availability_topic = discovery.station_topics(self._settings.base_topic, station)
            self._sink.announce(device)
            self._sink.put(state_topic, state)
            self._sink.put(availability_topic, available)

    def _look(self, connection: sqlite3.Connection, station: str) -> tuple[Device, dict[str, Any], str]:
        settings = self._settings
        site = settings.sites.get(station, Site())
        now_us = timestamps.from_datetime(self._clock.now())
        fresh = settings.thresholds.stale_after_seconds
        now = views.now(connection, station, site, now_us, self._rain, fresh)
        if now.reading is None:
            raise NotFound("no_reading", f"{station} has sent no weather")
        day = views.day(connection, station, site, now_us, now_us, fresh)
        condition = views_link.condition(connection, station, now_us, settings.thresholds)
        device = discovery.station_device(
            station,
            now.station.name,
            site,
            base_topic=settings.base_topic,
            period_seconds=discovery.expected_period_seconds(_longest_interval(connection, station)),
            expire_factor=settings.expire_factor,
            firmware=condition.firmware,
        )
        return device, discovery.station_state(now, day, condition, site), discovery.availability(condition)


_TOPICS = frozenset({"reading", "packet", "station_state"})


def _longest_interval(connection: sqlite3.Connection, station: str) -> float | None:
    """Return the longest report interval of the last readings: one merged from several stands for all of its time."""
    row = connection.execute(
        "SELECT MAX(report_interval_min) FROM (SELECT report_interval_min FROM weather_readings"
        " WHERE source_node_id = ? AND source_double_of IS NULL ORDER BY source_ts_canonical DESC LIMIT ?)",
        (station, _INTERVAL_READINGS),
    ).fetchone()
    return None if row is None or row[0] is None else float(row[0])
