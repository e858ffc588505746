"""A TCP relay that makes a network bad on command: slow, narrow, cut, mute, or refusing.

async with ToxicProxy("127.0.0.1", broker.port) as link:
    ...            # connect to link.port
    link.cut()     # both ends see a reset
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio

_CHUNK_BYTES = 16_384


class ToxicProxy:
    """Relays to one address; its attributes may be changed while connections are open.

    Attributes:
        port: Where it listens; the same after ``refuse`` and ``accept``.
        latency_seconds: Held back before each piece, each way.
        bytes_per_second: Top speed each way, None for no limit.
        cut_after_bytes: Once that many bytes went towards the server, the connections are reset: the server has
            the request, the client never gets the answer. Works once.
        connections: How many have been accepted so far.
    """

    def __init__(self, host: str, port: int, *, wait: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self.port = 0
        self.latency_seconds = 0.0
        self.bytes_per_second: float | None = None
        self.cut_after_bytes: int | None = None
        self.connections = 0
        self._target = (host, port)
        self._wait = wait
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._relays: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        for relay in list(self._relays):
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    async def accept(self) -> None:
        """Listen, on the same port as before if there was one."""
        if self._server is None:
            self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Stop listening and reset what is open: new connections are refused until ``accept``."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        await anyio.lowlevel.checkpoint()

    def cut(self) -> None:
        """Reset every open connection on both sides."""
        for writer in list(self._writers):
            raw = writer.get_extra_info("socket")
            if raw is not None:
                # Lingering for zero seconds makes the close a reset instead of an orderly end.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def mute(self) -> None:
        """Swallow everything from now on while the connections stay open, as a vanished peer does."""
        self._passing.clear()

    def unmute(self) -> None:
        """Let what was held back and everything later pass."""
        self._passing.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            self._relays.discard(task)
            self._writers.discard(writer)
            return
        self._writers.add(far_writer)
        try:
            await asyncio.gather(
                self._carry(reader, far_writer, towards_server=True),
                self._carry(far_reader, writer, towards_server=False),
            )
        except asyncio.CancelledError:
            # The server's own task for this connection: ending quietly is all that is asked of it.
            pass
        finally:
            self._relays.discard(task)
            self._writers -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, towards_server: bool) -> None:
        carried = 0
        try:
            while piece := await reader.read(self._piece_bytes()):
                await self._passing.wait()
                delay = self.latency_seconds
                if self.bytes_per_second is not None:
                    delay += len(piece) / self.bytes_per_second
                if delay:
                    await self._wait(delay)
                carried += len(piece)
                writer.write(piece)
                await writer.drain()
                if towards_server and self.cut_after_bytes is not None and carried >= self.cut_after_bytes:
                    self.cut_after_bytes = None
                    self.cut()
                    return
            writer.write_eof()
        except (OSError, RuntimeError):
            # One of the two went away, by itself or by ``cut``; the other direction ends with it.
            return

    def _piece_bytes(self) -> int:
        if self.bytes_per_second is None:
            return _CHUNK_BYTES
        return max(1, min(_CHUNK_BYTES, int(self.bytes_per_second / 20)))
