"""What a command says: tables for people, one JSON document for programs, and errors with their next step.

Results go to standard output, everything else (errors, progress, log lines) to standard error, so that a pipe gets
only the result. Colours only on a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from stormjay.errors import (
    CallerMistake,
    DestinationDown,
    LinkLost,
    NotFound,
    SettingsError,
    StoreDamaged,
    StoreInUse,
    StoreUnavailable,
    StormjayError,
)

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, EXIT_UNREACHABLE, EXIT_STORE = 0, 1, 2, 3, 4
EXIT_CODES = (
    "Exit codes: 0 all well, 1 a problem was found or nothing is there, 2 wrong usage or settings, "
    "3 the far side or the service cannot be reached, 4 a database or folder cannot be used."
)
_CELL_MAX = 240
_COLUMNS_MAX = 10


def exit_code(error: StormjayError) -> int:
    """Return the exit code that tells a script what kind of failure it was."""
    if isinstance(error, StoreUnavailable | StoreDamaged | StoreInUse):
        return EXIT_STORE
    if isinstance(error, DestinationDown | LinkLost):
        return EXIT_UNREACHABLE
    if isinstance(error, NotFound):
        return EXIT_PROBLEM
    if isinstance(error, SettingsError | CallerMistake):
        return EXIT_USAGE
    return EXIT_PROBLEM


def tell(result: object, *, as_json: bool, title: str = "") -> None:
    """Print a result: a list of rows, an object, or text."""
    plain = msgspec.to_builtins(result)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(plain)).decode() + "\n")
        return
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    if isinstance(plain, str):
        console.print(plain, markup=False)
    elif isinstance(plain, Mapping):
        console.print(_pairs(plain, title))
    elif isinstance(plain, Sequence) and plain:
        _tell_rows(console, plain, title)
    else:
        console.print("nothing there")


def tell_line(line: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own at once, for a result that never ends."""
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


def tell_error(error: StormjayError, *, as_json: bool) -> None:
    """Print what failed, each detail, and what can be done about it."""
    details = getattr(error, "details", ())
    if as_json:
        body = {
            "ok": False,
            "error": getattr(error, "code", type(error).__name__),
            "message": str(error),
            "details": list(details),
            "next_step": error.next_step,
        }
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(body)).decode() + "\n")
        return
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.print(f"[bold red]Error:[/] {escape(str(error))}")
    for detail in details:
        console.print(f"  - {escape(detail)}")
    if error.next_step:
        console.print(f"[bold]Next:[/] {escape(error.next_step)}")


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """Show progress on standard error while the block runs; nothing when that is no terminal."""
    console = Console(file=sys.stderr)
    columns = (SpinnerColumn(), TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        yield shown


def _tell_rows(console: Console, rows: Sequence[Any], title: str) -> None:
    if not isinstance(rows[0], Mapping):
        for row in rows:
            console.print(_cell(row), markup=False)
        return
    # A column without a value in any row only takes room.
    names = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
    if len(names) <= _COLUMNS_MAX:
        table = Table(title=title or None, title_justify="left")
        for name in names:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(escape(_cell(row.get(name))) for name in names))
        console.print(table)
    elif len(rows) <= _COLUMNS_MAX:  # turned over: one column for each row
        table = Table(title=title or None, title_justify="left", show_header=False)
        table.add_column("name", style="bold")
        for _ in rows:
            table.add_column(overflow="fold")
        for name in names:
            table.add_row(escape(name), *(escape(_cell(row.get(name))) for row in rows))
        console.print(table)
    else:  # no terminal is that wide: tabs, which every spreadsheet takes
        for line in (names, *([_cell(row.get(name)) for name in names] for row in rows)):
            console.file.write("\t".join(line) + "\n")


def _pairs(result: Mapping[str, Any], title: str) -> Table:
    table = Table(title=title or None, title_justify="left", show_header=False)
    table.add_column("name", style="bold")
    table.add_column("value", overflow="fold")
    for name, value in _flat(result, ""):
        table.add_row(escape(name), escape(_cell(value)))
    return table


def _flat(result: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        elif value is not None:
            yield f"{above}{name}", value


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    text = str(value).rstrip("\n")
    return text if len(text) <= _CELL_MAX else text[:_CELL_MAX] + "..."
