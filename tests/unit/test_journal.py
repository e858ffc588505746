"""What the journal keeps, refuses, calls a repeat, and does when its file cannot be written."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.weather_packets import NODE, START, TS, observation, opened, packet, rows

from stormjay.errors import SettingsError
from stormjay.ground.clock import ManualClock
from stormjay.weather import journal_metrics as metrics
from stormjay.weather.journal import Journal
from stormjay.weather.journal_schema import Destination
from stormjay.weather.journal_senders import Message, sender_statistics, statistics_of
from stormjay.weather.journal_status import Thresholds

pytestmark = pytest.mark.anyio


@pytest.fixture
async def journal(data_dir: Path) -> AsyncIterator[Journal]:
    made = await opened(data_dir / "weatherstation.db", destinations=(Destination(name="garden_club"),))
    yield made
    await made.close()


async def counts(journal: Journal) -> dict[str, int]:
    tables = ("weather_readings", "aws_delivery_queue", "delivery_queue_garden_club", "ingest_events")
    return {table: len(await rows(journal, table)) for table in tables}


async def test_a_reading_its_queue_rows_and_its_status_come_together(journal: Journal) -> None:
    link = {"snr_db": 6.25, "rssi_dbm": -90, "hop_start": 3, "hop_limit": 1, "packet_id": 77, "channel": 0}
    captured = await journal.capture(packet(observation(i=9), source_name="Garden", **link))
    assert (captured.kind, captured.reason, captured.msg_id) == ("weather", None, 9)
    [row] = await rows(journal, "weather_readings")
    assert row["id"] == captured.row_id
    assert row["source_ts_utc"] == str(TS)
    assert row["source_ts_canonical"] == "2026-03-18T09:00:00.000000Z"
    assert row["received_at_utc"] == "2026-03-18T09:00:05+00:00"
    assert row["created_at_utc"] == "2026-03-18 09:00:00"
    assert (row["hops_away"], row["snr_db"], row["packet_id"]) == (2, 6.25, 77)
    assert len(row["payload_hash"]) == 64
    for queue in ("aws_delivery_queue", "delivery_queue_garden_club"):
        [queued] = await rows(journal, queue)
        assert (queued["reading_id"], queued["status"], queued["attempt_count"]) == (row["id"], "pending", 0)
    [status] = await rows(journal, "device_status_current")
    assert (status["source_name"], status["last_msg_id"], status["derived_state"]) == ("Garden", 9, "online")


async def test_b1_only_the_same_sender_and_instant_is_a_duplicate(journal: Journal) -> None:
    unknown = await journal.capture(packet(observation(), source_node_id=None))
    assert (unknown.kind, unknown.reason, unknown.duplicate) == ("rejected", "sender_unknown", False)
    assert not (await journal.capture(packet(observation()))).duplicate
    again = await journal.capture(packet(observation(i=2), after_s=9))
    assert (again.reason, again.duplicate, again.row_id) == ("duplicate", True, 1)
    ledger = await rows(journal, "ingest_events")
    assert [(row["packet_type"], row["reason"]) for row in ledger] == [
        ("rejected", "sender_unknown"), ("weather", "duplicate"),
    ]  # fmt: skip
    assert await counts(journal) == {
        "weather_readings": 1, "aws_delivery_queue": 1, "delivery_queue_garden_club": 1, "ingest_events": 2,
    }  # fmt: skip


async def test_other_values_for_one_instant_are_a_conflict_and_the_first_stands(journal: Journal) -> None:
    captured = await journal.capture_many([packet(observation()), packet(observation(t=7.0), after_s=8)])
    assert [one.reason for one in captured] == [None, "conflict"]
    [row] = await rows(journal, "weather_readings")
    assert row["temp_c"] == 6.2
    assert json.loads((await rows(journal, "ingest_events"))[0]["raw_payload"])["t"] == 7.0


async def test_b19_two_spellings_of_one_instant_are_one_reading(journal: Journal) -> None:
    captured = await journal.capture_many([packet(observation(ts=TS)), packet(observation(ts=float(TS), i=2))])
    assert [one.reason for one in captured] == [None, "duplicate"]
    assert [row["source_ts_utc"] for row in await rows(journal, "weather_readings")] == [str(TS)]


async def test_what_is_refused_is_in_the_ledger_with_its_reason_and_bytes(journal: Journal) -> None:
    texts: list[object] = [
        b"\xff\xfe",
        b"",
        "hello",
        {"x": 1},
        observation(t=99),
        observation(i=10**20),
        observation(ts=37),
    ]
    await journal.capture_many([packet(text) for text in texts])
    ledger = await rows(journal, "ingest_events")
    assert [(row["packet_type"], row["reason"]) for row in ledger] == [
        ("invalid", "not_utf8"),
        ("invalid", "malformed_json"),
        ("invalid", "json_not_object"),
        ("unknown", "unrecognized_payload_shape"),
        ("rejected", "temp_out_of_range"),
        ("rejected", "msg_id_out_of_range"),
        ("rejected", "source_time_implausible"),
    ]
    assert ledger[0]["payload_hex"] == "fffe"
    assert await rows(journal, "weather_readings") == []


async def test_b18_the_same_strike_heartbeat_or_status_is_stored_once(journal: Journal) -> None:
    strike = {"et": "evt_strike", "i": 4, "ts": TS, "ld": 14, "se": 2917}
    device = {"et": "device_status", "i": 5, "ts": TS, "up": 912345, "v": 2.61}
    beat = {"sys": "dbg", "i": 1, "up": 0, "ip": "10.0.0.7"}
    await journal.capture_many(
        [
            packet(strike, packet_id=1),
            packet({**strike, "i": 6}, 6, packet_id=2),  # sent twice by the bridge
            packet({**strike, "se": 2918}, packet_id=3),  # another strike of that second
            packet(device, packet_id=4),
            packet({**device, "i": 7}, 9, packet_id=5),
            packet(beat, packet_id=6),
            packet(beat, 8, packet_id=6),  # the same transmission by another way
            packet(beat, 86_400, packet_id=7),  # the next boot's, equal to the last byte
        ]
    )
    assert [row["lightning_energy"] for row in await rows(journal, "weather_events")] == [2917, 2918]
    assert len(await rows(journal, "device_telemetry_events")) == 1
    assert [row["packet_id"] for row in await rows(journal, "device_health_events")] == [6, 7]
    ledger = [(row["packet_type"], row["reason"]) for row in await rows(journal, "ingest_events")]
    assert ledger == [("weather_event", "duplicate"), ("telemetry", "duplicate"), ("health", "duplicate")]


async def status_of(journal: Journal) -> dict[str, Any]:
    [status] = await rows(journal, "device_status_current")
    return status


async def test_b17_status_mixes_nothing_up_forgets_nothing_and_never_goes_back(journal: Journal) -> None:
    device = {"et": "device_status", "i": 5, "ts": TS, "up": 500, "v": 2.61, "fw": 181, "r": -67, "hr": -71, "ss": 0}
    hub = {"et": "hub_status", "i": 6, "ts": TS + 10, "up": 90_000, "fw": "309", "r": -41, "seq": 12}
    await journal.capture_many([packet(device), packet(hub, 12), packet({"sys": "dbg", "i": 7, "up": 900}, 20)])
    status = await status_of(journal)
    assert (status["last_device_rssi"], status["last_hub_own_rssi"], status["last_hub_rssi"]) == (-67, -41, -71)
    assert (status["last_device_uptime_sec"], status["last_hub_uptime_sec"], status["last_bridge_uptime_sec"]) == (
        500, 90_000, 900,
    )  # fmt: skip
    assert status["last_source_ts_utc"] == str(TS + 10)
    assert status["last_msg_id"] == 7
    late = {"et": "hub_status", "i": 2, "ts": TS - 600, "up": 1, "fw": "1", "r": -99, "seq": 1, "rf": "POR"}
    await journal.capture(packet(late, 30))
    after = await status_of(journal)
    assert (after["last_hub_seq"], after["last_hub_own_rssi"], after["last_msg_id"]) == (12, -41, 7)
    assert after["last_reset_flags"] == "POR"  # nothing newer was known
    assert after["last_hub_status_at_utc"] == "2026-03-18T09:00:30+00:00"


async def test_states_follow_last_heard_contents_and_the_clock(data_dir: Path) -> None:
    clock = ManualClock(START)
    limits = Thresholds(stale_after_seconds=600, offline_after_seconds=3600, low_battery_v=2.4)
    journal = await opened(data_dir / "a.db", clock, thresholds=limits)
    await journal.capture(packet(observation(bat=2.39), 0))
    assert (await status_of(journal))["derived_state"] == "low_battery"
    await journal.capture(packet(observation(ts=TS + 60, bat=2.5), 60))
    assert (await status_of(journal))["derived_state"] == "online"
    for seconds, state in ((661, "stale"), (3661, "offline")):
        clock = ManualClock(START + timedelta(seconds=seconds))
        journal._clock = clock
        assert await journal.refresh_states() == {NODE: state}
        assert journal._statistics.value(metrics.STATIONS, state=state) == 1
    await journal.close()


async def test_what_was_said_while_the_clock_was_ahead_does_not_outlast_it(data_dir: Path) -> None:
    clock = ManualClock(START)
    journal = await opened(data_dir / "weatherstation.db", clock)
    year = 365 * 86_400
    await clock.advance(year)
    await journal.capture(packet({"sys": "dbg", "up": 1}, year))
    clock.set_back(year)
    assert await journal.refresh_states() == {NODE: "offline"}
    await journal.capture(packet({"sys": "ok", "up": 2}, 5))
    status = await status_of(journal)
    assert (status["last_status"], status["last_health_at_utc"]) == ("ok", "2026-03-18T09:00:05+00:00")
    await journal.close()


async def test_run_keeps_the_states_in_step_with_the_clock(data_dir: Path) -> None:
    clock = ManualClock(START)
    journal = await opened(data_dir / "a.db", clock)
    async with journal._announcer.listen() as heard:
        await journal.capture(packet(observation(), 0))
        running = asyncio.create_task(journal.run())
        told = [heard.get_nowait()]
        async with asyncio.timeout(30):
            while told[-1].topic != "station_state":
                await clock.advance(500)
                told += [heard.get_nowait() for _ in range(heard.qsize())]
        running.cancel()
    assert told[0].topic == "reading"
    assert told[0].body == {
        "source_node_id": NODE, "source_ts_utc": "2026-03-18T09:00:00.000000Z", "reading_id": 1,
    }  # fmt: skip
    assert told[-1].body["derived_state"] in {"stale", "offline"}
    await journal.close()


async def test_native_telemetry_has_a_table_of_its_own_in_both_spellings(journal: Journal) -> None:
    library = {"time": 5, "deviceMetrics": {"batteryLevel": 86, "voltage": 4.028, "uptimeSeconds": 760890}}
    uplink = {"temperature": 21.5, "relative_humidity": 40.0, "barometric_pressure": float("nan")}
    made = [
        packet(b"", portnum="TELEMETRY_APP", telemetry=library, packet_id=1),
        packet(b"", 9, portnum="TELEMETRY_APP", telemetry=library, packet_id=1),
        packet(b"", portnum="TELEMETRY_APP", telemetry=uplink, packet_id=2),
        packet(b"", portnum="POSITION_APP"),
    ]
    captured = await journal.capture_many(made)
    assert [(one.kind, one.reason) for one in captured] == [
        ("native_telemetry", None), ("native_telemetry", "duplicate"), ("native_telemetry", None), ("ignored", None),
    ]  # fmt: skip
    first, second = await rows(journal, "native_telemetry")
    assert (first["telemetry_kind"], first["battery_level_pct"], first["uptime_sec"]) == ("device_metrics", 86, 760890)
    assert (second["telemetry_kind"], second["temperature_c"], second["barometric_pressure_hpa"]) == (
        "environment_metrics", 21.5, None,
    )  # fmt: skip
    assert await rows(journal, "device_status_current") == []


async def test_b15_an_item_that_the_store_refuses_goes_to_the_ledger_and_harms_no_other(journal: Journal) -> None:
    def forbid(connection: sqlite3.Connection) -> None:
        connection.execute(
            "CREATE TRIGGER no_frost BEFORE INSERT ON weather_readings WHEN NEW.temp_c < 0"
            " BEGIN SELECT RAISE(ABORT, 'no frost'); END"
        )

    await journal.database.write(forbid)
    captured = await journal.capture_many([packet(observation(t=-1, ts=TS + 1)), packet(observation())])
    assert [one.kind for one in captured] == ["rejected", "weather"]
    assert [row["reason"] for row in await rows(journal, "ingest_events")] == ["storage_error: no frost"]
    assert len(await rows(journal, "aws_delivery_queue")) == 1


async def test_a_further_destination_starts_now_or_from_the_start(data_dir: Path) -> None:
    first = await opened(data_dir / "a.db")
    await first.capture_many([packet(observation(ts=TS + n), n) for n in range(3)])
    await first.close()
    second = await opened(
        data_dir / "a.db", destinations=(Destination(name="all", backfill="start"), Destination(name="new"))
    )
    await second.capture(packet(observation(ts=TS + 9), 9))
    assert len(await rows(second, "delivery_queue_all")) == 4
    assert len(await rows(second, "delivery_queue_new")) == 1
    await second.close()
    with pytest.raises(SettingsError, match="destination"):
        await opened(data_dir / "a.db", destinations=(Destination(name="x; DROP"),))


async def test_refused_senders_are_kept_unread(journal: Journal) -> None:
    [captured] = await journal.refuse_many([packet(observation())], "sender_not_allowed")
    assert (captured.kind, captured.reason) == ("rejected", "sender_not_allowed")
    [row] = await rows(journal, "ingest_events")
    assert bytes.fromhex(row["payload_hex"]) == json.dumps(observation()).encode()


def numbers(*values: int) -> list[Message]:
    return [Message(value) for value in values]


@pytest.mark.parametrize(
    ("messages", "received", "lost", "restarts"),
    [
        ([], 0, 0, 0),
        (numbers(5, 6, 7), 3, 0, 0),
        (numbers(5, 6, 9), 3, 2, 0),
        (numbers(5, 7, 6, 6), 3, 0, 0),  # overtaken, and heard twice
        (numbers(100, 101, 3, 4), 4, 2, 1),  # restarted; 1 and 2 were lost
        (numbers(2, 1, 3), 3, 0, 0),
        ([Message(1, 0), Message(2), Message(1, 0)], 3, 0, 1),  # booted again
        ([Message(9, 900), Message(10), Message(2, 0)], 3, 1, 1),
        (numbers(7, 10**9, 8), 3, 0, 2),  # a number from nowhere is no loss of a billion
    ],
)
async def test_b28_restarts_and_losses_follow_from_the_numbers(
    messages: list[Message], received: int, lost: int, restarts: int
) -> None:
    found = statistics_of(messages)
    assert (found.received, found.lost, found.restarts) == (received, lost, restarts)


async def test_b28_statistics_come_from_the_stored_rows_in_any_order(journal: Journal) -> None:
    made = [packet(observation(i=n, ts=TS + 60 * n), 60 * n) for n in (4, 1, 2)]
    await journal.capture_many([*made, packet({"sys": "dbg", "i": 5, "up": 300}, 300)])
    found = await journal.database.read(lambda connection: sender_statistics(connection, NODE, "2026", "2027"))
    assert (found.received, found.lost, found.restarts, found.loss_ratio) == (4, 1, 0, 0.2)
