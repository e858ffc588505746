"""How a relay works, what carries its items, and what it tells a status page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from stormjay.ground.backoff import WEATHER_SCHEDULE, Backoff, Schedule
from stormjay.ground.outbox.port import Order, Outcome
from stormjay.ground.outbox.suspects import DEATHS_MAX

T_contra = TypeVar("T_contra", contravariant=True)


class Sender(Protocol[T_contra]):
    """The way to the far side."""

    @property
    def batch_max(self) -> int:
        """Most items that one ``send`` takes now; may change from call to call."""
        ...

    async def send(self, items: Sequence[T_contra]) -> Sequence[Outcome]:
        """Send items and return the outcome of each, in their order.

        An exception counts as a failure of the items. Cancelling is allowed at any point.
        """
        ...


@dataclass(frozen=True)
class RelayPolicy:
    """How a relay works.

    Attributes:
        order: Which waiting items go first.
        in_flight_max: Sends at a time.
        schedule: Waits after an item's own failures, and when to give it up.
        probe: Waits between probes of a destination that is down.
        poll_seconds: Longest time between two looks for due items.
        heartbeat_seconds: Longest time between two heartbeats.
        deaths_max: Kills with one item alone in work after which it is given up.
        wake_topic: Announcements that mean new items; empty for none.
    """

    order: Order = "oldest"
    in_flight_max: int = 32
    schedule: Schedule = WEATHER_SCHEDULE
    probe: Backoff = field(default_factory=lambda: Backoff(first_seconds=2.0, cap_seconds=60.0))
    poll_seconds: float = 5.0
    heartbeat_seconds: float = 5.0
    deaths_max: int = DEATHS_MAX
    wake_topic: str = ""


@dataclass(frozen=True)
class RelayStatus:
    """What a status page shows.

    Attributes:
        destination: Name of the far side.
        down: Whether it counts as down.
        reason: What the last failure said, empty after a success.
        probe_in_seconds: Until the next probe; 0 when not down.
        in_flight: Sends under way.
        last_success_at: When an item was last delivered by this process, or None.
    """

    destination: str
    down: bool
    reason: str
    probe_in_seconds: float
    in_flight: int
    last_success_at: datetime | None
