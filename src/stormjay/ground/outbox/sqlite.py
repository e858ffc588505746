"""The outbox on a queue table of the seed's form, in the same file as what the rows stand for.

The table has the columns of ``aws_delivery_queue`` (seed weather 5.2); a reading and its row are written in one
transaction by whoever owns the table. Here rows are read, claimed in memory, and settled.
"""
# ruff: noqa: S608 - the table's name is checked to be a plain identifier; values are parameters

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from stormjay.ground.clock import Clock
from stormjay.ground.outbox import sqlite_rows as rows
from stormjay.ground.outbox.port import LIST_MAX, Claimed, Counts, Entry, Order, Settlement, Status, Work
from stormjay.ground.outbox.spellings import WAITING, as_sqlite, parse
from stormjay.ground.sqlite import Database

T = TypeVar("T")
Loader = Callable[[sqlite3.Connection, Sequence[int]], Mapping[int, T]]
"""Makes items of the ids of what queue rows stand for; runs in a reader's thread; ids it does not know are left out."""

CLAIMS_MAX = 2_000
STEP_ROWS = 1_000
"""Rows changed in one go by ``wake`` and ``replay``, so that captures get their turn in between."""
_COUNT_COST_SHARE = 20
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class SqliteOutbox(Generic[T]):
    """One destination's queue; make one with ``open``."""

    def __init__(
        self, database: Database, table: str, loader: Loader[T], *, destination: str, clock: Clock, claims_max: int
    ) -> None:
        self._database = database
        self._table = table
        self._loader = loader
        self._destination = destination
        self._clock = clock
        self._claims_max = claims_max
        self._claims: set[int] = set()
        self._claiming = asyncio.Lock()
        self._counted: tuple[Counts, datetime | None] = (Counts(), None)
        self._count_again_at = float("-inf")

    @classmethod
    async def open(
        cls,
        database: Database,
        table: str,
        loader: Loader[T],
        *,
        destination: str,
        clock: Clock,
        claims_max: int = CLAIMS_MAX,
    ) -> SqliteOutbox[T]:
        """Prepare to work on a queue table that exists; an index that an old file lacks is made.

        Raises:
            ValueError: The name is no plain identifier.
            StoreUnavailable: The file cannot be written.
        """
        if not _PLAIN_NAME.fullmatch(table):
            raise ValueError(f"{table!r} cannot be the name of a queue table")
        await database.write(lambda connection: rows.prepare(connection, table))
        return cls(database, table, loader, destination=destination, clock=clock, claims_max=claims_max)

    @property
    def destination(self) -> str:
        """Name of the far side."""
        return self._destination

    @property
    def claims_max(self) -> int:
        """Most items that may be claimed at a time."""
        return self._claims_max

    @property
    def claimed(self) -> int:
        """How many are claimed now."""
        return len(self._claims)

    async def claim(
        self,
        limit: int,
        *,
        order: Order = "oldest",
        skip: Collection[int] = (),
        only: Collection[int] | None = None,
    ) -> list[Claimed[T]]:
        """Claim due items in the order of their ids."""
        async with self._claiming:
            free = min(limit, self._claims_max - len(self._claims))
            if free <= 0:
                return []
            # A copy from before the snapshot: what is settled meanwhile is in it and cannot be claimed a second time.
            unwanted = self._claims.union(skip)
            now = self._clock.now()

            def work(connection: sqlite3.Connection) -> list[Claimed[T]]:
                if only is None:
                    found = rows.due(connection, self._table, now, order, free + len(unwanted))
                else:
                    found = rows.named(connection, self._table, only)
                free_rows = [row for row in found if row["id"] not in unwanted][:free]
                loaded = self._loader(connection, [row["reading_id"] for row in free_rows])
                return [Claimed(row["id"], row["attempt_count"], loaded.get(row["reading_id"])) for row in free_rows]

            taken = await self._database.read(work)
            self._claims.update(claimed.id for claimed in taken)
            return taken

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Store what became of items and end their claims, all in one transaction."""
        if not settlements:
            return
        now = as_sqlite(self._clock.now())
        await self._database.write(lambda connection: rows.settle(connection, self._table, settlements, now))
        self.release([settlement.id for settlement in settlements])

    def release(self, ids: Collection[int]) -> None:
        """Give items back untouched."""
        self._claims.difference_update(ids)

    async def wake(self, *, skip: Collection[int] = ()) -> int:
        """Make the next ``STEP_ROWS`` waiting ``retry`` rows due at once."""
        not_these = json.dumps(list(skip))
        statement = (
            f"UPDATE {self._table} SET next_attempt_at_utc = NULL WHERE id IN (SELECT id FROM {self._table} "
            "WHERE status = 'retry' AND next_attempt_at_utc > '' AND id NOT IN (SELECT value FROM json_each(?)) "
            "LIMIT ?)"
        )
        parameters = (not_these, STEP_ROWS)
        return await self._database.write(lambda connection: connection.execute(statement, parameters).rowcount)

    async def next_due(self) -> datetime | None:
        """Return when the earliest unclaimed row that waits for its time becomes due."""
        claims = set(self._claims)
        statement = (
            f"SELECT id, next_attempt_at_utc FROM {self._table} WHERE status = ? AND next_attempt_at_utc > '' "
            "ORDER BY next_attempt_at_utc LIMIT ?"
        )

        def work(connection: sqlite3.Connection) -> list[datetime]:
            found = [row for status in WAITING for row in connection.execute(statement, (status, len(claims) + 1))]
            return [moment for id_, text in found if id_ not in claims and (moment := parse(text)) is not None]

        return min(await self._database.read(work), default=None)

    async def note_work(self, work: Work) -> None:
        """Store what is in work, in place of what was stored before."""
        text = msgspec.json.encode(work).decode()
        statement = (
            "INSERT INTO outbox_work (destination, work) VALUES (?, ?) "
            "ON CONFLICT (destination) DO UPDATE SET work = excluded.work"
        )
        await self._database.write(lambda connection: connection.execute(statement, (self._destination, text)))

    async def unfinished_work(self) -> Work:
        """Return what was stored last; what cannot be read counts as nothing."""
        statement = "SELECT work FROM outbox_work WHERE destination = ?"
        row = await self._database.read(
            lambda connection: connection.execute(statement, (self._destination,)).fetchone()
        )
        try:
            return Work() if row is None else msgspec.json.decode(row["work"], type=Work)
        except msgspec.DecodeError:
            return Work()

    async def counts(self) -> Counts:
        """Return how many rows wait or failed, counted anew once the last count is 20 times as old as it took."""
        return (await self._count())[0]

    async def oldest(self) -> datetime | None:
        """Return when the oldest row that still waits was queued."""
        return (await self._count())[1]

    async def entries(self, status: Status, *, limit: int = 100, after_id: int = 0) -> list[Entry]:
        """Return rows of one state, ascending."""
        statement = f"SELECT * FROM {self._table} WHERE status = ? AND id > ? ORDER BY id LIMIT ?"
        return await self._database.read(
            lambda connection: [
                rows.entry(row) for row in connection.execute(statement, (status, after_id, min(limit, LIST_MAX)))
            ]
        )

    async def replay(self, ids: Collection[int] | None = None) -> int:
        """Make failed and discarded rows (of these ids, or all that failed) pending again."""
        now = as_sqlite(self._clock.now())
        change = (
            f"UPDATE {self._table} SET status = 'pending', attempt_count = 0, next_attempt_at_utc = NULL, "
            "last_error = NULL, updated_at_utc = ? WHERE id IN "
        )
        if ids is None:
            some = f"{change} (SELECT id FROM {self._table} WHERE status = 'failed' LIMIT ?)"
            return await self._in_steps(lambda connection: connection.execute(some, (now, STEP_ROWS)).rowcount)
        named = f"{change} (SELECT value FROM json_each(?)) AND status IN ('failed', 'discarded')"
        text = json.dumps(list(ids))
        return await self._database.write(lambda connection: connection.execute(named, (now, text)).rowcount)

    async def discard(self, ids: Collection[int]) -> int:
        """Mark waiting or failed rows as thrown away by a person."""
        now, text = as_sqlite(self._clock.now()), json.dumps(list(ids))
        statement = (
            f"UPDATE {self._table} SET status = 'discarded', updated_at_utc = ? "
            "WHERE id IN (SELECT value FROM json_each(?)) AND status IN ('pending', 'retry', 'failed')"
        )
        return await self._database.write(lambda connection: connection.execute(statement, (now, text)).rowcount)

    async def _in_steps(self, step: Callable[[sqlite3.Connection], int]) -> int:
        total = 0
        while changed := await self._database.write(step):
            total += changed
        return total

    async def _count(self) -> tuple[Counts, datetime | None]:
        begin = self._clock.monotonic()
        if begin >= self._count_again_at:
            self._counted = await self._database.read(lambda connection: rows.count(connection, self._table))
            took_seconds = self._clock.monotonic() - begin
            self._count_again_at = begin + _COUNT_COST_SHARE * took_seconds
        return self._counted
