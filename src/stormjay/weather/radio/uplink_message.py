"""One message of Meshtastic's JSON uplink becomes one packet (contract weather 9.7). Pure.

Topic: ``msh/<region, one or more levels>/2/json/<channel>/<gateway>``. A text that is itself JSON is embedded as a
value, so its bytes are lost; they are written out again here, compactly and in the order of the keys.
"""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from datetime import datetime
from typing import Any

from stormjay.weather.radio.identity import link_quality, node_id, real_name
from stormjay.weather.radio.port import TELEMETRY_APP, TEXT_MESSAGE_APP, MeshPacket

MESSAGE_BYTES_MAX = 16_384
"""Longest message that is looked at; a packet carries 233 bytes and its JSON a few hundred."""
NAMES_MAX = 1000
_JSON_LEVEL = "/2/json/"
_NODE_ID = re.compile(r"![0-9a-f]{8}")
_PORTS = {
    "text": TEXT_MESSAGE_APP,
    "telemetry": TELEMETRY_APP,
    "nodeinfo": "NODEINFO_APP",
    "position": "POSITION_APP",
    "waypoint": "WAYPOINT_APP",
    "neighborinfo": "NEIGHBORINFO_APP",
    "traceroute": "TRACEROUTE_APP",
    "detection": "DETECTION_SENSOR_APP",
    "paxcounter": "PAXCOUNTER_APP",
    "remotehw": "REMOTE_HARDWARE_APP",
}
_DEVICE = frozenset({"battery_level", "channel_utilization", "air_util_tx", "uptime_seconds"})
_AIR_QUALITY = {
    "pm10": "pm10Standard",
    "pm25": "pm25Standard",
    "pm100": "pm100Standard",
    "pm10_e": "pm10Environmental",
    "pm25_e": "pm25Environmental",
    "pm100_e": "pm100Environmental",
    "co2": "co2",
}
_POWER = re.compile(r"(voltage|current)_ch([1-8])")
_MAX_UINT32, _MAX_INT32 = 0xFFFFFFFF, 0x7FFFFFFF


class MalformedUplinkError(ValueError):
    """A message that is no packet; the text is a short reason, fit to be a label."""


class NodeNames:
    """The names that nodes have said of themselves, the most recent ``NAMES_MAX`` of them."""

    def __init__(self) -> None:
        self._names: OrderedDict[int, str] = OrderedDict()

    def remember(self, number: int, long_name: object, short_name: object) -> None:
        """Keep a node's name, if it is one that people gave it."""
        name = real_name(long_name, short_name, number)
        if name is None:
            return
        self._names[number] = name
        self._names.move_to_end(number)
        if len(self._names) > NAMES_MAX:
            self._names.popitem(last=False)

    def of(self, number: int) -> str | None:
        """Return a node's name, or None when it has not said one."""
        return self._names.get(number)


def parse_uplink(topic: str, body: bytes, *, received_at: datetime, names: NodeNames) -> MeshPacket | None:
    """Return the packet, or None for a topic that does not carry the JSON uplink; names said in it are remembered.

    Raises:
        MalformedUplinkError: It is on a JSON topic but no packet.
    """
    _, found, rest = topic.partition(_JSON_LEVEL)
    if not found:
        return None
    if len(body) > MESSAGE_BYTES_MAX:
        raise MalformedUplinkError("too_long")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedUplinkError("not_json") from error
    if not isinstance(message, dict):
        raise MalformedUplinkError("not_an_object")
    number = _uint32(message.get("from"))
    if number is None:
        raise MalformedUplinkError("no_sender")
    payload = message.get("payload")
    portnum = _PORTS.get(str(message.get("type")), "UNKNOWN_APP")
    if portnum in (TEXT_MESSAGE_APP, TELEMETRY_APP) and payload is None:
        raise MalformedUplinkError("no_payload")
    fields = payload if isinstance(payload, dict) else {}
    if portnum == "NODEINFO_APP":
        names.remember(number, fields.get("longname"), fields.get("shortname"))
    snr_db, rssi_dbm = link_quality(_number(message.get("snr")), _integer(message.get("rssi")))
    hop_start, hop_limit = _hops(message)
    return MeshPacket(
        received_at=received_at,
        portnum=portnum,
        payload=_text_bytes(payload) if portnum == TEXT_MESSAGE_APP else _compact(payload),
        source_node_id=node_id(number),
        source_name=names.of(number),
        packet_id=_uint32(message.get("id")) or None,
        channel=_uint32(message.get("channel")),
        rx_time=_uint32(message.get("timestamp")) or None,
        snr_db=snr_db,
        rssi_dbm=rssi_dbm,
        hop_start=hop_start,
        hop_limit=hop_limit,
        gateway_id=_gateway(message.get("sender"), rest),
        telemetry=telemetry_groups(fields) if portnum == TELEMETRY_APP else None,
    )


def telemetry_groups(flat: dict[str, Any]) -> dict[str, Any]:
    """Return the uplink's flat telemetry under the group and the names that Meshtastic's protobuf JSON uses.

    One packet carries one group; which one is known by the keys that only it has. Values that are no finite number
    are left out.
    """
    values = {key: value for key, value in flat.items() if _number(value) is not None}
    if values.keys() & _DEVICE:
        group = "deviceMetrics"
    elif any(_POWER.fullmatch(key) for key in values):
        group = "powerMetrics"
    elif values.keys() & _AIR_QUALITY.keys():
        group = "airQualityMetrics"
    else:
        group = "environmentMetrics"
    return {group: {_json_name(key): value for key, value in values.items()}} if values else {}


def _json_name(key: str) -> str:
    power = _POWER.fullmatch(key)
    if power is not None:
        return f"ch{power[2]}{power[1].capitalize()}"
    if key in _AIR_QUALITY:
        return _AIR_QUALITY[key]
    first, *more = key.split("_")
    return first + "".join(part.capitalize() for part in more)


def _text_bytes(payload: object) -> bytes:
    # A text that is no JSON comes wrapped.
    if isinstance(payload, dict) and payload.keys() == {"text"} and isinstance(payload["text"], str):
        return payload["text"].encode("utf-8", "replace")
    return _compact(payload)


def _compact(value: object) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8 form, but it has an escape
        return json.dumps(value, separators=(",", ":")).encode()
    except RecursionError as error:  # as deep as could just be read
        raise MalformedUplinkError("not_json") from error


def _hops(message: dict[str, Any]) -> tuple[int | None, int | None]:
    start, away = _uint32(message.get("hop_start")), _uint32(message.get("hops_away"))
    if start is None or away is None or away > start:
        return None, None
    return start, start - away


def _gateway(sender: object, rest_of_topic: str) -> str | None:
    for candidate in (sender, rest_of_topic.rpartition("/")[2]):
        if isinstance(candidate, str) and _NODE_ID.fullmatch(candidate.lower()):
            return candidate.lower()
    return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond 1e308
        return None
    return number if math.isfinite(number) else None


def _integer(value: object) -> int | None:
    number = _number(value)
    return None if number is None or abs(number) > _MAX_INT32 else int(number)


def _uint32(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_UINT32:
        return None
    return value
