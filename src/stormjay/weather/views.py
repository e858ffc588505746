"""What the journal says now and today: read models by SQL, each a function of the stored records, site and clock.

All times go out as UTC text in the one output form. A record of moment ts stands for the time before it, so a span
holds the records of (start, end]; "today" is the station's local day, or UTC's when its zone is not known.
Values carry the cloud's names, whose last part is the unit.
"""

# ruff: noqa: S608 - names and numbers in the SQL are constants of ours; what callers say is bound

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from stormjay.errors import NotFound
from stormjay.ground import timestamps
from stormjay.ground.timestamps import format_us, to_epoch_us
from stormjay.weather import derived
from stormjay.weather.derived import MeanWind, PressureTrend, RainTotal
from stormjay.weather.fields import FIELDS
from stormjay.weather.views_rain import RainLedger, RainTotals
from stormjay.weather.views_rows import OWN, REACH_US, canonical_us, utc_text

Number = float | int

_AHEAD_US = 86_400_000_000
_CLOCK_AHEAD_US = 300_000_000
_WIND_SPAN_US = 600_000_000
_STATIONS_MAX = 200
COLUMNS = tuple(field.column for field in FIELDS)
CLOUD_NAME = {field.column: field.cloud for field in FIELDS}
_SELECT = "SELECT id, source_name, msg_id, source_ts_utc, source_ts_canonical, received_at_utc, " + ", ".join(COLUMNS)


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a station beside its readings (DESIGN.md decision 12).

    Attributes:
        name: For people; empty when it has none.
        elevation_m: Height above sea level, or None.
        time_zone: IANA name; empty when unknown.
    """

    name: str = ""
    elevation_m: float | None = None
    time_zone: str = ""

    def zone(self) -> tzinfo:
        """Return the station's zone, or UTC when it is unknown."""
        return ZoneInfo(self.time_zone) if self.time_zone else UTC


class LocalDay(msgspec.Struct, frozen=True, kw_only=True):
    """One day of a zone, 23 to 25 hours long.

    Attributes:
        date: ``YYYY-MM-DD``.
        start_us, end_us: Its bounds.
    """

    date: str
    start_us: int
    end_us: int


def local_day(moment_us: int, zone: tzinfo) -> LocalDay:
    """Return the day of ``zone`` in which a moment lies."""
    date = timestamps.to_datetime(moment_us).astimezone(zone).date()
    start, end = (
        timestamps.from_datetime(datetime(each.year, each.month, each.day, tzinfo=zone))
        for each in (date, date + timedelta(days=1))
    )
    return LocalDay(date=date.isoformat(), start_us=start, end_us=end)


class StationView(msgspec.Struct, frozen=True, kw_only=True):
    """One station of the journal.

    Attributes:
        station: Node id.
        name: The name set for it, else the one its node gives, else the id.
        time_zone: The zone of its day; ``UTC`` when unknown.
        time_zone_known: Whether a zone is set.
        elevation_m: Height above sea level, or None.
        latest_ts_utc: Source time of its newest reading, or None.
        last_heard_utc: When anything of it was received last, or None.
    """

    station: str
    name: str
    time_zone: str
    time_zone_known: bool
    elevation_m: float | None
    latest_ts_utc: str | None
    last_heard_utc: str | None


def station_view(connection: sqlite3.Connection, station: str, site: Site, now_us: int) -> StationView:
    """Return what heads every view of one station.

    Raises:
        NotFound: The journal has nothing of it and no site is known.
    """
    status = connection.execute(
        "SELECT source_name, last_heard_at_utc, last_weather_at_utc FROM device_status_current"
        " WHERE source_node_id = ?",
        (station,),
    ).fetchone()
    row = connection.execute(
        f"SELECT source_ts_canonical, source_name, received_at_utc FROM weather_readings WHERE {OWN}"
        " AND source_ts_canonical <= ? ORDER BY source_ts_canonical DESC LIMIT 1",
        (station, format_us(now_us + _AHEAD_US)),
    ).fetchone()
    if status is None and row is None and site == Site():
        raise NotFound("unknown_station", f"the journal has heard nothing of {station}")
    given = next((each["source_name"] for each in (status, row) if each is not None and each["source_name"]), None)
    heard = [text for text in (*(status or ())[1:], row["received_at_utc"] if row else None) if text]
    return StationView(
        station=station,
        name=site.name or given or station,
        time_zone=site.time_zone or "UTC",
        time_zone_known=bool(site.time_zone),
        elevation_m=site.elevation_m,
        latest_ts_utc=row["source_ts_canonical"] if row else None,
        last_heard_utc=max((text for text in map(utc_text, heard) if text), default=None),
    )


def stations(connection: sqlite3.Connection, sites: Mapping[str, Site], now_us: int) -> list[StationView]:
    """Return all stations that ever sent weather or are set, the most recently heard first."""
    # Hops from one id to the next along the index, instead of reading every row for its id.
    rows = connection.execute(
        "WITH RECURSIVE known(node) AS (SELECT MIN(source_node_id) FROM weather_readings UNION ALL"
        " SELECT (SELECT MIN(source_node_id) FROM weather_readings WHERE source_node_id > known.node) FROM known"
        f" WHERE known.node IS NOT NULL LIMIT {_STATIONS_MAX}) SELECT node FROM known WHERE node IS NOT NULL"
    ).fetchall()
    ids = sorted({row[0] for row in rows} | set(sites))
    views = [station_view(connection, each, sites.get(each, Site()), now_us) for each in ids]
    return sorted(views, key=lambda view: (view.latest_ts_utc or "", view.last_heard_utc or ""), reverse=True)


class ReadingView(msgspec.Struct, frozen=True, kw_only=True):
    """One stored reading.

    Attributes:
        id: Its row, for the packet view.
        source_ts_utc: When the station measured it.
        received_at_utc: When it was captured.
        age_seconds: How long ago it was measured, by the clock here.
        clock_ahead_seconds: How far the station's clock ran ahead of ours at capture; 0 within five minutes.
        values: By cloud name; None where the station had no value.
    """

    id: int
    source_ts_utc: str
    received_at_utc: str
    age_seconds: float
    clock_ahead_seconds: float
    values: dict[str, Number | None]


class At(msgspec.Struct, frozen=True, kw_only=True):
    """A value and when it was measured."""

    value: Number
    at_utc: str


class DerivedView(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from a reading; None where it is not defined or a piece is missing."""

    dew_point_c: float | None
    feels_like_c: float | None
    wet_bulb_c: float | None
    heat_index_c: float | None
    wind_chill_c: float | None
    sea_level_pressure_hpa: float | None
    altimeter_setting_hpa: float | None
    rain_rate_mm_h: float | None
    beaufort_force: int | None
    beaufort_name: str | None
    compass_point: str | None


class NowView(msgspec.Struct, frozen=True, kw_only=True):
    """A station at this moment.

    Attributes:
        station: Which.
        as_of_utc: The clock that the ages go by.
        reading: The newest reading, or None when there is none.
        derived: What follows from it.
        pressure_trend: Over the three hours up to it.
        wind_10min: Vector mean of the ten minutes up to it.
        gust_today: The highest gust of the local day so far.
        rain: Totals; each says whether it is only a lower bound.
    """

    station: StationView
    as_of_utc: str
    reading: ReadingView | None
    derived: DerivedView | None
    pressure_trend: PressureTrend | None
    wind_10min: MeanWind | None
    gust_today: At | None
    rain: RainTotals


def now(
    connection: sqlite3.Connection, station: str, site: Site, now_us: int, rain: RainLedger, fresh_seconds: float
) -> NowView:
    """Return the newest reading with what follows from it.

    Args:
        connection: The journal.
        station: Node id.
        site: What is known of it.
        now_us: The clock.
        rain: Sums of past days; changes no result.
        fresh_seconds: While the newest reading is younger, the time since it does not count as uncovered.

    Raises:
        NotFound: The station is unknown.
    """
    view = station_view(connection, station, site, now_us)
    latest_us = to_epoch_us(view.latest_ts_utc) if view.latest_ts_utc else None
    row = _latest_row(connection, station, view.latest_ts_utc)
    day = local_day(now_us, site.zone())
    gusts = span(connection, station, ("wind_gust_ms",), day.start_us, min(day.end_us, now_us + _AHEAD_US))
    gust = derived.highest((ts, value) for ts, value in gusts)
    return NowView(
        station=view,
        as_of_utc=format_us(now_us),
        reading=None if row is None else reading_view(row, now_us),
        derived=None if row is None else derive(row, site),
        pressure_trend=None if latest_us is None else _trend(connection, station, latest_us),
        wind_10min=None if latest_us is None else _wind(connection, station, latest_us),
        gust_today=None if gust is None else At(value=gust[1], at_utc=format_us(gust[0])),
        rain=rain.totals(connection, station, site.zone(), _accounted_until(now_us, latest_us, fresh_seconds)),
    )


def _accounted_until(now_us: int, latest_us: int | None, fresh_seconds: float) -> int:
    """Return where totals end: at the newest reading while the station is in time, else now."""
    if latest_us is not None and now_us - latest_us <= fresh_seconds * 1e6:
        return latest_us
    return now_us


def _latest_row(connection: sqlite3.Connection, station: str, ts: str | None) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        f"{_SELECT} FROM weather_readings WHERE {OWN} AND source_ts_canonical = ?", (station, ts)
    ).fetchone()
    return row


def reading_view(row: sqlite3.Row, now_us: int) -> ReadingView:
    """Return a row of ``weather_readings`` for people and programs."""
    ts_us = to_epoch_us(row["source_ts_canonical"])
    received = utc_text(row["received_at_utc"])
    ahead_us = ts_us - to_epoch_us(received) if received else 0
    return ReadingView(
        id=row["id"],
        source_ts_utc=row["source_ts_canonical"],
        received_at_utc=received or "",
        age_seconds=(now_us - ts_us) / 1e6,
        clock_ahead_seconds=ahead_us / 1e6 if ahead_us > _CLOCK_AHEAD_US else 0.0,
        values={CLOUD_NAME[column]: row[column] for column in COLUMNS},
    )


def derive(row: Mapping[str, Any] | sqlite3.Row, site: Site) -> DerivedView:
    """Return what follows from the columns of one reading."""
    temp_c, humidity_pct, wind_ms = row["temp_c"], row["humidity_pct"], row["wind_ms"]
    force = derived.beaufort(wind_ms)
    return DerivedView(
        dew_point_c=derived.dew_point_c(temp_c, humidity_pct),
        feels_like_c=derived.feels_like_c(temp_c, humidity_pct, wind_ms),
        wet_bulb_c=derived.wet_bulb_c(temp_c, humidity_pct),
        heat_index_c=derived.heat_index_c(temp_c, humidity_pct),
        wind_chill_c=derived.wind_chill_c(temp_c, wind_ms),
        sea_level_pressure_hpa=derived.sea_level_pressure_hpa(
            row["pressure_hpa"], site.elevation_m, temp_c, humidity_pct
        ),
        altimeter_setting_hpa=derived.altimeter_setting_hpa(row["pressure_hpa"], site.elevation_m),
        rain_rate_mm_h=derived.rain_rate_mm_h(row["rain_mm"], row["report_interval_min"]),
        beaufort_force=None if force is None else force[0],
        beaufort_name=None if force is None else force[1],
        compass_point=derived.compass_point(row["wind_dir_deg"]) if wind_ms else None,
    )


def span(
    connection: sqlite3.Connection, station: str, columns: Sequence[str], start_us: int, end_us: int
) -> list[tuple[Any, ...]]:
    """Return (moment, columns...) of the readings of (start, end], by time. Column names are ours, never a caller's."""
    rows = connection.execute(
        f"SELECT source_ts_canonical, {', '.join(columns)} FROM weather_readings WHERE {OWN}"
        " AND source_ts_canonical > ? AND source_ts_canonical <= ? ORDER BY source_ts_canonical",
        (station, format_us(start_us), format_us(end_us)),
    )
    return [(canonical_us(row[0]), *row[1:]) for row in rows]


def _trend(connection: sqlite3.Connection, station: str, latest_us: int) -> PressureTrend | None:
    reach_us = derived.TREND_SPAN_US + derived.TREND_SLACK_US
    return derived.pressure_trend(span(connection, station, ("pressure_hpa",), latest_us - reach_us - 1, latest_us))


def _wind(connection: sqlite3.Connection, station: str, latest_us: int) -> MeanWind | None:
    rows = span(connection, station, ("wind_ms", "wind_dir_deg"), latest_us - _WIND_SPAN_US, latest_us)
    return derived.mean_wind([(speed, direction) for _, speed, direction in rows])


class Extremes(msgspec.Struct, frozen=True, kw_only=True):
    """Lowest and highest of one value over a day; of equals the earliest."""

    unit: str
    label: str
    lowest: At
    highest: At
    mean: float
    count: int


class DayView(msgspec.Struct, frozen=True, kw_only=True):
    """A station's local day so far.

    Attributes:
        station: Which.
        date: The local date.
        start_utc, end_utc: The day's bounds.
        readings: How many readings it has.
        extremes: By value name; only values that were measured.
        rain: Total with its coverage.
        lightning_strike_count: Strikes counted.
    """

    station: StationView
    date: str
    start_utc: str
    end_utc: str
    readings: int
    extremes: dict[str, Extremes]
    rain: RainTotal
    lightning_strike_count: int


DAY_COLUMNS = (
    "temp_c", "humidity_pct", "pressure_hpa", "wind_ms", "wind_gust_ms", "uv_index", "solar_radiation_wm2",
    "illuminance_lux", "battery_voltage_v",
)  # fmt: skip
_EXTRA_COLUMNS = ("lightning_strike_count", "rain_mm", "report_interval_min")


def day(
    connection: sqlite3.Connection, station: str, site: Site, moment_us: int, now_us: int, fresh_seconds: float
) -> DayView:
    """Return lowest and highest with their times of the local day that holds ``moment_us``.

    Raises:
        NotFound: The station is unknown.
    """
    view = station_view(connection, station, site, now_us)
    of = local_day(moment_us, site.zone())
    rows = span(connection, station, (*DAY_COLUMNS, *_EXTRA_COLUMNS), of.start_us, of.end_us + REACH_US)
    inside = [row for row in rows if row[0] <= of.end_us]
    latest_us = to_epoch_us(view.latest_ts_utc) if view.latest_ts_utc else None
    rain_end_us = max(of.start_us, min(of.end_us, _accounted_until(now_us, latest_us, fresh_seconds)))
    series = {column: [(row[0], row[1 + place]) for row in inside] for place, column in enumerate(DAY_COLUMNS)}
    extremes = {CLOUD_NAME[field.column]: _extremes(field.unit, field.label, series[field.column])
                for field in FIELDS if field.column in series}  # fmt: skip
    dew = [(row[0], derived.dew_point_c(row[1], row[2])) for row in inside]
    feels = [(row[0], derived.feels_like_c(row[1], row[2], row[4])) for row in inside]
    extremes["dew_point_c"] = _extremes("°C", "Dew point", dew)
    extremes["feels_like_c"] = _extremes("°C", "Feels like", feels)
    if site.elevation_m is not None:
        sea = [(row[0], derived.sea_level_pressure_hpa(row[3], site.elevation_m, row[1], row[2])) for row in inside]
        extremes["sea_level_pressure_hpa"] = _extremes("hPa", "Sea-level pressure", sea)
    return DayView(
        station=view,
        date=of.date,
        start_utc=format_us(of.start_us),
        end_utc=format_us(of.end_us),
        readings=len(inside),
        extremes={name: value for name, value in extremes.items() if value is not None},
        rain=derived.rain_total([(row[0], row[-2], row[-1]) for row in rows], of.start_us, rain_end_us),
        lightning_strike_count=sum(row[-3] or 0 for row in inside),
    )


def _extremes(unit: str, label: str, series: Sequence[tuple[int, Number | None]]) -> Extremes | None:
    low, high = derived.lowest(series), derived.highest(series)
    if low is None or high is None:
        return None
    known = [value for _, value in series if value is not None]
    return Extremes(
        unit=unit,
        label=label,
        lowest=At(value=low[1], at_utc=format_us(low[0])),
        highest=At(value=high[1], at_utc=format_us(high[0])),
        mean=sum(known) / len(known),
        count=len(known),
    )
