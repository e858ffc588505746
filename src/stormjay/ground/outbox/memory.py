"""The outbox in memory: for tests and for what may be forgotten. It keeps every promise but durability.

``MemoryRows`` stands for the file: a test that simulates a kill makes a new ``MemoryOutbox`` on the same rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from stormjay.errors import StoreUnavailable
from stormjay.ground.clock import Clock
from stormjay.ground.outbox.port import (
    ERROR_CHARACTERS_MAX,
    LIST_MAX,
    Again,
    Claimed,
    Counts,
    Done,
    Entry,
    Order,
    Settlement,
    Status,
    Work,
)
from stormjay.ground.outbox.spellings import WAITING

T = TypeVar("T")
ROWS_MAX = 1_000_000


@dataclass
class Row(Generic[T]):
    """One queued item."""

    id: int
    item: T | None
    created_at: datetime
    status: Status = "pending"
    attempts: int = 0
    error: str | None = None
    next_attempt_at: datetime | None = None
    last_attempt_at: datetime | None = None
    delivered_at: datetime | None = None


@dataclass
class MemoryRows(Generic[T]):
    """What survives a simulated kill."""

    rows: dict[int, Row[T]] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, item: T, now: datetime) -> int:
        """Queue an item; return its id.

        Raises:
            StoreUnavailable: ``ROWS_MAX`` are held.
        """
        if len(self.rows) >= ROWS_MAX:
            raise StoreUnavailable(f"more than {ROWS_MAX} rows in memory")
        row = Row(next(self._ids), item, now)
        self.rows[row.id] = row
        return row.id


class MemoryOutbox(Generic[T]):
    """One destination's queue in memory."""

    def __init__(
        self, rows: MemoryRows[T], *, clock: Clock, destination: str = "memory", claims_max: int = 2_000
    ) -> None:
        self._memory = rows
        self._clock = clock
        self._destination = destination
        self._claims_max = claims_max
        self._claims: set[int] = set()

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
        now = self._clock.now()
        free = min(limit, self._claims_max - len(self._claims))
        unwanted = self._claims.union(skip)
        waiting = (
            row
            for row in sorted(self._memory.rows.values(), key=lambda row: row.id, reverse=order == "newest")
            if row.status in WAITING
            and row.id not in unwanted
            and (_is_due(row, now) if only is None else row.id in only)
        )
        taken = [Claimed(row.id, row.attempts, row.item) for row in itertools.islice(waiting, max(0, free))]
        self._claims.update(claimed.id for claimed in taken)
        return taken

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Store what became of items and end their claims."""
        now = self._clock.now()
        for settlement in settlements:
            row = self._memory.rows.get(settlement.id)
            if row is not None and row.status in WAITING:
                _apply(row, settlement, now)
        self.release([settlement.id for settlement in settlements])

    def release(self, ids: Collection[int]) -> None:
        """Give items back untouched."""
        self._claims.difference_update(ids)

    async def wake(self, *, skip: Collection[int] = ()) -> int:
        """Make every waiting ``retry`` row due at once."""
        woken = [
            row
            for row in self._memory.rows.values()
            if row.status == "retry" and row.next_attempt_at is not None and row.id not in skip
        ]
        for row in woken:
            row.next_attempt_at = None
        return len(woken)

    async def next_due(self) -> datetime | None:
        """Return when the earliest unclaimed row that waits for its time becomes due."""
        return min(
            (
                row.next_attempt_at
                for row in self._memory.rows.values()
                if row.status in WAITING and row.next_attempt_at is not None and row.id not in self._claims
            ),
            default=None,
        )

    async def note_work(self, work: Work) -> None:
        """Store what is in work."""
        self._memory.work = work

    async def unfinished_work(self) -> Work:
        """Return what was stored last."""
        return self._memory.work

    async def counts(self) -> Counts:
        """Return how many rows wait or failed."""
        states = [row.status for row in self._memory.rows.values()]
        return Counts(*(states.count(status) for status in ("pending", "retry", "failed", "discarded")))

    async def oldest(self) -> datetime | None:
        """Return when the oldest row that still waits was queued."""
        return min((row.created_at for row in self._memory.rows.values() if row.status in WAITING), default=None)

    async def entries(self, status: Status, *, limit: int = 100, after_id: int = 0) -> list[Entry]:
        """Return rows of one state, ascending."""
        found = sorted((row for row in self._memory.rows.values() if row.status == status), key=lambda row: row.id)
        wanted = (row for row in found if row.id > after_id)
        return [
            Entry(
                id=row.id,
                item_id=row.id,
                status=row.status,
                attempts=row.attempts,
                error=row.error,
                created_at=row.created_at,
                last_attempt_at=row.last_attempt_at,
                next_attempt_at=row.next_attempt_at,
                delivered_at=row.delivered_at,
            )
            for row in itertools.islice(wanted, min(limit, LIST_MAX))
        ]

    async def replay(self, ids: Collection[int] | None = None) -> int:
        """Make failed and discarded rows (of these ids, or all that failed) pending again."""
        replayed = 0
        for row in self._memory.rows.values():
            if row.status == "failed" if ids is None else row.id in ids and row.status in {"failed", "discarded"}:
                row.status, row.attempts, row.next_attempt_at, row.error = "pending", 0, None, None
                replayed += 1
        return replayed

    async def discard(self, ids: Collection[int]) -> int:
        """Mark waiting or failed rows as thrown away by a person."""
        rows = [row for row in self._memory.rows.values() if row.id in ids and row.status in {*WAITING, "failed"}]
        for row in rows:
            row.status = "discarded"
        return len(rows)


def _is_due(row: Row[T], now: datetime) -> bool:
    return row.next_attempt_at is None or row.next_attempt_at <= now


def _apply(row: Row[T], settlement: Settlement, now: datetime) -> None:
    row.last_attempt_at = now
    if isinstance(settlement, Done):
        row.status, row.delivered_at, row.error = "delivered", now, None
        return
    row.error = settlement.error[:ERROR_CHARACTERS_MAX]
    if isinstance(settlement, Again):
        row.status, row.next_attempt_at = "retry", settlement.due
        row.attempts += 1
    else:
        row.status = "failed"
        row.attempts += settlement.counts
