"""Every keyed store keeps the promises of its port; a broken one is found out; memory and SQLite agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts import keyed_suite as suite

from stormjay.errors import CallerMistake
from stormjay.ground.keyed.memory import MemoryKeyedStore
from stormjay.ground.keyed.port import Document, Key, KeyedStore, Page, TableSpec
from stormjay.ground.keyed.sqlite import migration

pytestmark = pytest.mark.anyio
Check = Callable[[KeyedStore], Awaitable[None]]


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", suite.ADAPTERS)
async def test_contract(name: str, check: Check, tmp_path: Path) -> None:
    adapter = suite.ADAPTERS[name]
    async with adapter.open(tmp_path) as store:
        assert type(store) is adapter.holds
        assert store.spec == suite.SPEC
        await check(store)


@pytest.mark.parametrize("name", [name for name, adapter in suite.ADAPTERS.items() if adapter.durable])
async def test_what_is_written_is_there_after_a_restart(name: str, tmp_path: Path) -> None:
    adapter = suite.ADAPTERS[name]
    async with adapter.open(tmp_path) as store:
        await suite.fill(store, 3)
    async with adapter.open(tmp_path) as store:
        assert await store.count("P") == 3


async def test_a_table_that_declares_a_name_twice_is_refused() -> None:
    for columns in ({"document": "TEXT"}, {"PK": "TEXT"}):
        spec = TableSpec("T", columns=columns)  # type: ignore[arg-type]  # the literal type is lost in the loop
        with pytest.raises(ValueError, match="declares a name twice"):
            migration(spec).apply(None)  # type: ignore[arg-type]  # refused before the connection is used


class _NoLastKeyWhenFull(MemoryKeyedStore):
    async def query(
        self,
        partition: str,
        low: str | None = None,
        high: str | None = None,
        *,
        limit: int,
        descending: bool = False,
        after: Key | None = None,
    ) -> Page:
        page = await super().query(partition, low, high, limit=limit, descending=descending, after=after)
        return replace(page, last_key=None) if await self.count(partition, low, high) == limit else page


class _ReversedRangeIsEmpty(MemoryKeyedStore):
    async def count(self, partition: str, low: str | None = None, high: str | None = None) -> int:
        return 0 if low and high and low > high else await super().count(partition, low, high)


class _EqualIsNotNewer(MemoryKeyedStore):
    async def put_if_newer(self, document: Document, attribute: str) -> bool:
        stored = await self.get(document["pk"], document["sk"])
        same = stored is not None and str(document.get(attribute)).encode() in stored
        return not same and await super().put_if_newer(document, attribute)


class _PicksNeighbours(MemoryKeyedStore):
    async def pick(self, partition: str, low: str | None, high: str | None, ranks: Sequence[int]) -> list[bytes]:
        return await super().pick(partition, low, high, [rank + (rank == 3) for rank in ranks])


class _Forgets(MemoryKeyedStore):
    async def put_if_absent(self, document: Document) -> bool:
        return bool(document)


@pytest.mark.parametrize(
    "broken", [_NoLastKeyWhenFull, _ReversedRangeIsEmpty, _EqualIsNotNewer, _PicksNeighbours, _Forgets]
)
async def test_the_suite_rejects_a_broken_adapter(broken: type[MemoryKeyedStore]) -> None:
    failed = 0
    for check in suite.CHECKS:
        try:
            await check(broken(suite.SPEC, page_bytes_max=suite.PAGE_BYTES_MAX))
        except (AssertionError, pytest.fail.Exception):
            failed += 1
    assert failed >= 1


_SORTS = st.sampled_from(["a", "b", "bb", "c~", "é", "1", "\U0001f327"])
_BOUND = st.none() | _SORTS
_PARTITIONS = st.sampled_from(["P", "Q"])
_DOCUMENTS = st.builds(
    lambda sort, partition, attributes: suite.doc(sort, partition, **attributes),
    _SORTS,
    _PARTITIONS,
    st.fixed_dictionaries(
        {"mark": st.integers(0, 99)},
        optional={"at": st.sampled_from(["1", "10", "2"]), "version": st.integers(0, 3), "level": st.floats(0, 2)},
    ),
)
_STEPS = st.one_of(
    st.tuples(st.just("put"), _DOCUMENTS),
    st.tuples(st.just("put_if_absent"), _DOCUMENTS),
    st.tuples(st.just("put_if_newer"), _DOCUMENTS, st.sampled_from(["at", "version", "level"])),
    st.tuples(st.just("update_if_version"), _DOCUMENTS, st.just("version"), st.none() | st.integers(0, 3)),
    st.tuples(st.just("delete"), _PARTITIONS, _SORTS),
    st.tuples(st.just("get"), _PARTITIONS, _SORTS),
    st.tuples(st.just("count"), _PARTITIONS, _BOUND, _BOUND),
    st.tuples(st.just("pick"), _PARTITIONS, _BOUND, _BOUND, st.lists(st.integers(0, 7), unique=True).map(sorted)),
    st.tuples(
        st.just("query"),
        _PARTITIONS,
        _BOUND,
        _BOUND,
        st.fixed_dictionaries(
            {"limit": st.integers(1, 4), "descending": st.booleans()},
            optional={"after": st.builds(Key, _PARTITIONS, _SORTS)},
        ),
    ),
)


async def _answer(store: KeyedStore, step: tuple[Any, ...]) -> object:
    name, *arguments = step
    named = arguments.pop() if name == "query" else {}
    try:
        return await getattr(store, name)(*arguments, **named)
    except CallerMistake as error:
        return type(error), error.code


def test_memory_and_sqlite_answer_alike(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        opened = suite.open_sqlite(tmp_path)
        sqlite = runner.run(opened.__aenter__())

        async def alike(steps: list[tuple[Any, ...]]) -> None:
            memory = MemoryKeyedStore(suite.SPEC)
            for partition in ("P", "Q"):
                for key in (await sqlite.query(partition, limit=99)).keys:
                    await sqlite.delete(*key)
            for step in steps:
                assert await _answer(memory, step) == await _answer(sqlite, step), step

        @given(steps=st.lists(_STEPS, max_size=25))
        def check(steps: list[tuple[Any, ...]]) -> None:
            runner.run(alike(steps))

        try:
            check()
        finally:
            runner.run(opened.__aexit__(None, None, None))
