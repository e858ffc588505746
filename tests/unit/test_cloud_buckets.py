"""The fold into hours and days: bounds in local time, extremes with their times, vector wind, coverage."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormjay.ground.timestamps import to_epoch_us
from stormjay.weather.cloud.buckets import Unit, fold, span_of

BERLIN = ZoneInfo("Europe/Berlin")
FOREVER = (0, to_epoch_us("2030-01-01T00:00:00Z"))


def at(text: str) -> int:
    return to_epoch_us(text)


@pytest.mark.parametrize(
    ("moment", "unit", "zone", "start", "end"),
    [
        ("2026-08-06T07:59:59.999999Z", "hour", "UTC", "2026-08-06T07:00:00Z", "2026-08-06T08:00:00Z"),
        ("2026-08-06T08:00:00Z", "hour", "UTC", "2026-08-06T08:00:00Z", "2026-08-06T09:00:00Z"),
        ("2026-08-06T08:10:00Z", "hour", "Asia/Kathmandu", "2026-08-06T07:15:00Z", "2026-08-06T08:15:00Z"),
        ("2026-03-29T12:00:00Z", "day", "Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ("2026-10-25T12:00:00Z", "day", "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        ("2018-11-04T12:00:00Z", "day", "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"),
    ],
)
def test_spans_lie_in_local_time(moment: str, unit: Unit, zone: str, start: str, end: str) -> None:
    span = span_of(at(moment), unit, ZoneInfo(zone))
    assert (span.start_us, span.end_us) == (at(start), at(end))


def test_the_repeated_hour_is_two_buckets() -> None:
    both = fold(
        [(at("2026-10-25T00:30:00Z"), {"air_temp_c": 1}), (at("2026-10-25T01:30:00Z"), {"air_temp_c": 2})],
        "hour",
        BERLIN,
        *FOREVER,
    )
    assert [bucket["local_start"] for bucket in both] == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]


def test_wind_direction_is_averaged_as_a_vector() -> None:
    [bucket] = fold(
        [(at("2026-08-06T07:00:00Z"), {"wind_dir_deg": 350, "wind_avg_ms": 2}),
         (at("2026-08-06T07:01:00Z"), {"wind_dir_deg": 10, "wind_avg_ms": 2})],
        "hour", UTC, *FOREVER,
    )  # fmt: skip
    direction = bucket["fields"]["wind_dir_deg"]
    assert min(direction["mean"], 360 - direction["mean"]) < 1e-6
    assert not {"min", "max", "sum"} & set(direction)


def test_calm_has_no_direction() -> None:
    [bucket] = fold([(at("2026-08-06T07:00:00Z"), {"wind_dir_deg": 90, "wind_avg_ms": 0})], "hour", UTC, *FOREVER)
    assert bucket["fields"]["wind_dir_deg"]["mean"] is None


def test_codes_have_no_mean_and_only_amounts_a_sum() -> None:
    weather = {"precipitation_type": 1, "rain_interval_mm": 0.1, "air_temp_c": 3}
    [bucket] = fold([(at("2026-08-06T07:00:00Z"), weather)], "hour", UTC, *FOREVER)
    assert "mean" not in bucket["fields"]["precipitation_type"]
    assert "sum" in bucket["fields"]["rain_interval_mm"]
    assert "sum" not in bucket["fields"]["air_temp_c"]


def minutes(count: int, *, skip: frozenset[int] = frozenset()) -> list[tuple[int, dict[str, Any]]]:
    start = at("2026-08-06T07:00:00Z")
    weather = {"report_interval_min": 1, "rain_interval_mm": 0.1}
    return [(start + n * 60_000_000, weather) for n in range(count) if n not in skip]


def test_a_full_hour_is_covered_and_its_sum_is_no_lower_bound() -> None:
    [bucket] = fold(minutes(60), "hour", UTC, *FOREVER)
    assert (bucket["coverage"], bucket["covered_minutes"], bucket["sums_are_lower_bounds"]) == (1, 60, False)
    assert bucket["fields"]["rain_interval_mm"]["sum"] == 6


def test_a_gap_makes_the_sum_a_lower_bound() -> None:
    [bucket] = fold(minutes(60, skip=frozenset(range(10, 20))), "hour", UTC, *FOREVER)
    assert bucket["covered_minutes"] == 50
    assert bucket["sums_are_lower_bounds"] is True


def test_a_merged_reading_covers_its_whole_interval() -> None:
    readings = minutes(60, skip=frozenset({10}))
    readings[10] = (readings[10][0], {"report_interval_min": 2, "rain_interval_mm": 0.2})
    [bucket] = fold(readings, "hour", UTC, *FOREVER)
    assert (bucket["covered_minutes"], bucket["sums_are_lower_bounds"]) == (60, False)


def test_a_bucket_cut_by_the_range_is_judged_by_what_was_asked() -> None:
    begin = at("2026-08-06T07:00:00Z")
    [bucket] = fold(minutes(30), "hour", UTC, begin, begin + 30 * 60_000_000 - 1)
    assert bucket["coverage"] == 1


READINGS = st.lists(
    st.tuples(
        st.integers(at("2026-10-24T00:00:00Z"), at("2026-10-26T12:00:00Z")),
        st.fixed_dictionaries(
            {},
            optional={
                "air_temp_c": st.floats(-60, 60),
                "rain_interval_mm": st.floats(0, 10),
                "report_interval_min": st.integers(0, 10),
                "unknown": st.text(max_size=3),
            },
        ),
    ),
    max_size=40,
    unique_by=lambda pair: pair[0],
)


@given(READINGS, st.sampled_from(["hour", "day"]), st.randoms(use_true_random=False))
def test_the_fold_equals_plain_arithmetic_in_any_order(
    readings: list[tuple[int, dict[str, Any]]], unit: Unit, random: Any
) -> None:
    shuffled = list(readings)
    random.shuffle(shuffled)
    buckets = fold(shuffled, unit, BERLIN, *FOREVER)
    assert buckets == fold(readings, unit, BERLIN, *FOREVER)
    assert sum(bucket["count"] for bucket in buckets) == len(readings)
    starts = [bucket["start"] for bucket in buckets]
    assert starts == sorted(set(starts))
    for bucket in buckets:
        inside = [(us, weather) for us, weather in readings if at(bucket["start"]) <= us < at(bucket["end"])]
        assert len(inside) == bucket["count"]
        assert 0 <= bucket["coverage"] <= 1
        rain = [weather["rain_interval_mm"] for _, weather in inside if "rain_interval_mm" in weather]
        if rain:
            summary = bucket["fields"]["rain_interval_mm"]
            assert summary["sum"] == pytest.approx(math.fsum(rain), abs=1e-5)
            assert summary["max"] == pytest.approx(max(rain), abs=1e-5)
            assert summary["min"] == pytest.approx(min(rain), abs=1e-5)


def test_times_of_extremes_are_the_first_to_reach_them() -> None:
    readings = [(at(f"2026-08-06T07:0{n}:00Z"), {"air_temp_c": value}) for n, value in enumerate([1, 5, 5, 0, 0])]
    [bucket] = fold(readings, "hour", UTC, *FOREVER)
    assert bucket["fields"]["air_temp_c"]["max_at_utc"] == "2026-08-06T07:01:00.000000Z"
    assert bucket["fields"]["air_temp_c"]["min_at_utc"] == "2026-08-06T07:03:00.000000Z"
    assert datetime.fromisoformat(bucket["local_start"]) == datetime(2026, 8, 6, 7, tzinfo=UTC)
