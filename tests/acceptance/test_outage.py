"""The far side is down for a week of simulated time; then everything arrives, once, and nothing was dead-lettered."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from tests.servers import cloud as far_side
from tests.unit.weather_packets import START

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.outbox.report import ATTEMPTS
from stormjay.ground.stats.port import Statistics
from stormjay.ground.timestamps import format_utc
from stormjay.ground.web.app import WebSettings
from stormjay.ground.web.server import bind, serve
from stormjay.weather.delivery import Delivery
from stormjay.weather.delivery_http import DeliverySettings
from stormjay.weather.journal import Journal
from stormjay.weather.journal_schema import FIRST_QUEUE
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]
HOURS, PER_HOUR = 7 * 24, 60
TEXT = b'{"et":"obs_st","i":%d,"ts":%d,"t":6.2,"h":71,"p":1008.4,"w":2.1,"d":190,"r":0.1,"ri":1}'


def heard(clock: ManualClock, number: int) -> MeshPacket:
    at = START + timedelta(minutes=number)
    text = TEXT % (number, int(at.timestamp()))
    return MeshPacket(received_at=clock.now(), portnum=TEXT_MESSAGE_APP, payload=text, source_node_id=far_side.STATION)


def observation_keys(connection: sqlite3.Connection) -> list[str]:
    sql = "SELECT sk FROM WeatherObservations WHERE sk LIKE 'OBS#%' ORDER BY sk"
    return [row[0] for row in connection.execute(sql)]


def statuses(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT status, count(*) FROM aws_delivery_queue GROUP BY status").fetchall())


@pytest.mark.anyio
async def test_after_a_week_without_the_far_side_everything_arrives_once(tmp_path: Path) -> None:
    clock = ManualClock(START)
    statistics, announcer = Statistics(), Announcer()
    with bind("127.0.0.1", 0) as probe:
        port = probe.getsockname()[1]
    journal = await Journal.open(
        tmp_path / "weatherstation.db", clock=clock, statistics=statistics, announcer=announcer
    )
    settings = DeliverySettings(
        api_url=f"http://127.0.0.1:{port}", api_key=far_side.SECRET, poll_seconds=60, heartbeat_seconds=60
    )
    delivery = await Delivery.open(
        journal.database, FIRST_QUEUE, settings, clock=clock, statistics=statistics, announcer=announcer
    )
    working = asyncio.create_task(delivery.run())
    for hour in range(HOURS):
        packets = [heard(clock, hour * PER_HOUR + minute) for minute in range(PER_HOUR)]
        assert {captured.kind for captured in await journal.capture_many(packets)} == {"weather"}
        await clock.advance(3600)
    assert await journal.database.read(statuses) == {"pending": HOURS * PER_HOUR}
    assert delivery.relay.status().down

    async with far_side.cloud(tmp_path / "store.db", clock=clock) as cloud:
        serving = asyncio.create_task(serve(cloud.app, WebSettings(), listener=bind("127.0.0.1", port)))
        with anyio.fail_after(120):
            while set(await journal.database.read(statuses)) != {"delivered"}:
                await clock.advance(30)
        for task in (working, serving):
            task.cancel()
        await asyncio.gather(working, serving, return_exceptions=True)
        await journal.close()
        keys = await cloud.database.read(observation_keys)
        latest = (await cloud.get("/observations/latest", stationId=far_side.STATION)).json()
    last = START + timedelta(minutes=HOURS * PER_HOUR - 1)
    expected = [f"OBS#{format_utc(START + timedelta(minutes=number))}#WEATHER" for number in range(HOURS * PER_HOUR)]
    assert keys == expected
    assert latest["item"]["source_ts_utc"] == format_utc(last)
    assert statistics.value(ATTEMPTS, destination="aws", outcome="duplicate") == 0
