"""A Meshtastic node made of software: it speaks the real stream protocol, so the real library connects to it.

For tests and the demonstration. It answers as firmware does (contract weather 9.3, 9.4), shows every fault that a
radio link has (contract weather 9.8), and takes part in a ``SimulatedMesh``: what a host sends through one node, other
nodes hear. With a UART it also is the node beside the garden bridge: bytes written there become texts as the Serial
module makes them.

    async with NodeSimulator(clock=clock) as node:
        radio = MeshtasticNode.from_url(node.url, ...)
        await node.inject_text(b"{}", sender=0x5C32D4D9)
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
from meshtastic.protobuf import mesh_pb2, portnums_pb2

from stormjay.ground.clock import Clock
from stormjay.weather.radio.identity import node_id
from stormjay.weather.radio.pseudo_terminal import PseudoTerminal
from stormjay.weather.radio.simulated_mesh import HOP_LIMIT, Reception, SimulatedMesh, Transmission
from stormjay.weather.radio.simulator_links import Host, SerialHost, SimulatedUart, TcpHost
from stormjay.weather.radio.stream_frames import FrameReader, frame

HOME_NODE = 0x4D15A70E
GARDEN_NODE = 0x5C32D4D9
HELD_PACKETS_MAX = 32
"""What a node keeps for a host that is away; firmware then forgets the oldest."""
SEND_QUEUE_MAX = 16
BROADCAST = 0xFFFFFFFF
SENT_MAX = 1000
CHANNELS = 8

Exchange = Literal["complete", "no_answer", "no_my_info", "no_node_info", "never_complete"]


class KnownNode(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the node table.

    Attributes:
        number: The node's number.
        long_name, short_name: As people named it; empty for a node of which only the number is known.
    """

    number: int
    long_name: str = ""
    short_name: str = ""


class NodeSimulator:
    """One node; works inside ``async with``.

    Attributes:
        exchange: How the node answers a host's first question; anything but ``complete`` is a fault.
        send_queue_free: What it says of its send queue; 0 makes the library wait.
        heartbeats: Received from the host.
        hosts_served: Connections (or first exchanges on a serial port) so far.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        node: KnownNode | None = None,
        known_nodes: tuple[KnownNode, ...] = (),
        transport: Literal["tcp", "serial"] = "tcp",
        host: str = "127.0.0.1",
        port: int = 0,
        mesh: SimulatedMesh | None = None,
        uart: bool = False,
    ) -> None:
        self.exchange: Exchange = "complete"
        self.send_queue_free = SEND_QUEUE_MAX
        self.heartbeats = 0
        self.hosts_served = 0
        self._clock = clock
        self._node = node or KnownNode(number=HOME_NODE, long_name="Home", short_name="HOME")
        self._known_nodes = known_nodes
        self._address = host
        self._port = port
        self._mesh = mesh
        self._transport = transport
        self._with_uart = uart
        self._serial: PseudoTerminal | None = None
        self._serial_link = Path()
        self._uart: SimulatedUart | None = None
        self._cleanup = ExitStack()
        self._server: asyncio.Server | None = None
        self._host: Host | None = None
        self._host_configured = asyncio.Event()
        self._held: deque[Any] = deque(maxlen=HELD_PACKETS_MAX)
        self._sent: asyncio.Queue[bytes] = asyncio.Queue(SENT_MAX)
        self._next_packet_id = self._node.number & 0xFFFF
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="stormjay-node-")))
        if self._mesh is not None:
            self._mesh.join(self)
        self._serial_link = folder / "ttyNODE"
        if self._with_uart:
            self._uart = SimulatedUart(folder / "ttyUART", clock=self._clock, on_text=self._send_from_uart)
            self._uart.plug_in()
            self._start(self._uart.run())
        await self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mesh is not None:
            self._mesh.leave(self)
        await self.refuse()
        if self._uart is not None:
            self._uart.unplug()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._cleanup.close()

    @property
    def port(self) -> int:
        """The TCP port; the same after ``refuse`` and ``accept``."""
        return self._port

    @property
    def url(self) -> str:
        """The address for ``MeshtasticNode.from_url``."""
        if self._transport == "serial":
            return f"serial://{self._serial_link}"
        return f"tcp://{self._address}:{self._port}"

    @property
    def uart_path(self) -> str:
        """The serial port of the Serial module, where a bridge writes its lines.

        Raises:
            ValueError: The node was made without a UART.
        """
        if self._uart is None:
            raise ValueError("this node has no UART")
        return self._uart.path

    @property
    def number(self) -> int:
        """The node's number."""
        return self._node.number

    @property
    def names(self) -> tuple[str, str]:
        """Long and short name."""
        return self._node.long_name, self._node.short_name

    async def host_configured(self) -> None:
        """Return once a host is connected and has been told everything."""
        await self._host_configured.wait()

    async def next_sent(self) -> bytes:
        """Return the payload of the next text that the host gave to send."""
        return await self._sent.get()

    async def accept(self) -> None:
        """Be reachable, at the same address as before."""
        if self._transport == "serial":
            if self._serial is None or not self._serial.plugged_in:
                self._serial = PseudoTerminal(self._serial_link)
                self._serial.plug_in()
                self._start(self._serve(SerialHost(self._serial)))
        elif self._server is None:
            self._server = await asyncio.start_server(self._on_connection, self._address, self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Be unreachable: the port refuses or is unplugged; an open link ends."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop()
        await asyncio.sleep(0)

    def drop(self) -> None:
        """End the open link; over TCP the next connection is served at once."""
        if self._host is not None:
            self._host.end()
        elif self._serial is not None:
            self._serial.unplug()
        self._host_configured.clear()

    async def reboot(self) -> None:
        """Say that the node has restarted; what was held for the host is forgotten."""
        self._held.clear()
        await self._tell(mesh_pb2.FromRadio(rebooted=True))

    async def write_raw(self, data: bytes) -> None:
        """Send bytes as they are: log text between frames, half a frame, noise."""
        if self._host is not None:
            await self._host.write(data)

    async def inject_text(
        self, payload: bytes, *, sender: int, packet_id: int | None = None, reception: Reception | None = None
    ) -> None:
        """Hear a text."""
        await self.inject(portnums_pb2.PortNum.TEXT_MESSAGE_APP, payload, sender, packet_id, reception)

    async def inject_telemetry(
        self, payload: bytes, *, sender: int, packet_id: int | None = None, reception: Reception | None = None
    ) -> None:
        """Hear a serialised ``Telemetry`` message."""
        await self.inject(portnums_pb2.PortNum.TELEMETRY_APP, payload, sender, packet_id, reception)

    async def inject_node_info(self, node: KnownNode, *, reception: Reception | None = None) -> None:
        """Hear a node say its names."""
        user = _user(node)
        await self.inject(portnums_pb2.PortNum.NODEINFO_APP, user.SerializeToString(), node.number, None, reception)

    async def inject_encrypted(
        self, payload: bytes, *, sender: int, channel_hash: int = 8, reception: Reception | None = None
    ) -> None:
        """Hear a packet of a channel whose key the node does not have."""
        packet = self._packet(sender, None, reception or Reception())
        packet.encrypted = payload
        packet.channel = channel_hash
        await self.deliver(packet)

    async def inject(
        self,
        portnum: int,
        payload: bytes,
        sender: int,
        packet_id: int | None = None,
        reception: Reception | None = None,
        *,
        channel: int = 0,
    ) -> None:
        """Hear a packet of any port."""
        packet = self._packet(sender, packet_id, reception or Reception())
        packet.decoded.portnum = portnum
        packet.decoded.payload = payload
        packet.channel = channel
        await self.deliver(packet)

    async def hear(self, transmission: Transmission, reception: Reception) -> None:
        """Receive a packet from the simulated mesh; a text is also printed on the UART."""
        if self._uart is not None and transmission.portnum == portnums_pb2.PortNum.TEXT_MESSAGE_APP:
            self._uart.print_text(transmission.payload, short_name=self._short_name_of(transmission.sender))
        await self.inject(
            transmission.portnum,
            transmission.payload,
            transmission.sender,
            transmission.packet_id,
            reception,
            channel=transmission.channel,
        )

    async def deliver(self, packet: Any) -> None:  # noqa: ANN401 - a protobuf MeshPacket; the library has no types
        """Pass a packet to the host, or keep it until one is there."""
        if self._host is None or not self._host.configured:
            self._held.append(packet)
            return
        await self._tell(mesh_pb2.FromRadio(packet=packet))

    def _packet(self, sender: int, packet_id: int | None, reception: Reception) -> Any:  # noqa: ANN401 - protobuf
        packet = mesh_pb2.MeshPacket(
            to=BROADCAST,
            id=self._new_packet_id() if packet_id is None else packet_id,
            rx_time=int(self._clock.now().timestamp()) if reception.rx_time is None else reception.rx_time,
            rx_snr=reception.snr_db,
            rx_rssi=reception.rssi_dbm,
            hop_start=reception.hop_start,
            hop_limit=reception.hop_limit,
        )
        setattr(packet, "from", sender)
        return packet

    def _new_packet_id(self) -> int:
        self._next_packet_id = (self._next_packet_id + 1) & 0x7FFFFFFF
        return self._next_packet_id

    def _short_name_of(self, number: int) -> str:
        for known in self._table():
            if known.number == number and known.short_name:
                return known.short_name
        return f"{number:08x}"[-4:]

    def _start(self, work: Any) -> None:  # noqa: ANN401 - any coroutine
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Firmware serves one client; a new one displaces the old.
        if self._host is not None:
            self._host.end()
        self._start(self._serve(TcpHost(reader, writer)))

    async def _serve(self, host: Host) -> None:
        self._host = host
        self._host_configured.clear()
        frames = FrameReader()
        try:
            while data := await host.read():
                for body in frames.feed(data):
                    await self._answer(host, body)
        finally:
            host.configured = False
            if self._host is host:
                self._host = None
                self._host_configured.clear()
            host.end()

    async def _answer(self, host: Host, body: bytes) -> None:
        question = mesh_pb2.ToRadio()
        try:
            question.ParseFromString(body)
        except Exception:  # noqa: BLE001 - protobuf's DecodeError; firmware skips what it cannot read
            return
        kind = question.WhichOneof("payload_variant")
        if kind == "want_config_id":
            await self._introduce(host, question.want_config_id)
        elif kind == "heartbeat":
            self.heartbeats += 1
            await self._tell(self._queue_status(0))
        elif kind == "packet":
            await self._take(question.packet)
        elif kind == "disconnect":
            host.configured = False
            self._host_configured.clear()

    async def _introduce(self, host: Host, config_id: int) -> None:
        self.hosts_served += 1
        if self.exchange == "no_answer":
            return
        for part in self._introduction(config_id):
            await self._tell(part)
        if self.exchange == "never_complete":
            return
        host.configured = True
        self._host_configured.set()
        while self._held:
            await self._tell(mesh_pb2.FromRadio(packet=self._held.popleft()))

    def _introduction(self, config_id: int) -> list[Any]:
        parts = []
        table = self._table()
        if self.exchange != "no_my_info":
            parts.append(mesh_pb2.FromRadio(my_info=mesh_pb2.MyNodeInfo(my_node_num=self.number)))
        if self.exchange != "no_node_info":
            parts.append(_node_info(table[0]))
        parts.append(mesh_pb2.FromRadio(metadata=mesh_pb2.DeviceMetadata(firmware_version="2.7.0.simulated")))
        for index in range(CHANNELS):
            channel = mesh_pb2.FromRadio()
            channel.channel.index = index
            channel.channel.role = 1 if index == 0 else 0
            parts.append(channel)
        lora = mesh_pb2.FromRadio()
        lora.config.lora.hop_limit = HOP_LIMIT
        parts.append(lora)
        if self.exchange != "no_node_info":
            parts += [_node_info(known) for known in table[1:]]
        if self.exchange != "never_complete":
            parts.append(mesh_pb2.FromRadio(config_complete_id=config_id))
        return parts

    def _table(self) -> list[KnownNode]:
        table = {self.number: self._node}
        if self._mesh is not None:
            for member in self._mesh.members:
                long_name, short_name = member.names
                table.setdefault(
                    member.number, KnownNode(number=member.number, long_name=long_name, short_name=short_name)
                )
        for known in self._known_nodes:
            table[known.number] = known
        return list(table.values())

    async def _take(self, packet: Any) -> None:  # noqa: ANN401 - protobuf
        await self._tell(self._queue_status(packet.id))
        if not packet.HasField("decoded"):
            return
        if packet.decoded.portnum == portnums_pb2.PortNum.TEXT_MESSAGE_APP and not self._sent.full():
            self._sent.put_nowait(packet.decoded.payload)
        self._transmit(packet.decoded.portnum, packet.decoded.payload, packet.id, packet.channel)

    def _transmit(self, portnum: int, payload: bytes, packet_id: int, channel: int = 0) -> None:
        if self._mesh is None:
            return
        self._mesh.transmit(
            Transmission(sender=self.number, packet_id=packet_id, portnum=portnum, payload=payload, channel=channel)
        )

    def _queue_status(self, packet_id: int) -> Any:  # noqa: ANN401 - protobuf
        status = mesh_pb2.FromRadio()
        status.queueStatus.free = self.send_queue_free
        status.queueStatus.maxlen = SEND_QUEUE_MAX
        status.queueStatus.mesh_packet_id = packet_id
        return status

    async def _tell(self, message: Any) -> None:  # noqa: ANN401 - protobuf
        if self._host is not None:
            await self._host.write(frame(message.SerializeToString()))

    def _send_from_uart(self, text: bytes) -> None:
        self._transmit(portnums_pb2.PortNum.TEXT_MESSAGE_APP, text, self._new_packet_id())


def _user(node: KnownNode) -> Any:  # noqa: ANN401 - protobuf
    return mesh_pb2.User(id=node_id(node.number) or "", long_name=node.long_name, short_name=node.short_name)


def _node_info(node: KnownNode) -> Any:  # noqa: ANN401 - protobuf
    info = mesh_pb2.NodeInfo(num=node.number)
    if node.long_name or node.short_name:
        info.user.CopyFrom(_user(node))
    return mesh_pb2.FromRadio(node_info=info)
