"""Delivery of one destination: the journal's queue table, a relay, and an HTTP sender, put together.

The queue table holds the truth; ``delivery_body.py`` says what is sent, ``delivery_http.py`` what counts as delivered,
``ground/outbox`` when it is tried again.
"""

from __future__ import annotations

from collections.abc import Callable

from stormjay.ground.announcer import Announcer
from stormjay.ground.backoff import Schedule
from stormjay.ground.clock import Clock
from stormjay.ground.outbox.policy import RelayPolicy
from stormjay.ground.outbox.relay import Relay
from stormjay.ground.outbox.sqlite import SqliteOutbox
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Statistics
from stormjay.weather.delivery_body import load_payloads
from stormjay.weather.delivery_http import DeliverySettings, HttpSender


class Delivery:
    """One destination at work: its queue, its relay and its connections."""

    def __init__(self, outbox: SqliteOutbox[bytes], relay: Relay[bytes], sender: HttpSender) -> None:
        self.outbox = outbox
        self.relay = relay
        self._sender = sender

    @classmethod
    async def open(
        cls,
        database: Database,
        table: str,
        settings: DeliverySettings,
        *,
        clock: Clock,
        statistics: Statistics,
        announcer: Announcer,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> Delivery:
        """Prepare to deliver the rows of a queue table of the journal.

        Raises:
            StoreUnavailable: The file cannot be written.
        """
        outbox = await SqliteOutbox.open(database, table, load_payloads, destination=settings.name, clock=clock)
        sender = HttpSender(settings, clock=clock)
        policy = RelayPolicy(
            order=settings.order,
            in_flight_max=settings.concurrency,
            schedule=Schedule(settings.schedule_seconds),
            poll_seconds=settings.poll_seconds,
            heartbeat_seconds=settings.heartbeat_seconds,
            wake_topic="reading",
        )
        relay = Relay(
            outbox, sender, policy, clock=clock, statistics=statistics, announcer=announcer, heartbeat=heartbeat
        )
        return cls(outbox, relay, sender)

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with self._sender:
            await self.relay.run()

    async def drain(self) -> None:
        """Deliver what is due and return when nothing more can be sent without waiting.

        Raises:
            StoreUnavailable: Rows cannot be read or stored.
        """
        async with self._sender:
            await self.relay.drain()
