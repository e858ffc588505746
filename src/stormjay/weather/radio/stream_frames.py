"""Framing of Meshtastic's stream protocol: two start bytes, a 16-bit length, a protobuf (contract weather 9.3)."""

from __future__ import annotations

START = b"\x94\xc3"
HEADER_BYTES = 4
BODY_BYTES_MAX = 512


def frame(body: bytes) -> bytes:
    """Return a message with its header.

    Raises:
        ValueError: It is over 512 bytes; the other side would take it for noise.
    """
    if len(body) > BODY_BYTES_MAX:
        raise ValueError(f"a frame of {len(body)} bytes is over {BODY_BYTES_MAX}")
    return START + len(body).to_bytes(2, "big") + body


class FrameReader:
    """Finds frames in a stream and skips what is none, such as the bytes that wake a sleeping device."""

    def __init__(self) -> None:
        self._collected = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes and return the bodies of the frames that are complete."""
        self._collected += data
        bodies: list[bytes] = []
        while True:
            start = self._collected.find(START)
            if start < 0:
                # The last byte may be the first half of a start.
                del self._collected[: max(0, len(self._collected) - 1)]
                return bodies
            del self._collected[:start]
            if len(self._collected) < HEADER_BYTES:
                return bodies
            length = int.from_bytes(self._collected[2:HEADER_BYTES], "big")
            if length > BODY_BYTES_MAX:
                del self._collected[: len(START)]
                continue
            if len(self._collected) < HEADER_BYTES + length:
                return bodies
            bodies.append(bytes(self._collected[HEADER_BYTES : HEADER_BYTES + length]))
            del self._collected[: HEADER_BYTES + length]
