"""Works that end together, also one that swallows its first cancellation."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import anyio
import pytest

from stormjay.ground.clock import ManualClock
from stormjay.ground.until_first import until_first

pytestmark = pytest.mark.anyio
CLOCK = ManualClock(datetime(2026, 8, 6, tzinfo=UTC))


async def deaf(swallowed: list[int], times: int = 1) -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.append(1)
            if len(swallowed) > times:
                raise


async def failing() -> None:
    raise ValueError("broken")


async def test_the_error_of_the_first_ends_all_even_one_that_swallows_a_cancellation() -> None:
    swallowed: list[int] = []
    with anyio.fail_after(30), pytest.raises(ValueError, match="broken"):
        await until_first(CLOCK, deaf(swallowed), failing(), insist=True)
    assert len(swallowed) == 2


async def test_a_cancellation_ends_all_and_is_announced_before() -> None:
    order: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            order.append("ended")

    task = asyncio.ensure_future(until_first(CLOCK, work(), ending=lambda: order.append("ending")))
    with anyio.fail_after(30):
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert order == ["ending", "ended"]
