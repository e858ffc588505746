"""Puts the wanted parts into one service and runs it: what is opened, in which order things stop, what is told."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog
from litestar import Request, get
from litestar.handlers import HTTPRouteHandler

import stormjay
from stormjay.assembly import parts as built
from stormjay.assembly.parts import Common
from stormjay.ground.announcer import Announcer
from stormjay.ground.outbox.report import FAILED, OLDEST_AGE, WAITING
from stormjay.ground.service import Part, Runnable, Service
from stormjay.ground.stats.components import service_device
from stormjay.ground.stats.openmetrics import Metrics
from stormjay.ground.stats.port import Statistics
from stormjay.ground.systemd import Notifier
from stormjay.ground.timestamps import PLAUSIBLE_FROM_US, from_datetime
from stormjay.ground.web.answer import Answer, header
from stormjay.ground.web.app import WebApp, WebSettings, create_app
from stormjay.ground.web.server import bind, serve
from stormjay.ground.web.tokens import READ, Tokens
from stormjay.settings import Settings
from stormjay.weather.cloud import routes as cloud_routes
from stormjay.weather.delivery import Delivery
from stormjay.weather.journal import Journal
from stormjay.weather.listener import Listener
from stormjay.weather.page import routes as page_routes
from stormjay.weather.page.reader import JournalReader, PageSettings
from stormjay.weather.station_metrics import StationMetrics

DISK_FREE_BYTES_MIN = 50_000_000
"""With less than this the service says that it can take no data."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Loop:
    """Makes a function that works until cancelled into a part."""

    work: Callable[[], Awaitable[None]]

    async def run(self) -> None:
        """Work until cancelled."""
        await self.work()


@dataclass
class Web:
    """The web server as a part.

    Attributes:
        app: What it serves.
        settings: Where it listens.
        listener: The socket, taken before anything else starts, so that a port in use is told at once.
        told: Told the address once requests are taken.
    """

    app: WebApp
    settings: WebSettings
    listener: socket.socket
    told: Callable[[str], None] = lambda _url: None
    listening: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Serve until cancelled."""
        await serve(self.app, self.settings, listener=self.listener, on_started=self._started)

    def _started(self, url: str) -> None:
        self.told(url)
        self.listening.set()


@dataclass
class Plan:
    """What one process runs, as it is put together.

    Attributes:
        settings: All of them.
        wanted: The names given to ``run``; none means everything that is enabled.
        common: What the parts share.
        stack: Closes what was opened, last first, after all parts have ended.
    """

    settings: Settings
    wanted: frozenset[str]
    common: Common
    stack: AsyncExitStack
    parts: list[Part] = field(default_factory=list)
    handlers: list[HTTPRouteHandler] = field(default_factory=list)
    static: dict[str, Path] = field(default_factory=dict)
    journal: Journal | None = None

    def runs(self, name: str, *, enabled: bool) -> bool:
        """Tell whether a part is to run: named, or its group is named or nothing is, and it is enabled."""
        if name in self.wanted:
            return True
        return enabled and (not self.wanted or name.partition(".")[0] in self.wanted)

    async def opened_journal(self) -> Journal:
        """Return the journal, opened once for all parts that need it."""
        if self.journal is None:
            journal = await self.stack.enter_async_context(
                built.open_journal(self.settings, writing=True, common=self.common)
            )
            self.journal = journal
            self.common.health.add("journal", partial(_journal_check, journal))
            self.add("weather.journal", journal)  # only its clockwork; the file stays open until every part has ended
        return self.journal

    def add(self, name: str, runnable: Runnable) -> None:
        """Run a part; the order of adding is the order of stopping."""
        self.parts.append(Part(name, runnable))


async def run(settings: Settings, parts: Sequence[str]) -> int:
    """Run the enabled parts, or those named, until a signal; return the exit code.

    Args:
        settings: All of them.
        parts: Names as ``weather.listener``; ``weather`` is all of its enabled parts; none is everything enabled.

    Raises:
        StormjayError: Something cannot be built or opened; nothing was started.
    """
    return await run_with(settings, parts, Common.fresh())


async def run_with(
    settings: Settings,
    parts: Sequence[str],
    common: Common,
    *,
    further: Mapping[str, Runnable] | None = None,
    told: Callable[[str], None] = lambda _url: None,
) -> int:
    """Run parts over shared things of the caller's, with further parts that stop first.

    Raises:
        StormjayError: As ``run``.
    """
    async with AsyncExitStack() as stack:
        plan = Plan(settings, frozenset(parts), common, stack)
        for name, runnable in (further or {}).items():
            plan.add(name, runnable)
        common.health.add("disk", partial(_disk_check, settings.file("")))
        common.health.add("clock", partial(_clock_check, common))
        common.health.add("loops", partial(_loops_check, common))
        await _add_sources(plan)
        await _add_far_sides(plan)
        web = await _web(plan, told)
        if web is not None:
            plan.add("web", web)
        if not plan.parts:
            log.warning("service.nothing_enabled", next_step="run `stormjay init`, then enable what you have")
        service = Service(
            plan.parts,
            clock=common.clock,
            notifier=Notifier.from_environment(os.environ),
            heartbeats=common.heartbeats,
            status=partial(_line, common.statistics),
            ready=None if web is None else _until(web.listening),
        )
        return await service.run()


def _until(event: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def ready() -> None:
        await event.wait()

    return ready


async def _add_sources(plan: Plan) -> None:
    own, common = plan.settings.weather, plan.common
    if plan.runs("weather.bridge", enabled=own.bridge.enabled):
        plan.add("weather.bridge", built.bridge(plan.settings, common))
    if plan.runs("weather.listener", enabled=own.radio.enabled):
        listener = built.listener(plan.settings, await plan.opened_journal(), common)
        common.health.add("radio", partial(_radio_check, listener))
        common.health.add_section("radio", partial(_radio_section, listener))
        plan.add("weather.listener", listener)
    if plan.runs("weather.retention", enabled=own.retention.enabled):
        retention = built.retention(plan.settings, await plan.opened_journal(), common)
        plan.add("weather.retention", Loop(retention.run))


async def _add_far_sides(plan: Plan) -> None:
    own, common = plan.settings.weather, plan.common
    if plan.runs("weather.delivery", enabled=own.delivery.enabled):
        journal = await plan.opened_journal()
        for name, delivery in (await built.deliveries(plan.settings, journal, common)).items():
            common.health.add(f"delivery {name}", partial(_delivery_check, delivery))
            common.health.add_section(f"delivery {name}", partial(_delivery_section, delivery, common.statistics))
            plan.add(f"weather.delivery.{name}", delivery)
    elif (own.delivery.api_url or own.destinations) and not plan.wanted:
        log.warning(
            "delivery.destinations_not_served",
            destinations=[*([built.FIRST_DESTINATION] if own.delivery.api_url else []), *own.destinations],
            next_step="set weather.delivery.enabled, or run weather.delivery in a process of its own",
        )
    if plan.settings.mqtt.url and (plan.journal is not None or not plan.wanted):
        sink = built.mqtt_sink(plan.settings, common)
        sink.announce(service_device(common.statistics, plan.settings.mqtt.base_topic, version=stormjay.__version__))
        if plan.journal is not None:
            plan.add("weather.mqtt", built.weather_mqtt(plan.settings, plan.journal, sink, common))
        plan.add("mqtt", sink)
    if plan.settings.stats.device_values and plan.journal is not None:
        beat = common.heartbeats.register("weather.station_metrics", silent_seconds_max=float("inf"))
        plan.add(
            "weather.station_metrics",
            StationMetrics(
                plan.journal.database, statistics=common.statistics, announcer=common.announcer, heartbeat=beat
            ),
        )


async def _web(plan: Plan, told: Callable[[str], None]) -> Web | None:
    """Return the web with what the wanted parts bring, or None when only parts without a face run."""
    settings, common = plan.settings, plan.common
    tokens = built.tokens(settings, common.clock)
    cloud = plan.runs("weather.cloud", enabled=settings.weather.cloud.enabled)
    page = plan.runs("weather.page", enabled=settings.weather.page.enabled)
    if plan.wanted and not (cloud or page):
        return None
    web = built.web_settings(settings)
    listener = bind(web.host, web.port)
    plan.stack.callback(listener.close)  # where the web never gets to run
    if cloud:
        serving = await plan.stack.enter_async_context(built.open_cloud(settings, common))
        plan.handlers += cloud_routes.routes(serving, tokens)
    if page:
        reader = page_reader(settings, await plan.opened_journal(), common)
        plan.handlers += page_routes.reading(reader, (tokens.require(READ),))
        plan.add("weather.page", reader)
        plan.static[page_routes.STATIC_PATH] = page_routes.STATIC
    if settings.stats.metrics:
        plan.handlers.append(metrics_route(common.statistics, tokens))
    app = web_app(web, plan.handlers, tokens, common, static=plan.static)
    return Web(app, web, listener, told)


def page_reader(settings: Settings, journal: Journal, common: Common) -> JournalReader:
    """Return what the page asks the journal through."""
    return JournalReader(
        journal.database,
        built.sites(settings),
        built.targets(settings),
        PageSettings(thresholds=built.thresholds(settings)),
        common.clock,
    )


def web_app(
    settings: WebSettings,
    handlers: Sequence[HTTPRouteHandler],
    tokens: Tokens,
    common: Common,
    *,
    static: Mapping[str, Path],
) -> WebApp:
    """Return the application with the handlers that parts brought."""
    announcer: Announcer = common.announcer
    return create_app(
        route_handlers=handlers,
        settings=settings,
        tokens=tokens,
        statistics=common.statistics,
        health=common.health,
        announcer=announcer,
        clock=common.clock,
        static=static,
    )


def metrics_route(statistics: Statistics, tokens: Tokens) -> HTTPRouteHandler:
    """Return the handler of ``/metrics``, OpenMetrics or Prometheus text by the Accept header."""
    metrics = Metrics(statistics, version=stormjay.__version__)

    @get("/metrics", include_in_schema=False, guards=[tokens.require(READ)])
    async def scrape(request: Request[Any, Any, Any]) -> Answer:
        accept = header(request.scope, b"accept") or b""
        media_type, body = metrics.render(accept.decode("latin-1"))
        return Answer(body, media_type=media_type.encode())

    return scrape


# ------------------------------------------------------------------------------------------------- what the parts say


def _journal_check(journal: Journal) -> tuple[bool, str, bool]:
    if journal.has_unstored:
        return False, "packets wait outside the journal, which cannot be written; see free space and permissions", True
    return built.file_check(journal.database)


def _disk_check(folder: Path) -> tuple[bool, str, bool]:
    free = shutil.disk_usage(folder).free
    return free >= DISK_FREE_BYTES_MIN, f"{free // 1_000_000} MB free in {folder}", True


def _clock_check(common: Common) -> tuple[bool, str, bool]:
    now = common.clock.now()
    sane = from_datetime(now) > PLAUSIBLE_FROM_US
    return sane, f"the clock says {now:%Y-%m-%d %H:%M} UTC", True


def _loops_check(common: Common) -> tuple[bool, str, bool]:
    hanging = common.heartbeats.hanging()
    return not hanging, f"no sign of life from {', '.join(hanging)}" if hanging else "every loop is at work", True


def _radio_check(listener: Listener) -> tuple[bool, str, bool]:
    link = listener.link
    if link.connected:
        return True, f"{link.radio} is connected", False
    return False, f"{link.radio} is not connected: {link.last_error or 'not tried yet'}", False


def _radio_section(listener: Listener) -> object:
    return msgspec.to_builtins(listener.link)


def _delivery_check(delivery: Delivery) -> tuple[bool, str, bool]:
    status = delivery.relay.status()
    if status.down:
        return False, f"{status.destination} is down: {status.reason}", False
    return True, f"{status.destination} is reached or has not been needed", False


def _delivery_section(delivery: Delivery, statistics: Statistics) -> object:
    status = delivery.relay.status()
    place = status.destination
    return {
        **msgspec.to_builtins(status),
        "waiting": int(statistics.value(WAITING, destination=place)),
        "failed": int(statistics.value(FAILED, destination=place)),
        "oldest_age_seconds": round(statistics.value(OLDEST_AGE, destination=place)),
    }


def _line(statistics: Statistics) -> str:
    values = {
        (sample.metric.name, dict(sample.labels).get("destination", "")): sample.value
        for sample in statistics.samples()
        if sample.metric.name == "delivery_waiting"
    }
    waiting = ", ".join(f"{int(value)} wait for {place}" for (_, place), value in values.items())
    return waiting or "running"
