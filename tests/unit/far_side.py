"""A far side that answers by a script, and a relay around it, for tests of the relay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock, seeded_random
from stormjay.ground.outbox.memory import MemoryOutbox, MemoryRows
from stormjay.ground.outbox.policy import RelayPolicy
from stormjay.ground.outbox.port import Delivered, Outbox, Outcome
from stormjay.ground.outbox.relay import Relay
from stormjay.ground.stats.port import Statistics

START = datetime(2026, 3, 18, 9, tzinfo=UTC)


@dataclass
class FarSide:
    """A sender whose answers a test decides, item by item; ``sent`` holds every attempt in order."""

    answer: Callable[[str], Outcome] = lambda _: Delivered()
    batch_max: int = 1
    sent: list[str] = field(default_factory=list)
    got: list[str] = field(default_factory=list)

    async def send(self, items: Sequence[str]) -> Sequence[Outcome]:
        outcomes: list[Outcome] = []
        for item in items:
            self.sent.append(item)
            outcomes.append(self.answer(item))
            if isinstance(outcomes[-1], Delivered):
                self.got.append(item)
        return outcomes


@dataclass
class Bench:
    """Rows in memory, a far side, a clock, and relays made on them."""

    policy: RelayPolicy = field(default_factory=RelayPolicy)
    clock: ManualClock = field(default_factory=lambda: ManualClock(START))
    rows: MemoryRows[str] = field(default_factory=MemoryRows)
    far: FarSide = field(default_factory=FarSide)
    statistics: Statistics = field(default_factory=Statistics)
    announcer: Announcer = field(default_factory=Announcer)
    beats: int = 0

    def add(self, *items: str) -> None:
        for item in items:
            self.rows.add(item, self.clock.now())

    def beat(self) -> None:
        self.beats += 1

    def relay(self, outbox: Outbox[str] | None = None) -> Relay[str]:
        return Relay(
            outbox or MemoryOutbox(self.rows, clock=self.clock),
            self.far,
            self.policy,
            clock=self.clock,
            statistics=self.statistics,
            announcer=self.announcer,
            heartbeat=self.beat,
            randomness=seeded_random(1),
        )

    def states(self) -> dict[str | None, tuple[str, int]]:
        return {row.item: (row.status, row.attempts) for row in self.rows.rows.values()}


class Silence:
    """A sender that never answers."""

    batch_max = 2

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def send(self, items: Sequence[str]) -> Sequence[Outcome]:
        self.asked.set()
        await asyncio.get_running_loop().create_future()
        return [Delivered()] * len(items)


class running:  # noqa: N801 - reads as a word at its uses
    """Runs something beside a block and stops it at the end."""

    def __init__(self, work: object) -> None:
        self._work = work

    async def __aenter__(self) -> None:
        self._task = asyncio.ensure_future(self._work)  # type: ignore[call-overload]  # a coroutine
        await anyio.lowlevel.checkpoint()

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with anyio.fail_after(30), suppress(asyncio.CancelledError):
            await self._task
