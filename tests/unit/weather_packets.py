"""Packets and journals for the tests of the weather pipeline's home side."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.journal import Journal
from stormjay.weather.journal_settings import JournalSettings
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket

NODE = "!5c32d4d9"
START = datetime(2026, 3, 18, 9, tzinfo=UTC)
TS = int(START.timestamp())

SEED_DDL = """
CREATE TABLE IF NOT EXISTS weather_readings (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source_node_id TEXT NOT NULL, source_name TEXT, msg_id INTEGER NOT NULL,
    source_ts_utc TEXT NOT NULL, received_at_utc TEXT NOT NULL, temp_c REAL NOT NULL, humidity_pct REAL NOT NULL,
    pressure_hpa REAL NOT NULL, wind_ms REAL NOT NULL, wind_dir_deg INTEGER NOT NULL, rain_mm REAL NOT NULL,
    wind_lull_ms REAL, wind_gust_ms REAL, wind_sample_interval_s INTEGER, illuminance_lux REAL, uv_index REAL,
    solar_radiation_wm2 REAL, precipitation_type INTEGER, lightning_avg_distance_km REAL,
    lightning_strike_count INTEGER, battery_voltage_v REAL, report_interval_min INTEGER, local_day_rain_mm REAL,
    nearcast_rain_mm REAL, local_day_nearcast_rain_mm REAL, precipitation_analysis_type INTEGER,
    weather_timestamp INTEGER, raw_payload TEXT NOT NULL, payload_hash TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE(source_node_id, source_ts_utc));
CREATE INDEX IF NOT EXISTS idx_weather_received_at ON weather_readings(received_at_utc);
CREATE INDEX IF NOT EXISTS idx_weather_source_received ON weather_readings(source_node_id, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_weather_source_msg ON weather_readings(source_node_id, msg_id);
CREATE TABLE IF NOT EXISTS aws_delivery_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT, reading_id INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'pending',
    attempt_count INTEGER NOT NULL DEFAULT 0, next_attempt_at_utc TEXT, last_attempt_at_utc TEXT,
    delivered_at_utc TEXT, last_error TEXT, created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY(reading_id) REFERENCES weather_readings(id) ON DELETE CASCADE, UNIQUE(reading_id));
CREATE INDEX IF NOT EXISTS idx_delivery_status_next_attempt ON aws_delivery_queue(status, next_attempt_at_utc, id);
CREATE TABLE IF NOT EXISTS device_health_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source_node_id TEXT NOT NULL, source_name TEXT, msg_id INTEGER,
    source_ts_utc TEXT, received_at_utc TEXT NOT NULL, status TEXT NOT NULL, uptime_sec INTEGER, ip_address TEXT,
    error_reason TEXT, raw_payload TEXT NOT NULL, created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX IF NOT EXISTS idx_health_source_received ON device_health_events(source_node_id, received_at_utc);
CREATE TABLE IF NOT EXISTS weather_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source_node_id TEXT NOT NULL, source_name TEXT, msg_id INTEGER,
    event_type TEXT NOT NULL, source_ts_utc TEXT, received_at_utc TEXT NOT NULL, lightning_distance_km REAL,
    lightning_energy INTEGER, raw_payload TEXT NOT NULL, payload_hash TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX IF NOT EXISTS idx_weather_events_source_received ON weather_events(source_node_id, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_weather_events_type_received ON weather_events(event_type, received_at_utc);
CREATE TABLE IF NOT EXISTS device_telemetry_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source_node_id TEXT NOT NULL, source_name TEXT, msg_id INTEGER,
    telemetry_type TEXT NOT NULL, source_ts_utc TEXT, received_at_utc TEXT NOT NULL, uptime_sec INTEGER,
    firmware_revision TEXT, rssi INTEGER, hub_rssi INTEGER, sensor_status INTEGER, debug INTEGER, voltage REAL,
    reset_flags TEXT, seq INTEGER, fs_json TEXT, radio_stats_json TEXT, mqtt_stats_json TEXT,
    raw_payload TEXT NOT NULL, payload_hash TEXT, created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX IF NOT EXISTS idx_telemetry_source_received ON device_telemetry_events(source_node_id, received_at_utc);
CREATE INDEX IF NOT EXISTS idx_telemetry_type_received ON device_telemetry_events(telemetry_type, received_at_utc);
CREATE TABLE IF NOT EXISTS device_status_current (
    source_node_id TEXT PRIMARY KEY, source_name TEXT, last_weather_at_utc TEXT, last_health_at_utc TEXT,
    last_device_status_at_utc TEXT, last_hub_status_at_utc TEXT, last_status TEXT, derived_state TEXT,
    last_telemetry_type TEXT, last_msg_id INTEGER, last_source_ts_utc TEXT, last_uptime_sec INTEGER,
    last_ip_address TEXT, last_firmware_revision TEXT, last_rssi INTEGER, last_hub_rssi INTEGER,
    last_sensor_status INTEGER, last_debug INTEGER, last_device_voltage_v REAL, last_reset_flags TEXT,
    last_hub_seq INTEGER, last_fs_json TEXT, last_radio_stats_json TEXT, last_mqtt_stats_json TEXT,
    updated_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS ingest_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, received_at_utc TEXT NOT NULL, source_node_id TEXT, source_name TEXT,
    packet_type TEXT NOT NULL, reason TEXT, msg_id INTEGER, raw_payload TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX IF NOT EXISTS idx_ingest_received ON ingest_events(received_at_utc);
"""
"""The seed's DDL (seed weather 5), statement by statement."""


def seed_file(path: Path, readings: list[tuple[int, str, str]], *, status: str = "delivered") -> None:
    """Make a file as the seed's programs leave it, with readings of (msg_id, source_ts_utc, received_at_utc)."""
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode=WAL;" + SEED_DDL)
    for msg_id, source_ts, received in readings:
        raw = json.dumps(observation(i=msg_id, ts=source_ts))
        row_id = connection.execute(
            "INSERT INTO weather_readings (source_node_id, msg_id, source_ts_utc, received_at_utc, temp_c,"
            " humidity_pct, pressure_hpa, wind_ms, wind_dir_deg, rain_mm, raw_payload)"
            " VALUES (?, ?, ?, ?, 6.2, 71, 1008.4, 2.1, 190, 0, ?)",
            (NODE, msg_id, source_ts, received, raw),
        ).lastrowid
        connection.execute("INSERT INTO aws_delivery_queue (reading_id, status) VALUES (?, ?)", (row_id, status))
    connection.execute(
        "INSERT INTO device_status_current (source_node_id, source_name, last_weather_at_utc, last_msg_id)"
        " VALUES (?, 'Garden', '2026-03-17T09:00:00.5+00:00', 40)",
        (NODE,),
    )
    connection.commit()
    connection.close()


def observation(**changes: Any) -> dict[str, Any]:
    return {"et": "obs_st", "i": 1, "ts": TS, "t": 6.2, "h": 71.0, "p": 1008.4, "w": 2.1, "d": 190, "r": 0.0} | changes


def packet(document: object, after_s: float = 5.0, **changes: Any) -> MeshPacket:
    """Return a text as the radio would hand it over, that many seconds after ``START``."""
    payload = document if isinstance(document, bytes) else json.dumps(document).encode()
    fields: dict[str, Any] = {
        "received_at": START + timedelta(seconds=after_s),
        "portnum": TEXT_MESSAGE_APP,
        "payload": payload,
        "source_node_id": NODE,
    }
    return MeshPacket(**(fields | changes))


async def opened(path: Path, clock: ManualClock | None = None, **settings: Any) -> Journal:
    return await Journal.open(
        path,
        clock=clock or ManualClock(START),
        settings=JournalSettings(**settings),
        statistics=Statistics(),
        announcer=Announcer(),
    )


async def rows(journal: Journal, table: str, order: str = "rowid") -> list[dict[str, Any]]:
    return await journal.database.read(
        lambda connection: [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY {order}")]  # noqa: S608 - names of the tests
    )
