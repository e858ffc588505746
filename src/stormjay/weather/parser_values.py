"""Coercions of single JSON values, each with the reason it refuses with (contract weather 4.2, DESIGN.md decision 5).

Numeric text counts as a number, in the spellings that Python's ``int`` and ``float`` take. Booleans never do, and
neither does what is not finite: true would become 1, and NaN would pass every comparison that asks for too much.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from stormjay.ground import timestamps

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
"""What SQLite can hold; a larger number once ended in an overflow and a lost packet (fault B15)."""
SOURCE_TIME_IMPLAUSIBLE = "source_time_implausible"
_SHOWN_MAX = 60
_EXPONENT_FROM = 1e16


class Refusal(Exception):  # noqa: N818 - it is a value on its way to the ledger, not a fault of the program
    """The packet is refused; the text is the reason that the ledger shows."""


def clean(text: str) -> str:
    """Return the text with lone surrogates written out, which JSON can name but UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object) -> str:
    """Return a value for a reason text, cut to a readable length."""
    text = clean(repr(value))
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


def required(document: Mapping[str, Any], key: str) -> object:
    """Return the value under ``key``.

    Raises:
        Refusal: The key is absent; the reason is the key in quotes, as the seed's parser says it.
    """
    if key not in document:
        raise Refusal(repr(key))
    return document[key]


def to_float(key: str, value: object) -> float:
    """Return the number, which may still be infinite or NaN: no range holds those.

    Raises:
        Refusal: It is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Refusal(f"{key} must be a number, not {_kind(value)}")
    try:
        return float(value)
    except OverflowError:  # a whole number beyond 1e308
        return math.inf
    except ValueError as error:
        raise Refusal(f"{key} is not a number: {shown(value)}") from error


def to_int(key: str, value: object) -> int:
    """Return the whole number; a fraction is cut off, as the seed's parser does.

    Raises:
        Refusal: It is no number, not finite, or text with a fraction.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Refusal(f"{key} must be a whole number, not {_kind(value)}")
    try:
        return int(value)
    except (ValueError, OverflowError) as error:
        raise Refusal(f"{key} is not a whole number: {shown(value)}") from error


def storable(value: int, reason: str) -> int:
    """Return the number when SQLite can hold it.

    Raises:
        Refusal: With the reason given.
    """
    if not INT64_MIN <= value <= INT64_MAX:
        raise Refusal(reason)
    return value


def message_id(document: Mapping[str, Any]) -> int:
    """Return the required message number ``i``.

    Raises:
        Refusal: It is absent, no whole number, or too large to store.
    """
    return storable(to_int("i", required(document, "i")), "msg_id_out_of_range")


def message_id_if_any(document: Mapping[str, Any]) -> int | None:
    """Return ``i`` of a packet that is refused: only when it is a whole number that can be stored."""
    value = document.get("i")
    if isinstance(value, bool) or not isinstance(value, int) or not INT64_MIN <= value <= INT64_MAX:
        return None
    return value


def optional_int(document: Mapping[str, Any], key: str) -> int | None:
    """Return the whole number under ``key``, None when it is absent or null.

    Raises:
        Refusal: It is something else.
    """
    value = document.get(key)
    return None if value is None else to_int(key, value)


def optional_float(document: Mapping[str, Any], key: str) -> float | None:
    """Return the number under ``key``, None when it is absent or null.

    Raises:
        Refusal: It is something else.
    """
    value = document.get(key)
    return None if value is None else to_float(key, value)


def optional_text(document: Mapping[str, Any], key: str) -> str | None:
    """Return the value under ``key`` as text, None when it is absent or null."""
    value = document.get(key)
    return None if value is None else clean(value if isinstance(value, str) else str(value))


def optional_json(document: Mapping[str, Any], key: str, reason: str) -> str | None:
    """Return the value under ``key`` as compact JSON, None when it is absent or null.

    Raises:
        Refusal: It holds a number that is not finite, which JSON cannot say.
    """
    value = document.get(key)
    if value is None:
        return None
    try:
        return clean(json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False))
    except ValueError as error:
        raise Refusal(reason) from error


def time_text(document: Mapping[str, Any]) -> str | None:
    """Return the source time ``ts`` as text, stripped; None when it is absent, null or empty."""
    value = document.get("ts")
    if isinstance(value, float) and math.isfinite(value):
        return repr(value) if abs(value) < _EXPONENT_FROM else f"{value:.1f}"  # the cloud takes no exponent
    text = optional_text(document, "ts")
    return None if text is None else text.strip() or None


def plausible_us(text: str, captured_us: int) -> int:
    """Return the instant that a source time names.

    Raises:
        Refusal: It cannot be understood, or lies outside 2000-01-01 to 24 hours after the capture (case W4).
    """
    try:
        epoch_us = timestamps.to_epoch_us(text)
    except timestamps.TimestampError as error:
        raise Refusal(SOURCE_TIME_IMPLAUSIBLE) from error
    if not timestamps.is_plausible(epoch_us, captured_us):
        raise Refusal(SOURCE_TIME_IMPLAUSIBLE)
    return epoch_us


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else type(value).__name__
