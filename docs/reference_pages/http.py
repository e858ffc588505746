"""The page of all routes, read off the OpenAPI description of the whole application."""

from __future__ import annotations

import re
import tempfile
from http import HTTPStatus
from pathlib import Path
from typing import Any

from litestar import Litestar
from litestar.routes import HTTPRoute

from docs.reference_pages.table import MADE, table
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import SystemClock
from stormjay.ground.keyed.memory import MemoryKeyedStore
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web.app import WebSettings, create_app
from stormjay.ground.web.description import describe
from stormjay.ground.web.health import Health
from stormjay.ground.web.tokens import Tokens
from stormjay.weather.cloud import routes as cloud_routes
from stormjay.weather.cloud.serving import Cloud, CloudSettings
from stormjay.weather.cloud.store import TABLE, Observations
from stormjay.weather.journal import Journal
from stormjay.weather.page import routes as page_routes
from stormjay.weather.page.reader import PageSettings

PURPOSES = {
    "/": "The weather page.",
    "/docs": "The API, to read and to try.",
    "/manifest.webmanifest": "What a phone needs to put the page on its home screen.",
    "/openapi.json": "The API's description, OpenAPI 3.1.",
    "/static/": "Scripts, styles and pictures.",
    "/weather/fragments/": "A part of the page, fetched anew when something has changed.",
    "/weather/packet/": "One packet: as it came, what was read out of it, what became of it.",
}
"""What the routes outside the API are for, by the beginning of their path; the longest that fits counts."""


async def http_pages() -> tuple[str, dict[str, Any]]:
    """Return the page, and the OpenAPI description, of the application with every pipeline's routes in it."""
    clock, statistics, announcer, tokens = SystemClock(), Statistics(), Announcer(), Tokens()
    observations = Observations(MemoryKeyedStore(TABLE), clock=clock, statistics=statistics, announcer=announcer)
    cloud = Cloud(observations, settings=CloudSettings(), stations={}, clock=clock)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        journal = await Journal.open(path, clock=clock, statistics=statistics, announcer=announcer)
        try:
            page = page_routes.routes(journal.database, {}, PageSettings(), clock, [])
            app = create_app(
                route_handlers=[*cloud_routes.routes(cloud, tokens), *page],
                settings=WebSettings(),
                tokens=tokens,
                statistics=statistics,
                health=Health(clock),
                announcer=announcer,
                clock=clock,
            )
            description = describe(app)
            return http_page(description, undescribed(app, description)), description
        finally:
            await journal.close()


def undescribed(app: Litestar, description: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return method, path and purpose of the routes that are no part of the API: pages, fragments, files."""
    found = []
    for route in app.routes:
        if not isinstance(route, HTTPRoute) or re.sub(r":\w+}", "}", route.path) in description["paths"]:
            continue
        for handler in route.route_handlers:
            fitting = [
                start for start in PURPOSES if route.path == start or (start != "/" and route.path.startswith(start))
            ]
            purpose = PURPOSES[max(fitting, key=len)] if fitting else ""
            methods = ", ".join(
                sorted(str(method) for method in handler.http_methods if method not in {"HEAD", "OPTIONS"})
            )
            found.append((methods, route.path, purpose))
    return sorted({entry for entry in found if entry[0]}, key=lambda entry: (entry[1], entry[0]))


def http_page(description: dict[str, Any], others: list[tuple[str, str, str]]) -> str:
    """Return the page of all routes: those of the API with parameters and answers, then the others."""
    lines = [
        "# HTTP",
        "",
        MADE.format(source="the routes in the code"),
        "",
        "The full description, with every field and its bounds, is [openapi.json](openapi.json); a running Stormjay",
        "serves it at `/openapi.json`, and for people at `/docs`.",
        "",
        'Errors are `{"ok": false, "error": "<code>", ...}`; with `Accept: application/problem+json` they are problem',
        "details after RFC 9457.",
        "",
    ]
    for path, item in sorted(description["paths"].items()):
        for method, operation in item.items():
            lines += _operation(method, path, operation)
    lines += ["## Pages and files", "", "No part of the API: their form may change with any version.", ""]
    lines += table(("", "path", "what"), ((method, f"`{path}`", purpose) for method, path, purpose in others))
    return "\n".join(lines).rstrip() + "\n"


def _operation(method: str, path: str, operation: dict[str, Any]) -> list[str]:
    lines = [f"## {method.upper()} {path}", ""]
    for text in (operation.get("summary"), operation.get("description")):
        lines += [f"{text.rstrip('.')}.", ""] if text else []
    rows = [
        (
            f"`{parameter['name']}`",
            parameter["in"],
            "yes" if parameter.get("required") else "",
            parameter.get("description", ""),
        )
        for parameter in operation.get("parameters", [])
    ]
    if rows:
        lines += table(("parameter", "in", "required", "meaning"), rows)
    answers = [(status, _meaning(status, answer)) for status, answer in operation["responses"].items()]
    return lines + table(("status", "meaning"), answers)


def _meaning(status: str, answer: dict[str, Any]) -> str:
    """Return what an answer means; a framework's general words for a status become the status' name."""
    if not status.isdigit():
        return "Any other error."
    text: str = answer.get("description", "")
    known = HTTPStatus(int(status))
    return f"{known.phrase}." if text == known.description or not text else text
