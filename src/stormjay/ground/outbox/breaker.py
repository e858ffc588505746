"""One breaker per destination: tells the far side's failures from an item's own.

* It opens on a connection error or time-out, or when three different items in a row fail.
* While it is open nobody's count or time moves; one item at a time probes, each time another one.
* Any item that gets through closes it; then all waiting retry rows become due at once.
* An item that keeps failing while others get through is counted by itself: at once when the far side answered with
  a failure, and when nobody answered after it has twice been among the failed as another got through. Once is not
  enough: whoever happened to be in work when a line broke is not at fault.

The state is in memory; after a restart the breaker is closed and learns again. Everything here is pure: times and
randomness come in, decisions come out.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stormjay.ground.backoff import RETRY_AFTER_SECONDS_MAX, Backoff
from stormjay.ground.outbox.port import Delivered, Outcome, Refused, TryLater, Unavailable

V = TypeVar("V")
Failure = TryLater | Unavailable

ROW_OF_FAILURES = 3
STRIKES = 2
REMEMBERED_MAX = 1_000
"""Most items whose failures are remembered; the oldest are forgotten first."""
PROBES_SKIPPED_MAX = 100
"""Most failed items that the next probe avoids."""


@dataclass(frozen=True)
class Judged:
    """What a group of outcomes means.

    Attributes:
        over: Outcomes that end an item: delivered or refused.
        own: Failures that count against the item itself.
        untouched: Items to give back as they were.
        closed: The breaker was open and is closed now: wake the waiting rows.
        opened: The breaker was closed and is open now.
    """

    over: list[tuple[int, Delivered | Refused]] = field(default_factory=list)
    own: list[tuple[int, Failure]] = field(default_factory=list)
    untouched: list[int] = field(default_factory=list)
    closed: bool = False
    opened: bool = False


class Breaker:
    """The state machine; ``now`` is the clock's monotonic seconds."""

    def __init__(self, probe_backoff: Backoff, randomness: random.Random) -> None:
        self._backoff = probe_backoff
        self._random = randomness
        self._open = False
        self._probe_at = 0.0
        self._failures = 0
        self._reason = ""
        self._row: OrderedDict[int, None] = OrderedDict()
        """Different items that failed since one got through."""
        self._uncounted: OrderedDict[int, Failure] = OrderedDict()
        """Those of them that were given back untouched."""
        self._strikes: OrderedDict[int, int] = OrderedDict()
        """How often an item was among the uncounted when another got through."""
        self._guilty: OrderedDict[int, None] = OrderedDict()
        """Items that were counted because of their strikes."""

    @property
    def is_open(self) -> bool:
        """Whether the destination counts as down."""
        return self._open

    @property
    def reason(self) -> str:
        """What the last failure said; empty when none came since the last success."""
        return self._reason

    def seconds_to_probe(self, now: float) -> float:
        """Return how long until the next probe may go; 0 when it may go now or the breaker is closed."""
        return max(0.0, self._probe_at - now) if self._open else 0.0

    def skip_when_probing(self) -> list[int]:
        """Return the items that failed lately: the next probe takes another one if there is one."""
        return list(self._row)[-PROBES_SKIPPED_MAX:]

    def at_fault(self) -> list[int]:
        """Return the items that were found at fault themselves: they are not woken with the others."""
        return list(self._guilty)

    def judge(self, outcomes: Sequence[tuple[int, Outcome]], now: float) -> Judged:
        """Take in what became of a group of items and decide what is to be stored."""
        over: list[tuple[int, Delivered | Refused]] = []
        failed: list[tuple[int, Failure]] = []
        for item_id, outcome in outcomes:
            if isinstance(outcome, Delivered | Refused):
                over.append((item_id, outcome))
            else:
                failed.append((item_id, outcome))
        if over:
            return self._someone_got_through(over, failed)
        if failed:
            return self._all_failed(failed, now)
        return Judged()

    def _someone_got_through(
        self, over: list[tuple[int, Delivered | Refused]], failed: list[tuple[int, Failure]]
    ) -> Judged:
        closed, self._open = self._open, False
        self._failures, self._reason = 0, ""
        for item_id, _ in over:
            for memory in (self._uncounted, self._strikes, self._guilty):
                memory.pop(item_id, None)
        answered = [(item_id, outcome) for item_id, outcome in failed if isinstance(outcome, TryLater)]
        unanswered = [(item_id, outcome) for item_id, outcome in failed if isinstance(outcome, Unavailable)]
        for item_id, _ in answered:
            self._uncounted.pop(item_id, None)
        own = answered + self._struck(self._uncounted | dict(unanswered))
        counted = {item_id for item_id, _ in own}
        self._row.clear()
        self._uncounted.clear()
        untouched = [item_id for item_id, _ in unanswered if item_id not in counted]
        return Judged(over, own, untouched, closed=closed)

    def _struck(self, failed: Mapping[int, Failure]) -> list[tuple[int, Failure]]:
        """Note that these failed while another got through; return those for which that is once too often."""
        own = []
        for item_id, outcome in failed.items():
            strikes = self._strikes.pop(item_id, 0) + 1
            if strikes >= STRIKES or item_id in self._guilty:
                own.append((item_id, outcome))
                _remember(self._guilty, item_id, None)
            else:
                _remember(self._strikes, item_id, strikes)
        return own

    def _all_failed(self, failed: list[tuple[int, Failure]], now: float) -> Judged:
        self._reason = failed[-1][1].text
        for item_id, _ in failed:
            _remember(self._row, item_id, None)
        unanswered = any(isinstance(outcome, Unavailable) for _, outcome in failed)
        if not self._open and not unanswered and len(self._row) < ROW_OF_FAILURES:
            return Judged(own=failed)
        for item_id, outcome in failed:
            _remember(self._uncounted, item_id, outcome)
        opened, self._open = not self._open, True
        # What was in work when the breaker opened fails late; only a probe moves the next probe.
        if opened or now >= self._probe_at:
            self._failures += 1
            asked = [o.retry_after_seconds or 0.0 for _, o in failed if isinstance(o, TryLater)]
            wait = self._backoff.seconds(self._failures, self._random)
            self._probe_at = now + max(wait, min(max(asked, default=0.0), RETRY_AFTER_SECONDS_MAX))
        return Judged(untouched=[item_id for item_id, _ in failed], opened=opened)


def _remember(memory: OrderedDict[int, V], item_id: int, value: V) -> None:
    memory.pop(item_id, None)
    memory[item_id] = value
    while len(memory) > REMEMBERED_MAX:
        memory.popitem(last=False)
