"""One SQLite file: one writer thread that commits whatever waits together, and readers on their own connections.

What survives what (WAL, ``synchronous=FULL``): a killed process and a power cut lose nothing whose ``write`` has
returned. Disk full or an I/O error fails the whole group with ``StoreUnavailable``; nothing of it is stored. A file
that is not a sound database is set aside under a name that says when, and reported; never overwritten or deleted.

Group commit needs no timer: while one commit is under way callers queue up, and the next commit takes all of them. Each
caller's work runs in a savepoint of its own, so that its constraint error is its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from stormjay.errors import StoreDamaged, StoreUnavailable
from stormjay.ground.clock import Clock
from stormjay.ground.file_lock import identity, take_lock

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

WAITING_MAX = 50_000
"""Most writes that may wait for the writer; beyond it ``write`` raises ``StoreUnavailable``."""
_BUSY_TIMEOUT_SECONDS = 30.0
_GROUP_FATAL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass(frozen=True)
class Migration:
    """One step that brings a file nearer to the schema; ``apply`` runs inside the migration transaction."""

    name: str
    apply: Callable[[sqlite3.Connection], None]


def script(name: str, sql: str) -> Migration:
    """Return a migration that runs SQL statements (no triggers: statements are split at semicolons)."""

    def apply(connection: sqlite3.Connection) -> None:
        for statement in sql.split(";"):
            if statement.strip():
                connection.execute(statement)

    return Migration(name, apply)


@dataclass
class _Job:
    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = field(default=None)


class Database:
    """One file with its writer and readers; make one with ``open``, end it with ``close``."""

    def __init__(self, path: Path, lock: IO[str] | None, set_aside: Path | None, synchronous: str) -> None:
        self.path = path
        self.set_aside = set_aside
        """Where a damaged file of that name was moved at this start, or None."""
        self.commits = 0
        """Commits made so far; with the number of writes it tells how well grouping works."""
        self._lock = lock
        self._synchronous = synchronous
        self._identity = identity(path)
        # unbounded: every job has a caller that waits for its commit, so it holds no more than there are callers
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._local = threading.local()
        self._reader_connections: list[sqlite3.Connection] = []
        self._readers = ThreadPoolExecutor(max_workers=3, thread_name_prefix=f"read-{path.name}")
        self._writer = threading.Thread(target=self._write_loop, name=f"write-{path.name}", daemon=True)

    @classmethod
    async def open(
        cls,
        path: Path,
        migrations: Sequence[Migration],
        *,
        clock: Clock,
        owner: bool = True,
        synchronous: str = "FULL",
    ) -> Database:
        """Open, check and migrate the file, making it and its folder when absent.

        Args:
            path: The database file.
            migrations: All steps from an empty file, in order; the file's ``user_version`` counts those it has.
            clock: Names a damaged file by the time it was set aside.
            owner: Take the file's lock, so that one process is the writer. Commands that look into the file of a
                running service pass False; SQLite's own locking keeps their short writes apart.
            synchronous: FULL for captured records; NORMAL may lose the last commits at a power cut.

        Raises:
            StoreInUse: Another process holds the lock.
            StoreDamaged: The file was made by a newer program.
            StoreUnavailable: The folder or file cannot be written.
        """
        lock = take_lock(path) if owner else None
        try:
            set_aside = await asyncio.to_thread(_prepare, path, migrations, clock, synchronous, owner=owner)
        except BaseException:
            if lock is not None:
                lock.close()
            raise
        database = cls(path, lock, set_aside, synchronous)
        database._writer.start()
        return database

    @property
    def is_in_place(self) -> bool:
        """Whether the open file is still the one under its path; one that was removed or replaced keeps nothing."""
        return self._identity is not None and identity(self.path) == self._identity

    async def write(self, work: Work[T]) -> T:
        """Run ``work`` on the write connection; return its result after the commit that holds it.

        ``work`` must be synchronous and touch nothing but the connection; it runs once.

        Raises:
            StoreUnavailable: Nothing of the group was stored (full, I/O error, too many waiting, closed).
            StoreDamaged: The file turned out to be damaged, or was removed or replaced while it was open.
            Exception: Whatever ``work`` raised; its own changes were undone, those of others in the group were not.
        """
        if self._closed:
            raise StoreUnavailable(f"{self.path.name} is closed")
        if self._jobs.qsize() >= WAITING_MAX:
            raise StoreUnavailable(f"more than {WAITING_MAX} writes wait for {self.path.name}")
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        self._jobs.put(job)
        return cast("T", await job.future)

    async def read(self, work: Work[T]) -> T:
        """Run ``work`` on a reader's connection (read-only, sees the last commit) in a thread; return its result.

        Raises:
            StoreUnavailable: The database is closed or cannot be read.
            StoreDamaged: What was to be read is damaged.
        """
        if self._closed:
            raise StoreUnavailable(f"{self.path.name} is closed")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._readers, self._read, work)
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(f"cannot read {self.path.name}: {error}") from error
        except sqlite3.DatabaseError as error:
            if _code(error) not in _DAMAGE:
                raise
            raise _as_ours(error, self.path) from error

    async def close(self) -> None:
        """Commit what waits, end the threads and give the lock back. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._writer.join)
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._reader_connections:
            connection.close()
        if self._lock is not None:
            self._lock.close()

    def _read(self, work: Work[T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _connect(self.path, self._synchronous)
            connection.execute("PRAGMA query_only=ON")
            self._local.connection = connection
            self._reader_connections.append(connection)
        connection.execute("BEGIN")  # one snapshot for all statements of the work
        try:
            return work(connection)
        finally:
            connection.execute("ROLLBACK")

    def _write_loop(self) -> None:
        connection = _connect(self.path, self._synchronous)
        try:
            stopping = False
            while not stopping:
                group: list[_Job] = []
                job = self._jobs.get()
                while True:
                    if job is None:
                        stopping = True
                    else:
                        group.append(job)
                    try:
                        job = self._jobs.get_nowait()
                    except queue.Empty:
                        break
                if group:
                    self._commit(connection, group)
        finally:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("PRAGMA optimize")
            connection.close()

    def _commit(self, connection: sqlite3.Connection, group: list[_Job]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in group:
                _run_in_savepoint(connection, job)
            connection.execute("COMMIT")
            self.commits += 1
            if not self.is_in_place:  # looked at after the commit: it went into a file that nobody will find again
                raise _displaced(self.path)
        except (sqlite3.Error, StoreDamaged) as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            failure = _as_ours(error, self.path) if isinstance(error, sqlite3.Error) else error
            for job in group:
                job.error = failure
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in group:
            by_loop.setdefault(job.loop, []).append(job)
        for loop, jobs in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_answer, jobs)


def _answer(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():  # the caller was cancelled; the work is stored all the same
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _run_in_savepoint(connection: sqlite3.Connection, job: _Job) -> None:
    connection.execute("SAVEPOINT item")
    try:
        job.result = job.work(connection)
    except sqlite3.Error as error:
        if _code(error) in _GROUP_FATAL + _DAMAGE:
            raise
        job.error = error
    except Exception as error:  # noqa: BLE001 - whatever the caller's work raised belongs to the caller
        job.error = error
    if job.error is not None:
        connection.execute("ROLLBACK TO item")
    connection.execute("RELEASE item")


def _displaced(path: Path) -> StoreDamaged:
    return StoreDamaged(
        f"{path} was removed or replaced while it was in use",
        next_step="restart: what came in meanwhile is taken into the file that is there then, or into a new one",
    )


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF  # Python's module has none for what it finds by itself


def _as_ours(error: sqlite3.Error, path: Path) -> StoreUnavailable | StoreDamaged:
    if _code(error) in _DAMAGE:
        return StoreDamaged(
            f"{path} is damaged: {error}", next_step="restart: the file is set aside at start; restore it from a backup"
        )
    failure = StoreUnavailable(f"{path.name}: {error}", next_step="check free space and permissions of the data folder")
    failure.__cause__ = error
    return failure


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={'NORMAL' if synchronous == 'NORMAL' else 'FULL'}")
        connection.execute("PRAGMA foreign_keys=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(
    path: Path, migrations: Sequence[Migration], clock: Clock, synchronous: str, *, owner: bool
) -> Path | None:
    set_aside = _set_aside_if_damaged(path, clock) if owner and path.exists() else None
    try:
        connection = _connect(path, synchronous)
    except sqlite3.Error as error:
        raise _as_ours(error, path) from error
    try:
        migrate(connection, migrations, path.name)
    except sqlite3.Error as error:
        raise _as_ours(error, path) from error
    finally:
        connection.close()
    return set_aside


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration], name: str = "database") -> None:
    """Apply the steps that the file lacks, all in one transaction.

    Raises:
        StoreDamaged: The file has more steps than this program knows.
    """
    done = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if done > len(migrations):
        raise StoreDamaged(
            f"{name} has schema version {done}, this program knows {len(migrations)}",
            next_step="install the newer stormjay again, or restore the backup made before the update",
        )
    if done == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in migrations[done:]:
            step.apply(connection)
        connection.execute(f"PRAGMA user_version={len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _set_aside_if_damaged(path: Path, clock: Clock) -> Path | None:
    connection: sqlite3.Connection | None = None
    try:
        connection = _connect(path, "FULL")
        answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        damaged = answer != "ok"
    except sqlite3.DatabaseError as error:
        if _code(error) not in _DAMAGE:
            raise _as_ours(error, path) from error
        damaged = True
    finally:
        if connection is not None:
            connection.close()
    if not damaged:
        return None
    stamp = clock.now().strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for suffix in ("", "-wal", "-shm"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.rename(target.with_name(target.name + suffix))
    return target
