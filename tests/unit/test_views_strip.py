"""Delivery strip, packets, link and condition."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from tests.unit.weather_rows import HOUR, MINUTE, STATION, empty_journal, insert, refuse, store, us

from stormjay.errors import NotFound
from stormjay.ground.timestamps import format_us
from stormjay.weather.journal_status import Thresholds
from stormjay.weather.views import Site
from stormjay.weather.views_link import condition, link, link_quality
from stormjay.weather.views_packet import at_minute, packet, recent
from stormjay.weather.views_strip import StripLine, StripRun, Target, covered_cells, strip

MIDNIGHT = us("2026-08-06T00:00:00Z")
NOW = MIDNIGHT + 12 * HOUR
API = Target(name="api", table="aws_delivery_queue", label="the cloud")
HOSTILE = "<script>alert(1)</script>"


def line_of(journal: sqlite3.Connection, now_us: int = NOW, site: Site | None = None) -> StripLine:
    sites = {STATION: site or Site(name="Garden")}
    return strip(journal, sites, [STATION], [API], now_us, now_us)[0]


def states(line: StripLine) -> list[str]:
    return [run.state for run in line.runs for _ in range(run.cells)]


def test_each_minute_has_the_state_of_its_reading() -> None:
    journal = empty_journal()
    for minute, status in enumerate(("delivered", "pending", "retry", "failed", "discarded", None), 1):
        store(journal, MIDNIGHT + minute * MINUTE, status)
    line = line_of(journal)
    assert states(line)[:7] == ["delivered", "captured", "waiting", "refused", "refused", "captured", "none"]
    assert sum(run.cells for run in line.runs) == 1440
    assert line.runs[-1] == StripRun("ahead", 719)
    assert line.minutes["ahead"] == 719


def test_a_merged_reading_colours_all_of_its_minutes() -> None:
    journal = empty_journal()
    store(journal, MIDNIGHT + 10 * MINUTE + 20_000_000, "delivered", report_interval_min=3)
    assert states(line_of(journal))[6:11] == ["none", "delivered", "delivered", "delivered", "none"]


def test_a_reading_after_midnight_may_cover_the_end_of_the_day_before() -> None:
    journal = empty_journal()
    store(journal, MIDNIGHT + 2 * MINUTE, "delivered", report_interval_min=5)
    before = strip(journal, {}, [STATION], [API], MIDNIGHT - HOUR, NOW)[0]
    assert states(before)[-3:] == ["delivered"] * 3
    assert states(line_of(journal))[:3] == ["delivered", "delivered", "none"]


def test_a_refused_packet_shows_where_nothing_else_is() -> None:
    journal = empty_journal()
    store(journal, MIDNIGHT + MINUTE, "delivered")
    refuse(journal, MIDNIGHT + 30_000_000)  # the same minute has a good reading
    refuse(journal, MIDNIGHT + 5 * MINUTE + 30_000_000, packet_type="invalid", reason="malformed_json")
    refuse(journal, MIDNIGHT + 7 * MINUTE, packet_type="weather", reason=None)  # a duplicate is no loss
    refuse(journal, MIDNIGHT + 8 * MINUTE, replayed_at_utc=format_us(NOW))
    found = states(line_of(journal))
    assert found[0] == "delivered"
    assert [place for place, state in enumerate(found) if state == "refused"] == [5]


@pytest.mark.parametrize(
    ("moment", "cells", "seconds"),
    [("2026-03-29T12:00:00Z", 1380, 60), ("2026-08-06T12:00:00Z", 1440, 60), ("2026-10-25T12:00:00Z", 750, 120)],
)
def test_the_strip_is_as_long_as_the_local_day(moment: str, cells: int, seconds: int) -> None:
    journal = empty_journal()
    store(journal, us(moment), "delivered")
    line = line_of(journal, us(moment), Site(time_zone="Europe/Zurich"))
    assert (sum(run.cells for run in line.runs), line.cell_seconds) == (cells, seconds)


def test_one_line_per_destination_and_one_without_any() -> None:
    journal = empty_journal()
    journal.execute("CREATE TABLE delivery_queue_attic AS SELECT * FROM aws_delivery_queue")
    number = store(journal, MIDNIGHT + MINUTE, "delivered")
    insert(journal, "delivery_queue_attic", {"reading_id": number, "status": "retry", "attempt_count": 2})
    two = strip(journal, {}, [STATION], [API, Target(name="attic", table="delivery_queue_attic")], NOW, NOW)
    assert [(line.destination, line.runs[0].state) for line in two] == [("api", "delivered"), ("attic", "waiting")]
    none = strip(journal, {}, [STATION], [], NOW, NOW)
    assert [(line.destination, line.runs[0].state) for line in none] == [("", "captured")]


def test_covered_cells_take_the_nearer_half() -> None:
    assert covered_cells(MINUTE, 1, MINUTE) == (0, 0)
    assert covered_cells(80_000_000, 1, MINUTE) == (0, 0)
    assert covered_cells(100_000_000, 1, MINUTE) == (1, 1)
    assert covered_cells(100_000_000, None, MINUTE) == (1, 1)
    assert covered_cells(MINUTE, None, MINUTE) == (0, 0)


def test_a_minute_gives_its_packets() -> None:
    journal = empty_journal()
    first = store(journal, MIDNIGHT + 10 * MINUTE, "delivered", report_interval_min=3)
    store(journal, MIDNIGHT + 11 * MINUTE, "delivered")
    ledger = refuse(journal, MIDNIGHT + 8 * MINUTE + 1)
    found = at_minute(journal, STATION, [API], MIDNIGHT + 8 * MINUTE, 60)
    assert [(line.kind, line.id) for line in found] == [("reading", first), ("ledger", ledger)]
    assert at_minute(journal, STATION, [API], MIDNIGHT + 40 * MINUTE, 60) == []


def test_packet_shows_raw_parsed_link_and_delivery() -> None:
    journal = empty_journal()
    number = store(journal, MIDNIGHT, "retry", snr_db=-3.5, hops_away=2, rain_mm=0.4, raw_payload=HOSTILE)
    journal.execute(
        "UPDATE aws_delivery_queue SET last_error = 'HTTP 503', next_attempt_at_utc = '2026-08-06T00:02:00+00:00'"
    )
    found = packet(journal, "reading", number, [API])
    assert found.raw_payload == HOSTILE
    assert found.link == {"snr_db": -3.5, "hops_away": 2}
    assert {field.name: field.value for field in found.fields}["rain_mm"] == 0.4
    assert (found.deliveries[0].state, found.deliveries[0].last_error) == ("waiting", "HTTP 503")
    assert found.deliveries[0].next_attempt_utc == "2026-08-06T00:02:00.000000Z"


def test_every_kind_of_packet_opens() -> None:
    journal = empty_journal()
    common = {"source_node_id": STATION, "received_at_utc": "2026-08-06T00:00:01+00:00"}
    rows: dict[str, tuple[str, dict[str, Any]]] = {
        "event": ("weather_events", {"event_type": "evt_strike", "lightning_distance_km": 12, "raw_payload": "{}"}),
        "telemetry": ("device_telemetry_events", {"telemetry_type": "hub_status", "seq": 5, "raw_payload": "{}"}),
        "health": ("device_health_events", {"status": "dbg", "uptime_sec": 900, "raw_payload": "{}"}),
        "native": ("native_telemetry", {"telemetry_kind": "device_metrics", "metrics_json": "[1]", "dedupe_key": "x"}),
        "ledger": ("ingest_events", {"packet_type": "invalid", "reason": "malformed_json", "payload_hex": "ff"}),
    }  # fmt: skip
    for kind, (table, row) in rows.items():
        number = insert(journal, table, {**common, **row})
        found = packet(journal, kind, number, [API])
        assert found.title
        assert found.deliveries == []
    assert {line.kind for line in recent(journal, STATION, [API], NOW)} == set(rows)
    assert packet(journal, "native", 1, []).raw_payload == "[1]"
    assert packet(journal, "ledger", 1, []).raw_hex == "ff"


@pytest.mark.parametrize(
    ("kind", "number"), [("reading", 1), ("reading", 0), ("reading", 2**70), ("sqlite_master", 1), ("", 1)]
)
def test_packets_that_are_not_there(kind: str, number: int) -> None:
    with pytest.raises(NotFound):
        packet(empty_journal(), kind, number, [API])


def test_link_gathers_what_the_radio_said() -> None:
    journal = empty_journal()
    for minute in range(4):
        store(
            journal,
            MIDNIGHT + minute * MINUTE,
            snr_db=-2.0 - minute,
            rssi_dbm=-90,
            hops_away=minute % 2,
            msg_id=10 + 2 * minute,
        )
    refuse(journal, MIDNIGHT + 2 * MINUTE, msg_id=11)  # heard, though not taken
    found = link(journal, STATION, MIDNIGHT - HOUR, MIDNIGHT + HOUR)
    assert found.heard == 4
    assert found.snr_db is not None
    assert (found.snr_db.min, found.snr_db.max) == (-5, -2)
    assert found.hops == {"0": 2, "1": 2}
    assert (found.loss.heard, found.loss.lost) == (5, 2)
    assert found.quality == "good"
    assert [hour.heard for hour in found.hours] == [4]


def test_link_quality_words() -> None:
    assert link_quality(None, -80) == "unknown"
    assert link_quality(-10, -100) == "fair"
    assert link_quality(-16, -100) == "bad"
    assert link_quality(5, None) == "good"


def test_condition_goes_by_the_clock_not_by_what_was_written() -> None:
    journal = empty_journal()
    heard = "2026-08-06T11:59:00+00:00"
    row = {
        "source_node_id": STATION,
        "derived_state": "online",
        "last_weather_at_utc": heard,
        "last_heard_at_utc": heard,
    }
    row |= {"last_sensor_status": 655_364, "last_battery_voltage_v": 2.6, "last_device_rssi": -67}  # type: ignore[dict-item]  # columns of several types
    insert(journal, "device_status_current", dict(row))
    thresholds = Thresholds()
    now = condition(journal, STATION, NOW, thresholds)
    assert (now.state, now.sensor_faults) == ("online", ("lightning sensor hears a disturber",))
    assert condition(journal, STATION, NOW + HOUR // 2, thresholds).state == "stale"
    assert condition(journal, STATION, NOW + 2 * HOUR, thresholds).state == "offline"
    journal.execute("UPDATE device_status_current SET last_battery_voltage_v = 2.2")
    assert condition(journal, STATION, NOW, thresholds).state == "low_battery"
    assert condition(journal, "!00000000", NOW, thresholds).state is None
