"""Brings any ``weatherstation.db`` to the schema of ``schema.sql``: a fresh file, the seed's, or one of ours.

What an older file lacks is read off the script itself, so that the two cannot drift apart: tables, then columns, then
the identity of the rows that are there, then indexes.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files

import msgspec

from stormjay.errors import SettingsError
from stormjay.ground import timestamps
from stormjay.ground.sqlite import Migration

FIRST_QUEUE = "aws_delivery_queue"
_FURTHER_QUEUE = "delivery_queue_"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_CHUNK_ROWS = 5_000


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A further place that readings are delivered to.

    Attributes:
        name: Ends the name of its queue table; lower-case letters, digits and underscores.
        backfill: ``start`` puts all readings there are into its queue when it is first seen, ``now`` none.
    """

    name: str
    backfill: str = "now"


def _statements() -> list[str]:
    text = files("stormjay.weather").joinpath("schema.sql").read_text(encoding="utf-8")
    bare = re.sub(r"--[^\n]*", "", text)
    return [statement.strip() for statement in bare.split(";") if statement.strip()]


def _apply(connection: sqlite3.Connection) -> None:
    statements = _statements()
    for statement in statements:
        if statement.startswith("CREATE TABLE"):
            connection.execute(statement)
    _add_missing_columns(connection, statements)
    fill_identities(connection)
    for statement in statements:
        if not statement.startswith("CREATE TABLE"):
            connection.execute(statement)


MIGRATIONS = (Migration("the seed's tables with what was added to them", _apply),)


def _add_missing_columns(connection: sqlite3.Connection, statements: list[str]) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as wanted:
        for statement in statements:
            if statement.startswith("CREATE TABLE"):
                wanted.execute(statement)
        tables = [row[0] for row in wanted.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table.startswith("sqlite_"):
                continue
            present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for _, name, kind, *_rest in wanted.execute(f"PRAGMA table_info({table})"):
                if name not in present:
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def fill_identities(connection: sqlite3.Connection) -> int:
    """Give every reading without one its canonical time; the later of two spellings of one instant becomes a double.

    Both rows of such a pair stay (CONVERGENCE.md, weather). Runs at every start, since the seed's own program may
    have written to the file meanwhile.

    Returns:
        How many rows were marked as doubles.
    """
    doubles = 0
    first_time = not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'idx_weather_identity'").fetchone()
    if first_time:  # the look-ups below need it before its final form can hold
        connection.execute("CREATE INDEX idx_weather_filling ON weather_readings(source_node_id, source_ts_canonical)")
    for chunk in _uncanonical(connection):
        for row_id, node, text in chunk:
            try:
                canonical = timestamps.normalise(text)
            except timestamps.TimestampError:
                continue  # the row keeps its own text as its only identity
            holder = connection.execute(
                "SELECT id FROM weather_readings"
                " WHERE source_node_id = ? AND source_ts_canonical = ? AND source_double_of IS NULL",
                (node, canonical),
            ).fetchone()
            double_of = None if holder is None else holder[0]
            doubles += double_of is not None
            connection.execute(
                "UPDATE weather_readings SET source_ts_canonical = ?, source_double_of = ? WHERE id = ?",
                (canonical, double_of, row_id),
            )
    if first_time:
        connection.execute("DROP INDEX idx_weather_filling")
    return doubles


def _uncanonical(connection: sqlite3.Connection) -> Iterator[list[tuple[int, str, str]]]:
    after = 0
    while True:
        rows = connection.execute(
            "SELECT id, source_node_id, source_ts_utc FROM weather_readings"
            " WHERE source_ts_canonical IS NULL AND id > ? ORDER BY id LIMIT ?",
            (after, _CHUNK_ROWS),
        ).fetchall()
        if not rows:
            return
        after = rows[-1][0]
        yield [(row[0], row[1], row[2]) for row in rows]


def queue_table(destination: str) -> str:
    """Return the name of a further destination's queue table.

    Raises:
        SettingsError: The name has other characters than lower-case letters, digits and underscores.
    """
    if not _NAME.fullmatch(destination):
        raise SettingsError(
            f"destination name {destination!r} cannot name a table",
            next_step="use lower-case letters, digits and underscores, a letter first, at most 31",
        )
    return _FURTHER_QUEUE + destination


def ensure_queue(connection: sqlite3.Connection, destination: Destination, created_at: str) -> int:
    """Make a further destination's table when it is not there, with the rows its ``backfill`` asks for.

    Returns:
        How many readings were put into its queue now; 0 when the table was there.
    """
    table = queue_table(destination.name)
    if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone():
        return 0
    for statement in _statements():
        if FIRST_QUEUE in statement:
            connection.execute(statement.replace(FIRST_QUEUE, table).replace("idx_delivery_", f"idx_{table}_"))
    if destination.backfill != "start":
        return 0
    added = connection.execute(
        f"INSERT INTO {table} (reading_id, created_at_utc, updated_at_utc)"  # noqa: S608 - the name was checked
        " SELECT id, ?, ? FROM weather_readings WHERE source_double_of IS NULL ORDER BY id",
        (created_at, created_at),
    ).rowcount
    return int(added)
