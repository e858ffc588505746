"""Series and wind rose: extremes kept, gaps open, sums right, directions as vectors."""

from __future__ import annotations

import pytest
from tests.unit.weather_rows import DAY, HOUR, MINUTE, STATION, empty_journal, store, us

from stormjay.errors import BadRequest
from stormjay.weather.derived import COMPASS
from stormjay.weather.fields import BY_CLOUD
from stormjay.weather.views_series import rose, series, wanted_fields

NOON = us("2026-08-06T12:00:00Z")
TEMPERATURE, GUST, RAIN, DIRECTION = (
    BY_CLOUD[name] for name in ("air_temp_c", "wind_gust_ms", "rain_interval_mm", "wind_dir_deg")
)


def test_few_readings_come_as_they_are() -> None:
    journal = empty_journal()
    for minute in range(3):
        store(journal, NOON + minute * MINUTE, temp_c=10.0 + minute)
    found = series(journal, STATION, [TEMPERATURE], NOON - HOUR, NOON + HOUR)
    assert found.bucket_seconds == 0
    assert found.t == [NOON / 1e6, NOON / 1e6 + 60, NOON / 1e6 + 120]
    assert found.fields["air_temp_c"].mean == [10, 11, 12]


def test_a_gap_stays_a_gap_but_one_lost_packet_does_not_tear_the_line() -> None:
    journal = empty_journal()
    for minute in (0, 1, 3, 20):
        store(journal, NOON + minute * MINUTE)
    store(journal, NOON + 60 * MINUTE, report_interval_min=40)  # stands for all of the time since
    found = series(journal, STATION, [TEMPERATURE], NOON - HOUR, NOON + 2 * HOUR).fields["air_temp_c"].mean
    assert found == [15, 15, 15, None, 15, 15]


def test_buckets_keep_the_spike_between_two_picks() -> None:
    """Fault B24: sampling hides extremes and cannot sum rain."""
    journal = empty_journal()
    for minute in range(1, 601):
        store(
            journal,
            NOON + minute * MINUTE,
            status=None,
            wind_gust_ms=31.0 if minute == 333 else 4.0,
            rain_mm=0.1,
        )
    found = series(journal, STATION, [GUST, RAIN], NOON, NOON + 10 * HOUR, max_points=21)
    assert found.bucket_seconds == 1800
    gust, rain = found.fields["wind_gust_ms"], found.fields["rain_interval_mm"]
    assert max(value for value in gust.max if value is not None) == 31
    assert len(gust.mean) == len(found.t) == 20
    assert sum(value for value in rain.sum if value is not None) == pytest.approx(60)
    assert rain.sum[0] == pytest.approx(3)  # half past twelve exactly belongs to the half hour that ends then
    assert gust.sum == []


def test_empty_buckets_stay_empty() -> None:
    journal = empty_journal()
    for minute in (*range(1, 61), *range(181, 241)):
        store(journal, NOON + minute * MINUTE, status=None)
    found = series(journal, STATION, [TEMPERATURE, DIRECTION], NOON, NOON + 4 * HOUR, bucket_seconds=3600)
    assert found.fields["air_temp_c"].mean == [15, None, None, 15]
    assert found.fields["wind_dir_deg"].mean[1:3] == [None, None]
    assert found.fields["wind_dir_deg"].mean[0] == pytest.approx(225)


def test_directions_of_a_bucket_are_a_vector_mean() -> None:
    journal = empty_journal()
    for minute, direction in ((1, 350), (2, 10), (3, 180)):
        store(journal, NOON + minute * MINUTE, wind_dir_deg=direction, wind_ms=0.0 if direction == 180 else 5.0)
    found = series(journal, STATION, [DIRECTION], NOON, NOON + HOUR, bucket_seconds=3600)
    assert found.fields["wind_dir_deg"].mean[0] == pytest.approx(0, abs=1e-6)


def test_nothing_stored_is_an_empty_series() -> None:
    found = series(empty_journal(), STATION, [TEMPERATURE, DIRECTION], NOON, NOON + HOUR, bucket_seconds=60)
    assert found.t == []
    assert found.fields["air_temp_c"].mean == []


def test_what_cannot_be_asked() -> None:
    with pytest.raises(BadRequest, match="from lies after to"):
        series(empty_journal(), STATION, [TEMPERATURE], NOON, NOON - 1)
    with pytest.raises(BadRequest, match="400 days"):
        series(empty_journal(), STATION, [TEMPERATURE], NOON, NOON + 401 * DAY)
    with pytest.raises(BadRequest, match="from lies after to"):
        rose(empty_journal(), STATION, NOON, NOON - 1)
    with pytest.raises(BadRequest, match="unknown fields: temp_c; drop"):
        wanted_fields("air_temp_c, temp_c; drop")
    assert wanted_fields("wind_gust_ms,air_temp_c,wind_gust_ms") == (GUST, TEMPERATURE)
    assert len(wanted_fields("")) == len(wanted_fields(None)) == 8


def test_wind_rose_counts_by_direction_and_class() -> None:
    journal = empty_journal()
    winds = [(0, 1.0), (359, 5.0), (90, 5.9), (90, 12.0), (270, 0.1)]
    for minute, (direction, speed) in enumerate(winds, 1):
        store(journal, NOON + minute * MINUTE, wind_dir_deg=direction, wind_ms=speed)
    found = rose(journal, STATION, NOON, NOON + HOUR)
    assert (found.readings, found.calm) == (5, 1)
    assert found.counts[COMPASS.index("N")] == [1, 0, 1, 0, 0, 0]
    assert found.counts[COMPASS.index("E")] == [0, 0, 1, 0, 0, 1]
    assert found.counts[COMPASS.index("W")] == [0] * 6
    assert found.mean is not None
    assert found.mean.speed_ms == pytest.approx(24 / 5)
    assert found.mean.direction_deg == pytest.approx(71.5, abs=1)


def test_wind_rose_of_nothing() -> None:
    found = rose(empty_journal(), STATION, NOON, NOON + HOUR)
    assert (found.readings, found.calm, found.mean) == (0, 0, None)
