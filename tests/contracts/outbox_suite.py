"""What every outbox must do, as checks that take a bench of ``outbox_adapters.py``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from tests.contracts.outbox_adapters import CLAIMS_MAX, START, Bench

from stormjay.ground.outbox.port import Again, Counts, Done, Final, Settlement, Work


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
