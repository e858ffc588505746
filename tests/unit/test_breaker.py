"""The breaker tells the far side's failures from an item's own (CONVERGENCE.md, outbox; fault B11)."""

from __future__ import annotations

from stormjay.ground.backoff import Backoff
from stormjay.ground.clock import seeded_random
from stormjay.ground.outbox.breaker import PROBES_SKIPPED_MAX, REMEMBERED_MAX, Breaker
from stormjay.ground.outbox.port import Delivered, Outcome, Refused, TryLater, Unavailable

OK = Delivered()
BUSY = TryLater("AWS API HTTP 503: busy")
SILENT = Unavailable("AWS API timeout")
BAD = Refused(400, "AWS API HTTP 400: bad")


def _breaker() -> Breaker:
    return Breaker(Backoff(first_seconds=2, cap_seconds=60, jitter=0), seeded_random(1))


def _own(breaker: Breaker, now: float, *outcomes: tuple[int, Outcome]) -> list[int]:
    return [item_id for item_id, _ in breaker.judge(outcomes, now).own]


def test_a_lone_failure_counts_against_its_item() -> None:
    breaker = _breaker()
    judged = breaker.judge([(1, BUSY)], 0)
    assert judged.own == [(1, BUSY)]
    assert not judged.opened
    assert _own(breaker, 0, (1, BUSY)) == [1], "the same item again is still alone"
    assert _own(breaker, 0, (1, BUSY)) == [1]
    assert not breaker.is_open


def test_a_broken_line_opens_at_once_and_counts_against_nobody() -> None:
    breaker = _breaker()
    judged = breaker.judge([(1, SILENT)], 0)
    assert (judged.opened, judged.untouched, judged.own) == (True, [1], [])
    assert breaker.reason == "AWS API timeout"


def test_three_different_items_in_a_row_open() -> None:
    breaker = _breaker()
    assert _own(breaker, 0, (1, BUSY)) == [1]
    assert _own(breaker, 0, (2, BUSY)) == [2]
    judged = breaker.judge([(3, BUSY)], 0)
    assert (judged.opened, judged.untouched) == (True, [3])


def test_a_success_between_ends_the_row() -> None:
    breaker = _breaker()
    for outcomes in ([(1, BUSY)], [(2, BUSY)], [(9, OK)], [(3, BUSY)], [(4, BUSY)]):
        assert not breaker.judge(outcomes, 0).opened
    assert breaker.judge([(5, BUSY)], 0).opened


def test_a_refusal_is_an_answer_and_final() -> None:
    breaker = _breaker()
    breaker.judge([(1, SILENT)], 0)
    judged = breaker.judge([(2, BAD)], 2)
    assert judged.over == [(2, BAD)]
    assert judged.closed


def test_while_open_nothing_moves_and_probes_come_ever_more_seldom() -> None:
    breaker = _breaker()
    breaker.judge([(1, SILENT)], 0)
    now, waits = 0.0, []
    for item_id in range(2, 9):
        waits.append(breaker.seconds_to_probe(now))
        now += waits[-1]
        judged = breaker.judge([(item_id, BUSY)], now)
        assert (judged.own, judged.untouched) == ([], [item_id])
    assert waits == [2, 4, 8, 16, 32, 60, 60]


def test_what_was_in_work_when_it_opened_does_not_delay_the_probe() -> None:
    breaker = _breaker()
    breaker.judge([(1, SILENT)], 0)
    for item_id in range(2, 30):
        assert breaker.judge([(item_id, SILENT)], 1).untouched == [item_id]
    assert breaker.seconds_to_probe(1) == 1


def test_the_next_probe_takes_another_item() -> None:
    breaker = _breaker()
    breaker.judge([(1, SILENT), (2, SILENT)], 0)
    assert breaker.skip_when_probing() == [1, 2]
    for item_id in range(3, 500):
        breaker.judge([(item_id, SILENT)], 1e6 * item_id)
    assert len(breaker.skip_when_probing()) == PROBES_SKIPPED_MAX


def test_an_outage_counts_against_nobody_when_it_ends() -> None:
    breaker = _breaker()
    breaker.judge([(1, SILENT), (2, SILENT)], 0)
    judged = breaker.judge([(3, OK)], 2)
    assert (judged.closed, judged.own) == (True, [])
    assert breaker.judge([(1, OK), (2, OK)], 2).own == []
    assert breaker.at_fault() == []


def test_who_keeps_failing_while_others_get_through_is_counted_alone() -> None:
    breaker = _breaker()
    breaker.judge([(1, SILENT)], 0)
    assert _own(breaker, 2, (2, OK)) == []
    assert breaker.judge([(1, SILENT)], 10).opened
    judged = breaker.judge([(3, OK)], 12)
    assert judged.own == [(1, SILENT)]
    assert breaker.at_fault() == [1], "it is not woken with the others"
    breaker.judge([(1, SILENT)], 50)
    assert _own(breaker, 52, (4, OK)) == [1], "known by now: each failure counts"
    breaker.judge([(1, OK)], 60)
    assert breaker.at_fault() == []


def test_a_group_is_judged_together() -> None:
    breaker = _breaker()
    judged = breaker.judge([(1, OK), (2, BUSY), (3, BAD), (4, BUSY), (5, BUSY)], 0)
    assert [item_id for item_id, _ in judged.over] == [1, 3]
    assert [item_id for item_id, _ in judged.own] == [2, 4, 5]
    assert not judged.opened
    judged = breaker.judge([(2, BUSY), (4, BUSY), (5, BUSY)], 0)
    assert (judged.opened, judged.own) == (True, [])


def test_retry_after_of_a_probe_is_kept_within_a_bound() -> None:
    breaker = _breaker()
    breaker.judge([(1, SILENT)], 0)
    breaker.judge([(2, TryLater("429", 90))], 2)
    assert breaker.seconds_to_probe(2) == 90
    breaker.judge([(2, TryLater("429", 10**9))], 92)
    assert breaker.seconds_to_probe(92) == 3600


def test_its_memory_is_bounded() -> None:
    breaker = _breaker()
    for item_id in range(3 * REMEMBERED_MAX):
        breaker.judge([(item_id, SILENT)], item_id)
    breaker.judge([(-1, OK)], 0)
    assert len(breaker._strikes) == REMEMBERED_MAX
    assert breaker.judge([], 0) == breaker.judge([], 1)
