"""Takes readings from elsewhere into the journal: another ``weatherstation.db`` or a CSV, and the ledger once more.

Doing it again changes nothing: every record meets its natural key. What is not accepted goes to the ledger with its
reason, once per content. Files are read in chunks, each stored by one commit.
"""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from stormjay.errors import BadRequest, NotFound
from stormjay.ground import timestamps
from stormjay.weather.fields import BY_CLOUD
from stormjay.weather.journal import Journal
from stormjay.weather.journal_write import Capture, Writing, store_batch
from stormjay.weather.parser import Parser
from stormjay.weather.parser_values import clean
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.records import Captured, ParsedEvent

CHUNK_ROWS = 500
_ROW_TYPES = {
    "weather_events": "weather_event",
    "device_telemetry_events": "telemetry",
    "device_health_events": "health",
}
Progress = Callable[[int], None]
"""Told after each chunk how many rows were read so far."""


class ImportReport(msgspec.Struct, kw_only=True):
    """What became of the rows.

    Attributes:
        read: Rows read.
        stored: New records.
        duplicates: Rows whose record was there already.
        conflicts: Rows whose key was there with other values; the ledger has them.
        refused: Rows that are no valid record; the ledger has them with the reason.
        reasons: How often each reason was given.
    """

    read: int = 0
    stored: int = 0
    duplicates: int = 0
    conflicts: int = 0
    refused: int = 0
    reasons: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, results: Iterable[Captured]) -> None:
        """Count what became of some rows."""
        for result in results:
            self.read += 1
            if result.reason is not None:
                self.reasons[result.reason] = self.reasons.get(result.reason, 0) + 1
            if result.reason == "conflict":
                self.conflicts += 1
            elif result.duplicate:
                self.duplicates += 1
            elif result.reason is not None:
                self.refused += 1
            else:
                self.stored += 1


async def import_database(journal: Journal, path: Path, *, progress: Progress = lambda _: None) -> ImportReport:
    """Take in a ``weatherstation.db`` of the seed's programs or of ours.

    Readings keep what their queue row says: what was delivered there is not delivered again, what waited waits on.
    Events, telemetry and heartbeats are parsed again from their raw payload; their ledger is not taken over.

    Args:
        journal: Where to.
        path: The file; it is only read.
        progress: Told how far it is.

    Raises:
        NotFound: There is no such file.
        BadRequest: It is no database with a ``weather_readings`` table.
        StoreUnavailable: The journal cannot be written; doing it again carries on.
    """
    _must_exist(path)
    report = ImportReport()
    with closing(_opened(path)) as source:
        for table in ("weather_readings", *_ROW_TYPES):
            for rows in _chunks(_rows_of(source, table)):
                if table == "weather_readings":
                    results = await _take_readings(journal, [dict(row) for row in rows])
                else:
                    results = await _take_payloads(journal, rows)
                report.add(results)
                progress(report.read)
    return report


async def import_csv(
    journal: Journal,
    path: Path,
    *,
    source_node_id: str | None = None,
    deliver: bool = False,
    progress: Progress = lambda _: None,
) -> ImportReport:
    """Take in a CSV whose header names columns of ``weather_readings`` or fields of the cloud body.

    ``source_ts_utc`` (or ``timestamp``) is required, in any spelling with a zone or as an epoch number; so is the
    sender, as column ``source_node_id`` or by the argument; ``received_at_utc`` is the source time when absent.

    Args:
        journal: Where to.
        path: The file, UTF-8.
        source_node_id: The sender of rows that name none.
        deliver: Put the readings into the delivery queues too.
        progress: Told how far it is.

    Raises:
        NotFound: There is no such file.
        BadRequest: It has no header that fits, or is not UTF-8.
        StoreUnavailable: The journal cannot be written; doing it again carries on.
    """
    _must_exist(path)
    report = ImportReport()
    status = "pending" if deliver else None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            _check_header(reader.fieldnames or (), source_node_id)
            for rows in _chunks(reader):
                named = [_named(row, source_node_id) | {"queue_status": status} for row in rows]
                report.add(await _take_readings(journal, named))
                progress(report.read)
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequest("import_not_csv", f"{path} cannot be read as CSV: {error}") from error
    return report


def _must_exist(path: Path) -> None:
    if not path.is_file():
        raise NotFound("import_file_missing", f"{path} does not exist")


def _opened(path: Path) -> sqlite3.Connection:
    try:
        source = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        source.row_factory = sqlite3.Row
        source.execute("SELECT 1 FROM weather_readings LIMIT 1").fetchone()
    except sqlite3.Error as error:
        raise BadRequest("import_not_a_journal", f"{path} is no weatherstation.db: {error}") from error
    return source


def _rows_of(source: sqlite3.Connection, table: str) -> Iterator[sqlite3.Row]:
    tables = {row[0] for row in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if table not in tables:
        return
    if table == "weather_readings" and "aws_delivery_queue" in tables:
        yield from source.execute(
            "SELECT r.*, q.status AS queue_status, q.attempt_count, q.next_attempt_at_utc, q.last_attempt_at_utc,"
            " q.delivered_at_utc, q.last_error FROM weather_readings r"
            " LEFT JOIN aws_delivery_queue q ON q.reading_id = r.id ORDER BY r.id"
        )
        return
    yield from source.execute(f"SELECT * FROM {table} ORDER BY id")  # noqa: S608 - names of ours


def _chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, CHUNK_ROWS)):
        yield chunk


def _check_header(names: Iterable[str], source_node_id: str | None) -> None:
    known = {_column(name) for name in names}
    missing = {"source_ts_utc", "temp_c"} - known
    if source_node_id is None:
        missing |= {"source_node_id"} - known
    if missing:
        raise BadRequest(
            "import_columns_missing",
            f"the CSV lacks the columns {', '.join(sorted(missing))}",
            next_step="name the columns as in weather_readings or as in the cloud body",
        )


def _column(name: str) -> str:
    plain = name.strip()
    if plain == "timestamp":
        return "source_ts_utc"
    field = BY_CLOUD.get(plain)
    return plain if field is None else field.column


def _named(row: Mapping[str | None, Any], source_node_id: str | None) -> dict[str, Any]:
    named: dict[str, Any] = {
        _column(name): value for name, value in row.items() if name is not None and isinstance(value, str)
    }
    named["source_node_id"] = named.get("source_node_id") or source_node_id
    named["raw_payload"] = named.get("raw_payload") or json.dumps(named, separators=(",", ":"), ensure_ascii=False)
    return named


async def _take_readings(journal: Journal, rows: list[dict[str, Any]]) -> list[Captured]:
    writing = journal.writing()._replace(once=True)
    captures = [_capture_of(journal.parser, row, writing.now_us) for row in rows]

    def work(connection: sqlite3.Connection) -> list[Captured]:
        results = store_batch(connection, captures, writing._replace(queues=()))
        for row, result in zip(rows, results, strict=True):
            if result.row_id is not None and not result.duplicate and row.get("queue_status"):
                _queue(connection, result.row_id, row, writing)
        return results

    return await journal.database.write(work)


def _queue(connection: sqlite3.Connection, reading_id: int, row: Mapping[str, Any], writing: Writing) -> None:
    """Give an imported reading its queue rows: as they were in the first queue, the same state in the others."""
    columns = ("attempt_count", "next_attempt_at_utc", "last_attempt_at_utc", "delivered_at_utc", "last_error")
    for table in writing.queues:
        connection.execute(
            f"INSERT INTO {table} (reading_id, status, {', '.join(columns)}, created_at_utc, updated_at_utc)"  # noqa: S608 - ours
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(reading_id, row["queue_status"], row.get(columns[0]) or 0),
                *(row.get(name) for name in columns[1:]),
                *(writing.created_at, writing.created_at),
            ),
        )


def _capture_of(parser: Parser, row: Mapping[str, Any], now_us: int) -> Capture:
    received = _received(row, now_us)
    node = str(row.get("source_node_id") or "") or None
    name = row.get("source_name")
    raw = clean(str(row.get("raw_payload") or ""))
    reading = parser.reading_from_columns(row, timestamps.from_datetime(received))
    packet = MeshPacket(
        received_at=received,
        portnum=TEXT_MESSAGE_APP,
        payload=raw.encode(),
        source_node_id=node,
        source_name=name if isinstance(name, str) else None,
        **_link_of(row),
    )
    if isinstance(reading, str):
        event = ParsedEvent("rejected", reading, received, raw, node, packet.source_name)
    else:
        event = ParsedEvent("weather", None, received, raw, node, packet.source_name, reading)
    return Capture(packet, event)


def _link_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file of ours knows of the link; text from a CSV is left out."""
    whole = {name: row[name] for name in ("rssi_dbm", "packet_id", "channel") if isinstance(row.get(name), int)}
    if isinstance(row.get("snr_db"), float):
        whole["snr_db"] = row["snr_db"]
    if isinstance(row.get("hops_away"), int):
        whole |= {"hop_start": row["hops_away"], "hop_limit": 0}
    return whole


def _received(row: Mapping[str, Any], now_us: int) -> datetime:
    """Return the stored time of receipt, else the source time, else now."""
    for name in ("received_at_utc", "source_ts_utc"):
        try:
            return timestamps.to_datetime(timestamps.to_epoch_us(row.get(name)))
        except timestamps.TimestampError:
            continue
    return timestamps.to_datetime(now_us).astimezone(UTC)


async def _take_payloads(journal: Journal, rows: list[sqlite3.Row]) -> list[Captured]:
    writing = journal.writing()._replace(once=True)
    captures = []
    for row in rows:
        stored = dict(row)
        received = _received(stored, writing.now_us)
        packet = MeshPacket(
            received_at=received,
            portnum=TEXT_MESSAGE_APP,
            payload=str(stored["raw_payload"]).encode(),
            source_node_id=stored["source_node_id"],
            source_name=stored["source_name"],
            packet_id=stored.get("packet_id"),
        )
        captures.append(Capture(packet, journal.parser.parse_packet(packet)))
    return await journal.database.write(lambda connection: store_batch(connection, captures, writing))
