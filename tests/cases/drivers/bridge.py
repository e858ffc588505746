"""Stage ``bridge``: a hub's datagrams go through the deciding part of the garden bridge and come out as mesh texts.

Handed on in ``context["texts"]``: the texts in the order in which they were sent, as they are on the air.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stormjay.weather.bridge_core import HEARTBEAT, Bridge
from stormjay.weather.bridge_lines import OBS_FIELDS, REQUIRED
from stormjay.weather.bridge_settings import BridgeSettings, core_of
from tests.cases.judging import CannotDrive, Verdict, close, compare, compare_near, joined, matches

PLACES = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1}
ON_AIR = {field[0] for field in OBS_FIELDS} | {
    *("et", "i", "ts", "se", "up", "v", "fw", "hr", "ss", "dbg", "rf", "seq", "fs", "rs", "ms", "sys", "ip", "err")
}
SETTINGS = {
    "forward_interval_s": "obs_interval_seconds",
    "gap_s": "gap_seconds",
    "max_payload_bytes": "max_payload_bytes",
    "serials": "serials",
}
PACKETS = ("udp_packet", "udp_packets", "hub_records")
FOR_PEOPLE = ("stage", "note", "because", "then", "ends")
OTHER = ("next_msg_id", "radio_busy_s", "health")
HEALTH = ("sys", "uptime_sec", "ip_address", "error_reason")
SETTLE_S = 180
"""How long the radio may go on taking what waits after the last arrival."""


def drive(given: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Send the case's datagrams through a bridge and return what it said."""
    known = (*SETTINGS, *PACKETS, *FOR_PEOPLE, *OTHER)
    unknown = [key for key in given if key not in known]
    # In a combined stage the other keys are the next driver's.
    if unknown and given.get("stage") == "bridge":
        raise CannotDrive(unknown[0])
    chosen = {name: given[key] for key, name in SETTINGS.items() if key in given}
    settings = BridgeSettings(**{"heartbeat_seconds": 0.0, **chosen})
    bridge = core_of(settings, 0)
    bridge.msg_id = given.get("next_msg_id", 1)
    lines, words = _carried_through(bridge, given)
    texts = [line.decode() for line in lines]
    context["texts"] = texts
    return {
        "texts": texts,
        "words": words,
        "reason": given.get("health", {}).get("error_reason", ""),
        "health_text": _health_text(settings, given),
    }


def _arrivals(given: dict[str, Any]) -> list[tuple[int, bytes]]:
    single = [given["udp_packet"]] if "udp_packet" in given else []
    arrivals = [(0, _bytes(packet)) for packet in [*single, *given.get("udp_packets", [])]]
    for record in given.get("hub_records", []):
        for key in record:
            if key not in ("at_s", "udp_packet", *FOR_PEOPLE):
                raise CannotDrive(f"hub_records.{key}")
        arrivals.append((int(record["at_s"] * 1000), _bytes(record["udp_packet"])))
    return arrivals


def _bytes(packet: object) -> bytes:
    return packet.encode() if isinstance(packet, str) else json.dumps(packet).encode()


def _carried_through(bridge: Bridge, given: dict[str, Any]) -> tuple[list[bytes], list[str]]:
    """Play the arrivals on a clock of whole seconds; the radio takes a line whenever it is not busy."""
    arrivals = _arrivals(given)
    busy = [(start * 1000, end * 1000) for start, end in given.get("radio_busy_s", [])]
    moments = [at for at, _ in arrivals] + [end for _, end in busy]
    end_ms = int(max(moments, default=0)) + SETTLE_S * 1000
    lines: list[bytes] = []
    words: list[str] = []
    for now_ms in range(0, end_ms, 1000):
        while arrivals and arrivals[0][0] <= now_ms:
            words.append(bridge.on_datagram(arrivals.pop(0)[1], now_ms))
        if any(start <= now_ms < end for start, end in busy):
            continue
        line = bridge.next_line(now_ms)
        if line is not None:
            lines.append(line)
            bridge.sent(now_ms)
    return lines, words


def _health_text(settings: BridgeSettings, given: dict[str, Any]) -> str | None:
    """Return the heartbeat of a bridge that has been up for that long, has that address and met that error."""
    health = given.get("health")
    if health is None:
        return None
    for key in health:
        if key not in HEALTH:
            raise CannotDrive(f"health.{key}")
    if health.get("sys", HEARTBEAT) != HEARTBEAT:
        raise CannotDrive("health.sys")
    limited = BridgeSettings(max_payload_bytes=settings.max_payload_bytes)
    bridge = core_of(limited, 0)
    bridge.msg_id = given.get("next_msg_id", 1)
    bridge.ip = health.get("ip_address", "")
    bridge.error = health.get("error_reason", "")
    line = bridge.next_line(health.get("uptime_sec", 0) * 1000)
    return None if line is None else line.decode()


def judge(expect: dict[str, Any], actual: dict[str, Any]) -> list[Verdict]:
    """Judge what the bridge said; keys that are not about texts of the bridge are unknown here."""
    texts: list[str] = actual["texts"]
    verdicts: list[Verdict] = []
    for key, expected in expect.items():
        place = PLACES.get(key.removesuffix("_text")) if key.endswith("_text") else None
        if key.startswith("sum_of_") and key.endswith("_over_all_texts"):
            name = key.removeprefix("sum_of_").removesuffix("_over_all_texts")
            got = sum(json.loads(text).get(name) or 0 for text in texts)
            verdicts.append(Verdict.of(key, holds=close(expected, got), expected=expected, got=got))
        elif key == "mesh_texts_sent":
            verdicts.append(Verdict.of(key, holds=expected == len(texts), expected=expected, got=len(texts)))
        elif key == "raises":
            verdicts.append(Verdict.of(key, holds=expected is False, expected=expected, got=False))
        elif key == "health_text":
            verdicts += _on_text(key, expected, actual["health_text"], actual["reason"])
        elif place is not None:
            found = texts[place] if -len(texts) <= place < len(texts) else None
            verdicts += _on_text(key, expected, found)
        elif key == "weather_text":
            verdicts += _on_text(key, expected, _first_reading(texts))
        elif key in TEXT_JUDGES:
            verdicts += _on_text("", {key: expected}, _first_reading(texts) or (texts[0] if texts else ""))
        else:
            verdicts.append(Verdict.unknown(key))
    return verdicts


def _first_reading(texts: list[str]) -> str | None:
    return next((text for text in texts if json.loads(text).get("et") == "obs_st"), None)


def _on_text(path: str, expect: dict[str, Any], text: str | None, reason: str = "") -> list[Verdict]:
    """Judge one text: rules about it as a whole, and the values of its keys."""
    if text is None:
        return [Verdict.fail(path, expect, "no such text")]
    values = _object(text)
    verdicts: list[Verdict] = []
    for key, expected in expect.items():
        name = joined(path, key)
        if key in TEXT_JUDGES:
            verdicts += [
                verdict.under(path) if path else verdict for verdict in TEXT_JUDGES[key](expected, text, reason)
            ]
        elif key in ON_AIR:
            verdicts.append(
                Verdict.of(name, holds=matches(expected, values.get(key)), expected=expected, got=values.get(key))
            )
        else:
            verdicts.append(Verdict.unknown(name))
    return verdicts


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _rule(key: str, expected: object, got: object) -> list[Verdict]:
    return [Verdict.of(key, holds=expected == got, expected=expected, got=got)]


def _bytes_at_most(expected: int, text: str, _: str) -> list[Verdict]:
    length = len(text.encode())
    return [Verdict.of("utf8_bytes_at_most", holds=length <= expected, expected=expected, got=length)]


def _present(expected: list[str], text: str, _: str) -> list[Verdict]:
    missing = [key for key in expected if _object(text).get(key) is None]
    return [Verdict.of("keys_present", holds=not missing, expected=expected, got=f"without {missing}")]


def _absent(expected: list[str], text: str, _: str) -> list[Verdict]:
    there = [key for key in expected if _object(text).get(key) is not None]
    return [Verdict.of("keys_absent_or_null", holds=not there, expected=expected, got=f"with {there}")]


def _values(key: str) -> Callable[[dict[str, Any], str, str], list[Verdict]]:
    def judged(expected: dict[str, Any], text: str, _: str) -> list[Verdict]:
        return compare(key, expected, _object(text), names=ON_AIR)

    return judged


def _may_be_dropped(expected: bool, text: str, _: str) -> list[Verdict]:  # noqa: FBT001 - a case's value
    dropped = any(key not in _object(text) for key in ("i", "ts", *REQUIRED))
    return [Verdict.of("required_keys_may_be_dropped", holds=expected or not dropped, expected=expected, got=dropped)]


def _prefix(expected: bool, text: str, reason: str) -> list[Verdict]:  # noqa: FBT001 - a case's value
    error = _object(text).get("err", "")
    return _rule("err_is_a_prefix_of_the_reason", expected, isinstance(error, str) and reason.startswith(error))


TEXT_JUDGES: dict[str, Callable[[Any, str, str], list[Verdict]]] = {
    "utf8_bytes_at_most": _bytes_at_most,
    "is_whole_json_object": lambda expected, text, _: _rule("is_whole_json_object", expected, bool(_object(text))),
    # A text comes here decoded from the bytes on the air, so that it was valid.
    "is_valid_utf8": lambda expected, _text, _: _rule("is_valid_utf8", expected, True),  # noqa: FBT003 - a verdict's
    "keys_present": _present,
    "keys_absent_or_null": _absent,
    "exact": _values("exact"),
    "text_values": _values("text_values"),
    "near": lambda expected, text, _: compare_near("near", expected, _object(text)),
    "required_keys_may_be_dropped": _may_be_dropped,
    "err_is_a_prefix_of_the_reason": _prefix,
}
