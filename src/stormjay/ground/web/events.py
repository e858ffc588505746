"""Live events for browsers: what the announcer tells, as server-sent events.

An event is a hint to look again, never the record: who was too slow or away reads the truth from the API. The number of
listeners is bounded by the announcer; each has a bounded queue there. A stream ends when its reader goes, when the
service stops, and at once in both cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import Operation, Parameter, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.types import Receive, Scope, Send

from stormjay.errors import RetryLater
from stormjay.ground.announcer import Announcement, Announcer
from stormjay.ground.clock import Clock
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.ground.web.answer import Answer
from stormjay.ground.web.query import Query
from stormjay.ground.web.tokens import READ, Tokens

LISTENERS = Metric("web_event_listeners", "gauge", "Open event streams.", label="Live listeners")
DROPPED = Metric(
    "web_events_dropped", "gauge", "Announcements that slow listeners lost since the start.", label="Events dropped"
)
_RECONNECT_MILLISECONDS = 3000


class EventStreams:
    """All open streams of a process."""

    def __init__(
        self, announcer: Announcer, clock: Clock, statistics: Statistics, *, keep_alive_seconds: float = 15.0
    ) -> None:
        """Prepare.

        Args:
            announcer: Whose announcements are told on.
            clock: Times the comments that keep idle connections open.
            statistics: Where the number of listeners shows.
            keep_alive_seconds: A comment is sent after that much silence.
        """
        self._announcer = announcer
        self._clock = clock
        self._keep_alive_seconds = keep_alive_seconds
        self._closing = asyncio.Event()
        statistics.declare(LISTENERS, DROPPED)
        self._open = 0
        statistics.watch(lambda: statistics.set(LISTENERS, self._open))
        statistics.watch(lambda: statistics.set(DROPPED, announcer.dropped))

    def close(self) -> None:
        """End all streams, also those that are opened later."""
        self._closing.set()

    async def run(self, topics: frozenset[str], receive: Receive, send: Send) -> None:
        """Send events until the reader goes or ``close`` is called.

        Args:
            topics: Which to send; empty means all.
            receive: The connection's ASGI receive.
            send: The connection's ASGI send.

        Raises:
            RetryLater: As many listen as are allowed; nothing was sent yet.
        """
        try:
            async with self._announcer.listen() as waiting, self._counted():
                await _begin(send)
                ends = [asyncio.create_task(_reader_gone(receive)), asyncio.create_task(self._closing.wait())]
                try:
                    await self._tell(topics, waiting, ends, send)
                finally:
                    for task in ends:
                        task.cancel()
        except OverflowError as error:
            raise RetryLater(f"too many event streams: {error}") from error

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def _tell(
        self, topics: frozenset[str], waiting: asyncio.Queue[Announcement], ends: list[asyncio.Task[Any]], send: Send
    ) -> None:
        news = asyncio.create_task(waiting.get())
        silence = asyncio.create_task(self._clock.sleep(self._keep_alive_seconds))
        try:
            while True:
                await asyncio.wait({news, silence, *ends}, return_when=asyncio.FIRST_COMPLETED)
                if any(task.done() for task in ends):
                    break
                if news.done():
                    announcement = news.result()
                    news = asyncio.create_task(waiting.get())
                    if topics and announcement.topic not in topics:
                        continue
                    await _send_chunk(send, encoded(announcement))
                else:
                    await _send_chunk(send, b": still here\n\n")
                silence.cancel()
                silence = asyncio.create_task(self._clock.sleep(self._keep_alive_seconds))
        finally:
            news.cancel()
            silence.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def encoded(announcement: Announcement) -> bytes:
    """Return an announcement in the format of server-sent events; JSON has no line breaks of its own."""
    topic = announcement.topic.replace("\r", " ").replace("\n", " ")
    return b"event: %b\ndata: %b\n\n" % (topic.encode(), msgspec.json.encode(announcement.body, enc_hook=str))


async def _begin(send: Send) -> None:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _send_chunk(send, b"retry: %d\n\n" % _RECONNECT_MILLISECONDS)


async def _send_chunk(send: Send, chunk: bytes) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _reader_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Stream(Answer):
    """The answer that does not end by itself."""

    def __init__(self, streams: EventStreams, topics: frozenset[str]) -> None:
        super().__init__(b"", media_type=b"text/event-stream")
        self._streams = streams
        self._topics = topics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Run until the reader goes or the service stops."""
        await self._streams.run(self._topics, receive, send)


@dataclass
class _EventsOperation(Operation):
    """Describes the one query parameter, which the handler reads by itself."""

    def __post_init__(self) -> None:
        topics = Parameter(
            name="topics",
            param_in="query",
            description="Comma-separated topics to receive; without it, all of them.",
            schema=Schema(type=OpenAPIType.STRING),
        )
        self.parameters = [topics]


def routes(streams: EventStreams, tokens: Tokens) -> list[HTTPRouteHandler]:
    """Return the handler of ``/events`` (scope ``read``)."""

    @get(
        "/events",
        summary="Follow what happens",
        description="Server-sent events. Each is a hint that something changed; the API has the truth.",
        tags=["service"],
        guards=[tokens.require(READ)],
        operation_class=_EventsOperation,
        responses={
            200: ResponseSpec(
                str, generate_examples=False, description="A stream of events.", media_type="text/event-stream"
            )
        },
    )
    async def events(request: Request[Any, Any, Any]) -> Answer:
        wanted = Query(request.scope["query_string"]).first("topics") or ""
        return _Stream(streams, frozenset(topic.strip() for topic in wanted.split(",") if topic.strip()))

    return [events]
