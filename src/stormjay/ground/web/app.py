"""The web application: one Litestar app that all pipelines bring their handlers to.

What holds for every answer, whoever made it, is done here once: security headers, CORS on the seeds' paths, the bound
on bodies, unknown routes as the seeds have them, HEAD, and the one mapping of errors.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from litestar import Litestar, Request
from litestar.exceptions import NotFoundException
from litestar.router import Router
from litestar.routes import HTTPRoute
from litestar.static_files import create_static_files_router
from litestar.types import ControllerRouterHandler, HTTPDisconnectEvent, Message, Scope, Send

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import Clock
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web import description, events
from stormjay.ground.web import health as service_health
from stormjay.ground.web.answer import LEAN, Answer, Headers
from stormjay.ground.web.envelope import ErrorHandler, Problem, accepted, route_not_found, under
from stormjay.ground.web.health import Health
from stormjay.ground.web.tokens import Tokens

_TARGET_BYTES_MAX = 8192
_CSP = b"content-security-policy"
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SECURITY: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (_CSP, _POLICY),
)
_STATIC_NAME = re.compile(r"/?[0-9A-Za-z][0-9A-Za-z._/-]{0,199}", re.ASCII)
_OK = Answer(b'{"ok": true}')


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the web application listens and what it allows.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 lets the system choose.
        body_bytes_max: Longer request bodies are refused with 413.
        cors_allow_origin: Value of ``access-control-allow-origin`` on the seeds' paths; empty sends no CORS headers.
        seed_paths: Paths that keep the seeds' habits: CORS headers, and 404 ``route_not_found`` for a wrong method.
        connections_max: Connections served at once; further ones are answered with 503.
        keep_alive_seconds: An idle connection is closed after that.
        request_seconds: A connection whose request is not whole after that is closed.
        shutdown_seconds: Requests under way get that long when the service stops.
        events_keep_alive_seconds: A comment is sent on a silent event stream after that.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    body_bytes_max: int = 4 * 1024 * 1024
    cors_allow_origin: str = "*"
    seed_paths: tuple[str, ...] = ("/observations", "/stations")
    connections_max: int = 1000
    keep_alive_seconds: int = 30
    request_seconds: float = 60.0
    shutdown_seconds: int = 5
    events_keep_alive_seconds: float = 15.0


class WebApp(Litestar):
    """The framework's application with our doorstep before its routing."""

    def prepare(self, settings: WebSettings, errors: ErrorHandler, streams: events.EventStreams) -> None:
        """Hand in what the doorstep needs; to be called once, before the first request."""
        self._settings = settings
        self._errors = errors
        self._headers_of_seed_paths = _SECURITY
        if settings.cors_allow_origin:
            self._headers_of_seed_paths += (
                (b"access-control-allow-origin", settings.cors_allow_origin.encode()),
                (b"access-control-allow-headers", b"content-type,x-weatherstation-key"),
                (b"access-control-allow-methods", b"GET,POST,OPTIONS"),
            )
        self._lean: dict[str, Callable[[Mapping[str, Any]], Awaitable[Answer]]] = {
            route.path: handler.opt[LEAN]
            for route in self.routes
            if isinstance(route, HTTPRoute)
            for handler in route.route_handlers
            if LEAN in handler.opt
        }
        self.streams = streams

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - narrower than the parent's union otherwise
        """Serve one connection."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        path: str = scope["path"]
        seed_path = under(path, self._settings.seed_paths)
        finishing = _finishing(send, self._headers_of_seed_paths if seed_path else _SECURITY)
        method = scope["method"]
        problem = _problem_of_target(method, path, len(path) + len(scope["query_string"]))
        if method == "OPTIONS":
            await _OK(scope, receive, finishing)
        elif problem is not None:
            await self._errors.refuse(problem, accepted(scope))(scope, receive, finishing)
        elif method == "GET" and path in self._lean:
            try:
                answer = await self._lean[path](scope)
            except Exception as error:  # noqa: BLE001 - every error is answered; what is a bug of ours is logged there
                answer = self._errors.answer(scope, error)
            await answer(scope, receive, finishing)
        elif method == "HEAD" and not path.startswith("/static/"):
            await super().__call__(cast("Scope", {**scope, "method": "GET"}), _gone, _without_body(finishing))
        else:
            await super().__call__(scope, receive, finishing)


def create_app(
    *,
    route_handlers: Sequence[ControllerRouterHandler],
    settings: WebSettings,
    tokens: Tokens,
    statistics: Statistics,
    health: Health,
    announcer: Announcer,
    clock: Clock,
    static: Mapping[str, Path] | None = None,
) -> WebApp:
    """Return the application.

    Args:
        route_handlers: What the pipelines and sinks bring.
        settings: See ``WebSettings``.
        tokens: Who may read ``/status`` and ``/events``; pipelines guard their own routes.
        statistics: Where requests are counted and what ``/status`` shows.
        health: The checks and sections that parts have registered.
        announcer: Source of ``/events``.
        clock: Times keep-alive comments.
        static: Folders to serve, by the path they are served under (``/static/weather``).
    """
    errors = ErrorHandler(statistics, seed_paths=settings.seed_paths)
    streams = events.EventStreams(announcer, clock, statistics, keep_alive_seconds=settings.events_keep_alive_seconds)
    folders = {"/static/api": description.STATIC / "api", "/static/vendor": description.VENDOR, **(static or {})}
    app = WebApp(
        route_handlers=[
            *service_health.routes(health, statistics, tokens),
            *events.routes(streams, tokens),
            *description.routes(),
            *(_static(path, folder) for path, folder in folders.items()),
            *route_handlers,
        ],
        exception_handlers={Exception: errors},
        request_max_body_size=settings.body_bytes_max,
        plugins=[description.DescriptionPlugin()],
        openapi_config=None,
        logging_config=None,
        debug=False,
    )
    app.prepare(settings, errors, streams)
    return app


def _static(path: str, folder: Path) -> Router:
    return create_static_files_router(
        path=path,
        directories=[folder],
        name=path.strip("/").replace("/", "-"),
        include_in_schema=False,
        before_request=_only_plain_names,
    )


def _only_plain_names(request: Request[Any, Any, Any]) -> None:
    """Refuse what no file of ours is called, before the file system sees it (NUL bytes, endless names)."""
    name = str(request.path_params.get("file_path", ""))
    if not _STATIC_NAME.fullmatch(name):
        raise NotFoundException


def _problem_of_target(method: str, path: str, length: int) -> Problem | None:
    """Return what is wrong with a target that can be no route; the framework would forgive it, the seeds do not."""
    if length > _TARGET_BYTES_MAX:
        return Problem(status=414, code="target_too_long", message=f"path and query may have {_TARGET_BYTES_MAX} bytes")
    if (path.endswith("/") and len(path) > 1) or "//" in path or "\0" in path:
        return route_not_found(method, path)
    return None


def _finishing(send: Send, extra: Headers) -> Send:
    """Return a send that adds the headers of every answer; a policy that the answer brings itself stands."""

    async def finishing(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], *extra]
            for name, _ in message["headers"]:
                if name == _CSP:
                    headers.remove((_CSP, _POLICY))
            message["headers"] = headers
        await send(message)

    return finishing


async def _gone() -> HTTPDisconnectEvent:
    """Stand for a reader who waits for nothing more, so that a stream ends with its headers."""
    return {"type": "http.disconnect"}


def _without_body(send: Send) -> Send:
    async def headless(message: Message) -> None:
        if message["type"] == "http.response.body":
            message["body"] = b""
        await send(message)

    return headless
