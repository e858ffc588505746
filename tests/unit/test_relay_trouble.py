"""The relay in trouble: senders with faults, rows without items, a full disk, items that kill the process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from tests.unit.far_side import Bench, Silence, running

from stormjay.errors import StoreUnavailable
from stormjay.ground.outbox.memory import MemoryOutbox
from stormjay.ground.outbox.policy import RelayPolicy
from stormjay.ground.outbox.port import (
    Delivered,
    Outcome,
    Settlement,
    TryLater,
    Unavailable,
    Work,
)
from stormjay.ground.outbox.relay import GONE

pytestmark = pytest.mark.anyio

BUSY = TryLater("AWS API HTTP 503: busy")
SILENT = Unavailable("AWS API timeout")


async def test_a_sender_that_raises_or_miscounts_fails_its_items_only() -> None:
    bench = Bench(RelayPolicy(in_flight_max=1))
    bench.add("bug", "b")

    def answer(item: str) -> Outcome:
        if item == "bug":
            raise RuntimeError("cannot build a body")
        return Delivered()

    bench.far.answer = answer
    await bench.relay().drain()
    assert bench.states() == {"bug": ("retry", 1), "b": ("delivered", 0)}
    assert bench.rows.rows[1].error == "RuntimeError: cannot build a body"

    class Short(Silence):
        async def send(self, items: Sequence[str]) -> Sequence[Outcome]:
            return [Delivered()] * (len(items) - 1)

    other = Bench()
    other.add("a", "b")
    other.far = Short()  # type: ignore[assignment]  # any sender will do
    await other.relay().drain()
    assert set(other.states().values()) == {("retry", 1)}


async def test_a_row_whose_item_is_gone_ends_without_a_request() -> None:
    bench = Bench()
    bench.add("a", "b")
    bench.rows.rows[1].item = None
    await bench.relay().drain()
    assert bench.far.sent == ["b"]
    assert (bench.rows.rows[1].status, bench.rows.rows[1].error) == ("failed", GONE)


class _FullDisk(MemoryOutbox[str]):
    full = True

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        if self.full:
            raise StoreUnavailable("disk full")
        await super().settle(settlements)


async def test_answers_wait_for_a_disk_that_refuses_and_nothing_more_is_sent() -> None:
    bench = Bench(RelayPolicy(in_flight_max=1))
    bench.add(*"abcd")
    outbox = _FullDisk(bench.rows, clock=bench.clock)
    async with running(bench.relay(outbox).run()):
        await bench.clock.advance(60)
        assert bench.far.sent == ["a", "b"], "one more was under way when the disk was found full"
        assert bench.beats >= 12
        outbox.full = False
        await bench.clock.advance(10)
    assert bench.far.sent == list("abcd"), "each once"
    assert set(bench.states().values()) == {("delivered", 0)}
    outbox.full = True
    bench.add("e")
    with pytest.raises(StoreUnavailable):
        await bench.relay(outbox).drain()


async def test_suspects_of_a_kill_run_one_at_a_time_and_others_wait() -> None:
    bench = Bench()
    bench.add(*"abcd")
    bench.far.batch_max = 4
    bench.rows.work = Work(ids=(2, 3, 99))
    notes: list[Work] = []

    class Noted(MemoryOutbox[str]):
        async def note_work(self, work: Work) -> None:
            notes.append(work)
            await super().note_work(work)

    await bench.relay(Noted(bench.rows, clock=bench.clock)).drain()
    assert bench.far.sent == ["b", "c", "a", "d"]
    assert [note.alone for note in notes if note.alone] == [2, 3]
    assert [note.ids for note in notes if note.ids] == [(1, 4)]


async def test_a_suspect_that_came_through_is_not_to_blame_for_kills_while_it_waits() -> None:
    bench = Bench()
    bench.add("a")
    bench.far.answer = lambda _: BUSY
    bench.rows.work = Work(ids=(1,))
    for _ in range(5):
        async with running(bench.relay(MemoryOutbox(bench.rows, clock=bench.clock)).run()):
            await bench.clock.advance(20)
            left = bench.rows.work  # what a kill at this moment leaves behind
        bench.rows.work = left
    assert left == Work()
    assert bench.states() == {"a": ("retry", 3)}, "tried when it was due, and never given up"


async def test_a_clock_that_was_a_year_ahead_keeps_no_row_for_a_year() -> None:
    bench = Bench()
    await bench.clock.advance(365 * 86_400)
    bench.add("a")
    bench.far.answer = lambda _: BUSY
    async with running(bench.relay().run()):
        await bench.clock.advance(1)
        bench.far.answer = lambda _: Delivered()
        bench.clock.set_back(365 * 86_400)
        await bench.clock.advance(10)
    assert bench.states() == {"a": ("delivered", 1)}


class _Killed(BaseException):
    """Stands for the end of the process."""


async def test_an_item_that_kills_the_process_three_times_alone_is_given_up_as_crashed() -> None:
    bench = Bench()
    bench.add("a", "killer", "c")

    def answer(item: str) -> Outcome:
        if item == "killer":
            raise _Killed
        return Delivered()

    bench.far.answer = answer

    class Dead(MemoryOutbox[str]):
        """What is written after the kill is not written."""

        async def note_work(self, work: Work) -> None:
            if "killer" not in bench.far.sent[starts:]:
                await super().note_work(work)

        async def settle(self, settlements: Sequence[Settlement]) -> None:
            if "killer" not in bench.far.sent[starts:]:
                await super().settle(settlements)

    for _ in range(4):
        starts = len(bench.far.sent)
        with suppress(_Killed):
            await bench.relay(Dead(bench.rows, clock=bench.clock)).drain()
    starts = len(bench.far.sent)
    await bench.relay(Dead(bench.rows, clock=bench.clock)).drain()
    assert bench.far.sent.count("killer") == 4, "once in company, three times alone"
    assert {item: status for item, (status, _) in bench.states().items()} == {
        "a": "delivered",
        "killer": "failed",
        "c": "delivered",
    }
    assert (bench.rows.rows[2].error or "").startswith("crashed")
