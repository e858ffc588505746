"""What is sent for a reading: made from its journal row by the field table (contract weather 5.3)."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stormjay.weather.fields import FIELDS

_HEAD = ("source_node_id", "source_name", "msg_id", "source_ts_utc", "received_at_utc")
_WEATHER = (*((field.column, field.cloud) for field in FIELDS), ("weather_timestamp", "timestamp"))
_CLOUD_NAMES = tuple(cloud for _, cloud in _WEATHER)
_RECEIVED_AT = _HEAD.index("received_at_utc")
COLUMNS = (*_HEAD, *(column for column, _ in _WEATHER))
"""Columns of ``weather_readings`` that a body is made from, in the order that ``payload`` takes them."""
_SELECT = (
    f"SELECT id, {', '.join(COLUMNS)} FROM weather_readings "  # noqa: S608 - names from the field table
    "WHERE id IN (SELECT value FROM json_each(?))"
)
_ENCODER = msgspec.json.Encoder()


def payload(values: Sequence[Any]) -> bytes:
    """Return the payload of one reading as JSON, without the object around it.

    Args:
        values: One row's values of ``COLUMNS``. What is null, or no finite number, is left out on both levels.
    """
    head = {name: value for name, value in zip(_HEAD, values, strict=False) if value is not None}
    received_at = values[_RECEIVED_AT]
    if isinstance(received_at, str):
        head["received_at_utc"] = received_at.replace("+00:00", "Z")
    head["weather"] = {
        name: value
        for name, value in zip(_CLOUD_NAMES, values[len(_HEAD) :], strict=True)
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }
    return _ENCODER.encode(head)


def single_body(one: bytes) -> bytes:
    """Return the body of ``POST /observations``."""
    return b'{"payload":%b}' % one


def batch_body(many: Sequence[bytes]) -> bytes:
    """Return the body of ``POST /observations/batch``."""
    return b'{"payloads":[%b]}' % b",".join(many)


def load_payloads(connection: sqlite3.Connection, reading_ids: Sequence[int]) -> Mapping[int, bytes]:
    """Return the payloads of readings by id; an outbox loader. Readings that no longer exist are left out."""
    rows = connection.execute(_SELECT, (json.dumps(list(reading_ids)),))
    return {row[0]: payload(tuple(row)[1:]) for row in rows}
