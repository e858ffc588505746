"""Stations for Home Assistant: their device, their state from the journal, and late data that changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiomqtt
import anyio
import pytest
from tests.servers.mosquitto import mosquitto

from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock, seeded_random
from stormjay.ground.stats import Statistics
from stormjay.ground.stats.homeassistant import Device, device_message
from stormjay.ground.stats.mqtt import MqttSettings, MqttSink
from stormjay.weather import discovery
from stormjay.weather.discovery_publisher import WeatherMqtt, WeatherMqttSettings
from stormjay.weather.fields import FIELDS
from stormjay.weather.journal import Journal
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.views import Site

NODE = "!5c32d4d9"
START = datetime(2026, 8, 6, 7, 6, 40, tzinfo=UTC)
SITE = Site(name="Garden", elevation_m=412.0, time_zone="Europe/Zurich")
STATE, AVAILABILITY = "stormjay/weather/5c32d4d9/state", "stormjay/weather/5c32d4d9/availability"


def device(site: Site = SITE, period_seconds: int = 60) -> Device:
    return discovery.station_device(NODE, "Garden", site, base_topic="stormjay", period_seconds=period_seconds)


def test_measured_values_expire_and_totals_never_do() -> None:
    components = device_message(device(), version="1")["components"]
    assert components["air_temp_c"]["expire_after"] == 150
    assert components["wind_dir_deg"]["state_class"] == "measurement_angle"
    assert components["rain_rate_mm_h"]["device_class"] == "precipitation_intensity"
    totals = {key for key, each in components.items() if each.get("state_class") == "total_increasing"}
    assert totals == {"rain_today_mm", "lightning_today", "local_day_rain_mm", "local_day_nearcast_rain_mm"}
    assert all("expire_after" not in components[key] for key in totals)


def test_every_field_has_an_entity_with_its_unit_and_classes() -> None:
    components = device_message(device(), version="1")["components"]
    for field in FIELDS:
        entity = components[field.cloud]
        assert entity.get("unit_of_measurement", "") == field.unit
        assert entity.get("device_class") == field.device_class
        assert entity.get("state_class") == field.state_class
    assert components["state"]["entity_category"] == "diagnostic"
    assert components["rssi_dbm"]["device_class"] == "signal_strength"
    assert components["battery_voltage_v"]["entity_category"] == "diagnostic"


def test_what_needs_elevation_or_zone_is_not_there_without_it() -> None:
    keys = {entity.key for entity in device(Site()).entities}
    assert not keys & {"sea_level_pressure_hpa", "rain_today_mm", "lightning_today", "wind_gust_today_ms"}
    assert {"dew_point_c", "feels_like_c"} <= keys


@pytest.mark.parametrize(
    ("minutes", "seconds"), [(None, 60), (0, 60), (1, 60), (2, 120), (3, 300), (7, 600), (999, 7200)]
)
def test_expected_periods_are_few(minutes: int | None, seconds: int) -> None:
    assert discovery.expected_period_seconds(minutes) == seconds


class FakeSink:
    """Keeps the newest of each topic and tells that something changed."""

    def __init__(self) -> None:
        self.newest: dict[str, Any] = {}
        self.devices: dict[str, Device] = {}
        self.history: list[tuple[str, Any]] = []
        self.changed = asyncio.Event()

    def put(self, topic: str, payload: dict[str, Any] | str) -> None:
        if self.newest.get(topic) != payload:
            self.history.append((topic, payload))
        self.newest[topic] = payload
        self.changed.set()

    def announce(self, device: Device) -> None:
        self.devices[device.device_id] = device

    async def until(self, **wanted: object) -> dict[str, Any]:
        with anyio.fail_after(30):
            while any(self.newest.get(STATE, {}).get(name) != value for name, value in wanted.items()):
                self.changed.clear()
                await self.changed.wait()
        state = self.newest[STATE]
        assert isinstance(state, dict)
        return state


class Home:
    """A journal that publishes into a fake sink, on a clock moved by hand."""

    def __init__(self, journal: Journal, clock: ManualClock) -> None:
        self.journal, self.clock = journal, clock
        self.sink = FakeSink()

    async def hear(self, seconds: int, number: int, **values: float) -> None:
        """Capture a reading of that many seconds after the start, now."""
        payload = {
            "et": "obs_st", "i": number, "ts": int(START.timestamp()) + seconds, "t": 20.0, "h": 50.0, "p": 960.0,
            "w": 1.0, "d": 90, "r": 0.0, "ri": 1, **values,
        }  # fmt: skip
        await self.journal.capture(
            MeshPacket(
                received_at=self.clock.now(),
                portnum="TEXT_MESSAGE_APP",
                payload=json.dumps(payload).encode(),
                source_node_id=NODE,
                snr_db=6.25,
                rssi_dbm=-90,
            )
        )


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[Home]:
    clock = ManualClock(START + timedelta(seconds=1))
    announcer = Announcer()
    journal = await Journal.open(folder / "w.db", clock=clock, statistics=Statistics(), announcer=announcer)
    made = Home(journal, clock)
    part = WeatherMqtt(
        journal.database,
        made.sink,
        clock=clock,
        announcer=announcer,
        settings=WeatherMqttSettings(sites={NODE: SITE}, pause_seconds=0),
    )
    task = asyncio.create_task(part.run())
    try:
        with anyio.fail_after(30):
            while announcer.listeners == 0:
                await anyio.lowlevel.checkpoint()
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await journal.close()


@pytest.mark.anyio
async def test_a_reading_becomes_the_stations_state(tmp_path: Path) -> None:
    async with home(tmp_path) as there:
        await there.hear(0, 1, t=20.5, r=0.4, lc=2, g=3.5, bat=2.61)
        state = await there.sink.until(air_temp_c=20.5)
        assert state["ts"] == timestamps.format_utc(START)
        assert (state["rain_today_mm"], state["lightning_today"], state["wind_gust_today_ms"]) == (0.4, 2, 3.5)
        assert (state["snr_db"], state["rssi_dbm"], state["state"]) == (6.25, -90, "online")
        assert state["battery_voltage_v"] == 2.61
        assert 1005 < state["sea_level_pressure_hpa"] < 1010
        assert there.sink.newest[AVAILABILITY] == "online"
        made = there.sink.devices["stormjay_5c32d4d9"]
        names = {entity.value_template.strip("{} ").removeprefix("value_json.") for entity in made.entities}
        assert names <= set(state)
        assert made.name == "Garden"


@pytest.mark.anyio
async def test_a_late_reading_moves_totals_but_never_the_state_back(tmp_path: Path) -> None:
    async with home(tmp_path) as there:
        await there.hear(60, 2, t=21.0, r=0.2)
        await there.sink.until(air_temp_c=21.0, rain_today_mm=0.2)
        await there.hear(0, 1, t=19.0, r=0.5)
        state = await there.sink.until(rain_today_mm=0.7)
        assert state["air_temp_c"] == 21.0
        assert all(payload["air_temp_c"] == 21.0 for topic, payload in there.sink.history if topic == STATE)


@pytest.mark.anyio
async def test_a_station_that_falls_silent_becomes_unavailable_by_the_clock(tmp_path: Path) -> None:
    async with home(tmp_path) as there:
        await there.hear(0, 1)
        await there.sink.until(state="online")
        with anyio.fail_after(30):
            while there.sink.newest[AVAILABILITY] != "offline":
                there.sink.changed.clear()
                await there.clock.advance(600)
                await there.sink.changed.wait()
        assert there.sink.newest[STATE]["state"] == "offline"


@pytest.mark.anyio
async def test_a_longer_interval_lengthens_the_expiry(tmp_path: Path) -> None:
    async with home(tmp_path) as there:
        await there.hear(0, 1, ri=5)
        await there.sink.until(report_interval_min=5)
        entities = {entity.key: entity for entity in there.sink.devices["stormjay_5c32d4d9"].entities}
        assert entities["air_temp_c"].expire_after == 750


@pytest.mark.server
@pytest.mark.anyio
async def test_state_and_discovery_arrive_at_a_real_broker(tmp_path: Path) -> None:
    announcer, statistics = Announcer(), Statistics()
    clock = ManualClock(START)
    with mosquitto(tmp_path) as broker:
        journal = await Journal.open(tmp_path / "w.db", clock=clock, statistics=statistics, announcer=announcer)
        there = Home(journal, clock)
        sink = MqttSink(MqttSettings(url=broker.url), clock=clock, statistics=statistics, randomness=seeded_random(1))
        part = WeatherMqtt(journal.database, sink, clock=clock, announcer=announcer)
        tasks = [asyncio.create_task(each.run()) for each in (sink, part)]
        await there.hear(0, 1, t=17.5)
        wanted = {STATE, AVAILABILITY, "homeassistant/device/stormjay_5c32d4d9/config"}
        found: dict[str, bytes] = {}
        try:
            with anyio.fail_after(60):
                async with aiomqtt.Client("127.0.0.1", broker.port) as client:
                    await client.subscribe("#", qos=1)
                    async for message in client.messages:
                        found[message.topic.value] = message.payload
                        if wanted <= set(found):
                            break
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await journal.close()
    assert json.loads(found[STATE])["air_temp_c"] == 17.5
    config = json.loads(found["homeassistant/device/stormjay_5c32d4d9/config"])
    assert config["components"]["air_temp_c"]["unique_id"] == "stormjay_5c32d4d9_air_temp_c"
