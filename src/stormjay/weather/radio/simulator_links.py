"""The cables of a simulated node: who is at its client port, and its UART with the Serial module behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from stormjay.ground.clock import Clock
from stormjay.weather.radio.pseudo_terminal import PseudoTerminal
from stormjay.weather.radio.serial_module import IDLE_SECONDS, TextMessageSerial, printed

_READ_BYTES = 4096


class Host(Protocol):
    """The program at the node's client port: one TCP connection, or whoever has the serial port open.

    Attributes:
        configured: Whether it has been told everything and now gets packets.
    """

    configured: bool

    async def read(self) -> bytes:
        """Return what it wrote, at least one byte; nothing once it is gone."""
        ...

    async def write(self, data: bytes) -> None:
        """Send to it; nothing happens when it is gone."""
        ...

    def end(self) -> None:
        """Cut the cable."""
        ...


class TcpHost:
    """A client over TCP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.configured = False
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return what it wrote; nothing once the connection ended."""
        try:
            return await self._reader.read(_READ_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the connection is full."""
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    def end(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()


class SerialHost:
    """Whoever has the serial port open; a port does not tell who that is."""

    def __init__(self, port: PseudoTerminal) -> None:
        self.configured = False
        self._port = port

    async def read(self) -> bytes:
        """Return what was written; nothing once the port is unplugged."""
        return await self._port.read()

    async def write(self, data: bytes) -> None:
        """Send; what nobody reads is lost."""
        self._port.write(data)

    def end(self) -> None:
        """Unplug the port."""
        self._port.unplug()


class SimulatedUart:
    """The UART of a node: bytes that a bridge writes become texts, heard texts are printed."""

    def __init__(self, path: Path, *, clock: Clock, on_text: Callable[[bytes], None]) -> None:
        self._terminal = PseudoTerminal(path)
        self._clock = clock
        self._on_text = on_text
        self._module = TextMessageSerial()
        self._idle: asyncio.Task[None] | None = None

    @property
    def path(self) -> str:
        """The port that the bridge opens."""
        return self._terminal.path

    def plug_in(self) -> None:
        """Make the port appear."""
        self._terminal.plug_in()

    def unplug(self) -> None:
        """Make the port vanish; what was collected but not yet sent is lost."""
        if self._idle is not None:
            self._idle.cancel()
        self._terminal.unplug()

    def print_text(self, text: bytes, *, short_name: str | None) -> None:
        """Print a text as the Serial module does; None as the name prints one of its own."""
        self._terminal.write(printed(text, short_name=short_name))

    async def run(self) -> None:
        """Read until the port is unplugged; each piece that the module cuts goes to ``on_text``."""
        while data := await self._terminal.read():
            if self._idle is not None:
                self._idle.cancel()
            for text in self._module.feed(data):
                self._send(text)
            if self._module.collecting:
                self._idle = asyncio.create_task(self._fall_idle())

    async def _fall_idle(self) -> None:
        await self._clock.sleep(IDLE_SECONDS)
        text = self._module.idle()
        if text is not None:
            self._send(text)

    def _send(self, text: bytes) -> None:
        self.print_text(text, short_name=None)
        self._on_text(text)
