"""Natural keys: what makes two captures the same record, whatever order they come in (CONVERGENCE.md, fault B18).

A reading is told by sender and canonical time alone. For the others the content is part of the key, so that two
different contents of one instant are two records, in whichever order they come. Rows of a file from before have no
key and are left alone: their repeats stay as they are.
"""

from __future__ import annotations

import hashlib

from stormjay.ground.timestamps import format_us
from stormjay.weather.records import Health, Telemetry, WeatherEvent

TELEMETRY_CONTENT = (
    "uptime_sec", "firmware_revision", "rssi", "hub_rssi", "sensor_status", "debug", "voltage", "reset_flags", "seq",
    "fs_json", "radio_stats_json", "mqtt_stats_json",
)  # fmt: skip
"""What sensor and hub say of themselves, by column of ``device_telemetry_events``."""


def payload_hash(text: str) -> str:
    """Return the lower-case hex SHA-256 of the text's UTF-8 bytes (contract weather 4)."""
    return hashlib.sha256(text.encode()).hexdigest()


def event_key(event: WeatherEvent) -> str:
    """Return type, instant, distance and energy: the same strike received twice is one."""
    return (
        f"{event.event_type}|{format_us(event.epoch_us)}|"
        f"{_shown(event.lightning_distance_km)}|{_shown(event.lightning_energy)}"
    )


def telemetry_key(record: Telemetry) -> str:
    """Return type, instant and a digest of all that is said; the message number is transport, not content."""
    content = "\x1f".join(_shown(getattr(record, name)) for name in TELEMETRY_CONTENT)
    return f"{record.event_type}|{format_us(record.epoch_us)}|{payload_hash(content)[:32]}"


def health_key(record: Health, raw_payload: str, packet_id: int | None, received_at_utc: str) -> str:
    """Return a digest of the heartbeat and of what tells it from an equal one after the next boot.

    That is its own time, else the mesh packet's id, which every repeat of one transmission shares, else the moment
    of its capture: the boot heartbeats of two days may be equal to the last byte.
    """
    if record.epoch_us is not None:
        told_by = ""
    elif packet_id is not None:
        told_by = f"packet {packet_id}"
    else:
        told_by = received_at_utc
    return f"{payload_hash(raw_payload)[:32]}|{told_by}"


def native_key(kind: str, metrics_json: str, packet_id: int | None, received_at_utc: str) -> str:
    """Return kind, content, and the packet's id or the moment of capture."""
    told_by = received_at_utc if packet_id is None else f"packet {packet_id}"
    return f"{kind}|{payload_hash(metrics_json)[:32]}|{told_by}"


def _shown(value: float | str | None) -> str:
    return "" if value is None else str(value)
