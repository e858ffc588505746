"""A real HTTP/1.1 server on a loopback port that answers as a test says: also wrongly, halfway, late or never."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """What came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """What goes out.

    Attributes:
        status: Status code.
        body: Bytes of the body.
        headers: Further header lines.
        cut: Close the connection after so many bytes of the whole answer.
        hang: Never answer; the client has to give up.
    """

    status: int = 200
    body: bytes = b'{"ok": true, "deduped": false}'
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    hang: bool = False


Handler = Callable[[Request], Answer | Awaitable[Answer]]


@dataclass
class Api:
    """A running server.

    Attributes:
        url: Where it is.
        requests: Everything that came in, in order.
        connections: How many connections were opened.
    """

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    @property
    def paths(self) -> list[str]:
        """Paths of all requests."""
        return [request.path for request in self.requests]


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[Api]:
    """Answer on a free loopback port until the block ends."""
    api = Api()
    open_tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        api.connections += 1
        task = asyncio.current_task()
        assert task is not None
        open_tasks.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while await _answer_one(api, handler, reader, writer):
                    pass
        finally:
            open_tasks.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    api.url = f"http://{host}:{port}"
    try:
        yield api
    finally:
        server.close()
        for task in list(open_tasks):
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)
        await server.wait_closed()


async def _answer_one(api: Api, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    request = Request(method, path, headers, body)
    api.requests.append(request)
    made = handler(request)
    answer = made if isinstance(made, Answer) else await made
    if answer.hang:
        await reader.read()  # returns when the client gives up
        return False
    extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    head_out = f"HTTP/1.1 {answer.status} X\r\ncontent-length: {len(answer.body)}\r\n{extra}\r\n"
    writer.write((head_out.encode("latin-1") + answer.body)[: answer.cut])
    await writer.drain()
    return answer.cut is None


def closed_port_url() -> str:
    """Return an address on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
