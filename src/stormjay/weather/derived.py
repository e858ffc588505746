"""Values that a weather person expects and no sensor measures: pure arithmetic, every formula with its source.

No function reads a clock. None in gives None out; so does a value outside the range that a formula was made for,
because a number that looks measured and is not is worse than a gap. Temperatures are in °C, pressures in hPa, speeds
in m/s, directions in degrees from which the wind blows, rain in mm, moments in microseconds since 1970 UTC.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

_MINUTE_US = 60_000_000
_HOUR_US = 3_600_000_000
SEAM_US = 15_000_000
"""Gaps between neighbouring readings up to this long are the drift of the station's clock, not missing time."""
TREND_SPAN_US = 3 * _HOUR_US
TREND_SLACK_US = 15 * _MINUTE_US
"""How far from three hours ago the older reading of a pressure trend may lie."""

# --- the air -----------------------------------------------------------------------------------------------------


def vapour_pressure_hpa(temp_c: float | None, humidity_pct: float | None) -> float | None:
    """Return the partial pressure of water vapour, hPa.

    Source: Magnus form with the coefficients of Alduchov and Eskridge (1996), J. Appl. Meteor. 35, 601-609, over water.
    """
    if temp_c is None or humidity_pct is None:
        return None
    return humidity_pct / 100 * 6.1094 * math.exp(17.625 * temp_c / (243.04 + temp_c))


def dew_point_c(temp_c: float | None, humidity_pct: float | None) -> float | None:
    """Return the temperature at which this air would be saturated over water, °C; None at zero humidity.

    Source: Magnus form inverted, coefficients of Alduchov and Eskridge (1996), good to 0.4 % of the vapour pressure
    from -40 to 50 °C.
    """
    if temp_c is None or humidity_pct is None or humidity_pct <= 0:
        return None
    gamma = math.log(humidity_pct) - math.log(100) + 17.625 * temp_c / (243.04 + temp_c)
    return 243.04 * gamma / (17.625 - gamma)


def wet_bulb_c(temp_c: float | None, humidity_pct: float | None) -> float | None:
    """Return the wet-bulb temperature at sea-level pressure, °C; saturated air has its own temperature.

    Source: Stull (2011), J. Appl. Meteor. Climatol. 50, 2267-2269, an empirical fit within -1.0 to +0.65 K. Its range
    is 5 to 99 % and -20 to 50 °C without the corner that is both cold and dry (below the line
    T = 27.7 - 2.27 RH of his figure); outside None is returned. Between 99 and 100 % the result runs straight to T.
    """
    if temp_c is None or humidity_pct is None:
        return None
    if not (5 <= humidity_pct <= 100 and -20 <= temp_c <= 50) or temp_c < 27.7 - 2.27 * humidity_pct:  # noqa: PLR2004 - the paper's range
        return None
    humidity = min(humidity_pct, 99.0)
    fit = (
        temp_c * math.atan(0.151977 * math.sqrt(humidity + 8.313659))
        + math.atan(temp_c + humidity)
        - math.atan(humidity - 1.676331)
        + 0.00391838 * humidity * math.sqrt(humidity) * math.atan(0.023101 * humidity)
        - 4.686035
    )
    wet_bulb: float = fit + (temp_c - fit) * (humidity_pct - humidity)
    return wet_bulb


def heat_index_c(temp_c: float | None, humidity_pct: float | None) -> float | None:
    """Return the heat index, °C, or None below 80 °F (26.7 °C), where it is not defined.

    Source: US National Weather Service, "The Heat Index Equation": Rothfusz regression (SR 90-23, 1990) with the
    adjustments for dry and for humid air, and Steadman's simple form where that gives less than 80 °F.
    """
    if temp_c is None or humidity_pct is None:
        return None
    t, rh = temp_c * 1.8 + 32, humidity_pct
    if t < 80:  # noqa: PLR2004 - 80 °F is where the scale begins
        return None
    simple = (0.5 * (t + 61 + (t - 68) * 1.2 + rh * 0.094) + t) / 2
    if simple < 80:  # noqa: PLR2004 - see above
        return (simple - 32) / 1.8
    index = (
        -42.379
        + 2.04901523 * t
        + 10.14333127 * rh
        - 0.22475541 * t * rh
        - 6.83783e-3 * t * t
        - 5.481717e-2 * rh * rh
        + 1.22874e-3 * t * t * rh
        + 8.5282e-4 * t * rh * rh
        - 1.99e-6 * t * t * rh * rh
    )
    if rh < 13 and t <= 112:  # noqa: PLR2004 - bounds of the dry adjustment
        index -= (13 - rh) / 4 * math.sqrt((17 - abs(t - 95)) / 17)
    elif rh > 85 and t <= 87:  # noqa: PLR2004 - bounds of the humid adjustment
        index += (rh - 85) / 10 * (87 - t) / 5
    return (index - 32) / 1.8


def wind_chill_c(temp_c: float | None, wind_ms: float | None) -> float | None:
    """Return the wind chill, °C, or None above 10 °C or in less than 4.8 km/h of wind, where it is not defined.

    Source: the index that Environment Canada and the US National Weather Service share since 2001 (Osczevski and
    Bluestein 2005, Bull. Amer. Meteor. Soc. 86, 1453-1458), wind at 10 m height.
    """
    if temp_c is None or wind_ms is None:
        return None
    speed_kmh = wind_ms * 3.6
    if temp_c > 10 or speed_kmh < 4.8:  # noqa: PLR2004 - the range of the index
        return None
    factor: float = speed_kmh**0.16
    return 13.12 + 0.6215 * temp_c - 11.37 * factor + 0.3965 * temp_c * factor


def feels_like_c(temp_c: float | None, humidity_pct: float | None, wind_ms: float | None) -> float | None:
    """Return wind chill where that is defined, else heat index where that is, else the temperature itself, °C."""
    for value in (wind_chill_c(temp_c, wind_ms), heat_index_c(temp_c, humidity_pct)):
        if value is not None:
            return value
    return temp_c


# --- pressure ----------------------------------------------------------------------------------------------------


def sea_level_pressure_hpa(
    pressure_hpa: float | None, elevation_m: float | None, temp_c: float | None, humidity_pct: float | None = None
) -> float | None:
    """Return the pressure reduced to mean sea level, hPa.

    Source: the reduction of WMO-No. 8 (Guide to Instruments, part I, chapter 3) as the German weather service writes
    it: p exp(g/R h / (T + e Ch + a h/2)), with a = 6.5 K/km, Ch = 0.12 K/hPa and the vapour pressure e from humidity
    (none given: dry air). Meant for stations below about 750 m; above that it is a convention.
    """
    if pressure_hpa is None or elevation_m is None or temp_c is None:
        return None
    vapour_hpa = vapour_pressure_hpa(temp_c, humidity_pct) or 0.0
    column_k = temp_c + 273.15 + vapour_hpa * 0.12 + 0.0065 * elevation_m / 2
    return pressure_hpa * math.exp(9.80665 / 287.05 * elevation_m / column_k)


def altimeter_setting_hpa(pressure_hpa: float | None, elevation_m: float | None) -> float | None:
    """Return the altimeter setting (QNH), hPa: the reduction by the standard atmosphere, without today's temperature.

    Source: Smithsonian Meteorological Tables, 6th edition, table 67, as the US National Weather Service computes it
    (instrument 3 m, 0.3 hPa, above the ground).
    """
    if pressure_hpa is None or elevation_m is None or pressure_hpa <= 0.3:  # noqa: PLR2004 - see the docstring
        return None
    exponent = 0.190284
    ground = pressure_hpa - 0.3
    ratio: float = 1 + (1013.25**exponent * 0.0065 / 288) * (elevation_m / ground**exponent)
    return ground * ratio ** (1 / exponent) if ratio > 0 else None


class PressureTrend(msgspec.Struct, frozen=True, kw_only=True):
    """How pressure moved over about three hours.

    Attributes:
        change_hpa: The newest minus the older, scaled to exactly three hours.
        word: Steady below 1 hPa either way; quickly from 3.6 hPa on.
    """

    change_hpa: float
    word: str


def pressure_trend(readings: Iterable[tuple[int, float]]) -> PressureTrend | None:
    """Return the three-hour trend up to the newest of (moment, pressure) pairs, or None without one three hours older.

    Source: the tendency of WMO-No. 306 (code form FM-12, group 5appp) covers three hours; from 3.6 hPa on the UK Met
    Office calls a change "quickly"; below 1 hPa it is called steady here, as Tempest's own displays do.
    """
    ordered = sorted(readings)
    if not ordered:
        return None
    newest_us, newest_hpa = ordered[-1]
    wanted_us = newest_us - TREND_SPAN_US
    older_us, older_hpa = min(ordered, key=lambda pair: (abs(pair[0] - wanted_us), pair[0]))
    if abs(older_us - wanted_us) > TREND_SLACK_US:
        return None
    change_hpa = (newest_hpa - older_hpa) * TREND_SPAN_US / (newest_us - older_us)
    if abs(change_hpa) < 1.0:
        return PressureTrend(change_hpa=change_hpa, word="steady")
    pace = " quickly" if abs(change_hpa) >= 3.6 else ""  # noqa: PLR2004 - the docstring's source
    return PressureTrend(change_hpa=change_hpa, word=("rising" if change_hpa > 0 else "falling") + pace)


# --- wind --------------------------------------------------------------------------------------------------------

BEAUFORT = (
    (0.3, "calm"),
    (1.6, "light air"),
    (3.4, "light breeze"),
    (5.5, "gentle breeze"),
    (8.0, "moderate breeze"),
    (10.8, "fresh breeze"),
    (13.9, "strong breeze"),
    (17.2, "near gale"),
    (20.8, "gale"),
    (24.5, "strong gale"),
    (28.5, "storm"),
    (32.7, "violent storm"),
    (math.inf, "hurricane force"),
)
"""Upper bound (exclusive, m/s) and name of the forces 0 to 12: WMO-No. 306, code table 1100."""

COMPASS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")


def beaufort(wind_ms: float | None) -> tuple[int, str] | None:
    """Return Beaufort force and its name."""
    if wind_ms is None:
        return None
    force = next(force for force, (below, _) in enumerate(BEAUFORT) if wind_ms < below)
    return force, BEAUFORT[force][1]


def compass_point(direction_deg: float | None) -> str | None:
    """Return which of the sixteen points a direction lies nearest to."""
    if direction_deg is None:
        return None
    return COMPASS[int((direction_deg % 360 + 11.25) // 22.5) % 16]


class MeanWind(msgspec.Struct, frozen=True, kw_only=True):
    """Wind over a span.

    Attributes:
        speed_ms: Mean of the speeds, whatever their direction.
        vector_ms: Length of the mean vector: what the wind carried away.
        direction_deg: From where, weighted by speed; None when the vectors cancel.
    """

    speed_ms: float
    vector_ms: float
    direction_deg: float | None


def mean_wind(readings: Sequence[tuple[float, float]]) -> MeanWind | None:
    """Return the mean of (speed, direction) pairs as vectors, so that 350° and 10° give north.

    Source: US EPA-454/R-99-005 (2000), section 6.2.2.
    """
    if not readings:
        return None
    east = math.fsum(-speed * math.sin(math.radians(direction)) for speed, direction in readings) / len(readings)
    north = math.fsum(-speed * math.cos(math.radians(direction)) for speed, direction in readings) / len(readings)
    speed_ms = math.fsum(speed for speed, _ in readings) / len(readings)
    vector_ms = math.hypot(east, north)
    # Rounding leaves about 1e-16 of vectors that cancel; that residue has no direction. A remainder of a tiny negative
    # number is 360 itself, so it is taken twice.
    direction = math.degrees(math.atan2(-east, -north)) % 360 % 360 if vector_ms > 1e-9 * max(speed_ms, 1.0) else None
    return MeanWind(speed_ms=speed_ms, vector_ms=vector_ms, direction_deg=direction)


def highest(values: Iterable[tuple[int, float | None]]) -> tuple[int, float] | None:
    """Return moment and value of the highest, the earliest of equals; the daily gust is the highest of the gusts."""
    known = [(moment, value) for moment, value in values if value is not None]
    return min(known, key=lambda pair: (-pair[1], pair[0])) if known else None


def lowest(values: Iterable[tuple[int, float | None]]) -> tuple[int, float] | None:
    """Return moment and value of the lowest, the earliest of equals."""
    known = [(moment, value) for moment, value in values if value is not None]
    return min(known, key=lambda pair: (pair[1], pair[0])) if known else None


# --- rain --------------------------------------------------------------------------------------------------------


class RainTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Rain over a span, and for how much of the span anything is known.

    Attributes:
        amount_mm: Sum of what was reported.
        covered_seconds: Time that readings account for.
        span_seconds: Length of the span.
        lower_bound: Part of the span is unaccounted for, so the true total may be higher (CONVERGENCE, coverage).
    """

    amount_mm: float
    covered_seconds: float
    span_seconds: float
    lower_bound: bool

    @property
    def covered_ratio(self) -> float:
        """Share of the span that is accounted for, 0 to 1."""
        return self.covered_seconds / self.span_seconds if self.span_seconds else 1.0


def rain_rate_mm_h(rain_mm: float | None, report_interval_min: float | None) -> float | None:
    """Return the mean rate over the interval that an amount fell in, mm/h."""
    if rain_mm is None or not report_interval_min:
        return None
    return rain_mm * 60 / report_interval_min


def rain_total(readings: Iterable[tuple[int, float, int | None]], start_us: int, end_us: int) -> RainTotal:
    """Add up rain over (start, end].

    Each reading (moment, mm, report interval in minutes) stands for the time (moment - interval, moment]; its whole
    amount counts at its moment. Hand in the readings of two hours beyond the end too: one that was merged from several
    reaches back into the span. Without an interval a reading accounts for no time.
    """
    amounts: list[float] = []
    covered_us, free_until_us = 0, end_us  # the span beyond free_until_us is accounted for already
    for moment_us, rain_mm, interval_min in sorted(readings, key=lambda reading: reading[0], reverse=True):
        if start_us < moment_us <= end_us:
            amounts.append(rain_mm)
        begin_us = max(moment_us - (interval_min or 0) * _MINUTE_US, start_us)
        if begin_us >= free_until_us or begin_us >= moment_us:
            continue
        upper_us = min(moment_us, free_until_us)
        if free_until_us - upper_us <= SEAM_US:
            upper_us = free_until_us
        covered_us += upper_us - begin_us
        free_until_us = begin_us
    if start_us < free_until_us <= start_us + SEAM_US < end_us:
        covered_us += free_until_us - start_us
    span_us = max(0, end_us - start_us)
    return RainTotal(
        amount_mm=math.fsum(amounts),
        covered_seconds=covered_us / 1e6,
        span_seconds=span_us / 1e6,
        lower_bound=covered_us < span_us,
    )


def add_rain(totals: Iterable[RainTotal]) -> RainTotal:
    """Return the total of spans that follow each other."""
    parts = list(totals)
    return RainTotal(
        amount_mm=math.fsum(part.amount_mm for part in parts),
        covered_seconds=math.fsum(part.covered_seconds for part in parts),
        span_seconds=math.fsum(part.span_seconds for part in parts),
        lower_bound=any(part.lower_bound for part in parts),
    )


# --- the station itself ------------------------------------------------------------------------------------------

SENSOR_FAULTS = (
    (0x001, "lightning sensor failed"),
    (0x002, "lightning sensor hears noise"),
    (0x004, "lightning sensor hears a disturber"),
    (0x008, "pressure sensor failed"),
    (0x010, "temperature sensor failed"),
    (0x020, "humidity sensor failed"),
    (0x040, "wind sensor failed"),
    (0x080, "rain sensor failed"),
    (0x100, "light and UV sensor failed"),
)
POWER_NOTES = ((0x8000, "power booster depleted"), (0x10000, "power booster on shore power"))
PRECIPITATION_TYPES = {0: "none", 1: "rain", 2: "hail", 3: "rain and hail", 4: "of unknown kind"}


def sensor_faults(sensor_status: int | None) -> tuple[str, ...] | None:
    """Return the faults of ``sensor_status`` in words, none for a healthy station (contract weather 1.3).

    Bits without a published meaning are set in the field (655364) and say nothing.
    """
    if sensor_status is None:
        return None
    return tuple(words for bit, words in SENSOR_FAULTS if sensor_status & bit)


def power_notes(sensor_status: int | None) -> tuple[str, ...] | None:
    """Return what ``sensor_status`` says of the power supply, in words."""
    if sensor_status is None:
        return None
    return tuple(words for bit, words in POWER_NOTES if sensor_status & bit)
