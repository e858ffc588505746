"""Whatever the order, the repeats, the batches and the crashes: the same set of packets gives the same tables.

Left out of the comparison, as CONVERGENCE.md says: ids, times of writing, how often the ledger tells of a repeat, and,
where several captures share one key, which of them the row keeps (its content is then one of theirs).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stormjay.ground.sqlite import migrate
from stormjay.weather import journal_keys, journal_rows
from stormjay.weather.journal_heard import observation_of
from stormjay.weather.journal_schema import FIRST_QUEUE, MIGRATIONS
from stormjay.weather.journal_status import STATUS_COLUMNS, Observation, Thresholds
from stormjay.weather.journal_write import Capture, Writing, store_batch
from stormjay.weather.parser import Parser
from stormjay.weather.radio.port import TELEMETRY_APP, TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.records import COLUMNS, WeatherReading

START = datetime(2026, 3, 18, 9, tzinfo=UTC)
TS = int(START.timestamp())
NODES = ("!5c32d4d9", "!b05f00d1")
PARSER = Parser()
WRITING = Writing((FIRST_QUEUE,), "2026-03-18 09:00:00", TS * 1_000_000, Thresholds())

minutes = st.sampled_from([TS, TS + 60, TS + 120])
spelled = minutes | minutes.map(float) | minutes.map(str)
numbers = st.integers(1, 3)
weather = st.fixed_dictionaries(
    {"et": st.just("obs_st"), "i": numbers, "ts": spelled, "t": st.sampled_from([6.2, 7.0, 99]), "h": st.just(71)}
    | {"p": st.just(1008.4), "w": st.just(2.1), "d": st.just(190), "r": st.just(0.0)},
    optional={"bat": st.sampled_from([None, 2.3, 2.6])},
)
device = st.fixed_dictionaries(
    {"et": st.just("device_status"), "i": numbers, "ts": minutes},
    optional={"up": st.sampled_from([5, 900]), "hr": st.sampled_from([-60, -71]), "v": st.sampled_from([2.3, 2.6])},
)
hub = st.fixed_dictionaries(
    {"et": st.just("hub_status"), "i": numbers, "ts": minutes},
    optional={
        "up": st.sampled_from([7, 800]),
        "r": st.sampled_from([-41, -50]),
        "fs": st.just([1]),
        "rf": st.just("POR"),
    },
)
strike = st.fixed_dictionaries(
    {"et": st.just("evt_strike"), "i": numbers, "ts": minutes, "ld": st.just(3), "se": st.sampled_from([1, 2])}
)
beat = st.fixed_dictionaries({"sys": st.just("dbg"), "i": numbers, "up": st.sampled_from([0, 900])})
odd = st.sampled_from([{"x": 1}, [], {"et": "obs_st", "i": 1}])
payloads = st.one_of(weather, weather, device, hub, strike, beat, odd).map(
    lambda document: json.dumps(document).encode()
)


@st.composite
def packets(draw: st.DrawFn) -> MeshPacket:
    own = draw(st.integers(0, 9)) == 0
    return MeshPacket(
        received_at=START + timedelta(seconds=draw(st.sampled_from([121, 125, 130]))),
        portnum=TELEMETRY_APP if own else TEXT_MESSAGE_APP,
        payload=b"" if own else draw(payloads | st.just(b"\xff")),
        telemetry={"deviceMetrics": {"batteryLevel": draw(st.integers(1, 2))}} if own else None,
        source_node_id=draw(st.sampled_from([*NODES, NODES[0], None])),
        source_name=draw(st.sampled_from([None, "Garden", "Shed"])),
        packet_id=draw(st.none() | st.integers(1, 3)),
        snr_db=draw(st.none() | st.sampled_from([5.5, -3.0])),
    )


class Crash(BaseException):
    """The process is killed."""


class CrashingConnection:
    """A connection whose process is killed before its n-th statement."""

    def __init__(self, connection: sqlite3.Connection, survives: int) -> None:
        self._connection = connection
        self._left = survives

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self._count()
        return self._connection.execute(*arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        self._count()
        return self._connection.executemany(*arguments)

    def _count(self) -> None:
        if self._left == 0:
            raise Crash
        self._left -= 1


def capture(packet: MeshPacket) -> Capture:
    return Capture(packet, PARSER.parse_packet(packet) if packet.portnum == TEXT_MESSAGE_APP else None)


@contextmanager
def journal() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        migrate(connection, MIGRATIONS)
        yield connection


def store(connection: sqlite3.Connection, batch: list[MeshPacket], survives: int = -1) -> bool:
    """Store a batch in a transaction; False when the process was killed before its commit."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        store_batch(
            cast("sqlite3.Connection", CrashingConnection(connection, survives)),
            [capture(one) for one in batch],
            WRITING,
        )
    except Crash:
        connection.execute("ROLLBACK")
        return False
    connection.execute("COMMIT")
    return True


def contents(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return the tables as sets, without what is left out of the comparison."""

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in connection.execute(sql)), key=repr)

    values = ", ".join(journal_keys.TELEMETRY_CONTENT)
    status = ", ".join(STATUS_COLUMNS)
    return {
        "queue": rows(
            "SELECT r.source_node_id, r.source_ts_canonical, q.status, q.attempt_count FROM weather_readings r"
            " LEFT JOIN aws_delivery_queue q ON q.reading_id = r.id"
        ),
        "events": rows("SELECT source_node_id, dedupe_key, event_type, lightning_energy FROM weather_events"),
        "telemetry": rows(f"SELECT source_node_id, dedupe_key, {values} FROM device_telemetry_events"),  # noqa: S608 - ours
        "health": rows("SELECT source_node_id, dedupe_key, status, uptime_sec, raw_payload FROM device_health_events"),
        "native": rows("SELECT source_node_id, dedupe_key, metrics_json FROM native_telemetry"),
        "status": rows(
            f"SELECT source_node_id, {status}, value_times_json, derived_state FROM device_status_current"  # noqa: S608 - ours
        ),
        "refused": rows(
            "SELECT DISTINCT source_node_id, packet_type, reason, raw_payload, payload_hex FROM ingest_events"
            " WHERE reason NOT IN ('duplicate', 'conflict')"
        ),
    }


def readings_of(captures: list[Capture]) -> dict[tuple[str, int], list[tuple[MeshPacket, WeatherReading]]]:
    found: dict[tuple[str, int], list[tuple[MeshPacket, WeatherReading]]] = {}
    for packet, event in captures:
        body = None if event is None else event.body
        if packet.source_node_id is not None and isinstance(body, WeatherReading):
            found.setdefault((packet.source_node_id, body.epoch_us), []).append((packet, body))
    return found


def check_readings(connection: sqlite3.Connection, captures: list[Capture]) -> None:
    """Compare the readings with the plain computation: one row per key, whose content is one of those captured."""
    expected = readings_of(captures)
    columns = ", ".join((*COLUMNS, "source_node_id", "source_ts_canonical", "msg_id", "received_at_utc", "raw_payload"))
    stored = connection.execute(f"SELECT {columns} FROM weather_readings").fetchall()  # noqa: S608 - ours
    assert len(stored) == len(expected)
    for row in stored:
        moment = datetime.fromisoformat(row["source_ts_canonical"])
        candidates = expected[row["source_node_id"], int(moment.timestamp()) * 1_000_000]
        assert tuple(row) in {
            (
                *body.values,
                packet.source_node_id,
                row["source_ts_canonical"],
                body.msg_id,
                journal_rows.received_text(packet.received_at),
                packet.payload.decode(),
            )
            for packet, body in candidates
        }


def check_status(connection: sqlite3.Connection, captures: list[Capture]) -> None:
    """Compare the status with the plain computation: per column what was said last, null never."""
    said: dict[str, list[Observation]] = {}
    for packet, event in captures:
        if packet.source_node_id is not None and event is not None and event.body is not None:
            said.setdefault(packet.source_node_id, []).append(observation_of(packet, event, event.body))
    rows = {row["source_node_id"]: row for row in connection.execute("SELECT * FROM device_status_current")}
    assert set(rows) == set(said)
    for node, observations in said.items():
        for column in STATUS_COLUMNS:
            offers = [(o.said_us, o.received_us, o.values[column]) for o in observations if column in o.values]
            offers += [(o.received_us, o.received_us, o.heard[column]) for o in observations if column in o.heard]
            known = [offer for offer in offers if offer[2] is not None]
            last = max(known, key=lambda offer: (offer[0], offer[1], offer[2])) if known else (0, 0, None)
            assert rows[node][column] == last[2], column


@given(st.lists(packets(), min_size=1, max_size=9), st.data())
def test_tables_are_a_function_of_the_set_of_packets(heard: list[MeshPacket], data: st.DataObject) -> None:
    unique = list({msgspec.json.encode(packet): packet for packet in heard}.values())
    captures = [capture(packet) for packet in unique]
    with journal() as plain, journal() as lived:
        for packet in sorted(unique, key=msgspec.json.encode):
            assert store(plain, [packet])
        waiting = data.draw(st.permutations([*unique, *data.draw(st.lists(st.sampled_from(unique), max_size=6))]))
        while waiting:
            size = data.draw(st.integers(1, len(waiting)))
            batch, waiting = waiting[:size], waiting[size:]
            crash = data.draw(st.none() | st.integers(0, 12 * size))
            if crash is not None and not store(lived, batch, crash):
                waiting = [*waiting, *batch]  # what was not committed comes again, later than the rest
                assert store(lived, [batch[0]])
            elif crash is None:
                store(lived, batch)
        assert contents(lived) == contents(plain)
        for connection in (lived, plain):
            check_readings(connection, captures)
            check_status(connection, captures)


@given(st.permutations([0, 1, 2]), st.integers(0, 40))
def test_a_killed_process_leaves_a_reading_whole_or_not_at_all(order: list[int], survives: int) -> None:
    batch = [
        MeshPacket(
            received_at=START,
            portnum=TEXT_MESSAGE_APP,
            payload=json.dumps({"i": n, "ts": TS + n, "t": 1, "h": 2, "p": 900, "w": 3, "d": 4, "r": 0}).encode(),
            source_node_id=NODES[0],
        )
        for n in order
    ]
    with journal() as connection:
        done = store(connection, batch, survives)
        found = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TOGETHER]  # noqa: S608 - ours
        assert found == ([3, 3, 1] if done else [0, 0, 0])


_TOGETHER = ("weather_readings", "aws_delivery_queue", "device_status_current")
