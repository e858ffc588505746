"""The wheel is complete: built from the tree as it is, it holds the page's files and its types."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.repository.files import ROOT, files, name_of
from tests.servers import require

VENDORED = ("uplot/uPlot.iife.min.js", "uplot/uPlot.min.css", "htmx/htmx.min.js", "swagger-ui/swagger-ui-bundle.js")


@pytest.mark.acceptance
def test_the_wheel_holds_everything_the_product_needs(tmp_path: Path) -> None:
    require("hatchling", found=find_spec("hatchling") is not None, how="make test")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--quiet",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("stormjay-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {name_of(path).removeprefix("src/") for path in files() if name_of(path).startswith("src/stormjay/")}
    assert sources - names == set()
    vendored = {f"stormjay/ground/web/static/vendor/{name}" for name in VENDORED}
    assert vendored - names == set()
    assert [name for name in names if name.startswith(("recordings/", "tests/"))] == []
