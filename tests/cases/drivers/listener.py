"""Stage ``listener``: packets from a scripted radio go through the real listener into a real journal file.

Takes the case's own packets, or the texts that the bridge left in ``context["texts"]``. What is judged is read back
from the file: rows, queue, ledger, status, and the body that would be sent for a reading.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from structlog.testing import capture_logs

from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcement, Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.delivery_body import load_payloads
from stormjay.weather.fields import BY_CLOUD
from stormjay.weather.journal import Journal
from stormjay.weather.listener import Listener, ListenerSettings
from stormjay.weather.radio.port import TELEMETRY_APP, TEXT_MESSAGE_APP, MeshPacket
from tests.cases.judging import CannotDrive, Verdict, compare, joined, judge_by, matches

DEFAULT_NODE = "!b05f00d1"
DEFAULT_RECEIVED = "2026-03-18T09:00:05Z"
FOR_PEOPLE = ("stage", "note", "because", "then", "ends")
SETTINGS = ("allowed_nodes", "allowed_channels")
PACKET_KEYS = {
    "id": "packet_id",
    "channel": "channel",
    "rx_time": "rx_time",
    "rx_snr": "snr_db",
    "rx_rssi": "rssi_dbm",
} | {name: name for name in ("hop_start", "hop_limit", "source_name", "telemetry")}
PLACES = {"first": 0, "second": 1, "third": 2, "last": -1}
TABLES = {
    "weather_rows": "weather_readings",
    "outbox_rows": "aws_delivery_queue",
    "ingest_event_rows": "ingest_events",
    "ledger_rows": "ingest_events",
    "health_rows": "device_health_events",
    "weather_event_rows": "weather_events",
    "telemetry_rows": "device_telemetry_events",
    "status_rows": "device_status_current",
    "native_telemetry_rows": "native_telemetry",
}
ANSWER_SECONDS = 30.0


class _Script:
    """A radio that is heard once and then falls silent."""

    name = "scripted"

    def __init__(self, packets: list[MeshPacket]) -> None:
        self._packets = packets

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[_Script]:
        yield self

    async def packets(self) -> AsyncIterator[MeshPacket]:
        for packet in self._packets:
            yield packet
        await asyncio.Event().wait()

    async def send_text(self, payload: bytes) -> None:
        raise AssertionError(payload)


def drive(given: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Let the listener hear the case's packets and return everything that is in the journal afterwards."""
    own = ("received_at_utc", "packets", "payload_texts", "payload_text", *SETTINGS, *FOR_PEOPLE)
    unknown = [key for key in given if key not in own]
    if unknown and given.get("stage") == "listener":
        raise CannotDrive(unknown[0])
    settings = ListenerSettings(
        batch_max=1,  # so that outcomes come in the order of the packets
        allowed_nodes=frozenset(given.get("allowed_nodes", ())),
        allowed_channels=frozenset(given.get("allowed_channels", ())),
    )
    packets = _packets(given, context)
    with tempfile.TemporaryDirectory() as folder, capture_logs():
        return asyncio.run(_heard(packets, settings, Path(folder)))


def _packets(given: dict[str, Any], context: dict[str, Any]) -> list[MeshPacket]:
    descriptions: list[dict[str, Any]] = list(given.get("packets", []))
    texts = list(given.get("payload_texts", []))
    if "payload_text" in given:
        texts.append(given["payload_text"])
    if not descriptions and not texts:
        texts = list(context.get("texts", []))
    descriptions += [{"payload_text": text} for text in texts]
    received = _time(given.get("received_at_utc") or _soon_after(texts))
    return [_packet(description, received) for description in descriptions]


def _packet(description: dict[str, Any], received: datetime) -> MeshPacket:
    other = ("from", "portnum", "payload_hex", "payload_text", "received_at_utc", *FOR_PEOPLE)
    for key in description:
        if key not in PACKET_KEYS and key not in other:
            raise CannotDrive(f"packets.{key}")
    sender = description.get("from", DEFAULT_NODE)
    if "payload_hex" in description:
        payload = bytes.fromhex(description["payload_hex"])
    else:
        payload = str(description.get("payload_text", "")).encode()
    return MeshPacket(
        received_at=_time(description["received_at_utc"]) if "received_at_utc" in description else received,
        portnum=description.get("portnum", TEXT_MESSAGE_APP),
        payload=payload,
        source_node_id=f"!{sender:08x}" if isinstance(sender, int) else sender,
        **{name: description[key] for key, name in PACKET_KEYS.items() if key in description},
    )


def _time(text: str) -> datetime:
    return timestamps.to_datetime(timestamps.to_epoch_us(text))


def _soon_after(texts: list[str]) -> str:
    """Return a time of receipt for a case that names none: seconds after the newest source time in it."""
    found = []
    for text in texts:
        try:
            found.append(timestamps.to_epoch_us(json.loads(text)["ts"]))
        except (ValueError, KeyError, TypeError):
            continue
    newest = max(found, default=0)
    if newest < timestamps.PLAUSIBLE_FROM_US:
        return DEFAULT_RECEIVED
    return timestamps.format_us(newest + 3_000_000)


async def _heard(packets: list[MeshPacket], settings: ListenerSettings, folder: Path) -> dict[str, Any]:
    clock = ManualClock(max((packet.received_at for packet in packets), default=_time(DEFAULT_RECEIVED)))
    announcer, statistics = Announcer(), Statistics()
    journal = await Journal.open(folder / "weatherstation.db", clock=clock, statistics=statistics, announcer=announcer)
    listener = Listener(_Script(packets), journal, settings=settings, clock=clock, statistics=statistics)
    expected = sum(packet.portnum in (TEXT_MESSAGE_APP, TELEMETRY_APP) for packet in packets)
    outcomes: list[Announcement] = []
    try:
        async with announcer.listen() as announcements:
            running = asyncio.create_task(listener.run())
            async with asyncio.timeout(ANSWER_SECONDS):
                while len(outcomes) < expected:
                    outcomes.append(await announcements.get())
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return await _contents(journal, outcomes)
    finally:
        await journal.close()


def _all_of(table: str) -> Callable[[sqlite3.Connection], list[dict[str, Any]]]:
    return lambda connection: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]  # noqa: S608 - TABLES


async def _contents(journal: Journal, outcomes: list[Announcement]) -> dict[str, Any]:
    tables = {table: await journal.database.read(_all_of(table)) for table in set(TABLES.values())}
    ids = [row["id"] for row in tables["weather_readings"]]
    bodies = await journal.database.read(lambda connection: load_payloads(connection, ids))
    types = ["weather" if told.topic == "reading" else told.body["packet_type"] for told in outcomes]
    reasons = [told.body.get("reason") for told in outcomes]
    return {
        "types": types,
        "reasons": reasons,
        "tables": tables,
        "bodies": [msgspec.json.decode(bodies[row_id]) for row_id in ids],
    }


def judge(expect: dict[str, Any], actual: dict[str, Any]) -> list[Verdict]:
    """Judge what is in the journal; sections of other stages are unknown here."""
    tables, types = actual["tables"], actual["types"]
    readings, ledger = tables["weather_readings"], tables["ingest_events"]
    judges: dict[str, Callable[[Any], list[Verdict]]] = {
        "raises": lambda expected: _same("raises", expected, got=False),
        "packet_type": lambda expected: _same("packet_type", expected, got=types[-1] if types else None),
        "packet_types": lambda expected: _same("packet_types", expected, got=types),
        "packet_types_in": lambda expected: _that(
            "packet_types_in", expected, types, holds=bool(types) and set(types) <= set(expected)
        ),
        "none_is": lambda expected: _that("none_is", expected, types, holds=expected not in types),
        "reasons": lambda expected: _same("reasons", expected, got=actual["reasons"]),
        "reason": lambda expected: _same("reason", expected, got=actual["reasons"][-1] if types else None),
        "cloud_body": lambda expected: _body("cloud_body", expected, actual["bodies"]),
        "row": lambda expected: _row("row", expected, readings[-1] if readings else None),
        "status_row": lambda expected: _row("status_row", expected, next(iter(tables["device_status_current"]), None)),
    }
    for key, table in TABLES.items():
        judges[key] = _rows_judge(key, tables[table])
    for word, place in PLACES.items():
        judges[f"{word}_row"] = _one_judge(f"{word}_row", readings, place)
        judges[f"{word}_ledger_row"] = _one_judge(f"{word}_ledger_row", ledger, place)
    return judge_by(expect, judges)


def _same(key: str, expected: object, *, got: object) -> list[Verdict]:
    return [Verdict.of(key, holds=matches(expected, got), expected=expected, got=got)]


def _that(key: str, expected: object, got: object, *, holds: bool) -> list[Verdict]:
    return [Verdict.of(key, holds=holds, expected=expected, got=got)]


def _rows_judge(key: str, rows: list[dict[str, Any]]) -> Callable[[Any], list[Verdict]]:
    def judged(expected: object) -> list[Verdict]:
        if not isinstance(expected, list):
            return _same(key, expected, got=len(rows))
        if len(expected) != len(rows):
            return [Verdict.fail(key, expected, f"{len(rows)} rows")]
        verdicts: list[Verdict] = []
        for place, (one, row) in enumerate(zip(expected, rows, strict=True)):
            verdicts += _row(f"{key}[{place}]", one, row)
        return verdicts or [Verdict.ok(key)]

    return judged


def _one_judge(key: str, rows: list[dict[str, Any]], place: int) -> Callable[[Any], list[Verdict]]:
    return lambda expected: _row(key, expected, rows[place] if -len(rows) <= place < len(rows) else None)


def _row(key: str, expected: object, row: dict[str, Any] | None) -> list[Verdict]:
    """Judge one row: its columns, times as times, and what the ledger has to make possible."""
    if row is None or not isinstance(expected, dict):
        return _same(key, expected, got=row)
    verdicts: list[Verdict] = []
    for name, value in expected.items():
        path = joined(key, name)
        if name == "reason_is_set":
            verdicts += _same(path, value, got=bool(row.get("reason")))
        elif name == "original_bytes_recoverable_as_hex":
            held = row.get("payload_hex")
            verdicts += _same(path, value, got=row["raw_payload"].encode().hex() if held is None else held)
        elif name.endswith("_utc") and isinstance(value, str) and name in row:
            verdicts += _that(path, value, row[name], holds=_same_time(value, row[name]))
        elif name in BY_CLOUD and name not in row:
            verdicts += compare(path, value, row.get(BY_CLOUD[name].column))
        elif name in row:
            verdicts += compare(path, value, row[name])
        else:
            verdicts.append(Verdict.unknown(path))
    return verdicts


def _same_time(expected: str, got: object) -> bool:
    if expected == got:
        return True
    try:
        apart = timestamps.to_epoch_us(expected) - timestamps.to_epoch_us(got)
    except timestamps.TimestampError:
        return False
    return timedelta(microseconds=apart) == timedelta()


def _body(key: str, expected: object, bodies: list[dict[str, Any]]) -> list[Verdict]:
    if not isinstance(expected, dict):
        return [Verdict.unknown(key)]
    if not bodies:
        return [Verdict.fail(key, expected, "no body")]
    body = bodies[-1]
    verdicts: list[Verdict] = []
    for name, value in expected.items():
        path = joined(key, name)
        if name == "weather_keys_absent":
            there = [one for one in value if one in body["weather"]]
            verdicts += _that(path, value, there, holds=not there)
        elif name == "weather_keys_present":
            missing = [one for one in value if one not in body["weather"]]
            verdicts += _that(path, value, missing, holds=not missing)
        elif name == "keys_absent":
            there = [one for one in value if one in body]
            verdicts += _that(path, value, there, holds=not there)
        elif name in ("weather", "weather_values"):
            verdicts += compare(path, value, body["weather"], names=tuple(BY_CLOUD))
        else:
            verdicts += compare(path, value, body.get(name)) if name in body else [Verdict.unknown(path)]
    return verdicts
