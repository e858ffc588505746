"""Verdicts on the queue and the posts, for the driver of the stage ``outbox``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from stormjay.ground import timestamps
from tests.cases.judging import Verdict, compare, joined, judge_by

STATES = {"failed for good": "failed", "failed": "failed", "delivered": "delivered", "discarded": "discarded"}
WAITING = {"retry": ("retry", "pending"), "pending": ("pending",), "waiting": ("retry", "pending")}


def judge(expect: dict[str, Any], actual: dict[str, Any]) -> list[Verdict]:
    """Judge the keys that are about the queue and the posts."""
    judges: dict[str, Callable[[Any], list[Verdict]]] = {"outbox_row": lambda wanted: _only_row(wanted, actual)}
    for key in expect:
        if match := re.fullmatch(r"after_cycle_(\d+)", key):
            judges[key] = _judge_cycle(key, int(match[1]), actual)
        elif match := re.fullmatch(r"posts_for_row_(\w+?)(?:_over_all_cycles|_in_cycle_(\d+))?", key):
            judges[key] = _judge_posts(key, match[1], match[2], actual)
        elif match := re.fullmatch(r"rows?_(\w+?)_waits?_for_(\w+)", key):
            judges[key] = _judge_waiting(key, re.split("_(?:and|or)_", match[1]), actual)
    return judge_by(expect, judges)


def _only_row(wanted: dict[str, Any], actual: dict[str, Any]) -> list[Verdict]:
    rows = list(actual["rows"].values())
    if len(rows) != 1:
        return [Verdict.fail("outbox_row", wanted, f"{len(rows)} rows")]
    return compare("outbox_row", wanted, rows[0])


def _judge_cycle(key: str, cycle: int, actual: dict[str, Any]) -> Callable[[Any], list[Verdict]]:
    def judge_rows(wanted: dict[str, dict[str, Any]]) -> list[Verdict]:
        if cycle not in actual["after"]:
            return [Verdict.unknown(key)]
        verdicts: list[Verdict] = []
        for name, expected in wanted.items():
            row = actual["after"][cycle].get(name)
            path = joined(key, name)
            if row is None:
                verdicts.append(Verdict.unknown(path))
                continue
            posts = sum(post["row"] == name and post["cycle"] <= cycle for post in actual["posts"])
            verdicts += [one.under(path) for one in _judge_row(expected, row, posts)]
        return verdicts

    return judge_rows


def _judge_row(expected: dict[str, Any], row: dict[str, Any], posts: int) -> list[Verdict]:
    error = row["last_error"] or ""
    status = re.match(r"AWS API HTTP (\d+): (.*)", error, re.DOTALL)
    return judge_by(
        expected,
        {
            "state": lambda wanted: [_judge_state(wanted, row["status"], posts)],
            "status_kept": lambda wanted: compare("status_kept", wanted, int(status[1]) if status else None),
            "answer_text_kept": lambda wanted: compare("answer_text_kept", wanted, bool(status and status[2])),
            "next_attempt_not_before": lambda wanted: [_judge_not_before(wanted, row["next_attempt_at_utc"])],
            "posts": lambda wanted: compare("posts", wanted, posts),
        }
        | {name: _same(name, row[name]) for name in row},
    )


def _same(name: str, got: Any) -> Callable[[Any], list[Verdict]]:
    return lambda wanted: compare(name, wanted, got)


def _judge_state(wanted: Any, status: str, posts: int) -> Verdict:
    if not isinstance(wanted, str) or wanted not in {*STATES, *WAITING}:
        return Verdict.unknown(f"state ({wanted})")
    if wanted in STATES:
        return Verdict.of("state", holds=status == STATES[wanted], expected=wanted, got=status)
    # A row that was given back untouched while the destination counts as down waits to be tried again, too.
    holds = status in WAITING[wanted] and (wanted != "retry" or status == "retry" or posts > 0)
    return Verdict.of("state", holds=holds, expected=wanted, got=status)


def _judge_not_before(wanted: Any, got: str | None) -> Verdict:
    holds = got is not None and timestamps.to_epoch_us(got) >= timestamps.to_epoch_us(wanted)
    return Verdict.of("next_attempt_not_before", holds=holds, expected=wanted, got=got)


def _judge_posts(key: str, name: str, cycle: str | None, actual: dict[str, Any]) -> Callable[[Any], list[Verdict]]:
    posts = [post for post in actual["posts"] if post["row"] == name and cycle in (None, str(post["cycle"]))]
    if name not in actual["rows"]:
        return lambda _: [Verdict.unknown(key)]
    return lambda wanted: compare(key, wanted, len(posts))


def _judge_waiting(key: str, names: list[str], actual: dict[str, Any]) -> Callable[[Any], list[Verdict]]:
    """Rows wait for others when the first cycle ends without them having been posted."""
    if any(name not in actual["rows"] for name in names):
        return lambda _: [Verdict.unknown(key)]
    posted = {post["row"] for post in actual["posts"] if post["cycle"] == 1}
    return lambda wanted: compare(key, wanted, not posted.issuperset(names))
