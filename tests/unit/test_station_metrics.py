"""Values of stations among the metrics: base units, the newest reading, no series without bound."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats import Statistics
from stormjay.ground.stats.openmetrics import Metrics
from stormjay.weather import station_metrics
from stormjay.weather.journal import Journal
from stormjay.weather.radio.port import MeshPacket
from stormjay.weather.station_metrics import READING_TIME, StationMetrics

START = datetime(2026, 8, 6, 7, 6, 40, tzinfo=UTC)


def packet(node: str, seconds: int, **values: float) -> MeshPacket:
    reading = {
        "et": "obs_st", "i": seconds + 1, "ts": int(START.timestamp()) + seconds, "t": 20.5, "h": 50, "p": 960, "w": 1,
        "d": 90, "r": 2, **values,
    }  # fmt: skip
    return MeshPacket(
        received_at=START + timedelta(minutes=9),
        portnum="TEXT_MESSAGE_APP",
        payload=json.dumps(reading).encode(),
        source_node_id=node,
    )


@pytest.mark.anyio
async def test_newest_values_in_base_units_of_a_bounded_number_of_stations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(station_metrics, "STATIONS_MAX", 2)
    clock, announcer, statistics = ManualClock(START + timedelta(minutes=9)), Announcer(), Statistics()
    journal = await Journal.open(tmp_path / "w.db", clock=clock, statistics=statistics, announcer=announcer)
    await journal.capture(packet("!00000001", 60, t=21.5))
    part = StationMetrics(journal.database, statistics=statistics, announcer=announcer)
    task = asyncio.create_task(part.run())
    try:
        with anyio.fail_after(30):
            while announcer.listeners == 0:
                await anyio.lowlevel.checkpoint()
            await journal.capture(packet("!00000001", 0, t=3.0))
            await journal.capture(packet("!00000002", 0))
            await journal.capture(packet("!00000003", 0))
            while statistics.value(READING_TIME, station="!00000002") == 0:
                await anyio.lowlevel.checkpoint()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await journal.close()
    text = Metrics(statistics, version="1").render()[1].decode()
    values = {
        (sample.name, sample.labels["station"]): sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call] # untyped vendor
        for sample in family.samples
        if "station" in sample.labels
    }
    first = "!00000001"
    assert values["stormjay_weather_station_air_temp_celsius", first] == 21.5
    assert values["stormjay_weather_station_relative_humidity_ratio", first] == 0.5
    assert values["stormjay_weather_station_station_pressure_pascals", first] == 96_000
    assert values["stormjay_weather_station_rain_interval_meters", first] == 0.002
    assert values["stormjay_weather_station_wind_avg_meters_per_second", first] == 1
    assert {station for _, station in values} == {first, "!00000002"}
