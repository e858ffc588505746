"""The garden bridge on a computer: a hub's UDP datagrams in, texts out over a radio; ``bridge_core`` decides.

Contract weather 2; DESIGN.md decision 10. It listens on the loopback address unless told otherwise, since anybody on a
network could send it weather (fault B25). While no radio is connected nothing is handed out, so that what waits can
still be merged.
"""

from __future__ import annotations

import asyncio
import collections
import ipaddress
import socket
from collections.abc import Callable

import structlog

from stormjay.errors import LinkLost, Refused, SettingsError
from stormjay.ground.backoff import Backoff
from stormjay.ground.clock import Clock, seeded_random
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.ground.whole_files import write_whole
from stormjay.weather import bridge_state
from stormjay.weather.bridge_core import Bridge
from stormjay.weather.bridge_settings import BridgeSettings, core_of
from stormjay.weather.radio.port import Radio, RadioLink

_log = structlog.get_logger(__name__)

DATAGRAMS = Metric(
    "weather_bridge_datagrams",
    "counter",
    "Datagrams from hubs, by what became of them.",
    ("outcome",),
    label="Datagrams",
)
DATAGRAMS_LOST = Metric(
    "weather_bridge_datagrams_lost",
    "counter",
    "Datagrams that came faster than they were read.",
    label="Datagrams lost",
)
TEXTS_SENT = Metric("weather_bridge_texts_sent", "counter", "Texts handed to the radio.", label="Texts sent")
TEXTS_REFUSED = Metric(
    "weather_bridge_texts_refused", "counter", "Texts the radio will never take.", label="Texts refused"
)
LINKS_LOST = Metric("weather_bridge_links_lost", "counter", "Times the radio went away.", label="Radio losses")
STATE_ERRORS = Metric(
    "weather_bridge_state_errors",
    "counter",
    "Times what is held could not be written down.",
    label="State write errors",
)
WAITING = Metric("weather_bridge_waiting", "gauge", "Texts that wait for the radio.", label="Texts waiting")
RAIN_HELD = Metric(
    "weather_bridge_rain_held_millimeters", "gauge", "Rain taken in that no sent text holds yet.", label="Rain held",
    device_class="precipitation", unit="mm",
)  # fmt: skip
METRICS = (DATAGRAMS, DATAGRAMS_LOST, TEXTS_SENT, TEXTS_REFUSED, LINKS_LOST, STATE_ERRORS, WAITING, RAIN_HELD)

LOOK_SECONDS = 1.0
"""How often a queue that holds something back is looked at, and the watchdog fed."""


class _Inbox(asyncio.DatagramProtocol):
    """Holds what arrived until it is read; the newest is lost when it is full, and counted."""

    def __init__(self, bound: int, statistics: Statistics) -> None:
        self.datagrams: collections.deque[bytes] = collections.deque()
        self.arrived = asyncio.Event()
        self._bound = bound
        self._statistics = statistics

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:  # noqa: ARG002 - asyncio's signature
        if len(self.datagrams) >= self._bound:
            self._statistics.add(DATAGRAMS_LOST)
            return
        self.datagrams.append(data)
        self.arrived.set()

    def error_received(self, exc: Exception) -> None:
        _log.warning("bridge.socket_error", error=str(exc))


class GardenBridge:
    """One bridge: a socket, a radio, and the core between them.

    Attributes:
        listening: Set once the socket is open; ``address`` then says where.
        address: Host and port of the open socket.
    """

    def __init__(
        self,
        settings: BridgeSettings,
        radio: Radio,
        clock: Clock,
        statistics: Statistics,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the parts; nothing is opened before ``run``."""
        self._settings = settings
        self._radio = radio
        self._clock = clock
        self._statistics = statistics
        self._heartbeat = heartbeat
        self._core = core_of(settings, self._now_ms())
        self._inbox = _Inbox(settings.inbox_max, statistics)
        self._wake = asyncio.Event()
        self._saving = asyncio.Lock()
        self._saved = b""
        self._sent = 0
        self.listening = asyncio.Event()
        self.address: tuple[str, int] = ("", 0)
        statistics.declare(*METRICS)
        statistics.watch(self._refresh)

    @property
    def core(self) -> Bridge:
        """What decides, for status pages and tests."""
        return self._core

    async def run(self) -> None:
        """Bridge until cancelled; what is held is then in the state file.

        Raises:
            SettingsError: The port cannot be opened.
        """
        path = self._settings.state_path
        if path is not None and await asyncio.to_thread(bridge_state.restore, self._core, path):
            _log.info("bridge.state_restored", waiting=self._core.waiting(), held=self._core.held())
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self._inbox, sock=self._open())
        self.listening.set()
        _log.info("bridge.listening", host=self.address[0], port=self.address[1], radio=self._radio.name)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._receive())
                group.create_task(self._speak())
        finally:
            transport.close()

    def _open(self) -> socket.socket:
        host, port = self._settings.host, self._settings.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_DGRAM)
        try:
            if not _is_loopback(host):
                # Broadcasts reach every listener on the port, so other Tempest programs may listen beside this one. A
                # datagram to the loopback address reaches one only: there a second listener is a mistake to report.
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            opened.bind((host, port))
        except OSError as error:
            opened.close()
            raise SettingsError(
                "bridge_port_unusable",
                f"UDP port {port} on {host} cannot be opened: {error.strerror or error}",
                next_step="another program may use it: change weather.bridge.udp_port or weather.bridge.udp_host",
            ) from error
        self.address = opened.getsockname()[:2]
        return opened

    async def _receive(self) -> None:
        while True:
            await self._inbox.arrived.wait()
            self._inbox.arrived.clear()
            while self._inbox.datagrams:
                word = self._core.on_datagram(self._inbox.datagrams.popleft(), self._now_ms())
                self._statistics.add(DATAGRAMS, outcome=word)
            await self._save()
            self._wake.set()

    async def _speak(self) -> None:
        backoff = Backoff(
            first_seconds=self._settings.reconnect_seconds, cap_seconds=self._settings.reconnect_seconds_max, jitter=0.0
        )
        randomness = seeded_random()
        failures = 0
        while True:
            sent = self._sent
            try:
                async with self._radio.connect() as link, asyncio.TaskGroup() as group:
                    group.create_task(self._listen(link))
                    group.create_task(self._transmit(link))
            except* LinkLost as lost:
                text = str(lost.exceptions[0])
                self._statistics.add(LINKS_LOST)
                self._core.error = f"radio: {text}"
                _log.warning("bridge.link_lost", radio=self._radio.name, error=text)
            failures = 1 if self._sent > sent else failures + 1
            await self._pause(backoff.seconds(failures, randomness))

    async def _pause(self, seconds: float) -> None:
        """Wait, and feed the watchdog meanwhile."""
        end = self._clock.monotonic() + seconds
        while (left := end - self._clock.monotonic()) > 0:
            self._heartbeat()
            await self._clock.sleep(min(left, LOOK_SECONDS))

    async def _listen(self, link: RadioLink) -> None:
        """Read what the radio hears and forget it: a dead link shows itself only to who listens (fault B14)."""
        async for _ in link.packets():
            pass
        raise LinkLost("the radio ended the connection")

    async def _transmit(self, link: RadioLink) -> None:
        while True:
            self._heartbeat()
            line = self._core.next_line(self._now_ms())
            if line is None:
                await self._idle()
                continue
            await self._save()
            try:
                await link.send_text(line)
            except LinkLost:
                self._core.send_failed(self._now_ms())
                raise
            except Refused as refusal:
                self._core.send_refused(self._now_ms())
                self._statistics.add(TEXTS_REFUSED)
                _log.error("bridge.text_refused", error=str(refusal), bytes=len(line), next_step=refusal.next_step)
            else:
                self._core.sent(self._now_ms())
                self._sent += 1
                self._statistics.add(TEXTS_SENT)
                _log.debug("bridge.text_sent", text=line.decode())
            await self._save()

    async def _idle(self) -> None:
        """Wait for a datagram, or for the next look at what is held back."""
        waits = {asyncio.ensure_future(self._wake.wait()), asyncio.ensure_future(self._clock.sleep(LOOK_SECONDS))}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        self._wake.clear()

    async def _save(self) -> None:
        """Write down what is held, when it changed. A full disk is reported and does not stop the weather."""
        path, data = self._settings.state_path, bridge_state.encoded(self._core)
        if path is None:
            return
        async with self._saving:
            if data == self._saved:
                return
            writing = asyncio.ensure_future(asyncio.to_thread(write_whole, path, data))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                # The thread cannot be stopped; let go of the lock only when it is done, or two would write at once.
                await asyncio.wait({writing})
                writing.exception()  # looked at, so that nobody reports it as forgotten
                raise
            except OSError as error:
                self._statistics.add(STATE_ERRORS)
                _log.error("bridge.state_not_written", path=str(path), error=str(error))
                return
            self._saved = data

    def _refresh(self) -> None:
        self._statistics.set(WAITING, self._core.waiting())
        self._statistics.set(RAIN_HELD, self._core.held()["r"])

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
