"""The weather verbs on a real journal: what they show, what they refuse, and what they change."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from stormjay.errors import BadRequest, LinkLost, NotFound
from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock, SystemClock, seeded_random
from stormjay.ground.stats import Statistics
from stormjay.weather import commands, commands_write
from stormjay.weather.hub import HubSettings
from stormjay.weather.journal import Journal, JournalSettings
from stormjay.weather.journal_status import Thresholds
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.views import Site

pytestmark = pytest.mark.anyio
NODE = "!5c32d4d9"
START = datetime(2026, 8, 6, 7, 6, 40, tzinfo=UTC)
NOW_US = timestamps.from_datetime(START + timedelta(minutes=10))
SITES = {NODE: Site(name="Garden", elevation_m=412.0, time_zone="Europe/Zurich")}


def text(number: int, **values: object) -> bytes:
    reading = {
        "et": "obs_st", "i": number, "ts": int(START.timestamp()) + 60 * number, "t": 20.0 + number, "h": 50, "p": 960,
        "w": 1, "d": 90, "r": 0, "ri": 1, **values,
    }  # fmt: skip
    return json.dumps(reading).encode()


@asynccontextmanager
async def journal(folder: Path, **ranges: tuple[float, float]) -> AsyncIterator[tuple[Journal, ManualClock]]:
    clock = ManualClock(START + timedelta(minutes=10))
    made = await Journal.open(
        folder / "w.db",
        clock=clock,
        settings=JournalSettings(ranges=ranges),
        statistics=Statistics(),
        announcer=Announcer(),
    )
    try:
        yield made, clock
    finally:
        await made.close()


async def take(made: Journal, clock: ManualClock, *texts: bytes, node: str = NODE) -> list[dict[str, Any]]:
    return [await commands_write.ingest_text(made, each, clock=clock, source_node_id=node) for each in texts]


async def test_ingest_text_says_what_became_of_each(tmp_path: Path) -> None:
    async with journal(tmp_path) as (made, clock):
        results = await take(made, clock, text(1), text(1), b'{"sys":"dbg","i":2,"up":5}', b"hello")
        assert [result["kind"] for result in results] == ["weather", "weather", "health", "invalid"]
        assert [result["duplicate"] for result in results] == [False, True, False, False]
        assert results[3]["reason"] == "malformed_json"
        with pytest.raises(BadRequest):
            await take(made, clock, text(1), node="5c32d4d9")


async def test_latest_history_and_show(tmp_path: Path) -> None:
    async with journal(tmp_path) as (made, clock):
        await take(made, clock, *(text(number) for number in range(1, 8)), b'{"sys":"dbg","i":9,"up":5}')
        latest = await commands.latest(made.database, now_us=NOW_US, sites=SITES, thresholds=Thresholds())
        assert latest["station"]["name"] == "Garden"
        assert latest["reading"]["values"]["air_temp_c"] == 27.0
        assert latest["condition"]["state"] == "online"
        rows = await commands.history(made.database, now_us=NOW_US, sites=SITES, limit=3)
        assert [row["msg_id"] for row in rows] == [5, 6, 7]
        rows = await commands.history(
            made.database,
            now_us=NOW_US,
            sites=SITES,
            since=str(int(START.timestamp()) + 60),
            until="2026-08-06T07:08:40Z",
        )
        assert [row["msg_id"] for row in rows] == [1, 2]
        assert [row["msg_id"] for row in await commands.show(made.database, "latest")] == [7, 6, 5, 4, 3]
        assert [row["status"] for row in await commands.show(made.database, "health")] == ["dbg"]
        assert {row["status"] for row in await commands.show(made.database, "queue")} == {"pending"}


async def test_what_is_asked_wrongly_is_the_callers_mistake(tmp_path: Path) -> None:
    async with journal(tmp_path) as (made, clock):
        with pytest.raises(NotFound):
            await commands.latest(made.database, now_us=NOW_US, sites={}, thresholds=Thresholds())
        await take(made, clock, text(1))
        with pytest.raises(NotFound):
            await commands.latest(made.database, now_us=NOW_US, sites={}, thresholds=Thresholds(), station="!00000001")
        for wrong in ({"since": "yesterday"}, {"since": "2026-08-07T00:00:00Z"}, {"limit": 0}, {"limit": 10**9}):
            with pytest.raises(BadRequest):
                await commands.history(made.database, now_us=NOW_US, sites=SITES, **wrong)
        with pytest.raises(NotFound):
            await commands.show(made.database, "queue", queue="weather_readings")


async def test_the_ledger_is_filtered_and_paged(tmp_path: Path) -> None:
    async with journal(tmp_path) as (made, clock):
        await take(made, clock, b"one", text(1, t=99), text(2, p=700), b"[]")
        rows = await commands.ledger(made.database)
        assert [row["reason"] for row in rows] == [
            "json_not_object",
            "pressure_out_of_range",
            "temp_out_of_range",
            "malformed_json",
        ]
        assert len(await commands.ledger(made.database, packet_type="rejected", station=NODE)) == 2
        assert [row["msg_id"] for row in await commands.ledger(made.database, reason="temp_out_of_range")] == [1]
        assert [row["raw_payload"] for row in await commands.ledger(made.database, before_id=rows[2]["id"])] == ["one"]


class OneLink:
    """A radio whose first link breaks after one packet; the second brings another."""

    name = "fake:radio"

    def __init__(self) -> None:
        self.links = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[OneLink]:
        self.links += 1
        yield self

    async def packets(self) -> AsyncIterator[MeshPacket]:
        yield MeshPacket(received_at=START, portnum="TEXT_MESSAGE_APP", payload=b"\xffhi", source_node_id=NODE)
        raise LinkLost("pulled out", next_step="push it in")

    async def send_text(self, payload: bytes) -> None:
        raise AssertionError(payload)


async def test_listen_prints_packets_and_connects_again() -> None:
    clock = ManualClock(START)
    told: list[dict[str, Any]] = []
    heard: list[int] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def work() -> None:
                heard.append(await commands_write.listen(OneLink(), told.append, clock=clock, packets_max=2))

            group.start_soon(work)
            while not heard:
                await clock.advance(5)
    assert heard == [2]
    assert [line["event"] for line in told] == [
        "connecting", "connected", "packet_received", "connect_error", "reconnect_scheduled",
        "connecting", "connected", "packet_received",
    ]  # fmt: skip
    assert told[2]["payload"] == "�hi"
    assert told[3]["next_step"] == "push it in"


async def test_simulate_hub_sends_real_datagrams(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        ear.settimeout(5)
        settings = HubSettings(port=ear.getsockname()[1], repeats=1)
        clock = ManualClock(START)
        sent: list[int] = []

        async def work() -> None:
            sent.append(
                await commands_write.simulate_hub(settings, clock=clock, randomness=seeded_random(1), seconds=61)
            )

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(work)
                while not sent:
                    await clock.advance(1)
        kinds = {json.loads(ear.recv(4096))["type"] for _ in range(sent[0])}
        assert {"obs_st", "hub_status", "device_status", "rapid_wind"} <= kinds
        recording = tmp_path / "day.jsonl"
        recording.write_text('{"type":"evt_precip","serial_number":"ST-1","evt":[1786000095]}\n')
        assert (
            await commands_write.simulate_hub(
                settings, clock=SystemClock(), randomness=seeded_random(1), recording=recording
            )
            == 1
        )
        assert json.loads(ear.recv(4096))["evt"][0] >= 1786000095 - 86_400
