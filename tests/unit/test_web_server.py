"""The runner: a real socket on a port the system picks, an orderly stop, and a clear word about ports."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime

import anyio
import httpx
import pytest

from stormjay.errors import SettingsError
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web.app import WebApp, WebSettings, create_app
from stormjay.ground.web.health import Health
from stormjay.ground.web.server import bind, serve
from stormjay.ground.web.tokens import READ, Tokens


def made(announcer: Announcer | None = None) -> WebApp:
    clock = ManualClock(datetime(2026, 8, 6, tzinfo=UTC))
    return create_app(
        route_handlers=[],
        settings=WebSettings(),
        tokens=Tokens(public=[READ]),
        statistics=Statistics(),
        health=Health(clock),
        announcer=announcer or Announcer(),
        clock=clock,
    )


@pytest.mark.anyio
async def test_it_serves_until_cancelled_and_ends_event_streams_at_once() -> None:
    announcer, started = Announcer(), asyncio.Event()
    urls: list[str] = []

    def on_started(url: str) -> None:
        urls.append(url)
        started.set()

    task = asyncio.create_task(serve(made(announcer), WebSettings(port=0), on_started=on_started))
    with anyio.fail_after(60):
        await started.wait()
        async with httpx.AsyncClient(base_url=urls[0]) as client:
            health = await client.get("/healthz")
            assert health.json() == {"ok": True}
            assert "server" not in health.headers
            assert (await client.head("/events")).status_code == 200
            assert announcer.listeners == 0
            async with client.stream("GET", "/events") as events:
                lines = events.aiter_lines()
                assert (await anext(lines)).startswith("retry")
                announcer.announce("reading", n=1)
                assert "event: reading" in [await anext(lines), await anext(lines)]
                task.cancel()
                assert [line async for line in lines if line] == ['data: {"n":1}']
        with pytest.raises(asyncio.CancelledError):
            await task
        assert announcer.listeners == 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    "half", [b"", b"GET /healthz HT", b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nab"]
)
async def test_half_a_request_holds_a_connection_for_a_bounded_time(half: bytes) -> None:
    urls: asyncio.Queue[str] = asyncio.Queue()
    settings = WebSettings(port=0, request_seconds=0.05)
    task = asyncio.create_task(serve(made(), settings, on_started=urls.put_nowait))
    with anyio.fail_after(60):
        port = int((await urls.get()).rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(half)
        await reader.read()  # returns at the end of the connection
        writer.close()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_port_in_use_names_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port} on 127.0.0.1 is in use") as caught:
            bind("127.0.0.1", port)
    assert "STORMJAY_WEB__PORT" in caught.value.next_step


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("192.0.2.1", 0), ("no such host", 0)])
def test_an_address_that_cannot_be_listened_on_names_its_settings(host: str, port: int) -> None:
    with pytest.raises(SettingsError) as caught:
        bind(host, port)
    assert "STORMJAY_WEB__" in caught.value.next_step
