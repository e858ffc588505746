"""What stands in the tiles: the newest values in words and numbers, ready for the template."""

from __future__ import annotations

import msgspec

from stormjay.weather.derived import PRECIPITATION_TYPES, compass_point
from stormjay.weather.page.show import DASH, coverage, duration, number, rain, value
from stormjay.weather.views import DayView, NowView
from stormjay.weather.views_link import ConditionView


class Low(msgspec.Struct, frozen=True, kw_only=True):
    """One end of the day: what, when, and the word for it."""

    word: str
    text: str
    at_utc: str


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    """One tile.

    Attributes:
        key: Its name in the page; stays the same from one update to the next.
        label: Heading.
        text: The value, rounded.
        unit: Its unit.
        note: One line under it.
        ends: Lowest and highest of today with their times.
        rows: Further name and text pairs.
        arrow_deg: Direction that an arrow points to, or None.
        warning: The value needs attention.
    """

    key: str
    label: str
    text: str
    unit: str
    note: str = ""
    ends: tuple[Low, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    arrow_deg: float | None = None
    warning: bool = False


def headline(view: NowView, day: DayView) -> Tile:
    """Return the temperature."""
    values = view.reading.values if view.reading else {}
    feels = view.derived.feels_like_c if view.derived else None
    return Tile(
        key="temperature",
        label="Temperature",
        text=value("air_temp_c", values.get("air_temp_c")),
        unit="°C",
        note=f"Feels like {value('feels_like_c', feels)} °C" if feels is not None else "",
        ends=_ends(day, "air_temp_c"),
    )


def tiles(view: NowView, day: DayView, condition: ConditionView) -> list[Tile]:
    """Return the tiles under the headline."""
    values = view.reading.values if view.reading else {}
    return [
        _humidity(view, day),
        _wind(view, day),
        _pressure(view, day),
        _rain(view, values),
        _sun(values, day),
        _lightning(values, day),
        _battery(values, condition),
    ]


def _ends(day: DayView, name: str, *, decimals: str | None = None) -> tuple[Low, ...]:
    extremes = day.extremes.get(name)
    if extremes is None:
        return ()
    shown = decimals or name
    return (
        Low(word="low", text=value(shown, extremes.lowest.value), at_utc=extremes.lowest.at_utc),
        Low(word="high", text=value(shown, extremes.highest.value), at_utc=extremes.highest.at_utc),
    )


def _humidity(view: NowView, day: DayView) -> Tile:
    values = view.reading.values if view.reading else {}
    found = view.derived
    return Tile(
        key="humidity",
        label="Humidity",
        text=value("relative_humidity_pct", values.get("relative_humidity_pct")),
        unit="%",
        ends=_ends(day, "relative_humidity_pct"),
        rows=(
            ("Dew point", f"{value('dew_point_c', found.dew_point_c)} °C" if found else DASH),
            ("Wet bulb", f"{value('wet_bulb_c', found.wet_bulb_c)} °C" if found and found.wet_bulb_c is not None else DASH),  # noqa: E501 - one row, one line
        ),
    )  # fmt: skip


def _wind(view: NowView, day: DayView) -> Tile:
    values = view.reading.values if view.reading else {}
    found, mean = view.derived, view.wind_10min
    direction, point = values.get("wind_dir_deg"), found.compass_point if found else None
    words = [found.beaufort_name.capitalize()] if found and found.beaufort_name else []
    if point is not None and direction is not None:
        words.append(f"from {point}, {direction:.0f}°")
    ten = DASH
    if mean is not None:
        from_where = compass_point(mean.direction_deg)
        ten = f"{number(mean.speed_ms, 1)} m/s{f' {from_where}' if from_where and mean.vector_ms > 0 else ''}"
    gust = day.extremes.get("wind_gust_ms")
    ends = (
        (Low(word="top gust", text=value("wind_gust_ms", gust.highest.value), at_utc=gust.highest.at_utc),)
        if gust
        else ()
    )
    return Tile(
        key="wind",
        label="Wind",
        text=value("wind_avg_ms", values.get("wind_avg_ms")),
        unit="m/s",
        note=" ".join(words),
        ends=ends,
        rows=(("Gust", f"{value('wind_gust_ms', values.get('wind_gust_ms'))} m/s"), ("10 min", ten)),
        arrow_deg=None if point is None or direction is None else (direction + 180) % 360,
    )


def _pressure(view: NowView, day: DayView) -> Tile:
    values = view.reading.values if view.reading else {}
    sea = view.derived.sea_level_pressure_hpa if view.derived else None
    station = values.get("station_pressure_hpa")
    trend = view.pressure_trend
    note = ""
    if trend is not None:
        sign = "+" if trend.change_hpa >= 0.05 else ""  # noqa: PLR2004 - what rounds to +0.1
        note = f"{trend.word.capitalize()}, {sign}{number(trend.change_hpa, 1)} hPa in 3\u00a0h"
    name = "station_pressure_hpa" if sea is None else "sea_level_pressure_hpa"
    rows = (("Station", f"{number(station, 1)} hPa"),) if sea is not None else (("Sea level", "elevation not set"),)
    return Tile(
        key="pressure",
        label="Sea-level pressure" if sea is not None else "Station pressure",
        text=number(station if sea is None else sea, 1),
        unit="hPa",
        note=note,
        ends=_ends(day, name),
        rows=rows if view.reading else (),
    )


def _rain(view: NowView, values: dict[str, float | int | None]) -> Tile:
    totals, rate = view.rain, view.derived.rain_rate_mm_h if view.derived else None
    falls = rate is not None and rate > 0
    kind = PRECIPITATION_TYPES.get(int(values.get("precipitation_type") or 0), "")
    what = kind.capitalize() if kind not in {"", "none"} else "Rain"
    return Tile(
        key="rain",
        label="Rain today",
        text=rain(totals.today),
        unit="mm",
        note=f"{what} now, {number(rate, 1)} mm/h" if falls else coverage(totals.today).capitalize(),
        rows=(
            ("24 hours", f"{rain(totals.last_24h)} mm"),
            ("Month", f"{rain(totals.month)} mm"),
            ("Year", f"{rain(totals.year)} mm"),
        ),
    )


def _sun(values: dict[str, float | int | None], day: DayView) -> Tile:
    top = day.extremes.get("solar_radiation_wm2")
    lux, uv = values.get("illuminance_lux"), values.get("uv_index")
    return Tile(
        key="sun",
        label="Sun",
        text=value("solar_radiation_wm2", values.get("solar_radiation_wm2")),
        unit="W/m²",
        ends=()
        if top is None
        else (Low(word="high", text=value("solar_radiation_wm2", top.highest.value), at_utc=top.highest.at_utc),),
        rows=(
            ("UV index", value("uv_index", uv)),
            ("Light", DASH if lux is None else f"{number(lux / 1000, 1)} klx"),
        ),
    )


def _lightning(values: dict[str, float | int | None], day: DayView) -> Tile:
    count, distance = day.lightning_strike_count, values.get("lightning_avg_distance_km")
    struck = bool(values.get("lightning_strike_count"))
    return Tile(
        key="lightning",
        label="Lightning today",
        text=str(count),
        unit="strike" if count == 1 else "strikes",
        note=f"Newest about {distance:.0f} km away" if struck and distance is not None else "",
        warning=struck,
    )


def _battery(values: dict[str, float | int | None], condition: ConditionView) -> Tile:
    volts = values.get("battery_voltage_v")
    volts = condition.battery_voltage_v if volts is None else volts
    if condition.sensor_faults is None:
        sensors = "Sensors: not said yet"
    else:
        sensors = "; ".join(condition.sensor_faults).capitalize() or "All sensors fine"
    up = condition.device_uptime_seconds
    return Tile(
        key="battery",
        label="Station",
        text=value("battery_voltage_v", volts),
        unit="V",
        note=sensors,
        rows=(
            ("Running for", DASH if up is None else duration(up)),
            ("Firmware", condition.firmware or DASH),
        ),
        warning=bool(condition.sensor_faults) or condition.state == "low_battery",
    )
