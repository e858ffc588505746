"""`make run`: the whole chain in one process, from the hub's datagrams to the page."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import httpx
import pytest
from tests.servers.product import get, product, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]
STATION = "!5c32d4d9"


def settings(folder: Path) -> dict[str, str]:
    return {
        "STORMJAY_DATA_DIR": str(folder),
        "STORMJAY_WEB__PORT": "0",
        "STORMJAY_WEATHER__BRIDGE__UDP_PORT": "0",
    }


def test_readings_flow_to_the_page_and_a_second_start_goes_on(tmp_path: Path) -> None:
    counts = []
    for _ in range(2):
        with product("demo", "--speed", "3000", environment=settings(tmp_path)) as running:
            url = running.url()
            latest = f"{url}/observations/latest?stationId={STATION}"
            wait_until(lambda at=latest: get(at) is not None, 60, running)  # type: ignore[misc] # a default binds it
            newest = get(latest)["item"]["source_ts_utc"]
            wait_until(
                lambda at=latest, old=newest: get(at)["item"]["source_ts_utc"] > old,  # type: ignore[misc] # as above
                60,
                running,
            )
            page = httpx.get(url, trust_env=False)
            assert page.status_code == 200
            assert "Demo garden" in page.text
            assert get(f"{url}/readyz")["ok"] is True
            metrics = httpx.get(f"{url}/metrics", trust_env=False)
            assert "stormjay_weather_cloud_stored_total" in metrics.text
            counts.append(len(get(f"{url}/stations")["stations"]))
            assert running.stop() == 0
            assert "Look at" in "".join(running.lines)
    assert counts == [1, 1]


@pytest.mark.parametrize(
    ("kind", "variable"),
    [(socket.SOCK_STREAM, "STORMJAY_WEB__PORT"), (socket.SOCK_DGRAM, "STORMJAY_WEATHER__BRIDGE__UDP_PORT")],
)
def test_a_port_in_use_is_told_with_the_way_to_change_it(
    tmp_path: Path, kind: socket.SocketKind, variable: str
) -> None:
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind is socket.SOCK_STREAM:
            taken.listen()
        port = str(taken.getsockname()[1])
        with product("demo", environment={**settings(tmp_path), variable: port}) as running:
            told = running.said(re.compile(r"Error: .*in use.*"))[0]
            step = running.said(re.compile(r"Next: .*"))[0]
            assert running.process.wait(20) == 2
    assert port in told
    assert variable in step
