"""Hours and days of a station: extremes with their times, means, sums, and how much of the time they stand for.

Pure. Sampling picks single observations, so a gust between two picks vanishes and rain cannot be added up (faults B23,
B24); buckets see every observation. A bucket is half-open, [start, end), in the station's own time zone.

Coverage: an observation stands for the time since the one before it, but for no more than its report interval
(CONVERGENCE, Weather). A sum over a bucket with uncovered time is a lower bound and is marked so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, TypeGuard

import msgspec

from stormjay.ground.timestamps import format_us, from_datetime, to_datetime
from stormjay.weather.cloud.observation import ENUMERATED
from stormjay.weather.derived import SEAM_US, mean_wind
from stormjay.weather.fields import FIELDS

Unit = Literal["hour", "day"]
_QUARTER_US = 900_000_000
_MINUTE_US = 60_000_000
_HOUR_US = 3_600_000_000
_DECIMALS = 6
_DIRECTION, _SPEED = "wind_dir_deg", "wind_avg_ms"
_SUMMED = frozenset(field.cloud for field in FIELDS if field.merge == "sum")


class Span(msgspec.Struct, frozen=True):
    """A bucket's place in time, microseconds since 1970.

    Attributes:
        start_us: First moment inside.
        end_us: First moment after.
        label: The start in local time with its offset.
    """

    start_us: int
    end_us: int
    label: str


def span_of(moment_us: int, unit: Unit, zone: tzinfo) -> Span:
    """Return the hour or day that holds a moment.

    The second of a repeated hour is an hour of its own: its offset differs. A day without midnight begins where the
    clock jumped to.
    """
    local = to_datetime(moment_us).astimezone(zone)
    if unit == "hour":
        start = local.replace(minute=0, second=0, microsecond=0)
        into_us = (local.minute * 60 + local.second) * 1_000_000 + local.microsecond
        start_us = moment_us - into_us
        return Span(start_us, start_us + _HOUR_US, start.isoformat())
    midnight = datetime(local.year, local.month, local.day, tzinfo=zone)
    start_us = from_datetime(midnight)
    following = (midnight.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=zone)
    return Span(start_us, from_datetime(following), to_datetime(start_us).astimezone(zone).isoformat())


class _Values:
    """What one field had in one bucket."""

    __slots__ = ("moments", "values")

    def __init__(self) -> None:
        self.values: list[float] = []
        self.moments: list[int] = []

    def add(self, moment_us: int, value: float) -> None:
        self.values.append(value)
        self.moments.append(moment_us)

    def summary(self, name: str) -> dict[str, Any]:
        lowest = min(range(len(self.values)), key=self.values.__getitem__)
        highest = max(range(len(self.values)), key=self.values.__getitem__)
        result: dict[str, Any] = {"count": len(self.values)}
        if name != _DIRECTION:
            result["min"] = plain(self.values[lowest])
            result["min_at_utc"] = format_us(self.moments[lowest])
            result["max"] = plain(self.values[highest])
            result["max_at_utc"] = format_us(self.moments[highest])
        if name not in ENUMERATED and name != _DIRECTION:
            result["mean"] = plain(math.fsum(self.values) / len(self.values))
        if name in _SUMMED:
            result["sum"] = plain(math.fsum(self.values))
        result["first"] = plain(self.values[0])
        result["last"] = plain(self.values[-1])
        return result


class _Bucket:
    def __init__(self, span: Span) -> None:
        self.span = span
        self.moments: list[int] = []
        self.covered_us = 0
        self.fields: dict[str, _Values] = {}
        self.wind: list[tuple[float, float]] = []

    def add(self, moment_us: int, weather: Mapping[str, Any], before_us: int | None) -> None:
        self.moments.append(moment_us)
        self.covered_us += _covered_us(moment_us, weather.get("report_interval_min"), before_us)
        for field in FIELDS:
            value = weather.get(field.cloud)
            if _is_number(value):
                self.fields.setdefault(field.cloud, _Values()).add(moment_us, value)
        speed, direction = weather.get(_SPEED), weather.get(_DIRECTION)
        if _is_number(direction):
            self.wind.append((speed if _is_number(speed) else 1.0, direction))

    def summary(self, low_us: int, high_us: int) -> dict[str, Any]:
        asked_us = max(1, min(self.span.end_us, high_us + 1) - max(self.span.start_us, low_us))
        covered_us = min(self.covered_us, asked_us)
        fields = {
            field.cloud: self.fields[field.cloud].summary(field.cloud) for field in FIELDS if field.cloud in self.fields
        }
        if _DIRECTION in fields:
            wind = mean_wind(self.wind)
            direction = wind.direction_deg if wind is not None else None
            fields[_DIRECTION]["mean"] = None if direction is None else plain(direction)
        return {
            "start": format_us(self.span.start_us),
            "end": format_us(self.span.end_us),
            "local_start": self.span.label,
            "count": len(self.moments),
            "first_source_ts_utc": format_us(self.moments[0]),
            "last_source_ts_utc": format_us(self.moments[-1]),
            "covered_minutes": plain(covered_us / _MINUTE_US),
            "coverage": plain(covered_us / asked_us),
            "sums_are_lower_bounds": asked_us - covered_us > SEAM_US,
            "fields": fields,
        }


class Folder:
    """Folds observations, handed over in order of time, into buckets."""

    def __init__(self, unit: Unit, zone: tzinfo, low_us: int, high_us: int) -> None:
        """Fold what lies from ``low_us`` to ``high_us``, both inclusive, microseconds since 1970."""
        self._unit: Unit = unit
        self._zone = zone
        self._low_us, self._high_us = low_us, high_us
        self._before_us: int | None = None
        self._quarter: tuple[int, Span] | None = None
        self._open: _Bucket | None = None
        self._done: list[dict[str, Any]] = []

    def add(self, moment_us: int, weather: Mapping[str, Any]) -> None:
        """Take the next observation; its time must not be before the last one's."""
        quarter = moment_us // _QUARTER_US
        if self._quarter is None or self._quarter[0] != quarter:
            # Clocks change on quarter hours of UTC only, so the span is looked up once per quarter.
            self._quarter = (quarter, span_of(moment_us, self._unit, self._zone))
        span = self._quarter[1]
        if self._open is None or self._open.span != span:
            self._close()
            self._open = _Bucket(span)
        self._open.add(moment_us, weather, self._before_us)
        self._before_us = moment_us

    def finish(self) -> list[dict[str, Any]]:
        """Return all buckets that have observations, oldest first."""
        self._close()
        return self._done

    def _close(self) -> None:
        if self._open is not None:
            self._done.append(self._open.summary(self._low_us, self._high_us))
            self._open = None


def fold(
    observations: Iterable[tuple[int, Mapping[str, Any]]], unit: Unit, zone: tzinfo, low_us: int, high_us: int
) -> list[dict[str, Any]]:
    """Return the buckets of (moment, weather) pairs in any order."""
    folder = Folder(unit, zone, low_us, high_us)
    for moment_us, weather in sorted(observations, key=lambda pair: pair[0]):
        folder.add(moment_us, weather)
    return folder.finish()


def plain(value: float) -> float:
    """Return a number without the noise of binary fractions, whole ones as integers."""
    rounded = round(value, _DECIMALS)
    return int(rounded) if rounded == int(rounded) else rounded


def _covered_us(moment_us: int, interval_min: object, before_us: int | None) -> int:
    if not _is_number(interval_min):
        return 0
    interval_us = round(interval_min * _MINUTE_US)
    if before_us is None:
        return interval_us
    gap_us = moment_us - before_us
    return gap_us if gap_us <= interval_us + SEAM_US and interval_us else min(interval_us, gap_us)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
