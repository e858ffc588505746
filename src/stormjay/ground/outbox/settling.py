"""From what became of items to what is stored, and the news that wakes a relay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TypeVar

from stormjay.ground.announcer import Announcer
from stormjay.ground.backoff import GiveUp, Schedule
from stormjay.ground.outbox.breaker import Judged
from stormjay.ground.outbox.port import Again, Claimed, Delivered, Done, Final, Settlement, TryLater

T = TypeVar("T")


class Settling:
    """Applies the schedule; it remembers how often the items in work have failed before."""

    def __init__(self, schedule: Schedule, *, remembered_max: int) -> None:
        self._schedule = schedule
        self._remembered_max = remembered_max
        self._attempts: dict[int, int] = {}

    def remember(self, group: Iterable[Claimed[T]]) -> None:
        """Note the attempts of items that are about to be sent; those noted longest ago are forgotten first."""
        for item in group:
            self._attempts[item.id] = item.attempts
        while len(self._attempts) > self._remembered_max:
            del self._attempts[next(iter(self._attempts))]

    def settlements(self, judged: Judged, in_work: Collection[int], now: datetime) -> list[Settlement]:
        """Return what is to be stored.

        Args:
            judged: What the breaker made of a group of outcomes.
            in_work: Items under way at this moment; an older failure of one of them is left to its next outcome.
            now: When the outcomes came.
        """
        settlements: list[Settlement] = []
        for item_id, outcome in judged.over:
            settlements.append(Done(item_id) if isinstance(outcome, Delivered) else Final(item_id, outcome.text))
        for item_id, failure in judged.own:
            if item_id in in_work:
                continue
            asked = failure.retry_after_seconds if isinstance(failure, TryLater) else None
            decision = self._schedule.after_failure(self._attempts.get(item_id, 0) + 1, now, asked)
            if isinstance(decision, GiveUp):
                settlements.append(Final(item_id, failure.text))
            else:
                settlements.append(Again(item_id, decision.due, failure.text))
        for settlement in settlements:
            self._attempts.pop(settlement.id, None)
        return settlements


@asynccontextmanager
async def waking(event: asyncio.Event, announcer: Announcer, topic: str) -> AsyncIterator[None]:
    """Set ``event`` at each announcement of ``topic`` for the length of the block; an empty topic is none."""
    if not topic:
        yield
        return
    async with announcer.listen() as heard:

        async def listen() -> None:
            while True:
                if (await heard.get()).topic == topic:
                    event.set()

        listening = asyncio.create_task(listen())
        try:
            yield
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
