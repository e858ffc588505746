"""The pure bridge and the Pico's loop, under CPython and under the real MicroPython on Node."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stormjay.weather import bridge_lines
from tests.micropython import core_checks, vector_run
from tests.servers import require

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARY = ROOT / "node_modules/@micropython/micropython-webassembly-pyscript/micropython.mjs"
VECTORS = json.loads((HERE / "vectors.json").read_text(encoding="utf-8"))
ON_BOARD = {
    "/lib/stormjay/weather/bridge_core.py": ROOT / "src/stormjay/weather/bridge_core.py",
    "/lib/stormjay/weather/bridge_lines.py": ROOT / "src/stormjay/weather/bridge_lines.py",
    "/lib/garden_loop.py": ROOT / "garden/garden_loop.py",
    "/lib/tests/micropython/core_checks.py": HERE / "core_checks.py",
    "/lib/tests/micropython/garden_checks.py": HERE / "garden_checks.py",
    "/lib/main.py": ROOT / "garden/main.py",
    "/lib/tests/micropython/main_checks.py": HERE / "main_checks.py",
    "/lib/tests/micropython/vector_run.py": HERE / "vector_run.py",
    "/vectors.json": HERE / "vectors.json",
}


def module_at(path: Path) -> ModuleType:
    """Load a file that belongs to no package, as the Pico does."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


module_at(ROOT / "garden/garden_loop.py")
garden_checks = module_at(HERE / "garden_checks.py")


@pytest.mark.parametrize("check", [*core_checks.CHECKS, *garden_checks.CHECKS], ids=lambda check: check.__name__)
def test_check_under_cpython(check: Callable[[], None]) -> None:
    check()


def same(expected: Any, got: Any) -> bool:
    """Tell whether two JSON values are alike, numbers as numbers."""
    if isinstance(expected, dict) and set(expected) == {"near"}:
        return bool(abs(got - expected["near"][0]) <= expected["near"][1])
    if isinstance(expected, dict):
        return isinstance(got, dict) and set(expected) == set(got) and all(same(expected[k], got[k]) for k in expected)
    if isinstance(expected, list):
        return isinstance(got, list) and len(expected) == len(got) and all(map(same, expected, got))
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return isinstance(got, int | float) and math.isclose(expected, got, rel_tol=1e-6, abs_tol=1e-6)
    return bool(expected == got)


def judge(found: list[list[list[Any]]]) -> None:
    """Compare outcomes with the vectors."""
    for run, outcomes in zip(VECTORS["runs"], found, strict=True):
        for (now_ms, _, word, text), (got_word, got_text, length, _) in zip(run["rows"], outcomes, strict=True):
            assert got_word == word, (run["name"], now_ms)
            assert same(None if text == "busy" else text, got_text), (run["name"], now_ms, text, got_text)
            assert length <= 232


def test_vectors_under_cpython() -> None:
    judge(vector_run.all_outcomes(VECTORS))


def test_vectors_with_floats_of_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Pico's floats have 32 bits; what is read and printed still is the same number to six digits."""
    monkeypatch.setattr(bridge_lines, "FLOATS_HOLD_SECONDS", False)
    loads = json.loads

    def short_floats(text: str) -> Any:
        return loads(text, parse_float=lambda digits: struct.unpack("f", struct.pack("f", float(digits)))[0])

    monkeypatch.setattr("stormjay.weather.bridge_lines.json.loads", short_floats)
    found = vector_run.all_outcomes(VECTORS)
    monkeypatch.undo()
    judge(found)


@cache
def board_report() -> dict[str, Any]:
    """Run everything under MicroPython once and return what it printed."""
    beside = shutil.which("node", path=str(Path(sys.executable).parent))
    node = shutil.which("node") or beside
    require("node", found=node is not None, how="make, or install Node 16 or newer")
    require("MicroPython for Node", found=LIBRARY.exists(), how="npm ci")
    assert node is not None
    files = [f"{target}={source}" for target, source in ON_BOARD.items()]
    done = subprocess.run(
        [node, HERE / "runner.mjs", LIBRARY, HERE / "board_main.py", *files],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def test_checks_under_micropython() -> None:
    report = board_report()
    assert "MicroPython" in report["version"]
    ours = [check.__name__ for check in (*core_checks.CHECKS, *garden_checks.CHECKS)]
    assert report["checks"] == [*ours, "check_main_runs_on_the_board"]


def test_vectors_under_micropython() -> None:
    found = board_report()["vectors"]
    judge(found)
    assert same(vector_run.all_outcomes(VECTORS), found)
