"""What every radio adapter promises, over the real library on TCP and serial, and over a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Literal, cast

import anyio
import pytest
from tests.contracts.radio_bench import LINE, START, Bench, bench, total, until

from stormjay.errors import LinkLost, Refused
from stormjay.weather.radio.options import CONNECTED, DROPPED, LINKS_LOST, LINKS_OPENED, MALFORMED, RadioOptions
from stormjay.weather.radio.port import TELEMETRY_APP, TEXT_MESSAGE_APP, MeshPacket, RadioLink
from stormjay.weather.radio.simulated_mesh import Reception

pytestmark = [pytest.mark.anyio, pytest.mark.server]

Kind = Literal["tcp", "serial", "mqtt"]
KINDS = ["tcp", "serial", "mqtt"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return cast("Kind", request.param)


@pytest.fixture
async def radio(kind: Kind, tmp_path: Path) -> AsyncIterator[Bench]:
    with anyio.fail_after(60):
        async with bench(kind, tmp_path) as built:
            yield built


async def take(link: RadioLink, count: int) -> list[MeshPacket]:
    """Return the next packets."""
    with anyio.fail_after(30):
        async with aclosing(link.packets()) as packets:  # type: ignore[type-var]  # every adapter yields from a generator
            return [await anext(packets) for _ in range(count)]


async def loss_of(link: RadioLink) -> LinkLost:
    """Read until the link is lost and return the loss."""
    with anyio.fail_after(30), pytest.raises(LinkLost) as lost:
        async for _ in link.packets():
            pass
    return lost.value


async def test_a_text_arrives_as_it_was_sent(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        await radio.hear(LINE, reception=Reception(snr_db=-7.25, rssi_dbm=-108, hop_start=3, hop_limit=1))
        [packet] = await take(link, 1)
    assert (packet.portnum, packet.payload) == (TEXT_MESSAGE_APP, LINE)
    assert (packet.source_node_id, packet.packet_id, packet.channel) == ("!5c32d4d9", 7, 0)
    assert (packet.snr_db, packet.rssi_dbm, packet.hops_away) == (-7.25, -108, 2)


async def test_the_receive_time_is_this_machines(radio: Bench) -> None:
    await radio.clock.advance(61)
    async with radio.radio.connect() as link:
        await radio.hear(LINE, reception=Reception(rx_time=86_400))
        [packet] = await take(link, 1)
    assert packet.received_at == START + timedelta(seconds=61)


async def test_b1_a_sender_that_the_radio_does_not_know_has_its_id(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        await radio.hear(LINE, sender=0x0BCDEF01)
        [packet] = await take(link, 1)
    assert (packet.source_node_id, packet.source_name) == ("!0bcdef01", None)


async def test_b16_names_come_from_what_nodes_say_and_placeholders_do_not_count(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        await radio.hear_name("Meshtastic d4d9", "d4d9")
        await radio.hear(LINE)
        _, unnamed = await take(link, 2)
        await radio.hear_name("Behind the shed", "SHED")
        await radio.hear(LINE)
        _, named = await take(link, 2)
    assert unnamed.portnum == named.portnum == TEXT_MESSAGE_APP
    assert (unnamed.source_name, named.source_name) == (None, "Behind the shed")


async def test_repeats_are_not_filtered_and_order_is_kept(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        for packet_id in (1, 2, 2, 3):
            await radio.hear(LINE, packet_id=packet_id)
        packets = await take(link, 4)
    assert [packet.packet_id for packet in packets] == [1, 2, 2, 3]


async def test_what_was_not_measured_is_none_and_a_measured_zero_is_zero(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        await radio.hear(LINE, reception=Reception(snr_db=0, rssi_dbm=0, hop_start=0))
        await radio.hear(LINE, reception=Reception(snr_db=0, rssi_dbm=-100, hop_limit=3))
        unmeasured, zero = await take(link, 2)
    assert (unmeasured.snr_db, unmeasured.rssi_dbm, unmeasured.hops_away) == (None, None, None)
    assert (zero.snr_db, zero.rssi_dbm, zero.hops_away) == (0.0, -100, 0)


async def test_telemetry_has_the_same_shape_everywhere(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        await radio.hear_temperature(21.5)
        [packet] = await take(link, 1)
    assert packet.portnum == TELEMETRY_APP
    assert packet.telemetry == {"environmentMetrics": {"temperature": 21.5}}


async def test_a_text_that_is_no_json_arrives_too(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        await radio.hear("grüße".encode())
        [packet] = await take(link, 1)
    assert packet.payload == "grüße".encode()


async def test_noise_is_counted_and_the_link_goes_on(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        await radio.hear_noise()
        await radio.hear(LINE)
        [packet] = await take(link, 1)
    assert packet.payload == LINE
    assert total(radio.statistics, MALFORMED) == 1


async def test_a_lost_link_hands_out_what_was_heard_then_raises_and_can_be_opened_again(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        packets = link.packets()
        await radio.hear(LINE, packet_id=1)
        with anyio.fail_after(30):
            assert (await anext(packets)).packet_id == 1
            await radio.lose()
            with pytest.raises(LinkLost):
                await anext(packets)
    assert total(radio.statistics, LINKS_LOST) == 1
    assert radio.statistics.value(CONNECTED) == 0
    await radio.come_back()
    async with radio.radio.connect() as link:
        await radio.hear(LINE, packet_id=2)
        assert [packet.packet_id for packet in await take(link, 1)] == [2]
    assert radio.statistics.value(LINKS_OPENED) == 2


async def test_an_unreachable_radio_is_a_link_lost_that_says_what_to_look_at(radio: Bench) -> None:
    await radio.lose()
    with pytest.raises(LinkLost) as lost:
        async with radio.radio.connect():
            pytest.fail("it connected")
    assert lost.value.next_step
    assert radio.statistics.value(CONNECTED) == 0


async def test_b14_a_silent_link_is_lost_by_the_given_clock(kind: Kind, tmp_path: Path) -> None:
    options = RadioOptions(watchdog_timeout_seconds=240)
    async with bench(kind, tmp_path, options) as radio, radio.radio.connect() as link:
        await radio.quiet()
        await radio.clock.advance(200)
        await radio.hear(LINE)
        await take(link, 1)
        await radio.clock.advance(100)  # 300 s after the start, 100 s after the packet: alive
        await radio.hear(LINE)
        await take(link, 1)
        await radio.quiet()
        await radio.clock.advance(241)
        lost = await loss_of(link)
    assert "silent" in str(lost)
    assert radio.statistics.value(LINKS_LOST, reason="watchdog") == 1


@pytest.mark.parametrize("options", [RadioOptions(watchdog_timeout_seconds=0), RadioOptions(watchdog_enabled=False)])
async def test_without_a_watchdog_silence_is_fine(kind: Kind, tmp_path: Path, options: RadioOptions) -> None:
    async with bench(kind, tmp_path, options) as radio, radio.radio.connect() as link:
        await radio.quiet()
        await radio.clock.advance(250)
        await radio.hear(LINE)
        assert len(await take(link, 1)) == 1


async def test_too_many_waiting_are_dropped_and_counted(kind: Kind, tmp_path: Path) -> None:
    async with bench(kind, tmp_path, RadioOptions(packets_waiting_max=2)) as radio, radio.radio.connect() as link:
        for packet_id in (1, 2, 3, 4):
            await radio.hear(LINE, packet_id=packet_id)
        await until(lambda: radio.statistics.value(DROPPED) == 2)
        assert [packet.packet_id for packet in await take(link, 2)] == [1, 2]


async def test_what_cannot_be_sent_is_refused(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        with pytest.raises(Refused):
            await link.send_text(b"x" * 234)
        with pytest.raises(Refused):
            await link.send_text(b"")
        if not radio.can_send:
            with pytest.raises(Refused):
                await link.send_text(LINE)


async def test_closing_ends_a_reader_and_a_second_link_works(radio: Bench) -> None:
    async with radio.radio.connect() as link:
        first = link
    await loss_of(first)
    async with radio.radio.connect() as link:
        await radio.hear(LINE)
        assert len(await take(link, 1)) == 1


async def test_names_hold_no_secret(radio: Bench) -> None:
    assert "s3cret" not in radio.radio.name
    assert "stormjay:" not in radio.radio.name
