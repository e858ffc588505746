"""One MQTT connection for what the product tells others: states, statistics and Home Assistant discovery.

Every topic it publishes is retained and its newest payload is all that counts, so what cannot be sent waits as one
payload per topic, never as a queue: after an outage of any length the broker gets the newest of each topic. The number
of topics is bounded; beyond it new ones are refused and counted.

``<base>/bridge/state`` says ``online`` while the connection stands, and the broker's last will makes it ``offline``.
Discovery is sent at each connection and again when Home Assistant says that it has come up, after a random wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import Callable
from typing import Any

import aiomqtt
import msgspec
import structlog

from stormjay.ground.backoff import Backoff
from stormjay.ground.clock import Clock
from stormjay.ground.stats import homeassistant
from stormjay.ground.stats.components import component_topic, service_device, statistics_by_component
from stormjay.ground.stats.homeassistant import OFFLINE, ONLINE, Device
from stormjay.ground.stats.mqtt_settings import Broker, MqttSettings
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.ground.until_first import until_first

__all__ = ["Broker", "MqttSettings", "MqttSink"]

TOPICS_MAX = 2000
"""Topics whose newest payload is held for the broker."""
DEVICES_MAX = 500
REDISCOVERY_WAIT_SECONDS = (1.0, 8.0)
_SEND_SECONDS_MAX = 10.0
_FAREWELL_SECONDS_MAX = 2.0
_IDLE_BEAT_SECONDS = 10.0

PUBLISHED = Metric("mqtt_published", "counter", "MQTT messages that the broker has taken.", label="MQTT published")
CONNECTED = Metric("mqtt_connected", "gauge", "1 while the connection to the MQTT broker stands.")
CONNECTIONS = Metric("mqtt_connections", "counter", "Connections made to the MQTT broker.")
REFUSED = Metric("mqtt_refused", "counter", "Topics or devices refused because as many as allowed are held.")
WAITING = Metric("mqtt_waiting", "gauge", "Topics whose newest payload waits for the broker.")


class MqttSink:
    """Publishes the newest payload of every topic; ``run`` keeps the connection."""

    def __init__(
        self,
        settings: MqttSettings,
        *,
        clock: Clock,
        statistics: Statistics,
        randomness: random.Random,
        heartbeat: Callable[[], None] = lambda: None,
        backoff: Backoff | None = None,
    ) -> None:
        """Take what it needs; nothing is connected before ``run``.

        Raises:
            SettingsError: The address cannot be read.
        """
        self._settings = settings
        self._broker = Broker.from_url(settings.url)
        self._clock = clock
        self._statistics = statistics
        self._random = randomness
        self._heartbeat = heartbeat
        self._backoff = backoff if backoff is not None else Backoff(cap_seconds=30.0)
        self._retained: dict[str, bytes] = {}
        self._dirty: dict[str, None] = {}
        self._devices: dict[str, Device] = {}
        self._unchecked: dict[str, None] = {}
        self._stopping = False
        self._work = asyncio.Event()
        self._log = structlog.get_logger(__name__)
        statistics.declare(PUBLISHED, CONNECTED, CONNECTIONS, REFUSED, WAITING)

    @property
    def bridge_topic(self) -> str:
        """The topic that says whether the product is connected."""
        return f"{self._settings.base_topic}/bridge/state"

    @property
    def _status_topic(self) -> str:
        """Where Home Assistant says that it has come up."""
        return f"{self._settings.discovery_prefix}/status"

    def put(self, topic: str, payload: dict[str, Any] | str) -> None:
        """Make this the newest payload of a topic; an unchanged one is not sent again."""
        body = payload.encode() if isinstance(payload, str) else msgspec.json.encode(payload)
        if self._retained.get(topic) == body:
            return
        if topic not in self._retained and len(self._retained) >= TOPICS_MAX:
            self._statistics.add(REFUSED)
            return
        self._retained[topic] = body
        self._mark(topic)

    def announce(self, device: Device) -> None:
        """Make a device known to Home Assistant, now and at every later chance; an unchanged one is not sent again."""
        if not self._settings.discovery or self._devices.get(device.device_id) == device:
            return
        if device.device_id not in self._devices and len(self._devices) >= DEVICES_MAX:
            self._statistics.add(REFUSED)
            return
        self._devices[device.device_id] = device
        for record in self._records(device):
            self.put(record.topic, record.payload)
        self._unchecked[device.device_id] = None
        self._work.set()

    async def run(self) -> None:
        """Connect, publish, and connect again with growing pauses, until cancelled."""
        self._stopping = False
        await until_first(self._clock, self._statistics_loop(), self._keep_connected(), ending=self._note_stop)

    def _note_stop(self) -> None:
        self._stopping = True

    async def _keep_connected(self) -> None:
        failures = 0
        while True:
            before = self._statistics.value(CONNECTIONS)
            error = await self._connection()
            if self._stopping:
                return
            failures = 1 if self._statistics.value(CONNECTIONS) > before else failures + 1
            pause = self._backoff.seconds(failures, self._random)
            self._log.warning("mqtt.disconnected", error=error, broker=self._broker.host, retry_seconds=round(pause, 1))
            self._heartbeat()
            await self._clock.sleep(pause)

    async def _connection(self) -> str:
        """Work on one connection until it ends; return why it did."""
        try:
            async with self._client() as client:
                self._statistics.add(CONNECTIONS)
                self._statistics.set(CONNECTED, 1)
                try:
                    await self._converse(client)
                finally:
                    self._statistics.set(CONNECTED, 0)
        except (aiomqtt.MqttError, OSError, ValueError) as error:
            return str(error) or type(error).__name__
        return "it ended"

    def _client(self) -> aiomqtt.Client:
        broker = self._broker
        return aiomqtt.Client(
            broker.host,
            broker.port,
            username=broker.username,
            password=broker.password,
            will=aiomqtt.Will(self.bridge_topic, OFFLINE, qos=1, retain=True),
            tls_context=ssl.create_default_context(cafile=broker.cafile) if broker.tls else None,
            timeout=_SEND_SECONDS_MAX,
            max_queued_incoming_messages=1000,
        )

    async def _converse(self, client: aiomqtt.Client) -> None:
        for topic in self._retained:
            self._mark(topic)
        self._unchecked = dict.fromkeys(self._devices)
        if self._settings.discovery:  # before anything is sent, so that no word of Home Assistant is missed in between
            await client.subscribe(self._status_topic, qos=1)
        await client.publish(self.bridge_topic, ONLINE, qos=1, retain=True)
        self._log.info("mqtt.connected", broker=self._broker.host)
        try:
            works = [self._send(client), *([self._listen(client)] if self._settings.discovery else [])]
            await until_first(self._clock, *works, insist=True)
        finally:
            if self._stopping:
                # An orderly end sends no last will, so we say it; a broker that is gone will say it without us.
                with contextlib.suppress(aiomqtt.MqttError):
                    await client.publish(self.bridge_topic, OFFLINE, qos=1, retain=True, timeout=_FAREWELL_SECONDS_MAX)

    async def _send(self, client: aiomqtt.Client) -> None:
        while not self._stopping:  # asked here too: a cancellation may have been swallowed (see until_first)
            self._heartbeat()
            while self._unchecked:
                await client.subscribe(self._other_form_filter(self._unchecked.popitem()[0]), qos=1)
            while self._dirty:
                topic = next(iter(self._dirty))
                del self._dirty[topic]
                try:
                    await client.publish(topic, self._retained[topic], qos=1, retain=True)
                except BaseException:
                    self._dirty[topic] = None
                    raise
                self._statistics.add(PUBLISHED)
                self._heartbeat()
            self._statistics.set(WAITING, 0)
            self._work.clear()
            await self._until_work()

    async def _until_work(self) -> None:
        """Wait for something to send, at most so long that the watchdog hears of us in between."""
        work = asyncio.ensure_future(self._work.wait())
        timer = asyncio.ensure_future(self._clock.sleep(_IDLE_BEAT_SECONDS))
        try:
            await asyncio.wait([work, timer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            timer.cancel()

    async def _listen(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            topic = message.topic.value
            payload = message.payload
            if topic == self._status_topic:
                if payload == ONLINE.encode() and not message.retain:
                    await self._clock.sleep(self._random.uniform(*REDISCOVERY_WAIT_SECONDS))
                    self._rediscover()
            elif payload and payload != msgspec.json.encode(homeassistant.MIGRATE):
                await self._migrate(client, topic)

    def _other_form_filter(self, device_id: str) -> str:
        """Return where records of the form that is not used would lie; being retained, they show themselves."""
        prefix = self._settings.discovery_prefix
        if self._settings.discovery_mode == "single":
            return f"{prefix}/device/{device_id}/config"
        return f"{prefix}/+/{device_id}/+/config"

    def _rediscover(self) -> None:
        self._log.info("mqtt.rediscovery", devices=len(self._devices))
        for device in self._devices.values():
            for record in self._records(device):
                self._mark(record.topic)
            self._mark(device.state_topic)

    async def _migrate(self, client: aiomqtt.Client, old_topic: str) -> None:
        """Move an entity whose record lies in the other form: say so, send the new form, clear the old record."""
        settings = self._settings
        for device in self._devices.values():
            others = homeassistant.topics_of_other_mode(settings.discovery_prefix, device, mode=settings.discovery_mode)
            if old_topic not in others:
                continue
            await client.publish(old_topic, msgspec.json.encode(homeassistant.MIGRATE), qos=1, retain=False)
            for record in self._records(device):
                await client.publish(record.topic, msgspec.json.encode(record.payload), qos=1, retain=True)
            await client.publish(old_topic, b"", qos=1, retain=True)
            self._log.info("mqtt.discovery_migrated", topic=old_topic)

    async def _statistics_loop(self) -> None:
        while True:
            self.announce(service_device(self._statistics, self._settings.base_topic, version=self._settings.version))
            for component, values in statistics_by_component(self._statistics).items():
                self.put(component_topic(self._settings.base_topic, component), values)
            await self._clock.sleep(self._settings.statistics_seconds)

    def _records(self, device: Device) -> list[homeassistant.Record]:
        settings = self._settings
        return homeassistant.discovery_records(
            settings.discovery_prefix, device, mode=settings.discovery_mode, version=settings.version
        )

    def _mark(self, topic: str) -> None:
        if topic not in self._retained:
            return
        self._dirty[topic] = None
        self._statistics.set(WAITING, len(self._dirty))
        self._work.set()
