"""Takes what a radio hears into the journal, and keeps at it: connects, stores what waits together, connects again.

One task listens and fills a bounded queue, one stores whatever is in it by one commit. A full queue makes the radio
wait, not the packets vanish. On cancellation what was heard is still stored before ``run`` returns.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import structlog

from stormjay.errors import LinkLost
from stormjay.ground.backoff import Backoff
from stormjay.ground.clock import Clock, seeded_random
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.weather.journal import Journal
from stormjay.weather.journal_rows import received_text
from stormjay.weather.radio.port import TELEMETRY_APP, TEXT_MESSAGE_APP, MeshPacket, Radio
from stormjay.weather.records import Captured

log = structlog.get_logger(__name__)

SENDER_NOT_ALLOWED, CHANNEL_NOT_ALLOWED = "sender_not_allowed", "channel_not_allowed"

CONNECTED = Metric("weather_listener_connected", "gauge", "1 while the radio link is open", label="Radio connected")
CONNECTS = Metric("weather_listener_connects", "counter", "Radio links opened", label="Radio connects")
CONNECT_ERRORS = Metric(
    "weather_listener_connect_errors",
    "counter",
    "Radio links that could not be opened or were lost",
    label="Radio errors",
)
WAITING = Metric("weather_listener_waiting", "gauge", "Packets heard and not yet stored", label="Waiting to be stored")

NOT_TAKEN = Metric("weather_telemetry_not_taken", "counter", "Nodes' own telemetry from senders that are not let in")


class ListenerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the listener works.

    Attributes:
        allowed_nodes: Node ids that may send weather; empty allows all (fault B25).
        allowed_channels: Channel indices it may come on; empty allows all.
        reconnect_delay_seconds: Wait before the first new try (the seed's ``MESHTASTIC_RECONNECT_DELAY_SEC``).
        reconnect_delay_max_seconds: Longest wait; it doubles from try to try.
        waiting_max: Most packets heard and not yet stored; beyond it the radio has to wait.
        batch_max: Most packets in one commit.
        idle_seconds: How often the heartbeat is fed while nothing is heard.
    """

    allowed_nodes: frozenset[str] = frozenset()
    allowed_channels: frozenset[int] = frozenset()
    reconnect_delay_seconds: float = 5.0
    reconnect_delay_max_seconds: float = 300.0
    waiting_max: int = 10_000
    batch_max: int = 1_000
    idle_seconds: float = 5.0


class LinkState(msgspec.Struct):
    """The radio link as the status page shows it.

    Attributes:
        radio: Which radio.
        connected: Whether the link is open.
        since: Since when it is as it is, or None before the first try.
        last_packet_at: When the last packet was heard, or None.
        last_error: Why the last link ended or could not be opened, or None.
    """

    radio: str
    connected: bool = False
    since: datetime | None = None
    last_packet_at: datetime | None = None
    last_error: str | None = None


class Listener:
    """One radio's listener; ``run`` it until cancelled."""

    def __init__(
        self,
        radio: Radio,
        journal: Journal,
        *,
        settings: ListenerSettings,
        clock: Clock,
        statistics: Statistics,
        heartbeat: Callable[[], None] = lambda: None,
        randomness: random.Random | None = None,
    ) -> None:
        """Make the listener.

        Args:
            radio: Where packets come from.
            journal: Where they go.
            settings: See ``ListenerSettings``.
            clock: Waiting and link times.
            statistics: Where the link is counted.
            heartbeat: Called by the storing loop each time round, to feed a watchdog.
            randomness: Spreads the waits; tests hand in a seeded one.
        """
        self.link = LinkState(radio=radio.name)
        self._radio = radio
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._statistics = statistics
        self._heartbeat = heartbeat
        self._randomness = randomness or seeded_random()
        self._backoff = Backoff(settings.reconnect_delay_seconds, settings.reconnect_delay_max_seconds)
        self._heard: deque[MeshPacket] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        statistics.declare(CONNECTED, CONNECTS, CONNECT_ERRORS, WAITING, NOT_TAKEN)
        statistics.watch(lambda: statistics.set(WAITING, len(self._heard)))

    async def run(self) -> None:
        """Listen and store until cancelled; then store what was heard and end."""
        log.info("service_start", device=self._radio.name, reconnect_delay_sec=self._settings.reconnect_delay_seconds)
        listening = asyncio.create_task(self._listen())
        try:
            await self._store(listening)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            while self._heard:
                await self._store_waiting()
            self._set_link(connected=False)
            log.info("service_stop", device=self._radio.name)

    async def _listen(self) -> None:
        tries = 0
        while True:
            log.info("connecting", device=self._radio.name)
            try:
                async with self._radio.connect() as link:
                    self._set_link(connected=True)
                    self._statistics.add(CONNECTS)
                    log.info("connected", device=self._radio.name)
                    async for packet in link.packets():
                        tries = 0  # a link that opens and dies at once is no success
                        self.link.last_packet_at = packet.received_at
                        await self._take(packet)
                error = "the link ended"
            except LinkLost as lost:
                error = str(lost)
            was_open = self.link.connected
            self._set_link(connected=False, error=error)
            self._statistics.add(CONNECT_ERRORS)
            log.warning(
                "meshtastic_disconnected" if was_open else "connect_error", device=self._radio.name, error=error
            )
            tries += 1
            delay = self._backoff.seconds(tries, self._randomness)
            log.info("reconnect_scheduled", device=self._radio.name, delay_sec=round(delay, 3))
            await self._clock.sleep(delay)

    async def _take(self, packet: MeshPacket) -> None:
        while len(self._heard) >= self._settings.waiting_max:
            self._room.clear()
            await self._room.wait()
        self._heard.append(packet)
        self._arrived.set()

    async def _store(self, listening: asyncio.Task[None]) -> None:
        while True:
            self._heartbeat()
            if not self._heard:
                await self._wait_for_packet(listening)
            if listening.done():
                listening.result()  # a programming error in an adapter must not go unseen
            storing = asyncio.create_task(self._store_waiting())
            try:
                await asyncio.shield(storing)
            except asyncio.CancelledError:
                await storing  # what is half way in is let in whole, or it would come again as its own repeat
                raise

    async def _wait_for_packet(self, listening: asyncio.Task[None]) -> None:
        """Return when a packet waits, the listening task has ended, or it is time for the heartbeat."""
        self._arrived.clear()
        arrival = asyncio.create_task(self._arrived.wait())
        idle = asyncio.create_task(self._clock.sleep(self._settings.idle_seconds))
        try:
            await asyncio.wait((arrival, idle, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            arrival.cancel()
            idle.cancel()
            await asyncio.gather(arrival, idle, return_exceptions=True)

    async def _store_waiting(self) -> None:
        """Store what waits, up to the bound of a batch, by one commit for what is let in and one for what is not."""
        count = min(len(self._heard), self._settings.batch_max)
        if not count:
            return
        packets = [self._heard.popleft() for _ in range(count)]
        self._room.set()
        refused: dict[str, list[MeshPacket]] = {}
        allowed: list[MeshPacket] = []
        for packet in packets:
            reason = self._refusal(packet)
            if reason is None:
                allowed.append(packet)
            elif packet.portnum == TEXT_MESSAGE_APP:
                refused.setdefault(reason, []).append(packet)
            else:  # the own telemetry of a mesh's other nodes is everyday traffic, no matter for the ledger
                self._statistics.add(NOT_TAKEN)
        for packet, captured in zip(allowed, await self._journal.capture_many(allowed), strict=True):
            _tell(packet, captured)
        for reason, some in refused.items():
            for packet, captured in zip(some, await self._journal.refuse_many(some, reason), strict=True):
                _tell(packet, captured)

    def _refusal(self, packet: MeshPacket) -> str | None:
        """Return why a packet is not let in, None when it is; ports that are none of ours are not judged."""
        if packet.portnum not in (TEXT_MESSAGE_APP, TELEMETRY_APP):
            return None
        nodes, channels = self._settings.allowed_nodes, self._settings.allowed_channels
        if nodes and packet.source_node_id not in nodes:
            return SENDER_NOT_ALLOWED
        if channels and (packet.channel or 0) not in channels:  # packets leave channel 0 out, as a default
            return CHANNEL_NOT_ALLOWED
        return None

    def _set_link(self, *, connected: bool, error: str | None = None) -> None:
        if connected != self.link.connected or self.link.since is None:
            self.link.since = self._clock.now()
        self.link.connected = connected
        self.link.last_error = error or self.link.last_error
        self._statistics.set(CONNECTED, 1.0 if connected else 0.0)


_SAVED = {
    "weather": "weather_saved",
    "health": "health_saved",
    "weather_event": "weather_event_saved",
    "telemetry": "telemetry_saved",
}


def _tell(packet: MeshPacket, captured: Captured) -> None:
    """Log what became of a packet, under the names of contract weather 3.5."""
    sender: dict[str, Any] = {"from_id": packet.source_node_id, "from_name": packet.source_name}
    log.debug(
        "packet_received",
        **sender,
        portnum=packet.portnum,
        payload=packet.payload.decode(errors="replace"),
        received_at_utc=received_text(packet.received_at),
        rx_snr=packet.snr_db,
        rx_rssi=packet.rssi_dbm,
        hop_limit=packet.hop_limit,
        hop_start=packet.hop_start,
    )
    if captured.kind == "native_telemetry":
        log.info("telemetry_packet_seen", **sender)
        return
    if captured.kind == "ignored":
        return
    sender["msg_id"] = captured.msg_id
    if packet.portnum == TEXT_MESSAGE_APP and not packet.payload:
        log.info("ingest_skipped", reason="empty_text_payload", **sender)
    elif captured.kind == "weather" and captured.duplicate:
        log.info("weather_duplicate", reason=captured.reason, **sender)
    elif captured.kind in ("spooled", "lost"):
        log.warning("ingest_error", error=captured.reason, kept=captured.kind == "spooled", **sender)
    elif captured.kind in _SAVED and not captured.duplicate:
        detail = {"event_type": captured.detail} if captured.kind == "weather_event" else {}
        if captured.kind == "telemetry":
            detail = {"telemetry_type": captured.detail}
        log.info(_SAVED[captured.kind], **sender, **detail)
    else:
        log.info("packet_not_saved", packet_type=captured.kind, reason=captured.reason, **sender)
