"""Runs the application under uvicorn inside our own task group: our signals, our stop, and a clear word about ports."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Generator

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stormjay.errors import SettingsError
from stormjay.ground.web.app import WebApp, WebSettings

PORT_SETTING = "STORMJAY_WEB__PORT"
HOST_SETTING = "STORMJAY_WEB__HOST"
_BACKLOG = 2048
_PORT_MAX = 65_535
_log = structlog.get_logger(__name__)


class _Config(uvicorn.Config):
    request_seconds: float = 60.0


class _Protocol(HttpToolsProtocol):
    """Closes a connection whose request is not whole in time: halves of requests must not take everybody's place."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the parent has it
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_request()

    def on_message_complete(self) -> None:
        self._expect_nothing()
        super().on_message_complete()

    def _expect_request(self) -> None:
        self._expect_nothing()
        seconds = getattr(self.config, "request_seconds", _Config.request_seconds)
        self._deadline = self.loop.call_later(seconds, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """Leaves signals to the service, which stops all parts in their order."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.takes_requests = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.takes_requests.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        SettingsError: The port is in use or not allowed, or the address is not one of this machine.
    """
    if not 0 <= port <= _PORT_MAX:  # the resolver would cut it to 16 bits and say nothing
        raise _refused(host, port, OverflowError("ports go from 0 to 65535"))
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            "web_address",
            f"cannot listen on {host}: {error}",
            next_step=f"set {HOST_SETTING} to an address of this machine",
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise _refused(host, port, error) from error
    listener.setblocking(False)  # noqa: FBT003 - the standard library's own signature
    return listener


def _refused(host: str, port: int, error: OSError | OverflowError) -> SettingsError:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return SettingsError(
            "web_port_in_use",
            f"port {port} on {host} is in use by another program",
            next_step=f"set {PORT_SETTING} to a free port, for example {PORT_SETTING}={port + 1}",
        )
    if number == errno.EACCES:
        return SettingsError(
            "web_port_not_allowed",
            f"port {port} needs more rights than this process has",
            next_step=f"set {PORT_SETTING} to a port above 1023",
        )
    return SettingsError(
        "web_address",
        f"cannot listen on {host} port {port}: {error}",
        next_step=f"set {HOST_SETTING} to an address of this machine and {PORT_SETTING} to a port from 0 to 65535",
    )


async def serve(
    app: WebApp,
    settings: WebSettings,
    *,
    listener: socket.socket | None = None,
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serve until cancelled; then end event streams at once, let requests finish, and return.

    Args:
        app: The application.
        settings: Where to listen, and the bounds.
        listener: A socket from ``bind``, for a caller that wants to know early that the port is free.
        on_started: Told the URL once requests are taken.

    Raises:
        SettingsError: As ``bind``.
    """
    listener = listener or bind(settings.host, settings.port)
    port = listener.getsockname()[1]
    config = _Config(
        app,
        loop="none",
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.connections_max,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
    config.request_seconds = settings.request_seconds
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name="web")
    try:
        await _started(server, task)
        url = f"http://{_shown(settings.host)}:{port}"
        _log.info("web.started", url=url)
        if on_started is not None:
            on_started(url)
        await asyncio.shield(task)
    except asyncio.CancelledError:
        app.streams.close()
        server.should_exit = True
        await task
        _log.info("web.stopped")
        raise
    finally:
        listener.close()


async def _started(server: _Server, task: asyncio.Task[None]) -> None:
    waiting = asyncio.create_task(server.takes_requests.wait())
    try:
        await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if task.done():
        await task


def _shown(host: str) -> str:
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not listened on
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
