"""The one way in which the reference pages show a table."""

from __future__ import annotations

from collections.abc import Iterable

MADE = "Made by `make docs` from {source}; change it there."


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a Markdown table, bars in cells escaped and an empty line at the end."""
    heads = list(heads)
    lines = [_line(heads), "|" + " --- |" * len(heads)]
    return [*lines, *(_line(row) for row in rows), ""]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ").strip() for cell in cells) + " |"
