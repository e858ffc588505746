"""Works that live and end together, where a task group is not safe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from stormjay.ground.clock import Clock


async def until_first(
    clock: Clock,
    *works: Coroutine[Any, Any, None],
    insist: bool = False,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Run works together until one ends or we are cancelled; then end all, and pass on the error of the one that ended.

    A task group cannot do it: before Python 3.12 ``asyncio.wait_for``, which client libraries wait with, swallows a
    cancellation that comes in the same turn as its result, and the group would wait for ever for a work that goes on.

    Args:
        clock: Gives turns.
        works: What runs.
        insist: Cancel again in each turn until all have ended; for works that have nothing to clean up.
        ending: Called before the works are cancelled, so that one which swallows that can still know.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        ending()
        for task in tasks:
            task.cancel()
        while insist and not all(task.done() for task in tasks):
            await clock.sleep(0)
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
