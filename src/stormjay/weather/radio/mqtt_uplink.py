"""Packets from an MQTT broker to which Meshtastic gateways publish their JSON uplink (contract weather 9.7)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, unquote, urlsplit

import aiomqtt
import msgspec
import structlog

from stormjay.errors import LinkLost, Refused, SettingsError
from stormjay.ground.clock import Clock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.radio.inbox import Inbox
from stormjay.weather.radio.options import CONNECTED, LINKS_OPENED, RadioOptions, declare
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.radio.uplink_message import MalformedUplinkError, NodeNames, parse_uplink

_log = structlog.get_logger(__name__)
_client_log = logging.getLogger(__name__)
# The client has a line for each message that finds its queue full; the counter says it once.
_client_log.setLevel(logging.CRITICAL)

TOPIC_DEFAULT = "msh/#"
KEEPALIVE_SECONDS = 30
INCOMING_MAX = 1000
"""Messages that may wait inside the client for their turn to be read."""
_REFUSED = 128
"""Reason codes of MQTT from here on are refusals."""
_PORTS = {"mqtt": 1883, "mqtts": 8883}


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """Where the uplink is published.

    Attributes:
        host, port: The broker's address.
        topic: Filter of the topics to subscribe to; messages without ``/2/json/`` in their topic are passed over.
        user, password: What to show the broker; None for nothing.
        tls: Whether the connection is encrypted and the broker's certificate checked.
        ca_file: The authority that signed the broker's certificate; None takes the system's.
    """

    host: str
    port: int
    topic: str = TOPIC_DEFAULT
    user: str | None = None
    password: str | None = None
    tls: bool = False
    ca_file: str | None = None

    def __repr__(self) -> str:
        # The password must not reach a log by way of a printed object.
        return f"Broker({self.host}:{self.port}, topic={self.topic!r})"


class MqttUplinkLink:
    """An open subscription."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def packets(self) -> AsyncIterator[MeshPacket]:
        """Yield what gateways hand in until the connection ends.

        Raises:
            LinkLost: The broker is gone, or the watchdog's time passed in silence.
        """
        return self._inbox.packets()

    async def send_text(self, payload: bytes) -> None:  # noqa: ARG002 - the port's signature
        """Refuse: this link only hears.

        Raises:
            Refused: Always.
        """
        raise Refused("the MQTT uplink cannot send", next_step="Set a serial or TCP radio for sending.")


class MqttUplink:
    """How to reach one broker. The names that nodes say are remembered from one link to the next."""

    def __init__(
        self, broker: Broker, *, clock: Clock, statistics: Statistics, options: RadioOptions | None = None
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._statistics = statistics
        self._options = options or RadioOptions()
        self._names = NodeNames()
        declare(statistics)

    @classmethod
    def from_url(
        cls, url: str, *, clock: Clock, statistics: Statistics, options: RadioOptions | None = None
    ) -> MqttUplink:
        """Build from ``mqtt[s]://[user:password@]host[:port][/topic/filter][?ca_file=/path]``.

        The filter may be written with ``#`` as it is or as ``%23``; user and password are percent-decoded.

        Raises:
            SettingsError: The address is of another form. The text never holds the address, for its password.
        """
        # Here a "#" is the topic filter's, not the start of a fragment.
        try:
            parts = urlsplit(url.replace("#", "%23"))
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError):
            # The cause is not kept: its text may hold a piece of the password.
            raise SettingsError(
                "radio_url_invalid",
                "the uplink's address is not understood",
                next_step="Write mqtt://user:password@host:1883/msh/EU_868/2/json/#.",
            ) from None
        if not parts.hostname:
            raise SettingsError("radio_url_invalid", "the uplink's address names no host")
        broker = Broker(
            host=parts.hostname,
            port=port,
            topic=unquote(parts.path).strip("/") or TOPIC_DEFAULT,
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password is not None else None,
            tls=parts.scheme == "mqtts",
            ca_file=parse_qs(parts.query).get("ca_file", [None])[-1],
        )
        return cls(broker, clock=clock, statistics=statistics, options=options)

    @property
    def name(self) -> str:
        """``mqtt:host:1883/msh/#``; holds neither user nor password."""
        return f"mqtt:{self._broker.host}:{self._broker.port}/{self._broker.topic}"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MqttUplinkLink]:
        """Subscribe for the length of the block.

        Raises:
            LinkLost: The broker does not answer, or refuses the user or the topic.
        """
        inbox = Inbox(name=self.name, clock=self._clock, statistics=self._statistics, options=self._options)
        client = self._client(inbox)
        try:
            await client.__aenter__()
        except (aiomqtt.MqttError, OSError) as error:
            raise self._unreachable(error) from error
        try:
            async with self._subscribed(client, inbox) as link:
                yield link
        finally:
            await _leave(client)

    @asynccontextmanager
    async def _subscribed(self, client: aiomqtt.Client, inbox: Inbox) -> AsyncIterator[MqttUplinkLink]:
        try:
            granted = await client.subscribe(self._broker.topic)
        except (aiomqtt.MqttError, ValueError) as error:
            raise self._unreachable(error) from error
        if any((code if isinstance(code, int) else code.value) >= _REFUSED for code in granted):
            raise LinkLost(
                f"{self.name}: the broker refused the subscription",
                next_step="Allow this user to read the topic at the broker.",
            )
        chores = [asyncio.create_task(self._receive(client, inbox)), asyncio.create_task(inbox.watch())]
        self._statistics.add(LINKS_OPENED)
        self._statistics.add(CONNECTED)
        try:
            yield MqttUplinkLink(inbox)
        finally:
            self._statistics.add(CONNECTED, -1)
            inbox.close()
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)

    async def _receive(self, client: aiomqtt.Client, inbox: Inbox) -> None:
        try:
            async for message in client.messages:
                try:
                    packet = parse_uplink(
                        message.topic.value, message.payload, received_at=self._clock.now(), names=self._names
                    )
                except MalformedUplinkError as error:
                    inbox.malformed(str(error))
                    continue
                if packet is not None:
                    inbox.offer(packet)
        except Exception as error:  # noqa: BLE001 - whatever ends this loop ends the link, or it would be deaf unseen
            inbox.lose(LinkLost(f"{self.name} ended: {error}"), reason="lost")

    def _client(self, inbox: Inbox) -> aiomqtt.Client:
        broker = self._broker
        try:
            context = ssl.create_default_context(cafile=broker.ca_file) if broker.tls else None
        except OSError as error:
            raise LinkLost(
                f"{self.name}: the file with the certificate authority cannot be read: {error}",
                next_step="Look at ca_file in the radio's address.",
            ) from error
        return aiomqtt.Client(
            broker.host,
            broker.port,
            username=broker.user,
            password=broker.password,
            tls_context=context,
            timeout=self._options.connect_timeout_seconds,
            keepalive=KEEPALIVE_SECONDS,
            logger=_client_log,
            queue_type=_counting_queue(inbox),
            max_queued_incoming_messages=INCOMING_MAX,
        )

    def _unreachable(self, error: BaseException) -> LinkLost:
        return LinkLost(
            f"{self.name} cannot be reached: {error}",
            next_step="Look whether the broker runs, and whether it knows this user and password.",
        )


def _counting_queue(inbox: Inbox) -> type[asyncio.Queue[aiomqtt.Message]]:
    """Return the kind of queue that tells ``inbox`` of each message that the client throws away."""

    class CountingQueue(asyncio.Queue[aiomqtt.Message]):
        def put_nowait(self, item: aiomqtt.Message) -> None:
            if self.full():
                inbox.dropped()
            super().put_nowait(item)

    return CountingQueue


async def _leave(client: aiomqtt.Client) -> None:
    try:
        await client.__aexit__(None, None, None)
    except aiomqtt.MqttError as error:  # the broker is gone already: there is nobody to say good-bye to
        _log.debug("radio.close_failed", error=str(error))
