"""The verbs that do something: take a text in, listen to a radio, play a hub."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from stormjay.errors import BadRequest, StormjayError
from stormjay.ground.clock import Clock
from stormjay.weather import hub
from stormjay.weather.hub import HubSettings
from stormjay.weather.journal import Journal
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket, Radio

_NODE_DIGITS = frozenset("0123456789abcdef")


async def ingest_text(
    journal: Journal, text: bytes, *, clock: Clock, source_node_id: str, source_name: str | None = None
) -> dict[str, Any]:
    """Capture a text as if a radio had just heard it; return what became of it.

    Raises:
        BadRequest: The sender's id is none.
    """
    if len(source_node_id) != 9 or source_node_id[0] != "!" or not set(source_node_id[1:]) <= _NODE_DIGITS:  # noqa: PLR2004 - ! and eight digits
        raise BadRequest("invalid_node", f"{source_node_id!r:.40} is no node id such as !5c32d4d9")
    captured = await journal.capture(
        MeshPacket(
            received_at=clock.now(),
            portnum=TEXT_MESSAGE_APP,
            payload=text,
            source_node_id=source_node_id,
            source_name=source_name,
        )
    )
    answer: dict[str, Any] = msgspec.to_builtins(captured)
    return answer


async def listen(
    radio: Radio,
    tell: Callable[[dict[str, Any]], None],
    *,
    clock: Clock,
    packets_max: int | None = None,
    retry_seconds: float = 5.0,
) -> int:
    """Print what a radio hears without storing it, until cancelled or enough was heard.

    Args:
        radio: Which.
        tell: Given each packet, and what happens to the link, as one JSON object.
        clock: Waits between two connections.
        packets_max: End after so many packets; never when None.
        retry_seconds: Pause before connecting again.

    Returns:
        How many packets were heard.
    """
    heard = 0
    while True:
        tell({"event": "connecting", "device": radio.name})
        try:
            async with radio.connect() as link:
                tell({"event": "connected", "device": radio.name})
                async for packet in link.packets():
                    heard += 1
                    tell({"event": "packet_received", **described(packet)})
                    if packets_max is not None and heard >= packets_max:
                        return heard
        except StormjayError as error:
            tell({"event": "connect_error", "error": str(error), "next_step": error.next_step})
        tell({"event": "reconnect_scheduled", "delay_sec": retry_seconds})
        await clock.sleep(retry_seconds)


def described(packet: MeshPacket) -> dict[str, Any]:
    """Return a packet under the names of contract weather 3.5, what is unknown left out."""
    known = {
        "received_at_utc": packet.received_at.isoformat(),
        "from_id": packet.source_node_id,
        "from_name": packet.source_name,
        "portnum": packet.portnum,
        "payload": packet.payload.decode("utf-8", "replace") if packet.portnum == TEXT_MESSAGE_APP else None,
        "payload_bytes": len(packet.payload),
        "telemetry": packet.telemetry,
        "packet_id": packet.packet_id,
        "channel": packet.channel,
        "rx_snr": packet.snr_db,
        "rx_rssi": packet.rssi_dbm,
        "hop_limit": packet.hop_limit,
        "hop_start": packet.hop_start,
        "gateway_id": packet.gateway_id,
    }
    return {name: value for name, value in known.items() if value is not None}


async def simulate_hub(
    settings: HubSettings,
    *,
    clock: Clock,
    randomness: random.Random,
    seconds: float | None = None,
    recording: Path | None = None,
    speed: float = 1.0,
    progress: Callable[[int, float], None] = lambda _sent, _at: None,
) -> int:
    """Send a hub's datagrams at their times; return how many were sent.

    Args:
        settings: What is sent, and where.
        clock: Times them.
        randomness: Makes the weather.
        seconds: End after so long; when the recording ends, or never, if None.
        recording: Datagrams to send again with their times moved to now, instead of made-up weather.
        speed: How much faster than it happened the recording is sent; it then begins so much further in the past.
        progress: Told how many were sent, and the second reached.

    Raises:
        SettingsError: The recording cannot be read.
        LinkLost: The network does not take them.
    """
    now = clock.now()
    if recording is None:
        timeline = hub.simulate(settings, now, randomness)
    else:
        messages = await asyncio.to_thread(hub.load_recording, recording)
        length = (hub.source_time(messages[-1]) or 0) - (hub.source_time(messages[0]) or 0)
        first = now - timedelta(seconds=length * (1 - 1 / max(1.0, speed)))
        timeline = hub.replay(messages, start=now, first=first, speed=speed, repeats=settings.repeats)

    def told() -> Iterator[hub.Timed]:
        for count, timed in enumerate(timeline):
            if seconds is not None and timed.at_seconds > seconds:
                return
            progress(count, timed.at_seconds)
            yield timed

    return await hub.send(told(), target=settings.target, port=settings.port, clock=clock)
