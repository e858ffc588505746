"""A Meshtastic node on a serial port or a TCP address, through the ``meshtastic`` library.

The library is GPL-3.0-only and large, hence an extra (DESIGN.md decision 18): import this module only when a setting
names such a radio. Importing it without the extra raises ``SettingsError`` that says what to install.

The library works in threads of its own, publishes to the whole process, reconnects TCP behind its user's back, starts
a timer that outlives the connection and prints. ``_GuardedInterface`` overrides exactly those habits; the contract
tests in tests/contracts/test_radio.py fail when a new version of the library no longer lets it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import structlog

from stormjay.errors import LinkLost, Refused, SettingsError
from stormjay.ground.clock import Clock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.radio.identity import link_quality, node_id, real_name
from stormjay.weather.radio.inbox import Inbox
from stormjay.weather.radio.options import (
    CONNECTED,
    HEARTBEATS,
    LINKS_OPENED,
    PAYLOAD_BYTES_MAX,
    TEXTS_SENT,
    RadioOptions,
    declare,
)
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.radio.threads import run_in_thread, within

try:
    import meshtastic
    import meshtastic.util
    from meshtastic.protobuf import mesh_pb2, portnums_pb2
    from meshtastic.serial_interface import SerialInterface
    from meshtastic.stream_interface import StreamInterface
    from meshtastic.tcp_interface import DEFAULT_TCP_PORT, TCPInterface
    from pubsub import pub
except ImportError as missing:
    raise SettingsError(
        "mesh_extra_missing",
        f"A radio is set to be reached with the meshtastic library, which is not installed ({missing})",
        next_step="pip install 'stormjay[mesh]'",
    ) from missing

_log = structlog.get_logger(__name__)

# What the library has to say is said by the errors and counters here; it would otherwise write to the console.
logging.getLogger("meshtastic").setLevel(logging.CRITICAL)

HEARTBEAT_SECONDS = 300.0
"""Firmware drops a client that says nothing for 15 minutes; the library's own rhythm."""
CLOSE_SECONDS_MAX = 3.0
HOP_LIMIT_DEFAULT = 3
"""Meshtastic's own default, used when the radio did not tell its configuration."""
NODES_MAX = 2000
"""Nodes whose names are remembered for one link; firmware itself keeps a few hundred."""
ENCRYPTED = "ENCRYPTED"
"""Port name given to packets that the radio could not decrypt; they have no port of their own."""


class _GuardedInterface(StreamInterface):  # type: ignore[misc]  # the library publishes no types
    """What both kinds of link change in the library."""

    inbox: Inbox
    clock: Clock

    def guard(self, inbox: Inbox, clock: Clock) -> None:
        """Name the receiver of what is heard; must come before ``connect``."""
        self.inbox = inbox
        self.clock = clock
        self._settled = threading.Event()

    def abort(self) -> None:
        """Make a ``connect`` or a read that blocks in another thread end soon."""
        self._wantExit = True
        self._settled.set()

    def heard(self, packet: Any, *, telemetry: dict[str, Any] | None, portnum: str) -> None:  # noqa: ANN401 - protobuf
        """Hand a protobuf packet to the inbox. Runs on a thread of the library."""
        sender = getattr(packet, "from")
        node = (self.nodesByNum or {}).get(sender) or {}
        user = node.get("user") or {}
        snr_db, rssi_dbm = link_quality(packet.rx_snr, packet.rx_rssi)
        readable = packet.HasField("decoded")
        self.inbox.offer(
            MeshPacket(
                received_at=self.clock.now(),
                portnum=portnum,
                payload=packet.decoded.payload if readable else packet.encrypted,
                source_node_id=node_id(sender),
                source_name=real_name(user.get("longName"), user.get("shortName"), sender),
                packet_id=packet.id or None,
                # Of an undecrypted packet this is a hash of the channel's name and key, not an index.
                channel=packet.channel if readable else None,
                rx_time=packet.rx_time or None,
                snr_db=snr_db,
                rssi_dbm=rssi_dbm,
                # Zero is absent: older firmware does not send where a packet's hops began.
                hop_start=packet.hop_start or None,
                hop_limit=packet.hop_limit,
                telemetry=telemetry,
            )
        )

    def _waitConnected(self, timeout: float = 30.0) -> None:  # noqa: ARG002, N802 - the library's name
        # The library's own wait goes on for 30 s after the reader thread has died; how long to wait is decided by
        # whoever called connect.
        self._settled.wait()
        if not self.isConnected.is_set():
            raise ConnectionError("the connection ended during the first exchange")

    def _connected(self) -> None:
        super()._connected()
        self._settled.set()

    def _disconnected(self) -> None:
        super()._disconnected()
        self._settled.set()

    def _startHeartbeat(self) -> None:  # noqa: N802 - the library's name
        # The library's timer is no daemon and renews itself even after close; the link beats by the product's clock.
        return

    def _handleLogByte(self, b: bytes) -> None:  # noqa: ARG002, N802 - the library's signature
        # Text of the device between frames. The library collects it until a line ends, without bound.
        return

    def _handleFromRadio(self, fromRadioBytes: bytes) -> None:  # noqa: N802, N803 - the library's names
        frame = mesh_pb2.FromRadio()
        try:
            frame.ParseFromString(bytes(fromRadioBytes))
        except Exception:  # noqa: BLE001 - protobuf's DecodeError, by whatever name this version has
            self.inbox.malformed("frame")
            return
        packet = frame.packet if frame.HasField("packet") else None
        if packet is not None and getattr(packet, "from") == 0:
            self.inbox.malformed("no_sender")
            return
        self._forget_oldest_nodes()
        try:
            super()._handleFromRadio(fromRadioBytes)
        except Exception as error:  # noqa: BLE001 - the library's decoders raise anything; the reader must live on
            self.inbox.malformed("packet")
            _log.warning("radio.packet_not_decoded", error=str(error))
            if packet is not None:
                self.heard(packet, telemetry=None, portnum=_port_name(packet))

    def _forget_oldest_nodes(self) -> None:
        # The library keeps every sender it ever heard, and anybody can make senders up.
        nodes = self.nodesByNum
        while nodes and len(nodes) >= NODES_MAX:
            user = nodes.pop(next(iter(nodes))).get("user") or {}
            self.nodes.pop(user.get("id"), None)


class _TcpInterface(_GuardedInterface, TCPInterface):  # type: ignore[misc]  # the library publishes no types
    def __init__(self, host: str, port: int, *, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        super().__init__(hostname=host, portNumber=port, connectNow=False)

    def myConnect(self) -> None:  # noqa: N802 - the library's name
        # The library lets the system decide how long, which is two minutes and more.
        opened = socket.create_connection((self.hostname, self.portNumber), self._timeout_seconds)
        opened.settimeout(None)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.socket = opened
        if self._wantExit:
            opened.close()
            raise ConnectionError("given up")

    def _reconnect(self) -> None:
        # The library would connect again without telling anybody, and what was sent meanwhile would be missing
        # unnoticed (fault B14). Raising ends its reader, which announces the loss.
        raise ConnectionError("the radio closed the connection")

    def abort(self) -> None:
        super().abort()
        opened = self.socket
        if opened is not None:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


class _SerialInterface(_GuardedInterface, SerialInterface):  # type: ignore[misc]  # the library publishes no types
    def abort(self) -> None:
        super().abort()
        stream = self.stream
        if stream is not None:
            with suppress(OSError, AttributeError):
                stream.cancel_read()

    def close(self) -> None:
        # The library's own close waits for the reader's time-out and flushes what each write has flushed already; and
        # the reader closes the port itself, so nobody else may before it has ended.
        with suppress(Exception):
            self._sendDisconnect()
        self.abort()
        with suppress(RuntimeError):  # the reader was never started
            self._rxThread.join()


def _packet_published(packet: dict[str, Any], interface: Any) -> None:  # noqa: ANN401 - whatever publishes
    # One subscription for the process; each packet goes to the link it came by, so two radios never mix.
    if not isinstance(interface, _GuardedInterface):
        return
    raw = packet["raw"]
    decoded = packet.get("decoded")
    telemetry = decoded.get("telemetry") if decoded else None
    if telemetry is not None:
        telemetry = {key: value for key, value in telemetry.items() if key != "raw"}
    interface.heard(raw, telemetry=telemetry, portnum=_port_name(raw))


def _connection_lost(interface: Any) -> None:  # noqa: ANN401 - whatever publishes
    if isinstance(interface, _GuardedInterface):
        inbox = interface.inbox
        inbox.lose(LinkLost(f"{inbox.name} ended the connection or restarted"), reason="lost")


# The library holds listeners weakly; functions of a module live as long as it does.
pub.subscribe(_packet_published, "meshtastic.receive")
pub.subscribe(_connection_lost, "meshtastic.connection.lost")


def _port_name(packet: Any) -> str:  # noqa: ANN401 - protobuf
    if not packet.HasField("decoded"):
        return ENCRYPTED
    try:
        return str(portnums_pb2.PortNum.Name(packet.decoded.portnum))
    except ValueError:  # newer firmware knows ports that this library does not
        return str(packet.decoded.portnum)


class MeshtasticLink:
    """An open connection to a node."""

    def __init__(
        self, interface: _GuardedInterface, *, name: str, clock: Clock, statistics: Statistics, options: RadioOptions
    ) -> None:
        self._interface = interface
        self._name = name
        self._clock = clock
        self._statistics = statistics
        self._options = options
        self._sending = asyncio.Lock()

    def packets(self) -> AsyncIterator[MeshPacket]:
        """Yield what is heard until the link ends.

        Raises:
            LinkLost: The link is gone, the node restarted, or the watchdog's time passed in silence.
        """
        return self._interface.inbox.packets()

    async def send_text(self, payload: bytes) -> None:
        """Broadcast one text on the primary channel, wanting the mesh's acknowledgement as the Serial module does.

        Raises:
            Refused: The payload is empty or over 233 bytes.
            LinkLost: The link is gone; nobody knows whether it was sent.
        """
        if not payload:
            raise Refused("an empty text cannot be sent")
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise Refused(f"a text of {len(payload)} bytes is over the radio's limit of {PAYLOAD_BYTES_MAX}")
        interface = self._interface

        def send() -> None:
            interface.sendData(
                payload,
                portNum=portnums_pb2.PortNum.TEXT_MESSAGE_APP,
                wantAck=True,
                hopLimit=interface.localNode.localConfig.lora.hop_limit or HOP_LIMIT_DEFAULT,
            )

        await self._hand_over(send)
        self._statistics.add(TEXTS_SENT)

    async def beat(self) -> None:
        """Tell the node at once and every five minutes that somebody listens; notice when it cannot be told."""
        with suppress(LinkLost):  # packets() raises it
            while True:
                await self._hand_over(self._interface.sendHeartbeat)
                self._statistics.add(HEARTBEATS)
                await self._clock.sleep(HEARTBEAT_SECONDS)

    async def _hand_over(self, send: Any) -> None:  # noqa: ANN401 - any call of the library
        inbox = self._interface.inbox
        # Frames of two threads could interleave on the wire.
        async with self._sending:
            if inbox.lost is not None:
                raise inbox.lost
            try:
                sent = run_in_thread(send, name="stormjay radio send")
                await within(self._options.send_timeout_seconds, sent, clock=self._clock)
            except Exception as error:  # the library raises what its transport raises
                loss = LinkLost(f"{self._name} did not take what was sent: {error}")
                inbox.lose(loss, reason="send_failed")
                raise loss from error


class MeshtasticNode:
    """How to reach one node; each ``connect`` opens a new link."""

    def __init__(
        self,
        *,
        clock: Clock,
        statistics: Statistics,
        options: RadioOptions,
        serial_path: str | None = None,
        host: str | None = None,
        port: int = DEFAULT_TCP_PORT,
    ) -> None:
        self._clock = clock
        self._statistics = statistics
        self._options = options
        self._serial_path = serial_path
        self._host = host
        self._port = port
        declare(statistics)

    @classmethod
    def from_url(
        cls, url: str, *, clock: Clock, statistics: Statistics, options: RadioOptions | None = None
    ) -> MeshtasticNode:
        """Build from ``serial:///dev/ttyUSB0``, ``serial:`` (the only port there is) or ``tcp://host[:4403]``.

        Raises:
            SettingsError: The address is of another form.
        """
        options = options or RadioOptions()
        try:
            parts = urlsplit(url)
            port = parts.port or DEFAULT_TCP_PORT
        except ValueError:
            raise SettingsError("radio_url_invalid", "the port in the radio's address is no number") from None
        if parts.scheme == "serial" and not parts.netloc:
            return cls(clock=clock, statistics=statistics, options=options, serial_path=parts.path)
        if parts.scheme == "tcp" and parts.hostname and parts.path in ("", "/"):
            return cls(clock=clock, statistics=statistics, options=options, host=parts.hostname, port=port)
        raise SettingsError(
            "radio_url_invalid",
            f"the radio's address begins with {parts.scheme!r} or is incomplete",
            next_step="Write serial:///dev/ttyUSB0 or tcp://host:4403.",
        )

    @property
    def name(self) -> str:
        """``serial:/dev/ttyUSB0`` or ``tcp:host:4403``."""
        if self._host is not None:
            return f"tcp:{self._host}:{self._port}"
        return f"serial:{self._serial_path or 'auto'}"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MeshtasticLink]:
        """Open a link for the length of the block, verified to be alive (fault B14).

        Raises:
            LinkLost: It cannot be reached or does not answer as a node; ``next_step`` says what to look at.
        """
        inbox = Inbox(name=self.name, clock=self._clock, statistics=self._statistics, options=self._options)
        interface = await self._make(inbox)
        chores: list[asyncio.Task[None]] = []
        established = False
        try:
            await self._open(interface)
            link = MeshtasticLink(
                interface,
                name=self.name,
                clock=self._clock,
                statistics=self._statistics,
                options=self._options,
            )
            self._statistics.add(LINKS_OPENED)
            self._statistics.add(CONNECTED)
            established = True
            _log.info("meshtastic_connected", device=self.name)
            chores = [asyncio.create_task(inbox.watch()), asyncio.create_task(link.beat())]
            yield link
        finally:
            if established:
                self._statistics.add(CONNECTED, -1)
                _log.info("meshtastic_disconnected", device=self.name)
            for chore in chores:
                chore.cancel()
            inbox.close()
            if not established:
                interface.abort()
            await self._close(interface)
            await asyncio.gather(*chores, return_exceptions=True)

    async def _make(self, inbox: Inbox) -> _GuardedInterface:
        interface: _GuardedInterface
        if self._host is not None:
            interface = _TcpInterface(self._host, self._port, timeout_seconds=self._options.connect_timeout_seconds)
        else:
            interface = _SerialInterface(devPath=self._serial_path or await self._only_port(), connectNow=False)
        interface.guard(inbox, self._clock)
        return interface

    async def _only_port(self) -> str:
        # The library would return an object without a connection when there is no port, and end the program when
        # there are two (fault B14); so the port is chosen here.
        found = await run_in_thread(lambda: list(meshtastic.util.findPorts(True)), name="stormjay radio ports")  # noqa: FBT003 - the library's signature
        if not found:
            raise LinkLost(
                "no serial port looks like a Meshtastic node",
                next_step="Plug the node in, or name it: serial:///dev/ttyUSB0 or tcp://host:4403.",
            )
        if len(found) > 1:
            raise LinkLost(
                f"{len(found)} serial ports could be the node: {', '.join(map(str, found))}",
                next_step=f"Name one of them, for example serial://{found[0]}.",
            )
        return str(found[0])

    async def _open(self, interface: _GuardedInterface) -> None:
        attempt = run_in_thread(interface.connect, name="stormjay radio connect")
        try:
            await within(self._options.connect_timeout_seconds, attempt, clock=self._clock)
        except Exception as error:
            raise LinkLost(f"{self.name} cannot be reached: {error}", next_step=self._advice(error)) from error
        if interface.myInfo is None or not interface.isConnected.is_set():
            raise LinkLost(
                f"{self.name} answered, but did not say which node it is",
                next_step="Restart the node; if that does not help, update its firmware.",
            )

    def _advice(self, error: Exception) -> str:
        if isinstance(error, FileNotFoundError):
            return f"Look whether the node is plugged in and really appears as {self._serial_path}."
        if isinstance(error, PermissionError):
            return "Give the service's user the right to open the port: usermod -aG dialout USER."
        if "exclusively lock" in str(error):
            return "Another program has the port open; only one can."
        if isinstance(error, TimeoutError):
            return "Look whether the node runs and whether this address is its serial console or its TCP port."
        if isinstance(error, ConnectionRefusedError):
            return "Look whether network access is switched on in the node's settings (port 4403)."
        return "Look whether the node runs and the address is right."

    async def _close(self, interface: _GuardedInterface) -> None:
        # A sender that waits for room in the node's queue would wait for ever.
        interface.queueStatus = None

        def close() -> None:
            try:
                interface.close()
            except Exception as error:  # noqa: BLE001 - a dead port raises anything while it is flushed
                _log.debug("radio.close_failed", device=self.name, error=str(error))
            finally:
                _release(interface)

        # The thread is started before anything is awaited: closing goes on even when this task is cancelled.
        closing = run_in_thread(close, name="stormjay radio close")
        try:
            await within(CLOSE_SECONDS_MAX, closing, clock=self._clock)
        except TimeoutError:
            _log.warning("radio.close_not_finished", device=self.name, seconds=CLOSE_SECONDS_MAX)


def _release(interface: Any) -> None:  # noqa: ANN401 - either kind
    """Give the file or socket back where the library left it open."""
    for attribute in ("stream", "socket"):
        left = getattr(interface, attribute, None)
        if left is not None:
            with suppress(Exception):
                left.close()
            setattr(interface, attribute, None)
