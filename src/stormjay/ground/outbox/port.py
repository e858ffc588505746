"""Durable items on their way to a far side: claimed, then settled or given back.

What survives what, in every adapter that is on disk:

* ``claim`` writes nothing: after a kill every claimed item is due again at once, its counts as they were.
* ``settle`` is one transaction. What it has returned from is kept over kill and power cut; when it raises, none of the
  group is stored, and doing it again is harmless.
* ``release`` forgets claims; nothing stored changes.
* ``note_work`` is stored when it returns. It names what is in work, so that a start after a kill knows the suspects.

Memory does not grow with the number of waiting items: at most ``claims_max`` are held at a time.
Times are compared as times, whichever of the old spellings a row carries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

T = TypeVar("T")

Order = Literal["oldest", "newest"]
Status = Literal["pending", "retry", "delivered", "failed", "discarded"]
ERROR_CHARACTERS_MAX = 500
"""``last_error`` is cut to this (seed weather 3.3)."""
LIST_MAX = 1_000
"""Most items that one listing returns."""


class Delivered(msgspec.Struct, frozen=True):
    """The far side has it.

    Attributes:
        duplicate: The far side had it before.
    """

    duplicate: bool = False


class Refused(msgspec.Struct, frozen=True):
    """The far side calls the item invalid and always would: final.

    Attributes:
        status: Status code of the answer, 0 when there is none.
        text: What becomes ``last_error``.
    """

    status: int
    text: str


class TryLater(msgspec.Struct, frozen=True):
    """The far side answered, but not with success: this item's failure until others fail too.

    Attributes:
        text: What becomes ``last_error``.
        retry_after_seconds: What the far side asked us to wait, or None.
    """

    text: str
    retry_after_seconds: float | None = None


class Unavailable(msgspec.Struct, frozen=True):
    """Nobody answered (no connection, time-out): the destination's failure, not the item's."""

    text: str


Outcome = Delivered | Refused | TryLater | Unavailable


class Claimed(msgspec.Struct, Generic[T], frozen=True):
    """An item that this process is working on.

    Attributes:
        id: Id of the queue row.
        attempts: Failed attempts counted so far.
        item: What the loader made of it, or None when what the row stands for no longer exists.
    """

    id: int
    attempts: int
    item: T | None


class Done(msgspec.Struct, frozen=True):
    """Settled: delivered."""

    id: int


class Again(msgspec.Struct, frozen=True):
    """Settled for now: one failed attempt more, due again at ``due``."""

    id: int
    due: datetime
    error: str


class Final(msgspec.Struct, frozen=True):
    """Settled: never tried again unless a person replays it."""

    id: int
    error: str
    counts: bool = True
    """Whether the attempt count goes up with it."""


Settlement = Done | Again | Final


@dataclass(frozen=True)
class Work:
    """What was in work, kept over a kill.

    Attributes:
        ids: Rows handed to the sender and not settled when this was written.
        suspects: Rows that an earlier process died with and that have not yet been tried alone.
        alone: The one row in work by itself, or None.
        deaths: How many times the process died with a row alone in work.
    """

    ids: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()
    alone: int | None = None
    deaths: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Counts:
    """How many rows are in each state that is not over, as of a moment ago (see ``Outbox.counts``)."""

    pending: int = 0
    retry: int = 0
    failed: int = 0
    discarded: int = 0

    @property
    def waiting(self) -> int:
        """Rows that will be sent."""
        return self.pending + self.retry


@dataclass(frozen=True)
class Entry:
    """One row for people.

    Attributes:
        id: Id of the queue row.
        item_id: Id of what it stands for (``reading_id``).
        status: Its state.
        attempts: Failed attempts.
        error: Last error, or None.
        created_at, last_attempt_at, next_attempt_at, delivered_at: Aware UTC, or None.
    """

    id: int
    item_id: int
    status: str
    attempts: int
    error: str | None
    created_at: datetime | None
    last_attempt_at: datetime | None
    next_attempt_at: datetime | None
    delivered_at: datetime | None


class Outbox(Protocol[T]):
    """One destination's queue; one process works on it at a time."""

    @property
    def destination(self) -> str:
        """Name of the far side, for metrics and logs."""
        ...

    @property
    def claims_max(self) -> int:
        """Most items that may be claimed at a time."""
        ...

    @property
    def claimed(self) -> int:
        """How many are claimed now."""
        ...

    async def claim(
        self,
        limit: int,
        *,
        order: Order = "oldest",
        skip: Collection[int] = (),
        only: Collection[int] | None = None,
    ) -> list[Claimed[T]]:
        """Claim due items: pending ones and those whose time has come, in the order of their ids.

        Args:
            limit: Most items; fewer when ``claims_max`` is near.
            order: Smallest ids first or greatest first.
            skip: Ids to leave out.
            only: Claim among these ids, due or not; None is all that are due.

        Raises:
            StoreUnavailable: The rows cannot be read; nothing was claimed.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Store what became of items and end their claims, all in one transaction.

        A row that is already over (delivered, failed, discarded) stays as it is.

        Raises:
            StoreUnavailable: Nothing was stored; the claims stay.
        """
        ...

    def release(self, ids: Collection[int]) -> None:
        """Give items back untouched: no count, no time, no text moves (fault B13)."""
        ...

    async def wake(self, *, skip: Collection[int] = ()) -> int:
        """Make waiting ``retry`` rows due at once, but those of ``skip``: a bounded number of them.

        Returns:
            How many were; call again until it is 0.

        Raises:
            StoreUnavailable: None of this step was.
        """
        ...

    async def next_due(self) -> datetime | None:
        """Return when the earliest unclaimed row that waits for its time becomes due, or None."""
        ...

    async def note_work(self, work: Work) -> None:
        """Store what is in work, in place of what was stored before.

        Raises:
            StoreUnavailable: Nothing was stored.
        """
        ...

    async def unfinished_work(self) -> Work:
        """Return what was stored last; empty after an orderly stop."""
        ...

    async def counts(self) -> Counts:
        """Return how many rows wait or failed. Counted anew at most so often that counting costs little."""
        ...

    async def oldest(self) -> datetime | None:
        """Return when the oldest row that still waits was queued, or None; as fresh as ``counts``."""
        ...

    async def entries(self, status: Status, *, limit: int = 100, after_id: int = 0) -> list[Entry]:
        """Return rows of one state with ids above ``after_id``, ascending; at most ``LIST_MAX``."""
        ...

    async def replay(self, ids: Collection[int] | None = None) -> int:
        """Make failed and discarded rows (of these ids, or all that failed) pending again; return how many.

        Raises:
            StoreUnavailable: Some may have been replayed.
        """
        ...

    async def discard(self, ids: Collection[int]) -> int:
        """Mark waiting or failed rows as thrown away by a person; return how many.

        Raises:
            StoreUnavailable: Nothing was stored.
        """
        ...
