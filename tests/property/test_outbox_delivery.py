"""Any schedule of answers, outages and kills delivers every item at least once, and never again once it is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.far_side import Bench

from stormjay.ground.outbox.memory import MemoryOutbox
from stormjay.ground.outbox.policy import RelayPolicy
from stormjay.ground.outbox.port import (
    Claimed,
    Delivered,
    Order,
    Outcome,
    Refused,
    Settlement,
    TryLater,
    Unavailable,
    Work,
)

ANSWERS: dict[str, Outcome] = {
    "ok": Delivered(),
    "again": Delivered(duplicate=True),
    "bad": Refused(422, "AWS API HTTP 422: no"),
    "busy": TryLater("AWS API HTTP 503: busy"),
    "wait": TryLater("AWS API HTTP 429: wait", 77),
    "silent": Unavailable("AWS API timeout"),
}


class Killed(BaseException):
    """Stands for the end of the process: nothing after it leaves a trace."""


@dataclass
class Life:
    """One life of the process: it ends at a step, or never.

    Attributes:
        steps_left: Steps until the kill; each call of the outbox that writes and each send is one.
        after: Whether the step that is killed still takes effect.
    """

    steps_left: int | None
    after: bool = False
    dead: bool = False

    def step(self) -> bool:
        """Return whether this step is the last and still takes effect; raise when it does not."""
        if self.dead:
            raise Killed
        if self.steps_left is None:
            return False
        self.steps_left -= 1
        if self.steps_left > 0:
            return False
        self.dead = True
        if not self.after:
            raise Killed
        return True


class MortalOutbox(MemoryOutbox[str]):
    """Dies where its life ends."""

    life: Life

    async def claim(
        self,
        limit: int,
        *,
        order: Order = "oldest",
        skip: Collection[int] = (),
        only: Collection[int] | None = None,
    ) -> list[Claimed[str]]:
        if self.life.dead:
            raise Killed
        return await super().claim(limit, order=order, skip=skip, only=only)

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        last = self.life.step()
        await super().settle(settlements)
        if last:
            raise Killed

    async def note_work(self, work: Work) -> None:
        last = self.life.step()
        await super().note_work(work)
        if last:
            raise Killed

    async def wake(self, *, skip: Collection[int] = ()) -> int:
        last = self.life.step()
        woken = await super().wake(skip=skip)
        if last:
            raise Killed
        return woken


@dataclass
class World:
    """Everything that outlives the process, and what is still to come."""

    bench: Bench
    plans: dict[str, list[str]]
    down: frozenset[int]
    refused: set[str]
    life: Life
    asked: int = 0

    def answer(self, item: str) -> Outcome:
        (row,) = [row for row in self.bench.rows.rows.values() if row.item == item]
        assert row.status in {"pending", "retry"}, f"{item} was sent although it is {row.status}"
        last = self.life.step()
        self.asked += 1
        plan = self.plans[item]
        word = "silent" if self.asked in self.down else plan.pop(0) if plan else "ok"
        outcome = ANSWERS[word]
        if isinstance(outcome, Refused):
            self.refused.add(item)
        if last:
            if isinstance(outcome, Delivered):
                self.bench.far.got.append(item)
            raise Killed
        return outcome


async def _live(world: World, life: Life, rounds: int) -> None:
    world.life = life
    outbox = MortalOutbox(world.bench.rows, clock=world.bench.clock, claims_max=5)
    outbox.life = life
    relay = world.bench.relay(outbox)
    with suppress(Killed):
        for _ in range(rounds):
            await relay.drain()
            await world.bench.clock.advance(450, turns=1)


@given(
    plans=st.lists(st.lists(st.sampled_from(sorted(ANSWERS)), max_size=4), min_size=1, max_size=7),
    down=st.frozensets(st.integers(1, 40), max_size=25),
    lives=st.lists(st.builds(Life, st.integers(1, 12), st.booleans()), max_size=5),
    batch_max=st.integers(1, 3),
    in_flight_max=st.integers(1, 3),
)
def test_at_least_once_and_never_after_it_is_settled(
    plans: list[list[str]], down: frozenset[int], lives: list[Life], batch_max: int, in_flight_max: int
) -> None:
    async def run() -> World:
        bench = Bench(RelayPolicy(in_flight_max=in_flight_max))
        names = [f"item {number}" for number in range(len(plans))]
        world = World(bench, dict(zip(names, plans, strict=True)), down, set(), Life(None))
        bench.far.answer, bench.far.batch_max = world.answer, batch_max
        bench.add(*names)
        for life in lives:
            await _live(world, Life(life.steps_left, life.after), rounds=4)
        await _live(world, Life(None), rounds=60)
        return world

    world = asyncio.run(run())
    for row in world.bench.rows.rows.values():
        assert row.item is not None
        if row.status == "delivered":
            assert row.item in world.bench.far.got
        else:
            crashed = (row.error or "").startswith("crashed") and len(lives) > 3
            assert row.status == "failed", f"{row.item} is still {row.status}: {row.error}"
            assert row.item in world.refused or crashed
    if not lives:
        got = world.bench.far.got
        assert len(got) == len(set(got)), "without a kill each arrives once"
