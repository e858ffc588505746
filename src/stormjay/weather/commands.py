"""The verbs that look: what the journal holds, as plain rows for a terminal or for JSON. They change nothing.

Each takes an open database and the moment it is asked at; none knows of settings or of the terminal.
"""

# ruff: noqa: S608 - tables and columns in the SQL are constants of ours; what callers say is bound

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from stormjay.errors import BadRequest, NotFound
from stormjay.ground import timestamps
from stormjay.ground.sqlite import Database
from stormjay.ground.timestamps import format_us
from stormjay.weather import views, views_link
from stormjay.weather.fields import FIELDS
from stormjay.weather.journal_status import Thresholds
from stormjay.weather.views import Site
from stormjay.weather.views_rain import RainLedger
from stormjay.weather.views_rows import OWN

Rows = list[dict[str, Any]]
What = Literal["health", "queue", "latest"]

HISTORY_MAX = 10_000
"""Most rows that one history shows."""
LIST_MAX = 1_000
_SHOWN = {
    "latest": (
        "weather_readings",
        "id, source_node_id, source_name, msg_id, source_ts_utc, received_at_utc, "
        + ", ".join(field.column for field in FIELDS),
    ),
    "health": (
        "device_health_events",
        "id, source_node_id, msg_id, received_at_utc, status, uptime_sec, ip_address, error_reason, raw_payload",
    ),
    "queue": (
        "aws_delivery_queue",
        "id, reading_id, status, attempt_count, next_attempt_at_utc, last_attempt_at_utc, delivered_at_utc, last_error",
    ),
}
_DEFAULT_LIMITS: dict[What, int] = {"latest": 5, "health": 5, "queue": 10}
"""As many as the seed's ``show_latest`` prints (contract weather 7)."""


async def latest(
    database: Database,
    *,
    now_us: int,
    sites: Mapping[str, Site],
    thresholds: Thresholds,
    station: str | None = None,
) -> dict[str, Any]:
    """Return a station's newest reading with what follows from it.

    Args:
        database: The journal.
        now_us: The moment asked at.
        sites: What is known of the stations.
        thresholds: When a station counts as what.
        station: Node id; the one heard of last when None.

    Raises:
        NotFound: There is no such station, or none at all.
    """

    def work(connection: sqlite3.Connection) -> dict[str, Any]:
        node = _station(connection, station, sites, now_us)
        site = sites.get(node, Site())
        now = views.now(connection, node, site, now_us, RainLedger(), thresholds.stale_after_seconds)
        condition = views_link.condition(connection, node, now_us, thresholds)
        answer: dict[str, Any] = msgspec.to_builtins(now)
        answer["condition"] = msgspec.to_builtins(condition)
        return answer

    return await database.read(work)


async def history(
    database: Database,
    *,
    now_us: int,
    sites: Mapping[str, Site],
    station: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int = 200,
) -> Rows:
    """Return readings by source time, the newest last.

    Args:
        database: The journal.
        now_us: The moment asked at.
        sites: What is known of the stations.
        station: Node id; the one heard of last when None.
        since: Any spelling of a time; 24 hours before ``until`` when None.
        until: Any spelling of a time; now when None.
        limit: Most rows; the newest are kept.

    Raises:
        NotFound: There is no such station.
        BadRequest: A time cannot be understood, the range is reversed, or the limit is out of bounds.
    """
    end_us = now_us if until is None else _moment("until", until)
    start_us = end_us - 86_400_000_000 if since is None else _moment("since", since)
    if start_us >= end_us:
        raise BadRequest("invalid_range", "the time to begin at (--since) must lie before the time to end at (--until)")
    _check_limit(limit, HISTORY_MAX)
    columns = ", ".join(f"{field.column} AS {field.cloud}" for field in FIELDS)

    def work(connection: sqlite3.Connection) -> Rows:
        node = _station(connection, station, sites, now_us)
        rows = connection.execute(
            f"SELECT source_ts_canonical AS source_ts_utc, source_node_id, msg_id, received_at_utc, {columns}"
            f" FROM weather_readings WHERE {OWN} AND source_ts_canonical >= ? AND source_ts_canonical <= ?"
            " ORDER BY source_ts_canonical DESC LIMIT ?",
            (node, format_us(start_us), format_us(end_us), limit),
        )
        return [dict(row) for row in rows][::-1]

    return await database.read(work)


async def show(database: Database, what: What, *, limit: int | None = None, queue: str = "aws_delivery_queue") -> Rows:
    """Return the newest rows of one table, the newest first, as the seed's tool did.

    Args:
        database: The journal.
        what: Readings, health reports, or rows of a delivery queue.
        limit: Most rows; as many as the seed showed when None.
        queue: For ``queue``: the table of the destination.

    Raises:
        BadRequest: The limit is out of bounds.
        NotFound: There is no such queue.
    """
    table, columns = _SHOWN[what]
    wanted = _DEFAULT_LIMITS[what] if limit is None else limit
    _check_limit(wanted, LIST_MAX)

    def work(connection: sqlite3.Connection) -> Rows:
        name = _queue(connection, queue) if what == "queue" else table
        rows = connection.execute(f"SELECT {columns} FROM {name} ORDER BY id DESC LIMIT ?", (wanted,))
        return [dict(row) for row in rows]

    return await database.read(work)


async def ledger(
    database: Database,
    *,
    station: str | None = None,
    packet_type: str | None = None,
    reason: str | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> Rows:
    """Return what was refused or came twice, the newest first.

    Args:
        database: The journal.
        station: Only of this node.
        packet_type: Only of this kind, as ``rejected``.
        reason: Only with this reason.
        before_id: Only rows below this id, to page on.
        limit: Most rows.

    Raises:
        BadRequest: The limit is out of bounds.
    """
    _check_limit(limit, LIST_MAX)
    wanted = {"source_node_id = ?": station, "packet_type = ?": packet_type, "reason = ?": reason, "id < ?": before_id}
    given = {condition: value for condition, value in wanted.items() if value is not None}
    where = f"WHERE {' AND '.join(given)}" if given else ""

    def work(connection: sqlite3.Connection) -> Rows:
        rows = connection.execute(
            "SELECT id, received_at_utc, source_node_id, source_name, packet_type, reason, msg_id, raw_payload,"
            f" replayed_at_utc FROM ingest_events {where} ORDER BY id DESC LIMIT ?",
            (*given.values(), limit),
        )
        return [dict(row) for row in rows]

    return await database.read(work)


def _station(connection: sqlite3.Connection, station: str | None, sites: Mapping[str, Site], now_us: int) -> str:
    if station is not None:
        return station
    found = [view for view in views.stations(connection, sites, now_us) if view.latest_ts_utc is not None]
    if not found:
        raise NotFound("no_reading", "the journal holds no reading yet", next_step="see `stormjay weather ledger`")
    return found[0].station


def _queue(connection: sqlite3.Connection, name: str) -> str:
    is_queue = name == "aws_delivery_queue" or name.startswith("delivery_queue_")
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
    if not is_queue or known is None:
        raise NotFound("unknown_queue", f"there is no delivery queue {name}")
    return name


def _moment(name: str, text: str) -> int:
    try:
        return timestamps.from_query(text)
    except timestamps.TimestampError as error:
        raise BadRequest("invalid_time", f"--{name} {error}") from error


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise BadRequest("limit_out_of_range", f"--limit must be from 1 to {most}")
