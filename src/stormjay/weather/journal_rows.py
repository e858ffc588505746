"""The journal's INSERT statements and the rows they take; the columns are those of ``schema.sql``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from stormjay.ground.timestamps import format_us
from stormjay.weather import journal_keys
from stormjay.weather.parser_values import INT64_MAX, INT64_MIN, clean
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.records import COLUMNS, Health, ParsedEvent, Telemetry, WeatherEvent, WeatherReading

Row = tuple[Any, ...]


class Insert(NamedTuple):
    """A table, its columns in the order of a row, and the statement."""

    table: str
    columns: tuple[str, ...]
    sql: str


def _insert(table: str, *columns: str) -> Insert:
    places = ",".join("?" * len(columns))
    return Insert(table, columns, f"INSERT INTO {table} ({','.join(columns)}) VALUES ({places})")  # noqa: S608 - names of ours


READING = _insert(
    "weather_readings",
    *("source_node_id", "source_name", "msg_id", "source_ts_utc", "received_at_utc"),
    *COLUMNS,
    *("weather_timestamp", "raw_payload", "payload_hash", "created_at_utc", "source_ts_canonical"),
    *("snr_db", "rssi_dbm", "hops_away", "packet_id", "channel", "gateway_id"),
)
EVENT = _insert(
    "weather_events",
    *("source_node_id", "source_name", "msg_id", "event_type", "source_ts_utc", "received_at_utc"),
    *("lightning_distance_km", "lightning_energy", "raw_payload", "payload_hash", "created_at_utc"),
    *("dedupe_key", "packet_id", "source_ts_canonical"),
)
TELEMETRY = _insert(
    "device_telemetry_events",
    *("source_node_id", "source_name", "msg_id", "telemetry_type", "source_ts_utc", "received_at_utc"),
    *journal_keys.TELEMETRY_CONTENT,
    *("raw_payload", "payload_hash", "created_at_utc", "dedupe_key", "packet_id", "source_ts_canonical"),
)
HEALTH = _insert(
    "device_health_events",
    *("source_node_id", "source_name", "msg_id", "source_ts_utc", "received_at_utc", "status", "uptime_sec"),
    *("ip_address", "error_reason", "raw_payload", "created_at_utc", "dedupe_key", "packet_id"),
)
LEDGER = _insert(
    "ingest_events",
    *("received_at_utc", "source_node_id", "source_name", "packet_type", "reason", "msg_id", "raw_payload"),
    *("created_at_utc", "payload_hex", "packet_id", "channel", "gateway_id"),
)
_NATIVE_VALUES = {
    "battery_level_pct": "battery_level",
    "voltage_v": "voltage",
    "channel_utilization_pct": "channel_utilization",
    "air_util_tx_pct": "air_util_tx",
    "uptime_sec": "uptime_seconds",
    "temperature_c": "temperature",
    "relative_humidity_pct": "relative_humidity",
    "barometric_pressure_hpa": "barometric_pressure",
}
NATIVE = _insert(
    "native_telemetry",
    *("source_node_id", "source_name", "telemetry_kind", "telemetry_time", "received_at_utc"),
    *_NATIVE_VALUES,
    *("metrics_json", "snr_db", "rssi_dbm", "hops_away", "packet_id", "channel", "gateway_id"),
    *("dedupe_key", "created_at_utc"),
)
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


def received_text(received_at: datetime) -> str:
    """Return a time of receipt as the seed stores it: ISO with ``+00:00`` (contract weather 5.1)."""
    return (received_at if received_at.tzinfo is UTC else received_at.astimezone(UTC)).isoformat()


def canonical_text(epoch_us: int) -> str:
    """Return ``timestamps.format_us`` of the instant; the minute's part is remembered, since readings come in rows."""
    minute, rest = divmod(epoch_us, _MINUTE_US)
    seconds = str(rest + _HUNDRED_SECONDS_US)
    return f"{_minute_text(minute)}{seconds[1:3]}.{seconds[3:]}Z"


_MINUTE_US, _HUNDRED_SECONDS_US = 60_000_000, 100_000_000


@lru_cache(maxsize=4096)
def _minute_text(minute: int) -> str:
    return format_us(minute * _MINUTE_US)[:17]


def reading_row(packet: MeshPacket, event: ParsedEvent, body: WeatherReading, created_at: str) -> Row:
    """Return the row of a reading."""
    text = event.raw_payload
    start, limit = packet.hop_start, packet.hop_limit
    return (
        packet.source_node_id, packet.source_name, body.msg_id, body.source_ts_utc, received_text(packet.received_at),
        *body.values,
        body.weather_timestamp, text, sha256(text.encode()).hexdigest(), created_at, canonical_text(body.epoch_us),
        packet.snr_db, packet.rssi_dbm, None if start is None or limit is None else max(0, start - limit),
        packet.packet_id, packet.channel, packet.gateway_id,
    )  # fmt: skip


def event_row(event: ParsedEvent, body: WeatherEvent, packet: MeshPacket, created_at: str) -> Row:
    """Return the row of a rain start or a strike."""
    return (
        event.source_node_id, event.source_name, body.msg_id, body.event_type, body.source_ts_utc,
        received_text(event.received_at), body.lightning_distance_km, body.lightning_energy, event.raw_payload,
        journal_keys.payload_hash(event.raw_payload), created_at, journal_keys.event_key(body), packet.packet_id,
        format_us(body.epoch_us),
    )  # fmt: skip


def telemetry_row(event: ParsedEvent, body: Telemetry, packet: MeshPacket, created_at: str) -> Row:
    """Return the row of what a sensor or hub said of itself."""
    return (
        event.source_node_id, event.source_name, body.msg_id, body.event_type, body.source_ts_utc,
        received_text(event.received_at),
        *(getattr(body, name) for name in journal_keys.TELEMETRY_CONTENT),
        event.raw_payload, journal_keys.payload_hash(event.raw_payload), created_at, journal_keys.telemetry_key(body),
        packet.packet_id, format_us(body.epoch_us),
    )  # fmt: skip


def health_row(event: ParsedEvent, body: Health, packet: MeshPacket, created_at: str) -> Row:
    """Return the row of a heartbeat."""
    received = received_text(event.received_at)
    key = journal_keys.health_key(body, event.raw_payload, packet.packet_id, received)
    return (
        event.source_node_id, event.source_name, body.msg_id, body.source_ts_utc, received, body.status,
        body.uptime_sec, body.ip_address, body.error_reason, event.raw_payload, created_at, key, packet.packet_id,
    )  # fmt: skip


def ledger_row(
    event: ParsedEvent,
    packet: MeshPacket,
    created_at: str,
    *,
    packet_type: str | None = None,
    reason: str | None = None,
) -> Row:
    """Return a row of the ledger, with type and reason of the verdict unless others are given.

    The ledger is where what cannot be stored ends up, so it takes every packet: what no column can hold is left out.
    """
    return (
        received_text(event.received_at), _text(event.source_node_id), _text(event.source_name),
        packet_type or event.packet_type, clean(reason or event.reason or "") or None, event.msg_id,
        clean(event.raw_payload), created_at, event.payload_hex, _whole(packet.packet_id), _whole(packet.channel),
        _text(packet.gateway_id),
    )  # fmt: skip


def native_row(packet: MeshPacket, created_at: str) -> Row:
    """Return the row of telemetry that a Meshtastic node sent of its own.

    Takes both spellings: the Python library's ``{"deviceMetrics": {"batteryLevel": 86}}`` and the flat
    ``{"battery_level": 86}`` of a node's JSON uplink.
    """
    telemetry = packet.telemetry or {}
    kind, metrics = _metrics(telemetry)
    text = clean(json.dumps(telemetry, separators=(",", ":"), ensure_ascii=False, sort_keys=True, default=str))
    received = received_text(packet.received_at)
    return (
        packet.source_node_id, packet.source_name, kind, _whole(telemetry.get("time")), received,
        *(_finite(metrics.get(name)) for name in _NATIVE_VALUES.values()),
        text, packet.snr_db, packet.rssi_dbm, packet.hops_away, packet.packet_id, packet.channel, packet.gateway_id,
        journal_keys.native_key(kind, text, packet.packet_id, received), created_at,
    )  # fmt: skip


def _metrics(telemetry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    for name, value in telemetry.items():
        snake = _CAPITAL.sub(r"_\1", name).lower()
        if isinstance(value, dict) and snake.endswith(("_metrics", "_stats")):
            return snake, {_CAPITAL.sub(r"_\1", key).lower(): item for key, item in value.items()}
    flat = {_CAPITAL.sub(r"_\1", key).lower(): item for key, item in telemetry.items()}
    if "battery_level" in flat or "channel_utilization" in flat:
        return "device_metrics", flat
    if "temperature" in flat or "barometric_pressure" in flat or "relative_humidity" in flat:
        return "environment_metrics", flat
    return "other", flat


def _text(value: str | None) -> str | None:
    return None if value is None else clean(value)


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not INT64_MIN <= value <= INT64_MAX:
        return None
    return value


def _finite(value: object) -> float | int | None:
    if isinstance(value, float):
        return value if abs(value) != float("inf") and value == value else None  # noqa: PLR0124 - NaN differs from itself
    return _whole(value)
