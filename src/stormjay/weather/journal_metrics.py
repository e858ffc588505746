"""What the journal counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stormjay.ground.stats.port import Metric, Statistics
from stormjay.weather.parser_values import SOURCE_TIME_IMPLAUSIBLE
from stormjay.weather.radio.port import TELEMETRY_APP, TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.records import Captured

TABLE_KINDS = frozenset({"weather", "weather_event", "telemetry", "health", "native_telemetry"})

RECEIVED = Metric("weather_packets_received", "counter", "Packets handed to the journal", ("port",), label="Packets")
STORED = Metric("weather_packets_stored", "counter", "Packets stored as a new record", ("kind",), label="Records")
REPEATED = Metric(
    "weather_packets_repeated",
    "counter",
    "Packets whose record was there already, with the same values (duplicate) or with others (conflict)",
    ("reason",),
    label="Repeats",
)
REFUSED = Metric(
    "weather_packets_refused", "counter", "Packets in the ledger, by what was wrong", ("reason",), label="Refused"
)
SPOOLED = Metric("weather_packets_spooled", "counter", "Packets kept outside the database", label="Spooled")
LOST = Metric("weather_packets_lost", "counter", "Packets that no place could keep", label="Lost")
REPLAYED = Metric("weather_packets_replayed", "counter", "Packets stored after waiting outside", label="Replayed")
SPOOL_BYTES = Metric(
    "weather_spool_bytes", "gauge", "Size of the spool", device_class="data_size", unit="B", label="Spool"
)
HELD = Metric("weather_held_packets", "gauge", "Packets that wait in memory for a place on disk", label="Held")
DATABASE_BYTES = Metric(
    "weather_database_bytes", "gauge", "Size of the journal", device_class="data_size", unit="B", label="Journal size"
)
STATIONS = Metric("weather_stations", "gauge", "Senders by state", ("state",), label="Stations")

_ALL = (
    *(RECEIVED, STORED, REPEATED, REFUSED, SPOOLED, LOST, REPLAYED),
    *(SPOOL_BYTES, HELD, DATABASE_BYTES, STATIONS),
)
_BY_ITSELF = frozenset(
    {
        *("malformed_json", "json_not_object", "not_utf8", "payload_too_large", "unrecognized_payload_shape"),
        *(SOURCE_TIME_IMPLAUSIBLE, "sender_unknown", "sender_not_allowed", "channel_not_allowed"),
    }
)


def declare(statistics: Statistics) -> None:
    """Make the metrics known."""
    statistics.declare(*_ALL)


def reason_class(reason: str | None) -> str:
    """Return the few words that reasons of the ledger fall under, so that a label has few values."""
    if reason in _BY_ITSELF:
        return reason or "other"
    text = reason or ""
    if text.endswith("_out_of_range"):
        return "out_of_range"
    if "missing" in text or text.startswith("'"):
        return "missing_value"
    if text.startswith("storage_error"):
        return "storage_error"
    return "wrong_type" if text else "other"


def count(statistics: Statistics, packets: Iterable[MeshPacket], results: Sequence[Captured]) -> None:
    """Count packets and what became of them, one addition per kind and batch."""
    for portnum, amount in Counter([packet.portnum for packet in packets]).items():
        statistics.add(RECEIVED, amount, port=_PORTS.get(portnum, "other"))
    outcomes = Counter([(result.kind, result.duplicate, result.reason) for result in results])
    for (kind, duplicate, reason), amount in outcomes.items():
        if kind in TABLE_KINDS and duplicate:
            statistics.add(REPEATED, amount, reason=reason or "duplicate")
        elif kind in TABLE_KINDS:
            statistics.add(STORED, amount, kind=kind)
        elif kind == "spooled":
            statistics.add(SPOOLED, amount)
        elif kind == "lost":
            statistics.add(LOST, amount)
        elif kind != "ignored":
            statistics.add(REFUSED, amount, reason=reason_class(reason))


_PORTS = {TEXT_MESSAGE_APP: "text", TELEMETRY_APP: "telemetry"}
