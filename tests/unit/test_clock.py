"""The clock that moves only when told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from stormjay.ground.clock import ManualClock, SystemClock

START = datetime(2026, 3, 18, 9, tzinfo=UTC)


@pytest.mark.anyio
async def test_sleepers_wake_in_the_order_of_their_times_and_may_sleep_again() -> None:
    clock = ManualClock(START)
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper("slow", 5)), asyncio.create_task(sleeper("quick", 2, 2, 2))]
    await clock.advance(10)
    await asyncio.gather(*tasks)
    assert woken == [("quick", 2), ("quick", 4), ("slow", 5), ("quick", 6)]
    assert clock.now() == START + timedelta(seconds=10)
    assert clock.waiters() == 0


@pytest.mark.anyio
async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock(START)
    task = asyncio.create_task(clock.sleep(5))
    await clock.advance(1)
    assert clock.waiters() == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.waiters() == 0
    await clock.advance(10)


def test_a_naive_start_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2026, 1, 1))  # noqa: DTZ001 - the naive start is what is tested


@pytest.mark.anyio
async def test_the_system_clock_is_utc_and_its_counter_never_goes_back() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(-1)
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() >= before
