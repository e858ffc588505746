"""Packet to committed rows, synchronous=FULL: our journal against the seed's connection and commit per packet."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import msgspec

from benchmarks import seed_listener
from benchmarks.table import Row
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import SystemClock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.journal import Journal
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket

ROUNDS = 5
SENDERS = 4
START = datetime(2026, 3, 18, tzinfo=UTC)
SIZES = ((1, 400, 4.0), (100, 5_000, 40.0), (1_000, 20_000, 60.0))
"""How many wait together, packets per round, target ratio."""
PEER_PACKETS = 200
VALUES = {
    "et": "obs_st", "i": 0, "ts": 0, "t": 22.5, "h": 52.0, "p": 1011.4, "w": 3.4, "g": 5.2, "l": 1.1, "d": 230, "ws": 6,
    "r": 0.0, "uv": 4.2, "sr": 430.0, "lux": 52000.0, "bat": 2.61, "ld": 0.0, "lc": 0, "pt": 0, "ri": 1,
}  # fmt: skip


def packets(count: int) -> list[MeshPacket]:
    """Return readings of a few stations, one a minute each."""
    made = []
    for number in range(count):
        minute, sender = divmod(number, SENDERS)
        moment = START + timedelta(minutes=minute, seconds=sender)
        values = VALUES | {"i": minute + 1, "ts": int(moment.timestamp()), "t": 20 + number % 70 / 10}
        made.append(
            MeshPacket(
                received_at=moment + timedelta(seconds=3, microseconds=number),
                portnum=TEXT_MESSAGE_APP,
                payload=msgspec.json.encode(values),
                source_node_id=f"!{sender + 0x5C32D4D9:08x}",
                source_name=f"garden {sender}",
                packet_id=number + 1,
                channel=0,
                snr_db=6.25,
                rssi_dbm=-91,
                hop_start=3,
                hop_limit=3,
            )
        )
    return made


async def _ours(folder: Path, heard: Sequence[MeshPacket], together: int) -> float:
    journal = await Journal.open(
        folder / "ours.db", clock=SystemClock(), statistics=Statistics(), announcer=Announcer()
    )
    started = time.perf_counter()
    for start in range(0, len(heard), together):
        await journal.capture_many(heard[start : start + together])
    seconds = time.perf_counter() - started
    stored = await journal.database.read(lambda c: c.execute("SELECT count(*) FROM aws_delivery_queue").fetchone()[0])
    assert stored == len(heard)
    await journal.close()
    return len(heard) / seconds


def _theirs(folder: Path, heard: Sequence[MeshPacket]) -> float:
    path = folder / "theirs.db"
    seed_listener.make(path)
    started = time.perf_counter()
    for packet in heard:
        event = seed_listener.parse(
            packet.payload.decode(), packet.source_node_id or "", packet.source_name, packet.received_at.isoformat()
        )
        seed_listener.store(path, event)
    return len(heard) / (time.perf_counter() - started)


def run() -> list[Row]:
    """Measure all in turns, each round in fresh files, and return the rows."""
    heard = packets(max(size for _, size, _ in SIZES))
    theirs: list[float] = []
    ours: dict[int, list[float]] = {together: [] for together, _, _ in SIZES}
    for _ in range(ROUNDS):
        for together, size, _ in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                theirs.append(_theirs(Path(folder), heard[:PEER_PACKETS]))
                ours[together].append(asyncio.run(_ours(Path(folder), heard[:size], together)))
    return [
        Row(
            f"packets to committed rows, {together} waiting",
            median(ours[together]),
            "a connection and a commit per packet",
            median(theirs),
            "packets/s",
            target,
        )
        for together, _, target in SIZES
    ]
