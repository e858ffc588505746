"""The seed's way from a text to its rows, rebuilt in our own words as the peer of the journal and parser benchmarks.

The seed's own tables; a dict check by hand over the standard library's JSON; for each packet a connection of its own
with its pragmas, three statements, one commit (contract weather 4.2, 5.1, 5.2; fault B29).
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REQUIRED = (("t", "temp_c", float), ("h", "humidity_pct", float), ("p", "pressure_hpa", float), ("w", "wind_ms", float),
            ("d", "wind_dir_deg", int), ("r", "rain_mm", float))  # fmt: skip
OPTIONAL = (
    ("l", "wind_lull_ms", float), ("g", "wind_gust_ms", float), ("ws", "wind_sample_interval_s", int),
    ("lux", "illuminance_lux", float), ("uv", "uv_index", float), ("sr", "solar_radiation_wm2", float),
    ("pt", "precipitation_type", int), ("ld", "lightning_avg_distance_km", float),
    ("lc", "lightning_strike_count", int), ("bat", "battery_voltage_v", float),
    ("ri", "report_interval_min", int), ("rd", "local_day_rain_mm", float),
    ("nr", "nearcast_rain_mm", float), ("nrd", "local_day_nearcast_rain_mm", float),
    ("pa", "precipitation_analysis_type", int),
)  # fmt: skip
BOUNDS = {
    "temp_c": (-60, 70), "humidity_pct": (0, 100), "pressure_hpa": (800, 1200), "wind_ms": (0, 100),
    "wind_dir_deg": (0, 360), "rain_mm": (0, 500), "wind_lull_ms": (0, 100), "wind_gust_ms": (0, 120),
    "wind_sample_interval_s": (0, 120), "illuminance_lux": (0, 200000), "uv_index": (0, 30),
    "solar_radiation_wm2": (0, 2000), "precipitation_type": (0, 4), "lightning_avg_distance_km": (0, 500),
    "lightning_strike_count": (0, 10000), "battery_voltage_v": (0, 10), "report_interval_min": (0, 120),
    "local_day_rain_mm": (0, 2000), "nearcast_rain_mm": (0, 2000), "local_day_nearcast_rain_mm": (0, 2000),
    "precipitation_analysis_type": (0, 10),
}  # fmt: skip


@dataclass
class Event:
    """What the seed's parser hands on."""

    packet_type: str
    reason: str | None
    source_node_id: str
    source_name: str | None
    msg_id: int | None
    received_at_utc: str
    source_ts_utc: str | None
    raw_payload: str
    normalized: dict[str, Any] | None


def parse(text: str, node: str, name: str | None, received: str) -> Event:
    """Return the verdict on one text, key by key."""
    document = json.loads(text)
    if not isinstance(document, dict):
        return Event("invalid", "json_not_object", node, name, None, received, None, text, None)
    if document.get("et") != "obs_st":
        return Event("unknown", "unrecognized_payload_shape", node, name, None, received, None, text, None)
    values: dict[str, Any] = {"event_type": "obs_st"}
    try:
        values["msg_id"] = int(document["i"])
        values["source_ts_utc"] = str(document["ts"]).strip()
        values["weather_timestamp"] = int(document["ts"])
        for key, column, kind in REQUIRED:
            values[column] = kind(document[key])
        for key, column, kind in OPTIONAL:
            value = document.get(key)
            values[column] = None if value is None else kind(value)
    except (KeyError, TypeError, ValueError) as error:
        return Event("rejected", str(error), node, name, None, received, None, text, None)
    for column, (low, high) in BOUNDS.items():
        value = values[column]
        if value is not None and not low <= value <= high:
            return Event("rejected", f"{column} out of range", node, name, values["msg_id"], received, None, text, None)
    return Event("weather", None, node, name, values["msg_id"], received, values["source_ts_utc"], text, values)


TABLES = """
CREATE TABLE weather_readings (id INTEGER PRIMARY KEY AUTOINCREMENT, source_node_id TEXT NOT NULL, source_name TEXT,
 msg_id INTEGER NOT NULL, source_ts_utc TEXT NOT NULL, received_at_utc TEXT NOT NULL, temp_c REAL NOT NULL,
 humidity_pct REAL NOT NULL, pressure_hpa REAL NOT NULL, wind_ms REAL NOT NULL, wind_dir_deg INTEGER NOT NULL,
 rain_mm REAL NOT NULL, wind_lull_ms REAL, wind_gust_ms REAL, wind_sample_interval_s INTEGER, illuminance_lux REAL,
 uv_index REAL, solar_radiation_wm2 REAL, precipitation_type INTEGER, lightning_avg_distance_km REAL,
 lightning_strike_count INTEGER, battery_voltage_v REAL, report_interval_min INTEGER, local_day_rain_mm REAL,
 nearcast_rain_mm REAL, local_day_nearcast_rain_mm REAL, precipitation_analysis_type INTEGER,
 weather_timestamp INTEGER, raw_payload TEXT NOT NULL, payload_hash TEXT,
 created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE(source_node_id, source_ts_utc));
CREATE INDEX idx_weather_received_at ON weather_readings(received_at_utc);
CREATE INDEX idx_weather_source_received ON weather_readings(source_node_id, received_at_utc);
CREATE INDEX idx_weather_source_msg ON weather_readings(source_node_id, msg_id);
CREATE TABLE aws_delivery_queue (id INTEGER PRIMARY KEY AUTOINCREMENT, reading_id INTEGER NOT NULL,
 status TEXT NOT NULL DEFAULT 'pending', attempt_count INTEGER NOT NULL DEFAULT 0, next_attempt_at_utc TEXT,
 last_attempt_at_utc TEXT, delivered_at_utc TEXT, last_error TEXT,
 created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
 FOREIGN KEY(reading_id) REFERENCES weather_readings(id) ON DELETE CASCADE, UNIQUE(reading_id));
CREATE INDEX idx_delivery_status_next_attempt ON aws_delivery_queue(status, next_attempt_at_utc, id);
CREATE TABLE device_status_current (source_node_id TEXT PRIMARY KEY, source_name TEXT, last_weather_at_utc TEXT,
 last_msg_id INTEGER, last_source_ts_utc TEXT, updated_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
"""
_COLUMNS = ("msg_id", "source_ts_utc", *BOUNDS, "weather_timestamp")
_INSERT = (
    f"INSERT INTO weather_readings (source_node_id, source_name, received_at_utc, raw_payload, payload_hash,"  # noqa: S608 - names above
    f" {', '.join(_COLUMNS)}) VALUES ({', '.join('?' * (5 + len(_COLUMNS)))})"
)
_UPSERT = """
INSERT INTO device_status_current (source_node_id, source_name, last_weather_at_utc, last_msg_id, last_source_ts_utc,
 updated_at_utc) VALUES (?, ?, ?, ?, ?, CURRENT_TIMESTAMP)
ON CONFLICT(source_node_id) DO UPDATE SET source_name = excluded.source_name,
 last_weather_at_utc = excluded.last_weather_at_utc, last_msg_id = excluded.last_msg_id,
 last_source_ts_utc = excluded.last_source_ts_utc, updated_at_utc = CURRENT_TIMESTAMP
"""


def make(path: Path) -> None:
    """Make the seed's tables that one reading touches."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(TABLES)


def store(path: Path, event: Event) -> None:
    """Store one reading as the seed does: a connection, its pragmas, three statements, a commit."""
    values = event.normalized
    assert values is not None
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA journal_mode=WAL")
        with connection:
            cursor = connection.execute(
                _INSERT,
                (
                    *(event.source_node_id, event.source_name, event.received_at_utc, event.raw_payload),
                    hashlib.sha256(event.raw_payload.encode()).hexdigest(),
                    *(values[column] for column in _COLUMNS),
                ),
            )
            connection.execute("INSERT INTO aws_delivery_queue (reading_id) VALUES (?)", (cursor.lastrowid,))
            connection.execute(
                _UPSERT,
                (event.source_node_id, event.source_name, event.received_at_utc, event.msg_id, event.source_ts_utc),
            )
