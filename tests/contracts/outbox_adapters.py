"""Benches for the outbox contract, and the registry of adapters.

A bench holds an outbox, the clock it goes by, a way to queue items, and ``crash``: what a kill leaves behind.
To add an adapter, add an entry to ``ADAPTERS``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from stormjay.ground.clock import ManualClock
from stormjay.ground.outbox.memory import MemoryOutbox, MemoryRows
from stormjay.ground.outbox.port import Outbox
from stormjay.ground.outbox.sqlite import SqliteOutbox
from stormjay.ground.sqlite import Database, script

START = datetime(2026, 3, 18, 9, tzinfo=UTC)
CLAIMS_MAX = 6

QUEUE_SQL = """
CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL);
CREATE TABLE aws_delivery_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    reading_id INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    attempt_count INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_utc TEXT,
    last_attempt_at_utc TEXT,
    delivered_at_utc TEXT,
    last_error TEXT,
    created_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at_utc TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (reading_id) REFERENCES items (id) ON DELETE CASCADE,
    UNIQUE (reading_id)
)
"""
"""A queue table of the seed's form on simple items."""
TABLE = "aws_delivery_queue"


class Bench(Protocol):
    """One adapter with what the checks need around it."""

    clock: ManualClock
    outbox: Outbox[str]

    async def add(self, number: int) -> list[int]:
        """Queue so many items; return the ids of their rows."""
        ...

    async def crash(self) -> None:
        """Put a new outbox in place of the old one, as after a kill."""
        ...


@dataclass
class MemoryBench:
    """Memory rows stand for the file."""

    claims_max: int = CLAIMS_MAX
    clock: ManualClock = field(default_factory=lambda: ManualClock(START))
    rows: MemoryRows[str] = field(default_factory=MemoryRows)

    def __post_init__(self) -> None:
        self.outbox: Outbox[str] = self._new()

    def _new(self) -> MemoryOutbox[str]:
        return MemoryOutbox(self.rows, clock=self.clock, claims_max=self.claims_max)

    async def add(self, number: int) -> list[int]:
        return [self.rows.add(f"item {len(self.rows.rows)}", self.clock.now()) for _ in range(number)]

    async def crash(self) -> None:
        self.outbox = self._new()


def load(connection: sqlite3.Connection, ids: Sequence[int]) -> Mapping[int, str]:
    found = {}
    for id_ in ids:
        row = connection.execute("SELECT body FROM items WHERE id = ?", (id_,)).fetchone()
        if row is not None:
            found[id_] = row["body"]
    return found


@dataclass
class SqliteBench:
    """A queue table of the seed's form in a file."""

    database: Database
    clock: ManualClock
    outbox: Outbox[str]
    claims_max: int

    async def add(self, number: int) -> list[int]:
        created = self.clock.now().strftime("%Y-%m-%d %H:%M:%S")

        def work(connection: sqlite3.Connection) -> list[int]:
            ids = []
            for _ in range(number):
                item = connection.execute("INSERT INTO items (body) VALUES ('an item')").lastrowid
                row = connection.execute(
                    f"INSERT INTO {TABLE} (reading_id, created_at_utc) VALUES (?, ?)",  # noqa: S608 - a constant
                    (item, created),
                )
                ids.append(row.lastrowid or 0)
            return ids

        return await self.database.write(work)

    async def crash(self) -> None:
        self.outbox = await open_outbox(self.database, self.clock, self.claims_max)


async def open_outbox(database: Database, clock: ManualClock, claims_max: int = CLAIMS_MAX) -> SqliteOutbox[str]:
    return await SqliteOutbox.open(database, TABLE, load, destination="aws", clock=clock, claims_max=claims_max)


@asynccontextmanager
async def open_memory(_: Path, claims_max: int = CLAIMS_MAX) -> AsyncIterator[Bench]:
    yield MemoryBench(claims_max)


@asynccontextmanager
async def open_sqlite(folder: Path, claims_max: int = CLAIMS_MAX) -> AsyncIterator[SqliteBench]:
    clock = ManualClock(START)
    database = await Database.open(
        folder / "outbox.db", [script("queue", QUEUE_SQL)], clock=clock, synchronous="NORMAL"
    )
    try:
        yield SqliteBench(database, clock, await open_outbox(database, clock, claims_max), claims_max)
    finally:
        await database.close()


@dataclass(frozen=True)
class Adapter:
    """How to open one adapter, and the class that must come out."""

    open: Callable[[Path], AbstractAsyncContextManager[Bench]]
    holds: type


ADAPTERS = {"memory": Adapter(open_memory, MemoryOutbox), "sqlite": Adapter(open_sqlite, SqliteOutbox)}
