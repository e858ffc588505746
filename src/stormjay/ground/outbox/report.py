"""What a relay counts, logs and announces."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

import structlog

from stormjay.ground.announcer import Announcer
from stormjay.ground.outbox.breaker import Judged
from stormjay.ground.outbox.port import (
    Again,
    Claimed,
    Counts,
    Delivered,
    Done,
    Final,
    Outcome,
    Settlement,
    TryLater,
    Unavailable,
)
from stormjay.ground.stats.port import Metric, Statistics

T = TypeVar("T")
log = structlog.get_logger(__name__)

ATTEMPTS = Metric("delivery_attempts", "counter", "Items sent, by what became of them", ("destination", "outcome"))
WAITING = Metric(
    "delivery_waiting", "gauge", "Items that wait for delivery", ("destination",), label="Waiting for delivery"
)
FAILED = Metric("delivery_failed", "gauge", "Items refused for good", ("destination",), label="Refused for good")
OLDEST_AGE = Metric(
    "delivery_oldest_age_seconds",
    "gauge",
    "Age of the oldest item that waits",
    ("destination",),
    device_class="duration",
    unit="s",
    label="Oldest waiting",
)
LAST_SUCCESS = Metric(
    "delivery_last_success_timestamp_seconds",
    "gauge",
    "When an item was last delivered",
    ("destination",),
    device_class="timestamp",
    label="Last delivery",
)
DOWN = Metric("delivery_destination_down", "gauge", "1 while the destination counts as down", ("destination",))
METRICS = (ATTEMPTS, WAITING, FAILED, OLDEST_AGE, LAST_SUCCESS, DOWN)

LINES_MAX = 10
"""Items of one group that get a log line each; a larger group gets one line."""


class Report:
    """Everything that one relay says; saying never fails and never waits."""

    def __init__(self, destination: str, statistics: Statistics, announcer: Announcer) -> None:
        self._destination = destination
        self._statistics = statistics
        self._announcer = announcer
        statistics.declare(*METRICS)
        statistics.set(DOWN, 0, destination=destination)

    def outcomes(self, results: Sequence[tuple[Claimed[T], Outcome]]) -> None:
        """Count what became of items, and log it: a line each for a few, one line for many."""
        for item, outcome in results if len(results) <= LINES_MAX else ():
            event, details = _line(outcome)
            log.info(event, destination=self._destination, queue_id=item.id, attempt_count=item.attempts, **details)
        tally: dict[str, int] = {}
        for _, outcome in results:
            word = _word(outcome)
            tally[word] = tally.get(word, 0) + 1
        for word, number in tally.items():
            self._statistics.add(ATTEMPTS, number, destination=self._destination, outcome=word)
        if len(results) > LINES_MAX:
            log.info("delivery_group", destination=self._destination, **tally)

    def breaker(self, judged: Judged, reason: str) -> None:
        """Say that the destination went down or came back."""
        if judged.opened:
            log.warning("delivery_destination_down", destination=self._destination, error=reason)
            self._statistics.set(DOWN, 1, destination=self._destination)
        if judged.closed:
            log.info("delivery_destination_up", destination=self._destination)
            self._statistics.set(DOWN, 0, destination=self._destination)

    def stored(self, settlements: Sequence[Settlement], now: datetime) -> None:
        """Announce a group that has been stored."""
        kinds = [type(settlement) for settlement in settlements]
        delivered = kinds.count(Done)
        self._announcer.announce(
            "delivery",
            destination=self._destination,
            delivered=delivered,
            failed=kinds.count(Final),
            retry=kinds.count(Again),
        )
        if delivered:
            self._statistics.set(LAST_SUCCESS, now.timestamp(), destination=self._destination)

    def crashed(self, item_id: int, error: str) -> None:
        """Say that an item was given up because the process kept dying with it."""
        log.error("delivery_failure", destination=self._destination, queue_id=item_id, error=error)

    def trouble(self, error: BaseException) -> None:
        """Say that the relay itself had trouble."""
        log.warning("queue_worker_error", destination=self._destination, error=f"{type(error).__name__}: {error}")

    def gauges(self, counts: Counts, oldest: datetime | None, now: datetime) -> None:
        """Show how much waits and for how long."""
        age_seconds = 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())
        self._statistics.set(WAITING, counts.waiting, destination=self._destination)
        self._statistics.set(FAILED, counts.failed, destination=self._destination)
        self._statistics.set(OLDEST_AGE, age_seconds, destination=self._destination)


def _word(outcome: Outcome) -> str:
    if isinstance(outcome, Delivered):
        return "duplicate" if outcome.duplicate else "delivered"
    if isinstance(outcome, TryLater):
        return "retry"
    return "unavailable" if isinstance(outcome, Unavailable) else "refused"


def _line(outcome: Outcome) -> tuple[str, dict[str, object]]:
    """Return the event name of contract weather 5.3 for one outcome, and its details."""
    if isinstance(outcome, Delivered):
        return "delivery_success", {"deduped": outcome.duplicate}
    if isinstance(outcome, TryLater):
        return "delivery_retry_scheduled", {"error": outcome.text, "retry_after_seconds": outcome.retry_after_seconds}
    if isinstance(outcome, Unavailable):
        return "delivery_retry_scheduled", {"error": outcome.text}
    return "delivery_failure", {"error": outcome.text, "http_status": outcome.status}
