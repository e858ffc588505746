"""What a text from the mesh turns out to be: frozen values between the parser and the journal (contract weather 4).

Nothing here reads a clock or touches a file. Times are microseconds since 1970 in UTC wherever they are reckoned with,
and text only where the sender's own spelling has to be kept.
"""

from __future__ import annotations

import operator
from datetime import datetime
from typing import Annotated, Any, Literal, cast

import msgspec

from stormjay.ground.timestamps import PLAUSIBLE_FROM_US
from stormjay.weather.fields import FIELDS

PacketType = Literal["weather", "health", "weather_event", "telemetry", "invalid", "rejected", "unknown"]
Number = int | float

COLUMNS = tuple(field.column for field in FIELDS)
"""Columns of the weather values, in the order in which ``WeatherReading.values`` holds them."""
BATTERY_PLACE = COLUMNS.index("battery_voltage_v")
AIR_ORDER = (
    *("t", "h", "p", "w", "g", "l", "d", "ws", "r", "uv", "sr", "lux", "bat", "ld", "lc", "pt", "ri"),
    *("rd", "nr", "nrd", "pa"),
)
"""Keys in the order in which the bridge writes them (contract weather 1.2): the decoder is quickest so."""
_BEFORE_FIELDS = 3
_in_table_order = operator.itemgetter(*(_BEFORE_FIELDS + AIR_ORDER.index(field.key) for field in FIELDS))


class CheckedReading(msgspec.Struct, frozen=True, gc=False):
    """A reading whose values were looked at one by one.

    Attributes:
        msg_id: The sender's message number, which starts again at 1 with every boot.
        source_ts_utc: The source time as the sender spelled it.
        epoch_us: The same instant, which is the reading's identity together with the sender.
        weather_timestamp: The source time as the whole number that was sent, or None when it was none.
        values: In the order of ``COLUMNS``, None where the sender had no reading.
    """

    msg_id: int
    source_ts_utc: str
    epoch_us: int
    weather_timestamp: int | None
    values: tuple[Number | None, ...]

    def normalized(self) -> dict[str, Any]:
        """Return the 25 keys of contract weather 4.2, those without a value as None."""
        return _normalized(self)


class DecodedReading(msgspec.Struct, frozen=True, gc=False):
    """A reading as the typed decoder made it from the text: the keys on the air, read under their long names on demand.

    A subclass adds the fields with their ranges, after these three, in ``AIR_ORDER``.
    """

    et: Literal["obs_st"]
    i: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    ts: Annotated[int, msgspec.Meta(ge=PLAUSIBLE_FROM_US // 1_000_000, lt=10**11)]

    @property
    def msg_id(self) -> int:
        """The message number."""
        return self.i

    @property
    def source_ts_utc(self) -> str:
        """The source time as spelled."""
        return str(self.ts)

    @property
    def epoch_us(self) -> int:
        """The source time in microseconds since 1970."""
        return self.ts * 1_000_000

    @property
    def weather_timestamp(self) -> int:
        """The source time as the whole number that was sent."""
        return self.ts

    @property
    def values(self) -> tuple[Number | None, ...]:
        """The values in the order of ``COLUMNS``."""
        return cast("tuple[Number | None, ...]", _in_table_order(msgspec.structs.astuple(self)))

    def normalized(self) -> dict[str, Any]:
        """Return the 25 keys of contract weather 4.2, those without a value as None."""
        return _normalized(self)


WeatherReading = CheckedReading | DecodedReading
"""One accepted observation, as either of the parser's two ways makes it; both have the same properties."""


def _normalized(reading: WeatherReading) -> dict[str, Any]:
    return {
        "event_type": "obs_st",
        "msg_id": reading.msg_id,
        "source_ts_utc": reading.source_ts_utc,
        "weather_timestamp": reading.weather_timestamp,
        **dict(zip(COLUMNS, reading.values, strict=True)),
    }


class WeatherEvent(msgspec.Struct, frozen=True, gc=False):
    """A rain start (``evt_precip``) or a strike (``evt_strike``); distance in km, energy without unit."""

    event_type: str
    msg_id: int
    source_ts_utc: str
    epoch_us: int
    event_timestamp: int
    lightning_distance_km: float | None
    lightning_energy: int | None

    def normalized(self) -> dict[str, Any]:
        """Return the keys of contract weather 4.3."""
        return _without(self, "epoch_us")


class Telemetry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the sensor (``device_status``) or its hub (``hub_status``) says of itself; the lists are compact JSON."""

    event_type: str
    msg_id: int
    source_ts_utc: str
    epoch_us: int
    telemetry_timestamp: int
    uptime_sec: int | None
    firmware_revision: str | None
    rssi: int | None
    hub_rssi: int | None
    sensor_status: int | None
    debug: int | None
    voltage: float | None
    reset_flags: str | None
    seq: int | None
    fs_json: str | None
    radio_stats_json: str | None
    mqtt_stats_json: str | None

    def normalized(self) -> dict[str, Any]:
        """Return the keys of contract weather 4.4, the three lists as lists again."""
        values = _without(self, "epoch_us", "fs_json", "radio_stats_json", "mqtt_stats_json")
        for name in ("fs", "radio_stats", "mqtt_stats"):
            stored = getattr(self, f"{name}_json")
            values[name] = None if stored is None else msgspec.json.decode(stored)
        return values


class Health(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A heartbeat of the garden bridge; its own time is kept as text and never refuses it (DESIGN.md decision 2)."""

    status: str
    msg_id: int | None
    uptime_sec: int | None
    ip_address: str | None
    error_reason: str | None
    source_ts_utc: str | None
    epoch_us: int | None
    """The source time when it names a plausible instant, else None."""

    def normalized(self) -> dict[str, Any]:
        """Return the keys of contract weather 4.5."""
        return _without(self, "epoch_us")


def _without(record: msgspec.Struct, *names: str) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(record).items() if name not in names}


Body = WeatherReading | WeatherEvent | Telemetry | Health


class ParsedEvent(msgspec.Struct, frozen=True, gc=False):
    """The parser's verdict on one text.

    Attributes:
        packet_type: Which of the seven kinds it is; ``invalid``, ``rejected`` and ``unknown`` go to the ledger.
        reason: Why it was not accepted, or None.
        received_at: When this machine received it, aware UTC.
        raw_payload: The text exactly as it came; undecodable bytes stand as replacement characters.
        source_node_id: The sender, or None when the radio does not know it.
        source_name: The sender's name, or None.
        body: The accepted record, or None.
        payload_hex: The bytes in hex when ``raw_payload`` is not the whole truth of them, else None.
        refused_msg_id: The message number of a packet that was not accepted, where one could be had.
        refused_ts_utc: The source time of such a packet as spelled by the sender, or None.
        unrecognised: The JSON object of an ``unknown`` packet, or None.
    """

    packet_type: PacketType
    reason: str | None
    received_at: datetime
    raw_payload: str
    source_node_id: str | None = None
    source_name: str | None = None
    body: Body | None = None
    payload_hex: str | None = None
    refused_msg_id: int | None = None
    refused_ts_utc: str | None = None
    unrecognised: dict[str, Any] | None = None

    @property
    def msg_id(self) -> int | None:
        """The message number, where one could be had."""
        return self.refused_msg_id if self.body is None else self.body.msg_id

    @property
    def source_ts_utc(self) -> str | None:
        """The source time as spelled by the sender, or None."""
        return self.refused_ts_utc if self.body is None else self.body.source_ts_utc

    @property
    def received_at_utc(self) -> str:
        """The receive time as the seed stores it: ISO with ``+00:00``."""
        return self.received_at.isoformat()

    @property
    def normalized(self) -> dict[str, Any] | None:
        """The accepted values under their long names, or None (contract weather 4)."""
        return self.unrecognised if self.body is None else self.body.normalized()


class Captured(msgspec.Struct, frozen=True, gc=False):
    """What became of one packet.

    Attributes:
        kind: A packet type, ``native_telemetry``, ``ignored`` (a port that is none of ours), ``spooled`` (kept in
            the spool until the store is back) or ``lost`` (every place to keep it was full).
        reason: Why it is not in the table of its kind, or None. Repeats say ``duplicate`` or ``conflict``.
        duplicate: Whether the record was there already, with the same or with other values.
        row_id: The row that holds it: the new one, or for a repeat the one that was there; None in the ledger.
        msg_id: The sender's message number, or None.
        detail: ``evt_strike``, ``hub_status`` and the like where the kind has such, else None.
    """

    kind: str
    reason: str | None = None
    duplicate: bool = False
    row_id: int | None = None
    msg_id: int | None = None
    detail: str | None = None
