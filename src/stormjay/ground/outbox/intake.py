"""Takes items from many producers and stores them in groups: each ``put`` returns after the commit that holds it.

While one group is being committed the next one gathers; nothing waits for a number or a timer. A burst of any size
waits for at most two commits, and all that came together are handed to one call of ``store``.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from stormjay.errors import StoreUnavailable
from stormjay.ground.sqlite import WAITING_MAX, Database

V = TypeVar("V")
Store = Callable[[sqlite3.Connection, Sequence[V]], None]
"""Stores values in their order, all or none; runs in the writer's thread inside its transaction."""


class Intake(Generic[V]):
    """One place where items come in; it needs no starting and no stopping."""

    def __init__(self, database: Database, store: Store[V], *, waiting_max: int = WAITING_MAX) -> None:
        self._database = database
        self._store = store
        self._waiting_max = waiting_max
        self._waiting: list[tuple[V, asyncio.Future[None]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def put(self, value: V) -> None:
        """Store one item; it is on disk when this returns.

        A value that ``store`` refuses fails alone: its group is then stored one by one.

        Raises:
            StoreUnavailable: It was not stored: disk full, I/O error, or ``waiting_max`` wait already.
            Exception: Whatever ``store`` raised for this value.
        """
        if len(self._waiting) >= self._waiting_max:
            raise StoreUnavailable(f"more than {self._waiting_max} items wait for {self._database.path.name}")
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((value, future))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit())
        await future

    async def _commit(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                await self._commit_group(group)
        finally:
            self._committing = None

    async def _commit_group(self, group: list[tuple[V, asyncio.Future[None]]]) -> None:
        values = [value for value, _ in group]
        try:
            await self._database.write(lambda connection: self._store(connection, values))
        except Exception as error:  # noqa: BLE001 - it goes to those whose items these are
            if len(group) > 1 and not isinstance(error, StoreUnavailable):
                for one in group:
                    await self._commit_group([one])
                return
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException:
            for _, future in group:
                future.cancel()
            raise
        for _, future in group:
            if not future.done():
                future.set_result(None)
