"""Series for charts and the wind rose: as many points as a screen can use, extremes kept, gaps left open.

Up to ``max_points`` readings come as they are. More are gathered into equal buckets with lowest, mean, highest and, for
amounts, sum, so that no spike between two picks is lost (fault B24). Buckets are aligned to UTC and hold (start, end].
"""

# ruff: noqa: S608 - names and numbers in the SQL are constants of ours; what callers say is bound

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from stormjay.errors import BadRequest
from stormjay.ground.timestamps import format_us
from stormjay.weather import derived
from stormjay.weather.fields import BY_CLOUD, Field
from stormjay.weather.views import span
from stormjay.weather.views_rows import OWN

BUCKET_SECONDS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800)
GAP_US = 300_000_000
"""Uncovered time from which a line is broken; a single lost packet does not tear it."""
SPAN_DAYS_MAX = 400
DEFAULT_FIELDS = (
    "air_temp_c", "relative_humidity_pct", "station_pressure_hpa", "wind_avg_ms", "wind_gust_ms", "wind_dir_deg",
    "rain_interval_mm", "solar_radiation_wm2",
)  # fmt: skip
_AMOUNT = "sum"
_DIRECTION = "wind_dir_deg"

Numbers = list[float | None]


class FieldSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One value's series; all lists are as long as the series' moments.

    Attributes:
        unit, label: For people.
        mean: The reading itself, or the bucket's mean (of directions: the vector mean, weighted by speed).
        min, max: The bucket's extremes; empty lists when readings come as they are, and for directions.
        sum: For amounts (rain, strikes): the bucket's total; else empty.
    """

    unit: str
    label: str
    mean: Numbers
    min: Numbers
    max: Numbers
    sum: Numbers


class SeriesView(msgspec.Struct, frozen=True, kw_only=True):
    """Series of one station.

    Attributes:
        station: Which.
        from_utc, to_utc: The span asked for.
        bucket_seconds: Length of a bucket; 0 when readings come as they are.
        readings: How many readings stand behind it.
        t: Moments in epoch seconds: of the readings, or the starts of the buckets. At a gap one moment has no values.
        fields: By cloud name.
    """

    station: str
    from_utc: str
    to_utc: str
    bucket_seconds: int
    readings: int
    t: list[float]
    fields: dict[str, FieldSeries]


def wanted_fields(text: str | None) -> tuple[Field, ...]:
    """Return the fields that a comma-separated list of cloud names means, the usual ones for none.

    Raises:
        BadRequest: A name is unknown.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip())) if text else []
    unknown = [name for name in names if name not in BY_CLOUD]
    if unknown:
        raise BadRequest(
            "unknown_field", f"unknown fields: {', '.join(unknown)[:200]}", next_step=f"known are {', '.join(BY_CLOUD)}"
        )
    return tuple(BY_CLOUD[name] for name in names or DEFAULT_FIELDS)


def series(
    connection: sqlite3.Connection,
    station: str,
    fields: Sequence[Field],
    start_us: int,
    end_us: int,
    *,
    max_points: int = 1500,
    bucket_seconds: int | None = None,
) -> SeriesView:
    """Return the series of (start, end].

    Args:
        connection: The journal.
        station: Node id.
        fields: Which values.
        start_us: Where the span begins.
        end_us: Where it ends.
        max_points: Most points to return.
        bucket_seconds: Force buckets of at least this length (the table twins do).

    Raises:
        BadRequest: The span is reversed or over 400 days.
    """
    if end_us < start_us:
        raise BadRequest("invalid_range", "from lies after to")
    if end_us - start_us > SPAN_DAYS_MAX * 86_400_000_000:
        raise BadRequest("range_too_large", f"a series may span {SPAN_DAYS_MAX} days")
    readings = _count(connection, station, start_us, end_us)
    bucket = 0
    if bucket_seconds is not None or readings > max_points:
        fits = (each for each in BUCKET_SECONDS if (end_us - start_us) / 1e6 / each <= max_points - 1)
        bucket = max(next(fits, BUCKET_SECONDS[-1]), bucket_seconds or 0)
    moments, columns = (
        _buckets(connection, station, fields, start_us, end_us, bucket)
        if bucket
        else _as_they_are(connection, station, fields, start_us, end_us)
    )
    return SeriesView(
        station=station,
        from_utc=format_us(start_us),
        to_utc=format_us(end_us),
        bucket_seconds=bucket,
        readings=readings,
        t=moments,
        fields={field.cloud: columns[field.cloud] for field in fields},
    )


def _count(connection: sqlite3.Connection, station: str, start_us: int, end_us: int) -> int:
    return int(
        connection.execute(
            f"SELECT COUNT(*) FROM weather_readings WHERE {OWN}"
            " AND source_ts_canonical > ? AND source_ts_canonical <= ?",
            (station, format_us(start_us), format_us(end_us)),
        ).fetchone()[0]
    )


def _as_they_are(
    connection: sqlite3.Connection, station: str, fields: Sequence[Field], start_us: int, end_us: int
) -> tuple[list[float], dict[str, FieldSeries]]:
    names = ("report_interval_min", *(field.column for field in fields))
    moments: list[float] = []
    values: list[Numbers] = [[] for _ in fields]
    before_us: int | None = None
    for moment_us, interval_min, *row in span(connection, station, names, start_us, end_us):
        begin_us = moment_us - (interval_min or 0) * 60_000_000
        if before_us is not None and begin_us - before_us > GAP_US:
            moments.append((before_us + 1_000_000) / 1e6)
            for column in values:
                column.append(None)
        before_us = moment_us
        moments.append(moment_us / 1e6)
        for column, value in zip(values, row, strict=True):
            column.append(value)
    return moments, {
        field.cloud: FieldSeries(
            unit=field.unit,
            label=field.label,
            mean=column,
            min=[],
            max=[],
            sum=list(column) if field.merge == _AMOUNT else [],
        )
        for field, column in zip(fields, values, strict=True)
    }


def _buckets(
    connection: sqlite3.Connection, station: str, fields: Sequence[Field], start_us: int, end_us: int, bucket: int
) -> tuple[list[float], dict[str, FieldSeries]]:
    bucket_us = bucket * 1_000_000
    plain = [field for field in fields if field.column != _DIRECTION]
    shown = "".join(f", MIN({f.column}), AVG({f.column}), MAX({f.column})" for f in plain)
    shown += "".join(f", SUM({f.column})" for f in plain if f.merge == _AMOUNT)
    # One short walk along the identity's index per bucket: grouping by a time that is text would sort every row.
    own = f"FROM weather_readings WHERE {OWN} AND source_ts_canonical > ? AND source_ts_canonical <= ?"
    aggregates, winds = f"SELECT COUNT(*){shown} {own}", f"SELECT wind_ms, wind_dir_deg {own}"
    with_directions = len(plain) < len(fields)
    found: list[tuple[int, Any, float | None]] = []
    for number in range(start_us // bucket_us, -(-end_us // bucket_us)):
        low_us, high_us = max(start_us, number * bucket_us), min(end_us, (number + 1) * bucket_us)
        bounds = (station, format_us(low_us), format_us(high_us))
        row = connection.execute(aggregates, bounds).fetchone()
        if row[0]:
            mean = derived.mean_wind(connection.execute(winds, bounds).fetchall()) if with_directions else None
            found.append((number, row, mean.direction_deg if mean else None))
    return _spread(fields, found, bucket)


def _spread(
    fields: Sequence[Field], found: Sequence[tuple[int, Any, float | None]], bucket: int
) -> tuple[list[float], dict[str, FieldSeries]]:
    """Lay the buckets that have readings out between the first and the last; those between without any stay empty."""
    by_number = {number: (row, direction) for number, row, direction in found}
    numbers = range(found[0][0], found[-1][0] + 1) if found else range(0)
    rows = [by_number.get(number) for number in numbers]
    plain = [field for field in fields if field.column != _DIRECTION]
    amounts = [field for field in plain if field.merge == _AMOUNT]

    def column(place: int) -> Numbers:
        return [None if row is None else row[0][place] for row in rows]

    columns: dict[str, FieldSeries] = {}
    for field in fields:
        if field.column == _DIRECTION:
            low, mean, high, total = [], [None if row is None else row[1] for row in rows], [], []
        else:
            first = 1 + 3 * plain.index(field)
            low, mean, high = column(first), column(first + 1), column(first + 2)
            total = column(1 + 3 * len(plain) + amounts.index(field)) if field in amounts else []
        columns[field.cloud] = FieldSeries(unit=field.unit, label=field.label, mean=mean, min=low, max=high, sum=total)
    return [float(number * bucket) for number in numbers], columns


ROSE_CLASSES_MS = (0.3, 2.0, 4.0, 6.0, 8.0, 11.0)
"""Lower bounds of the rose's speed classes; below the first it is calm."""


class RoseView(msgspec.Struct, frozen=True, kw_only=True):
    """How often the wind came from where and how strong.

    Attributes:
        station: Which.
        from_utc, to_utc: The span.
        readings: How many readings stand behind it, calm ones included.
        calm: Readings below 0.3 m/s, which have no direction.
        classes_ms: Lower bounds of the speed classes.
        directions: The sixteen points, north first.
        counts: Per direction, per class: readings.
        mean: Vector mean over the span.
    """

    station: str
    from_utc: str
    to_utc: str
    readings: int
    calm: int
    classes_ms: tuple[float, ...]
    directions: tuple[str, ...]
    counts: list[list[int]]
    mean: derived.MeanWind | None


def rose(connection: sqlite3.Connection, station: str, start_us: int, end_us: int) -> RoseView:
    """Return the wind rose of (start, end].

    Raises:
        BadRequest: The span is reversed or over 400 days.
    """
    if end_us < start_us or end_us - start_us > SPAN_DAYS_MAX * 86_400_000_000:
        raise BadRequest("invalid_range", f"from lies after to, or more than {SPAN_DAYS_MAX} days before it")
    cases = " ".join(f"WHEN wind_ms < {bound} THEN {place}" for place, bound in enumerate(ROSE_CLASSES_MS))
    rows = connection.execute(
        f"SELECT wind_dir_deg, CASE {cases} ELSE {len(ROSE_CLASSES_MS)} END AS class, COUNT(*), SUM(wind_ms)"
        f" FROM weather_readings WHERE {OWN} AND source_ts_canonical > ? AND source_ts_canonical <= ?"
        " GROUP BY wind_dir_deg, class ORDER BY wind_dir_deg, class",
        (station, format_us(start_us), format_us(end_us)),
    ).fetchall()
    counts = [[0] * len(ROSE_CLASSES_MS) for _ in derived.COMPASS]
    calm, readings, speeds = 0, 0, 0.0
    east: list[tuple[float, float]] = []
    for direction, speed_class, count, speed_sum in rows:
        readings += count
        speeds += speed_sum
        east.append((speed_sum, direction))
        if speed_class == 0:
            calm += count
        else:
            point = derived.compass_point(direction)
            counts[derived.COMPASS.index(point or "N")][speed_class - 1] += count
    summed = derived.mean_wind(east)
    mean = None
    if summed is not None and readings:
        # The pairs above are sums per direction: scale the mean of pairs to the mean of readings.
        scale = len(east) / readings
        mean = derived.MeanWind(
            speed_ms=speeds / readings, vector_ms=summed.vector_ms * scale, direction_deg=summed.direction_deg
        )
    return RoseView(
        station=station,
        from_utc=format_us(start_us),
        to_utc=format_us(end_us),
        readings=readings,
        calm=calm,
        classes_ms=ROSE_CLASSES_MS,
        directions=derived.COMPASS,
        counts=counts,
        mean=mean,
    )
