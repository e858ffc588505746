"""Where packets wait between the thread that hears them and the listener: bounded, counted, watched for silence."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress

import structlog

from stormjay.errors import LinkLost
from stormjay.ground.clock import Clock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.radio.options import DROPPED, LINKS_LOST, MALFORMED, RadioOptions
from stormjay.weather.radio.port import MeshPacket

_log = structlog.get_logger(__name__)


class Inbox:
    """The packets of one link. Any thread may put in; the event loop takes out.

    Packets that were heard before the link was lost are still handed out; then the loss is raised.

    Attributes:
        name: The radio's, for logs.
    """

    def __init__(self, *, name: str, clock: Clock, statistics: Statistics, options: RadioOptions) -> None:
        self.name = name
        self._clock = clock
        self._statistics = statistics
        self._silence_seconds_max = options.silence_seconds_max
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.Queue[MeshPacket] = queue.Queue(options.packets_waiting_max)
        self._news = asyncio.Event()
        self._lock = threading.Lock()
        self._wake_on_its_way = False
        self._uncounted_dropped = 0
        self._uncounted_malformed: Counter[str] = Counter()
        self._loss: LinkLost | None = None
        self._active_at = clock.monotonic()

    def offer(self, packet: MeshPacket) -> None:
        """Put a packet in, or count it as dropped when too many wait. Any thread."""
        self._active_at = self._clock.monotonic()
        with self._lock:
            try:
                self._waiting.put_nowait(packet)
            except queue.Full:
                self._uncounted_dropped += 1
        self._wake()

    def dropped(self) -> None:
        """Count a packet that was lost on its way here for want of room. Any thread."""
        with self._lock:
            self._uncounted_dropped += 1
        self._wake()

    def malformed(self, reason: str) -> None:
        """Count something that was heard but not understood. Any thread."""
        self._active_at = self._clock.monotonic()
        with self._lock:
            self._uncounted_malformed[reason] += 1
        self._wake()

    def lose(self, error: LinkLost, *, reason: str) -> None:
        """End the link: what waits is handed out, then ``error`` is raised. The first loss counts. Any thread."""
        with self._lock:
            if self._loss is not None:
                return
            self._loss = error
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(lambda: self._statistics.add(LINKS_LOST, reason=reason))
        self._wake()

    def close(self) -> None:
        """End without a fault, because this side closes the link."""
        with self._lock:
            if self._loss is None:
                self._loss = LinkLost(f"{self.name} was closed")
        self._wake()

    @property
    def lost(self) -> LinkLost | None:
        """Why the link ended, or None while it lives."""
        return self._loss

    async def packets(self) -> AsyncIterator[MeshPacket]:
        """Yield packets in the order they were put in.

        Raises:
            LinkLost: Once nothing waits and the link has ended.
        """
        while True:
            self._news.clear()
            with suppress(queue.Empty):
                while True:
                    yield self._waiting.get_nowait()
            if self._loss is not None and self._waiting.empty():
                raise self._loss
            await self._news.wait()

    async def watch(self) -> None:
        """Lose the link once nothing was heard for as long as the watchdog allows; return at once when it is off."""
        limit = self._silence_seconds_max
        if limit is None:
            return
        while True:
            idle_seconds = self._clock.monotonic() - self._active_at
            if idle_seconds >= limit:
                break
            await self._clock.sleep(limit - idle_seconds)
        _log.warning("watchdog_timeout", device=self.name, idle_seconds=round(idle_seconds, 3), timeout_sec=limit)
        self.lose(
            LinkLost(
                f"{self.name} has been silent for {idle_seconds:.0f} s",
                next_step="Nothing, if the mesh is quiet; otherwise look whether the radio still runs.",
            ),
            reason="watchdog",
        )

    def _wake(self) -> None:
        # At most one wake-up is on its way, so a stalled loop does not collect them without bound.
        with self._lock:
            if self._wake_on_its_way:
                return
            self._wake_on_its_way = True
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._woken)

    def _woken(self) -> None:
        with self._lock:
            self._wake_on_its_way = False
            dropped, self._uncounted_dropped = self._uncounted_dropped, 0
            malformed, self._uncounted_malformed = self._uncounted_malformed, Counter()
        # Counting belongs to the loop's thread.
        if dropped:
            self._statistics.add(DROPPED, dropped)
            _log.error("radio.packets_dropped", device=self.name, dropped=dropped)
        for reason, times in malformed.items():
            self._statistics.add(MALFORMED, times, reason=reason)
        self._news.set()
