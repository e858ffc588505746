"""Rain of today, the last 24 hours, this month and this year, without reading a year of rows for every page.

Past days are summed once and kept in memory. A new row names the days it touches by its id, which only grows, and
those are summed again from the rows; so the answer is always the one that a full sum would give.
"""

# ruff: noqa: S608 - names and numbers in the SQL are constants of ours; what callers say is bound

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo

import msgspec

from stormjay.ground import timestamps
from stormjay.ground.timestamps import format_us
from stormjay.weather.derived import RainTotal, add_rain, rain_total
from stormjay.weather.views_rows import OWN, REACH_US, canonical_us

_DAY = timedelta(days=1)
_DAY_US = 86_400_000_000


class RainTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Rain up to now; days, months and years are the station's own."""

    today: RainTotal
    last_24h: RainTotal
    month: RainTotal
    year: RainTotal


@dataclass
class _Kept:
    """Sums of one station's past days, and up to which row they were reckoned."""

    lowest_id: int
    last_id: int
    days: dict[date, RainTotal] = field(default_factory=dict)


class RainLedger:
    """Day sums of the stations asked for lately; any number of threads may ask."""

    def __init__(self, *, stations_max: int = 32) -> None:
        """Keep at most ``stations_max`` stations, each with the days of one year (about 100 kB)."""
        self._stations_max = stations_max
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def totals(self, connection: sqlite3.Connection, station: str, zone: tzinfo, end_us: int) -> RainTotals:
        """Return the four totals up to ``end_us``."""
        today = timestamps.to_datetime(end_us).astimezone(zone).date()
        so_far = _sum(connection, station, _midnight_us(today, zone), end_us)
        with self._lock:
            days = self._days(connection, station, zone, today)
            month = [days[each] for each in sorted(days) if each.month == today.month]
            year = [days[each] for each in sorted(days)]
        return RainTotals(
            today=so_far,
            last_24h=_sum(connection, station, end_us - _DAY_US, end_us),
            month=add_rain([*month, so_far]),
            year=add_rain([*year, so_far]),
        )

    def _days(self, connection: sqlite3.Connection, station: str, zone: tzinfo, today: date) -> dict[date, RainTotal]:
        """Return the sums of all days of this year before today."""
        lowest_id, last_id = connection.execute(
            "SELECT (SELECT MIN(id) FROM weather_readings), (SELECT MAX(id) FROM weather_readings)"
        ).fetchone()
        key = (station, str(zone))
        kept = self._kept.get(key)
        if kept is None or kept.lowest_id != (lowest_id or 0) or kept.last_id > (last_id or 0):
            kept = _Kept(lowest_id or 0, last_id or 0)  # first question, or retention has passed over some rows
            self._kept[key] = kept
            while len(self._kept) > self._stations_max:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        for touched in _touched(connection, station, kept.last_id, zone):
            kept.days.pop(touched, None)
        kept.last_id = last_id or 0
        first = date(today.year, 1, 1)
        kept.days = {each: total for each, total in kept.days.items() if first <= each < today}
        for number in range((today - first).days):
            each = first + number * _DAY
            if each not in kept.days:
                kept.days[each] = _sum(connection, station, _midnight_us(each, zone), _midnight_us(each + _DAY, zone))
        return kept.days


def _touched(connection: sqlite3.Connection, station: str, after_id: int, zone: tzinfo) -> set[date]:
    rows = connection.execute(
        # The plus sign keeps SQLite from walking all rows of the station: few rows are newer than that id.
        f"SELECT source_ts_canonical FROM weather_readings WHERE id > ? AND +{OWN} AND source_ts_canonical IS NOT NULL",
        (after_id, station),
    )
    moments = [canonical_us(row[0]) for row in rows]
    reaches = (moment - offset for moment in moments for offset in (0, 1, REACH_US))
    return {timestamps.to_datetime(moment).astimezone(zone).date() for moment in reaches}


def _midnight_us(day: date, zone: tzinfo) -> int:
    return timestamps.from_datetime(datetime(day.year, day.month, day.day, tzinfo=zone))


def _sum(connection: sqlite3.Connection, station: str, start_us: int, end_us: int) -> RainTotal:
    rows = connection.execute(
        "SELECT source_ts_canonical, rain_mm, report_interval_min FROM weather_readings"
        f" WHERE {OWN} AND source_ts_canonical > ? AND source_ts_canonical <= ?",
        (station, format_us(start_us), format_us(end_us + REACH_US)),
    )
    return rain_total([(canonical_us(row[0]), row[1], row[2]) for row in rows], start_us, end_us)
