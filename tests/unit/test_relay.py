"""The relay delivers everything once the far side takes it, and never blames an item for an outage."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.far_side import START, Bench, Silence, running

from stormjay.ground.backoff import dead_letter_after, spaced
from stormjay.ground.outbox.memory import MemoryOutbox
from stormjay.ground.outbox.policy import RelayPolicy
from stormjay.ground.outbox.port import (
    Delivered,
    Refused,
    TryLater,
    Unavailable,
    Work,
)
from stormjay.ground.outbox.report import ATTEMPTS, DOWN, FAILED, OLDEST_AGE, WAITING

pytestmark = pytest.mark.anyio

BUSY = TryLater("AWS API HTTP 503: busy")
SILENT = Unavailable("AWS API timeout")


async def test_everything_arrives_once_in_order() -> None:
    bench = Bench(RelayPolicy(in_flight_max=1))
    bench.add(*"abcdef")
    bench.far.batch_max = 2
    await bench.relay().drain()
    assert bench.far.sent == list("abcdef")
    assert set(bench.states().values()) == {("delivered", 0)}
    assert bench.statistics.value(ATTEMPTS, destination="memory", outcome="delivered") == 6


async def test_newest_first() -> None:
    bench = Bench(RelayPolicy(in_flight_max=1, order="newest"))
    bench.add(*"abc")
    await bench.relay().drain()
    assert bench.far.sent == list("cba")


async def test_b9_a_refused_item_ends_and_does_not_hold_up_the_others() -> None:
    bench = Bench()
    bench.add(*"abc")
    bench.far.answer = lambda item: Refused(400, "AWS API HTTP 400: no") if item == "a" else Delivered()
    relay = bench.relay()
    await relay.drain()
    await bench.clock.advance(7 * 86_400)
    await relay.drain()
    assert bench.far.sent.count("a") == 1
    assert bench.states() == {"a": ("failed", 1), "b": ("delivered", 0), "c": ("delivered", 0)}
    assert bench.statistics.value(FAILED, destination="memory") == 1


async def test_a_lone_503_follows_the_schedule_of_the_seed() -> None:
    bench = Bench()
    bench.add("a", "b")
    bench.far.answer = lambda item: BUSY if item == "a" else Delivered()
    relay = bench.relay()
    times = []
    for _ in range(3 * 3600):
        before = bench.far.sent.count("a")
        await relay.drain()
        if bench.far.sent.count("a") > before:
            times.append((bench.clock.now() - START).total_seconds())
        due = bench.rows.rows[1].next_attempt_at
        assert due is not None
        if len(times) == 6:
            break
        await bench.clock.advance((due - bench.clock.now()).total_seconds(), turns=1)
    assert times == [0, 30, 150, 750, 2550, 4350]
    assert bench.states() == {"a": ("retry", 6), "b": ("delivered", 0)}


async def test_b11_an_outage_makes_few_requests_moves_no_count_and_ends_at_once() -> None:
    bench = Bench(RelayPolicy(poll_seconds=600, heartbeat_seconds=600))
    bench.add(*(f"item {number}" for number in range(200)))
    up_at = START + timedelta(hours=12)
    bench.far.answer = lambda _: Delivered() if bench.clock.now() >= up_at else SILENT
    relay = bench.relay()
    async with running(relay.run()):
        await bench.clock.advance(12 * 3600 - 1)
        assert set(bench.states().values()) == {("pending", 0)}
        assert len(bench.far.sent) < 32 + 12 * 3600 / 48 + 10, "a probe each minute, spread by a fifth"
        assert bench.statistics.value(DOWN, destination="memory") == 1
        assert relay.status().down
        await bench.clock.advance(61, turns=200)
        assert set(bench.states().values()) == {("delivered", 0)}
    assert len(bench.far.got) == len(set(bench.far.got)) == 200
    assert bench.statistics.value(DOWN, destination="memory") == 0
    assert relay.status().reason == ""


async def test_waiting_rows_become_due_when_the_far_side_comes_back() -> None:
    bench = Bench()
    bench.add("slow")
    bench.far.answer = lambda _: BUSY
    relay = bench.relay()
    for seconds in (0, 30, 120, 600):
        await bench.clock.advance(seconds)
        await relay.drain()
    assert bench.states() == {"slow": ("retry", 4)}
    bench.far.answer = lambda _: SILENT
    bench.add("a")
    await relay.drain()
    assert relay.status().down
    bench.far.answer = lambda _: Delivered()
    await bench.clock.advance(5)
    await relay.drain()
    assert bench.states() == {"slow": ("delivered", 4), "a": ("delivered", 0)}, "no half hour more"


async def test_an_item_nobody_answers_for_backs_off_alone() -> None:
    bench = Bench()
    bench.add("poison", *(f"item {number}" for number in range(5)))
    bench.far.answer = lambda item: SILENT if item == "poison" else Delivered()
    relay = bench.relay()
    for _ in range(10):
        await relay.drain()
        await bench.clock.advance(5)
        bench.add("another")
    await relay.drain()
    states = bench.states()
    assert states.pop("poison")[0] == "retry"
    assert {status for status, _ in states.values()} == {"delivered"}


async def test_spacing_and_threshold_count_own_failures_only() -> None:
    bench = Bench(RelayPolicy(schedule=dead_letter_after(spaced(30), attempts=5)))
    bench.add("poison", "q")
    bench.far.answer = lambda item: TryLater("item error") if item == "poison" else Delivered()
    relay = bench.relay()
    times = []
    for second in range(0, 200, 5):
        before = bench.far.sent.count("poison")
        await relay.drain()
        if bench.far.sent.count("poison") > before:
            times.append(second)
        await bench.clock.advance(5)
    assert times == [0, 30, 60, 90, 120]
    assert bench.states() == {"poison": ("failed", 5), "q": ("delivered", 0)}


async def test_b13_a_stop_leaves_what_is_under_way_untouched() -> None:
    bench = Bench()
    bench.add(*"abc")
    bench.far = silence = Silence()  # type: ignore[assignment]  # any sender will do
    outbox = MemoryOutbox(bench.rows, clock=bench.clock)
    async with running(bench.relay(outbox).run()):
        await silence.asked.wait()
        assert outbox.claimed == 3
    assert set(bench.states().values()) == {("pending", 0)}
    assert all(row.last_attempt_at is None and row.error is None for row in bench.rows.rows.values())
    assert outbox.claimed == 0
    assert bench.rows.work == Work(), "nobody is a suspect after an orderly stop"


async def test_b10_the_heartbeat_is_fed_while_nobody_answers_and_while_it_waits() -> None:
    bench = Bench()
    bench.add(*"abc")
    bench.far = silence = Silence()  # type: ignore[assignment]  # any sender will do
    async with running(bench.relay().run()):
        await silence.asked.wait()
        beats = bench.beats
        await bench.clock.advance(100)
        assert bench.beats >= beats + 20
    idle = Bench()
    async with running(idle.relay().run()):
        await idle.clock.advance(100)
        assert idle.beats >= 20


async def test_new_items_are_sent_when_they_are_announced() -> None:
    bench = Bench(RelayPolicy(wake_topic="reading"))
    async with bench.announcer.listen() as heard, running(bench.relay().run()):
        await bench.clock.advance(0)
        bench.add("a")
        bench.announcer.announce("reading", reading_id=1)
        await bench.clock.advance(0)
        assert bench.far.got == ["a"]
        bodies = [heard.get_nowait() for _ in range(heard.qsize())]
        assert [one.body for one in bodies if one.topic == "delivery"] == [
            {"destination": "memory", "delivered": 1, "failed": 0, "retry": 0}
        ]


async def test_gauges_show_what_waits_and_for_how_long() -> None:
    bench = Bench()
    bench.add("a")
    bench.far.answer = lambda _: BUSY
    relay = bench.relay()
    await relay.drain()
    await bench.clock.advance(20)
    await relay.drain()
    assert bench.statistics.value(WAITING, destination="memory") == 1
    assert bench.statistics.value(OLDEST_AGE, destination="memory") == 20
