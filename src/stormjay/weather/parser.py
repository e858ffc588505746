"""From the bytes of one text to a record, or to the reason why it is none (contract weather 4).

Pure: no clock, no files; the capture time comes with the packet and decides what source time is plausible. Two ways
lead to the same answer. The fast one is a typed decoder with the ranges built in, made from ``weather/fields.py``; it
takes a well-formed ``obs_st`` in about a microsecond and refuses everything else without saying why. The exact one
then looks at the text key by key, accepts what is merely spelled differently, and names the first fault. A property
test holds the two together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import msgspec

from stormjay.ground import timestamps
from stormjay.weather.fields import BY_KEY, FIELDS, REQUIRED, Ranges, ranges
from stormjay.weather.parser_shapes import EVENT_TYPES, TELEMETRY_TYPES, health, telemetry, weather_event
from stormjay.weather.parser_values import (
    Refusal,
    clean,
    message_id,
    message_id_if_any,
    optional_float,
    optional_int,
    plausible_us,
    required,
    storable,
    time_text,
    to_float,
    to_int,
)
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.records import (
    AIR_ORDER,
    Body,
    CheckedReading,
    DecodedReading,
    Number,
    PacketType,
    ParsedEvent,
    WeatherReading,
)

PAYLOAD_BYTES_MAX = 16_384
"""Longer payloads are ``invalid``; a radio text has at most 233 bytes, an uplink might hand in anything."""
_LEGACY_KEYS = frozenset({"i", *(field.key for field in REQUIRED)})
_NOT_LEGACY = frozenset({"l"})
_FAST_AHEAD_S = timestamps.PLAUSIBLE_AHEAD.total_seconds() - 1.0
_MICROSECOND = timedelta(microseconds=1)


class Parser:
    """Parses texts under one set of ranges; holds no state between them.

    Args:
        bounds: Per column its (edge, cloud) range as ``fields.ranges()`` gives it; the seed's when None.
    """

    def __init__(self, bounds: Ranges | None = None) -> None:
        self._bounds = {column: edge for column, (edge, _) in (bounds or ranges()).items()}
        self._decode = msgspec.json.Decoder(_typed(self._bounds)).decode
        self._plausible = (datetime.max.replace(tzinfo=UTC), 0.0)
        """A time of capture, and up to which source time, epoch seconds, the fast way lets it pass."""

    def parse_packet(self, packet: MeshPacket) -> ParsedEvent:
        """Return the verdict on a packet's payload."""
        return self.parse(packet.payload, packet.received_at, packet.source_node_id, packet.source_name)

    def parse(
        self, payload: bytes, received_at: datetime, source_node_id: str | None = None, source_name: str | None = None
    ) -> ParsedEvent:
        """Return the verdict on one text; nothing that a sender can put into it raises.

        Args:
            payload: The bytes as they came.
            received_at: When this machine received them, aware.
            source_node_id: The sender, or None when unknown.
            source_name: The sender's name, or None.
        """
        try:
            text = payload.decode()  # the typed decoder does not look into strings that it skips
            body = self._decode(payload)
            ts = body.ts
            since, until_s = self._plausible
            # A time that was plausible for an earlier capture is so for a later one; the check is made anew when not.
            if received_at < since or ts > until_s:
                until_s = received_at.timestamp() + _FAST_AHEAD_S
                self._plausible = (received_at, until_s)
            if ts <= until_s and len(payload) <= PAYLOAD_BYTES_MAX:
                return ParsedEvent("weather", None, received_at, text, source_node_id, source_name, body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # the exact way finds out what it is
        return self._exact(payload, received_at, source_node_id, source_name)

    def reading_from_columns(self, columns: Mapping[str, object], captured_us: int) -> WeatherReading | str:
        """Return a reading made from stored or imported values, or the reason why it is none.

        Args:
            columns: Values under the column names of ``weather_readings``; ``source_ts_utc`` in any spelling that
                ``ground/timestamps.py`` takes; ``msg_id`` may be absent and is then 0.
            captured_us: When it was captured, for the plausibility of its source time.
        """
        try:
            given = columns.get("msg_id")
            number = 0 if given is None or given == "" else storable(to_int("msg_id", given), "msg_id_out_of_range")
            text = clean(str(columns.get("source_ts_utc") or "")).strip()
            if not text:
                raise Refusal("weather_missing_ts")  # noqa: TRY301 - one place turns refusals into their reason
            values: list[Number | None] = []
            for field in FIELDS:
                value = columns.get(field.column)
                if value is None or value == "":
                    if field.required:
                        raise Refusal(repr(field.column))  # noqa: TRY301 - as above
                    values.append(None)
                else:
                    values.append((to_int if field.kind == "int" else to_float)(field.column, value))
            epoch_us = plausible_us(text, captured_us)
            self._check_ranges(values)
        except Refusal as refusal:
            return str(refusal)
        whole = int(text) if text.isascii() and text.isdigit() else None
        return CheckedReading(number, text, epoch_us, whole, tuple(values))

    def _exact(
        self, payload: bytes, received_at: datetime, source_node_id: str | None, source_name: str | None
    ) -> ParsedEvent:
        verdict = _Verdict(received_at, source_node_id, source_name)
        if len(payload) > PAYLOAD_BYTES_MAX:
            kept = payload[:PAYLOAD_BYTES_MAX]
            return verdict.refused(
                "invalid", "payload_too_large", kept.decode(errors="replace"), payload_hex=kept.hex()
            )
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            return verdict.refused("invalid", "not_utf8", payload.decode(errors="replace"), payload_hex=payload.hex())
        try:
            document = json.loads(text)
            if not isinstance(document, dict):
                return verdict.refused("invalid", "json_not_object", text)
            return self._classify(document, text, verdict)
        except (ValueError, RecursionError):  # not JSON, a number of thousands of digits, or nested beyond any use
            return verdict.refused("invalid", "malformed_json", text)

    def _classify(self, document: dict[str, Any], text: str, verdict: _Verdict) -> ParsedEvent:
        captured_us = (verdict.received_at - timestamps.EPOCH) // _MICROSECOND
        event_type = document.get("et")
        packet_type: PacketType
        body: Body
        try:
            if event_type == "obs_st":
                packet_type, body = "weather", self._weather(document, captured_us)
            elif isinstance(event_type, str) and event_type in EVENT_TYPES:
                packet_type, body = "weather_event", weather_event(document, event_type, captured_us)
            elif isinstance(event_type, str) and event_type in TELEMETRY_TYPES:
                packet_type, body = "telemetry", telemetry(document, event_type, captured_us)
            elif "sys" in document:
                return _heartbeat(document, text, captured_us, verdict)
            elif document.keys() >= _LEGACY_KEYS:
                packet_type, body = "weather", self._weather(document, captured_us, without=_NOT_LEGACY)
            else:
                return verdict.refused("unknown", "unrecognized_payload_shape", text, document)
        except Refusal as refusal:
            return verdict.refused("rejected", str(refusal), text, document)
        return verdict.accepted(packet_type, text, body)

    def _weather(
        self, document: Mapping[str, Any], captured_us: int, *, without: frozenset[str] = frozenset()
    ) -> WeatherReading:
        number = message_id(document)
        source_ts = time_text(document)
        whole = None if source_ts is None else to_int("ts", document["ts"])
        values: list[Number | None] = []
        for field in FIELDS:
            if field.required:
                given = required(document, field.key)
                values.append((to_int if field.kind == "int" else to_float)(field.key, given))
            elif field.key in without:
                values.append(None)
            else:
                values.append((optional_int if field.kind == "int" else optional_float)(document, field.key))
        if source_ts is None:
            raise Refusal("weather_missing_ts")
        epoch_us = plausible_us(source_ts, captured_us)
        self._check_ranges(values)
        return CheckedReading(number, source_ts, epoch_us, whole, tuple(values))

    def _check_ranges(self, values: list[Number | None]) -> None:
        for field, value in zip(FIELDS, values, strict=True):
            low, high = self._bounds[field.column]
            if value is not None and not low <= value <= high:  # written so that NaN fails it
                raise Refusal(field.reason)


class _Verdict:
    """What is the same in every verdict on one packet."""

    def __init__(self, received_at: datetime, source_node_id: str | None, source_name: str | None) -> None:
        self.received_at = received_at if received_at.tzinfo is UTC else received_at.astimezone(UTC)
        self._node = source_node_id
        self._name = source_name

    def accepted(self, packet_type: PacketType, text: str, body: Body) -> ParsedEvent:
        return ParsedEvent(packet_type, None, self.received_at, text, self._node, self._name, body)

    def refused(
        self,
        packet_type: PacketType,
        reason: str,
        text: str,
        document: dict[str, Any] | None = None,
        *,
        payload_hex: str | None = None,
    ) -> ParsedEvent:
        return ParsedEvent(
            packet_type,
            reason,
            self.received_at,
            text,
            self._node,
            self._name,
            payload_hex=payload_hex,
            refused_msg_id=None if document is None else message_id_if_any(document),
            refused_ts_utc=None if document is None else time_text(document),
            unrecognised=document if packet_type == "unknown" else None,
        )


def _heartbeat(document: dict[str, Any], text: str, captured_us: int, verdict: _Verdict) -> ParsedEvent:
    try:
        return verdict.accepted("health", text, health(document, captured_us))
    except Refusal as refusal:
        # The seed calls a heartbeat with a bad number invalid, not rejected (contract weather 4.5).
        return verdict.refused("invalid", f"bad_health_payload:{refusal}", text, document)


def _typed(bounds: Mapping[str, tuple[float, float]]) -> type[DecodedReading]:
    """Return the struct of the fast way: every field with its range, in the order on the air."""
    members: list[Any] = []
    for key in AIR_ORDER:
        field = BY_KEY[key]
        low, high = bounds[field.column]
        kind: Any = Annotated[int if field.kind == "int" else float, msgspec.Meta(ge=low, le=high)]
        members.append((key, kind) if field.required else (key, kind | None, None))
    made = msgspec.defstruct("TypedReading", members, bases=(DecodedReading,), frozen=True, gc=False, kw_only=True)
    return cast("type[DecodedReading]", made)
