"""The pure half of ingest: every message of contract weather 6.1 and every odd body of faults B8 and B22."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormjay.weather.cloud.observation import (
    NESTING_MAX,
    Observation,
    Refusal,
    latest_of,
    observe,
    parse_body,
    rules,
)
from stormjay.weather.fields import FIELDS, ranges

RULES = rules(ranges())
NOW_US = 1_786_003_200_000_000


def payload(**changes: Any) -> dict[str, Any]:
    whole = {
        "source_node_id": "!5c32d4d9",
        "msg_id": 9,
        "source_ts_utc": "1786000000",
        "received_at_utc": "2026-08-06T07:06:41.5Z",
        "weather": {"air_temp_c": 22.0, "uv_index": 1.25},
    }
    whole.update(changes)
    return {name: value for name, value in whole.items() if value != "absent"}


def seen(**changes: Any) -> Observation:
    outcome = observe({"payload": payload(**changes)}, RULES, NOW_US)
    assert isinstance(outcome, Observation), outcome
    return outcome


def details(**changes: Any) -> tuple[str, ...]:
    outcome = observe({"payload": payload(**changes)}, RULES, NOW_US)
    assert isinstance(outcome, Refusal), outcome
    assert outcome.error == "validation_failed"
    return outcome.details


def test_observation_item_has_the_contracts_attributes() -> None:
    item = seen().item
    assert list(item) == [
        "pk", "sk", "record_type", "observation_type", "source_node_id", "source_name", "msg_id", "source_ts_utc",
        "source_ts_raw", "source_ts_sort_utc", "received_at_utc", "weather", "raw_payload",
    ]  # fmt: skip
    assert item["pk"] == "STATION#!5c32d4d9"
    assert item["sk"] == "OBS#2026-08-06T07:06:40.000000Z#WEATHER"
    assert item["source_name"] is None
    assert item["source_ts_raw"] == "1786000000"
    assert item["received_at_utc"] == "2026-08-06T07:06:41.500000Z"
    assert list(item["raw_payload"]) == ["payload"]


def test_whole_numbers_lose_their_fraction_everywhere() -> None:
    item = seen().item
    assert json.dumps(item["weather"]) == '{"air_temp_c": 22, "uv_index": 1.25}'
    assert json.dumps(item["raw_payload"]["payload"]["weather"]) == '{"air_temp_c": 22, "uv_index": 1.25}'


def test_latest_points_to_its_observation_and_keeps_no_raw_payload() -> None:
    item = {**seen().item, "ingested_at_utc": "then"}
    latest = latest_of(item, "now")
    assert latest["sk"] == "LATEST"
    assert latest["record_type"] == "latest"
    assert latest["latest_observation_sk"] == item["sk"]
    assert latest["updated_at_utc"] == "now"
    assert not {"raw_payload", "ingested_at_utc"} & set(latest)


def test_details_come_in_the_contracts_order() -> None:
    assert details(source_node_id="", msg_id="x", weather=[1], received_at_utc=True, source_ts_utc="") == (
        "payload.source_node_id is required and must be a string",
        "payload.msg_id must be an integer",
        "payload.weather must be an object",
        "payload.received_at_utc must be an ISO-8601 UTC string or epoch number",
        "payload.source_ts_utc must not be empty",
        "payload.weather must be an object",
    )
    weather = {"uv_index": 31, "timestamp": -1, "air_temp_c": "22", "precipitation_type": 5}
    assert details(weather=weather) == (
        "uv_index must be between 0 and 30",
        "weather.timestamp epoch must be non-negative",
        "air_temp_c must be numeric",
        "precipitation_type must be one of [0, 1, 2, 3, 4]",
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"source_node_id": 5}, "payload.source_node_id is required and must be a string"),
        ({"source_node_id": "x" * 257}, "payload.source_node_id must have at most 256 characters"),
        ({"source_name": 5}, "payload.source_name must be a string"),
        ({"msg_id": "absent"}, "payload.msg_id is required"),
        ({"msg_id": None}, "payload.msg_id is required"),
        ({"msg_id": "1.5"}, "payload.msg_id must be an integer"),
        ({"msg_id": True}, "payload.msg_id must be an integer"),
        ({"msg_id": [1]}, "payload.msg_id must be an integer"),
        ({"msg_id": "9" * 5000}, "payload.msg_id must be an integer"),
        ({"msg_id": 1e300}, "payload.msg_id must be an integer"),
        ({"weather": "absent"}, "payload.weather is required"),
        ({"received_at_utc": "absent"}, "payload.received_at_utc is required"),
        ({"source_ts_utc": "absent"}, "payload.source_ts_utc is required"),
        ({"source_ts_utc": -5}, "payload.source_ts_utc epoch must be non-negative"),
        ({"source_ts_utc": 1e30}, "payload.source_ts_utc epoch is out of range"),
        ({"source_ts_utc": "2026-08-06T07:06:40"}, "payload.source_ts_utc must include timezone information"),
        ({"source_ts_utc": "2026-08-06"}, "payload.source_ts_utc must include timezone information"),
        (
            {"source_ts_utc": "soon"},
            "payload.source_ts_utc must be an ISO-8601 UTC string like 2026-03-18T00:45:46.982324Z or an epoch number",
        ),
        ({"weather": {"timestamp": None}}, "weather.timestamp is required"),
        ({"weather": {"air_temp_c": True}}, "air_temp_c must be numeric"),
        ({"weather": {"air_temp_c": None}}, "air_temp_c must be numeric"),
        ({"weather": {"air_temp_c": float("nan")}}, "air_temp_c must be between -100 and 100"),
    ],
)
def test_each_fault_is_named(changes: dict[str, Any], expected: str) -> None:
    assert details(**changes)[0] == expected


@pytest.mark.parametrize(("given_id", "kept"), [("12", 12), (" 12 ", 12), (1.9, 1), ("1_0", 10), (-3, -3)])
def test_message_numbers_that_python_reads_as_integers_are_taken(given_id: object, kept: int) -> None:
    assert seen(msg_id=given_id).item["msg_id"] == kept


@pytest.mark.parametrize("source_ts", [4_102_444_800, "0800-01-01T00:00:00Z", 0, 37, 1_786_003_200 + 86_401])
def test_b8_implausible_source_times_are_refused(source_ts: object) -> None:
    """Fault B8: a time in the year 2100 would pin LATEST for good."""
    assert details(source_ts_utc=source_ts) == (
        "payload.source_ts_utc must lie between 2000-01-01T00:00:00Z and 24 hours from now",
    )


def test_b8_one_day_ahead_is_still_plausible() -> None:
    assert seen(source_ts_utc=1_786_003_200 + 86_400).source_ts_utc == "2026-08-07T08:00:00.000000Z"


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[1,", b"\xff\xfe", b'{"a": NaN}', b'{"a": -Infinity}', b"[" * 100_000, b'{"a": "\\ud800"}',
        b"\xef\xbb\xbf{}", b'{"payload": {}} {"payload": {}}', b"   ",
    ],
)  # fmt: skip
def test_b22_what_is_no_json_is_invalid_json(body: bytes) -> None:
    assert parse_body(body) == Refusal(error="invalid_json")


@pytest.mark.parametrize("body", [b"[]", b"null", b"5", b'"x"', b"true"])
def test_b22_json_that_is_no_object_is_refused(body: bytes) -> None:
    outcome = parse_body(body)
    assert isinstance(outcome, Refusal)
    assert outcome.error == "body_must_be_object"
    assert outcome.status == 400


def test_an_absent_body_is_an_empty_object() -> None:
    assert parse_body(b"") == {}


@pytest.mark.parametrize("falsy", [[], 0, "", None, False])
def test_falsy_payloads_are_empty_ones(falsy: object) -> None:
    outcome = observe({"payload": falsy}, RULES, NOW_US)
    assert isinstance(outcome, Refusal)
    assert len(outcome.details) == 5


@pytest.mark.parametrize("truthy", [[1], 5, "x", True])
def test_payloads_that_are_no_objects_are_refused(truthy: object) -> None:
    assert observe({"payload": truthy}, RULES, NOW_US) == Refusal(error="payload_must_be_object")


@pytest.mark.parametrize(
    "number", ["1e200", "1e400", "-1e130", "1e-200", "9" * 39, "0." + "123456789" * 5, "1" + "0" * 5000]
)
def test_b22_numbers_that_cannot_be_kept_are_named(number: str) -> None:
    """Fault B22: unknown weather keys with such numbers were answered with 500."""
    body = json.dumps({"payload": payload(weather={"unknown": "NUMBER"})}).replace('"NUMBER"', number).encode()
    request = parse_body(body)
    assert isinstance(request, dict)
    outcome = observe(request, RULES, NOW_US)
    assert isinstance(outcome, Refusal)
    assert outcome.status == 400
    assert outcome.details[0].startswith("payload.weather.unknown ")


def test_b22_endless_nesting_is_named() -> None:
    deep: Any = 1
    for _ in range(NESTING_MAX + 5):
        deep = [deep]
    assert "is nested deeper than" in details(weather={"deep": deep})[0]


def test_b22_a_year_one_time_that_leaves_the_calendar_is_refused() -> None:
    assert details(received_at_utc="0001-01-01T00:00:00+05:00") == ("payload.received_at_utc is out of range",)


def test_b9_what_the_edge_accepts_the_cloud_accepts() -> None:
    """Fault B9: bounds of the parser inside those of ingest, for every field and both ends."""
    for field in FIELDS:
        for bound in field.edge:
            assert seen(weather={field.cloud: bound}).item["weather"] == {field.cloud: bound}


def test_codes_are_judged_by_their_whole_part() -> None:
    weather = {"precipitation_type": 2.9, "precipitation_analysis_type": -0.5}
    assert seen(weather=weather).item["weather"] == weather


def test_unknown_weather_keys_are_kept_as_given() -> None:
    assert seen(weather={"colour": "blue", "more": None}).item["weather"] == {"colour": "blue", "more": None}


def test_widened_ranges_show_in_the_message() -> None:
    known = rules(ranges({"pressure_hpa": (550, 1250)}))
    low = observe({"payload": payload(weather={"station_pressure_hpa": 560})}, known, NOW_US)
    assert isinstance(low, Observation)
    high = observe({"payload": payload(weather={"station_pressure_hpa": 1300})}, known, NOW_US)
    assert isinstance(high, Refusal)
    assert high.details == ("station_pressure_hpa must be between 550 and 1250",)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("source_node_id", "source_name", "msg_id", "received_at_utc", "source_ts_utc"), JSON_VALUES
        ),
    ),
    st.dictionaries(st.sampled_from([field.cloud for field in FIELDS] + ["timestamp", "x"]), JSON_VALUES),
)
def test_any_payload_is_judged_and_what_is_kept_is_json(changes: dict[str, Any], weather: dict[str, Any]) -> None:
    outcome = observe({"payload": payload(**changes, weather=weather)}, RULES, NOW_US)
    if isinstance(outcome, Observation):
        json.dumps(outcome.item, allow_nan=False)
    else:
        assert outcome.details
