"""One writer, group commit, migrations, damage: what ``ground/sqlite.py`` promises."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stormjay.errors import StoreDamaged, StoreInUse, StoreUnavailable
from stormjay.ground import sqlite as ours
from stormjay.ground.clock import ManualClock

CLOCK = ManualClock(datetime(2026, 3, 18, 9, tzinfo=UTC))
STEPS = [ours.script("first", "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")]


async def opened(path: Path, *, owner: bool = True) -> ours.Database:
    return await ours.Database.open(path, STEPS, clock=CLOCK, owner=owner)


def insert(name: str) -> ours.Work[int]:
    def work(connection: sqlite3.Connection) -> int:
        return int(connection.execute("INSERT INTO item (name) VALUES (?)", (name,)).lastrowid or 0)

    return work


def names(connection: sqlite3.Connection) -> list[str]:
    return [row["name"] for row in connection.execute("SELECT name FROM item ORDER BY id")]


@pytest.mark.anyio
async def test_what_waits_is_committed_together(tmp_path: Path) -> None:
    database = await opened(tmp_path / "a.db")
    gate = threading.Event()
    first = asyncio.create_task(database.write(lambda _: gate.wait(10)))
    rest = [asyncio.create_task(database.write(insert(f"n{number}"))) for number in range(100)]
    await CLOCK.sleep(0)
    gate.set()
    await asyncio.gather(first, *rest)
    assert database.commits <= 3
    assert len(await database.read(names)) == 100
    await database.close()


@pytest.mark.anyio
async def test_a_constraint_error_belongs_to_its_own_caller(tmp_path: Path) -> None:
    database = await opened(tmp_path / "a.db")

    def twice(connection: sqlite3.Connection) -> None:
        insert("partly")(connection)
        insert("same")(connection)
        insert("same")(connection)

    results = await asyncio.gather(
        database.write(insert("before")),
        database.write(twice),
        database.write(insert("after")),
        return_exceptions=True,
    )
    assert isinstance(results[1], sqlite3.IntegrityError)
    assert await database.read(names) == ["before", "after"]
    await database.close()


@pytest.mark.anyio
@pytest.mark.parametrize("value", [[], 2**70, "\ud800"], ids=["list", "too large", "half a pair"])
async def test_a_value_that_cannot_be_bound_fails_alone_and_the_writer_goes_on(tmp_path: Path, value: object) -> None:
    database = await opened(tmp_path / "a.db")
    with pytest.raises((sqlite3.Error, OverflowError, UnicodeError)):
        await database.write(lambda connection: connection.execute("SELECT ?", (value,)))
    await database.write(insert("after"))
    assert await database.read(names) == ["after"]
    await database.close()


@pytest.mark.anyio
async def test_disk_full_fails_the_group_and_stores_nothing_of_it(tmp_path: Path) -> None:
    database = await opened(tmp_path / "a.db")
    await database.write(insert("kept"))
    await database.write(lambda c: c.execute("PRAGMA max_page_count=4").fetchone() and None)
    with pytest.raises(StoreUnavailable, match="full"):
        await database.write(insert("x" * 100_000))
    assert await database.read(names) == ["kept"]
    await database.write(lambda c: c.execute("PRAGMA max_page_count=1000000").fetchone() and None)
    await database.write(insert("x" * 100_000))
    await database.close()


@pytest.mark.anyio
async def test_a_reader_sees_one_moment_and_cannot_write(tmp_path: Path) -> None:
    database = await opened(tmp_path / "a.db")
    with pytest.raises(StoreUnavailable, match="readonly"):
        await database.read(insert("no"))
    await database.close()
    await database.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await database.write(insert("late"))
    with pytest.raises(StoreUnavailable, match="closed"):
        await database.read(names)


@pytest.mark.anyio
async def test_a_second_owner_is_told_who_holds_the_file(tmp_path: Path) -> None:
    database = await opened(tmp_path / "a.db")
    with pytest.raises(StoreInUse, match=str(os.getpid())):
        await opened(tmp_path / "a.db")
    beside = await opened(tmp_path / "a.db", owner=False)
    await beside.write(insert("from beside"))
    assert await database.read(names) == ["from beside"]
    await beside.close()
    await database.close()
    await (await opened(tmp_path / "a.db")).close()


@pytest.mark.anyio
@pytest.mark.parametrize("damage", ["garbage", "torn"])
async def test_a_damaged_file_is_set_aside_whole_and_told(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.db"
    database = await opened(path)
    for number in range(200):
        await database.write(insert(f"row {number} " + "x" * 500))
    await database.close()
    content = path.read_bytes()
    broken = (
        b"not a database at all" * 400 if damage == "garbage" else content[:8192] + b"\xff" * 8192 + content[16384:]
    )
    path.write_bytes(broken)
    again = await opened(path)
    assert again.set_aside is not None
    assert again.set_aside.read_bytes() == broken
    assert "damaged-20260318T090000Z" in again.set_aside.name
    assert await again.read(names) == []
    await again.close()


@pytest.mark.anyio
@pytest.mark.parametrize("fate", ["removed", "replaced"])
async def test_nothing_counts_as_stored_in_a_file_that_is_no_longer_there(tmp_path: Path, fate: str) -> None:
    path = tmp_path / "a.db"
    database = await opened(path)
    await database.write(insert("kept"))
    if fate == "removed":
        await asyncio.to_thread(path.unlink)
    else:
        await asyncio.to_thread((tmp_path / "other").write_bytes, b"")
        await asyncio.to_thread((tmp_path / "other").replace, path)
    with pytest.raises(StoreDamaged, match="removed or replaced"):
        await database.write(insert("lost"))
    assert not database.is_in_place
    await database.close()


@pytest.mark.anyio
async def test_a_file_that_is_damaged_while_open_says_so_to_readers(tmp_path: Path) -> None:
    database = await opened(tmp_path / "a.db")

    def damaged(_: sqlite3.Connection) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    with pytest.raises(StoreDamaged, match="malformed"):
        await database.read(damaged)
    await database.close()


@pytest.mark.anyio
async def test_a_file_of_a_newer_program_is_refused_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=7")
    connection.close()
    with pytest.raises(StoreDamaged, match="version 7"):
        await opened(path)
    await asyncio.to_thread(path.with_name("a.db.lock").unlink)


@pytest.mark.anyio
async def test_a_failing_migration_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await (await opened(path)).close()
    steps = [*STEPS, ours.script("bad", "CREATE TABLE more (id INTEGER); CREATE TABLE more (id INTEGER)")]
    with pytest.raises(StoreUnavailable, match="already exists"):
        await ours.Database.open(path, steps, clock=CLOCK)
    database = await opened(path)
    tables = await database.read(
        lambda c: [r[0] for r in c.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    )
    assert tables == ["item"]
    await database.close()


@pytest.mark.anyio
async def test_a_folder_that_cannot_be_made_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable) as caught:
        await opened(tmp_path / "file" / "a.db")
    assert "data_dir" in caught.value.next_step


@pytest.mark.anyio
async def test_a_caller_that_was_cancelled_disturbs_nobody(tmp_path: Path) -> None:
    database = await opened(tmp_path / "a.db")
    gate = threading.Event()
    blocked = asyncio.create_task(database.write(lambda _: gate.wait(10)))
    gone = asyncio.create_task(database.write(insert("gone")))
    stays = asyncio.create_task(database.write(insert("stays")))
    await CLOCK.sleep(0)
    gone.cancel()
    gate.set()
    await asyncio.gather(blocked, stays)
    assert "stays" in await database.read(names)
    await database.close()


@pytest.mark.anyio
async def test_b29_opening_and_closing_leaks_no_files(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the kernel's list, no path is wanted
    for _ in range(30):
        database = await opened(tmp_path / "a.db")
        await database.read(names)
        await database.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # noqa: PTH208


def test_kill_9_loses_nothing_whose_write_returned(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from stormjay.ground import sqlite as ours
        from stormjay.ground.clock import SystemClock
        STEPS = [ours.script("first", "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")]
        async def main():
            db = await ours.Database.open(Path(sys.argv[1]), STEPS, clock=SystemClock())
            number = 0
            async def one(n):
                await db.write(lambda c: c.execute("INSERT INTO item (name) VALUES (?)", (str(n),)) and None)
                print(n, flush=True)
            while True:
                await asyncio.gather(*(one(number + i) for i in range(20)))
                number += 20
        asyncio.run(main())
        """
    )
    path = tmp_path / "a.db"
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().strip() for _ in range(300)]
    process.send_signal(signal.SIGKILL)
    acknowledged += [line.strip() for line in process.stdout.read().splitlines()[:-1]]
    process.wait(10)
    process.stdout.close()
    connection = sqlite3.connect(path)
    stored = {row[0] for row in connection.execute("SELECT name FROM item")}
    connection.close()
    assert stored >= set(acknowledged)
