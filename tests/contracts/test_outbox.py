"""Every outbox keeps the promises of its port; a broken one is found out; the SQLite one reads old files."""
# ruff: noqa: S608 - the table's name is a constant

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

import pytest
from tests.contracts import outbox_adapters as adapters
from tests.contracts import outbox_suite as suite

from stormjay.ground.outbox.memory import MemoryOutbox
from stormjay.ground.outbox.port import Again, Claimed, Done, Order, Settlement
from stormjay.ground.outbox.sqlite import SqliteOutbox

pytestmark = pytest.mark.anyio
Check = Callable[[adapters.Bench], Awaitable[None]]


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", adapters.ADAPTERS)
async def test_contract(name: str, check: Check, tmp_path: Path) -> None:
    adapter = adapters.ADAPTERS[name]
    async with adapter.open(tmp_path) as bench:
        assert type(bench.outbox) is adapter.holds
        await check(bench)


class _ClaimsTwice(MemoryOutbox[str]):
    async def claim(
        self,
        limit: int,
        *,
        order: Order = "oldest",
        skip: Collection[int] = (),
        only: Collection[int] | None = None,
    ) -> list[Claimed[str]]:
        claimed = await super().claim(limit, order=order, skip=skip, only=only)
        self.release([item.id for item in claimed])
        return claimed


class _SettlesWhatIsOver(MemoryOutbox[str]):
    async def settle(self, settlements: Sequence[Settlement]) -> None:
        for settlement in settlements:
            row = self._memory.rows.get(settlement.id)
            if row is not None and row.status == "delivered":
                row.status = "pending"
        await super().settle(settlements)


class _CountsAnAttemptWhenClaiming(MemoryOutbox[str]):
    async def claim(
        self,
        limit: int,
        *,
        order: Order = "oldest",
        skip: Collection[int] = (),
        only: Collection[int] | None = None,
    ) -> list[Claimed[str]]:
        claimed = await super().claim(limit, order=order, skip=skip, only=only)
        for item in claimed:
            self._memory.rows[item.id].attempts += 1
        return claimed


@pytest.mark.parametrize("broken", [_ClaimsTwice, _SettlesWhatIsOver, _CountsAnAttemptWhenClaiming])
async def test_the_suite_rejects_a_broken_adapter(broken: type[MemoryOutbox[str]]) -> None:
    failed = 0
    for check in suite.CHECKS:
        bench = adapters.MemoryBench()
        bench.outbox = broken(bench.rows, clock=bench.clock, claims_max=adapters.CLAIMS_MAX)
        try:
            await check(bench)
        except (AssertionError, ValueError):
            failed += 1
    assert failed >= 1


SPELLINGS: dict[str | None, bool] = {
    None: True,
    "": True,
    "2026-03-18 09:00:00": True,
    "2026-03-18 09:00:01": False,
    "2026-03-18 23:59:59": False,  # as text it sorts before any ISO spelling of today
    "2026-03-18T08:59:59.999999+00:00": True,
    "2026-03-18T09:00:00+00:00": True,
    "2026-03-18T09:00:00Z": True,
    "2026-03-18T09:00:00.000001+00:00": False,
    "2026-03-18T09:00:00.5Z": False,
    "2026-03-17T23:00:00+00:00": True,
    "2026-03-17 23:00:00": True,
    "2026-03-19 00:00:00": False,
    "2026-03-19T00:00:00+00:00": False,
    "not a time": True,  # nothing may be stuck for ever
}
"""What may stand in ``next_attempt_at_utc``, and whether such a row is due at nine o'clock sharp."""


async def test_old_spellings_of_times_are_compared_as_times(tmp_path: Path) -> None:
    async with adapters.open_sqlite(tmp_path, claims_max=99) as bench:
        ids = await bench.add(len(SPELLINGS))
        for id_, text in zip(ids, SPELLINGS, strict=True):
            await _set(bench, "next_attempt_at_utc = ? WHERE id = ?", text, id_)
        due = [id_ for id_, is_due in zip(ids, SPELLINGS.values(), strict=True) if is_due]
        for status in ("pending", "retry"):
            await _set(bench, "status = ?", status)
            assert [item.id for item in await bench.outbox.claim(99)] == due
            assert await bench.outbox.next_due() is not None
            bench.outbox.release(ids)
            assert [item.id for item in await bench.outbox.claim(99, order="newest")] == due[::-1]
            bench.outbox.release(ids)


async def test_the_due_query_goes_along_the_index(tmp_path: Path) -> None:
    async with adapters.open_sqlite(tmp_path) as bench:
        await bench.add(3)
        plans: list[str] = []

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("ANALYZE")
            for tail in (
                "next_attempt_at_utc IS NULL ORDER BY id LIMIT 9",
                "next_attempt_at_utc BETWEEN '' AND '2026' ORDER BY next_attempt_at_utc, id LIMIT 9",
            ):
                query = f"EXPLAIN QUERY PLAN SELECT id FROM {adapters.TABLE} WHERE status = 'retry' AND {tail}"
                plans.extend(row["detail"] for row in connection.execute(query))

        await bench.database.write(work)
        assert len(plans) == 2, plans
        assert all("USING" in plan and "INDEX" in plan for plan in plans), plans


async def test_rows_are_written_in_the_spellings_of_the_seed(tmp_path: Path) -> None:
    async with adapters.open_sqlite(tmp_path) as bench:
        ids = await bench.add(2)
        await bench.outbox.claim(5)
        await bench.outbox.settle([Done(ids[0]), Again(ids[1], suite.due_in(bench, 30), "AWS API timeout")])
        rows = await bench.database.read(
            lambda connection: [tuple(row) for row in connection.execute(f"SELECT * FROM {adapters.TABLE} ORDER BY id")]
        )
        now = "2026-03-18 09:00:00"
        assert rows == [
            (ids[0], 1, "delivered", 0, None, now, now, None, now, now),
            (ids[1], 2, "retry", 1, "2026-03-18T09:00:30.000000+00:00", now, None, "AWS API timeout", now, now),
        ]


async def test_a_name_that_is_no_table_is_refused(tmp_path: Path) -> None:
    async with adapters.open_sqlite(tmp_path) as bench:
        with pytest.raises(ValueError, match="cannot be the name"):
            await SqliteOutbox.open(
                bench.database, "x; DROP TABLE items", adapters.load, destination="x", clock=bench.clock
            )


async def _set(bench: adapters.SqliteBench, assignments: str, *parameters: str | int | None) -> None:
    await bench.database.write(
        lambda connection: connection.execute(f"UPDATE {adapters.TABLE} SET {assignments}", parameters)
    )
