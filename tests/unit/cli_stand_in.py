"""A stand-in for the assembly over a real journal, and a terminal that runs commands in this process."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import typer.main
from typer.testing import CliRunner

from stormjay import cli
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import SystemClock
from stormjay.ground.outbox.sqlite import SqliteOutbox
from stormjay.ground.stats import Statistics
from stormjay.settings import Settings
from stormjay.weather.delivery_body import load_payloads
from stormjay.weather.journal import Journal, JournalSettings
from stormjay.weather.journal_status import Thresholds
from stormjay.weather.retention import Retention, RetentionSettings

COMMAND = typer.main.get_command(cli.app)


def text(number: int, **values: object) -> str:
    reading = {
        "et": "obs_st", "i": number, "ts": int(time.time()) - 600 + number, "t": 20.0 + number, "h": 50, "p": 960,
        "w": 1, "d": 90, "r": 0, "ri": 1, **values,
    }  # fmt: skip
    return json.dumps(reading)


class FakeAssembly(ModuleType):
    """Builds what the commands ask for, over a real journal file."""

    def __init__(self) -> None:
        super().__init__("stormjay.assembly")
        self.ran: list[tuple[Settings, list[str]]] = []
        self.exit_code = 0
        self.fault: Exception | None = None

    @asynccontextmanager
    async def open_journal(self, given: Settings, *, writing: bool) -> AsyncIterator[Journal]:
        if self.fault is not None:
            raise self.fault
        journal = await Journal.open(
            given.journal_file,
            clock=SystemClock(),
            settings=JournalSettings(ranges=dict(given.weather.ranges)),
            statistics=Statistics(),
            announcer=Announcer(),
            owner=writing,
        )
        try:
            yield journal
        finally:
            await journal.close()

    async def outboxes(self, given: Settings, journal: Journal) -> dict[str, SqliteOutbox[bytes]]:
        assert given.data_dir
        box = await SqliteOutbox.open(
            journal.database, "aws_delivery_queue", load_payloads, destination="cloud", clock=SystemClock()
        )
        return {"cloud": box}

    def sites(self, _given: Settings) -> dict[str, Any]:
        return {}

    def thresholds(self, _given: Settings) -> Thresholds:
        return Thresholds()

    def retention(self, given: Settings, journal: Journal) -> Retention:
        own = given.weather.retention
        return Retention(
            journal.database,
            queues=journal.queues,
            settings=RetentionSettings(enabled=own.enabled, days=own.days),
            clock=SystemClock(),
            statistics=Statistics(),
        )

    async def run(self, given: Settings, parts: list[str]) -> int:
        self.ran.append((given, parts))
        return self.exit_code

    def write_garden(self, _given: Settings, folder: Path) -> list[Path]:
        return [folder / "main.py"]


class Terminal:
    """Runs commands in this process, in a folder of their own."""

    def __init__(self, folder: Path, assembly: FakeAssembly) -> None:
        self.folder, self.assembly = folder, assembly
        self.environment: dict[str, str] = {}

    def __call__(self, *arguments: str, code: int = 0, **options: Any) -> str:
        result = CliRunner().invoke(cli.app, list(arguments), env=self.environment, **options)
        assert result.exit_code == code, f"{result.exit_code}: {result.output}\n{result.exception!r}"
        return result.stdout if code == 0 or "--json" in arguments else result.output

    def json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        return json.loads(self(*arguments, "--json", code=code, **options))
