"""One packet as it came and what became of it, and the newest packets of a station.

Everything here may hold what a stranger on the mesh wrote; whoever shows it must escape it.
"""

# ruff: noqa: S608 - names and numbers in the SQL are constants of ours; what callers say is bound

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stormjay.errors import NotFound
from stormjay.ground.timestamps import format_us, to_epoch_us
from stormjay.weather.fields import BY_COLUMN, FIELDS
from stormjay.weather.views_rows import OWN, REACH_US, utc_text
from stormjay.weather.views_strip import STATES, Target, covered_cells, queue_state

TABLES = {
    "reading": "weather_readings",
    "event": "weather_events",
    "telemetry": "device_telemetry_events",
    "health": "device_health_events",
    "native": "native_telemetry",
    "ledger": "ingest_events",
}
_TITLES = {
    "reading": "Weather reading",
    "event": "Weather event",
    "telemetry": "Telemetry",
    "health": "Heartbeat of the bridge",
    "native": "Telemetry of the radio node",
    "ledger": "Ledger entry",
}
_LINK = ("snr_db", "rssi_dbm", "hops_away", "packet_id", "channel", "gateway_id")
_HIDDEN = frozenset({
    *_LINK, "id", "source_node_id", "source_name", "msg_id", "source_ts_utc", "received_at_utc", "raw_payload",
    "payload_hash", "payload_hex", "created_at_utc", "dedupe_key", "source_ts_canonical", "source_double_of",
    "packet_type", "reason", "replayed_at_utc", "metrics_json", "weather_timestamp",
})  # fmt: skip
_ID_MAX = 2**63 - 1
_MINUTE_US = 60_000_000


class PacketField(msgspec.Struct, frozen=True, kw_only=True):
    """One value that the parser found."""

    name: str
    label: str
    value: str | int | float
    unit: str


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a reading has come towards one destination.

    Attributes:
        destination: Its name.
        state: captured, waiting, delivered, refused.
        status: The queue row's own word, or None without a row.
        attempts: Failed attempts.
        next_attempt_utc, last_attempt_utc, delivered_at_utc: Times, or None.
        last_error: What the far side or the network said last.
    """

    destination: str
    state: str
    status: str | None
    attempts: int
    next_attempt_utc: str | None
    last_attempt_utc: str | None
    delivered_at_utc: str | None
    last_error: str | None


class PacketView(msgspec.Struct, frozen=True, kw_only=True):
    """One packet.

    Attributes:
        kind, id: Which.
        title: What it is.
        station, source_name: The sender; None when unknown.
        msg_id: Its number, or None.
        received_at_utc: When it was captured.
        source_ts_utc: Its own time as it spelled it.
        source_ts_canonical: The same in the one output form.
        packet_type, reason: Of a ledger entry: what the parser made of it, and why it was not taken.
        replayed_at_utc: When a replay stored it after all.
        raw_payload: The text as it came. Hostile input.
        raw_hex: The bytes where the text is not the whole truth of them.
        fields: What the parser found.
        link: How it came: snr_db, rssi_dbm, hops_away, packet_id, channel, gateway_id; only what is known.
        deliveries: One per destination; empty for what is not delivered.
    """

    kind: str
    id: int
    title: str
    station: str | None
    source_name: str | None
    msg_id: int | None
    received_at_utc: str | None
    source_ts_utc: str | None
    source_ts_canonical: str | None
    packet_type: str | None
    reason: str | None
    replayed_at_utc: str | None
    raw_payload: str
    raw_hex: str | None
    fields: list[PacketField]
    link: dict[str, str | int | float]
    deliveries: list[DeliveryView]


def packet(connection: sqlite3.Connection, kind: str, number: int, targets: Sequence[Target]) -> PacketView:
    """Return one packet.

    Raises:
        NotFound: No such kind, or no row of that id.
    """
    table = TABLES.get(kind)
    row = None
    if table is not None and 0 < number <= _ID_MAX:
        row = connection.execute(f"SELECT * FROM {table} WHERE id = ?", (number,)).fetchone()
    if row is None:
        raise NotFound("unknown_packet", f"there is no {kind[:20]} packet {number}")
    known: dict[str, Any] = dict(row)
    return PacketView(
        kind=kind,
        id=number,
        title=_title(kind, known),
        station=known["source_node_id"],
        source_name=known["source_name"],
        msg_id=known.get("msg_id"),
        received_at_utc=utc_text(known["received_at_utc"]),
        source_ts_utc=known.get("source_ts_utc"),
        source_ts_canonical=known.get("source_ts_canonical"),
        packet_type=known.get("packet_type"),
        reason=known.get("reason"),
        replayed_at_utc=utc_text(known.get("replayed_at_utc")),
        raw_payload=known.get("raw_payload") or known.get("metrics_json") or "",
        raw_hex=known.get("payload_hex"),
        fields=_fields(known),
        link={name: known[name] for name in _LINK if known.get(name) is not None},
        deliveries=[_delivery(connection, target, number) for target in targets] if kind == "reading" else [],
    )


def _title(kind: str, known: Mapping[str, Any]) -> str:
    detail = known.get("telemetry_type") or known.get("event_type") or known.get("telemetry_kind")
    words = {
        "evt_precip": "Rain began",
        "evt_strike": "Lightning strike",
        "device_status": "Status of the sensor",
        "hub_status": "Status of the hub",
    }
    return words.get(detail or "", _TITLES[kind])


def _fields(known: Mapping[str, Any]) -> list[PacketField]:
    ordered = [field.column for field in FIELDS if field.column in known]
    ordered += [name for name in known if name not in BY_COLUMN and name not in _HIDDEN]
    found: list[PacketField] = []
    for name in ordered:
        if known[name] is None:
            continue
        field = BY_COLUMN.get(name)
        label = field.label if field else name.replace("_", " ").capitalize()
        unit = field.unit if field and field.unit != label else ""
        found.append(PacketField(name=name, label=label, value=known[name], unit=unit))
    return found


def _delivery(connection: sqlite3.Connection, target: Target, reading_id: int) -> DeliveryView:
    row = connection.execute(
        "SELECT status, attempt_count, next_attempt_at_utc, last_attempt_at_utc, delivered_at_utc, last_error"
        f" FROM {target.table} WHERE reading_id = ?",
        (reading_id,),
    ).fetchone()
    status, attempts = (None, 0) if row is None else (row[0], row[1])
    return DeliveryView(
        destination=target.name,
        state=STATES[queue_state(status, attempts)],
        status=status,
        attempts=attempts,
        next_attempt_utc=utc_text(row["next_attempt_at_utc"]) if row and status in {"pending", "retry"} else None,
        last_attempt_utc=utc_text(row["last_attempt_at_utc"]) if row else None,
        delivered_at_utc=utc_text(row["delivered_at_utc"]) if row else None,
        last_error=row["last_error"] if row else None,
    )


class PacketLine(msgspec.Struct, frozen=True, kw_only=True):
    """A packet in a list.

    Attributes:
        kind, id: Open it with these.
        title: What it is.
        received_at_utc: When it was captured.
        state: Towards the first destination for readings; ``refused``, ``kept`` or a duplicate's word otherwise.
        reason: Why it was not taken, or None.
        summary: Its values in short, or the beginning of the raw text. Hostile input.
    """

    kind: str
    id: int
    title: str
    received_at_utc: str
    state: str
    reason: str | None
    summary: str


_LINES = {
    "reading": "source_ts_canonical, temp_c, humidity_pct, wind_ms, rain_mm, received_at_utc, id, raw_payload",
    "event": "event_type, received_at_utc, id, raw_payload",
    "telemetry": "telemetry_type, received_at_utc, id, raw_payload",
    "health": "received_at_utc, id, raw_payload",
    "native": "telemetry_kind, received_at_utc, id, metrics_json AS raw_payload",
    "ledger": "packet_type, reason, received_at_utc, id, raw_payload",
}
_SUMMARY_MAX = 120


def recent(
    connection: sqlite3.Connection, station: str, targets: Sequence[Target], now_us: int, limit: int = 20
) -> list[PacketLine]:
    """Return the newest packets of the last two days, the newest first; those of one moment by kind and row."""
    since = format_us(now_us - 172_800_000_000)[:26]
    found: list[tuple[str, str, int, sqlite3.Row]] = []
    for kind, table in TABLES.items():
        rows = connection.execute(
            f"SELECT {_LINES[kind]} FROM {table} WHERE source_node_id = ? AND received_at_utc > ?"
            " ORDER BY received_at_utc DESC, id DESC LIMIT ?",
            (station, since, limit),
        )
        found += [(row["received_at_utc"], kind, row["id"], row) for row in rows]
    found.sort(key=lambda each: each[:3], reverse=True)
    return [_line(connection, kind, row, targets) for _, kind, _, row in found[:limit]]


def _line(connection: sqlite3.Connection, kind: str, row: sqlite3.Row, targets: Sequence[Target]) -> PacketLine:
    known = dict(row)
    state, summary = "kept", str(known["raw_payload"] or "")[:_SUMMARY_MAX]
    if kind == "reading":
        state = _delivery(connection, targets[0], known["id"]).state if targets else "captured"
        summary = (
            f"{known['temp_c']:.1f} °C, {known['humidity_pct']:.0f} %, {known['wind_ms']:.1f} m/s"
            + (f", {known['rain_mm']:g} mm" if known["rain_mm"] else "")
        )  # fmt: skip
    elif kind == "ledger":
        refused = known["packet_type"] in {"invalid", "rejected", "unknown"}
        state = "refused" if refused else (known["reason"] or "duplicate")
    return PacketLine(
        kind=kind,
        id=known["id"],
        title=_title(kind, known),
        received_at_utc=utc_text(known["received_at_utc"]) or "",
        state=state,
        reason=known.get("reason"),
        summary=summary,
    )


def at_minute(
    connection: sqlite3.Connection, station: str, targets: Sequence[Target], start_us: int, cell_seconds: int
) -> list[PacketLine]:
    """Return the packets behind one cell of the strip: readings that cover it, and ledger entries received in it."""
    end_us = start_us + cell_seconds * 1_000_000
    rows = connection.execute(
        f"SELECT {_LINES['reading']}, report_interval_min FROM weather_readings WHERE {OWN}"
        " AND source_ts_canonical > ? AND source_ts_canonical <= ? ORDER BY source_ts_canonical",
        (station, format_us(start_us), format_us(end_us + REACH_US)),
    ).fetchall()
    lines: list[PacketLine] = []
    for row in rows:
        offset_us = to_epoch_us(row["source_ts_canonical"]) - start_us
        first, last = covered_cells(offset_us, row["report_interval_min"], cell_seconds * 1_000_000)
        if first <= 0 <= last:
            lines.append(_line(connection, "reading", row, targets))
    ledger = connection.execute(
        f"SELECT {_LINES['ledger']} FROM ingest_events WHERE source_node_id = ? AND received_at_utc > ?"
        " AND received_at_utc <= ? ORDER BY received_at_utc, id LIMIT 20",
        (station, format_us(start_us)[:26], format_us(end_us)[:26]),
    ).fetchall()
    return lines + [_line(connection, "ledger", row, targets) for row in ledger]
