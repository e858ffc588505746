"""What a node's Serial module makes of the bytes on its UART, in TEXTMSG mode (contract weather 1.6, 2.5).

It knows nothing of lines. It reads until it has a full payload or until the line has been idle, and each such piece
becomes a text of its own: a line that is too long arrives in two, two lines close together arrive in one.
"""

from __future__ import annotations

from stormjay.weather.radio.options import PAYLOAD_BYTES_MAX

IDLE_SECONDS = 0.25
"""The firmware's time-out when its setting is 0."""


class TextMessageSerial:
    """Cuts a stream of bytes into the texts that go on the air."""

    def __init__(self, *, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        self._payload_bytes_max = payload_bytes_max
        self._collected = bytearray()

    @property
    def collecting(self) -> bool:
        """Whether bytes wait for more or for the line to fall idle."""
        return bool(self._collected)

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes from the line and return the texts that are full."""
        self._collected += data
        texts = []
        while len(self._collected) >= self._payload_bytes_max:
            texts.append(bytes(self._collected[: self._payload_bytes_max]))
            del self._collected[: self._payload_bytes_max]
        return texts

    def idle(self) -> bytes | None:
        """Say that the line has been idle for ``IDLE_SECONDS``; return the text that this ends, if any."""
        if not self._collected:
            return None
        text = bytes(self._collected)
        self._collected.clear()
        return text


def printed(text: bytes, *, short_name: str | None) -> bytes:
    """Return what the module prints on the UART for a text: from another node with its short name, its own without."""
    if short_name is None:
        return text
    return b"\r\n" + short_name.encode() + b": " + text + b"\r\n"
