"""Times at the door: every spelling the seeds accept comes in, one fixed-width form goes out.

Accepted: ISO 8601 with any offset, and epoch numbers (as number or text) whose unit follows from their size once and
for all: below 1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds (DESIGN.md decision 2,
contract weather 6.2). Out goes ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, whose text order is time order.

Everything is reckoned in whole microseconds as integers, so that no spelling loses a digit to a float.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - text of a UTC instant is made from the naive one, without its "+00:00"
PLAUSIBLE_FROM_US = 946_684_800_000_000
"""2000-01-01T00:00:00Z; a controller with an unset clock counts from 1970 (case W4)."""
PLAUSIBLE_AHEAD = timedelta(hours=24)
_AHEAD_US = 86_400_000_000
_SECONDS_BELOW, _MILLISECONDS_BELOW, _MICROSECONDS_BELOW = 10**11, 10**14, 10**17
_MIN_US = -62_135_596_800_000_000  # 0001-01-01T00:00:00Z
_MAX_US = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999Z, the last that fits the fixed width
_MAX_NS = _MAX_US * 1000 + 999
_EPOCH_TEXT = re.compile(r"-?[0-9]{1,25}(?:\.[0-9]{1,25})?", re.ASCII)
_TORN_OFFSET = re.compile(r"(.*\d) (\d\d:?\d\d)$")


class TimestampError(ValueError):
    """A time that cannot be understood; the text completes a sentence that begins with the field's name."""


def to_epoch_us(value: object) -> int:
    """Return the instant that ``value`` names, in microseconds since 1970 in UTC.

    Args:
        value: An int or float epoch, or text with an epoch or an ISO 8601 time that carries its zone.

    Raises:
        TimestampError: With the reason in the words of contract weather 6.1.
    """
    if isinstance(value, bool):
        raise TimestampError("must be an ISO-8601 UTC string or epoch number")
    if isinstance(value, int):
        return _scaled(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TimestampError("epoch is out of range")
        return _scaled(Decimal(repr(value)))
    if isinstance(value, str):
        return _from_text(value.strip())
    raise TimestampError("must be an ISO-8601 UTC string or epoch number")


def _scaled(number: int | Decimal) -> int:
    if number < 0:
        raise TimestampError("epoch must be non-negative")
    if number > _MAX_NS:
        raise TimestampError("epoch is out of range")
    if number < _SECONDS_BELOW:
        us = number * 1_000_000
    elif number < _MILLISECONDS_BELOW:
        us = number * 1000
    elif number < _MICROSECONDS_BELOW:
        us = number
    else:
        us = number // 1000
    if us > _MAX_US:
        raise TimestampError("epoch is out of range")
    return int(us)


def _from_text(text: str) -> int:
    if not text:
        raise TimestampError("must not be empty")
    if _EPOCH_TEXT.fullmatch(text):
        return _scaled(Decimal(text) if "." in text else int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise TimestampError(
            "must be an ISO-8601 UTC string like 2026-03-18T00:45:46.982324Z or an epoch number"
        ) from error
    if moment.tzinfo is None:
        raise TimestampError("must include timezone information")
    return from_datetime(moment)


def from_datetime(moment: datetime) -> int:
    """Return microseconds since 1970 of an aware moment.

    Raises:
        TimestampError: When the moment carries no zone, or its UTC form leaves the years 1 to 9999.
    """
    if moment.tzinfo is None:
        raise TimestampError("must include timezone information")
    us = (moment - EPOCH) // timedelta(microseconds=1)
    if not _MIN_US <= us <= _MAX_US:
        raise TimestampError("is out of range")
    return us


def format_us(epoch_us: int) -> str:
    """Return the one output form, ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, of microseconds since 1970."""
    return (_NAIVE_EPOCH + timedelta(microseconds=epoch_us)).isoformat(timespec="microseconds") + "Z"


def format_utc(moment: datetime) -> str:
    """Return the one output form of an aware moment."""
    return format_us(from_datetime(moment))


def to_datetime(epoch_us: int) -> datetime:
    """Return microseconds since 1970 as an aware moment in UTC."""
    return EPOCH + timedelta(microseconds=epoch_us)


def normalise(value: object) -> str:
    """Return any accepted spelling of a time in the one output form.

    Raises:
        TimestampError: When it cannot be understood.
    """
    return format_us(to_epoch_us(value))


def from_query(text: str) -> int:
    """Return the instant of a query parameter; a blank before an offset is the plus sign that the URL lost (case X2).

    Raises:
        TimestampError: When it cannot be understood.
    """
    torn = _TORN_OFFSET.fullmatch(text.strip())
    if torn and ("T" in torn[1] or ":" in torn[1]):
        return to_epoch_us(f"{torn[1]}+{torn[2]}")
    return to_epoch_us(text)


def is_plausible(epoch_us: int, captured_us: int) -> bool:
    """Tell whether a source time lies from 2000-01-01 to 24 hours after its capture (DESIGN.md decision 2)."""
    return PLAUSIBLE_FROM_US <= epoch_us <= captured_us + _AHEAD_US
