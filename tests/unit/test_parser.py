"""Classification, coercions, ranges and reasons of contract weather 4, with DESIGN.md decisions 2 and 5."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormjay.weather.fields import FIELDS, ranges
from stormjay.weather.parser import PAYLOAD_BYTES_MAX, Parser
from stormjay.weather.records import COLUMNS, ParsedEvent

RECEIVED = datetime(2026, 8, 6, 7, 7, 3, tzinfo=UTC)
TS = 1786000020
GOOD: dict[str, Any] = {
    "et": "obs_st", "i": 1, "ts": TS, "t": 19.46, "h": 63.25, "p": 1008.37, "w": 1.87, "g": 3.92, "l": 0.54, "d": 217,
    "ws": 3, "r": 0.25, "uv": 3.71, "sr": 402.0, "lux": 48211.0, "bat": 2.61, "ld": 12.0, "lc": 2, "pt": 1, "ri": 1,
}  # fmt: skip
PARSER = Parser()


def parse(document: object, received: datetime = RECEIVED) -> ParsedEvent:
    text = document if isinstance(document, str) else json.dumps(document)
    return PARSER.parse(text.encode(), received, "!5c32d4d9", "garden")


def verdict(document: object) -> tuple[str, str | None]:
    event = parse(document)
    return event.packet_type, event.reason


def test_an_observation_has_all_25_keys_and_keeps_its_text() -> None:
    text = json.dumps(GOOD) + "\n"
    event = parse(text)
    assert event.packet_type == "weather"
    assert event.raw_payload == text
    assert event.source_ts_utc == str(TS)
    assert event.normalized is not None
    assert set(event.normalized) == {"event_type", "msg_id", "source_ts_utc", "weather_timestamp", *COLUMNS}
    assert event.normalized["wind_gust_ms"] == 3.92
    assert event.normalized["local_day_rain_mm"] is None
    assert event.received_at_utc == "2026-08-06T07:07:03+00:00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("invalid", "malformed_json")),
        (" \n", ("invalid", "malformed_json")),
        ('{"i":1}{"i":2}', ("invalid", "malformed_json")),
        ("\ufeff{}", ("invalid", "malformed_json")),
        ("9" * 5000, ("invalid", "malformed_json")),
        ('{"sys":' + "[" * 900 + "]" * 900 + "}", None),
        ('{"et":"obs_st","x":' + "[" * 3000, ("invalid", "malformed_json")),
        ("NaN", ("invalid", "json_not_object")),
        ("null", ("invalid", "json_not_object")),
        ("[]", ("invalid", "json_not_object")),
        ("{}", ("unknown", "unrecognized_payload_shape")),
        ('{"et":"obs_st","sys":"dbg"}', ("rejected", "'i'")),
        ('{"et":"obs_air","sys":"dbg"}', ("health", None)),
        ('{"et":7}', ("unknown", "unrecognized_payload_shape")),
        ('{"et":["obs_st"],"sys":null}', ("health", None)),
        ("x" * (PAYLOAD_BYTES_MAX + 1), ("invalid", "payload_too_large")),
    ],
)
def test_classification_order(text: str, expected: tuple[str, str | None] | None) -> None:
    result = verdict(text)
    assert expected is None or result == expected


def test_legacy_weather_needs_no_type_and_ignores_lull() -> None:
    event = parse({"i": 5, "ts": TS, "t": 1, "h": 2, "p": 900, "w": 3, "d": 4, "r": 0, "l": 7, "g": 8})
    assert event.packet_type == "weather"
    assert event.normalized is not None
    assert event.normalized["event_type"] == "obs_st"
    assert event.normalized["wind_lull_ms"] is None
    assert event.normalized["wind_gust_ms"] == 8.0
    assert verdict({"et": "weird", "i": 5, "t": 1, "h": 2, "p": 900, "w": 3, "d": 4, "r": 0}) == (
        "rejected", "weather_missing_ts",
    )  # fmt: skip


@pytest.mark.parametrize(
    "payload",
    [
        {**GOOD, "ws": None},
        {k: v for k, v in GOOD.items() if k != "ws"}
        | {"h": 63, "lux": 48211, "rd": 0.0, "nr": 0.0, "nrd": 0.0, "pa": 0},
        {"et": "obs_st", "i": 3, "ts": TS, "t": 1.5, "h": 80.0, "p": 990.0, "w": 0.0, "d": 0, "r": 0.103412},
        {"i": 3, "ts": TS, "t": 1.5, "h": 80.0, "p": 990.0, "w": 0.0, "d": 0, "r": 0.0},
    ],
    ids=["null ws", "seed era", "rain precision", "legacy"],
)
def test_every_payload_variant_in_the_wild_is_weather(payload: dict[str, Any]) -> None:
    assert verdict(payload) == ("weather", None)


def test_numeric_text_counts_and_fractions_of_whole_numbers_are_cut() -> None:
    event = parse({**GOOD, "t": "20.5", "d": 270.9, "i": 7.9, "ts": f" {TS} ", "lc": "1_0"})
    assert event.normalized is not None
    assert (event.msg_id, event.normalized["temp_c"], event.normalized["wind_dir_deg"]) == (7, 20.5, 270)
    assert event.normalized["lightning_strike_count"] == 10
    assert event.source_ts_utc == str(TS)
    assert event.normalized["weather_timestamp"] == TS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"t": True}, "t must be a number, not a boolean"),
        ({"d": "270.5"}, "d is not a whole number: '270.5'"),
        ({"t": None}, "t must be a number, not null"),
        ({"t": "warm"}, "t is not a number: 'warm'"),
        ({"i": 10**20}, "msg_id_out_of_range"),
        ({"i": True}, "i must be a whole number, not a boolean"),
        ({"p": 10**400}, "pressure_out_of_range"),
        ({"ts": "2026-08-06T07:07:00Z"}, "ts is not a whole number: '2026-08-06T07:07:00Z'"),
        ({"ts": None}, "weather_missing_ts"),
        ({"ts": ""}, "weather_missing_ts"),
        ({"ts": -5}, "source_time_implausible"),
        ({"ts": 10**30}, "source_time_implausible"),
        ({"t": "\ud800"}, "t is not a number: '\\ud800'"),
        ({"t": [1]}, "t must be a number, not a list"),
    ],
)
def test_what_is_no_number_or_cannot_be_stored_is_rejected_with_a_reason(change: dict[str, Any], reason: str) -> None:
    assert verdict({**GOOD, **change}) == ("rejected", reason)


def test_a_missing_required_key_is_named_in_quotes() -> None:
    for field in FIELDS:
        document = {key: value for key, value in GOOD.items() if key != field.key}
        expected = ("rejected", f"'{field.key}'") if field.required else ("weather", None)
        assert verdict(document) == expected


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.key)
def test_each_range_is_inclusive_and_refuses_with_the_contracts_reason(field: Any) -> None:
    low, high = field.edge
    assert verdict({**GOOD, field.key: low}) == ("weather", None)
    assert verdict({**GOOD, field.key: high}) == ("weather", None)
    for value in (low - 1, high + 1):
        assert verdict({**GOOD, field.key: value}) == ("rejected", field.reason)
    if field.kind == "float":
        for text in ("NaN", "Infinity", "-Infinity", "1e999"):
            raw = json.dumps({**GOOD, field.key: "@"}).replace('"@"', text)
            assert verdict(raw) == ("rejected", field.reason)
            assert verdict({**GOOD, field.key: text}) == ("rejected", field.reason)


def test_case_w4_a_source_time_counts_from_2000_to_a_day_ahead_of_its_capture() -> None:
    last = int((RECEIVED + timedelta(hours=24)).timestamp())
    assert verdict({**GOOD, "ts": last}) == ("weather", None)
    assert verdict({**GOOD, "ts": last + 1}) == ("rejected", "source_time_implausible")
    assert verdict({**GOOD, "ts": 946684800}) == ("weather", None)
    for absurd in (0, 37, 946684799, 4102444800):
        assert verdict({**GOOD, "ts": absurd}) == ("rejected", "source_time_implausible")


def test_b19_spellings_of_one_instant_have_one_identity() -> None:
    events = [parse({**GOOD, "ts": ts}) for ts in (TS, float(TS), str(TS), TS * 1000, TS * 1_000_000)]
    assert {event.body.epoch_us for event in events if event.body} == {TS * 1_000_000}
    assert [event.source_ts_utc for event in events][:2] == [str(TS), f"{TS}.0"]


def test_case_w2_bytes_that_are_no_text_are_kept_in_hex() -> None:
    event = PARSER.parse(b'{"sys":"\xff"}', RECEIVED)
    assert (event.packet_type, event.reason, event.payload_hex) == ("invalid", "not_utf8", b'{"sys":"\xff"}'.hex())


def test_b4_the_air_range_can_be_widened_and_both_ways_know_it() -> None:
    wide = Parser(ranges({"wind_sample_interval_s": (0, 3600), "pressure_hpa": (550, 1200)}))
    payload = json.dumps({**GOOD, "ws": 300, "p": 600.5}).encode()
    assert PARSER.parse(payload, RECEIVED).reason == "pressure_out_of_range"
    assert wide.parse(payload, RECEIVED).packet_type == "weather"
    assert wide._exact(payload, RECEIVED, None, None).packet_type == "weather"


STRIKE = {"et": "evt_strike", "i": 4, "ts": TS, "ld": 14, "se": 2917}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (STRIKE, ("weather_event", None)),
        ({"et": "evt_precip", "i": 3, "ts": TS}, ("weather_event", None)),
        ({"et": "evt_precip", "i": 3}, ("rejected", "event_missing_ts")),
        ({"et": "evt_precip", "i": 3, "ts": 37}, ("rejected", "source_time_implausible")),
        ({"et": "evt_precip", "i": 3, "ts": TS, "se": 10**20}, ("rejected", "strike_energy_out_of_range")),
        ({**STRIKE, "ld": None}, ("rejected", "strike_missing_distance")),
        ({**STRIKE, "se": None}, ("rejected", "strike_missing_energy")),
        ({**STRIKE, "ld": 501}, ("rejected", "strike_distance_out_of_range")),
        ({**STRIKE, "se": -1}, ("rejected", "strike_energy_out_of_range")),
        ({**STRIKE, "se": 10**9 + 1}, ("rejected", "strike_energy_out_of_range")),
        ({"et": "evt_strike", "ts": TS}, ("rejected", "'i'")),
    ],
)
def test_weather_events(document: dict[str, Any], expected: tuple[str, str | None]) -> None:
    assert verdict(document) == expected


DEVICE = {"et": "device_status", "i": 5, "ts": TS, "up": 912345, "v": 2.61, "fw": 181, "r": -67, "hr": -71,
          "ss": 655364, "dbg": 0}  # fmt: skip
HUB = {"et": "hub_status", "i": 6, "ts": TS, "up": 1203344, "fw": "309", "r": -41, "rf": "BOR,PIN,POR", "seq": 120211,
       "fs": [], "rs": [28, 1, 0, 3, 1466], "ms": [3, 17]}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (DEVICE, ("telemetry", None)),
        (HUB, ("telemetry", None)),
        ({"et": "hub_status", "i": 6, "ts": TS}, ("telemetry", None)),
        ({"et": "hub_status", "i": 6}, ("rejected", "telemetry_missing_ts")),
        ({**DEVICE, "up": -1}, ("rejected", "uptime_out_of_range")),
        ({**DEVICE, "v": 10.1}, ("rejected", "voltage_out_of_range")),
        ({**DEVICE, "r": -201}, ("rejected", "rssi_out_of_range")),
        ({**DEVICE, "hr": 51}, ("rejected", "hub_rssi_out_of_range")),
        ({**DEVICE, "ss": -1}, ("rejected", "sensor_status_out_of_range")),
        ({**DEVICE, "dbg": 2}, ("rejected", "debug_out_of_range")),
        ({**DEVICE, "seq": 2**63}, ("rejected", "seq_out_of_range")),
        ({**HUB, "seq": -1}, ("rejected", "seq_out_of_range")),
        ({**HUB, "hr": -999, "dbg": 7}, ("telemetry", None)),
        ({**HUB, "fs": {}}, ("rejected", "fs_not_list")),
        ({**HUB, "rs": "x"}, ("rejected", "radio_stats_not_list")),
        ({**HUB, "ms": 5}, ("rejected", "mqtt_stats_not_list")),
        ({**HUB, "fs": [float("nan")]}, ("rejected", "fs_not_finite")),
        ({**HUB, "v": float("inf")}, ("rejected", "voltage_out_of_range")),
    ],
)
def test_telemetry(document: dict[str, Any], expected: tuple[str, str | None]) -> None:
    assert verdict(document) == expected


def test_telemetry_keeps_lists_as_lists_and_revisions_as_text() -> None:
    normalized = parse(HUB).normalized
    assert normalized is not None
    assert (normalized["fs"], normalized["radio_stats"]) == ([], [28, 1, 0, 3, 1466])
    assert (parse(DEVICE).normalized or {})["firmware_revision"] == "181"


def test_a_heartbeat_is_never_refused_for_its_time() -> None:
    event = parse({"sys": "dbg", "i": 1, "up": -3, "ts": "long ago", "ip": "10.0.0.1"})
    assert (event.packet_type, event.source_ts_utc) == ("health", "long ago")
    assert parse({"sys": None}).normalized == {
        "status": "None", "msg_id": None, "uptime_sec": None, "ip_address": None, "error_reason": None,
        "source_ts_utc": None,
    }  # fmt: skip
    bad = parse({"sys": "dbg", "i": "x"})
    assert bad.packet_type == "invalid"
    assert (bad.reason or "").startswith("bad_health_payload:")


def test_stored_columns_become_a_reading_under_the_same_rules() -> None:
    columns = {field.column: GOOD.get(field.key) for field in FIELDS} | {
        "msg_id": 9,
        "source_ts_utc": "2026-08-06T07:07:00Z",
    }
    reading = PARSER.reading_from_columns(columns, TS * 1_000_000)
    assert not isinstance(reading, str)
    assert (reading.epoch_us, reading.values) == (TS * 1_000_000, parse(GOOD).body.values)  # type: ignore[union-attr]
    assert PARSER.reading_from_columns({**columns, "temp_c": "99"}, TS * 1_000_000) == "temp_out_of_range"
    assert PARSER.reading_from_columns({**columns, "rain_mm": ""}, TS * 1_000_000) == "'rain_mm'"
    assert PARSER.reading_from_columns({**columns, "source_ts_utc": None}, TS * 1_000_000) == "weather_missing_ts"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
number = st.integers(-10, 1300) | st.floats(-100, 1300) | st.floats() | st.integers() | st.none()
keys = st.sampled_from([*GOOD, "rd", "nr", "nrd", "pa", "sys", "x"])
times = st.integers(TS - 10, TS + 200_000) | st.sampled_from([0, 946684800, 946684799, float(TS), str(TS), TS * 1000])
changes = st.dictionaries(keys, number | anything, max_size=3)


def without_body(event: ParsedEvent) -> ParsedEvent:
    return msgspec.structs.replace(event, body=None, unrecognised=None)


def values_of(event: ParsedEvent) -> list[Any]:
    return [] if event.body is None else list(event.body.normalized().values())


@given(changes, times, st.booleans())
def test_the_fast_and_the_exact_way_agree(changed: dict[str, Any], ts: object, keep_ts: bool) -> None:  # noqa: FBT001 - drawn
    document = {**GOOD, **({} if keep_ts else {"ts": ts}), **changed}
    payload = json.dumps(document).encode()
    fast, exact = PARSER.parse(payload, RECEIVED, "!x"), PARSER._exact(payload, RECEIVED, "!x", None)
    assert without_body(fast) == without_body(exact)
    assert values_of(fast) == values_of(exact)
    assert [type(one) for one in values_of(fast)] == [type(one) for one in values_of(exact)]
    assert fast.body is None or exact.body is None or fast.body.epoch_us == exact.body.epoch_us


@given(st.binary(max_size=300) | anything.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_make_the_parser_raise_and_what_it_keeps_can_be_stored(payload: bytes) -> None:
    event = PARSER.parse(payload, RECEIVED)
    kept = event.raw_payload.encode() if event.payload_hex is None else bytes.fromhex(event.payload_hex)
    assert kept == payload
    stored = [event.reason, event.source_ts_utc]
    if event.body is not None:
        stored += [value for value in event.body.normalized().values() if isinstance(value, str)]
    for text in stored:
        (text or "").encode()  # raises on what SQLite could not take
