"""The settings table read as rows: one per value, with its path, type, default, variable and what it accepts.

``convert`` turns what a file or variable holds into the row's type and says in one sentence what would be accepted.
"""

from __future__ import annotations

import re
import types
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

import msgspec

from stormjay.settings_table import Entries, Row, Settings

Path = tuple[str, ...]
"""Where a value stands: ``("weather", "delivery", "api_url")``; ``*`` stands for the name of an entry."""

_UNSEEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_TYPE_WORDS: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "yes or no"}


class MismatchError(ValueError):
    """A value that a row does not take; the text completes "... must be"."""


@dataclass(frozen=True)
class Setting:
    """One row of the table with all that follows from its place.

    Attributes:
        path: Where it stands; ``*`` for the name of an entry.
        kind: Its Python type, without annotations.
        row: What the table says of it.
        default: Its default value.
        section: First line of the docstring of the section it stands in.
        entry: How the name at the ``*`` is spelled, or empty.
    """

    path: Path
    kind: Any
    row: Row
    default: Any
    section: str
    entry: str

    @property
    def name(self) -> str:
        """Dotted path, an entry's name as ``<name>``."""
        return ".".join(f"<{self.entry}>" if part == "*" else part for part in self.path)

    @property
    def variable(self) -> str:
        """Its variable in the environment."""
        parts = (f"<{self.entry.upper()}>" if part == "*" else part.upper() for part in self.path)
        return "STORMJAY_" + "__".join(parts)

    @property
    def type_words(self) -> str:
        """Its type, for people."""
        if self.row.schemes:
            return "address"
        item = _item_type(self.kind)
        if item is not None:
            return f"list ({_words(item)})"
        return _words(self.kind)

    @property
    def expectation(self) -> str:
        """What it takes, as the end of the sentence "it must be"."""
        row = self.row
        if row.schemes:
            return "an address that begins with " + " or ".join(f"{scheme}://" for scheme in row.schemes)
        item = _item_type(self.kind)
        if self.kind == tuple[float, float]:
            return "two numbers, the lowest and the highest, as [550, 1200]"
        words = _words(item if item is not None else self.kind)
        bounds = ""
        if row.low is not None and row.high is not None:
            bounds = f" from {row.low:.10g} to {row.high:.10g}"
        if item is not None:
            return f"a list of: {words}{bounds}"
        if words == "text":
            return f"text of at most {row.length_max} characters"
        article = "" if words.startswith(("one of", "yes")) else "a "
        return f"{article}{words}{bounds}"

    def shown_default(self) -> str:
        """The default, for people; empty when there is none."""
        if self.row.shown_default:
            return self.row.shown_default
        return shown(self.default)

    def convert(self, value: object, *, is_text: bool) -> Any:  # noqa: ANN401 - the row's own type
        """Return the value in the row's type.

        Args:
            value: What the file or variable holds.
            is_text: It comes from a variable, where everything is text.

        Raises:
            MismatchError: It is not what the row takes.
        """
        result = self._of_type(_from_text(value, self.kind) if is_text and isinstance(value, str) else value)
        self._check(result)
        return result

    def _of_type(self, value: object) -> Any:  # noqa: ANN401 - the row's own type
        if isinstance(value, str) and self.row.plain_scheme and _is_device(value):
            value = f"{self.row.plain_scheme}://{value}"
        try:
            return msgspec.convert(value, self.kind)
        except msgspec.ValidationError as error:
            raise MismatchError(self.expectation) from error

    def _check(self, value: Any) -> None:  # noqa: ANN401 - the row's own type
        row = self.row
        if isinstance(value, str | tuple) and len(value) > row.length_max:
            raise MismatchError(self.expectation)
        if row.schemes and value:
            try:
                parts = urlsplit(value)
                sound = parts.scheme in row.schemes and bool(parts.netloc or parts.path.strip("/"))
                _ = parts.port
            except ValueError:
                sound = False
            if not sound:
                raise MismatchError(self.expectation)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, str) and _UNSEEN.search(part):
                raise MismatchError(f"{self.expectation}, without line breaks or other control characters")
            if isinstance(part, bool) or not isinstance(part, int | float):
                continue
            inside = (row.low is None or row.low <= part) and (row.high is None or part <= row.high)
            if not inside or part - part != 0:  # not zero for NaN and infinity alone
                raise MismatchError(self.expectation)


def _is_device(text: str) -> bool:
    return text.startswith("/dev/") or (text[:3].upper() == "COM" and text[3:].isdigit())


def _item_type(kind: object) -> object | None:
    arguments = get_args(kind)
    if get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004 - (item, ...)
        return arguments[0]  # type: ignore[no-any-return] # typing gives Any
    return None


def _words(kind: object) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return _words(next(part for part in get_args(kind) if part is not type(None)))
    if get_origin(kind) is tuple:
        return "pair of numbers"
    return _TYPE_WORDS[kind]


def _from_text(text: str, kind: object) -> object:
    """Give the text of a variable the shape that a file would give it; what does not fit stays text and is refused."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    word = text.strip()
    if kind is bool:
        return {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(word.lower(), text)
    try:
        if kind in (int, float):
            return int(word) if kind is int else float(word)
        if get_origin(kind) is tuple and word.startswith("["):
            return msgspec.json.decode(word)
    except ValueError:  # msgspec's decode error is one
        return text
    if get_origin(kind) is tuple:
        item = _item_type(kind) or float
        return [_from_text(part, item) for part in map(str.strip, word.split(",")) if part]
    return text


def shown(value: object) -> str:
    """Return a value as the file would hold it; empty for no value."""
    if value is None or value == "":
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, tuple | list):
        return "[" + ", ".join(shown(item) if not isinstance(item, str) else quoted(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def quoted(text: str) -> str:
    """Return text as a TOML (and JSON) string."""
    return msgspec.json.encode(text).decode()


@cache
def settings_rows() -> tuple[Setting, ...]:
    """Return every row of the table, in its order, the top first."""
    return tuple(_walk(Settings, (), ""))


def _walk(struct: type[msgspec.Struct], path: Path, entry: str) -> list[Setting]:
    rows: list[Setting] = []
    sections: list[Setting] = []
    heading = (struct.__doc__ or "").strip().splitlines()[0]
    for field in msgspec.structs.fields(struct):
        kind, extra = _bare(field.type)
        here = (*path, field.encode_name)
        if get_origin(kind) is dict:
            _, inner = get_args(kind)
            assert isinstance(extra, Entries)  # noqa: S101 - the table is ours
            inner_kind, inner_row = _bare(inner)
            if isinstance(inner_kind, type) and issubclass(inner_kind, msgspec.Struct):
                sections += _walk(inner_kind, (*here, "*"), extra.kind)
            else:
                assert isinstance(inner_row, Row)  # noqa: S101 - the table is ours
                sections.append(Setting((*here, "*"), inner_kind, inner_row, None, heading, extra.kind))
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            sections += _walk(kind, here, entry)
        else:
            assert isinstance(extra, Row)  # noqa: S101 - the table is ours
            rows.append(Setting(here, kind, extra, field.default, heading, entry))
    return rows + sections


def _bare(kind: Any) -> tuple[Any, Row | Entries | None]:  # noqa: ANN401 - any annotation
    if get_origin(kind) is Annotated:
        return kind.__origin__, kind.__metadata__[0]
    return kind, None
