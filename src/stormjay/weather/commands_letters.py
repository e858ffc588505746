"""Readings that a far side refused for good: seen, tried again, or thrown away by a person.

They are rows of the delivery queues in the state ``failed`` (or ``discarded``); the reading itself stays in the journal
whatever becomes of its row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec

from stormjay.errors import BadRequest, NotFound
from stormjay.ground.outbox.port import LIST_MAX, Entry, Outbox
from stormjay.ground.sqlite import Database

Outboxes = Mapping[str, Outbox[Any]]
"""Queues by the name of their destination, the first destination first."""
State = Literal["failed", "discarded"]


async def list_letters(
    outboxes: Outboxes, *, destination: str | None = None, state: State = "failed", limit: int = 100, after_id: int = 0
) -> list[dict[str, Any]]:
    """Return rows of one state, oldest first, of one destination or of all.

    Raises:
        NotFound: There is no such destination.
        BadRequest: The limit is out of bounds.
    """
    if not 1 <= limit <= LIST_MAX:
        raise BadRequest("limit_out_of_range", f"--limit must be from 1 to {LIST_MAX}")
    found: list[dict[str, Any]] = []
    for name in [_known(outboxes, destination)] if destination is not None else list(outboxes):
        rows = await outboxes[name].entries(state, limit=limit - len(found), after_id=after_id)
        found += [_plain(name, row) for row in rows]
        if len(found) >= limit:
            break
    return found


async def show_letter(
    outboxes: Outboxes, database: Database, number: int, *, destination: str | None = None
) -> dict[str, Any]:
    """Return one row with the reading that it stands for.

    Raises:
        NotFound: There is no such destination or row.
    """
    name = _known(outboxes, destination)
    entry = await _entry(outboxes[name], number)
    if entry is None:
        raise NotFound("dead_letter_not_found", f"{name} has no dead letter {number}")
    reading_id = entry.item_id

    def work(connection: sqlite3.Connection) -> dict[str, Any] | None:
        row = connection.execute("SELECT * FROM weather_readings WHERE id = ?", (reading_id,)).fetchone()
        return None if row is None else {key: row[key] for key in row.keys() if row[key] is not None}  # noqa: SIM118 - a Row iterates its values

    return {**_plain(name, entry), "reading": await database.read(work)}


async def replay_letters(
    outboxes: Outboxes, ids: Collection[int] | None, *, destination: str | None = None
) -> dict[str, Any]:
    """Make rows wait for delivery again: these, or all that failed; return how many.

    Raises:
        NotFound: There is no such destination, or none of the ids is a dead letter.
        StoreUnavailable: The journal cannot be written.
    """
    name = _known(outboxes, destination)
    count = await outboxes[name].replay(ids)
    _expect(name, ids, count)
    return {"destination": name, "replayed": count}


async def discard_letters(
    outboxes: Outboxes, ids: Collection[int], *, destination: str | None = None
) -> dict[str, Any]:
    """Throw rows away: they are not delivered to this destination; return how many.

    Raises:
        NotFound: There is no such destination, or none of the ids can be thrown away.
        StoreUnavailable: The journal cannot be written.
    """
    name = _known(outboxes, destination)
    count = await outboxes[name].discard(ids)
    _expect(name, ids, count)
    return {"destination": name, "discarded": count}


async def _entry(outbox: Outbox[Any], number: int) -> Entry | None:
    for state in ("failed", "discarded"):
        rows = await outbox.entries(state, limit=1, after_id=number - 1)
        if rows and rows[0].id == number:
            return rows[0]
    return None


def _known(outboxes: Outboxes, destination: str | None) -> str:
    if destination is None:
        return next(iter(outboxes))
    if destination not in outboxes:
        raise NotFound(
            "unknown_destination", f"there is no destination {destination}; there are: {', '.join(outboxes)}"
        )
    return destination


def _expect(name: str, ids: Collection[int] | None, count: int) -> None:
    if ids is not None and count == 0:
        raise NotFound("dead_letter_not_found", f"{name} has no dead letter {', '.join(map(str, sorted(ids)))}")


def _plain(destination: str, entry: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(entry)
    return {"id": plain.pop("id"), "destination": destination, "reading_id": plain.pop("item_id"), **plain}
