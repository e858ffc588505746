"""What every outbox must do, as checks that take a bench; and the registry of adapters.

A bench holds an outbox, the clock it goes by, a way to queue items, and ``crash``: what a kill leaves behind.
To add an adapter, add an entry to ``ADAPTERS``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from stormjay.ground.clock import ManualClock
from stormjay.ground.outbox.memory import MemoryOutbox, MemoryRows
from stormjay.ground.outbox.port import Again, Counts, Done, Final, Outbox, Settlement, Work
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


async def claimed_ids(bench: Bench, limit: int = 99) -> list[int]:
    return [item.id for item in await bench.outbox.claim(limit)]


async def settle(bench: Bench, *settlements: Settlement) -> None:
    await bench.outbox.settle(settlements)


def due_in(bench: Bench, seconds: float) -> datetime:
    return bench.clock.now() + timedelta(seconds=seconds)


async def items_come_in_the_order_asked_for(bench: Bench) -> None:
    ids = await bench.add(4)
    assert [item.id for item in await bench.outbox.claim(2)] == ids[:2]
    assert [item.id for item in await bench.outbox.claim(9, order="newest")] == [ids[3], ids[2]]
    assert [item.item is not None for item in await bench.outbox.claim(9)] == []


async def a_claimed_item_is_not_claimed_again(bench: Bench) -> None:
    ids = await bench.add(3)
    assert await claimed_ids(bench, 2) == ids[:2]
    assert await claimed_ids(bench) == ids[2:]
    assert await claimed_ids(bench) == []
    assert bench.outbox.claimed == 3
    bench.outbox.release([ids[1]])
    assert await claimed_ids(bench) == [ids[1]]


async def claims_are_bounded(bench: Bench) -> None:
    ids = await bench.add(CLAIMS_MAX + 3)
    assert await claimed_ids(bench) == ids[:CLAIMS_MAX]
    assert await claimed_ids(bench) == []
    await settle(bench, Done(ids[0]))
    assert await claimed_ids(bench) == [ids[CLAIMS_MAX]]


async def some_can_be_skipped_or_named(bench: Bench) -> None:
    ids = await bench.add(3)
    assert [item.id for item in await bench.outbox.claim(1, skip=ids[:1])] == [ids[1]]
    await settle(bench, Again(ids[1], due_in(bench, 60), "later"))
    assert [item.id for item in await bench.outbox.claim(9, only=[ids[1], 999])] == [ids[1]], "named: due or not"
    await settle(bench, Done(ids[1]))
    assert await bench.outbox.claim(9, only=[ids[1]]) == []


async def delivered_is_over(bench: Bench) -> None:
    ids = await bench.add(1)
    await claimed_ids(bench)
    await settle(bench, Done(ids[0]))
    assert await claimed_ids(bench) == []
    (entry,) = await bench.outbox.entries("delivered")
    assert (entry.id, entry.attempts, entry.error, entry.delivered_at) == (ids[0], 0, None, bench.clock.now())
    await settle(bench, Again(ids[0], bench.clock.now(), "too late"), Final(ids[0], "too late"))
    assert len(await bench.outbox.entries("delivered")) == 1, "what is over stays as it is"


async def a_failed_attempt_waits_for_its_time(bench: Bench) -> None:
    ids = await bench.add(2)
    await claimed_ids(bench, 1)
    await settle(bench, Again(ids[0], due_in(bench, 30), "x" * 600))
    (entry,) = await bench.outbox.entries("retry")
    assert (entry.attempts, entry.error) == (1, "x" * 500)
    assert entry.next_attempt_at == await bench.outbox.next_due() == due_in(bench, 30)
    assert await claimed_ids(bench) == [ids[1]], "the next one does not wait for it"
    await bench.clock.advance(29.9)
    assert await claimed_ids(bench) == []
    await bench.clock.advance(0.1)
    (again,) = await bench.outbox.claim(9)
    assert (again.id, again.attempts) == (ids[0], 1)
    assert await bench.outbox.next_due() is None, "it is claimed"


async def waking_makes_all_due_but_some(bench: Bench) -> None:
    ids = await bench.add(3)
    await claimed_ids(bench)
    await settle(bench, *(Again(id_, due_in(bench, 600), "down") for id_ in ids))
    woken = 0
    while step := await bench.outbox.wake(skip=ids[2:]):
        woken += step
    assert woken == 2
    assert await claimed_ids(bench) == ids[:2]
    assert [entry.attempts for entry in await bench.outbox.entries("retry")] == [1, 1, 1], "counts stay"


async def a_refused_item_is_kept_and_can_be_replayed(bench: Bench) -> None:
    ids = await bench.add(3)
    await claimed_ids(bench)
    await settle(bench, Final(ids[0], "AWS API HTTP 400: bad"), Final(ids[1], "gone", counts=False), Done(ids[2]))
    first, second = await bench.outbox.entries("failed")
    assert (first.id, first.attempts, first.error) == (ids[0], 1, "AWS API HTTP 400: bad")
    assert second.attempts == 0
    assert await bench.outbox.entries("failed", limit=1, after_id=ids[0]) == [second]
    assert await claimed_ids(bench) == []
    assert await bench.outbox.replay([ids[1], ids[2], 999]) == 1
    assert await bench.outbox.replay() == 1
    assert [(item.id, item.attempts) for item in await bench.outbox.claim(9)] == [(ids[0], 0), (ids[1], 0)]


async def a_person_can_discard(bench: Bench) -> None:
    ids = await bench.add(3)
    await claimed_ids(bench, 1)
    await settle(bench, Final(ids[0], "no"))
    assert await bench.outbox.discard([ids[0], ids[1]]) == 2
    assert await claimed_ids(bench) == [ids[2]]
    await settle(bench, Done(ids[2]))
    assert await bench.outbox.discard([ids[2]]) == 0, "what is delivered stays delivered"
    assert await bench.outbox.counts() == Counts(discarded=2)
    assert await bench.outbox.replay([ids[1]]) == 1


async def counts_and_age_are_right(bench: Bench) -> None:
    assert await bench.outbox.counts() == Counts()
    assert await bench.outbox.oldest() is None
    ids = await bench.add(2)
    await bench.clock.advance(60)
    ids += await bench.add(2)
    await claimed_ids(bench)
    await settle(bench, Done(ids[0]), Again(ids[1], due_in(bench, 30), "x"), Final(ids[2], "y"))
    counts = await bench.outbox.counts()
    assert counts == Counts(pending=1, retry=1, failed=1)
    assert counts.waiting == 2
    assert await bench.outbox.oldest() == START
    await settle(bench, Done(ids[1]))
    assert await bench.outbox.oldest() == START + timedelta(seconds=60)


async def a_kill_leaves_claimed_items_as_they_were(bench: Bench) -> None:
    ids = await bench.add(3)
    await claimed_ids(bench)
    await settle(bench, Done(ids[0]), Again(ids[1], due_in(bench, 30), "x"))
    await bench.crash()
    assert bench.outbox.claimed == 0
    assert await claimed_ids(bench) == [ids[2]]
    assert [entry.attempts for entry in await bench.outbox.entries("pending")] == [0]
    await bench.clock.advance(30)
    assert await claimed_ids(bench) == [ids[1]]


async def the_note_of_work_survives(bench: Bench) -> None:
    assert await bench.outbox.unfinished_work() == Work()
    note = Work(ids=(3, 4), suspects=(1,), alone=7, deaths={7: 2})
    await bench.outbox.note_work(note)
    await bench.crash()
    assert await bench.outbox.unfinished_work() == note
    await bench.outbox.note_work(Work())
    assert await bench.outbox.unfinished_work() == Work()


async def unknown_ids_are_harmless(bench: Bench) -> None:
    await settle(bench, Done(5), Again(6, bench.clock.now(), "x"), Final(7, "y"))
    await settle(bench)
    bench.outbox.release([5, 6])
    assert await bench.outbox.replay([8]) == await bench.outbox.discard([9]) == 0
    assert await bench.outbox.wake() == 0
    assert await bench.outbox.claim(0) == []


CHECKS: tuple[Callable[[Bench], Awaitable[None]], ...] = (
    items_come_in_the_order_asked_for,
    a_claimed_item_is_not_claimed_again,
    claims_are_bounded,
    some_can_be_skipped_or_named,
    delivered_is_over,
    a_failed_attempt_waits_for_its_time,
    waking_makes_all_due_but_some,
    a_refused_item_is_kept_and_can_be_replayed,
    a_person_can_discard,
    counts_and_age_are_right,
    a_kill_leaves_claimed_items_as_they_were,
    the_note_of_work_survives,
    unknown_ids_are_harmless,
)
