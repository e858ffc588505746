"""Rules of the source that no linter has: who may read the clock, what must be bounded, what must not be written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.files import (
    ROOT,
    files,
    full_name,
    imported_names,
    name_of,
    python_files,
    text_files,
    tree_of,
)

THE_CLOCK = "src/stormjay/ground/clock.py"
CLOCK_READS = {
    "asyncio.sleep",
    "anyio.sleep",
    "anyio.sleep_until",
    "anyio.current_time",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "time.localtime",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.sleep",
    "time.time",
    "time.time_ns",
}
SLEEPS = {name for name in CLOCK_READS if "sleep" in name}
SLEEP_METHODS = {"wait_for_timeout"}
QUEUES = {
    "asyncio.Queue",
    "asyncio.LifoQueue",
    "asyncio.PriorityQueue",
    "queue.Queue",
    "queue.LifoQueue",
    "queue.PriorityQueue",
    "queue.SimpleQueue",
    "multiprocessing.Queue",
}
UNBOUNDED_REASON = re.compile(r"#\s*unbounded:\s*\w+")


def uses(path: Path, wanted: set[str], methods: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield ``file:line: name`` for each place that names one of the wanted functions, called or not."""
    tree = tree_of(path)
    names = imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            name = full_name(node, names)
            method = node.attr if isinstance(node, ast.Attribute) else ""
            if name in wanted or method in methods:
                yield f"{name_of(path)}:{node.lineno}: {name or method}"


def unbounded_queues(path: Path) -> Iterator[str]:
    """Yield ``file:line: name`` for each queue made without a bound and without a written reason."""
    tree = tree_of(path)
    names = imported_names(tree)
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or full_name(node.func, names) not in QUEUES:
            continue
        bound = next((keyword.value for keyword in node.keywords if keyword.arg == "maxsize"), None)
        bound = node.args[0] if node.args else bound
        without = bound is None or (isinstance(bound, ast.Constant) and bound.value == 0)
        near = lines[max(0, node.lineno - 2) : node.end_lineno]
        if without and not any(UNBOUNDED_REASON.search(line) for line in near):
            yield f"{name_of(path)}:{node.lineno}: {full_name(node.func, names)}"


def turns(path: Path) -> set[str]:
    """Return the uses that only give other tasks a turn: ``asyncio.sleep(0)`` waits for no time to pass."""
    tree = tree_of(path)
    names = imported_names(tree)
    return {
        f"{name_of(path)}:{node.func.lineno}: {full_name(node.func, names)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and full_name(node.func, names) in SLEEPS
        and [isinstance(given, ast.Constant) and given.value == 0 for given in node.args] == [True]
    }


def test_only_the_clock_reads_the_time() -> None:
    sources = [path for path in python_files("src") if name_of(path) != THE_CLOCK]
    found = [use for path in sources for use in uses(path, CLOCK_READS) if use not in turns(path)]
    assert found == []


def test_giving_a_turn_is_told_from_sleeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.repository.files.ROOT", tmp_path)
    path = tmp_path / "sample.py"
    path.write_text("import asyncio\nasyncio.sleep(0)\nasyncio.sleep(1)\nasyncio.sleep(n)\n", encoding="utf-8")
    assert turns(path) == {"sample.py:2: asyncio.sleep"}


def test_no_test_sleeps() -> None:
    """Tests move a clock or wait for an event; only a server that is told to be slow (``tests/servers``) waits."""
    tests = [path for path in python_files("tests") if not name_of(path).startswith("tests/servers/")]
    found = [use for path in tests for use in uses(path, SLEEPS, frozenset(SLEEP_METHODS)) if use not in turns(path)]
    assert found == []


def test_every_queue_has_a_bound_or_a_written_reason() -> None:
    assert [use for path in python_files("src") for use in unbounded_queues(path)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\ntime.time()", 1),
        ("import time as t\nt.monotonic()", 1),
        ("from time import sleep as nap\nnap(1)", 1),
        ("from datetime import datetime\nread = datetime.now", 1),
        ("import datetime\ndatetime.datetime.utcnow()", 1),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(1)", 1),
        ("def f(clock):\n    return clock.now(), clock.sleep(1)", 0),
        ("import time\ntime.strftime('%H')", 0),
    ],
)
def test_the_search_for_clock_reads_finds_them(
    source: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.repository.files.ROOT", tmp_path)
    path = tmp_path / "sample.py"
    path.write_text(source, encoding="utf-8")
    assert len(list(uses(path, CLOCK_READS))) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import asyncio\nq = asyncio.Queue()", 1),
        ("import asyncio\nq: asyncio.Queue[int] = asyncio.Queue[int](0)", 1),
        ("import queue\nq = queue.SimpleQueue()", 1),
        ("import queue\nq = queue.SimpleQueue()  # unbounded: one entry per open file", 0),
        ("from asyncio import Queue\nq = Queue(maxsize=10)", 0),
        ("import asyncio\nq = asyncio.Queue(LIMIT)", 0),
    ],
)
def test_the_search_for_queues_finds_them(
    source: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.repository.files.ROOT", tmp_path)
    path = tmp_path / "sample.py"
    path.write_text(source, encoding="utf-8")
    assert len(list(unbounded_queues(path))) == found


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """Return ``file:line: text`` of every line that the pattern is found in."""
    return [
        f"{name_of(path)}:{number}: {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_nothing_is_marked_unfinished() -> None:
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"))
    assert lines_with(re.compile(rf"\b({marks})\b|raise NotImplemented" + "Error"), text_files()) == []


def test_no_path_of_one_machine_is_written_down() -> None:
    places = {str(place) for place in (ROOT, Path.home()) if len(place.parts) > 1}
    pattern = re.compile("|".join(re.escape(f"{place}/") for place in sorted(places)))
    assert lines_with(pattern, text_files()) == []


def test_lock_files_name_no_host() -> None:
    locks = [path for path in files() if path.suffix == ".lock" or path.name == "package-lock.json"]
    assert len(locks) >= 4
    assert lines_with(re.compile(r"https?://|\bresolved\b"), locks) == []


def test_every_python_requirement_has_a_hash() -> None:
    for path in files():
        if path.suffix == ".lock":
            text = path.read_text(encoding="utf-8")
            pins = re.findall(r"^[a-z0-9][^\n]*==[^\n]*", text, flags=re.MULTILINE)
            assert pins, name_of(path)
            assert [pin for pin in pins if not pin.endswith("\\")] == [], name_of(path)


def test_no_file_is_large() -> None:
    assert [name_of(path) for path in files() if path.stat().st_size > 1_048_576] == []
