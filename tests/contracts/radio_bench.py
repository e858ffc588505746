"""Three kinds of radio behind one bench: what happens on the air and on the wire is told in the same words for each."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import aiomqtt
import anyio
import pytest
from tests.servers.mosquitto import Mosquitto, mosquitto

from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.weather.radio.identity import node_id
from stormjay.weather.radio.meshtastic_node import HEARTBEAT_SECONDS, MeshtasticNode
from stormjay.weather.radio.mqtt_uplink import MqttUplink
from stormjay.weather.radio.node_simulator import GARDEN_NODE, KnownNode, NodeSimulator
from stormjay.weather.radio.options import HEARTBEATS, RadioOptions
from stormjay.weather.radio.port import Radio
from stormjay.weather.radio.simulated_mesh import Reception

START = datetime(2026, 8, 6, 7, 6, 40, tzinfo=UTC)
LINE = b'{"et":"evt_strike","i":4,"ts":1786000101,"ld":14,"se":2917}'
GATEWAY = "!0badcafe"

__all__ = ["GARDEN_NODE", "GATEWAY", "LINE", "START", "Bench", "bench", "total", "until"]


async def until(condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    """Give other tasks and threads turns until ``condition`` holds."""
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.lowlevel.checkpoint()


def total(statistics: Statistics, metric: Metric) -> float:
    """Return a counter's sum over all labels."""
    return sum(sample.value for sample in statistics.samples() if sample.metric is metric)


class Bench(Protocol):
    """One radio and the world around it."""

    radio: Radio
    clock: ManualClock
    statistics: Statistics
    can_send: bool

    async def hear(
        self, payload: bytes, *, sender: int = GARDEN_NODE, packet_id: int = 7, reception: Reception | None = None
    ) -> None:
        """Let a text come in."""
        ...

    async def hear_name(self, long_name: str, short_name: str, *, sender: int = GARDEN_NODE) -> None:
        """Let a node say its names."""
        ...

    async def hear_temperature(self, temperature_c: float) -> None:
        """Let environment telemetry come in."""
        ...

    async def hear_noise(self) -> None:
        """Let something come in that is no packet."""
        ...

    async def lose(self) -> None:
        """End the link from the far side and be unreachable."""
        ...

    async def come_back(self) -> None:
        """Be reachable again."""
        ...

    async def quiet(self) -> None:
        """Return when the freshly opened link has nothing more to do by itself."""
        ...


class NodeBench:
    def __init__(self, node: NodeSimulator, clock: ManualClock, options: RadioOptions) -> None:
        self.node = node
        self.clock = clock
        self.statistics = Statistics()
        self.can_send = True
        self.radio: Radio = MeshtasticNode.from_url(node.url, clock=clock, statistics=self.statistics, options=options)

    async def hear(
        self, payload: bytes, *, sender: int = GARDEN_NODE, packet_id: int = 7, reception: Reception | None = None
    ) -> None:
        await self.node.inject_text(payload, sender=sender, packet_id=packet_id, reception=reception)

    async def hear_name(self, long_name: str, short_name: str, *, sender: int = GARDEN_NODE) -> None:
        await self.node.inject_node_info(KnownNode(number=sender, long_name=long_name, short_name=short_name))

    async def hear_temperature(self, temperature_c: float) -> None:
        from meshtastic.protobuf import telemetry_pb2  # noqa: PLC0415 - only this bench needs the extra

        telemetry = telemetry_pb2.Telemetry()
        telemetry.environment_metrics.temperature = temperature_c
        await self.node.inject_telemetry(telemetry.SerializeToString(), sender=GARDEN_NODE)

    async def hear_noise(self) -> None:
        await self.node.write_raw(b"\x94\xc3\x00\x03\xff\xff\xff")

    async def lose(self) -> None:
        await self.node.refuse()

    async def come_back(self) -> None:
        await self.node.accept()

    async def quiet(self) -> None:
        # Each heartbeat that is due has been taken, so no limit in time waits for the clock any more.
        due = 1 + int(self.clock.monotonic() // HEARTBEAT_SECONDS)
        await until(lambda: self.statistics.value(HEARTBEATS) == due)


class UplinkBench:
    def __init__(self, broker: Mosquitto, clock: ManualClock, options: RadioOptions) -> None:
        self.broker = broker
        self.clock = clock
        self.statistics = Statistics()
        self.can_send = False
        self.radio: Radio = MqttUplink.from_url(
            f"{broker.url}/msh/#", clock=clock, statistics=self.statistics, options=options
        )

    async def publish(
        self, body: bytes | dict[str, Any], *, topic: str = f"msh/EU_868/2/json/LongFast/{GATEWAY}"
    ) -> None:
        async with aiomqtt.Client(
            "127.0.0.1", self.broker.port, username=self.broker.user or None, password=self.broker.password or None
        ) as client:
            await client.publish(topic, body if isinstance(body, bytes) else json.dumps(body).encode(), qos=1)

    def message(self, kind: str, payload: object, *, sender: int = GARDEN_NODE, packet_id: int = 7) -> dict[str, Any]:
        return {
            "id": packet_id,
            "timestamp": 1786000000,
            "to": 0xFFFFFFFF,
            "from": sender,
            "channel": 0,
            "type": kind,
            "sender": GATEWAY,
            "payload": payload,
        }

    async def hear(
        self, payload: bytes, *, sender: int = GARDEN_NODE, packet_id: int = 7, reception: Reception | None = None
    ) -> None:
        reception = reception or Reception()
        try:
            content: object = json.loads(payload)
        except ValueError:
            content = {"text": payload.decode()}
        message = self.message("text", content, sender=sender, packet_id=packet_id)
        # As the firmware: what is zero is left out.
        if reception.rssi_dbm:
            message["rssi"] = reception.rssi_dbm
        if reception.snr_db:
            message["snr"] = reception.snr_db
        if reception.hop_start:
            message["hop_start"] = reception.hop_start
            message["hops_away"] = reception.hop_start - reception.hop_limit
        await self.publish(message)

    async def hear_name(self, long_name: str, short_name: str, *, sender: int = GARDEN_NODE) -> None:
        names = {"id": node_id(sender), "longname": long_name, "shortname": short_name, "hardware": 9, "role": 0}
        await self.publish(self.message("nodeinfo", names, sender=sender))

    async def hear_temperature(self, temperature_c: float) -> None:
        await self.publish(self.message("telemetry", {"temperature": temperature_c}))

    async def hear_noise(self) -> None:
        await self.publish(b'{"from": 12, "type":')

    async def lose(self) -> None:
        self.broker.kill()

    async def come_back(self) -> None:
        self.broker.start()

    async def quiet(self) -> None:
        return


@contextmanager
def hurried_library() -> Iterator[None]:
    """Take out the pauses of 0.1 s that the library makes for slow devices at each open and each write."""
    no_pauses = SimpleNamespace(sleep=lambda _seconds: None, time=time.time)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("stream_interface", "serial_interface"):
            patch.setattr(f"meshtastic.{module}.time", no_pauses)
        yield


@asynccontextmanager
async def bench(
    kind: Literal["tcp", "serial", "mqtt"], folder: Path, options: RadioOptions | None = None
) -> AsyncIterator[Bench]:
    """Build one radio and its far side."""
    clock = ManualClock(START)
    options = options or RadioOptions()
    if kind == "mqtt":
        with mosquitto(folder, user="stormjay", password="s3cret") as broker:
            yield UplinkBench(broker, clock, options)
    else:
        with hurried_library():
            async with NodeSimulator(clock=clock, transport=kind) as node:
                yield NodeBench(node, clock, options)
