"""What lies in the repository, for the tests that read it."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = ("recordings/", "tests/cases/")
"""Data taken over as it is; ``tests/cases`` only for its JSON files."""


@cache
def files() -> tuple[Path, ...]:
    """Return every file that belongs to the repository: what git tracks, and what it would if added."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = sorted(name for name in listed.stdout.decode().split("\0") if name)
    return tuple(path for name in names if (path := ROOT / name).is_file())


def name_of(path: Path) -> str:
    """Return the path from the root of the repository, with slashes."""
    return path.relative_to(ROOT).as_posix()


def python_files(*folders: str) -> list[Path]:
    """Return the Python files under the named folders of the root."""
    starts = tuple(f"{folder}/" for folder in folders)
    return [path for path in files() if path.suffix == ".py" and name_of(path).startswith(starts)]


def text_files() -> list[Path]:
    """Return the files whose words are ours: no recordings, no cases, no locks, no pictures."""
    skipped = {".lock", ".gz", ".png", ".csv", ".ico"}
    return [
        path
        for path in files()
        if path.suffix not in skipped
        and path.name != "package-lock.json"
        and not (name_of(path).startswith(NOT_OURS) and path.suffix in {".json", ".ndjson"})
    ]


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name stands for: ``t`` -> ``time``, ``now`` -> ``time.monotonic``."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """Return the dotted name of an expression, its first part resolved through the imports; empty for others."""
    if isinstance(node, ast.Subscript):
        return full_name(node.value, names)
    if isinstance(node, ast.Attribute):
        before = full_name(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else ""
