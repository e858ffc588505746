"""A UART to a node's Serial module in TEXTMSG mode: lines out become texts on the mesh (contract weather 2.5).

Needs pyserial, an extra of its own (``stormjay[serial]``): import this module only when a setting names such a port.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, unquote, urlsplit

import structlog

from stormjay.errors import LinkLost, Refused, SettingsError
from stormjay.ground.clock import Clock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.radio.inbox import Inbox
from stormjay.weather.radio.options import (
    CONNECTED,
    LINKS_OPENED,
    PAYLOAD_BYTES_MAX,
    TEXTS_SENT,
    RadioOptions,
    declare,
)
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.radio.threads import run_in_thread, within

try:
    import serial
except ImportError as missing:
    raise SettingsError(
        "serial_extra_missing",
        f"A UART is set, but pyserial is not installed ({missing})",
        next_step="pip install 'stormjay[serial]'",
    ) from missing

_log = structlog.get_logger(__name__)

BAUD_DEFAULT = 115_200
LINE_BYTES_MAX = 1024
"""Longest printed line that is looked at; the radio's own texts are far shorter."""
_READ_BYTES = 4096
_PRINTED = re.compile(rb"([^:{}\[\]\"]{1,16}): (.*)", re.DOTALL)


class UartLink:
    """An open UART."""

    def __init__(
        self,
        port: serial.Serial,
        inbox: Inbox,
        *,
        name: str,
        clock: Clock,
        statistics: Statistics,
        options: RadioOptions,
    ) -> None:
        self._port = port
        self._inbox = inbox
        self._name = name
        self._clock = clock
        self._statistics = statistics
        self._options = options
        self._sending = asyncio.Lock()
        self._line = bytearray()
        self._line_too_long = False

    def packets(self) -> AsyncIterator[MeshPacket]:
        """Yield the texts of other nodes that the module prints; it prints a short name, no node id.

        Raises:
            LinkLost: The port is gone, or the watchdog's time passed in silence.
        """
        return self._inbox.packets()

    async def send_text(self, payload: bytes) -> None:
        """Write one line; its end is added here and counts towards the radio's limit.

        Raises:
            Refused: The payload is empty, holds a line end, or does not fit in one text with its line end. The
                module would cut it in two and both halves would be useless (fault B2).
            LinkLost: The port is gone; nobody knows whether it was written.
        """
        line = payload.rstrip(b"\r\n") + b"\n"
        if line == b"\n":
            raise Refused("an empty text cannot be sent")
        if b"\n" in line[:-1] or b"\r" in line:
            raise Refused("a text over a UART is one line")
        if len(line) > PAYLOAD_BYTES_MAX:
            raise Refused(f"a line of {len(line)} bytes with its end is over the radio's limit of {PAYLOAD_BYTES_MAX}")
        async with self._sending:
            if self._inbox.lost is not None:
                raise self._inbox.lost
            try:
                written = run_in_thread(lambda: self._port.write(line), name="stormjay uart write")
                await within(self._options.send_timeout_seconds, written, clock=self._clock)
            except (OSError, TimeoutError) as error:
                loss = LinkLost(f"{self._name} did not take what was written: {error}")
                self._inbox.lose(loss, reason="send_failed")
                raise loss from error
        self._statistics.add(TEXTS_SENT)

    def read_ready(self) -> None:
        """Take what the port has; called by the event loop."""
        try:
            data = self._port.read(_READ_BYTES)
        except OSError as error:
            self._inbox.lose(LinkLost(f"{self._name} ended: {error}"), reason="lost")
            asyncio.get_running_loop().remove_reader(self._port.fileno())
            return
        for piece in data.splitlines(keepends=True):
            room = LINE_BYTES_MAX - len(self._line)
            self._line_too_long = self._line_too_long or len(piece) > room
            self._line += piece[:room]
            if piece.endswith((b"\n", b"\r")):
                self._line_ended()

    def _line_ended(self) -> None:
        line, too_long = bytes(self._line).strip(b"\r\n"), self._line_too_long
        self._line.clear()
        self._line_too_long = False
        if too_long:
            self._inbox.malformed("line_too_long")
            return
        match = _PRINTED.fullmatch(line)
        # Without a name before it, it is the module's echo of what was sent here, or a blank line.
        if match is None:
            return
        self._inbox.offer(
            MeshPacket(
                received_at=self._clock.now(),
                portnum=TEXT_MESSAGE_APP,
                payload=match[2],
                source_name=match[1].decode("utf-8", "replace"),
            )
        )


class Uart:
    """How to reach one Serial module."""

    def __init__(
        self, path: str, *, baud: int, clock: Clock, statistics: Statistics, options: RadioOptions | None = None
    ) -> None:
        self._path = path
        self._baud = baud
        self._clock = clock
        self._statistics = statistics
        self._options = options or RadioOptions()
        declare(statistics)

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, statistics: Statistics, options: RadioOptions | None = None) -> Uart:
        """Build from ``uart:///dev/ttyS0`` or ``uart:///dev/ttyS0?baud=115200``.

        Raises:
            SettingsError: The address is of another form.
        """
        parts = urlsplit(url)
        baud_text = parse_qs(parts.query).get("baud", [str(BAUD_DEFAULT)])[-1]
        if parts.scheme != "uart" or parts.netloc or not parts.path or not baud_text.isdecimal() or int(baud_text) < 1:
            raise SettingsError(
                "radio_url_invalid",
                "the UART's address is not understood",
                next_step="Write uart:///dev/ttyS0?baud=115200.",
            )
        return cls(unquote(parts.path), baud=int(baud_text), clock=clock, statistics=statistics, options=options)

    @property
    def name(self) -> str:
        """``uart:/dev/ttyS0``."""
        return f"uart:{self._path}"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[UartLink]:
        """Open the port for the length of the block.

        Raises:
            LinkLost: It cannot be opened.
        """
        inbox = Inbox(name=self.name, clock=self._clock, statistics=self._statistics, options=self._options)
        port = await self._open()
        link = UartLink(
            port, inbox, name=self.name, clock=self._clock, statistics=self._statistics, options=self._options
        )
        loop = asyncio.get_running_loop()
        loop.add_reader(port.fileno(), link.read_ready)
        self._statistics.add(LINKS_OPENED)
        self._statistics.add(CONNECTED)
        watch = asyncio.create_task(inbox.watch())
        try:
            yield link
        finally:
            self._statistics.add(CONNECTED, -1)
            watch.cancel()
            inbox.close()
            loop.remove_reader(port.fileno())
            with suppress(OSError):
                port.close()
            await asyncio.gather(watch, return_exceptions=True)

    async def _open(self) -> serial.Serial:
        def work() -> serial.Serial:
            return serial.Serial(
                self._path,
                self._baud,
                timeout=0,
                write_timeout=self._options.send_timeout_seconds,
                exclusive=True,
            )

        opening = run_in_thread(work, name="stormjay uart open")
        try:
            return await within(self._options.connect_timeout_seconds, opening, clock=self._clock)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise
        except (OSError, TimeoutError, ValueError) as error:
            opening.add_done_callback(_close_late)
            raise LinkLost(
                f"{self.name} cannot be opened: {error}",
                next_step="Look whether the port is there, free, and open to the service's user (group dialout).",
            ) from error


def _close_late(opening: asyncio.Future[serial.Serial]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
