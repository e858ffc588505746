"""Verdicts on the single keys of a case's ``expect``, and the comparisons that the cases have in common.

The rules (numbers to 1e-6, ``near``, ``one_of``, null is no value) are those of the cases' own description.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

TOLERANCE = 1e-6
"""How far a number may lie from the expected one; very large ones get what the precision of a float allows."""

_PRECISION = 1e-12

MISSING = "(nothing)"
"""What a verdict shows as ``got`` when the product gave no value at all."""


class Outcome(StrEnum):
    """What one verdict says."""

    OK = "ok"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


class CannotDrive(Exception):  # noqa: N818 - says what happened; it is no fault of the product
    """The driver does not know what to do with a part of ``given``; the case is then unknown, not passed.

    Attributes:
        key: The part, as a dotted path.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"given.{key}")
        self.key = key


@dataclass(frozen=True)
class Verdict:
    """The judgement on one key of ``expect``.

    Attributes:
        key: Dotted path inside ``expect``.
        outcome: Whether it holds, does not hold, or nobody can judge it.
        expected: What should have been.
        got: What was.
    """

    key: str
    outcome: Outcome
    expected: Any = None
    got: Any = None

    @classmethod
    def ok(cls, key: str) -> Verdict:
        """Return the verdict that the key holds."""
        return cls(key, Outcome.OK)

    @classmethod
    def fail(cls, key: str, expected: object, got: object) -> Verdict:
        """Return the verdict that the key does not hold."""
        return cls(key, Outcome.FAIL, expected, got)

    @classmethod
    def unknown(cls, key: str) -> Verdict:
        """Return the verdict that the driver has no way to judge the key."""
        return cls(key, Outcome.UNKNOWN)

    @classmethod
    def of(cls, key: str, *, holds: bool, expected: object, got: object) -> Verdict:
        """Return ok or fail, by ``holds``."""
        return cls.ok(key) if holds else cls.fail(key, expected, got)

    def under(self, prefix: str) -> Verdict:
        """Return the same verdict with its key one level deeper."""
        return replace(self, key=joined(prefix, self.key))


def joined(prefix: str, key: str) -> str:
    """Return the dotted path of ``key`` inside ``prefix``; either may be empty."""
    return f"{prefix}.{key}" if prefix and key else prefix or key


def is_number(value: object) -> bool:
    """Tell whether the value is a number in the sense of JSON: true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def close(expected: float, got: object, tolerance: float | None = None) -> bool:
    """Tell whether ``got`` is a finite number near ``expected``.

    Args:
        expected: The right value.
        got: Anything; what is no finite number is not close.
        tolerance: The allowed absolute distance; None is the cases' general one.
    """
    if not isinstance(got, int | float) or isinstance(got, bool) or not math.isfinite(got):
        return False
    if tolerance is None:
        return math.isclose(expected, got, rel_tol=_PRECISION, abs_tol=TOLERANCE)
    return abs(got - expected) <= tolerance * (1 + TOLERANCE)


def matches(expected: object, got: object) -> bool:
    """Tell whether the whole value is as expected: numbers by ``close``, null as no value, lists in their order.

    A mapping matches when each key it names matches; what it does not name is free. A mapping of the one key
    ``one_of`` matches when one of the listed values does, one of the one key ``near`` when the number lies within
    the tolerance that stands beside it.
    """
    if isinstance(expected, Mapping):
        if set(expected) == {"one_of"}:
            return any(matches(choice, got) for choice in expected["one_of"])
        if set(expected) == {"near"} and isinstance(expected["near"], Sequence):
            value, tolerance = expected["near"]
            return close(value, got, tolerance)
        return isinstance(got, Mapping) and all(matches(value, got.get(key)) for key, value in expected.items())
    if isinstance(expected, list):
        return (
            isinstance(got, list | tuple)
            and len(got) == len(expected)
            and all(matches(one, other) for one, other in zip(expected, got, strict=True))
        )
    if is_number(expected):
        return close(expected, got)  # type: ignore[arg-type]  # is_number said so
    return type(expected) is type(got) and expected == got


def compare(key: str, expected: object, got: object, *, names: Collection[str] | None = None) -> list[Verdict]:
    """Judge one value, descending into mappings, so that each nested key has its own verdict.

    Args:
        key: Dotted path of the value.
        expected: What the case says.
        got: What the product gave.
        names: For mappings, all names that a key can have in the product. A key that is neither in ``got`` nor
            among the names cannot be judged; one among the names that ``got`` lacks has no value.
    """
    if not isinstance(expected, Mapping) or set(expected) in ({"one_of"}, {"near"}):
        return [Verdict.of(key, holds=matches(expected, got), expected=expected, got=shown(got))]
    if not isinstance(got, Mapping):
        return [Verdict.fail(key, expected, shown(got))]
    verdicts: list[Verdict] = []
    for name, value in expected.items():
        path = joined(key, str(name))
        if name in got or (names is not None and name in names):
            verdicts += compare(path, value, got.get(name), names=names)
        else:
            verdicts.append(Verdict.unknown(path))
    return verdicts


def compare_near(key: str, expected: Mapping[str, Sequence[float]], got: Mapping[str, Any]) -> list[Verdict]:
    """Judge a section that gives for each name a value and the tolerance around it."""
    return [
        Verdict.of(
            joined(key, name),
            holds=close(value, got.get(name), tolerance),
            expected=[value, tolerance],
            got=got.get(name, MISSING),
        )
        for name, (value, tolerance) in expected.items()
    ]


def judge_by(expect: Mapping[str, Any], judges: Mapping[str, Callable[[Any], list[Verdict]]]) -> list[Verdict]:
    """Give each key of ``expect`` to the function of that name; keys without one are unknown.

    Args:
        expect: The case's expectation, or a section of it.
        judges: By key, a function that takes the expected value and returns the verdicts on it.
    """
    verdicts: list[Verdict] = []
    for key, expected in expect.items():
        judge = judges.get(key)
        verdicts += [Verdict.unknown(key)] if judge is None else judge(expected)
    return verdicts


def shown(value: object) -> object:
    """Return the value for a message, with a word in place of None."""
    return MISSING if value is None else value
