"""The SQL on one queue table: which rows are due, what settling changes, how many there are."""
# ruff: noqa: S608 - the table's name is checked to be a plain identifier; values are parameters

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from datetime import datetime

from stormjay.ground.outbox.port import ERROR_CHARACTERS_MAX, Again, Counts, Done, Entry, Order, Settlement
from stormjay.ground.outbox.spellings import WAITING, as_iso, due_ranges, is_due, parse

_WORK_TABLE = "CREATE TABLE IF NOT EXISTS outbox_work (destination TEXT PRIMARY KEY, work TEXT NOT NULL)"
_IS_WAITING = "status IN ('pending', 'retry')"


def prepare(connection: sqlite3.Connection, table: str) -> None:
    """Make the table for notes of work, and the index by due time when no index is one."""
    connection.execute(_WORK_TABLE)
    indexes = [row["name"] for row in connection.execute("SELECT name FROM pragma_index_list(?)", (table,))]
    wanted = ["status", "next_attempt_at_utc", "id"]
    for name in indexes:
        columns = [row["name"] for row in connection.execute("SELECT name FROM pragma_index_info(?)", (name,))]
        if columns[: len(wanted)] == wanted:
            return
    connection.execute(f"CREATE INDEX IF NOT EXISTS idx_{table}_due ON {table} ({', '.join(wanted)})")


def due(connection: sqlite3.Connection, table: str, now: datetime, order: Order, limit: int) -> list[sqlite3.Row]:
    """Return due rows; each part is read along the index (status, next_attempt_at_utc, id) and cut there."""
    direction = "DESC" if order == "newest" else "ASC"
    select = f"SELECT id, reading_id, attempt_count, next_attempt_at_utc FROM {table} WHERE status = ?"
    at_once = f"{select} AND next_attempt_at_utc IS NULL ORDER BY id {direction} LIMIT ?"
    by_time = (
        f"{select} AND next_attempt_at_utc BETWEEN ? AND ? "
        f"ORDER BY next_attempt_at_utc {direction}, id {direction} LIMIT ?"
    )
    found: list[sqlite3.Row] = []
    for status in WAITING:
        found += connection.execute(at_once, (status, limit))
        for low, high in due_ranges(now):
            rows = connection.execute(by_time, (status, low, high, limit))
            found += (row for row in rows if is_due(row["next_attempt_at_utc"], now))
    found.sort(key=lambda row: row["id"], reverse=order == "newest")
    return found


def named(connection: sqlite3.Connection, table: str, ids: Collection[int]) -> list[sqlite3.Row]:
    """Return the waiting rows among these ids, due or not."""
    statement = (
        f"SELECT id, reading_id, attempt_count FROM {table} "
        f"WHERE id IN (SELECT value FROM json_each(?)) AND {_IS_WAITING} ORDER BY id"
    )
    return connection.execute(statement, (json.dumps(list(ids)),)).fetchall()


def settle(connection: sqlite3.Connection, table: str, settlements: Iterable[Settlement], now: str) -> None:
    """Change waiting rows as the settlements say; rows that are over stay."""
    where = f"WHERE id = ? AND {_IS_WAITING}"
    done: list[tuple[object, ...]] = []
    again: list[tuple[object, ...]] = []
    final: list[tuple[object, ...]] = []
    for settlement in settlements:
        if isinstance(settlement, Done):
            done.append((now, now, now, settlement.id))
        elif isinstance(settlement, Again):
            error = settlement.error[:ERROR_CHARACTERS_MAX]
            again.append((as_iso(settlement.due), now, now, error, settlement.id))
        else:
            error = settlement.error[:ERROR_CHARACTERS_MAX]
            final.append((settlement.counts, now, now, error, settlement.id))
    statements = {
        "status = 'delivered', delivered_at_utc = ?, last_attempt_at_utc = ?, updated_at_utc = ?, "
        "last_error = NULL": done,
        "status = 'retry', attempt_count = attempt_count + 1, next_attempt_at_utc = ?, "
        "last_attempt_at_utc = ?, updated_at_utc = ?, last_error = ?": again,
        "status = 'failed', attempt_count = attempt_count + ?, last_attempt_at_utc = ?, updated_at_utc = ?, "
        "last_error = ?": final,
    }
    for assignments, rows in statements.items():
        if rows:
            connection.executemany(f"UPDATE {table} SET {assignments} {where}", rows)


def count(connection: sqlite3.Connection, table: str) -> tuple[Counts, datetime | None]:
    """Return the counts, and when the oldest waiting row was queued; one walk along the index."""
    statement = (
        f"SELECT status, count(*) AS rows, min(id) AS first FROM {table} "
        "WHERE status IN ('pending', 'retry', 'failed', 'discarded') GROUP BY status"
    )
    found = {row["status"]: row for row in connection.execute(statement)}
    counts = Counts(**{status: row["rows"] for status, row in found.items()})
    first = min((found[status]["first"] for status in WAITING if status in found), default=None)
    if first is None:
        return counts, None
    row = connection.execute(f"SELECT created_at_utc FROM {table} WHERE id = ?", (first,)).fetchone()
    return counts, parse(row["created_at_utc"])


def entry(row: sqlite3.Row) -> Entry:
    """Return a row for people."""
    return Entry(
        id=row["id"],
        item_id=row["reading_id"],
        status=row["status"],
        attempts=row["attempt_count"],
        error=row["last_error"],
        created_at=parse(row["created_at_utc"]),
        last_attempt_at=parse(row["last_attempt_at_utc"]),
        next_attempt_at=parse(row["next_attempt_at_utc"]),
        delivered_at=parse(row["delivered_at_utc"]),
    )
