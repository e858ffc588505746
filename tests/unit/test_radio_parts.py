"""The pure parts of the radio edge: ids and names, framing, the Serial module, one uplink message."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormjay.weather.radio.identity import link_quality, node_id, real_name
from stormjay.weather.radio.options import RadioOptions
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.radio.serial_module import TextMessageSerial, printed
from stormjay.weather.radio.stream_frames import BODY_BYTES_MAX, FrameReader, frame
from stormjay.weather.radio.uplink_message import (
    MESSAGE_BYTES_MAX,
    NAMES_MAX,
    MalformedUplinkError,
    NodeNames,
    parse_uplink,
    telemetry_groups,
)

NOW = datetime(2026, 8, 6, 7, 6, 40, tzinfo=UTC)
TOPIC = "msh/EU_868/2/json/LongFast/!0badcafe"


@pytest.mark.parametrize(
    ("number", "text"), [(0x5C32D4D9, "!5c32d4d9"), (0xAB, "!000000ab"), (0, None), (0xFFFFFFFF, None)]
)
def test_b1_a_node_id_comes_from_the_number(number: int, text: str | None) -> None:
    assert node_id(number) == text


@pytest.mark.parametrize(
    ("long_name", "short_name", "name"),
    [
        ("Garden", "GRDN", "Garden"),
        ("Meshtastic d4d9", "d4d9", None),
        ("Meshtastic D4D9", "D4D9", None),
        ("Meshtastic d4d9", "SHED", "SHED"),
        ("  ", "SHED", "SHED"),
        (None, None, None),
        ("Meshtastic fans of 1234", "d4d9", "Meshtastic fans of 1234"),
        (7, ["x"], None),
        ("Garden \ud800", None, "Garden ?"),
        ("x" * 16_000, None, "x" * 64),
    ],
)
def test_b16_placeholder_names_count_as_none(long_name: object, short_name: object, name: str | None) -> None:
    assert real_name(long_name, short_name, 0x5C32D4D9) == name


def test_link_quality_tells_a_zero_from_nothing() -> None:
    assert link_quality(0.0, 0) == (None, None)
    assert link_quality(None, None) == (None, None)
    assert link_quality(0.0, -90) == (0.0, -90)
    assert link_quality(5.5, 0) == (5.5, None)


@given(st.lists(st.binary(max_size=BODY_BYTES_MAX), max_size=5), st.lists(st.integers(1, 700), max_size=8))
def test_frames_are_found_however_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"\xc3" * 32 + b"".join(frame(body) for body in bodies)
    reader = FrameReader()
    found = []
    for cut in cuts:
        found += reader.feed(stream[:cut])
        stream = stream[cut:]
    found += reader.feed(stream)
    assert found == bodies


def test_a_frame_that_claims_to_be_too_long_is_noise() -> None:
    assert FrameReader().feed(b"\x94\xc3\xff\xff" + frame(b"after")) == [b"after"]
    with pytest.raises(ValueError, match="513"):
        frame(bytes(513))


def test_b2_the_serial_module_cuts_a_line_that_is_too_long() -> None:
    """Contract weather 1.6: 238 bytes and a newline become 233 and 6; exactly 233 leave a newline alone."""
    module = TextMessageSerial()
    assert [len(text) for text in module.feed(b"x" * 238 + b"\n")] == [233]
    assert module.idle() == b"xxxxx\n"
    assert module.feed(b"y" * 233 + b"\n") == [b"y" * 233]
    assert (module.idle(), module.idle()) == (b"\n", None)


def test_two_lines_without_a_pause_become_one_text() -> None:
    module = TextMessageSerial()
    assert module.feed(b'{"i":1}\n') == []
    assert module.feed(b'{"i":2}\n') == []
    assert module.collecting
    assert module.idle() == b'{"i":1}\n{"i":2}\n'


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_the_serial_module_loses_and_adds_nothing(pieces: list[bytes]) -> None:
    module = TextMessageSerial()
    texts = [text for piece in pieces for text in module.feed(piece)]
    texts.append(module.idle() or b"")
    assert b"".join(texts) == b"".join(pieces)
    assert all(len(text) <= 233 for text in texts)


def test_what_the_module_prints() -> None:
    assert printed(b"hello", short_name="HOME") == b"\r\nHOME: hello\r\n"
    assert printed(b"mine\n", short_name=None) == b"mine\n"


def test_silence_limit_of_the_options() -> None:
    assert RadioOptions().silence_seconds_max == 600
    assert RadioOptions(watchdog_timeout_seconds=0).silence_seconds_max is None
    assert RadioOptions(watchdog_enabled=False).silence_seconds_max is None


def uplink(message: object, *, names: NodeNames | None = None, topic: str = TOPIC) -> MeshPacket | None:
    return parse_uplink(topic, json.dumps(message).encode(), received_at=NOW, names=names or NodeNames())


def message(**changes: Any) -> dict[str, Any]:
    return {"id": 9, "from": 0x5C32D4D9, "type": "text", "payload": {"text": "hi"}, "sender": "!0BADCAFE"} | changes


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"text": "hi\n"}, b"hi\n"),
        (
            {"et": "obs_st", "t": 19.46, "lux": 48211.0, "ws": None},
            b'{"et":"obs_st","t":19.46,"lux":48211.0,"ws":null}',
        ),
        ({"text": "hi", "more": 1}, b'{"text":"hi","more":1}'),
        ({"text": 7}, b'{"text":7}'),
        ("grüß", '"grüß"'.encode()),
        (5, b"5"),
        ([1, 2], b"[1,2]"),
        ({"text": "\ud800"}, b"?"),
        ({"k": "\ud800"}, b'{"k":"\\ud800"}'),
    ],
)
def test_texts_of_the_uplink(payload: object, text: bytes) -> None:
    packet = uplink(message(payload=payload))
    assert packet is not None
    assert packet.payload == text


def test_everything_the_uplink_says_about_a_packet() -> None:
    packet = uplink(message(channel=2, timestamp=1786000000, rssi=-101, snr=-3.5, hop_start=5, hops_away=2))
    assert packet is not None
    assert (packet.source_node_id, packet.gateway_id, packet.packet_id) == ("!5c32d4d9", "!0badcafe", 9)
    assert (packet.channel, packet.rx_time, packet.snr_db, packet.rssi_dbm) == (2, 1786000000, -3.5, -101)
    assert (packet.hop_start, packet.hop_limit, packet.hops_away) == (5, 3, 2)


@pytest.mark.parametrize(
    "odd",
    [
        {"rssi": "x", "snr": True, "hop_start": -1, "hops_away": 2, "channel": 1.5, "id": 2**40, "timestamp": None},
        {"rssi": 1e308, "snr": 10**400, "hop_start": 10**400, "hops_away": 0, "channel": 10**400, "id": 10**400},
    ],
)
def test_odd_values_beside_the_payload_count_as_not_said(odd: dict[str, Any]) -> None:
    packet = uplink(message(**odd, sender=None))
    assert packet is not None
    assert (packet.snr_db, packet.rssi_dbm, packet.hops_away, packet.channel, packet.packet_id) == (None,) * 5
    assert packet.gateway_id == "!0badcafe"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not_json"),
        (b"\xff", "not_json"),
        (b"[" * 10_000, "not_json"),
        (b"[]", "not_an_object"),
        (b'{"type":"text","payload":1}', "no_sender"),
        (b'{"from":"!5c32d4d9","type":"text","payload":1}', "no_sender"),
        (b'{"from":true,"type":"text","payload":1}', "no_sender"),
        (b'{"from":5,"type":"text"}', "no_payload"),
        (b" " * (MESSAGE_BYTES_MAX + 1), "too_long"),
    ],
)
def test_malformed_uplinks_have_a_reason(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedUplinkError, match=reason):
        parse_uplink(TOPIC, body, received_at=NOW, names=NodeNames())


def test_a_payload_as_deep_as_can_just_be_read_is_taken_or_malformed() -> None:
    for depth in range(900, 1000):
        body = b'{"from":5,"type":"text","payload":%b1%b}' % (b"[" * depth, b"]" * depth)
        try:
            assert parse_uplink(TOPIC, body, received_at=NOW, names=NodeNames()) is not None
        except MalformedUplinkError as error:
            assert str(error) == "not_json"  # noqa: PT017 - any other exception is the failure


def test_telemetry_with_numbers_beyond_any_float_is_read() -> None:
    packet = uplink(message(type="telemetry", payload={"battery_level": 10**400, "voltage": 4.1}))
    assert packet is not None
    assert packet.telemetry == {"environmentMetrics": {"voltage": 4.1}}


def test_topics_that_carry_no_json_are_passed_over() -> None:
    assert uplink(message(), topic="msh/EU_868/2/e/LongFast/!0badcafe") is None


@given(st.binary(max_size=200))
def test_no_body_crashes_the_parser(body: bytes) -> None:
    try:
        parse_uplink(TOPIC, body, received_at=NOW, names=NodeNames())
    except MalformedUplinkError as error:
        assert str(error)  # noqa: PT017 - any other exception is the failure


def test_unknown_kinds_keep_their_payload() -> None:
    packet = uplink(message(type="", payload={"a": 1}))
    assert packet is not None
    assert (packet.portnum, packet.payload) == ("UNKNOWN_APP", b'{"a":1}')


@pytest.mark.parametrize(
    ("flat", "groups"),
    [
        (
            {"battery_level": 87, "voltage": 4.01, "air_util_tx": 0.02, "uptime_seconds": 77},
            {"deviceMetrics": {"batteryLevel": 87, "voltage": 4.01, "airUtilTx": 0.02, "uptimeSeconds": 77}},
        ),
        (
            {"barometric_pressure": 1008.4, "rainfall_1h": 0.5, "wind_gust": 3.0, "voltage": 3.3, "temperature": "x"},
            {"environmentMetrics": {"barometricPressure": 1008.4, "rainfall1h": 0.5, "windGust": 3.0, "voltage": 3.3}},
        ),
        ({"voltage_ch1": 5.1, "current_ch3": 20}, {"powerMetrics": {"ch1Voltage": 5.1, "ch3Current": 20}}),
        ({"pm10": 4, "pm25": 6}, {"airQualityMetrics": {"pm10Standard": 4, "pm25Standard": 6}}),
        ({"temperature": float("nan"), "lux": True}, {}),
    ],
)
def test_flat_telemetry_gets_the_names_of_the_protobuf(flat: dict[str, Any], groups: dict[str, Any]) -> None:
    assert telemetry_groups(flat) == groups


def test_names_are_remembered_up_to_a_bound() -> None:
    names = NodeNames()
    for number in range(1, NAMES_MAX + 11):
        names.remember(number, f"Node {number}", "")
    names.remember(11, "Node 11 again", "")
    assert names.of(10) is None
    assert names.of(11) == "Node 11 again"
    assert len(names._names) == NAMES_MAX
