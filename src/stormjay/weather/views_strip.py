"""The delivery strip: one line per station and destination, the local day from left to right, a state per minute.

A cell is ``captured`` (safe on disk, no delivery tried yet), ``waiting`` (tried, will be tried again), ``delivered``,
``refused`` (for good, or the packet could not be taken), ``none`` (nothing known of it) or ``ahead`` (still to come).
A reading colours every minute that it stands for, so a minute whose text was merged into the next is not a gap.
"""

# ruff: noqa: S608 - names and numbers in the SQL are constants of ours; what callers say is bound

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from stormjay.ground.timestamps import format_us, to_epoch_us
from stormjay.weather.views import LocalDay, Site, local_day, station_view
from stormjay.weather.views_rows import REACH_US, canonical_us

CELLS_MAX = 1440
STATES = ("none", "delivered", "captured", "waiting", "refused", "ahead")
"""In order of gravity: of several in one cell the later in this list shows."""
NONE, DELIVERED, CAPTURED, WAITING, REFUSED, AHEAD = range(6)
LEDGER_REFUSED = "packet_type IN ('invalid', 'rejected', 'unknown') AND replayed_at_utc IS NULL"
_MINUTE_US = 60_000_000


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A place that readings are delivered to.

    Attributes:
        name: Its name in settings, API and logs; the first one is ``api``.
        table: Its queue table; comes from the settings, never from a caller.
        label: For people.
    """

    name: str
    table: str
    label: str = ""


class StripRun(msgspec.Struct, frozen=True, array_like=True):
    """So many cells of one state in a row."""

    state: str
    cells: int


class StripLine(msgspec.Struct, frozen=True, kw_only=True):
    """The day of one station towards one destination.

    Attributes:
        station: Node id.
        station_name: For people.
        destination: Name of the destination; empty when nothing is delivered anywhere.
        label: The destination for people.
        date, time_zone: The local day.
        start_utc: Where the first cell begins.
        cell_seconds: Length of a cell: 60, or 120 on the day of 25 hours.
        runs: The cells, run-length encoded, left to right.
        minutes: Cells per state.
    """

    station: str
    station_name: str
    destination: str
    label: str
    date: str
    time_zone: str
    start_utc: str
    cell_seconds: int
    runs: list[StripRun]
    minutes: dict[str, int]


def strip(
    connection: sqlite3.Connection,
    sites: Mapping[str, Site],
    station_ids: Sequence[str],
    targets: Sequence[Target],
    moment_us: int,
    now_us: int,
) -> list[StripLine]:
    """Return the lines of the local day that holds ``moment_us``.

    Raises:
        NotFound: A station is unknown.
    """
    lines: list[StripLine] = []
    for station in station_ids:
        site = sites.get(station, Site())
        view = station_view(connection, station, site, now_us)
        day = local_day(moment_us, site.zone())
        for target in targets or (None,):
            cells, cell_us = _cells(connection, station, target, day, now_us)
            names = [STATES[cell] for cell in cells]
            lines.append(
                StripLine(
                    station=station,
                    station_name=view.name,
                    destination=target.name if target else "",
                    label=(target.label or target.name) if target else "not delivered anywhere",
                    date=day.date,
                    time_zone=view.time_zone,
                    start_utc=format_us(day.start_us),
                    cell_seconds=cell_us // 1_000_000,
                    runs=[StripRun(state, sum(1 for _ in run)) for state, run in groupby(names)],
                    minutes={state: count for state in STATES if (count := names.count(state))},
                )
            )
    return lines


def _cells(
    connection: sqlite3.Connection, station: str, target: Target | None, day: LocalDay, now_us: int
) -> tuple[list[int], int]:
    minutes = (day.end_us - day.start_us) // _MINUTE_US
    cell_us = _MINUTE_US * -(-minutes // CELLS_MAX)
    count = -(-(day.end_us - day.start_us) // cell_us)
    cells = [NONE] * count
    for moment_us, interval_min, state in _readings(connection, station, target, day):
        first, last = covered_cells(moment_us - day.start_us, interval_min, cell_us)
        for place in range(max(0, first), min(count - 1, last) + 1):
            cells[place] = max(cells[place], state)
    for received_us in _refusals(connection, station, day.start_us, day.end_us):
        place = (received_us - day.start_us) // cell_us
        if 0 <= place < count and cells[place] == NONE:
            cells[place] = REFUSED
    for place in range(max(0, (now_us - day.start_us) // cell_us + 1), count):
        if cells[place] == NONE:
            cells[place] = AHEAD
    return cells, cell_us


def covered_cells(offset_us: int, interval_min: int | None, cell_us: int) -> tuple[int, int]:
    """Return the first and last cell that a reading covers by half or more; at least the one it ends in."""
    begin_us = offset_us - (interval_min or 0) * _MINUTE_US
    half = cell_us // 2
    first, last = (begin_us + half) // cell_us, (offset_us + half) // cell_us - 1
    if last < first:
        first = last = (offset_us - 1) // cell_us
    return first, last


def _readings(
    connection: sqlite3.Connection, station: str, target: Target | None, day: LocalDay
) -> list[tuple[int, int | None, int]]:
    columns, queue = "NULL, 0", ""
    if target is not None:
        columns, queue = "q.status, q.attempt_count", f"LEFT JOIN {target.table} AS q ON q.reading_id = r.id"
    rows = connection.execute(
        f"SELECT r.source_ts_canonical, r.report_interval_min, {columns} FROM weather_readings AS r {queue}"
        " WHERE r.source_node_id = ? AND r.source_double_of IS NULL"
        " AND r.source_ts_canonical > ? AND r.source_ts_canonical <= ?",
        (station, format_us(day.start_us), format_us(day.end_us + REACH_US)),
    )
    return [(canonical_us(row[0]), row[1], queue_state(row[2], row[3])) for row in rows]


def queue_state(status: str | None, attempts: int | None) -> int:
    """Return the state that a queue row means; none at all means that nobody wants the reading delivered."""
    if status == "delivered":
        return DELIVERED
    if status in {"failed", "discarded"}:
        return REFUSED
    if status is None or (status == "pending" and not attempts):
        return CAPTURED
    return WAITING


def _refusals(connection: sqlite3.Connection, station: str, start_us: int, end_us: int) -> list[int]:
    rows = connection.execute(
        f"SELECT received_at_utc FROM ingest_events WHERE source_node_id = ? AND {LEDGER_REFUSED}"
        " AND received_at_utc > ? AND received_at_utc <= ?",
        (station, format_us(start_us)[:26], format_us(end_us)[:26]),
    )
    return [to_epoch_us(row[0]) for row in rows]
