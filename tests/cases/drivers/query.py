"""Stage ``query``, as far as it is about times: values of ``start_time`` go through the one reader of query times."""

from __future__ import annotations

from typing import Any

from stormjay.ground import timestamps
from tests.cases.judging import CannotDrive, Verdict, compare, judge_by

KNOWN = {"stage", "note", "because", "start_time_values"}
OF_INGEST = {"observation_times"}
REFUSED = "400"


def drive(given: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - the drivers' interface
    """Return each value's milliseconds since 1970, or the status that it is refused with.

    Raises:
        CannotDrive: A part of ``given`` is not understood.
    """
    combined = "ingest" in str(given.get("stage"))
    for key in given:
        if key not in KNOWN and not (combined and key in OF_INGEST):
            raise CannotDrive(key)
    return {"normalised_ms": [_normalised(value) for value in given.get("start_time_values", [])]}


def _normalised(value: Any) -> float | str:
    try:
        epoch_us = timestamps.from_query(value) if isinstance(value, str) else timestamps.to_epoch_us(value)
    except timestamps.TimestampError:
        return REFUSED
    return epoch_us // 1000 if epoch_us % 1000 == 0 else epoch_us / 1000


def judge(expect: dict[str, Any], actual: dict[str, Any]) -> list[Verdict]:
    """Judge the keys that are about times of queries; whoever gets here has returned for every value."""
    return judge_by(
        expect,
        {
            "normalised_ms": lambda wanted: compare("normalised_ms", wanted, actual["normalised_ms"]),
            "returns_for_every_value": lambda wanted: compare("returns_for_every_value", wanted, True),  # noqa: FBT003 - the value
        },
    )
