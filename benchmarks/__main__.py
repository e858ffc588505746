"""Runs every ``bench_*.py`` here and prints one table: ``python -m benchmarks [NAME ...] [--json] [--write]``.

Each such module has ``run() -> list[Row]``. Names given on the command line pick modules by the text they contain.
The exit status is 1 when a target was missed, so that a script can tell.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.table import Row, as_json, markdown, print_rows

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN = "<!-- figures: begin (python -m benchmarks --write) -->"
END = "<!-- figures: end -->"


def modules(wanted: list[str]) -> list[str]:
    """Return the names of the benchmark modules, all or those that contain one of the wanted texts."""
    names = sorted(path.stem for path in HERE.glob("bench_*.py"))
    return [name for name in names if not wanted or any(text in name for text in wanted)]


def measure(name: str) -> list[Row]:
    """Run one benchmark module and return its rows."""
    module = importlib.import_module(f"benchmarks.{name}")
    rows: list[Row] = module.run()
    return rows


def with_figures(page: str, rows: list[Row]) -> str:
    """Return the page with the part between its two marks replaced by the rows and the machine they come from."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{_machine()}\n\n{markdown(rows)}\n{END}{after}"


def _machine() -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return (
        f"Commit {commit.stdout.strip() or 'unknown'}, CPython {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores."
    )


def main(arguments: list[str]) -> int:
    """Measure, print, and write the page when asked to.

    Returns:
        0 when every target was reached, 1 when one was missed, 2 when there was nothing to run.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of the modules to run; all without")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--write", action="store_true", help=f"put the figures into {PAGE.relative_to(HERE.parent)}")
    options = parser.parse_args(arguments)
    if options.write and options.names:
        parser.error("--write keeps all figures of one run; leave the names out")
    names = modules(options.names)
    if not names:
        print("no benchmark of that name", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for name in names:
        print(f"running {name} ...", file=sys.stderr)
        rows += measure(name)
    if options.json:
        print(as_json(rows), end="")
    else:
        print_rows(rows, Console(width=160))
    if options.write:
        PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0 if all(row.reached for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
