"""Live events: what is sent, when a stream ends, and its bounds. The ASGI connection is played by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from stormjay.errors import RetryLater
from stormjay.ground.announcer import Announcement, Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web.app import WebSettings, create_app
from stormjay.ground.web.events import LISTENERS, EventStreams, encoded
from stormjay.ground.web.health import Health
from stormjay.ground.web.tokens import READ, Tokens

pytestmark = pytest.mark.anyio


class Reader:
    """The browser's end of one connection."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.gone = asyncio.Event()
        self._asked = False

    async def receive(self) -> Any:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.put_nowait(message)

    async def next(self) -> Any:
        with anyio.fail_after(30):
            return await self.sent.get()

    async def chunk(self) -> str:
        message = await self.next()
        assert message["type"] == "http.response.body"
        return bytes(message["body"]).decode()


@asynccontextmanager
async def opened(
    streams: EventStreams, topics: frozenset[str] = frozenset()
) -> AsyncIterator[tuple[Reader, asyncio.Task[None]]]:
    reader = Reader()
    task = asyncio.create_task(streams.run(topics, reader.receive, reader.send))
    start = await reader.next()
    assert (b"content-type", b"text/event-stream; charset=utf-8") in start["headers"]
    assert (await reader.chunk()).startswith("retry: ")
    try:
        yield reader, task
    finally:
        reader.gone.set()
        with anyio.fail_after(30):
            await task


def made(**limits: int) -> tuple[EventStreams, Announcer, ManualClock, Statistics]:
    clock, announcer, statistics = ManualClock(datetime(2026, 8, 6, tzinfo=UTC)), Announcer(**limits), Statistics()
    return EventStreams(announcer, clock, statistics, keep_alive_seconds=15), announcer, clock, statistics


async def test_announcements_arrive_in_order_and_by_topic() -> None:
    streams, announcer, _, statistics = made()
    async with opened(streams) as (everything, _), opened(streams, frozenset({"reading"})) as (readings, _):
        announcer.announce("packet", n=1)
        announcer.announce("reading", n=2, when=datetime(2026, 8, 6, tzinfo=UTC))
        assert await everything.chunk() == 'event: packet\ndata: {"n":1}\n\n'
        assert (await everything.chunk()).startswith('event: reading\ndata: {"n":2,')
        assert (await readings.chunk()).startswith("event: reading")
        list(statistics.samples())
        assert statistics.value(LISTENERS) == 2
    assert announcer.listeners == 0


async def test_silence_is_broken_by_a_comment_on_the_given_clock() -> None:
    streams, announcer, clock, _ = made()
    async with opened(streams) as (reader, _):
        await clock.advance(15)
        assert (await reader.chunk()).startswith(":")
        await clock.advance(10)
        announcer.announce("reading")
        assert (await reader.chunk()).startswith("event: reading")
        await clock.advance(10)
        assert reader.sent.empty()
        await clock.advance(5)
        assert (await reader.chunk()).startswith(":")


async def test_a_stream_ends_when_its_reader_goes() -> None:
    streams, announcer, _, _ = made()
    async with opened(streams) as (reader, task):
        reader.gone.set()
        with anyio.fail_after(30):
            await task
        assert announcer.listeners == 0


async def test_all_streams_end_when_the_service_stops_and_later_ones_at_once() -> None:
    streams, _, _, _ = made()
    async with opened(streams) as (reader, task):
        streams.close()
        with anyio.fail_after(30):
            await task
        assert (await reader.next())["more_body"] is False
    late = Reader()
    with anyio.fail_after(30):
        await streams.run(frozenset(), late.receive, late.send)


async def test_too_many_listeners_are_told_to_come_back_later() -> None:
    streams, _, _, _ = made(listeners_max=1)
    async with opened(streams):
        second = Reader()
        with pytest.raises(RetryLater):
            await streams.run(frozenset(), second.receive, second.send)
        assert second.sent.empty()


async def test_a_slow_reader_loses_the_oldest_and_holds_up_nobody() -> None:
    streams, announcer, _, _ = made()
    async with opened(streams) as (reader, _):
        for n in range(1000):
            announcer.announce("reading", n=n)
        assert announcer.dropped > 0
        last = ""
        while not last.endswith('{"n":999}\n\n'):
            last = await reader.chunk()


def test_a_topic_cannot_break_the_format() -> None:
    chunk = encoded(Announcement("a\nb", {"text": "line\nline"}))
    assert chunk.count(b"\n") == 3
    assert json.loads(chunk.split(b"data: ")[1]) == {"text": "line\nline"}


async def test_the_route_streams_inside_the_application_and_needs_the_scope_read() -> None:
    clock, announcer = ManualClock(datetime(2026, 8, 6, tzinfo=UTC)), Announcer()
    for public, status in (((READ,), 200), ((), 401)):
        app = create_app(
            route_handlers=[],
            settings=WebSettings(),
            tokens=Tokens(public=public),
            statistics=Statistics(),
            health=Health(clock),
            announcer=announcer,
            clock=clock,
        )
        reader = Reader()
        scope = {
            "type": "http", "method": "GET", "path": "/events", "raw_path": b"/events", "headers": [],
            "query_string": b"topics=reading,%20delivery", "http_version": "1.1", "scheme": "http",
            "asgi": {"version": "3.0"}, "server": ("web", 80), "client": ("127.0.0.1", 1), "root_path": "",
        }  # fmt: skip
        task = asyncio.create_task(app(scope, reader.receive, reader.send))
        assert (await reader.next())["status"] == status
        if status == 200:
            await reader.chunk()
            announcer.announce("packet")
            announcer.announce("delivery", delivered=3)
            assert await reader.chunk() == 'event: delivery\ndata: {"delivered":3}\n\n'
            app.streams.close()
        with anyio.fail_after(30):
            await task
