"""Rows of a journal for tests of the views, put in without parser and listener."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from functools import cache
from typing import Any

from stormjay.ground.sqlite import migrate
from stormjay.ground.timestamps import format_us, to_epoch_us
from stormjay.weather.journal_schema import MIGRATIONS

STATION = "!5c32d4d9"
MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def us(text: str) -> int:
    """Return an ISO time in microseconds."""
    return to_epoch_us(text)


def empty_journal() -> sqlite3.Connection:
    """Return an empty journal in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.deserialize(_image())
    return connection


@cache
def _image() -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, MIGRATIONS)
    image = connection.serialize()
    connection.close()
    return image


def reading(moment_us: int, **values: Any) -> dict[str, Any]:
    """Return a row of ``weather_readings``; what is not given is mild and ordinary."""
    received_us = values.pop("received_us", moment_us + 3_000_000)
    return {
        "source_node_id": STATION,
        "msg_id": moment_us // MINUTE % 100_000,
        "source_ts_utc": str(moment_us // 1_000_000),
        "source_ts_canonical": format_us(moment_us),
        "received_at_utc": datetime.fromtimestamp(received_us / 1e6, UTC).isoformat(),
        "temp_c": 15.0,
        "humidity_pct": 60.0,
        "pressure_hpa": 1000.0,
        "wind_ms": 3.0,
        "wind_dir_deg": 225,
        "rain_mm": 0.0,
        "report_interval_min": 1,
        "raw_payload": '{"et":"obs_st"}',
        **values,
    }


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    """Put a row in and return its id."""
    marks = ", ".join("?" * len(row))
    sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"  # noqa: S608 - names of this module
    return int(connection.execute(sql, tuple(row.values())).lastrowid or 0)


def store(connection: sqlite3.Connection, moment_us: int, status: str | None = "delivered", **values: Any) -> int:
    """Put in a reading with its queue row."""
    number = insert(connection, "weather_readings", reading(moment_us, **values))
    if status is not None:
        queue = {"reading_id": number, "status": status, "attempt_count": 1 if status in {"retry", "failed"} else 0}
        insert(connection, "aws_delivery_queue", queue)
    return number


def refuse(connection: sqlite3.Connection, received_us: int, **values: Any) -> int:
    """Put in a ledger row."""
    row = {
        "source_node_id": STATION,
        "received_at_utc": datetime.fromtimestamp(received_us / 1e6, UTC).isoformat(),
        "packet_type": "rejected",
        "reason": "temp_out_of_range",
        "raw_payload": "{}",
        **values,
    }
    return insert(connection, "ingest_events", row)
