"""The query string, read once and leniently: first value wins, a plus sign is a blank, broken escapes are replaced."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import parse_qsl

FIELDS_MAX = 100
"""More fields than any route knows are not read."""


@lru_cache(maxsize=512)
def _parsed(query_string: bytes) -> dict[str, str]:
    result: dict[str, str] = {}
    head = b"&".join(query_string.split(b"&", FIELDS_MAX)[:FIELDS_MAX])
    for name, value in parse_qsl(head.decode("latin-1"), keep_blank_values=True, encoding="utf-8", errors="replace"):
        result.setdefault(name, value)
    return result


class Query:
    """The fields of one query string."""

    __slots__ = ("_fields",)

    def __init__(self, query_string: bytes) -> None:
        self._fields = _parsed(query_string)

    def first(self, name: str) -> str | None:
        """Return the first value of a field, or None when it is absent."""
        return self._fields.get(name)
