"""How large modules and functions are, and the record of the large ones, which may only shrink.

``python -m tests.repository.sizes`` prints what is over its record; with ``--record`` it writes the record anew, which
is for lowering it and, seldom and on purpose, for a module that grew past the mark.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

from tests.repository.files import name_of, python_files, tree_of

RECORD = Path(__file__).parent / "sizes.json"
FOLDERS = ("src", "garden", "benchmarks", "tests")
MODULE_LINES_MAX, FUNCTION_LINES_MAX = 500, 70
MODULE_LINES_MARK, FUNCTION_LINES_MARK = 300, 55
"""From these sizes on, a module or function stands in the record."""

Sizes = dict[str, int]


def module_sizes() -> Sizes:
    """Return the lines of every module."""
    return {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(*FOLDERS)}


def function_sizes() -> Sizes:
    """Return the lines of every function, decorators and docstring not counted, under ``file:Class.function``."""
    found: Sizes = {}
    for path in python_files(*FOLDERS):
        _collect(tree_of(path), f"{name_of(path)}:", found)
    return found


def _collect(node: ast.AST, prefix: str, found: Sizes) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            _collect(child, f"{prefix}{child.name}.", found)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{child.name}"
            found[name] = max(found.get(name, 0), _lines(child))
            _collect(child, f"{name}.", found)
        else:
            _collect(child, prefix, found)


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def recorded() -> dict[str, Sizes]:
    """Return the record: lines by module and by function."""
    record: dict[str, Sizes] = json.loads(RECORD.read_text(encoding="utf-8"))
    return record


def large(sizes: Sizes, mark: int) -> Sizes:
    """Return those that are over the mark."""
    return {name: lines for name, lines in sorted(sizes.items()) if lines > mark}


def faults(sizes: Sizes, record: Sizes, mark: int, limit: int) -> list[str]:
    """Return a sentence for each size that breaks a rule, and for each entry of the record that could be lower."""
    found = [f"{name} has {lines} lines, the limit is {limit}" for name, lines in sizes.items() if lines > limit]
    for name, lines in large(sizes, mark).items():
        allowed = record.get(name)
        if allowed is None:
            found.append(f"{name} grew to {lines} lines; divide it, or record it if it cannot be divided")
        elif lines > allowed:
            found.append(f"{name} grew from {allowed} to {lines} lines")
        elif lines < allowed:
            found.append(f"{name} shrank from {allowed} to {lines} lines; lower its record")
    gone = record.keys() - large(sizes, mark).keys()
    return found + [f"{name} is no longer large; take it out of the record" for name in sorted(gone)]


def all_faults() -> list[str]:
    """Return the faults of modules and functions against the record."""
    record = recorded()
    return [
        *faults(module_sizes(), record["modules"], MODULE_LINES_MARK, MODULE_LINES_MAX),
        *faults(function_sizes(), record["functions"], FUNCTION_LINES_MARK, FUNCTION_LINES_MAX),
    ]


def main(arguments: list[str]) -> int:
    """Print the faults, or write the record.

    Returns:
        0 when there is no fault or the record was written, else 1.
    """
    if arguments == ["--record"]:
        record = {
            "modules": large(module_sizes(), MODULE_LINES_MARK),
            "functions": large(function_sizes(), FUNCTION_LINES_MARK),
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return 0
    found = all_faults()
    sys.stdout.writelines(f"{fault}\n" for fault in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
