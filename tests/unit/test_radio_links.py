"""The parts of the radio edge that wait: inbox, threads, UART, simulated air, network proxy."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from stormjay.errors import LinkLost, Refused, SettingsError
from stormjay.ground.clock import ManualClock, seeded_random
from stormjay.ground.stats.port import Statistics
from stormjay.weather.radio.inbox import Inbox
from stormjay.weather.radio.options import DROPPED, LINKS_LOST, MALFORMED, RadioOptions
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.radio.pseudo_terminal import WAITING_BYTES_MAX, PseudoTerminal
from stormjay.weather.radio.simulated_mesh import LinkConditions, Reception, SimulatedMesh, Transmission
from stormjay.weather.radio.threads import run_in_thread, within
from stormjay.weather.radio.uart import LINE_BYTES_MAX, Uart, UartLink

pytestmark = pytest.mark.anyio

START = datetime(2026, 8, 6, 7, 6, 40, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def statistics() -> Statistics:
    return Statistics()


def packet(number: int) -> MeshPacket:
    return MeshPacket(received_at=START, portnum=TEXT_MESSAGE_APP, payload=b"x", packet_id=number)


async def test_an_inbox_takes_from_any_thread_and_hands_out_before_the_loss(
    clock: ManualClock, statistics: Statistics
) -> None:
    inbox = Inbox(name="test", clock=clock, statistics=statistics, options=RadioOptions(packets_waiting_max=100))

    def hear() -> None:
        for number in range(150):
            inbox.offer(packet(number))
        inbox.malformed("frame")
        inbox.lose(LinkLost("gone"), reason="lost")
        inbox.lose(LinkLost("gone again"), reason="lost")

    thread = threading.Thread(target=hear)
    thread.start()
    thread.join()
    packets = inbox.packets()
    with anyio.fail_after(30):
        assert [(await anext(packets)).packet_id for _ in range(100)] == list(range(100))
        with pytest.raises(LinkLost) as lost:
            await anext(packets)
        assert str(lost.value) == "gone"
        while not statistics.value(DROPPED):
            await anyio.lowlevel.checkpoint()
    assert statistics.value(DROPPED) == 50
    assert statistics.value(MALFORMED, reason="frame") == 1
    assert statistics.value(LINKS_LOST, reason="lost") == 1


async def test_an_inbox_can_be_told_after_the_loop_has_ended(clock: ManualClock, statistics: Statistics) -> None:
    """A thread of the library may still speak while the program ends."""
    kept: list[Inbox] = []

    async def build() -> None:
        kept.append(Inbox(name="test", clock=clock, statistics=statistics, options=RadioOptions()))

    thread = threading.Thread(target=lambda: asyncio.run(build()))
    thread.start()
    thread.join()
    kept[0].offer(packet(1))
    kept[0].lose(LinkLost("gone"), reason="lost")
    kept[0].close()


async def test_a_library_cannot_end_the_program_from_a_thread() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with anyio.fail_after(30), pytest.raises(RuntimeError, match="3"):
        await run_in_thread(leave, name="test")
    with anyio.fail_after(30), pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0, name="test")


async def test_a_stuck_thread_is_left_behind_after_the_clocks_time(clock: ManualClock) -> None:
    released = threading.Event()
    future = run_in_thread(lambda: released.wait(10), name="test")
    waiting = asyncio.create_task(within(30, future, clock=clock))
    await clock.advance(31)
    with pytest.raises(TimeoutError):
        await waiting
    released.set()
    with anyio.fail_after(30):
        assert await future


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[PseudoTerminal]:
    terminal = PseudoTerminal(tmp_path / "ttyUART")
    terminal.plug_in()
    yield terminal
    terminal.unplug()


def uart(port: PseudoTerminal, clock: ManualClock, statistics: Statistics) -> Uart:
    return Uart.from_url(f"uart://{port.path}?baud=115200", clock=clock, statistics=statistics)


async def take(link: UartLink, count: int) -> list[MeshPacket]:
    with anyio.fail_after(30):
        async with aclosing(link.packets()) as packets:  # type: ignore[type-var]  # it is a generator
            return [await anext(packets) for _ in range(count)]


async def test_a_line_goes_out_with_one_end(port: PseudoTerminal, clock: ManualClock, statistics: Statistics) -> None:
    with anyio.fail_after(30):
        async with uart(port, clock, statistics).connect() as link:
            await link.send_text(b'{"i":1}')
            assert await port.read() == b'{"i":1}\n'
            await link.send_text(b'{"i":2}\r\n')
            assert await port.read() == b'{"i":2}\n'
            await link.send_text(b"x" * 232)
            assert len(await port.read()) == 233


@pytest.mark.parametrize("payload", [b"", b"\n", b"x" * 233, b"two\nlines", b"two\rlines"])
async def test_b2_a_line_that_the_radio_would_cut_is_refused(
    port: PseudoTerminal, clock: ManualClock, statistics: Statistics, payload: bytes
) -> None:
    async with uart(port, clock, statistics).connect() as link:
        with pytest.raises(Refused):
            await link.send_text(payload)


async def test_texts_of_others_are_read_and_the_own_echo_is_not(
    port: PseudoTerminal, clock: ManualClock, statistics: Statistics
) -> None:
    async with uart(port, clock, statistics).connect() as link:
        port.write(b'{"et":"obs_st","i":1}\n')
        port.write(b"\r\nHOME: hel")
        port.write(b"lo: there\r\n")
        port.write(b"z" * (LINE_BYTES_MAX + 5) + b"\n")
        port.write(b'\r\nSHED: {"sys":"dbg"}\r\n')
        packets = await take(link, 2)
    assert [(one.source_name, one.payload) for one in packets] == [
        ("HOME", b"hello: there"),
        ("SHED", b'{"sys":"dbg"}'),
    ]
    assert statistics.value(MALFORMED, reason="line_too_long") == 1


async def test_an_unplugged_uart_is_a_lost_link(
    port: PseudoTerminal, clock: ManualClock, statistics: Statistics
) -> None:
    async with uart(port, clock, statistics).connect() as link:
        port.unplug()
        with anyio.fail_after(30), pytest.raises(LinkLost):
            await anext(link.packets())
        with pytest.raises(LinkLost):
            await link.send_text(b"x")
    with anyio.fail_after(30), pytest.raises(LinkLost) as lost:
        async with uart(port, clock, statistics).connect():
            pytest.fail("it connected")
    assert "dialout" in lost.value.next_step


@pytest.mark.parametrize("url", ["uart:", "serial:///dev/x", "uart:///dev/x?baud=fast", "uart://host/dev/x"])
async def test_uart_addresses_that_are_none(url: str, clock: ManualClock, statistics: Statistics) -> None:
    with pytest.raises(SettingsError):
        Uart.from_url(url, clock=clock, statistics=statistics)


async def test_a_port_that_nobody_reads_loses_bytes_instead_of_growing(port: PseudoTerminal, tmp_path: Path) -> None:
    port.write(b"x" * 3 * WAITING_BYTES_MAX)
    assert port.lost_bytes >= WAITING_BYTES_MAX
    port.unplug()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a folder of the test
    assert await port.read() == b""
    port.write(b"nobody")


class Listener:
    """A member of the mesh that writes down what it hears."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.names = (f"Node {number}", str(number))
        self.heard: list[tuple[int, Reception]] = []

    async def hear(self, transmission: Transmission, reception: Reception) -> None:
        self.heard.append((transmission.packet_id, reception))


async def run_mesh(clock: ManualClock, conditions: LinkConditions, *, seed: int = 7, count: int = 200) -> Listener:
    home = Listener(2)
    async with SimulatedMesh(clock=clock, random=seeded_random(seed), conditions=conditions) as mesh:
        mesh.join(Listener(1))
        mesh.join(home)
        for packet_id in range(count):
            mesh.transmit(Transmission(sender=1, packet_id=packet_id, portnum=1, payload=b"x"))
        await clock.advance(100)
        await mesh.settled()
        assert mesh.transmitted == count
        assert mesh.delivered == len(home.heard)
        assert mesh.in_flight == 0
    return home


async def test_a_perfect_mesh_delivers_all_in_order(clock: ManualClock) -> None:
    home = await run_mesh(clock, LinkConditions())
    assert [packet_id for packet_id, _ in home.heard] == list(range(200))
    for _, reception in home.heard:
        assert -10 <= reception.snr_db <= 10
        assert (reception.snr_db * 4).is_integer()
        assert 1 <= reception.hop_limit <= 3


async def test_a_bad_mesh_loses_repeats_and_reorders_the_same_way_for_the_same_seed(clock: ManualClock) -> None:
    bad = LinkConditions(loss=0.2, duplication=0.2, reordering=0.2, delay_seconds=(0.5, 3))
    first = [packet_id for packet_id, _ in (await run_mesh(clock, bad)).heard]
    again = [packet_id for packet_id, _ in (await run_mesh(ManualClock(START), bad)).heard]
    other = [packet_id for packet_id, _ in (await run_mesh(ManualClock(START), bad, seed=8)).heard]
    assert first == again != other
    assert first != sorted(first)
    assert 120 < len(set(first)) < 190
    assert len(first) > len(set(first))


async def test_a_member_that_left_hears_nothing(clock: ManualClock) -> None:
    home = Listener(2)
    async with SimulatedMesh(
        clock=clock, random=seeded_random(1), conditions=LinkConditions(delay_seconds=(5, 5))
    ) as mesh:
        mesh.join(home)
        mesh.transmit(Transmission(sender=1, packet_id=1, portnum=1, payload=b"x"))
        mesh.leave(home)
        await clock.advance(6)
        assert (home.heard, mesh.lost) == ([], 1)
