"""How well a sender comes through: restarts told from its numbers, and what the numbers say was lost (fault B28).

The bridge counts its messages with ``i`` from 1 at every boot and says its uptime in heartbeats. Nothing is counted
while packets come in; all is reckoned from the stored rows when asked, and so is the same in whatever order they came.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

REORDER_MAX = 20
"""Numbers this far back or less are late, not a restart: relays and retries overtake each other."""
JUMP_MAX = 5_000
"""A number further ahead than this is no loss of that many packets but another count."""
MESSAGES_MAX = 200_000
"""Most messages looked at for one answer."""


class Message(NamedTuple):
    """One message heard: its number, and its sender's uptime in seconds when it said so."""

    msg_id: int
    uptime_sec: int | None = None


class SenderStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What the numbers of one sender say over a span of time.

    Attributes:
        received: Messages heard, each counted once.
        lost: Numbers missing between the first and the last heard of each boot, and before the first after a restart.
        restarts: How often the numbering or the uptime began again.
        loss_ratio: Lost over sent, 0 when nothing was sent.
    """

    received: int
    lost: int
    restarts: int
    loss_ratio: float


def statistics_of(messages: Iterable[Message]) -> SenderStatistics:
    """Return the statistics of messages in the order in which they were received."""
    received = lost = restarts = 0
    heard: set[int] = set()
    first = 0
    highest = 0
    uptime = -1
    elsewhere = False
    for message in messages:
        number, up = message
        jumps = number > highest + JUMP_MAX
        if heard and (jumps or _is_restart(number, up, highest, uptime, again=number in heard)):
            received, lost = received + len(heard), lost + _missing(heard, first)
            heard, highest, uptime = set(), 0, -1
            restarts += 1
            # After a boot the first message heard should have been number 1; after a number from nowhere nobody knows.
            first = 0 if jumps or elsewhere else 1
            elsewhere = jumps
        heard.add(number)
        highest = max(highest, number)
        if up is not None:
            uptime = max(uptime, up)
    received, lost = received + len(heard), lost + _missing(heard, first)
    sent = received + lost
    return SenderStatistics(received=received, lost=lost, restarts=restarts, loss_ratio=lost / sent if sent else 0.0)


def _is_restart(number: int, up: int | None, highest: int, uptime: int, *, again: bool) -> bool:
    if up is not None and up < uptime and number <= highest:
        return True
    return number < highest - REORDER_MAX or (number == 1 and again)


def _missing(heard: set[int], first: int) -> int:
    """Return how many numbers are missing from ``first`` (0: from the lowest heard) to the highest."""
    if not heard:
        return 0
    low = min(*heard, first or max(heard))
    return max(heard) - low + 1 - len(heard)


_MESSAGES = """
SELECT msg_id, uptime_sec, received_at_utc FROM (
    SELECT msg_id, NULL AS uptime_sec, received_at_utc FROM weather_readings
     WHERE source_node_id = :node AND received_at_utc > :since AND received_at_utc <= :until
    UNION ALL SELECT msg_id, NULL, received_at_utc FROM weather_events
     WHERE source_node_id = :node AND received_at_utc > :since AND received_at_utc <= :until
    UNION ALL SELECT msg_id, NULL, received_at_utc FROM device_telemetry_events
     WHERE source_node_id = :node AND received_at_utc > :since AND received_at_utc <= :until
    UNION ALL SELECT msg_id, uptime_sec, received_at_utc FROM device_health_events
     WHERE source_node_id = :node AND received_at_utc > :since AND received_at_utc <= :until
    UNION ALL SELECT msg_id, NULL, received_at_utc FROM ingest_events
     WHERE source_node_id = :node AND received_at_utc > :since AND received_at_utc <= :until
       AND reason IS NOT 'duplicate'
)
WHERE msg_id > 0 ORDER BY received_at_utc, msg_id LIMIT :most
"""


def sender_statistics(
    connection: sqlite3.Connection, source_node_id: str, since_utc: str, until_utc: str
) -> SenderStatistics:
    """Return the statistics of one sender over (since, until] of receipt from the journal.

    Args:
        connection: A reader's connection.
        source_node_id: The sender.
        since_utc: Begin of the span, not in it, as ``received_at_utc`` is spelled.
        until_utc: End of the span, in it.
    """
    parameters = {"node": source_node_id, "since": since_utc, "until": until_utc, "most": MESSAGES_MAX}
    return statistics_of(Message(row[0], row[1]) for row in connection.execute(_MESSAGES, parameters))
