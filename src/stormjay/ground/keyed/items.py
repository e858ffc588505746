"""What makes an item, a key and a range acceptable: one set of rules for every adapter.

The bounds are DynamoDB's own (its developer guide, "Constraints"), so that what is stored at home can be stored there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stormjay.errors import BadRequest, TooLarge
from stormjay.ground.keyed.port import LIMIT_MAX, RANKS_MAX, ColumnType, Document, Key, TableSpec

ITEM_BYTES_MAX = 400 * 1024
PARTITION_KEY_BYTES_MAX = 2048
SORT_KEY_BYTES_MAX = 1024
DEPTH_MAX = 32
DIGITS_MAX = 38
_GREATEST = 9.999e125
_SMALLEST = 1e-130
_INT64 = 2**63
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True)
class Checked:
    """A document that may be stored.

    Attributes:
        key: Where it goes.
        json: Its stored form.
        values: The declared columns in the order of the table's declaration; None where the document has none.
    """

    key: Key
    json: bytes
    values: tuple[str | int | float | None, ...]


def check(document: Document, spec: TableSpec) -> Checked:
    """Return the document ready for storing.

    Raises:
        BadRequest: ``invalid_key`` or ``invalid_item``, with what is wrong.
        TooLarge: ``item_too_large``.
    """
    key = Key(document.get(spec.partition_key, ""), document.get(spec.sort_key, ""))
    check_key(key.partition, key.sort, spec)
    size = _size_bytes(document, 0)
    if size > ITEM_BYTES_MAX:
        raise TooLarge("item_too_large", f"the item has {size} bytes, at most {ITEM_BYTES_MAX} can be stored")
    values = tuple(_typed(document.get(name), name, kind) for name, kind in spec.columns.items())
    return Checked(key, _ENCODER.encode(document), values)


def check_key(partition: object, sort: object, spec: TableSpec) -> None:
    """Refuse keys that are no texts, empty, or too long.

    Raises:
        BadRequest: ``invalid_key``.
    """
    for name, value, bytes_max in (
        (spec.partition_key, partition, PARTITION_KEY_BYTES_MAX),
        (spec.sort_key, sort, SORT_KEY_BYTES_MAX),
    ):
        if not isinstance(value, str) or not value:
            raise BadRequest("invalid_key", f"{name} must be a text that is not empty")
        if len(_utf8(value, "invalid_key", name)) > bytes_max:
            raise BadRequest("invalid_key", f"{name} is longer than {bytes_max} bytes")


def check_range(partition: str, low: str | None, high: str | None, spec: TableSpec) -> None:
    """Refuse a range that DynamoDB refuses.

    Raises:
        BadRequest: ``invalid_key`` or ``invalid_range``.
    """
    for bound in (low, high):
        check_key(partition, spec.sort_key if bound is None else bound, spec)
    if low is not None and high is not None and low > high:
        raise BadRequest("invalid_range", f"the range ends ({high}) before it begins ({low})")


def check_start(after: Key | None, partition: str, low: str | None, high: str | None) -> None:
    """Refuse a start key that lies outside what is asked for.

    Raises:
        BadRequest: ``invalid_start_key``.
    """
    if after is None:
        return
    inside = (low is None or low <= after.sort) and (high is None or after.sort <= high)
    if after.partition != partition or not after.sort or not inside:
        raise BadRequest("invalid_start_key", "the start key does not belong to this partition and range")


def check_limit(limit: int) -> None:
    """Refuse a limit outside 1 to ``LIMIT_MAX``.

    Raises:
        BadRequest: ``invalid_limit``.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise BadRequest("invalid_limit", f"limit must be between 1 and {LIMIT_MAX}")


def check_ranks(ranks: Sequence[int]) -> None:
    """Refuse places that are negative, not ascending, or too many.

    Raises:
        BadRequest: ``invalid_ranks``.
    """
    ascending = all(before < after for before, after in itertools.pairwise(ranks))
    if len(ranks) > RANKS_MAX or not ascending or (ranks and ranks[0] < 0):
        raise BadRequest("invalid_ranks", f"at most {RANKS_MAX} places, from 0 up, each once")


def check_attribute(attribute: str, spec: TableSpec) -> ColumnType:
    """Return the type of a declared column.

    Raises:
        BadRequest: ``invalid_attribute``.
    """
    kind = spec.columns.get(attribute)
    if kind is None:
        raise BadRequest("invalid_attribute", f"{attribute} is no declared column of {spec.name}")
    return kind


def check_version(document: Document, attribute: str, expected: int | str | None, spec: TableSpec) -> None:
    """Refuse an expected version that the column could never hold.

    Raises:
        BadRequest: ``invalid_attribute`` or ``invalid_item``.
    """
    kind = check_attribute(attribute, spec)
    if expected is not None:
        _typed(expected, attribute, kind)
    if document.get(attribute) is None:
        raise BadRequest("invalid_item", f"the item has no {attribute}")


def _typed(value: object, name: str, kind: ColumnType) -> str | int | float | None:
    if value is None:
        return None
    if kind == "TEXT" and isinstance(value, str):
        return value
    if kind == "INTEGER" and isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
        return value
    if kind == "REAL" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise BadRequest("invalid_item", f"{name} is declared as {kind} and cannot hold {value!r:.100}")


def _utf8(text: str, code: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(code, f"{name} holds half of a surrogate pair") from error


def _size_bytes(value: Any, depth: int) -> int:  # noqa: ANN401 - any JSON value
    """Return the size as DynamoDB reckons it: names and texts in UTF-8, numbers by their digits."""
    if isinstance(value, str):
        return len(_utf8(value, "invalid_item", "a text"))
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int | float):
        return _number_bytes(value)
    if depth >= DEPTH_MAX:
        raise BadRequest("invalid_item", f"the item is nested deeper than {DEPTH_MAX}")
    if isinstance(value, Mapping):
        total = 3
        for name, inner in value.items():
            if not isinstance(name, str):
                raise BadRequest("invalid_item", "the name of an attribute must be a text")
            total += 1 + len(_utf8(name, "invalid_item", "a name")) + _size_bytes(inner, depth + 1)
        return total
    if isinstance(value, list | tuple):
        return 3 + sum(1 + _size_bytes(inner, depth + 1) for inner in value)
    raise BadRequest("invalid_item", f"a value of type {type(value).__name__} is no JSON value")


def _number_bytes(value: float) -> int:
    if isinstance(value, int):
        if abs(value) >= 10**DIGITS_MAX:
            raise BadRequest("invalid_item", f"a number has more than {DIGITS_MAX} digits")
        return 2 + value.bit_length() // 7
    if not math.isfinite(value):
        raise BadRequest("invalid_item", "a number is not finite")
    if value and not _SMALLEST <= abs(value) <= _GREATEST:
        raise BadRequest("invalid_item", f"the number {value!r} is out of range")
    return 10
