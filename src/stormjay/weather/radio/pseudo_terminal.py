"""The far end of a serial cable: a pseudo-terminal that another program opens as a port."""

from __future__ import annotations

import asyncio
import os
import tty
from contextlib import suppress
from pathlib import Path

WAITING_BYTES_MAX = 65_536
"""What may wait for the program at the port; a real UART without flow control loses the rest, and so does this."""
_READ_BYTES = 4096


class PseudoTerminal:
    """A serial port whose other end this program holds.

    It is plugged in and unplugged once. With a ``link`` its path is that of the next one too, as a USB device's is.

    Attributes:
        lost_bytes: Written but thrown away because nobody read for too long.
    """

    def __init__(self, link: Path | None = None) -> None:
        self.lost_bytes = 0
        self._link = link
        self._path = ""
        self._near: int | None = None
        self._far: int | None = None
        self._waiting = bytearray()
        self._arrived = asyncio.Event()
        self._received = bytearray()

    @property
    def path(self) -> str:
        """What the other program opens."""
        return str(self._link) if self._link is not None else self._path

    @property
    def plugged_in(self) -> bool:
        """Whether the port exists now."""
        return self._near is not None

    def plug_in(self) -> None:
        """Make the port appear."""
        if self._near is not None:
            return
        self._near, self._far = os.openpty()
        tty.setraw(self._far)
        os.set_blocking(self._near, False)
        # The far end stays open here too: otherwise each close by the other program would look like an unplugging.
        self._path = os.ttyname(self._far)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._path)
        asyncio.get_running_loop().add_reader(self._near, self._read_ready)

    def unplug(self) -> None:
        """Make the port vanish; the program that has it open gets an error, ``read`` returns nothing."""
        if self._near is None or self._far is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._near)
        loop.remove_writer(self._near)
        os.close(self._near)
        os.close(self._far)
        self._near = self._far = None
        self._waiting.clear()
        if self._link is not None:
            self._link.unlink(missing_ok=True)
        self._arrived.set()

    async def read(self) -> bytes:
        """Return what the other program wrote, at least one byte; nothing once the port is unplugged."""
        while not self._received and self._near is not None:
            self._arrived.clear()
            await self._arrived.wait()
        got = bytes(self._received)
        self._received.clear()
        return got

    def write(self, data: bytes) -> None:
        """Send to the other program; what does not fit in the cable's buffers is lost and counted."""
        if self._near is None:
            return
        room = WAITING_BYTES_MAX - len(self._waiting)
        self.lost_bytes += max(0, len(data) - room)
        self._waiting += data[:room]
        self._write_ready()

    def _write_ready(self) -> None:
        if self._near is None:
            return
        loop = asyncio.get_running_loop()
        with suppress(BlockingIOError):
            while self._waiting:
                written = os.write(self._near, self._waiting)
                del self._waiting[:written]
        if self._waiting:
            loop.add_writer(self._near, self._write_ready)
        else:
            loop.remove_writer(self._near)

    def _read_ready(self) -> None:
        if self._near is None:
            return
        with suppress(BlockingIOError):
            room = WAITING_BYTES_MAX - len(self._received)
            got = os.read(self._near, _READ_BYTES)
            self._received += got[:room]
            self._arrived.set()
