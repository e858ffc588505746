"""The keyed store in memory: for tests and for what may be forgotten. It keeps every promise but durability."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

from stormjay.ground.keyed import items
from stormjay.ground.keyed.port import PAGE_BYTES_MAX, Document, Key, Page, TableSpec


class MemoryKeyedStore:
    """One table in dictionaries; sort keys of a partition are kept in order."""

    def __init__(self, spec: TableSpec, *, page_bytes_max: int = PAGE_BYTES_MAX) -> None:
        self._spec = spec
        self._page_bytes_max = page_bytes_max
        self._items: dict[Key, items.Checked] = {}
        self._sorts: dict[str, list[str]] = {}

    @property
    def spec(self) -> TableSpec:
        """What the table was declared as."""
        return self._spec

    async def get(self, partition: str, sort: str) -> bytes | None:
        """Return the stored document, or None."""
        items.check_key(partition, sort, self._spec)
        found = self._items.get(Key(partition, sort))
        return None if found is None else found.json

    async def put(self, document: Document) -> None:
        """Store the document under its keys, in place of what is there."""
        self._store(items.check(document, self._spec))

    async def put_if_absent(self, document: Document) -> bool:
        """Store the document unless its key is taken."""
        checked = items.check(document, self._spec)
        if checked.key in self._items:
            return False
        self._store(checked)
        return True

    async def put_if_newer(self, document: Document, attribute: str) -> bool:
        """Store the document when its key is free or the stored attribute is not greater."""
        checked = items.check(document, self._spec)
        items.check_version(document, attribute, None, self._spec)
        if checked.key in self._items:
            stored, offered = self._column(self._items[checked.key], attribute), self._column(checked, attribute)
            if stored is None or not stored <= offered:  # type: ignore[operator]  # both are of the column's type
                return False
        self._store(checked)
        return True

    async def update_if_version(self, document: Document, attribute: str, expected: int | str | None) -> bool:
        """Store the document when the stored attribute equals ``expected``; None: when the key is free."""
        checked = items.check(document, self._spec)
        items.check_version(document, attribute, expected, self._spec)
        found = self._items.get(checked.key)
        version = None if found is None else self._column(found, attribute)
        fits = version == expected and (found is None) == (expected is None)
        if fits:
            self._store(checked)
        return fits

    async def delete(self, partition: str, sort: str) -> bool:
        """Remove the item; return whether there was one."""
        items.check_key(partition, sort, self._spec)
        if self._items.pop(Key(partition, sort), None) is None:
            return False
        sorts = self._sorts[partition]
        del sorts[bisect_left(sorts, sort)]
        return True

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
        """Return a page of the range."""
        items.check_limit(limit)
        sorts = self._range(partition, low, high)
        items.check_start(after, partition, low, high)
        if after is not None:
            sorts = sorts[: bisect_left(sorts, after.sort)] if descending else sorts[bisect_right(sorts, after.sort) :]
        if descending:
            sorts = sorts[::-1]
        documents: list[bytes] = []
        keys: list[Key] = []
        size_bytes = 0
        for sort in sorts:
            key = Key(partition, sort)
            documents.append(self._items[key].json)
            keys.append(key)
            size_bytes += len(documents[-1])
            if len(keys) == limit or size_bytes >= self._page_bytes_max:
                return Page(documents, keys, key)
        return Page(documents, keys, None)

    async def count(self, partition: str, low: str | None = None, high: str | None = None) -> int:
        """Return how many items the range holds."""
        return len(self._range(partition, low, high))

    async def pick(self, partition: str, low: str | None, high: str | None, ranks: Sequence[int]) -> list[bytes]:
        """Return the documents at exactly these places of the range."""
        items.check_ranks(ranks)
        sorts = self._range(partition, low, high)
        return [self._items[Key(partition, sorts[rank])].json for rank in ranks if rank < len(sorts)]

    def _range(self, partition: str, low: str | None, high: str | None) -> list[str]:
        items.check_range(partition, low, high, self._spec)
        sorts = self._sorts.get(partition, [])
        begin = 0 if low is None else bisect_left(sorts, low)
        end = len(sorts) if high is None else bisect_right(sorts, high)
        return sorts[begin:end]

    def _column(self, checked: items.Checked, attribute: str) -> str | int | float | None:
        return checked.values[list(self._spec.columns).index(attribute)]

    def _store(self, checked: items.Checked) -> None:
        if checked.key not in self._items:
            insort(self._sorts.setdefault(checked.key.partition, []), checked.key.sort)
        self._items[checked.key] = checked
