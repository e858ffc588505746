"""How long to wait before trying again, as values and pure functions.

A ``Schedule`` serves stored items: the wait follows from how many attempts have failed. A ``Backoff`` serves links and
probes: waits double up to a cap and are spread by jitter, so that many clients do not come back in step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

RETRY_AFTER_SECONDS_MAX = 3_600.0
"""A far side that asks for more is asked again after this; asking costs it little, and clocks and headers err."""
_EXPONENT_MAX = 64


@dataclass(frozen=True)
class Wait:
    """Try again, not before ``due``."""

    due: datetime


@dataclass(frozen=True)
class GiveUp:
    """Do not try again.

    Attributes:
        attempts: How many attempts have failed.
    """

    attempts: int


Decision = Wait | GiveUp


@dataclass(frozen=True)
class Schedule:
    """Waits of a stored item.

    Attributes:
        delays_seconds: Wait after the first, second, ... failed attempt; the last one holds from there on.
        attempts_max: Own failures after which the item is given up, or None for never.
    """

    delays_seconds: tuple[float, ...] = (30.0, 120.0, 600.0, 1800.0)
    attempts_max: int | None = None

    def __post_init__(self) -> None:
        if not self.delays_seconds or min(self.delays_seconds) < 0:
            raise ValueError("a schedule has at least one delay, none below zero")
        if self.attempts_max is not None and self.attempts_max < 1:
            raise ValueError("an item is tried at least once")

    def after_failure(self, attempts: int, now: datetime, retry_after_seconds: float | None = None) -> Decision:
        """Decide what follows a failed attempt.

        Args:
            attempts: Failed attempts, this one included.
            now: When it failed.
            retry_after_seconds: What the far side asked for; it lengthens a wait, up to ``RETRY_AFTER_SECONDS_MAX``.
        """
        if self.attempts_max is not None and attempts >= self.attempts_max:
            return GiveUp(attempts)
        delay = self.delays_seconds[min(max(attempts, 1), len(self.delays_seconds)) - 1]
        asked = min(max(retry_after_seconds or 0.0, 0.0), RETRY_AFTER_SECONDS_MAX)
        return Wait(now + timedelta(seconds=max(delay, asked)))


WEATHER_SCHEDULE = Schedule()
"""30, 120, 600, then 1800 seconds for ever (seed weather 3.3)."""


def dead_letter_after(schedule: Schedule, attempts: int) -> Schedule:
    """Return the schedule that gives an item up after so many failures of its own."""
    return replace(schedule, attempts_max=attempts)


def spaced(seconds: float) -> Schedule:
    """Return the schedule with one minimum spacing between all attempts of an item."""
    return Schedule(delays_seconds=(seconds,))


@dataclass(frozen=True)
class Backoff:
    """Waits of a link or a probe.

    Attributes:
        first_seconds: Wait after the first failure.
        cap_seconds: Longest wait.
        factor: How much each wait grows.
        jitter: Part of each wait that is random: 0.2 gives 80 to 100 % of it.
    """

    first_seconds: float = 1.0
    cap_seconds: float = 60.0
    factor: float = 2.0
    jitter: float = 0.2

    def seconds(self, failures: int, randomness: random.Random) -> float:
        """Return how long to wait after so many failures in a row (1 for the first)."""
        exponent = max(failures, 1) - 1
        # A long outage counts thousands of failures; the power must not overflow.
        grown = self.first_seconds * self.factor ** min(exponent, _EXPONENT_MAX)
        whole = min(self.cap_seconds, grown)
        return whole * (1.0 - self.jitter * randomness.random())
