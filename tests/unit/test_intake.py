"""Many producers share commits; each learns what became of its own item."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from stormjay.errors import StoreUnavailable
from stormjay.ground.clock import ManualClock
from stormjay.ground.outbox.intake import Intake
from stormjay.ground.sqlite import Database, script

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _open(folder: Path) -> AsyncIterator[Database]:
    clock = ManualClock(datetime(2026, 3, 18, tzinfo=UTC))
    database = await Database.open(folder / "in.db", [script("t", "CREATE TABLE t (v INTEGER UNIQUE)")], clock=clock)
    try:
        yield database
    finally:
        await database.close()


def _store(connection: sqlite3.Connection, values: Sequence[int]) -> None:
    connection.executemany("INSERT INTO t (v) VALUES (?)", [(value,) for value in values])


async def _stored(database: Database) -> list[int]:
    return await database.read(lambda connection: [row[0] for row in connection.execute("SELECT v FROM t ORDER BY v")])


async def test_a_burst_shares_few_commits(tmp_path: Path) -> None:
    async with _open(tmp_path) as database:
        intake = Intake(database, _store)
        before = database.commits
        await asyncio.gather(*(intake.put(value) for value in range(500)))
        assert await _stored(database) == list(range(500))
        assert database.commits - before <= 2
        await intake.put(500)
        assert len(await _stored(database)) == 501


async def test_a_value_that_is_refused_fails_alone(tmp_path: Path) -> None:
    async with _open(tmp_path) as database:
        intake = Intake(database, _store)
        results = await asyncio.gather(*(intake.put(value) for value in (1, 2, 2, 3)), return_exceptions=True)
        assert [type(result) for result in results] == [type(None), type(None), sqlite3.IntegrityError, type(None)]
        assert await _stored(database) == [1, 2, 3]


async def test_too_many_waiting_or_a_closed_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with _open(tmp_path) as database:
        intake = Intake(database, _store, waiting_max=2)
        results = await asyncio.gather(*(intake.put(value) for value in range(4)), return_exceptions=True)
        assert sum(isinstance(result, StoreUnavailable) for result in results) == 2
    with pytest.raises(StoreUnavailable, match="closed"):
        await intake.put(9)


async def test_a_producer_that_gives_up_does_not_harm_the_others(tmp_path: Path) -> None:
    async with _open(tmp_path) as database:
        intake = Intake(database, _store)
        tasks = [asyncio.create_task(intake.put(value)) for value in range(3)]
        await anyio.lowlevel.checkpoint()
        tasks[1].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[1], asyncio.CancelledError)
        assert await _stored(database) == [0, 1, 2], "it was on its way already"
