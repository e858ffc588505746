"""What holds for every test: a clean environment, a folder of its own, and the size of the property tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fast", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("fast"), max_examples=150, derandomize=True)
settings.register_profile("thorough", parent=settings.get_profile("fast"), max_examples=3_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_PREFIXES = ("STORMJAY_", "MESHTASTIC_", "WEATHERSTATION_", "DB_RETENTION_")
"""Groups of variables that the product reads; the last three are the seeds' own."""

_NAMES = (
    "ALLOWED_CORS_ORIGIN",
    "API_KEY",
    "API_SHARED_SECRET",
    "API_URL",
    "CREDENTIALS_DIRECTORY",
    "FORCE_COLOR",
    "NOTIFY_SOCKET",
    "NO_COLOR",
    "TABLE_NAME",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
)
"""Single variables of the same kind: the seeds' own, systemd's, and the terminal's."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away every variable that would change what the product does, so that a test sees only its own."""
    for name in list(os.environ):
        if name.startswith(_PREFIXES) or name in _NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only loop the product supports."""
    return "asyncio"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Return an empty folder that stands for ``data_dir``."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder
