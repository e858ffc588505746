"""The air between simulated nodes: it loses, repeats, delays and reorders, as told, from a seeded source.

For tests and the demonstration; the product's own path never touches it.
"""

from __future__ import annotations

import asyncio
from random import Random
from types import TracebackType
from typing import Protocol, Self

import msgspec

from stormjay.ground.clock import Clock

IN_FLIGHT_MAX = 10_000
HOP_LIMIT = 3
"""Relays that a packet may pass; Meshtastic's default."""


class LinkConditions(msgspec.Struct, frozen=True, kw_only=True):
    """How good the air is.

    Attributes:
        loss: Share of deliveries that never arrive, 0 to 1.
        duplication: Share that arrive twice, the second time through another relay.
        reordering: Share held back for ``held_back_seconds``, so that later ones overtake them.
        delay_seconds: Shortest and longest time on the way.
        held_back_seconds: See ``reordering``.
        snr_db: Lowest and highest signal-to-noise ratio, in steps of 0.25 dB as radios report it.
        rssi_dbm: Lowest and highest signal strength.
        relays: Fewest and most relays passed, at most 3.
    """

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    delay_seconds: tuple[float, float] = (0.0, 0.0)
    held_back_seconds: float = 10.0
    snr_db: tuple[float, float] = (-10.0, 10.0)
    rssi_dbm: tuple[int, int] = (-120, -60)
    relays: tuple[int, int] = (0, 2)


class Transmission(msgspec.Struct, frozen=True, kw_only=True):
    """One packet as its sender puts it on the air; a repeat has the same ``packet_id``.

    Attributes:
        sender: The sending node's number.
        packet_id: Chosen by the sender.
        portnum: Meshtastic's number of the port.
        payload: The decoded payload.
        channel: Index of the channel.
    """

    sender: int
    packet_id: int
    portnum: int
    payload: bytes
    channel: int = 0


class Reception(msgspec.Struct, frozen=True, kw_only=True):
    """How a packet arrived at one node.

    Attributes:
        snr_db, rssi_dbm: Quality of the last hop; both 0 when it did not come by radio.
        hop_start: Relays the sender allowed; 0 for firmware that does not say.
        hop_limit: Relays still allowed on arrival.
        rx_time: The node's receive time, epoch seconds; None takes the clock's.
    """

    snr_db: float = 6.25
    rssi_dbm: int = -90
    hop_start: int = HOP_LIMIT
    hop_limit: int = HOP_LIMIT
    rx_time: int | None = None


class MeshMember(Protocol):
    """A node that can hear."""

    @property
    def number(self) -> int:
        """The node's number."""
        ...

    @property
    def names(self) -> tuple[str, str]:
        """Long and short name."""
        ...

    async def hear(self, transmission: Transmission, reception: Reception) -> None:
        """Receive a packet."""
        ...


class SimulatedMesh:
    """Carries transmissions from one member to all others.

    Attributes:
        conditions: How good the air is; may be replaced at any time, holds from the next transmission on.
        transmitted, delivered, lost, repeated: What happened so far; ``lost`` and ``delivered`` count per receiver.
    """

    def __init__(self, *, clock: Clock, random: Random, conditions: LinkConditions | None = None) -> None:
        self.conditions = conditions or LinkConditions()
        self.transmitted = self.delivered = self.lost = self.repeated = 0
        self._clock = clock
        self._random = random
        self._members: dict[int, MeshMember] = {}
        self._in_flight: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for delivery in list(self._in_flight):
            delivery.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    @property
    def members(self) -> tuple[MeshMember, ...]:
        """Who takes part."""
        return tuple(self._members.values())

    @property
    def in_flight(self) -> int:
        """Deliveries still on their way."""
        return len(self._in_flight)

    def join(self, member: MeshMember) -> None:
        """Let a node take part."""
        self._members[member.number] = member

    def leave(self, member: MeshMember) -> None:
        """Take a node away; what is on its way to it is lost."""
        self._members.pop(member.number, None)

    def transmit(self, transmission: Transmission) -> None:
        """Put a packet on the air; all draws are made now, so that a seed gives the same run every time."""
        self.transmitted += 1
        for number in self._members:
            if number == transmission.sender:
                continue
            copies = 1
            if self._random.random() < self.conditions.loss:
                copies = 0
                self.lost += 1
            elif self._random.random() < self.conditions.duplication:
                copies = 2
                self.repeated += 1
            for _ in range(copies):
                self._send_on_its_way(number, transmission)

    async def settled(self) -> None:
        """Return when nothing is on its way any more."""
        while self._in_flight:
            await asyncio.wait(self._in_flight)

    def _send_on_its_way(self, number: int, transmission: Transmission) -> None:
        conditions, random = self.conditions, self._random
        delay = random.uniform(*conditions.delay_seconds)
        if random.random() < conditions.reordering:
            delay += conditions.held_back_seconds
        reception = Reception(
            snr_db=round(random.uniform(*conditions.snr_db) * 4) / 4,
            rssi_dbm=random.randint(*conditions.rssi_dbm),
            hop_limit=HOP_LIMIT - min(HOP_LIMIT, random.randint(*conditions.relays)),
        )
        if len(self._in_flight) >= IN_FLIGHT_MAX:
            self.lost += 1
            return
        delivery = asyncio.create_task(self._deliver(number, transmission, reception, delay))
        self._in_flight.add(delivery)
        delivery.add_done_callback(self._in_flight.discard)

    async def _deliver(self, number: int, transmission: Transmission, reception: Reception, delay: float) -> None:
        if delay > 0:
            await self._clock.sleep(delay)
        member = self._members.get(number)
        if member is None:
            self.lost += 1
            return
        self.delivered += 1
        await member.hear(transmission, reception)
