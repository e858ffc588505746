"""Where packets wait while the database cannot take them: a file beside it, one packet a line (fault B15).

A packet is safe once ``append`` has returned: the line is on disk. The file goes only after the commit that holds all
of its packets; a crash between the two brings them again, and they meet their own keys. Its size has a bound; what
finds no room stays with the caller.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec

from stormjay.ground.whole_files import sync_folder
from stormjay.weather.radio.port import MeshPacket


class SpoolFull(Exception):  # noqa: N818 - a state, which the caller counts
    """The file has reached its bound."""


class Spool:
    """The spool of one journal. All methods block; the journal calls them in a thread.

    Args:
        path: ``spool.ndjson`` beside the database.
        bytes_max: Most bytes the file may have.
    """

    def __init__(self, path: Path, bytes_max: int) -> None:
        self.path = path
        self._bytes_max = bytes_max

    def append(self, packets: Sequence[MeshPacket]) -> None:
        """Put packets at the end and have them on disk.

        Raises:
            SpoolFull: They would take the file over its bound; nothing was written.
            OSError: They could not be written.
        """
        text = b"".join(_encode(packet) + b"\n" for packet in packets)
        is_new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)  # somebody may have removed it under the running process
        with self.path.open("ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size + len(text) > self._bytes_max:
                raise SpoolFull
            if size and not _ends_with_newline(self.path):
                text = b"\n" + text  # the last line was torn by a crash; it must not swallow this one
            try:
                left = memoryview(text)
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), size)  # half of it would come again beside the whole
                raise
        if is_new:
            sync_folder(self.path.parent)

    def waiting(self) -> int:
        """Return the bytes in the file, 0 when there is none."""
        try:
            return self.path.stat().st_size
        except OSError:  # there is none, or nobody may look: then it cannot be read either
            return 0

    def read(self) -> tuple[list[MeshPacket], list[bytes]]:
        """Return the packets in their order, and the lines that are none (the torn end of a crash).

        Raises:
            OSError: The file cannot be read.
        """
        packets: list[MeshPacket] = []
        torn: list[bytes] = []
        if not self.path.exists():
            return packets, torn
        for line in self.path.read_bytes().split(b"\n"):
            if not line:
                continue
            packet = _decoded(line)
            if packet is None:
                torn.append(line)
            else:
                packets.append(packet)
        return packets, torn

    def remove(self) -> None:
        """Take the file away, after the commit that holds its packets.

        Raises:
            OSError: It cannot be removed.
        """
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)


_DECODER = msgspec.json.Decoder(MeshPacket)


def _encode(packet: MeshPacket) -> bytes:
    try:
        return msgspec.json.encode(packet, enc_hook=_as_text)
    except (UnicodeEncodeError, OverflowError):  # what JSON cannot say beside the payload must not cost the payload
        return msgspec.json.encode(msgspec.structs.replace(packet, source_name=None, telemetry=None))


def _decoded(line: bytes) -> MeshPacket | None:
    """Return the packet of a line; None when it is none, or its time of receipt is no moment in UTC."""
    try:
        packet = _DECODER.decode(line)
        is_moment = packet.received_at.tzinfo is not None and packet.received_at.astimezone(UTC).year > 1
    except (msgspec.DecodeError, RecursionError, OverflowError):
        return None
    return packet if is_moment else None


def _as_text(value: Any) -> str:  # noqa: ANN401 - whatever a radio library left in its telemetry
    return str(value)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
