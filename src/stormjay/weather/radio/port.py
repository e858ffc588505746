"""The edge of the weather pipeline: a radio yields packets with a receive time, sends a line, and closes.

Promises of every adapter: a packet is yielded once per time it was heard (repeats are not filtered here); the receive
time is this machine's clock, never the radio's; a lost, dead or silent link ends the iteration with ``LinkLost`` and
nothing else escapes; closing is prompt and may be done twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

import msgspec

TEXT_MESSAGE_APP = "TEXT_MESSAGE_APP"
TELEMETRY_APP = "TELEMETRY_APP"


class MeshPacket(msgspec.Struct, frozen=True, kw_only=True):
    """One packet as a radio heard it.

    Attributes:
        received_at: When this machine got it, aware UTC.
        portnum: Meshtastic's name of the port, ``TEXT_MESSAGE_APP`` for our payloads.
        payload: The bytes of the decoded payload, exactly as they came (re-serialised where the uplink lost them).
        source_node_id: ``!`` and eight lower-case hex digits, or None when the sender is unknown.
        source_name: The sender's real long or short name, or None (placeholder names count as none).
        packet_id: The mesh packet's id, the same for each repeat of one transmission.
        channel: Index of the channel it came on.
        rx_time: The radio's own receive time, epoch seconds; kept for diagnosis, never used as a time.
        snr_db, rssi_dbm: Link quality of the last hop, or None.
        hop_start, hop_limit: As in the packet; hops away is their difference when both are known.
        gateway_id: The node that handed it in, for uplinks over MQTT.
        telemetry: For ``TELEMETRY_APP``: the decoded telemetry as Meshtastic's JSON names have it.
    """

    received_at: datetime
    portnum: str
    payload: bytes
    source_node_id: str | None = None
    source_name: str | None = None
    packet_id: int | None = None
    channel: int | None = None
    rx_time: int | None = None
    snr_db: float | None = None
    rssi_dbm: int | None = None
    hop_start: int | None = None
    hop_limit: int | None = None
    gateway_id: str | None = None
    telemetry: dict[str, Any] | None = None

    @property
    def hops_away(self) -> int | None:
        """How many relays it passed, or None when the sender did not say."""
        if self.hop_start is None or self.hop_limit is None:
            return None
        return max(0, self.hop_start - self.hop_limit)


class RadioLink(Protocol):
    """An open connection to a radio."""

    def packets(self) -> AsyncIterator[MeshPacket]:
        """Yield what is heard until the link ends.

        Raises:
            LinkLost: The link is gone, dead or silent for longer than the watchdog allows.
        """
        ...

    async def send_text(self, payload: bytes) -> None:
        """Hand one text of at most the radio's payload limit to the radio, as broadcast on the primary channel.

        Raises:
            LinkLost: The link is gone; nobody knows whether it was sent.
            Refused: The payload is over the limit, or this kind of link cannot send.
        """
        ...


class Radio(Protocol):
    """How to get a connection to one radio; connecting again after a loss gives a new link."""

    @property
    def name(self) -> str:
        """Where it is, for logs and status: ``serial:/dev/ttyUSB0``. Holds no secret."""
        ...

    def connect(self) -> AbstractAsyncContextManager[RadioLink]:
        """Open a link for the length of the block.

        Raises:
            LinkLost: It cannot be reached, or answered but is not alive (fault B14).
        """
        ...
