"""One row per measured comparison, and the ways to show rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One comparison. Both figures are rates or the like: more is better; turn a duration round before.

    Attributes:
        name: What was done, in words.
        ours: Our figure.
        peer: What we are compared with.
        theirs: The peer's figure, from the same run.
        unit: The unit of both figures ("packets/s").
        target: The ratio that is to be reached.
    """

    name: str
    ours: float
    peer: str
    theirs: float
    unit: str
    target: float

    @property
    def ratio(self) -> float:
        """How many times the peer's figure ours is; infinite when the peer did nothing."""
        return self.ours / self.theirs if self.theirs else float("inf")

    @property
    def reached(self) -> bool:
        """Whether the ratio is at least the target."""
        return self.ratio >= self.target


_HEADINGS = ("what", "ours", "peer", "theirs", "unit", "ratio", "target", "")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        _figure(row.ours),
        row.peer,
        _figure(row.theirs),
        row.unit,
        f"{row.ratio:,.1f} x",
        f"{row.target:g} x",
        "reached" if row.reached else "missed",
    )


def _figure(value: float) -> str:
    """Return three significant digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """Print the rows as a table for a terminal."""
    table = Table(title="Measured in one run on this machine; the ratios are what counts")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading in {"ours", "theirs", "ratio", "target"} else "left")
    for row in rows:
        table.add_row(*_cells(row), style=None if row.reached else "yellow")
    console.print(table)


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table, with a line end after the last."""
    lines = ["| " + " | ".join(_HEADINGS) + " |", "|" + " --- |" * len(_HEADINGS)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def as_json(rows: Sequence[Row]) -> str:
    """Return the rows as a JSON list with the ratio of each."""
    return json.dumps([asdict(row) | {"ratio": row.ratio, "reached": row.reached} for row in rows], indent=1) + "\n"
