"""Waits are values that follow from what has failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stormjay.ground.backoff import WEATHER_SCHEDULE, Backoff, GiveUp, Schedule, Wait, dead_letter_after, spaced
from stormjay.ground.clock import seeded_random

NOW = datetime(2026, 3, 18, 9, tzinfo=UTC)


def _seconds(schedule: Schedule, attempts: int, retry_after_seconds: float | None = None) -> float:
    decision = schedule.after_failure(attempts, NOW, retry_after_seconds)
    assert isinstance(decision, Wait)
    return (decision.due - NOW).total_seconds()


def test_the_seed_schedule() -> None:
    assert [_seconds(WEATHER_SCHEDULE, attempts) for attempts in (1, 2, 3, 4, 5, 10_000)] == [
        30,
        120,
        600,
        1800,
        1800,
        1800,
    ]


@pytest.mark.parametrize(("asked", "seconds"), [(None, 30), (0, 30), (7, 30), (45.5, 45.5), (10**9, 3600), (-5, 30)])
def test_retry_after_lengthens_a_wait_up_to_a_bound(asked: float | None, seconds: float) -> None:
    assert _seconds(WEATHER_SCHEDULE, 1, asked) == seconds


def test_spacing_and_threshold() -> None:
    schedule = dead_letter_after(spaced(30), attempts=5)
    assert [_seconds(schedule, attempts) for attempts in (1, 2, 3, 4)] == [30, 30, 30, 30]
    assert schedule.after_failure(5, NOW) == GiveUp(5)


@pytest.mark.parametrize("arguments", [{"delays_seconds": ()}, {"delays_seconds": (-1.0,)}, {"attempts_max": 0}])
def test_a_schedule_that_makes_no_sense_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Schedule(**arguments)  # type: ignore[arg-type]  # wrong on purpose


def test_backoff_grows_to_its_cap_and_is_spread() -> None:
    even = Backoff(first_seconds=1, cap_seconds=60, jitter=0)
    assert [even.seconds(failures, seeded_random(1)) for failures in (0, 1, 2, 3, 7, 100_000)] == [1, 1, 2, 4, 60, 60]
    randomness = seeded_random(1)
    waits = [Backoff(first_seconds=10, cap_seconds=60, jitter=0.2).seconds(1, randomness) for _ in range(50)]
    assert all(8 <= wait <= 10 for wait in waits)
    assert len(set(waits)) > 40
    assert timedelta(seconds=max(waits)) > timedelta(seconds=min(waits))
