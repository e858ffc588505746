"""What every keyed store must do, as checks that take an open, empty store; and the registry of adapters.

To add an adapter, add an entry to ``ADAPTERS``. Page bytes are small so that the byte bound can be met.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stormjay.errors import BadRequest, TooLarge
from stormjay.ground.clock import ManualClock
from stormjay.ground.keyed.memory import MemoryKeyedStore
from stormjay.ground.keyed.port import LIMIT_MAX, RANKS_MAX, Key, KeyedStore, TableSpec
from stormjay.ground.keyed.sqlite import SqliteKeyedStore, migration
from stormjay.ground.sqlite import Database

SPEC = TableSpec("Observations", columns={"at": "TEXT", "version": "INTEGER", "level": "REAL"})
PAGE_BYTES_MAX = 20_000
Opener = Callable[[Path], AbstractAsyncContextManager[KeyedStore]]


@asynccontextmanager
async def open_memory(_: Path) -> AsyncIterator[KeyedStore]:
    yield MemoryKeyedStore(SPEC, page_bytes_max=PAGE_BYTES_MAX)


@asynccontextmanager
async def open_sqlite(folder: Path) -> AsyncIterator[KeyedStore]:
    clock = ManualClock(datetime(2026, 3, 18, tzinfo=UTC))
    database = await Database.open(folder / "keyed.db", [migration(SPEC)], clock=clock)
    try:
        yield SqliteKeyedStore(database, SPEC, page_bytes_max=PAGE_BYTES_MAX)
    finally:
        await database.close()


@dataclass(frozen=True)
class Adapter:
    """How to open one adapter, the class that must come out, and whether it is on disk."""

    open: Opener
    holds: type
    durable: bool


ADAPTERS = {
    "memory": Adapter(open_memory, MemoryKeyedStore, durable=False),
    "sqlite": Adapter(open_sqlite, SqliteKeyedStore, durable=True),
}


def doc(sort: str, partition: str = "P", **attributes: Any) -> dict[str, Any]:
    return {"pk": partition, "sk": sort, **attributes}


def decoded(documents: list[bytes]) -> list[Any]:
    return [json.loads(document)["sk"] for document in documents]


async def fill(store: KeyedStore, number: int) -> None:
    for index in range(number):
        await store.put(doc(f"S{index:03d}", level=index))


async def refused(code: str, call: Awaitable[object]) -> None:
    with pytest.raises(BadRequest) as caught:
        await call
    assert caught.value.code == code


async def what_is_put_comes_back(store: KeyedStore) -> None:
    document = doc("Å", weather={"air_temp_c": -0.5, "empty": {}, "list": [1, None, True, "z\u0000"]}, at="x", level=2)
    assert await store.get("P", "Å") is None
    await store.put(document)
    stored = await store.get("P", "Å")
    assert stored is not None
    assert json.loads(stored) == document
    await store.put(doc("Å", other=1))
    replaced = await store.get("P", "Å")
    assert replaced is not None
    assert json.loads(replaced) == doc("Å", other=1)


async def put_if_absent_stores_once(store: KeyedStore) -> None:
    assert await store.put_if_absent(doc("a", version=1))
    assert not await store.put_if_absent(doc("a", version=2))
    assert json.loads(await store.get("P", "a") or b"")["version"] == 1
    assert await store.put_if_absent(doc("a", partition="Q", version=3))


async def put_if_newer_goes_by_the_attribute(store: KeyedStore) -> None:
    assert await store.put_if_newer(doc("a", at="2026-03", mark=1), "at")
    assert not await store.put_if_newer(doc("a", at="2026-02", mark=2), "at")
    assert await store.put_if_newer(doc("a", at="2026-03", mark=3), "at"), "equal replaces"
    assert await store.put_if_newer(doc("a", at="2026-04", mark=4), "at")
    assert json.loads(await store.get("P", "a") or b"")["mark"] == 4
    assert await store.put_if_newer(doc("n", version=9), "version")
    assert await store.put_if_newer(doc("n", version=10), "version"), "numbers are not compared as text"
    assert not await store.put_if_newer(doc("n", version=-5), "version")
    await store.put(doc("bare"))
    assert not await store.put_if_newer(doc("bare", at="2026"), "at"), "nothing to compare with"
    await refused("invalid_attribute", store.put_if_newer(doc("a", mark=1), "mark"))
    await refused("invalid_item", store.put_if_newer(doc("a"), "at"))


async def update_if_version_lets_one_win(store: KeyedStore) -> None:
    assert not await store.update_if_version(doc("a", version=2), "version", 1)
    assert await store.update_if_version(doc("a", version=1), "version", None)
    assert not await store.update_if_version(doc("a", version=1), "version", None)
    assert await store.update_if_version(doc("a", version=2, mark="x"), "version", 1)
    assert not await store.update_if_version(doc("a", version=2, mark="y"), "version", 1)
    assert json.loads(await store.get("P", "a") or b"")["mark"] == "x"
    await store.put(doc("bare"))
    assert not await store.update_if_version(doc("bare", version=1), "version", None)
    assert not await store.update_if_version(doc("bare", version=1), "version", 1)
    await refused("invalid_item", store.update_if_version(doc("a", version=1), "version", "1"))


async def delete_removes_one(store: KeyedStore) -> None:
    await fill(store, 3)
    assert await store.delete("P", "S001")
    assert not await store.delete("P", "S001")
    assert decoded((await store.query("P", limit=10)).documents) == ["S000", "S002"]
    assert await store.count("P") == 2


async def ranges_hold_both_ends(store: KeyedStore) -> None:
    await fill(store, 6)
    await store.put(doc("S002", partition="Q"))
    page = await store.query("P", "S001", "S003", limit=10)
    assert decoded(page.documents) == ["S001", "S002", "S003"]
    assert page.keys == [Key("P", "S001"), Key("P", "S002"), Key("P", "S003")]
    assert page.last_key is None
    assert decoded((await store.query("P", "S004", limit=9)).documents) == ["S004", "S005"]
    assert decoded((await store.query("P", None, "S001", limit=9)).documents) == ["S000", "S001"]
    assert decoded((await store.query("P", "S003", "S003", limit=9)).documents) == ["S003"]
    assert decoded((await store.query("P", "S001", "S003", limit=9, descending=True)).documents) == [
        "S003",
        "S002",
        "S001",
    ]
    assert (await store.query("nobody", limit=1)).documents == []
    assert await store.count("P", "S001", "S003") == 3
    assert await store.count("nobody") == 0


async def sort_keys_are_ordered_by_their_bytes(store: KeyedStore) -> None:
    names = ["a", "B", "é", "Z~", "\U0001f327", "\uffff", "a\u0000b", "10", "9"]
    for name in names:
        await store.put(doc(name))
    ordered = sorted(names, key=lambda name: name.encode())
    assert decoded((await store.query("P", limit=20)).documents) == ordered
    assert decoded((await store.query("P", limit=20, descending=True)).documents) == ordered[::-1]


async def pages_join_without_gap_or_repeat(store: KeyedStore) -> None:
    await fill(store, 7)
    for descending in (False, True):
        seen: list[Any] = []
        after: Key | None = None
        for _ in range(4):
            page = await store.query("P", "S001", "S006", limit=2, descending=descending, after=after)
            seen += decoded(page.documents)
            after = page.last_key
            if after is None:
                break
        assert seen == [f"S{index:03d}" for index in (range(6, 0, -1) if descending else range(1, 7))]


async def an_exactly_full_page_gives_a_last_key(store: KeyedStore) -> None:
    await fill(store, 4)
    page = await store.query("P", limit=4)
    assert page.last_key == Key("P", "S003"), "as the real DynamoDB does, although nothing follows"
    assert await store.query("P", limit=4, after=page.last_key) == type(page)([], [], None)
    assert (await store.query("P", limit=5)).last_key is None


async def a_page_ends_at_its_bytes(store: KeyedStore) -> None:
    for index in range(5):
        await store.put(doc(f"S{index}", text="x" * (PAGE_BYTES_MAX // 2)))
    page = await store.query("P", limit=5)
    assert decoded(page.documents) == ["S0", "S1"]
    assert page.last_key == Key("P", "S1")


async def bad_ranges_are_refused(store: KeyedStore) -> None:
    await fill(store, 3)
    await refused("invalid_range", store.query("P", "b", "a", limit=1))
    await refused("invalid_range", store.count("P", "b", "a"))
    await refused("invalid_range", store.pick("P", "b", "a", [0]))
    await refused("invalid_start_key", store.query("P", limit=1, after=Key("Q", "S000")))
    await refused("invalid_start_key", store.query("P", "S001", "S002", limit=1, after=Key("P", "S000")))
    await refused("invalid_start_key", store.query("P", limit=1, after=Key("P", "")))
    for limit in (0, -1, LIMIT_MAX + 1):
        await refused("invalid_limit", store.query("P", limit=limit))
    await refused("invalid_key", store.query("", limit=1))
    await refused("invalid_key", store.query("P", "", "x", limit=1))


async def bad_items_are_refused(store: KeyedStore) -> None:
    bad: list[tuple[str, dict[str, Any]]] = [
        ("invalid_key", {"pk": "P"}),
        ("invalid_key", {"pk": "", "sk": "a"}),
        ("invalid_key", {"pk": "P", "sk": 7}),
        ("invalid_key", doc("a" * 1025)),
        ("invalid_key", doc("a", partition="é" * 1025)),
        ("invalid_key", doc("\ud800")),
        ("invalid_item", doc("a", value=float("nan"))),
        ("invalid_item", doc("a", value=[float("inf")])),
        ("invalid_item", doc("a", value=1e200)),
        ("invalid_item", doc("a", value=10**38)),
        ("invalid_item", doc("a", value="\ud800")),
        ("invalid_item", doc("a", value={1: 2})),
        ("invalid_item", doc("a", value=b"bytes")),
        ("invalid_item", doc("a", at=5)),
        ("invalid_item", doc("a", version="5")),
        ("invalid_item", doc("a", version=True)),
        ("invalid_item", doc("a", version=2**63)),
    ]
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    bad.append(("invalid_item", doc("a", value=deep)))
    for code, document in bad:
        await refused(code, store.put(document))
        await refused(code, store.put_if_absent(document))
    with pytest.raises(TooLarge):
        await store.put(doc("a", text="x" * (400 * 1024)))
    await store.put(doc("a", text="x" * (399 * 1024)))
    await refused("invalid_key", store.get("", "a"))
    await refused("invalid_key", store.delete("P", ""))


async def picks_are_exact(store: KeyedStore) -> None:
    await fill(store, 12)
    await store.put(doc("S000", partition="Q"))
    assert decoded(await store.pick("P", None, None, [0, 3, 6, 9, 11])) == ["S000", "S003", "S006", "S009", "S011"]
    assert decoded(await store.pick("P", "S002", "S005", [0, 1, 3])) == ["S002", "S003", "S005"]
    assert decoded(await store.pick("P", "S002", "S005", [3, 4, 5])) == ["S005"], "past the end gives nothing"
    assert decoded(await store.pick("P", "S002", None, [5])) == ["S007"]
    assert await store.pick("P", None, None, []) == []
    assert await store.pick("nobody", None, None, [0]) == []
    for ranks in ([1, 0], [1, 1], [-1], list(range(RANKS_MAX + 1))):
        await refused("invalid_ranks", store.pick("P", None, None, ranks))


CHECKS: tuple[Callable[[KeyedStore], Awaitable[None]], ...] = (
    what_is_put_comes_back,
    put_if_absent_stores_once,
    put_if_newer_goes_by_the_attribute,
    update_if_version_lets_one_win,
    delete_removes_one,
    ranges_hold_both_ends,
    sort_keys_are_ordered_by_their_bytes,
    pages_join_without_gap_or_repeat,
    an_exactly_full_page_gives_a_last_key,
    a_page_ends_at_its_bytes,
    bad_ranges_are_refused,
    bad_items_are_refused,
    picks_are_exact,
)
