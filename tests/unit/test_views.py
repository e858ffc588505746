"""Now and today from the journal: a function of the records, the site and the clock."""

from __future__ import annotations

import random
import sqlite3
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.weather_rows import DAY, HOUR, MINUTE, STATION, empty_journal, insert, reading, store, us

from stormjay.errors import NotFound
from stormjay.ground.timestamps import format_us
from stormjay.weather import views, views_link, views_packet, views_series, views_strip
from stormjay.weather.fields import FIELDS
from stormjay.weather.views import Site
from stormjay.weather.views_rain import RainLedger
from stormjay.weather.views_strip import Target

NOON = us("2026-08-06T12:00:00Z")
EARLY = us("2026-01-05T12:00:00Z")
ZURICH = Site(name="Garden", elevation_m=408, time_zone="Europe/Zurich")
TARGETS = (Target(name="api", table="aws_delivery_queue"),)

FRESH = 900.0


def test_now_is_the_newest_by_source_time_not_by_arrival() -> None:
    journal = empty_journal()
    store(journal, NOON - MINUTE, temp_c=20.5)
    store(journal, NOON - 9 * MINUTE, temp_c=3.0)
    found = views.now(journal, STATION, ZURICH, NOON, RainLedger(), FRESH)
    assert found.reading is not None
    assert found.reading.values["air_temp_c"] == 20.5
    assert found.reading.age_seconds == 60
    assert found.station.name == "Garden"
    assert found.derived is not None
    assert found.derived.compass_point == "SW"
    assert found.derived.sea_level_pressure_hpa == pytest.approx(1048.4, abs=0.5)


def test_what_needs_an_elevation_is_not_shown_without() -> None:
    journal = empty_journal()
    store(journal, NOON)
    found = views.now(journal, STATION, Site(), NOON, RainLedger(), FRESH)
    assert found.derived is not None
    assert found.derived.sea_level_pressure_hpa is None
    assert found.derived.altimeter_setting_hpa is None
    assert not found.station.time_zone_known


def test_a_clock_that_runs_ahead_is_said() -> None:
    journal = empty_journal()
    store(journal, NOON + 2 * HOUR, received_us=NOON)
    found = views.now(journal, STATION, ZURICH, NOON, RainLedger(), FRESH)
    assert found.reading is not None
    assert found.reading.clock_ahead_seconds == 7200
    assert found.reading.age_seconds == -7200


def test_a_time_of_the_far_future_does_not_pin_now() -> None:
    """An old file may hold a reading of the year 2100 (fault B8)."""
    journal = empty_journal()
    store(journal, us("2100-01-01T00:00:00Z"), temp_c=50)
    store(journal, NOON)
    assert views.station_view(journal, STATION, Site(), NOON).latest_ts_utc == format_us(NOON)


def test_a_second_spelling_of_an_instant_counts_once() -> None:
    """Fault B19 in a file from before: the later row is marked as double."""
    journal = empty_journal()
    first = store(journal, NOON, rain_mm=1.0)
    store(journal, NOON, rain_mm=1.0, source_ts_utc=f"{NOON // 1_000_000}.0", source_double_of=first)
    found = views.day(journal, STATION, Site(), NOON, NOON, FRESH)
    assert found.readings == 1
    assert found.rain.amount_mm == 1.0


def test_local_days_follow_the_stations_clock_over_its_changes() -> None:
    zone = ZoneInfo("America/New_York")
    spring, autumn = (views.local_day(us(text), zone) for text in ("2026-03-08T12:00:00Z", "2026-11-01T12:00:00Z"))
    assert spring.end_us - spring.start_us == 23 * HOUR
    assert autumn.end_us - autumn.start_us == 25 * HOUR
    assert spring.start_us == us("2026-03-08T05:00:00Z")
    assert views.local_day(us("2026-03-08T04:59:00Z"), zone).date == "2026-03-07"
    beirut = ZoneInfo("Asia/Beirut")  # its clocks jump over midnight in spring
    jumped = views.local_day(us("2022-03-27T12:00:00Z"), beirut)
    assert jumped.start_us == views.local_day(us("2022-03-26T12:00:00Z"), beirut).end_us == us("2022-03-26T22:00:00Z")


def test_unknown_station_is_said() -> None:
    with pytest.raises(NotFound):
        views.now(empty_journal(), "!00000000", Site(), NOON, RainLedger(), FRESH)
    assert views.now(empty_journal(), STATION, ZURICH, NOON, RainLedger(), FRESH).reading is None


def test_stations_the_most_recent_first() -> None:
    journal = empty_journal()
    for place, node in enumerate(("!00000003", "!00000001", "!00000002")):
        store(journal, NOON + place * MINUTE, source_node_id=node)
        store(journal, NOON - place * MINUTE - HOUR, source_node_id=node)
    found = views.stations(journal, {"!000000ff": Site(name="Planned")}, NOON + HOUR)
    assert [view.station for view in found] == ["!00000002", "!00000001", "!00000003", "!000000ff"]


def test_day_has_lowest_and_highest_with_the_earliest_time() -> None:
    journal = empty_journal()
    for hour, temp_c in ((0, 9.0), (3, 5.0), (4, 5.0), (14, 25.0), (15, 25.0)):
        store(journal, us("2026-08-06T00:30:00Z") + hour * HOUR, temp_c=temp_c, wind_gust_ms=float(hour))
    found = views.day(journal, STATION, Site(), NOON, NOON + 6 * HOUR, FRESH)
    temperature = found.extremes["air_temp_c"]
    assert (temperature.lowest.value, temperature.lowest.at_utc) == (5.0, "2026-08-06T03:30:00.000000Z")
    assert (temperature.highest.value, temperature.highest.at_utc) == (25.0, "2026-08-06T14:30:00.000000Z")
    assert found.extremes["wind_gust_ms"].highest.value == 15.0
    assert "uv_index" not in found.extremes


def test_the_day_is_the_stations_own() -> None:
    journal = empty_journal()
    store(journal, us("2026-08-05T22:30:00Z"), temp_c=1.0)  # 00:30 on the sixth in Zurich
    store(journal, us("2026-08-05T22:00:00Z"), temp_c=99.0)  # the last minute of the fifth
    store(journal, us("2026-08-06T11:00:00Z"), temp_c=20.0)
    local = views.day(journal, STATION, ZURICH, NOON, NOON, FRESH)
    assert (local.date, local.readings, local.extremes["air_temp_c"].lowest.value) == ("2026-08-06", 2, 1.0)
    assert local.start_utc == "2026-08-05T22:00:00.000000Z"
    assert views.day(journal, STATION, Site(), NOON, NOON, FRESH).readings == 1


@pytest.mark.parametrize(("moment", "hours"), [("2026-03-29T12:00:00Z", 23), ("2026-10-25T12:00:00Z", 25)])
def test_days_of_clock_changes_have_their_true_length(moment: str, hours: int) -> None:
    day = views.local_day(us(moment), ZURICH.zone())
    assert day.end_us - day.start_us == hours * HOUR


def test_rain_totals_by_local_day_month_and_year() -> None:
    journal = empty_journal()
    amounts = {
        "2025-12-31T22:30:00Z": 64.0,  # 23:30 on the last of December: another year
        "2025-12-31T23:30:00Z": 32.0,  # 00:30 on the first of January
        "2026-07-31T22:30:00Z": 16.0,  # 00:30 on the first of August
        "2026-08-05T21:30:00Z": 8.0,  # 23:30 yesterday, within 24 hours
        "2026-08-05T22:30:00Z": 4.0,  # 00:30 today
        "2026-08-06T11:59:00Z": 1.0,
    }
    for moment, amount in amounts.items():
        store(journal, us(moment), rain_mm=amount)
    rain = RainLedger().totals(journal, STATION, ZURICH.zone(), NOON)
    assert rain.today.amount_mm == 5
    assert rain.last_24h.amount_mm == 13
    assert rain.month.amount_mm == 29
    assert rain.year.amount_mm == 61
    assert rain.year.lower_bound


def test_a_day_without_gaps_is_no_lower_bound_while_the_station_is_in_time() -> None:
    journal = empty_journal()
    for minute in range(1, 721):
        store(journal, NOON - (720 - minute) * MINUTE, status=None, rain_mm=0.01)
    late = NOON + 5 * MINUTE
    assert not views.day(journal, STATION, Site(), NOON, late, FRESH).rain.lower_bound
    assert not views.now(journal, STATION, Site(), late, RainLedger(), FRESH).rain.today.lower_bound
    assert views.now(journal, STATION, Site(), NOON + HOUR, RainLedger(), FRESH).rain.today.lower_bound


def test_kept_rain_sums_follow_late_rows_and_retention() -> None:
    journal, kept = empty_journal(), RainLedger()
    now = us("2026-03-20T12:00:00Z")
    ids = [store(journal, now - day * DAY, rain_mm=1.0) for day in range(60, 0, -1)]

    def both() -> tuple[Any, Any]:
        zone = ZURICH.zone()
        return kept.totals(journal, STATION, zone, now), RainLedger().totals(journal, STATION, zone, now)

    for step in range(3):
        held, fresh = both()
        assert held == fresh
        if step == 0:  # comes late, and reaches back over midnight into the day before
            store(journal, us("2026-02-10T00:30:00+01:00"), rain_mm=7.0, report_interval_min=90)
        else:
            journal.execute("DELETE FROM weather_readings WHERE id <= ?", (ids[5],))
    assert both()[0].year.amount_mm == pytest.approx(61.0)


def _rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries(
        {
            "minute": st.integers(-3000, 3000),
            "temp_c": st.floats(-20, 40),
            "humidity_pct": st.integers(0, 100),
            "wind_ms": st.integers(0, 20),
            "wind_gust_ms": st.none() | st.integers(0, 30),
            "wind_dir_deg": st.integers(0, 360),
            "rain_mm": st.integers(0, 50).map(lambda tenths: tenths / 10),
            "report_interval_min": st.sampled_from([None, 1, 1, 1, 5, 90]),
            "snr_db": st.none() | st.integers(-20, 10),
            "status": st.sampled_from(["pending", "retry", "delivered", "failed", None]),
        }
    )
    return st.lists(one, max_size=25, unique_by=lambda row: row["minute"])


def everything(rows: list[dict[str, Any]]) -> bytes:
    """Return all views of a journal into which the rows were put in that order, without the rows' own numbers."""
    journal = empty_journal()
    for row in rows:
        values = {name: value for name, value in row.items() if name not in {"minute", "status"}}
        store(journal, EARLY + row["minute"] * MINUTE, row["status"], msg_id=row["minute"] + 5000, **values)
    site, kept = ZURICH, RainLedger()
    fields = [field for field in FIELDS if field.cloud in views_series.DEFAULT_FIELDS]
    span = (EARLY - 2 * DAY, EARLY + 2 * DAY)
    now = views.now(journal, STATION, site, EARLY, kept, FRESH)
    found = [
        now
        if now.reading is None
        else msgspec.structs.replace(now, reading=msgspec.structs.replace(now.reading, id=0)),
        views.day(journal, STATION, site, EARLY, EARLY, FRESH),
        views_series.series(journal, STATION, fields, *span),
        views_series.series(journal, STATION, fields, *span, max_points=20),
        views_series.rose(journal, STATION, *span),
        views_link.link(journal, STATION, *span),
        views_strip.strip(journal, {STATION: site}, [STATION], TARGETS, EARLY, EARLY),
        [msgspec.structs.replace(line, id=0) for line in views_packet.recent(journal, STATION, TARGETS, EARLY)],
    ]
    journal.close()
    return msgspec.json.encode(found)


@given(_rows(), st.randoms(use_true_random=False))
def test_views_are_functions_of_the_set(rows: list[dict[str, Any]], shuffle: random.Random) -> None:
    before = everything(rows)
    shuffle.shuffle(rows)
    assert everything(rows) == before


def test_the_identity_index_serves_the_views() -> None:
    """A million rows are only bearable when no view reads them all."""
    journal = empty_journal()
    plans: list[str] = []

    class Explaining:
        def execute(self, sql: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
            plans.extend(row["detail"] for row in journal.execute(f"EXPLAIN QUERY PLAN {sql}", values))
            return journal.execute(sql, values)

    asking: Any = Explaining()
    for minute in range(30):
        store(journal, NOON - minute * MINUTE)
    views.stations(asking, {}, NOON)
    views.now(asking, STATION, ZURICH, NOON, RainLedger(), FRESH)
    views.day(asking, STATION, ZURICH, NOON, NOON, FRESH)
    views_series.series(asking, STATION, [FIELDS[0], FIELDS[4]], NOON - DAY, NOON, max_points=20)
    views_series.rose(asking, STATION, NOON - DAY, NOON)
    views_link.link(asking, STATION, NOON - DAY, NOON)
    views_strip.strip(asking, {}, [STATION], TARGETS, NOON, NOON)
    views_packet.recent(asking, STATION, TARGETS, NOON)
    scans = [
        plan
        for plan in plans
        if plan.startswith("SCAN") and any(name in plan for name in ("weather_readings", "queue", "events"))
    ]
    assert [plan for plan in scans if "COVERING INDEX" not in plan] == []


def test_insert_helper_keeps_the_schema() -> None:
    journal = empty_journal()
    assert insert(journal, "weather_readings", reading(NOON)) == 1
