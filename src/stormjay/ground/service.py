"""One process of named parts: start them, watch them, stop them in order, tell systemd.

A part is anything with ``async def run()`` that works until it is cancelled. Parts stand in the order in which they
stop: sources first, then what forwards, the web last. At a signal each is cancelled in turn and given a bounded time; a
part that does not end in it is left behind and named. When a part ends by itself, with or without an error, the others
are stopped and the process ends with a code that says so.

The watchdog is fed only while every part that beats has beaten recently, so that a hanging loop gets the process
restarted; a part beats from the loop that does its work.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from stormjay.errors import StormjayError
from stormjay.ground.clock import Clock
from stormjay.ground.systemd import Notifier

EXIT_OK = 0
EXIT_CRASHED = 1
STOP_SECONDS_MAX = 10.0
"""How long one part may take to end before the next one's turn."""
STATUS_EVERY_SECONDS = 30.0
EXIT_FORCED = 130


class Runnable(Protocol):
    """What a part must have."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...


@dataclass(frozen=True)
class Part:
    """A part under its name; ``stop_seconds_max`` bounds its orderly end."""

    name: str
    runnable: Runnable
    stop_seconds_max: float = STOP_SECONDS_MAX


@dataclass
class Heartbeats:
    """When each working loop was last seen at work.

    Attributes:
        clock: Counts the seconds between beats.
    """

    clock: Clock
    _last: dict[str, float] = field(default_factory=dict)
    _limits: dict[str, float] = field(default_factory=dict)

    def register(self, name: str, *, silent_seconds_max: float = 60.0) -> Callable[[], None]:
        """Return what the loop called ``name`` must call at least that often; it counts as alive from now."""
        self._limits[name] = silent_seconds_max
        self._last[name] = self.clock.monotonic()

        def beat() -> None:
            self._last[name] = self.clock.monotonic()

        return beat

    def forget(self, name: str) -> None:
        """Expect nothing more from a loop that has ended in order."""
        self._last.pop(name, None)
        self._limits.pop(name, None)

    def hanging(self) -> list[str]:
        """Return the loops that have been silent for too long, by name."""
        now = self.clock.monotonic()
        return sorted(name for name, last in self._last.items() if now - last > self._limits[name])


class Service:
    """The parts of one process, from start to exit code."""

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        clock: Clock,
        notifier: Notifier,
        heartbeats: Heartbeats,
        status: Callable[[], str] = lambda: "running",
        ready: Callable[[], Awaitable[None]] | None = None,
        abandon: Callable[[int], object] = os._exit,
    ) -> None:
        """Take the parts in the order in which they stop.

        Args:
            parts: Sources first, the web last. They start in reverse, so that what receives is there before what sends.
            clock: Times the watchdog and the stops.
            notifier: Tells systemd.
            heartbeats: The registry that the parts' loops beat on.
            status: One line for systemd, asked now and then.
            ready: Returns when the parts can take data (the web listens); systemd hears of it then.
            abandon: Ends the process at once, with the exit code: when a part does not end in its time (what it had
                not committed is still with its source) and at a second signal.
        """
        self._parts = tuple(parts)
        self._clock = clock
        self._notifier = notifier
        self._heartbeats = heartbeats
        self._status = status
        self._ready = ready if ready is not None else _at_once
        self._abandon = abandon
        self._stop = asyncio.Event()
        self._log = structlog.get_logger(__name__)
        self.failed_part: str | None = None
        """The part that ended by itself, or None."""
        self.left_behind: list[str] = []
        """Parts that did not end in their time."""

    def stop(self) -> None:
        """Ask for an orderly stop; may be called more than once, on the loop's thread."""
        self._stop.set()

    async def run(self) -> int:
        """Run until a signal, ``stop`` or the end of a part; return the process's exit code."""
        with _signals(self._on_signal):
            tasks = {part.name: asyncio.create_task(part.runnable.run(), name=part.name) for part in self._parts[::-1]}
            keeper = asyncio.create_task(self._keep(), name="service.watchdog")
            stopping = asyncio.create_task(self._stop.wait(), name="service.stop")
            announcing = asyncio.create_task(self._announce(), name="service.ready")
            helpers = [keeper, stopping, announcing]
            try:
                await asyncio.wait([keeper, stopping, *tasks.values()], return_when=asyncio.FIRST_COMPLETED)
                self._note_crash({**tasks, "service.watchdog": keeper})
            finally:
                self._notifier.stopping("stopping")
                announcing.cancel()
                await self._stop_in_order(tasks)
                for task in helpers:
                    task.cancel()
                await asyncio.gather(*helpers, return_exceptions=True)
        self._log.info("service_stop", failed_part=self.failed_part, left_behind=self.left_behind)
        code = EXIT_CRASHED if self.failed_part is not None else EXIT_OK
        if self.left_behind:
            self._abandon(code or EXIT_CRASHED)
        return code

    async def _announce(self) -> None:
        await self._clock.sleep(0)  # every part gets its first turn
        await self._ready()
        self._notifier.ready(self._status())
        self._log.info("service_start", parts=[part.name for part in self._parts])

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stop.is_set():  # asked twice: somebody is in a hurry, and what is committed is safe
            self._log.warning("shutdown_forced", signal=number.name)
            self._abandon(EXIT_FORCED)
        self._stop.set()
        self._log.info("shutdown_requested", signal=number.name)

    def _note_crash(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        name = next((name for name, task in tasks.items() if task.done()), None)
        if name is None:
            return
        self.failed_part = name
        error = None if tasks[name].cancelled() else tasks[name].exception()
        self._log.error(
            "service.part_ended",
            part=name,
            error="it ended by itself" if error is None else f"{type(error).__name__}: {error}",
            next_step=getattr(error, "next_step", ""),
            exc_info=None if error is None or isinstance(error, StormjayError) else error,
        )

    async def _stop_in_order(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        for part in self._parts:
            task = tasks[part.name]
            task.cancel()
            ended = await self._ended_in_time(task, part.stop_seconds_max)
            self._heartbeats.forget(part.name)
            if not ended:
                self.left_behind.append(part.name)
                self._log.error("service.part_left_behind", part=part.name, seconds=part.stop_seconds_max)
            elif not task.cancelled() and task.exception() is not None and part.name != self.failed_part:
                self._log.error("service.part_failed_to_stop", part=part.name, error=repr(task.exception()))

    async def _ended_in_time(self, task: asyncio.Task[None], seconds: float) -> bool:
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait([task, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        return task.done()

    async def _keep(self) -> None:
        """Feed the watchdog at half its time and refresh the status, as long as every loop is seen at work."""
        watchdog = self._notifier.watchdog_seconds
        pause = STATUS_EVERY_SECONDS if watchdog is None else max(0.05, min(watchdog / 2, STATUS_EVERY_SECONDS))
        while True:
            hanging = self._heartbeats.hanging()
            if hanging:
                self._log.error("service.loop_hangs", loops=hanging)
                self._notifier.status(f"no sign of life from {', '.join(hanging)}")
            else:
                self._notifier.alive()
                self._notifier.status(self._status())
            await self._clock.sleep(pause)


async def _at_once() -> None:
    """Be ready after the parts' first turn."""


@contextlib.contextmanager
def _signals(handler: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call ``handler`` for SIGINT and SIGTERM inside the block; outside the main thread, or where it cannot, never."""
    loop = asyncio.get_running_loop()
    taken: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, handler, number)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
