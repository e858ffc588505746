"""The MQTT uplink at a real broker: users, topics, what firmware sends, a bad network (contract weather 9.7)."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest
from tests.contracts.radio_bench import GARDEN_NODE, GATEWAY, LINE, START, UplinkBench
from tests.servers.mosquitto import Mosquitto, mosquitto
from tests.servers.toxic import ToxicProxy

from stormjay.errors import LinkLost, SettingsError
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.radio.mqtt_uplink import MqttUplink, MqttUplinkLink
from stormjay.weather.radio.options import LINKS_LOST, MALFORMED, RadioOptions
from stormjay.weather.radio.port import MeshPacket

pytestmark = [pytest.mark.anyio, pytest.mark.server]

JSON_TOPIC = f"msh/US/CA/2/json/Garden/{GATEWAY}"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with mosquitto(tmp_path, user="stormjay", password="s3cret/#?") as running:
        yield running


@pytest.fixture
def uplink(broker: Mosquitto) -> UplinkBench:
    return UplinkBench(broker, ManualClock(START), RadioOptions())


async def take(link: MqttUplinkLink, count: int) -> list[MeshPacket]:
    with anyio.fail_after(30):
        async with aclosing(link.packets()) as packets:  # type: ignore[type-var]  # it is a generator
            return [await anext(packets) for _ in range(count)]


async def test_a_weather_line_is_written_out_again_and_names_its_gateway(uplink: UplinkBench) -> None:
    message = uplink.message("text", {"et": "evt_strike", "i": 4, "ts": 1786000101, "ld": 14, "se": 2917})
    del message["sender"]
    async with uplink.radio.connect() as link:
        await uplink.publish(message, topic=JSON_TOPIC)
        [packet] = await take(link, 1)  # type: ignore[arg-type]  # the bench holds any radio
    assert packet.payload == LINE
    assert (packet.source_node_id, packet.gateway_id) == ("!5c32d4d9", GATEWAY)
    assert packet.rx_time == 1786000000


async def test_other_topics_are_passed_over_and_malformed_messages_are_counted(uplink: UplinkBench) -> None:
    async with uplink.radio.connect() as link:
        await uplink.publish(b"\x0a\x10protobuf", topic=f"msh/EU_868/2/e/LongFast/{GATEWAY}")
        await uplink.publish(b"online", topic=f"msh/EU_868/2/stat/{GATEWAY}")
        for body in (b"", b"{", b"[1]", b'{"type":"text","payload":{"text":"x"}}', b"[" * 5000):
            await uplink.publish(body, topic=JSON_TOPIC)
        await uplink.hear(LINE)
        [packet] = await take(link, 1)  # type: ignore[arg-type]  # the bench holds any radio
    assert packet.payload == LINE
    assert uplink.statistics.value(MALFORMED, reason="not_json") == 3
    assert uplink.statistics.value(MALFORMED, reason="not_an_object") == 1
    assert uplink.statistics.value(MALFORMED, reason="no_sender") == 1


async def test_the_topic_filter_is_the_addresss_path(broker: Mosquitto, uplink: UplinkBench) -> None:
    url = f"mqtt://stormjay:s3cret%2F%23%3F@127.0.0.1:{broker.port}/msh/EU_868/2/json/Garden/#"
    radio = MqttUplink.from_url(url, clock=uplink.clock, statistics=Statistics())
    async with radio.connect() as link:
        await uplink.publish(uplink.message("text", {"text": "not this"}))
        await uplink.publish(uplink.message("text", {"text": "this"}), topic=f"msh/EU_868/2/json/Garden/{GATEWAY}")
        assert [packet.payload for packet in await take(link, 1)] == [b"this"]


async def test_a_wrong_password_is_a_link_lost_without_the_password(broker: Mosquitto) -> None:
    url = f"mqtt://stormjay:n0tIt@127.0.0.1:{broker.port}"
    radio = MqttUplink.from_url(url, clock=ManualClock(START), statistics=Statistics())
    with anyio.fail_after(30), pytest.raises(LinkLost) as lost:
        async with radio.connect():
            pytest.fail("it connected")
    assert "password" in lost.value.next_step
    assert "n0tIt" not in str(lost.value) + radio.name + repr(radio._broker) + lost.value.next_step


async def test_names_are_remembered_from_one_link_to_the_next(uplink: UplinkBench) -> None:
    async with uplink.radio.connect() as link:
        await uplink.hear_name("Garden", "GRDN")
        await take(link, 1)  # type: ignore[arg-type]  # the bench holds any radio
    async with uplink.radio.connect() as link:
        await uplink.hear(LINE, sender=GARDEN_NODE)
        [packet] = await take(link, 1)  # type: ignore[arg-type]  # the bench holds any radio
    assert packet.source_name == "Garden"


async def test_a_cut_connection_is_noticed_at_once(broker: Mosquitto, uplink: UplinkBench) -> None:
    async with ToxicProxy("127.0.0.1", broker.port) as network:
        url = f"mqtt://stormjay:s3cret%2F%23%3F@127.0.0.1:{network.port}"
        radio = MqttUplink.from_url(url, clock=uplink.clock, statistics=uplink.statistics)
        async with radio.connect() as link:
            network.cut()
            with anyio.fail_after(30), pytest.raises(LinkLost):
                await anext(link.packets())
        assert uplink.statistics.value(LINKS_LOST, reason="lost") == 1
        await network.refuse()
        with anyio.fail_after(30), pytest.raises(LinkLost):
            async with radio.connect():
                pytest.fail("it connected")
        await network.accept()
        async with radio.connect() as link:
            await uplink.hear(LINE)
            assert len(await take(link, 1)) == 1


# The MQTT client forgets the socket of a TLS handshake that failed, and only the collector closes it.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
async def test_a_broker_over_tls_is_checked_against_the_given_authority(tmp_path: Path) -> None:
    with mosquitto(tmp_path, user="stormjay", password="s3cret", tls=True) as broker:
        trusting = f"{broker.url}/msh/%23?ca_file={broker.ca_file}"
        async with MqttUplink.from_url(trusting, clock=ManualClock(START), statistics=Statistics()).connect():
            pass
        doubting = MqttUplink.from_url(broker.url, clock=ManualClock(START), statistics=Statistics())
        with anyio.fail_after(30), pytest.raises(LinkLost, match="certificate"):
            async with doubting.connect():
                pytest.fail("it connected")
    gc.collect()


async def test_a_certificate_authority_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    url = f"mqtts://broker.lan/msh/%23?ca_file={tmp_path}/none.crt"
    radio = MqttUplink.from_url(url, clock=ManualClock(START), statistics=Statistics())
    with pytest.raises(LinkLost, match="certificate authority"):
        async with radio.connect():
            pytest.fail("it connected")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("mqtt://broker.lan", "mqtt:broker.lan:1883/msh/#"),
        ("mqtts://u:p@broker.lan/msh/EU_868/2/json/%23", "mqtt:broker.lan:8883/msh/EU_868/2/json/#"),
        ("mqtt://broker.lan:1884/msh/+/2/json/#", "mqtt:broker.lan:1884/msh/+/2/json/#"),
    ],
)
async def test_addresses_are_understood(url: str, name: str) -> None:
    assert MqttUplink.from_url(url, clock=ManualClock(START), statistics=Statistics()).name == name


@pytest.mark.parametrize("url", ["http://broker", "mqtt://", "mqtt://u:s3cret@broker:port", "mqtt:///msh"])
async def test_addresses_that_are_none_are_settings_errors_without_the_password(url: str) -> None:
    with pytest.raises(SettingsError) as error:
        MqttUplink.from_url(url, clock=ManualClock(START), statistics=Statistics())
    assert "s3cret" not in "".join(traceback.format_exception(error.value))
