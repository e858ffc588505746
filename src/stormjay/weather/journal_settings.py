"""How a journal works, as its parts take it."""

from __future__ import annotations

import msgspec

from stormjay.weather.fields import Range
from stormjay.weather.journal_schema import Destination
from stormjay.weather.journal_status import Thresholds


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a journal works.

    Attributes:
        destinations: Further places that readings are delivered to, beside the first (``aws_delivery_queue``).
        ranges: Bounds that replace those of ``weather/fields.py``, by column.
        thresholds: When a station counts as stale, offline or low on battery.
        spool_bytes_max: Most bytes in the spool.
        held_max: Most packets in memory that neither database nor spool could take.
        refresh_seconds: How often ``run`` reckons the states anew and tries what waits again.
    """

    destinations: tuple[Destination, ...] = ()
    ranges: dict[str, Range] = msgspec.field(default_factory=dict)
    thresholds: Thresholds = Thresholds()
    spool_bytes_max: int = 16 * 1024 * 1024
    held_max: int = 10_000
    refresh_seconds: float = 30.0
