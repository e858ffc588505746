"""The listener: what it lets in, how it batches, and that it comes back after every loss."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.unit.weather_packets import NODE, START, TS, observation, opened, packet, rows

from stormjay.errors import LinkLost
from stormjay.ground.clock import ManualClock
from stormjay.weather import listener as module
from stormjay.weather.journal import Journal
from stormjay.weather.journal_metrics import STORED
from stormjay.weather.listener import Listener, ListenerSettings
from stormjay.weather.radio.port import MeshPacket

pytestmark = pytest.mark.anyio

Act = MeshPacket | Exception | None
"""A packet is heard; an error ends the link; None is silence from there on."""


class ScriptedRadio:
    """A radio whose every link follows the next script; without one it cannot be reached."""

    name = "scripted"

    def __init__(self, *scripts: Sequence[Act]) -> None:
        self.scripts = list(scripts)
        self.connects = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ScriptedRadio]:
        self.connects += 1
        if not self.scripts:
            raise LinkLost("no such device")
        self.script = self.scripts.pop(0)
        yield self

    async def packets(self) -> AsyncIterator[MeshPacket]:
        for act in self.script:
            if isinstance(act, Exception):
                raise act
            if act is None:
                await asyncio.Event().wait()
            else:
                yield act

    async def send_text(self, payload: bytes) -> None:
        raise AssertionError(payload)


@asynccontextmanager
async def running(
    radio: ScriptedRadio, journal: Journal, clock: ManualClock, **settings: Any
) -> AsyncIterator[tuple[Listener, asyncio.Task[None]]]:
    listener = Listener(
        radio,
        journal,
        settings=ListenerSettings(**settings),
        clock=clock,
        statistics=journal._statistics,
        randomness=random.Random(7),  # noqa: S311 - jitter
    )
    task = asyncio.create_task(listener.run())
    try:
        yield listener, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(clock: ManualClock, holds: Callable[[], bool], seconds: float = 0.0) -> None:
    """Give the loop turns, and the clock seconds at each, until something holds."""
    async with asyncio.timeout(20):
        while not holds():
            await clock.advance(seconds)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def journal(data_dir: Path, clock: ManualClock) -> AsyncIterator[Journal]:
    made = await opened(data_dir / "weatherstation.db", clock)
    yield made
    await made.close()


def stored(journal: Journal) -> float:
    return journal._statistics.value(STORED, kind="weather")


async def test_a_bad_packet_ends_nothing_and_the_names_of_the_log_are_the_contracts(
    journal: Journal, clock: ManualClock
) -> None:
    radio = ScriptedRadio([packet(b"\xff"), packet(b""), packet(observation()), packet(observation(), 9), None])
    with capture_logs() as logs:
        async with running(radio, journal, clock) as (listener, _):
            await until(clock, lambda: len([one for one in logs if one["event"] == "weather_duplicate"]) == 1)
            assert listener.link.connected
            assert listener.link.last_packet_at is not None
    events = [one["event"] for one in logs if one["event"] != "packet_received"]
    assert events == [
        "service_start", "connecting", "connected", "packet_not_saved", "ingest_skipped", "weather_saved",
        "weather_duplicate", "service_stop",
    ]  # fmt: skip
    assert len(await rows(journal, "weather_readings")) == 1


async def test_it_connects_again_with_growing_waits_until_the_radio_is_back(
    journal: Journal, clock: ManualClock
) -> None:
    radio = ScriptedRadio([packet(observation()), LinkLost("pulled out")])
    async with running(radio, journal, clock, reconnect_delay_seconds=5, reconnect_delay_max_seconds=40) as (
        listener,
        _,
    ):
        await until(clock, lambda: radio.connects == 5, 1.0)
        assert clock.monotonic() > 5 + 10 + 20 * 0.8 - 10
        assert (listener.link.connected, listener.link.last_error) == (False, "no such device")
        radio.scripts.append([packet(observation(ts=TS + 60), 60), None])
        await until(clock, lambda: stored(journal) == 2, 5.0)
        assert (listener.link.connected, listener.link.radio) == (True, "scripted")
    assert journal._statistics.value(module.CONNECTS) == 2


async def test_b25_only_allowed_senders_and_channels_get_in(journal: Journal, clock: ManualClock) -> None:
    spoof = "!0badcafe"
    radio = ScriptedRadio(
        [
            packet(observation(), source_node_id=spoof),
            packet(observation(), source_node_id=None),
            packet(observation(), channel=3),
            packet(b"", portnum="TELEMETRY_APP", telemetry={"battery_level": 1}, source_node_id=spoof),
            packet(b"", portnum="POSITION_APP", source_node_id=spoof),
            packet(observation(), channel=None),
            None,
        ]
    )
    allowed = {"allowed_nodes": frozenset({NODE}), "allowed_channels": frozenset({0})}
    async with running(radio, journal, clock, **allowed):
        await until(clock, lambda: stored(journal) == 1)
    reasons = [(row["packet_type"], row["reason"]) for row in await rows(journal, "ingest_events")]
    assert sorted(reasons) == [
        ("rejected", "channel_not_allowed"), ("rejected", "sender_not_allowed"), ("rejected", "sender_not_allowed"),
    ]  # fmt: skip
    assert await rows(journal, "native_telemetry") == []


async def test_what_waits_is_stored_together_and_a_full_queue_makes_the_radio_wait(
    journal: Journal, clock: ManualClock
) -> None:
    many = [packet(observation(ts=TS + n), n) for n in range(50)]
    before = journal.database.commits
    async with running(ScriptedRadio([*many, None]), journal, clock, waiting_max=20):
        await until(clock, lambda: stored(journal) == 50)
    assert journal.database.commits - before <= 6


async def test_what_was_heard_is_stored_before_it_ends(journal: Journal, clock: ManualClock) -> None:
    many = [packet(observation(ts=TS + n), n) for n in range(5)]
    async with running(ScriptedRadio([*many, None]), journal, clock) as (listener, task):
        await until(clock, lambda: listener.link.last_packet_at == many[-1].received_at)
        task.cancel()
    assert len(await rows(journal, "weather_readings")) == 5


async def test_the_heartbeat_comes_from_the_storing_loop_also_in_silence(journal: Journal, clock: ManualClock) -> None:
    beats: list[float] = []
    listener = Listener(
        ScriptedRadio([None]),
        journal,
        settings=ListenerSettings(idle_seconds=5),
        clock=clock,
        statistics=journal._statistics,
        heartbeat=lambda: beats.append(clock.monotonic()),
    )
    task = asyncio.create_task(listener.run())
    await clock.advance(21)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert beats == [0.0, 5.0, 10.0, 15.0, 20.0]


async def test_a_fault_in_an_adapter_is_not_swallowed(journal: Journal, clock: ManualClock) -> None:
    async with running(ScriptedRadio([ZeroDivisionError("bug")]), journal, clock) as (_, task):
        await until(clock, task.done)
        with pytest.raises(ZeroDivisionError):
            task.result()
