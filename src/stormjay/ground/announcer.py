"""Tells whoever listens in this process that something happened, without ever waiting for them.

Used for live pages and MQTT states. An announcement is a hint, never the record: a listener that is too slow loses
the oldest ones and is told how many, and reads the truth from the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

WAITING_MAX = 256
"""Announcements that may wait for one listener; older ones are dropped and counted."""


@dataclass(frozen=True)
class Announcement:
    """What happened: a topic such as ``reading`` or ``delivered``, and a JSON-able body."""

    topic: str
    body: dict[str, Any]


class Announcer:
    """Fan-out to any number of listeners, each with its own bounded queue."""

    def __init__(self, *, listeners_max: int = 100) -> None:
        self.dropped = 0
        """Announcements that slow listeners lost."""
        self._listeners_max = listeners_max
        self._listeners: set[asyncio.Queue[Announcement]] = set()

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    def announce(self, topic: str, **body: Any) -> None:  # noqa: ANN401 - any JSON value
        """Tell every listener; must be called on the event loop's thread."""
        for waiting in self._listeners:
            if waiting.full():
                waiting.get_nowait()
                self.dropped += 1
            waiting.put_nowait(Announcement(topic, body))

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[asyncio.Queue[Announcement]]:
        """Give a queue that fills from now on, until the block ends.

        Raises:
            OverflowError: When as many listen as are allowed.
        """
        if len(self._listeners) >= self._listeners_max:
            raise OverflowError(f"more than {self._listeners_max} listeners")
        waiting: asyncio.Queue[Announcement] = asyncio.Queue(WAITING_MAX)
        self._listeners.add(waiting)
        try:
            yield waiting
        finally:
            self._listeners.discard(waiting)
