"""The MQTT sink against a real broker: newest wins, last will, rediscovery, outages, and moving between both forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiomqtt
import anyio
import pytest
from tests.servers.mosquitto import Mosquitto, mosquitto

from stormjay.errors import SettingsError
from stormjay.ground.backoff import Backoff
from stormjay.ground.clock import ManualClock, SystemClock, seeded_random
from stormjay.ground.stats import Metric, Statistics
from stormjay.ground.stats import mqtt as sink_module
from stormjay.ground.stats.homeassistant import Device, Entity
from stormjay.ground.stats.mqtt import CONNECTED, REFUSED, Broker, MqttSettings, MqttSink

COUNTED = Metric("weather_received", "counter", "Packets heard.", label="Packets heard")
DEVICE = Device(
    device_id="stormjay_5c32d4d9",
    name="Garden",
    slug="garden",
    state_topic="stormjay/weather/5c32d4d9/state",
    availability_topics=("stormjay/bridge/state",),
    entities=(Entity(key="air_temp_c", name="Temperature", value_template="{{ value_json.air_temp_c }}"),),
)
CONFIG = "homeassistant/device/stormjay_5c32d4d9/config"
SINGLE = "homeassistant/sensor/stormjay_5c32d4d9/air_temp_c/config"


class Listener:
    """Home Assistant's end: hears everything and remembers the newest of each topic."""

    def __init__(self, client: aiomqtt.Client) -> None:
        self.client = client
        self.newest: dict[str, bytes] = {}
        self.all: list[tuple[str, bytes]] = []
        self._changed = asyncio.Event()

    async def hear(self) -> None:
        async for message in self.client.messages:
            self.newest[message.topic.value] = message.payload
            self.all.append((message.topic.value, message.payload))
            self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def json(self, topic: str) -> object:
        return json.loads(self.newest[topic])


@asynccontextmanager
async def listener(broker: Mosquitto) -> AsyncIterator[Listener]:
    async with aiomqtt.Client("127.0.0.1", broker.port) as client:
        ears = Listener(client)
        await client.subscribe("#", qos=1)
        hearing = asyncio.create_task(ears.hear())
        try:
            yield ears
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)


def sink(
    broker: Mosquitto, statistics: Statistics, *, mode: str = "device", clock: ManualClock | None = None
) -> MqttSink:
    return MqttSink(
        MqttSettings(url=broker.url, discovery_mode=mode, version="1"),  # type: ignore[arg-type] # parametrised
        clock=clock or SystemClock(),
        statistics=statistics,
        randomness=seeded_random(1),
        backoff=Backoff(first_seconds=0.05, cap_seconds=0.2),
    )


@asynccontextmanager
async def running(part: MqttSink) -> AsyncIterator[None]:
    task = asyncio.create_task(part.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def forgive_closed_sockets() -> None:
    """Let pass what aiomqtt does when a broker dies during its connect: it watches a socket that is closed already."""
    loop = asyncio.get_running_loop()
    strict = loop.get_exception_handler()

    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), OSError) and "add_writer" in str(context.get("handle")):
            return
        if strict is not None:
            strict(loop, context)

    loop.set_exception_handler(handler)


async def within(waiting: Awaitable[None], seconds: float = 60) -> None:
    with anyio.fail_after(seconds):
        await waiting


@pytest.fixture
def statistics() -> Statistics:
    made = Statistics()
    made.declare(COUNTED)
    made.add(COUNTED, 3)
    return made


@pytest.mark.server
@pytest.mark.anyio
async def test_states_discovery_and_statistics_reach_the_broker_retained(
    tmp_path: Path, statistics: Statistics
) -> None:
    with mosquitto(tmp_path) as broker:
        part = sink(broker, statistics)
        part.announce(DEVICE)
        part.put(DEVICE.state_topic, {"air_temp_c": 20.5})
        async with running(part):
            async with listener(broker) as early:
                await within(early.until(lambda: {CONFIG, DEVICE.state_topic} <= set(early.newest)))
            async with listener(broker) as late:  # what is retained reaches who comes later
                wanted = {CONFIG, DEVICE.state_topic, "stormjay/bridge/state", "stormjay/statistics/weather/state"}
                wanted.add("homeassistant/device/stormjay_service/config")
                await within(late.until(lambda: wanted <= set(late.newest)))
                assert late.json(DEVICE.state_topic) == {"air_temp_c": 20.5}
                assert late.newest["stormjay/bridge/state"] == b"online"
                assert late.json("stormjay/statistics/weather/state") == {"received": 3.0}
                service = late.json("homeassistant/device/stormjay_service/config")
                assert isinstance(service, dict)
                assert "weather_received" in service["components"]
                part.put(DEVICE.state_topic, {"air_temp_c": 21.0})
                await within(late.until(lambda: late.newest[DEVICE.state_topic] == b'{"air_temp_c":21.0}'))
        async with listener(broker) as after:  # an orderly end says so
            await within(after.until(lambda: after.newest.get("stormjay/bridge/state") == b"offline"))
    assert statistics.value(CONNECTED) == 0


@pytest.mark.server
@pytest.mark.anyio
async def test_after_an_outage_the_newest_of_each_topic_arrives(tmp_path: Path, statistics: Statistics) -> None:
    forgive_closed_sockets()
    with mosquitto(tmp_path) as broker:
        part = sink(broker, statistics)
        part.put("stormjay/weather/a/state", "0")
        async with running(part):
            async with listener(broker) as ears:
                await within(ears.until(lambda: "stormjay/weather/a/state" in ears.newest))
            broker.kill()
            for number in range(1000):
                part.put("stormjay/weather/a/state", str(number))
            broker.start()
            async with listener(broker) as ears:
                await within(ears.until(lambda: ears.newest.get("stormjay/weather/a/state") == b"999"))
                assert len([topic for topic, _ in ears.all if topic == "stormjay/weather/a/state"]) < 10


@pytest.mark.server
@pytest.mark.anyio
async def test_when_home_assistant_comes_up_discovery_is_sent_again_after_a_random_wait(
    tmp_path: Path, statistics: Statistics
) -> None:
    clock = ManualClock(datetime(2026, 8, 6, tzinfo=UTC))
    with mosquitto(tmp_path) as broker:
        part = sink(broker, statistics, clock=clock)
        part.announce(DEVICE)
        async with running(part), listener(broker) as ears:
            await within(ears.until(lambda: CONFIG in ears.newest))
            sent = len([topic for topic, _ in ears.all if topic == CONFIG])
            await ears.client.publish("homeassistant/status", "online", qos=1)
            for _ in range(20):  # as many answers of the broker later nothing has come, for the clock stands still
                await ears.client.publish("homeassistant/elsewhere", "x", qos=1)
            assert len([topic for topic, _ in ears.all if topic == CONFIG]) == sent
            await clock.advance(8)
            await within(ears.until(lambda: len([topic for topic, _ in ears.all if topic == CONFIG]) > sent))


@pytest.mark.server
@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "old", "new"), [("device", SINGLE, CONFIG), ("single", CONFIG, SINGLE)])
async def test_a_record_of_the_other_form_is_moved_and_cleared(
    tmp_path: Path, statistics: Statistics, mode: str, old: str, new: str
) -> None:
    with mosquitto(tmp_path) as broker:
        async with listener(broker) as ears:
            await ears.client.publish(old, "{}", qos=1, retain=True)
            await within(ears.until(lambda: old in ears.newest))
            part = sink(broker, statistics, mode=mode)
            part.announce(DEVICE)
            async with running(part):
                await within(ears.until(lambda: ears.newest[old] == b""))
            order = [(topic, payload) for topic, payload in ears.all if topic in (old, new)]
            migrate = order.index((old, b'{"migrate_discovery":true}'))
            assert any(topic == new and payload for topic, payload in order[migrate:])
            assert order[-1] == (old, b"")
        async with listener(broker) as later:
            await within(later.until(lambda: new in later.newest))
            assert old not in later.newest


@pytest.mark.anyio
async def test_topics_and_devices_are_bounded_and_what_is_refused_is_counted(
    monkeypatch: pytest.MonkeyPatch, statistics: Statistics
) -> None:
    monkeypatch.setattr(sink_module, "TOPICS_MAX", 2)
    monkeypatch.setattr(sink_module, "DEVICES_MAX", 0)
    part = MqttSink(
        MqttSettings(url="mqtt://127.0.0.1"), clock=SystemClock(), statistics=statistics, randomness=seeded_random(1)
    )
    for name in "abc":
        part.put(name, "1")
    part.put("a", "2")
    part.announce(DEVICE)
    assert statistics.value(REFUSED) == 2


@pytest.mark.parametrize("url", ["http://host", "mqtt://", "mqtt://h:x", "broker"])
def test_an_address_that_is_none_is_told(url: str) -> None:
    with pytest.raises(SettingsError):
        Broker.from_url(url)


def test_an_address_is_taken_apart() -> None:
    broker = Broker.from_url("mqtts://me:p%40ss@broker.example?ca_file=/etc/ca.pem")
    assert broker == Broker(
        host="broker.example", port=8883, username="me", password="p@ss", tls=True, cafile="/etc/ca.pem"
    )
    assert Broker.from_url("mqtt://h").port == 1883
