"""Asks the journal for views; each question is one snapshot, read in a thread beside the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from typing import TypeVar

import msgspec

from stormjay.errors import BadRequest, NotFound, StoreUnavailable
from stormjay.ground import timestamps
from stormjay.ground.clock import Clock
from stormjay.ground.sqlite import Database
from stormjay.weather import views, views_link, views_packet, views_series, views_strip
from stormjay.weather.journal_status import Thresholds
from stormjay.weather.views import DayView, NowView, Site, StationView
from stormjay.weather.views_link import ConditionView
from stormjay.weather.views_rain import RainLedger
from stormjay.weather.views_strip import StripLine, Target

T = TypeVar("T")

RANGES_SECONDS = {"24h": 86_400, "7d": 604_800, "30d": 2_592_000}
STRIP_STATIONS_MAX = 12
WARM_EVERY_SECONDS = 3600.0
_YEARS = (1970, 2199)


class PageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the page and its API go by.

    Attributes:
        thresholds: When a station is called stale, offline, or low on battery.
        max_points: Most points of a chart's series.
        recent_packets: Length of the list of newest packets.
    """

    thresholds: Thresholds = Thresholds()
    max_points: int = 1500
    recent_packets: int = 12


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One station at this moment, with its condition and day."""

    now: NowView
    condition: ConditionView
    day: DayView


class JournalReader:
    """Answers the questions of the page and the API."""

    def __init__(
        self,
        database: Database,
        sites: Mapping[str, Site],
        targets: Sequence[Target],
        settings: PageSettings,
        clock: Clock,
    ) -> None:
        """Read from ``database``; ``sites`` and ``targets`` are what the settings say of stations and destinations."""
        self.sites = sites
        self.targets = tuple(targets)
        self.settings = settings
        self._database = database
        self._clock = clock
        self._rain = RainLedger()

    def now_us(self) -> int:
        """Return the clock in microseconds since 1970."""
        return timestamps.from_datetime(self._clock.now())

    async def run(self) -> None:
        """Sum the past days of every station before the first visitor asks, and again now and then, until cancelled.

        On a small computer the first sum over a year takes many seconds; those that follow cost next to nothing.
        """
        while True:
            with suppress(StoreUnavailable):
                for known in await self.ask(self.stations):
                    await self.ask(partial(self.moment, station=known.station))
            await self._clock.sleep(WARM_EVERY_SECONDS)

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run a question on one snapshot."""
        return await self._database.read(question)

    def site(self, station: str) -> Site:
        """Return what is known of a station beside its readings."""
        return self.sites.get(station, Site())

    def stations(self, connection: sqlite3.Connection) -> list[StationView]:
        """Return all stations, the most recently heard first."""
        return views.stations(connection, self.sites, self.now_us())

    def choose(self, connection: sqlite3.Connection, station: str | None) -> str:
        """Return the station asked for, else the one with the newest reading.

        Raises:
            NotFound: There is no station at all.
        """
        if station:
            return station
        known = self.stations(connection)
        if not known:
            raise NotFound("no_station", "no station has been heard yet")
        return known[0].station

    def moment(self, connection: sqlite3.Connection, station: str) -> Moment:
        """Return a station now, its condition, and its day so far."""
        now_us, site = self.now_us(), self.site(station)
        fresh = self.settings.thresholds.stale_after_seconds
        return Moment(
            now=views.now(connection, station, site, now_us, self._rain, fresh),
            condition=views_link.condition(connection, station, now_us, self.settings.thresholds),
            day=views.day(connection, station, site, now_us, now_us, fresh),
        )

    def day(self, connection: sqlite3.Connection, station: str, day: str | None) -> DayView:
        """Return a local day, today without ``day``.

        Raises:
            BadRequest: The date is none.
        """
        site, now_us = self.site(station), self.now_us()
        fresh = self.settings.thresholds.stale_after_seconds
        return views.day(connection, station, site, self.moment_of(day, site), now_us, fresh)

    def strip(self, connection: sqlite3.Connection, station: str | None, day: str | None) -> list[StripLine]:
        """Return the strip of one station, or of all; a date is each station's own.

        Raises:
            BadRequest: The date is none.
        """
        ids = [station] if station else [each.station for each in self.stations(connection)[:STRIP_STATIONS_MAX]]
        lines: list[StripLine] = []
        for each in ids:
            moment_us = self.moment_of(day, self.site(each))
            lines += views_strip.strip(connection, self.sites, [each], self.targets, moment_us, self.now_us())
        return lines

    def packets(self, connection: sqlite3.Connection, station: str) -> list[views_packet.PacketLine]:
        """Return the newest packets of a station."""
        return views_packet.recent(connection, station, self.targets, self.now_us(), self.settings.recent_packets)

    def series(
        self, connection: sqlite3.Connection, station: str, fields: str | None, bounds: tuple[int, int], most: int
    ) -> views_series.SeriesView:
        """Return series of a known station.

        Raises:
            BadRequest: A field is unknown or the span is not one.
            NotFound: The station is unknown.
        """
        wanted = views_series.wanted_fields(fields)
        views.station_view(connection, station, self.site(station), self.now_us())
        return views_series.series(connection, station, wanted, *bounds, max_points=most)

    def moment_of(self, day: str | None, site: Site) -> int:
        """Return noon of a date at a site, or now without one.

        Raises:
            BadRequest: It is no date between 1970 and 2199.
        """
        if day is None:
            return self.now_us()
        try:
            wanted = date.fromisoformat(day)
        except ValueError as error:
            raise BadRequest("invalid_date", "a date looks like 2026-03-18") from error
        if not _YEARS[0] <= wanted.year <= _YEARS[1]:
            raise BadRequest("invalid_date", "the date is out of range")
        return timestamps.from_datetime(datetime(wanted.year, wanted.month, wanted.day, 12, tzinfo=site.zone()))

    def bounds(self, start: str | None, end: str | None, length: str | None) -> tuple[int, int]:
        """Return the span that from, to and range mean: to defaults to now, from to the range before it.

        Raises:
            BadRequest: One of them is not understood.
        """
        seconds = RANGES_SECONDS.get(length or "24h")
        if seconds is None:
            raise BadRequest("invalid_range", f"range is one of {', '.join(RANGES_SECONDS)}")
        end_us = self.now_us() if end is None else _instant("to", end)
        start_us = end_us - seconds * 1_000_000 if start is None else _instant("from", start)
        lowest = timestamps.from_datetime(datetime(1, 1, 1, tzinfo=UTC))
        return max(start_us, lowest), end_us


def _instant(name: str, text: str) -> int:
    try:
        return timestamps.from_query(text)
    except timestamps.TimestampError as error:
        raise BadRequest(f"invalid_{name}", f"{name} {error}") from error
