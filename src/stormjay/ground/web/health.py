"""What the process says of itself: alive, ready with reasons, and a status for people and their dashboards.

``/healthz`` answers while the process lives. ``/readyz`` tells whether it can take data: a far side that is down is no
reason to say no (conventions 2.3). ``/status`` has everything: checks, figures, and sections that parts add.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec

from stormjay import __version__
from stormjay.ground.clock import Clock
from stormjay.ground.stats.port import Statistics
from stormjay.ground.timestamps import format_utc
from stormjay.ground.web.answer import Answer
from stormjay.ground.web.tokens import READ, Tokens

Check = Callable[[], tuple[bool, str, bool]]
"""Returns whether all is well, the reason in words, and whether readiness depends on it."""
Section = Callable[[], Any]
"""Returns a JSON-able part of the status."""


class CheckState(msgspec.Struct, frozen=True, kw_only=True):
    """What one check says."""

    ok: bool
    reason: str
    needed: bool


class Alive(msgspec.Struct, frozen=True, kw_only=True):
    """The process lives."""

    ok: bool = True


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the process can take data, and why not."""

    ok: bool
    checks: dict[str, CheckState]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one metric under one set of labels."""

    name: str
    kind: str
    help: str
    value: float
    labels: dict[str, str] = {}
    label: str = ""
    unit: str | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the process says of itself."""

    ok: bool
    version: str
    now: str
    started_at: str
    uptime_seconds: float
    checks: dict[str, CheckState]
    sections: dict[str, Any]
    statistics: list[Figure]


class Health:
    """Collects the checks and sections that parts register."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_at: datetime = clock.now()
        self._started = clock.monotonic()
        self._checks: dict[str, Check] = {}
        self._sections: dict[str, Section] = {}

    def add(self, name: str, check: Check) -> None:
        """Register a check; it must be quick and is called for every answer.

        Raises:
            ValueError: The name is taken.
        """
        _put(self._checks, name, check)

    def add_section(self, name: str, section: Section) -> None:
        """Register a part of ``/status``.

        Raises:
            ValueError: The name is taken.
        """
        _put(self._sections, name, section)

    def readiness(self) -> Readiness:
        """Ask all checks."""
        checks = {name: _asked(check) for name, check in self._checks.items()}
        return Readiness(ok=all(state.ok or not state.needed for state in checks.values()), checks=checks)

    def status(self, statistics: Statistics) -> Status:
        """Return everything."""
        readiness = self.readiness()
        return Status(
            ok=readiness.ok,
            version=__version__,
            now=format_utc(self._clock.now()),
            started_at=format_utc(self._started_at),
            uptime_seconds=round(self._clock.monotonic() - self._started, 3),
            checks=readiness.checks,
            sections={name: _section(section) for name, section in self._sections.items()},
            statistics=[
                Figure(
                    name=sample.metric.name,
                    kind=sample.metric.kind,
                    help=sample.metric.help,
                    value=sample.value,
                    labels=dict(sample.labels),
                    label=sample.metric.label,
                    unit=sample.metric.unit,
                )
                for sample in statistics.samples()
            ],
        )


def _put(into: dict[str, Any], name: str, value: object) -> None:
    if name in into:
        raise ValueError(f"{name} is registered twice")
    into[name] = value


def _asked(check: Check) -> CheckState:
    try:
        ok, reason, needed = check()
    except Exception as error:  # noqa: BLE001 - a check that fails is a bad answer, not a broken health page
        return CheckState(ok=False, reason=f"the check itself failed: {error}", needed=True)
    return CheckState(ok=ok, reason=reason, needed=needed)


def _section(section: Section) -> object:
    try:
        return section()
    except Exception as error:  # noqa: BLE001 - one broken section must not hide the others
        return {"error": f"this section failed: {error}"}


def routes(health: Health, statistics: Statistics, tokens: Tokens) -> list[HTTPRouteHandler]:
    """Return the handlers of ``/healthz``, ``/readyz`` and ``/status`` (which needs the scope ``read``)."""

    @get(
        "/healthz",
        summary="Is the process alive",
        tags=["service"],
        responses={200: ResponseSpec(Alive, generate_examples=False, description="It is.")},
    )
    async def healthz(request: Request[Any, Any, Any]) -> Answer:  # noqa: ARG001 - the framework's fast path wants it
        return Answer(b'{"ok": true}')

    @get(
        "/readyz",
        summary="Can the process take data",
        tags=["service"],
        responses={
            200: ResponseSpec(Readiness, generate_examples=False, description="It can."),
            503: ResponseSpec(Readiness, generate_examples=False, description="It cannot; the checks say why."),
        },
    )
    async def readyz(request: Request[Any, Any, Any]) -> Answer:  # noqa: ARG001 - as above
        readiness = health.readiness()
        return Answer(msgspec.json.encode(readiness), status=200 if readiness.ok else 503)

    @get(
        "/status",
        summary="Checks, figures and the state of each part",
        tags=["service"],
        guards=[tokens.require(READ)],
        responses={200: ResponseSpec(Status, generate_examples=False, description="The status.")},
    )
    async def status(request: Request[Any, Any, Any]) -> Answer:  # noqa: ARG001 - as above
        return Answer(msgspec.json.encode(health.status(statistics), enc_hook=str))

    return [healthz, readyz, status]
