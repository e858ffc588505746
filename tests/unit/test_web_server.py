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
