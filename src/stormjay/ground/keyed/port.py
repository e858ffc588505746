"""Items under a partition key and a sort key, as DynamoDB keeps them, whatever keeps them here.

Promises of every adapter:

* What a write has returned from survives a killed process and, on disk adapters, a power cut. A write that raised
  ``RetryLater`` may or may not have taken place, so doing it again must be harmless; each write here is.
* Sort keys are ordered by the bytes of their UTF-8 form. A range holds both its ends.
* Documents are stored as JSON and come back as those bytes, so that an answer is joined, not rebuilt.
* What the real DynamoDB refuses is refused: a range whose end lies before its beginning, a start key of another
  partition or outside the range, an empty or oversize key, an item over 400 KB, nesting deeper than 32, numbers that
  are not finite or have more than 38 digits. A page that is exactly full gives a last key although nothing may follow.

Errors: ``BadRequest`` (or ``TooLarge``) is the caller's mistake and changes nothing; ``StoreUnavailable`` and other
``RetryLater`` mean the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

ColumnType = Literal["TEXT", "INTEGER", "REAL"]
Document = Mapping[str, Any]

LIMIT_MAX = 10_000
"""Most documents that one page may be asked for."""
PAGE_BYTES_MAX = 4 * 1024 * 1024
"""A page ends with the document that reaches this many bytes (DynamoDB's own pages end at 1 MB)."""
RANKS_MAX = 10_000
"""Most documents that one ``pick`` may be asked for."""


class Key(NamedTuple):
    """Where an item lies."""

    partition: str
    sort: str


@dataclass(frozen=True)
class TableSpec:
    """What a table is called and which attributes it knows by type.

    Attributes:
        name: Table name.
        partition_key, sort_key: Attribute names of the two keys; both are texts.
        columns: Further attributes with their types. A document may lack them; one that has them has them in that
            type. ``put_if_newer`` and ``update_if_version`` compare such attributes only.
    """

    name: str
    partition_key: str = "pk"
    sort_key: str = "sk"
    columns: Mapping[str, ColumnType] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """A part of a range.

    Attributes:
        documents: Stored JSON, in the order asked for.
        keys: The key of each document.
        last_key: Where to go on (as ``after``), or None when the range is surely exhausted.
    """

    documents: list[bytes]
    keys: list[Key]
    last_key: Key | None


class KeyedStore(Protocol):
    """One table."""

    @property
    def spec(self) -> TableSpec:
        """What the table was declared as."""
        ...

    async def get(self, partition: str, sort: str) -> bytes | None:
        """Return the stored document, or None."""
        ...

    async def put(self, document: Document) -> None:
        """Store the document under its keys, in place of what is there."""
        ...

    async def put_if_absent(self, document: Document) -> bool:
        """Store the document unless its key is taken; return whether it was stored."""
        ...

    async def put_if_newer(self, document: Document, attribute: str) -> bool:
        """Store the document when its key is free or the stored ``attribute`` is not greater; return whether it was.

        Equal replaces. A stored item without that attribute is not replaced.

        Raises:
            BadRequest: ``attribute`` is no declared column or the document lacks it.
        """
        ...

    async def update_if_version(self, document: Document, attribute: str, expected: int | str | None) -> bool:
        """Store the document when the stored ``attribute`` equals ``expected``; None: when the key is free.

        Returns:
            Whether it was stored; False means somebody else was faster: read again and decide again.

        Raises:
            BadRequest: ``attribute`` is no declared column.
        """
        ...

    async def delete(self, partition: str, sort: str) -> bool:
        """Remove the item; return whether there was one."""
        ...

    async def query(
        self,
        partition: str,
        low: str | None = None,
        high: str | None = None,
        *,
        limit: int,
        descending: bool = False,
        after: Key | None = None,
    ) -> Page:
        """Return at most ``limit`` documents of a partition whose sort keys lie from ``low`` to ``high``.

        Args:
            partition: Partition key.
            low: Smallest sort key, inclusive; None is no bound.
            high: Greatest sort key, inclusive; None is no bound.
            limit: 1 to ``LIMIT_MAX``. A page may be shorter when its bytes reach ``PAGE_BYTES_MAX``.
            descending: Begin at the greatest sort key.
            after: The ``last_key`` of the page before.

        Raises:
            BadRequest: ``invalid_range``, ``invalid_start_key``, ``invalid_limit`` or ``invalid_key``.
        """
        ...

    async def count(self, partition: str, low: str | None = None, high: str | None = None) -> int:
        """Return how many items the range holds.

        Raises:
            BadRequest: As ``query``.
        """
        ...

    async def pick(self, partition: str, low: str | None, high: str | None, ranks: Sequence[int]) -> list[bytes]:
        """Return the documents at exactly these places of the range, counted from 0 in ascending order.

        Args:
            partition: Partition key.
            low: Smallest sort key, inclusive; None is no bound.
            high: Greatest sort key, inclusive; None is no bound.
            ranks: Ascending, each once, at most ``RANKS_MAX``. Places past the end give nothing.

        Raises:
            BadRequest: As ``query``, and ``invalid_ranks``.
        """
        ...
