"""Derived values against published figures, and their silence where they are not defined."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormjay.weather import derived

MINUTE = 60_000_000
HOUR = 60 * MINUTE


def fahrenheit(temp_f: float) -> float:
    return (temp_f - 32) / 1.8


@pytest.mark.parametrize(
    ("temp_c", "humidity_pct", "expected"),
    # Saturation tables of the Smithsonian Meteorological Tables, to a tenth.
    [(20, 50, 9.3), (25, 60, 16.7), (30, 70, 23.9), (0, 100, 0.0), (10, 80, 6.7), (-10, 70, -14.4)],
)
def test_dew_point(temp_c: float, humidity_pct: float, expected: float) -> None:
    found = derived.dew_point_c(temp_c, humidity_pct)
    assert found is not None
    assert found == pytest.approx(expected, abs=0.06)


def test_dew_point_of_bone_dry_air_is_not_defined() -> None:
    assert derived.dew_point_c(20, 0) is None


@pytest.mark.parametrize(
    ("temp_c", "humidity_pct", "expected"),
    # The worked example of Stull (2011), and psychrometric tables at 1013 hPa within the fit's own error.
    [(20, 50, 13.7), (30, 40, 20.1), (10, 90, 9.2), (0, 80, -1.2)],
)
def test_wet_bulb(temp_c: float, humidity_pct: float, expected: float) -> None:
    found = derived.wet_bulb_c(temp_c, humidity_pct)
    assert found is not None
    assert found == pytest.approx(expected, abs=0.05 if temp_c == 20 else 0.5)


@pytest.mark.parametrize(("temp_c", "humidity_pct"), [(51, 50), (-21, 50), (20, 4.9), (-10, 10), (5, 5)])
def test_wet_bulb_outside_its_range_is_not_shown(temp_c: float, humidity_pct: float) -> None:
    assert derived.wet_bulb_c(temp_c, humidity_pct) is None


def test_saturated_air_has_its_own_wet_bulb() -> None:
    assert derived.wet_bulb_c(12.5, 100) == pytest.approx(12.5)


@pytest.mark.parametrize(
    ("temp_f", "humidity_pct", "expected_f"),
    # The heat index chart of the US National Weather Service.
    [
        (80, 40, 80),
        (86, 90, 105),
        (90, 50, 95),
        (90, 70, 106),
        (94, 60, 110),
        (100, 55, 124),
        (110, 40, 136),
    ],
)
def test_heat_index(temp_f: float, humidity_pct: float, expected_f: float) -> None:
    found = derived.heat_index_c(fahrenheit(temp_f), humidity_pct)
    assert found is not None
    assert found * 1.8 + 32 == pytest.approx(expected_f, abs=0.75)


def test_damp_warmth_is_adjusted_up() -> None:
    damp = derived.heat_index_c(fahrenheit(82), 95)
    assert damp is not None
    # The chart, which is the regression alone, has 93 °F; the adjustment adds one degree.
    assert damp * 1.8 + 32 == pytest.approx(94, abs=0.5)


def test_dry_heat_is_adjusted_down() -> None:
    dry, threshold = derived.heat_index_c(fahrenheit(95), 8), derived.heat_index_c(fahrenheit(95), 13)
    assert dry is not None
    assert threshold is not None
    assert dry < threshold


@pytest.mark.parametrize(
    ("temp_c", "wind_ms", "expected"),
    # Environment Canada's chart in °C and km/h; below, the US chart in °F and mph.
    [
        (-20, 30 / 3.6, -33),
        (-10, 20 / 3.6, -18),
        (0, 10 / 3.6, -3),
        (fahrenheit(0), 15 * 0.44704, fahrenheit(-19)),
        (fahrenheit(30), 10 * 0.44704, fahrenheit(21)),
        (fahrenheit(-20), 30 * 0.44704, fahrenheit(-53)),
    ],
)
def test_wind_chill(temp_c: float, wind_ms: float, expected: float) -> None:
    found = derived.wind_chill_c(temp_c, wind_ms)
    assert found is not None
    assert found == pytest.approx(expected, abs=0.55)


def test_feels_like_is_chill_heat_or_the_temperature() -> None:
    assert derived.feels_like_c(-10, 50, 10) == derived.wind_chill_c(-10, 10)
    assert derived.feels_like_c(35, 60, 1) == derived.heat_index_c(35, 60)
    assert derived.feels_like_c(18, 60, 4) == 18
    assert derived.feels_like_c(-10, None, None) == -10


@pytest.mark.parametrize(
    ("elevation_m", "temp_c", "pressure_hpa"),
    # The ICAO standard atmosphere: pressure and temperature at that height over 1013.25 hPa.
    [(0, 15.0, 1013.25), (200, 13.7, 989.45), (500, 11.75, 954.61), (1000, 8.5, 898.75)],
)
def test_reductions_to_sea_level(elevation_m: float, temp_c: float, pressure_hpa: float) -> None:
    sea = derived.sea_level_pressure_hpa(pressure_hpa, elevation_m, temp_c, 0)
    assert sea == pytest.approx(1013.25, abs=0.1)
    assert derived.altimeter_setting_hpa(pressure_hpa, elevation_m) == pytest.approx(1013.25, abs=0.4)


def test_damp_air_weighs_less() -> None:
    dry, damp = (derived.sea_level_pressure_hpa(950, 500, 25, humidity) for humidity in (0, 90))
    assert dry is not None
    assert damp is not None
    assert 0 < dry - damp < 1


@pytest.mark.parametrize(
    ("change_hpa", "word"),
    [
        (0, "steady"),
        (0.9, "steady"),
        (1.2, "rising"),
        (-1.2, "falling"),
        (4, "rising quickly"),
        (-4, "falling quickly"),
    ],
)
def test_pressure_trend(change_hpa: float, word: str) -> None:
    readings = [(minute * MINUTE, 1000 + change_hpa * minute / 180) for minute in range(181)]
    readings.sort(key=lambda reading: reading[0] % 7)
    trend = derived.pressure_trend(readings)
    assert trend is not None
    assert trend.word == word
    assert trend.change_hpa == pytest.approx(change_hpa)


def test_pressure_trend_needs_a_reading_three_hours_older() -> None:
    assert derived.pressure_trend([]) is None
    assert derived.pressure_trend([(0, 1000.0), (2 * HOUR, 1003.0)]) is None
    assert derived.pressure_trend([(0, 1000.0), (3 * HOUR + 10 * MINUTE, 1003.0)]) is not None


def test_mean_wind_goes_over_north() -> None:
    mean = derived.mean_wind([(4.0, 350), (4.0, 10)])
    assert mean is not None
    assert mean.direction_deg == pytest.approx(0, abs=1e-9) or mean.direction_deg == pytest.approx(360)
    assert mean.speed_ms == 4
    assert mean.vector_ms == pytest.approx(4 * math.cos(math.radians(10)))


def test_mean_wind_is_weighted_by_speed_and_may_have_no_direction() -> None:
    mean = derived.mean_wind([(9.0, 90), (1.0, 0)])
    assert mean is not None
    assert mean.direction_deg == pytest.approx(math.degrees(math.atan2(9, 1)))
    against = derived.mean_wind([(3.0, 90), (3.0, 270)])
    assert against is not None
    assert against.direction_deg is None
    assert derived.mean_wind([]) is None
    calm = derived.mean_wind([(0.0, 120)])
    assert calm is not None
    assert calm.direction_deg is None


@pytest.mark.parametrize(
    ("speed_ms", "force", "name"),
    [
        (0.2, 0, "calm"),
        (0.3, 1, "light air"),
        (5.4, 3, "gentle breeze"),
        (13.9, 7, "near gale"),
        (32.7, 12, "hurricane force"),
    ],
)
def test_beaufort(speed_ms: float, force: int, name: str) -> None:
    assert derived.beaufort(speed_ms) == (force, name)


@pytest.mark.parametrize(
    ("direction", "point"), [(0, "N"), (11.2, "N"), (11.3, "NNE"), (180, "S"), (348.7, "NNW"), (348.8, "N"), (360, "N")]
)
def test_compass_point(direction: float, point: str) -> None:
    assert derived.compass_point(direction) == point


def test_extremes_take_the_earliest_of_equals_and_skip_what_is_missing() -> None:
    values = [(3, 9.0), (1, None), (2, 9.0), (4, 1.0), (5, 1.0)]
    assert derived.highest(values) == (2, 9.0)
    assert derived.lowest(values) == (4, 1.0)
    assert derived.highest([(1, None)]) is None


def test_rain_counts_what_each_reading_stands_for() -> None:
    readings = [(1 * MINUTE, 0.2, 1), (2 * MINUTE, 0.0, 1), (5 * MINUTE, 0.6, 3)]
    total = derived.rain_total(readings, 0, 5 * MINUTE)
    assert total.amount_mm == pytest.approx(0.8)
    assert total.covered_seconds == 300
    assert not total.lower_bound


def test_rain_over_uncovered_time_is_a_lower_bound() -> None:
    total = derived.rain_total([(1 * MINUTE, 0.2, 1), (5 * MINUTE, 0.6, 1)], 0, 5 * MINUTE)
    assert total.amount_mm == pytest.approx(0.8)
    assert total.covered_seconds == 120
    assert total.lower_bound
    assert total.covered_ratio == pytest.approx(0.4)


def test_rain_that_a_later_reading_accounts_for_is_covered() -> None:
    """The last two minutes of the span came merged into a reading after its end; its amount counts there."""
    total = derived.rain_total([(3 * MINUTE, 0.1, 3), (6 * MINUTE, 0.5, 3)], 0, 5 * MINUTE)
    assert total.amount_mm == pytest.approx(0.1)
    assert not total.lower_bound


def test_drifting_seconds_are_no_gaps() -> None:
    readings = [(minute * 61 * 1_000_000, 0.0, 1) for minute in range(1, 61)]
    assert not derived.rain_total(readings, 0, 60 * 61 * 1_000_000).lower_bound


def test_a_reading_without_interval_counts_but_covers_nothing() -> None:
    total = derived.rain_total([(MINUTE, 0.4, None)], 0, MINUTE)
    assert total.amount_mm == 0.4
    assert total.covered_seconds == 0
    assert total.lower_bound


@given(
    st.lists(
        st.tuples(st.integers(0, 600), st.integers(0, 300), st.one_of(st.none(), st.integers(0, 120))),
        unique_by=lambda reading: reading[0],
        max_size=40,
    ),
    st.randoms(use_true_random=False),
)
def test_rain_is_a_function_of_the_set(readings: list[tuple[int, int, int | None]], shuffle: random.Random) -> None:
    """Coverage equals counting minute by minute, whatever the order."""
    rows = [(minute * MINUTE, hundredths / 100, interval) for minute, hundredths, interval in readings]
    total = derived.rain_total(rows, 100 * MINUTE, 400 * MINUTE)
    shuffle.shuffle(rows)
    assert derived.rain_total(rows, 100 * MINUTE, 400 * MINUTE) == total
    covered = {each for minute, _, interval in readings for each in range(minute - (interval or 0), minute)}
    assert total.covered_seconds == 60 * len(covered & set(range(100, 400)))
    inside = [mm for moment, mm, _ in rows if 100 * MINUTE < moment <= 400 * MINUTE]
    assert total.amount_mm == pytest.approx(math.fsum(inside))


def test_rain_parts_add_up() -> None:
    parts = [derived.rain_total([(MINUTE, 0.2, 1)], 0, MINUTE), derived.rain_total([], MINUTE, 2 * MINUTE)]
    total = derived.add_rain(parts)
    assert total.amount_mm == 0.2
    assert total.span_seconds == 120
    assert total.lower_bound
    assert derived.add_rain([]).covered_ratio == 1


def test_rain_rate() -> None:
    assert derived.rain_rate_mm_h(0.5, 1) == 30
    assert derived.rain_rate_mm_h(0.5, 0) is None
    assert derived.rain_rate_mm_h(None, 1) is None


def test_sensor_status_is_masked_not_compared() -> None:
    assert derived.sensor_faults(655_364) == ("lightning sensor hears a disturber",)
    assert derived.sensor_faults(0x48) == ("pressure sensor failed", "wind sensor failed")
    assert derived.sensor_faults(0) == ()
    assert derived.power_notes(0x18000) == ("power booster depleted", "power booster on shore power")
    assert derived.power_notes(0) == ()


def test_none_in_none_out() -> None:
    assert derived.dew_point_c(None, 50) is None
    assert derived.wet_bulb_c(20, None) is None
    assert derived.heat_index_c(None, 50) is None
    assert derived.wind_chill_c(None, 3) is None
    assert derived.feels_like_c(None, 50, 3) is None
    assert derived.sea_level_pressure_hpa(1000, None, 10) is None
    assert derived.altimeter_setting_hpa(None, 100) is None
    assert derived.vapour_pressure_hpa(None, 50) is None
    assert derived.beaufort(None) is None
    assert derived.compass_point(None) is None
    assert derived.sensor_faults(None) is None
    assert derived.power_notes(None) is None


@given(
    st.floats(-60, 70),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(800, 1200),
    st.floats(-500, 9000),
)
def test_no_reading_that_the_parser_takes_breaks_anything(
    temp_c: float, humidity_pct: float, wind_ms: float, pressure_hpa: float, elevation_m: float
) -> None:
    found = [
        derived.dew_point_c(temp_c, humidity_pct),
        derived.wet_bulb_c(temp_c, humidity_pct),
        derived.feels_like_c(temp_c, humidity_pct, wind_ms),
        derived.sea_level_pressure_hpa(pressure_hpa, elevation_m, temp_c, humidity_pct),
        derived.altimeter_setting_hpa(pressure_hpa, elevation_m),
    ]
    assert all(value is None or math.isfinite(value) for value in found)
