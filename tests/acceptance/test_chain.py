"""Radio to store over two real processes, with real kills: nothing captured is lost, nothing arrives twice."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.servers.api import closed_port_url
from tests.servers.product import Product, get, product, rows, wait_until

from stormjay.ground.clock import SystemClock, seeded_random
from stormjay.ground.timestamps import format_us
from stormjay.weather.radio.node_simulator import GARDEN_NODE, KnownNode, NodeSimulator

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]
SECRET = "a secret of both sides"
STATION = f"!{GARDEN_NODE:08x}"
READINGS, KILLS = 240, 4


def reading(number: int, epoch: int) -> bytes:
    values = {"et": "obs_st", "i": number, "ts": epoch, "t": round(10 + number / 100, 2), "h": 60, "p": 1001.5}
    return json.dumps({**values, "w": 1.5, "d": 200, "r": 0.1, "ri": 1}).encode()


def far_side(folder: Path, port: int = 0) -> dict[str, str]:
    return {
        "STORMJAY_DATA_DIR": str(folder),
        "STORMJAY_WEB__PORT": str(port),
        "STORMJAY_WEATHER__CLOUD__ENABLED": "true",
        "API_SHARED_SECRET": SECRET,
    }


def home(folder: Path, radio: str, api_url: str) -> dict[str, str]:
    return {
        "STORMJAY_DATA_DIR": str(folder),
        "STORMJAY_WEATHER__RADIO__SOURCE": radio,
        "STORMJAY_WEATHER__RADIO__RECONNECT_DELAY_SECONDS": "1",
        "API_URL": api_url,
        "API_KEY": SECRET,
    }


CONNECTED = re.compile(r'"event":"connected"')
HOME_PARTS = ("run", "weather.listener", "weather.delivery")
JOURNAL, STORE = "weatherstation.db", "store.db"


def captured(folder: Path) -> int:
    return int((rows(folder / JOURNAL, "SELECT count(*) FROM weather_readings") or [(0,)])[0][0])


def undelivered(folder: Path) -> int:
    return int(rows(folder / JOURNAL, "SELECT count(*) FROM aws_delivery_queue WHERE status <> 'delivered'")[0][0])


async def until_captured(folder: Path, number: int, running: Product) -> None:
    await asyncio.to_thread(wait_until, lambda: captured(folder) >= number, 60, running)


@pytest.mark.anyio
async def test_kill_9_at_any_moment_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    home_folder, far_folder = tmp_path / "home", tmp_path / "far"
    first = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=READINGS)
    epochs = [int((first + timedelta(minutes=number)).timestamp()) for number in range(READINGS)]
    texts = [reading(number, epoch) for number, epoch in enumerate(epochs, 1)]
    order = seeded_random(20261201)
    arrivals = [*texts, *order.sample(texts, READINGS // 3)]
    order.shuffle(arrivals)
    size = len(arrivals) // KILLS
    garden = KnownNode(number=GARDEN_NODE, long_name="Kitchen garden", short_name="KTCH")
    with ExitStack() as processes:
        far = processes.enter_context(product("run", "weather.cloud", environment=far_side(far_folder)))
        url = await asyncio.to_thread(far.url)
        async with NodeSimulator(clock=SystemClock(), known_nodes=(garden,)) as node:
            settings = home(home_folder, node.url, url)
            for kill in range(KILLS):
                with product(*HOME_PARTS, environment=settings) as running:
                    await asyncio.to_thread(running.said, CONNECTED)
                    seen = captured(home_folder)
                    for number, text in enumerate(arrivals[kill * size : (kill + 1) * size]):
                        await node.inject_text(text, sender=GARDEN_NODE, packet_id=1000 * kill + number + 1)
                    await until_captured(home_folder, seen + size // 4, running)
                    running.kill()
                if kill == 1:  # the far side too, in the middle of it
                    far.kill()
                    again = far_side(far_folder, int(url.rpartition(":")[2]))
                    far = processes.enter_context(product("run", "weather.cloud", environment=again))
                    await asyncio.to_thread(far.url)
            with product(*HOME_PARTS, environment=settings) as running:
                await asyncio.to_thread(running.said, CONNECTED)
                for number, text in enumerate(arrivals):  # what the kills tore away is heard again
                    await node.inject_text(text, sender=GARDEN_NODE, packet_id=9000 + number)
                await until_captured(home_folder, READINGS, running)
                await asyncio.to_thread(wait_until, lambda: undelivered(home_folder) == 0, 60, running)
                assert await asyncio.to_thread(running.stop) == 0
        latest = await asyncio.to_thread(get, f"{url}/observations/latest?stationId={STATION}")
        assert await asyncio.to_thread(far.stop) == 0
    expected = [format_us(epoch * 1_000_000) for epoch in epochs]
    kept = rows(home_folder / JOURNAL, "SELECT source_ts_canonical, temp_c FROM weather_readings ORDER BY 1")
    assert kept == [(at, round(10 + number / 100, 2)) for number, at in enumerate(expected, 1)]
    stored = rows(far_folder / STORE, "SELECT sk FROM WeatherObservations WHERE pk LIKE 'STATION#%' ORDER BY sk")
    assert [row[0] for row in stored] == ["LATEST", *(f"OBS#{at}#WEATHER" for at in expected)]
    assert latest["item"]["source_ts_utc"] == expected[-1]
    assert latest["item"]["source_name"] == "Kitchen garden"


def test_a_stop_leaves_claimed_rows_untouched_b13(tmp_path: Path) -> None:
    environment = home(tmp_path, "", closed_port_url())
    environment.pop("STORMJAY_WEATHER__RADIO__SOURCE")
    with product("weather", "ingest-text", reading(1, int(datetime.now(UTC).timestamp())).decode(),
                 "--node", STATION, environment={"STORMJAY_DATA_DIR": str(tmp_path)}) as ingest:  # fmt: skip
        assert ingest.process.wait(30) == 0
    with product("run", "weather.delivery", environment=environment) as running:
        wait_until(lambda: any("delivery_destination_down" in line for line in running.lines), 30, running)
        assert running.stop() == 0
    queue = rows(tmp_path / JOURNAL, "SELECT status, attempt_count FROM aws_delivery_queue")
    assert queue == [("pending", 0)]
