"""What the accepted packets of one batch say of their senders, before it is merged into the status rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from stormjay.ground import timestamps
from stormjay.weather.journal_rows import received_text
from stormjay.weather.journal_status import Link, Observation, observe
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.records import BATTERY_PLACE, Body, ParsedEvent, WeatherReading


class Reading(NamedTuple):
    """A reading that goes the fast way, and its place in the batch."""

    place: int
    packet: MeshPacket
    event: ParsedEvent
    body: WeatherReading


Said = dict[str, list[Observation]]
"""What the accepted packets of a batch say, by sender."""


def note(said: Said, packet: MeshPacket, event: ParsedEvent | None) -> None:
    """Note what an accepted packet says; one from nobody known says nothing of anybody."""
    if packet.source_node_id is not None and event is not None and event.body is not None:
        said.setdefault(packet.source_node_id, []).append(observation_of(packet, event, event.body))


def note_readings(readings: Iterable[Reading], said: Said) -> None:
    """Note what can win a column of the status; of a hundred readings of one sender that is mostly one."""
    by_node: dict[str, list[tuple[tuple[int, datetime], Reading]]] = {}
    for reading in readings:
        key = (reading.body.epoch_us, reading.packet.received_at)
        by_node.setdefault(reading.packet.source_node_id or "", []).append((key, reading))
    for keyed in by_node.values():
        keyed.sort(key=lambda item: item[0], reverse=True)
        _, last_heard = max(keyed, key=lambda item: item[0][1])
        note(said, last_heard.packet, last_heard.event)
        wanted = {pick for pick in _MAY_BE_NULL if any(pick(reading) is not None for _, reading in keyed)}
        before = keyed[0][0]
        for key, reading in keyed:
            if not wanted and key != before:
                break
            note(said, reading.packet, reading.event)
            wanted -= {pick for pick in wanted if pick(reading) is not None}
            before = key


_MAY_BE_NULL: tuple[Callable[[Reading], object], ...] = (
    lambda reading: reading.packet.source_name,
    lambda reading: reading.packet.snr_db,
    lambda reading: reading.packet.rssi_dbm,
    lambda reading: reading.packet.hops_away,
    lambda reading: reading.body.values[BATTERY_PLACE],
)


def observation_of(packet: MeshPacket, event: ParsedEvent, body: Body) -> Observation:
    """Return what an accepted packet says of its sender."""
    return observe(
        body,
        source_name=event.source_name,
        link=Link(packet.snr_db, packet.rssi_dbm, packet.hops_away),
        received_us=timestamps.from_datetime(packet.received_at),
        received_at_utc=received_text(packet.received_at),
    )
