"""Dead letters as JSON files: items that no row keeps, seen, replayed or discarded by a person.

A letter is written whole: to a neighbour, fsync, rename, fsync of the folder. Once ``write`` has returned it survives
a power cut, and only then may the caller let go of the row it came from. Writing the same letter again is harmless: the
file's name follows from when it was queued and its id.

The folder has a size cap. When a new letter would pass it, the oldest go, and are counted; a cap of 0 keeps none.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

from stormjay.errors import NotFound, StoreUnavailable
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.ground.whole_files import sync_folder, write_whole

log = structlog.get_logger(__name__)

CAP_BYTES = 100 * 1024 * 1024
LIST_MAX = 1_000
WRITTEN = Metric("dead_letters_written", "counter", "Items set aside as dead letters", ("destination",))
EVICTED = Metric("dead_letters_evicted", "counter", "Dead letters lost to the size cap", ("destination",))
KEPT = Metric("dead_letters", "gauge", "Dead letters kept", ("destination",), label="Dead letters")
_SAFE_ID = re.compile(r"[0-9A-Za-z_-]{1,100}")
_NAME = re.compile(r"[0-9]{8}T[0-9]{12}Z-[0-9A-Za-z_-]{1,100}\.json")


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One item set aside.

    Attributes:
        id: The item's own id.
        destination: Where it was to go.
        queued_at: When it was queued, aware UTC.
        dead_at: When it was set aside, aware UTC.
        reason: Why.
        attempts: How many attempts of its own failed.
        body: The item as text: JSON when it was JSON.
    """

    id: str
    destination: str
    queued_at: datetime
    dead_at: datetime
    reason: str
    attempts: int
    body: str


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the folder.

    Attributes:
        name: Its name, by which it is shown, replayed or discarded.
        size_bytes: Its size.
        letter: What it holds, or None when it cannot be read.
    """

    name: str
    size_bytes: int
    letter: DeadLetter | None


class DeadLetters:
    """The folder of one destination."""

    def __init__(self, folder: Path, destination: str, statistics: Statistics, *, cap_bytes: int = CAP_BYTES) -> None:
        self._folder = folder
        self._destination = destination
        self._statistics = statistics
        self._cap_bytes = cap_bytes
        self._lock = asyncio.Lock()
        statistics.declare(WRITTEN, EVICTED, KEPT)

    async def write(self, letter: DeadLetter) -> str | None:
        """Keep a letter; return the file's name, or None when the cap keeps none.

        Raises:
            StoreUnavailable: It could not be written; the caller keeps the item.
        """
        async with self._lock:
            data = msgspec.json.format(msgspec.json.encode(letter))
            name = _name(letter)
            evicted = await asyncio.to_thread(self._write, name, data)
        self._statistics.add(WRITTEN, destination=self._destination)
        if evicted:
            self._statistics.add(EVICTED, len(evicted), destination=self._destination)
            log.warning("dead_letters.evicted", destination=self._destination, files=evicted[:10], count=len(evicted))
        await self._show()
        return None if name in evicted else name

    async def entries(self, *, limit: int = 100, after: str = "") -> list[Listed]:
        """Return files whose names follow ``after``, oldest first; at most ``LIST_MAX``."""
        return await asyncio.to_thread(self._list, min(limit, LIST_MAX), after)

    async def show(self, name: str) -> Listed:
        """Return one file.

        Raises:
            NotFound: There is none of that name.
        """
        return await asyncio.to_thread(self._read, self._path(name))

    async def replay(self, name: str, put_back: Callable[[DeadLetter], Awaitable[None]]) -> None:
        """Hand a letter to ``put_back`` and remove its file once that has returned: at least once.

        Raises:
            NotFound: There is none of that name, or it cannot be read.
            Exception: Whatever ``put_back`` raised; the file stays.
        """
        letter = (await self.show(name)).letter
        if letter is None:
            raise NotFound("dead_letter_unreadable", f"{name} cannot be read")
        await put_back(letter)
        await self.discard(name)

    async def discard(self, name: str) -> None:
        """Remove a file.

        Raises:
            NotFound: There is none of that name.
            StoreUnavailable: It cannot be removed.
        """
        path = self._path(name)
        async with self._lock:
            await asyncio.to_thread(self._remove, path)
        await self._show()

    async def _show(self) -> None:
        kept = await asyncio.to_thread(lambda: len(self._files()))
        self._statistics.set(KEPT, kept, destination=self._destination)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise NotFound("dead_letter_not_found", f"there is no dead letter {name!r:.120}")
        return self._folder / name

    def _files(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if _NAME.fullmatch(path.name))

    def _list(self, limit: int, after: str) -> list[Listed]:
        wanted = [path for path in self._files() if path.name > after][:limit]
        found = []
        for path in wanted:
            with contextlib.suppress(NotFound):  # removed meanwhile
                found.append(self._read(path))
        return found

    def _read(self, path: Path) -> Listed:
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise NotFound("dead_letter_not_found", f"there is no dead letter {path.name}") from error
        except OSError:
            return Listed(name=path.name, size_bytes=0, letter=None)
        try:
            letter = msgspec.json.decode(data, type=DeadLetter)
        except msgspec.DecodeError:
            letter = None
        return Listed(name=path.name, size_bytes=len(data), letter=letter)

    def _write(self, name: str, data: bytes) -> list[str]:
        if len(data) > self._cap_bytes:
            return [name]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._folder / name, data)
            return self._evict(keep=name)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot write a dead letter into {self._folder}: {error}",
                next_step="check free space and permissions of the data folder",
            ) from error

    def _evict(self, keep: str) -> list[str]:
        files = self._files()
        sizes = {path: path.stat().st_size for path in files}
        over_bytes = sum(sizes.values()) - self._cap_bytes
        evicted: list[str] = []
        for path in files:
            if over_bytes <= 0:
                break
            if path.name != keep:
                over_bytes -= sizes[path]
                path.unlink(missing_ok=True)
                evicted.append(path.name)
        return evicted

    def _remove(self, path: Path) -> None:
        try:
            path.unlink()
            sync_folder(path.parent)
        except FileNotFoundError as error:
            raise NotFound("dead_letter_not_found", f"there is no dead letter {path.name}") from error
        except OSError as error:
            raise StoreUnavailable(f"cannot remove {path}: {error}") from error


def _name(letter: DeadLetter) -> str:
    safe = letter.id if _SAFE_ID.fullmatch(letter.id) else hashlib.sha256(letter.id.encode()).hexdigest()
    return f"{letter.queued_at.astimezone(UTC):%Y%m%dT%H%M%S%f}Z-{safe}.json"
