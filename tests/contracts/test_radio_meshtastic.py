"""What goes wrong between the real meshtastic library and a node (contract weather 9.8, faults B1 and B14)."""

from __future__ import annotations

import asyncio
import base64
import gzip
import importlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.contracts.radio_bench import LINE, START, hurried_library, total, until

from stormjay.errors import LinkLost, SettingsError
from stormjay.ground.clock import ManualClock, seeded_random
from stormjay.ground.stats.port import Statistics
from stormjay.weather.radio import meshtastic_node
from stormjay.weather.radio.meshtastic_node import ENCRYPTED, MeshtasticLink, MeshtasticNode
from stormjay.weather.radio.node_simulator import GARDEN_NODE, Exchange, KnownNode, NodeSimulator
from stormjay.weather.radio.options import HEARTBEATS, LINKS_LOST, MALFORMED, TEXTS_SENT, RadioOptions
from stormjay.weather.radio.port import TELEMETRY_APP, TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.radio.simulated_mesh import LinkConditions, Reception, SimulatedMesh
from stormjay.weather.radio.stream_frames import frame
from stormjay.weather.radio.uart import Uart
from stormjay.weather.radio.uplink_message import telemetry_groups

pytestmark = pytest.mark.anyio

RECORDING = Path(__file__).parents[2] / "recordings" / "mesh" / "meshtastic_telemetry_packets.ndjson.gz"


@pytest.fixture(autouse=True)
def _hurried_library() -> Iterator[None]:
    with hurried_library():
        yield


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def statistics() -> Statistics:
    return Statistics()


@pytest.fixture
async def node(clock: ManualClock) -> AsyncIterator[NodeSimulator]:
    with anyio.fail_after(60):
        async with NodeSimulator(clock=clock) as simulated:
            yield simulated


def radio_to(node: NodeSimulator, clock: ManualClock, statistics: Statistics, **options: Any) -> MeshtasticNode:
    return MeshtasticNode.from_url(node.url, clock=clock, statistics=statistics, options=RadioOptions(**options))


async def take(link: MeshtasticLink, count: int) -> list[MeshPacket]:
    with anyio.fail_after(30):
        async with aclosing(link.packets()) as packets:  # type: ignore[type-var]  # it is a generator
            return [await anext(packets) for _ in range(count)]


async def test_log_text_between_frames_does_no_harm(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.write_raw(b"INFO  | 07:06:40 12 [Router] Received text msg\r\n" + b"no end" * 1000)
        await node.inject_text(LINE, sender=GARDEN_NODE)
        await node.write_raw(b"\xc3\xc3\x94")
        await node.inject_text(LINE, sender=GARDEN_NODE)
        assert [packet.payload for packet in await take(link, 1)] == [LINE]


async def test_a_cut_frame_costs_a_packet_or_two_and_no_more(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics, capfd: pytest.CaptureFixture[str]
) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.write_raw(frame(b"\x12\x34" * 40)[:50])
        for packet_id in range(1, 6):
            await node.inject_text(LINE, sender=GARDEN_NODE, packet_id=packet_id)
        packets = link.packets()
        with anyio.fail_after(30):
            seen = [(await anext(packets)).packet_id]
            while seen[-1] != 5:
                seen.append((await anext(packets)).packet_id)
    assert set(seen) >= {3, 4, 5}
    assert statistics.value(MALFORMED, reason="frame") >= 1
    assert "Traceback" not in capfd.readouterr().err


async def test_invalid_utf_8_arrives_as_its_bytes(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.inject_text(b'{"et":"obs_st\xff\xfe', sender=GARDEN_NODE)
        [packet] = await take(link, 1)
    assert (packet.portnum, packet.payload) == (TEXT_MESSAGE_APP, b'{"et":"obs_st\xff\xfe')


async def test_the_end_of_a_line_is_kept(node: NodeSimulator, clock: ManualClock, statistics: Statistics) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.inject_text(LINE + b"\n", sender=GARDEN_NODE)
        assert (await take(link, 1))[0].payload == LINE + b"\n"


async def test_an_encrypted_packet_is_handed_out_as_such(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.inject_encrypted(b"\x01\x02", sender=GARDEN_NODE)
        [packet] = await take(link, 1)
    assert (packet.portnum, packet.payload, packet.channel) == (ENCRYPTED, b"\x01\x02", None)
    assert packet.source_node_id == "!5c32d4d9"


async def test_a_port_that_the_library_does_not_know_keeps_its_number(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.inject(413, b"new", GARDEN_NODE)
        [packet] = await take(link, 1)
    assert (packet.portnum, packet.payload) == ("413", b"new")


@pytest.mark.parametrize("sender", [0, 0xFFFFFFFF])
async def test_b1_impossible_senders_do_not_stop_the_reader(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics, sender: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """A packet from nobody is dropped; one from everybody has no sender; both are counted, nothing is printed."""
    async with radio_to(node, clock, statistics).connect() as link:
        await node.inject_text(b"odd", sender=sender)
        await node.inject_text(LINE, sender=GARDEN_NODE)
        packets = await take(link, 1 if sender == 0 else 2)
    by_payload = {packet.payload: packet.source_node_id for packet in packets}
    assert by_payload[LINE] == "!5c32d4d9"
    assert by_payload.get(b"odd") is None
    assert total(statistics, MALFORMED) == 1
    assert "Device returned" not in capfd.readouterr().out


async def test_telemetry_that_cannot_be_decoded_keeps_its_bytes(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.inject_telemetry(b"\xff\xff\xff", sender=GARDEN_NODE)
        [packet] = await take(link, 1)
    assert (packet.portnum, packet.payload, packet.telemetry) == (TELEMETRY_APP, b"\xff\xff\xff", None)
    assert statistics.value(MALFORMED, reason="packet") == 1


async def test_names_come_from_the_node_table(clock: ManualClock, statistics: Statistics) -> None:
    known = (
        KnownNode(number=GARDEN_NODE, long_name="Garden", short_name="GRDN"),
        KnownNode(number=0x0000ABCD, long_name="Meshtastic abcd", short_name="abcd"),
    )
    async with (
        NodeSimulator(clock=clock, known_nodes=known) as node,
        radio_to(node, clock, statistics).connect() as link,
    ):
        await node.inject_text(LINE, sender=GARDEN_NODE)
        await node.inject_text(LINE, sender=0x0000ABCD)
        packets = await take(link, 2)
    assert [packet.source_name for packet in packets] == ["Garden", None]


async def test_b14_a_silent_reconnect_of_the_library_is_a_lost_link(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    """The node drops the connection and takes the next at once: the library must not come back by itself."""
    async with radio_to(node, clock, statistics).connect() as link:
        await node.host_configured()
        node.drop()
        with anyio.fail_after(30), pytest.raises(LinkLost):
            await anext(link.packets())
        assert node.hosts_served == 1
    assert total(statistics, LINKS_LOST) == 1


async def test_b14_a_restart_of_the_node_is_a_lost_link(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.reboot()
        with anyio.fail_after(30), pytest.raises(LinkLost, match="restarted"):
            await anext(link.packets())


async def test_a_second_program_displaces_the_first(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    radio = radio_to(node, clock, statistics)
    async with radio.connect() as first, radio.connect() as second:
        with anyio.fail_after(30), pytest.raises(LinkLost):
            await anext(first.packets())
        await node.inject_text(LINE, sender=GARDEN_NODE)
        assert len(await take(second, 1)) == 1


async def test_two_radios_do_not_mix(clock: ManualClock, statistics: Statistics) -> None:
    async with (
        NodeSimulator(clock=clock) as one,
        NodeSimulator(clock=clock) as two,
        radio_to(one, clock, statistics).connect() as link_one,
        radio_to(two, clock, statistics).connect() as link_two,
    ):
        for packet_id in range(1, 6):
            await one.inject_text(b"one", sender=GARDEN_NODE, packet_id=packet_id)
            await two.inject_text(b"two", sender=GARDEN_NODE, packet_id=packet_id)
        assert {packet.payload for packet in await take(link_one, 5)} == {b"one"}
        assert {packet.payload for packet in await take(link_two, 5)} == {b"two"}


@pytest.mark.parametrize("fault", ["no_answer", "never_complete"])
async def test_b14_a_node_that_does_not_answer_is_given_up_by_the_clock(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics, fault: Exchange
) -> None:
    node.exchange = fault
    opening = asyncio.create_task(_open(radio_to(node, clock, statistics)))
    await until(lambda: node.hosts_served == 1)
    await clock.advance(31)
    with anyio.fail_after(30), pytest.raises(LinkLost) as lost:
        await opening
    assert lost.value.next_step


async def test_b14_a_node_that_does_not_say_who_it_is_is_not_alive(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    node.exchange = "no_my_info"
    with pytest.raises(LinkLost, match="which node"):
        await _open(radio_to(node, clock, statistics))


async def test_a_node_without_a_node_table_works(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    node.exchange = "no_node_info"
    async with radio_to(node, clock, statistics).connect() as link:
        await node.inject_text(LINE, sender=GARDEN_NODE)
        assert len(await take(link, 1)) == 1


async def test_a_link_that_ends_during_the_first_exchange_is_noticed_at_once(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    node.exchange = "never_complete"
    opening = asyncio.create_task(_open(radio_to(node, clock, statistics)))
    await until(lambda: node.hosts_served == 1)
    node.drop()
    with anyio.fail_after(30), pytest.raises(LinkLost):
        await opening


async def test_opening_can_be_cancelled(node: NodeSimulator, clock: ManualClock, statistics: Statistics) -> None:
    node.exchange = "no_answer"
    opening = asyncio.create_task(_open(radio_to(node, clock, statistics)))
    await until(lambda: node.hosts_served == 1)
    opening.cancel()
    with anyio.fail_after(30), pytest.raises(asyncio.CancelledError):
        await opening


@pytest.mark.parametrize(("ports", "says"), [([], "no serial port"), (["/dev/ttyA", "/dev/ttyB"], "/dev/ttyB")])
async def test_b14_no_port_or_two_ports_is_a_link_lost(
    clock: ManualClock, statistics: Statistics, monkeypatch: pytest.MonkeyPatch, ports: list[str], says: str
) -> None:
    monkeypatch.setattr("meshtastic.util.findPorts", lambda _eliminate: ports)
    radio = MeshtasticNode.from_url("serial:", clock=clock, statistics=statistics)
    with anyio.fail_after(30), pytest.raises(LinkLost, match=says) as lost:
        await _open(radio)
    assert "serial://" in lost.value.next_step


async def test_the_only_port_is_taken(
    clock: ManualClock, statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with NodeSimulator(clock=clock, transport="serial") as node:
        monkeypatch.setattr("meshtastic.util.findPorts", lambda _eliminate: [node.url.removeprefix("serial://")])
        radio = MeshtasticNode.from_url("serial:", clock=clock, statistics=statistics)
        assert radio.name == "serial:auto"
        async with radio.connect() as link:
            await node.inject_text(LINE, sender=GARDEN_NODE)
            assert len(await take(link, 1)) == 1


async def test_b14_a_library_that_wants_to_end_the_program_cannot(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*_arguments: object) -> None:
        sys.exit(1)

    monkeypatch.setattr("meshtastic.tcp_interface.TCPInterface.connect", leave)
    with anyio.fail_after(30), pytest.raises(LinkLost):
        await _open(radio_to(node, clock, statistics))


async def test_a_missing_port_says_where_to_look(clock: ManualClock, statistics: Statistics, tmp_path: Path) -> None:
    radio = MeshtasticNode.from_url(f"serial://{tmp_path}/ttyUSB0", clock=clock, statistics=statistics)
    with anyio.fail_after(30), pytest.raises(LinkLost) as lost:
        await _open(radio)
    assert "plugged in" in lost.value.next_step


async def test_a_full_send_queue_at_the_node_loses_the_link_in_time(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    node.send_queue_free = 0
    async with radio_to(node, clock, statistics).connect() as link:
        await until(lambda: node.heartbeats == 1)
        # The answer to the heartbeat, which says that the queue is full, lies before this packet in the stream.
        await node.inject_text(LINE, sender=GARDEN_NODE)
        await take(link, 1)
        sending = asyncio.create_task(link.send_text(LINE))
        await until(lambda: clock.waiters() >= 3)
        await clock.advance(31)
        with anyio.fail_after(30), pytest.raises(LinkLost):
            await sending


async def test_texts_go_out_as_they_are(node: NodeSimulator, clock: ManualClock, statistics: Statistics) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        for payload in (LINE + b"\n", b"\xff\x00", b"x" * 233):
            await link.send_text(payload)
            assert await node.next_sent() == payload
    assert statistics.value(TEXTS_SENT) == 3


async def test_sending_on_a_lost_link_says_so(node: NodeSimulator, clock: ManualClock, statistics: Statistics) -> None:
    async with radio_to(node, clock, statistics).connect() as link:
        await node.refuse()
        with anyio.fail_after(30), pytest.raises(LinkLost):
            await anext(link.packets())
        with pytest.raises(LinkLost):
            await link.send_text(LINE)


async def test_heartbeats_follow_the_clock(node: NodeSimulator, clock: ManualClock, statistics: Statistics) -> None:
    async with radio_to(node, clock, statistics, watchdog_enabled=False).connect():
        for beats in (1, 2, 3):
            await until(lambda beats=beats: statistics.value(HEARTBEATS) == beats)  # type: ignore[misc]  # the default binds the value
            assert node.heartbeats == beats
            await clock.advance(300)


async def test_what_a_node_heard_while_nobody_was_there_comes_later(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    await node.inject_text(LINE, sender=GARDEN_NODE)
    async with radio_to(node, clock, statistics).connect() as link:
        assert [packet.payload for packet in await take(link, 1)] == [LINE]


async def test_made_up_senders_do_not_fill_the_memory(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meshtastic_node, "NODES_MAX", 5)
    async with radio_to(node, clock, statistics).connect() as link:
        for sender in range(1, 30):
            await node.inject_text(LINE, sender=sender)
        await take(link, 29)
        assert len(link._interface.nodesByNum) <= 5


async def test_garden_line_travels_over_the_mesh_to_the_home_node(clock: ManualClock, statistics: Statistics) -> None:
    """Bridge, UART, Serial module, air, home node, real library: the bytes and the sender are the same at the end."""
    garden_node = KnownNode(number=GARDEN_NODE, long_name="Garden", short_name="GRDN")
    with anyio.fail_after(60):
        async with (
            SimulatedMesh(clock=clock, random=seeded_random(4)) as mesh,
            NodeSimulator(clock=clock, node=garden_node, mesh=mesh, uart=True) as garden,
            NodeSimulator(clock=clock, mesh=mesh) as home,
            radio_to(home, clock, statistics).connect() as link,
            Uart.from_url(f"uart://{garden.uart_path}", clock=clock, statistics=statistics).connect() as uart,
        ):
            await until(lambda: statistics.value(HEARTBEATS) == 1)
            await uart.send_text(LINE)
            while mesh.transmitted == 0:
                await clock.advance(0.25)
            [packet] = await take(link, 1)
    assert packet.payload == LINE + b"\n"
    assert (packet.source_node_id, packet.source_name) == ("!5c32d4d9", "Garden")
    assert packet.snr_db is not None
    assert packet.rssi_dbm is not None


async def test_a_host_of_one_node_is_heard_at_the_other_twice_on_a_repeating_mesh(
    clock: ManualClock, statistics: Statistics
) -> None:
    conditions = LinkConditions(duplication=1.0)
    with anyio.fail_after(60):
        async with (
            SimulatedMesh(clock=clock, random=seeded_random(4), conditions=conditions) as mesh,
            NodeSimulator(clock=clock, node=KnownNode(number=GARDEN_NODE), mesh=mesh) as garden,
            NodeSimulator(clock=clock, mesh=mesh) as home,
            radio_to(garden, clock, statistics).connect() as sender,
            radio_to(home, clock, statistics).connect() as receiver,
        ):
            await sender.send_text(LINE)
            first, second = await take(receiver, 2)
    assert first.payload == second.payload == LINE
    assert first.packet_id == second.packet_id is not None


async def test_real_telemetry_comes_out_with_the_recorded_values(
    node: NodeSimulator, clock: ManualClock, statistics: Statistics
) -> None:
    """325 packets of a real mesh, among them sender times that are days off, none at all, and packets not by radio."""
    with gzip.open(RECORDING, "rt") as lines:
        records = [json.loads(line) for line in lines]
    async with radio_to(node, clock, statistics).connect() as link:
        packets = []
        for record in records:
            await node.inject_telemetry(
                base64.b64decode(record["payload_b64"]),
                sender=int(record["from"][1:], 16),
                packet_id=record["id"],
                reception=Reception(
                    snr_db=record["rx_snr"] or 0.0,
                    rssi_dbm=record["rx_rssi"] or 0,
                    hop_start=0,
                    hop_limit=record["hop_limit"] or 0,
                    rx_time=record["rx_time"],
                ),
            )
            packets += await take(link, 1)
    for record, packet in zip(records, packets, strict=True):
        assert (packet.source_node_id, packet.packet_id, packet.portnum) == (
            record["from"],
            record["id"],
            record["portnum"],
        )
        assert (packet.snr_db, packet.rssi_dbm) == (record["rx_snr"], record["rx_rssi"])
        assert packet.telemetry is not None
        # Where the record has no sender time, its payload may still have one.
        assert record["telemetry_time"] in (None, packet.telemetry.get("time"))
        _compare(record, packet.telemetry)


_ABOUT_THE_PACKET = {"id", "from", "to", "portnum", "rx_time", "telemetry_time", "hop_limit", "rx_snr", "rx_rssi"}


def _compare(record: dict[str, Any], telemetry: dict[str, Any]) -> None:
    """Each metric that the record states is there under its name in Meshtastic's JSON, with the same value."""
    stated = {
        key: value
        for key, value in record.items()
        if key not in _ABOUT_THE_PACKET and key != "payload_b64" and value is not None
    }
    measured: dict[str, float] = {}
    for group in telemetry.values():
        if isinstance(group, dict):
            measured |= group
    for names in telemetry_groups(stated).values():
        for name, value in names.items():
            # Protobuf leaves a zero out.
            assert measured.get(name, 0) == pytest.approx(value, rel=1e-5, abs=1e-6), name


async def _open(radio: MeshtasticNode) -> None:
    async with radio.connect():
        pytest.fail("it connected")


@pytest.mark.parametrize("url", ["tcp://", "ftp://host", "tcp://host:port", "tcp://host/path", "serial://host/dev/x"])
def test_addresses_that_are_none_are_settings_errors(url: str, clock: ManualClock, statistics: Statistics) -> None:
    with pytest.raises(SettingsError):
        MeshtasticNode.from_url(url, clock=clock, statistics=statistics)


def test_names_say_where_the_radio_is(clock: ManualClock, statistics: Statistics) -> None:
    names = [
        MeshtasticNode.from_url(url, clock=clock, statistics=statistics).name
        for url in ("serial:///dev/ttyUSB0", "tcp://radio.lan", "tcp://[::1]:4404")
    ]
    assert names == ["serial:/dev/ttyUSB0", "tcp:radio.lan:4403", "tcp:::1:4404"]


def test_without_the_extra_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "meshtastic", None)
    monkeypatch.delitem(sys.modules, "stormjay.weather.radio.meshtastic_node")
    with pytest.raises(SettingsError) as error:
        importlib.import_module("stormjay.weather.radio.meshtastic_node")
    assert "stormjay[mesh]" in error.value.next_step


def test_the_library_is_kept_from_the_console() -> None:
    assert logging.getLogger("meshtastic.mesh_interface").getEffectiveLevel() == logging.CRITICAL
