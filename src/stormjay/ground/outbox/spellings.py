"""The spellings of times in a queue table, and the states a row can have.

Old files hold two (contract weather 5.1): ISO 8601 with ``+00:00`` and SQLite's own ``YYYY-MM-DD HH:MM:SS``, both UTC.
Rows go on being written as the seed writes them, so that its tools can read them.
"""

from __future__ import annotations

from datetime import UTC, datetime

from stormjay.ground.outbox.port import Status

WAITING: tuple[Status, ...] = ("pending", "retry")


def parse(text: object) -> datetime | None:
    """Return the moment that a stored text names, or None when it names none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def as_iso(moment: datetime) -> str:
    """Return the spelling of ``next_attempt_at_utc``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def as_sqlite(moment: datetime) -> str:
    """Return the spelling of ``last_attempt_at_utc``, ``delivered_at_utc`` and ``updated_at_utc``: whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def due_ranges(now: datetime) -> list[tuple[str, str]]:
    """Return the ranges of text, both ends included, that hold every due spelling and few others.

    The date comes first in each spelling. Within today the two differ in the separator, and a blank sorts before a T,
    hence two ranges; the third holds what begins with no digit and so is no time at all. Text with the same second
    as ``now`` may still lie in the future: look at each with ``is_due``.
    """
    day, second = now.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S").split(" ")
    return [("", f"{day} {second}~"), (f"{day}T", f"{day}T{second}~"), (":", "\U0010ffff")]


def is_due(text: object, now: datetime) -> bool:
    """Tell whether a row with this ``next_attempt_at_utc`` may go; one that names no time may."""
    moment = parse(text)
    return moment is None or moment <= now
