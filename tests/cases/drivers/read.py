"""Stage ``read``: observations are stored through the real ingest route and asked for through the real read route.

The requests of a case are query strings as they stand on the wire; only ``stationId`` is added.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path
from typing import Any

from stormjay.ground import timestamps
from stormjay.ground.clock import ManualClock
from tests.cases.judging import CannotDrive, Verdict, judge_by, matches
from tests.servers.cloud import STATION, body_of, cloud

KNOWN = {"stage", "note", "because", "stored_source_ts_utc", "requests"}
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
SHAPES = ((re.compile(r"\d\d:\d\d"), slice(11, 16)), (re.compile(r"\d\d:\d\d:\d\d"), slice(11, 19)))
"""How a case may shorten a time, and the part of the whole one that this is."""


def drive(given: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - the drivers' interface
    """Store and ask; return for each request its status and the source times in the order of the answer.

    Raises:
        CannotDrive: A part of ``given`` is not understood.
    """
    for key in given:
        if key not in KNOWN:
            raise CannotDrive(key)
    return asyncio.run(_run(given.get("stored_source_ts_utc", []), given.get("requests", [])))


async def _run(stored: list[Any], requests: list[str]) -> dict[str, Any]:
    newest_us = max((timestamps.to_epoch_us(moment) for moment in stored), default=timestamps.PLAUSIBLE_FROM_US)
    clock = ManualClock(timestamps.to_datetime(newest_us))
    answers: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        async with cloud(Path(folder) / "cloud.db", clock=clock) as bench:
            for number, moment in enumerate(stored):
                answer = await bench.post(body_of(msg_id=number, source_ts_utc=moment))
                if answer.status_code != 200:
                    raise CannotDrive(f"stored_source_ts_utc[{number}]")
            for request in requests:
                answer = await bench.client.get(f"http://cloud/observations?stationId={STATION}&{request}")
                items = answer.json().get("items", [])
                moments = [item["source_ts_utc"] for item in items]
                ascending = answer.json().get("order") == "asc" or answer.json().get("mode") == "sampled"
                answers.append(
                    {
                        "status": answer.status_code,
                        "items": len(items),
                        "times": moments[::-1] if ascending else moments,
                    }
                )
    return {"answers": answers}


def judge(expect: dict[str, Any], actual: dict[str, Any]) -> list[Verdict]:
    """Judge the keys that are about answers of the read route."""
    answers = actual["answers"]
    judges = {
        "results_newest_first": lambda wanted: _judge_results("results_newest_first", wanted, answers),
        "statuses": lambda wanted: [
            Verdict.of(
                "statuses",
                holds=matches(wanted, [answer["status"] for answer in answers]),
                expected=wanted,
                got=[answer["status"] for answer in answers],
            )
        ],
    }
    for key in expect:
        match = re.fullmatch(r"(first|last)_(\w+)_never", key)
        if match and match[2] in NUMBERS:
            count = NUMBERS.index(match[2])
            chosen = answers[:count] if match[1] == "first" else answers[-count:]
            judges[key] = _never(key, chosen)
    return judge_by(expect, judges)


def _judge_results(key: str, wanted: list[Any], answers: list[dict[str, Any]]) -> list[Verdict]:
    if len(wanted) != len(answers):
        return [Verdict.fail(key, f"{len(wanted)} results", f"{len(answers)} results")]
    verdicts = []
    for number, (expected, answer) in enumerate(zip(wanted, answers, strict=True)):
        got = _shown_like(expected, answer)
        verdicts.append(Verdict.of(f"{key}[{number}]", holds=matches(expected, got), expected=expected, got=got))
    return verdicts


def _shown_like(expected: Any, answer: dict[str, Any]) -> Any:
    """Return an answer's times in the shortness that the case has them in, or its status."""
    if answer["status"] != 200:
        return str(answer["status"])
    first = expected[0] if isinstance(expected, list) and expected else ""
    for shape, part in SHAPES:
        if isinstance(first, str) and shape.fullmatch(first):
            return [moment[part] for moment in answer["times"]]
    return answer["times"]


def _never(key: str, answers: list[dict[str, Any]]) -> Any:
    def judged(unwanted: dict[str, Any]) -> list[Verdict]:
        strange = set(unwanted) - {"status", "items"}
        if strange:
            return [Verdict.unknown(f"{key}.{name}") for name in sorted(strange)]
        met = [answer for answer in answers if matches(unwanted, answer)]
        return [Verdict.of(key, holds=not met, expected=f"never {unwanted}", got=met)]

    return judged
