"""Runs the blocking calls of vendor libraries beside the event loop, where a stuck one cannot hold the program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from stormjay.ground.clock import Clock

Result = TypeVar("Result")


def run_in_thread(work: Callable[[], Result], *, name: str) -> asyncio.Future[Result]:
    """Start ``work`` in a thread of its own and return its future.

    The thread is a daemon and not one of a pool: a call that never comes back neither keeps the process alive nor
    uses up a place. ``SystemExit`` from a library becomes a ``RuntimeError``: it must not end the program.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    # Somebody may have stopped waiting; asyncio must not complain that nobody looked.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # no error means that result is what work returned

    def run() -> None:
        result: Result | None = None
        error: BaseException | None = None
        try:
            result = work()
        except SystemExit as leaving:
            error = RuntimeError(f"a library wanted to end the program ({leaving.code})")
        except BaseException as raised:  # noqa: BLE001 - whoever awaits the future gets it
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


async def within(seconds: float, future: asyncio.Future[Result], *, clock: Clock) -> Result:
    """Wait for a future, but not longer than that by the given clock; the future itself is left alone.

    Raises:
        TimeoutError: It was not done in time.
    """
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((future, limit), return_when=asyncio.FIRST_COMPLETED)
    finally:
        limit.cancel()
    if not future.done():
        raise TimeoutError(f"not done within {seconds:g} s")
    return future.result()
