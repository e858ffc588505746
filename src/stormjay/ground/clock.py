"""The clock is a part you are given; nothing else in the product reads the time or sleeps.

``SystemClock`` is the machine's; ``ManualClock`` moves only when told and is what tests and simulations use.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall time in UTC, a steady counter, and waiting."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds; zero or less gives other tasks a turn."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the wall time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the system's steady counter, seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(max(0.0, seconds))


class ManualClock:
    """A clock that moves when ``advance`` is called, and wakes who waits in the order of their times.

    ``sleep`` blocks until somebody advances past its end. ``advance`` gives woken tasks a turn at each stop, so
    that a task which sleeps again inside the advanced span is woken again inside it.
    """

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError("a clock starts at an aware time")
        self._start = start.astimezone(UTC)
        self._elapsed = 0.0
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return start plus all advances."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced by that much."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self._elapsed + seconds, next(self._order), future))
        await future

    def set_back(self, seconds: float) -> None:
        """Set the wall time back, as a time server does; what counts steadily goes on."""
        self._start -= timedelta(seconds=seconds)

    def waiters(self) -> int:
        """Return how many sleepers there are (those already cancelled not counted)."""
        return sum(1 for _, _, future in self._waiting if not future.done())

    async def advance(self, seconds: float, *, turns: int = 20) -> None:
        """Move time forward, stopping at each sleeper's end; ``turns`` loop turns are given at each stop."""
        end = self._elapsed + seconds
        await self._give_turns(turns)
        while self._waiting and self._waiting[0][0] <= end:
            due, _, future = heapq.heappop(self._waiting)
            self._elapsed = max(self._elapsed, due)
            if not future.done():
                future.set_result(None)
                await self._give_turns(turns)
        self._elapsed = end
        await self._give_turns(turns)

    @staticmethod
    async def _give_turns(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)


class WallWatch:
    """Tells when the wall time was set back, which leaves what was planned by it waiting for far too long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = self._measured()

    def went_back(self) -> bool:
        """Tell whether it was set back by more than a minute since this was last asked."""
        before, self._ahead = self._ahead, self._measured()
        return self._ahead < before - WENT_BACK_SECONDS

    def _measured(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()


WENT_BACK_SECONDS = 60.0


def seeded_random(seed: int | None = None) -> random.Random:
    """Return a source of jitter that tests can seed; it keeps no secrets."""
    return random.Random(seed)  # noqa: S311 - spreads retries in time, not a secret
