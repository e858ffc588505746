"""Stores one batch of captures inside one transaction (contract weather 5.2; CONVERGENCE.md, outbox and weather).

Readings that are all new go in by one statement per table. Whatever is not so (a repeat, another kind, a constraint)
is stored one by one, each in a savepoint of its own: only the violation of an identity is a duplicate (fault B1),
and what cannot be stored for its own fault gets a row in the ledger that says why (fault B15). A fault of the file
itself is raised and undoes the batch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from stormjay.ground import timestamps
from stormjay.weather import journal_rows as rows
from stormjay.weather.journal_heard import Reading, Said, note, note_readings
from stormjay.weather.journal_status import Thresholds, write_status
from stormjay.weather.parser_values import clean
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.records import (
    COLUMNS,
    Captured,
    Health,
    ParsedEvent,
    Telemetry,
    WeatherEvent,
    WeatherReading,
)

DUPLICATE, CONFLICT = "duplicate", "conflict"
"""Reasons in the ledger for a record that was there already: with the same values, or with others."""
SENDER_UNKNOWN = "sender_unknown"
_OWN_FAULTS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    ValueError,
    TypeError,
    OverflowError,
)
"""Errors that belong to one item; every other one belongs to the file and fails the group."""


class Capture(NamedTuple):
    """A packet with the parser's verdict; None for telemetry that a node sent of its own."""

    packet: MeshPacket
    event: ParsedEvent | None


class Writing(NamedTuple):
    """What all captures of one batch share.

    Attributes:
        queues: Tables that get a row for each new reading.
        created_at: SQLite's style of the wall time, ``YYYY-MM-DD HH:MM:SS``.
        now_us: The wall time.
        thresholds: When a station counts as stale, offline or low on battery.
        once: The packets may have been here before (an import, a replay): a repeat leaves no row in the ledger, and
            what is refused leaves none when an equal one is there.
    """

    queues: tuple[str, ...]
    created_at: str
    now_us: int
    thresholds: Thresholds
    once: bool = False


def store_batch(connection: sqlite3.Connection, captures: Sequence[Capture], writing: Writing) -> list[Captured]:
    """Store all captures; the answer has one entry for each, in their order.

    Raises:
        sqlite3.Error: The file is at fault; the caller's transaction must be undone.
    """
    results: dict[int, Captured] = {}
    said: Said = {}
    readings = [
        Reading(place, packet, event, event.body)
        for place, (packet, event) in enumerate(captures)
        if event is not None and isinstance(event.body, WeatherReading) and packet.source_node_id is not None
    ]
    if readings and _store_readings(connection, readings, writing, results):
        note_readings(readings, said)
    for place, capture in enumerate(captures):
        if place not in results:
            results[place] = _store_alone(connection, capture, writing, said)
    for node, observations in said.items():
        write_status(
            connection,
            node,
            observations,
            now_us=writing.now_us,
            thresholds=writing.thresholds,
            updated_at=writing.created_at,
        )
    return [results[place] for place in range(len(captures))]


def _store_readings(
    connection: sqlite3.Connection, readings: Sequence[Reading], writing: Writing, results: dict[int, Captured]
) -> bool:
    """Store readings by one statement per table; tell whether that worked, that is, whether all were new."""
    created_at = writing.created_at
    connection.execute("SAVEPOINT readings")
    try:
        connection.executemany(
            rows.READING.sql,
            [rows.reading_row(packet, event, body, created_at) for _, packet, event, body in readings],
        )
        # The ids of one statement follow each other: this connection writes alone, and ids are never used again.
        last = int(connection.execute("SELECT last_insert_rowid()").fetchone()[0])
        first = last - len(readings) + 1
        enqueue(connection, first, last, writing)
    except _OWN_FAULTS:
        connection.execute("ROLLBACK TO readings")
        connection.execute("RELEASE readings")
        return False
    connection.execute("RELEASE readings")
    for row_id, reading in enumerate(readings, first):
        results[reading.place] = Captured("weather", row_id=row_id, msg_id=reading.body.msg_id)
    return True


def enqueue(connection: sqlite3.Connection, first: int, last: int, writing: Writing) -> None:
    """Put the new readings with these ids, pending, into every destination's queue."""
    for table in writing.queues:
        connection.execute(
            f"INSERT INTO {table} (reading_id, created_at_utc, updated_at_utc)"  # noqa: S608 - names of ours
            " SELECT id, ?, ? FROM weather_readings WHERE id BETWEEN ? AND ? ORDER BY id",
            (writing.created_at, writing.created_at, first, last),
        )


def _store_alone(connection: sqlite3.Connection, capture: Capture, writing: Writing, said: Said) -> Captured:
    connection.execute("SAVEPOINT one")
    try:
        result = _store_one(connection, capture, writing)
    except _OWN_FAULTS as error:
        connection.execute("ROLLBACK TO one")
        result = _into_ledger(
            connection, capture, writing, packet_type="rejected", reason=f"storage_error: {clean(str(error))}"
        )
    connection.execute("RELEASE one")
    if result.kind in _TABLE_KINDS:
        note(said, capture.packet, capture.event)
    return result


_TABLE_KINDS = frozenset({"weather", "weather_event", "telemetry", "health"})


def _store_one(connection: sqlite3.Connection, capture: Capture, writing: Writing) -> Captured:
    packet, event = capture
    if packet.source_node_id is None:
        if event is None or event.body is not None:
            return _into_ledger(connection, capture, writing, packet_type="rejected", reason=SENDER_UNKNOWN)
        return _into_ledger(connection, capture, writing)
    if event is None:
        return _store_keyed(connection, capture, writing, rows.NATIVE, rows.native_row(packet, writing.created_at))
    body = event.body
    if isinstance(body, WeatherReading):
        return _store_reading(connection, capture, body, writing)
    if isinstance(body, WeatherEvent):
        into, row = rows.EVENT, rows.event_row(event, body, packet, writing.created_at)
    elif isinstance(body, Telemetry):
        into, row = rows.TELEMETRY, rows.telemetry_row(event, body, packet, writing.created_at)
    elif isinstance(body, Health):
        into, row = rows.HEALTH, rows.health_row(event, body, packet, writing.created_at)
    else:
        return _into_ledger(connection, capture, writing)
    return _store_keyed(connection, capture, writing, into, row)


def _store_reading(
    connection: sqlite3.Connection, capture: Capture, body: WeatherReading, writing: Writing
) -> Captured:
    packet, event = capture
    assert event is not None  # noqa: S101 - it has a body
    held = connection.execute(
        f"SELECT id, {', '.join(COLUMNS)} FROM weather_readings WHERE source_node_id = ?"  # noqa: S608 - names of ours
        " AND source_ts_canonical = ? AND source_double_of IS NULL",
        (event.source_node_id, timestamps.format_us(body.epoch_us)),
    ).fetchone()
    if held is None:
        cursor = connection.execute(rows.READING.sql, rows.reading_row(packet, event, body, writing.created_at))
        row_id = int(cursor.lastrowid or 0)
        enqueue(connection, row_id, row_id, writing)
        return Captured("weather", row_id=row_id, msg_id=body.msg_id)
    reason = DUPLICATE if tuple(held)[1:] == body.values else CONFLICT
    _into_ledger(connection, capture, writing, reason=reason)
    return Captured("weather", reason=reason, duplicate=True, row_id=held[0], msg_id=body.msg_id)


def _store_keyed(
    connection: sqlite3.Connection, capture: Capture, writing: Writing, into: rows.Insert, row: rows.Row
) -> Captured:
    event = capture.event
    kind = "native_telemetry" if event is None else event.packet_type
    msg_id = None if event is None else event.msg_id
    detail = getattr(None if event is None else event.body, "event_type", None)
    key = row[into.columns.index("dedupe_key")]
    held = connection.execute(
        f"SELECT id FROM {into.table} WHERE source_node_id = ? AND dedupe_key = ?",  # noqa: S608 - names of ours
        (capture.packet.source_node_id, key),
    ).fetchone()
    if held is None:
        row_id = int(connection.execute(into.sql, row).lastrowid or 0)
        return Captured(kind, row_id=row_id, msg_id=msg_id, detail=detail)
    if event is not None:  # a node's own telemetry is no text of ours; its repeats are only counted
        _into_ledger(connection, capture, writing, reason=DUPLICATE)
    return Captured(kind, reason=DUPLICATE, duplicate=True, row_id=held[0], msg_id=msg_id, detail=detail)


def _into_ledger(
    connection: sqlite3.Connection,
    capture: Capture,
    writing: Writing,
    *,
    packet_type: str | None = None,
    reason: str | None = None,
) -> Captured:
    packet, event = capture
    if event is None:  # nobody read it as text: its bytes in hex are what can be relied on
        event = ParsedEvent(
            "rejected",
            reason,
            packet.received_at,
            packet.payload.decode(errors="replace"),
            packet.source_node_id,
            packet.source_name,
            payload_hex=packet.payload.hex(),
        )
    row = rows.ledger_row(event, packet, writing.created_at, packet_type=packet_type, reason=reason)
    if not writing.once or (reason != DUPLICATE and not _in_ledger(connection, row)):
        connection.execute(rows.LEDGER.sql, row)
    return Captured(packet_type or event.packet_type, reason=reason or event.reason, msg_id=event.msg_id)


def _in_ledger(connection: sqlite3.Connection, row: rows.Row) -> bool:
    columns = ("received_at_utc", "source_node_id", "packet_type", "reason", "raw_payload")
    same = " AND ".join(f"{name} IS ?" for name in columns)
    held = connection.execute(
        f"SELECT 1 FROM ingest_events WHERE {same} LIMIT 1",  # noqa: S608 - names of ours
        [row[rows.LEDGER.columns.index(name)] for name in columns],
    )
    return held.fetchone() is not None


def refuse_batch(
    connection: sqlite3.Connection, captures: Sequence[Capture], reason: str, writing: Writing
) -> list[Captured]:
    """Put captures into the ledger unread, as ``rejected`` with one reason."""
    return [_into_ledger(connection, capture, writing, packet_type="rejected", reason=reason) for capture in captures]
