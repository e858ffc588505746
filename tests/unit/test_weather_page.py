"""The page and its JSON over HTTP: complete without scripts, safe with hostile payloads, never 500."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from tests.unit.weather_rows import HOUR, MINUTE, STATION, refuse, store, us

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Statistics
from stormjay.ground.timestamps import to_datetime
from stormjay.ground.web.app import WebSettings, create_app
from stormjay.ground.web.health import Health
from stormjay.ground.web.tokens import READ, Tokens
from stormjay.weather.journal_schema import MIGRATIONS
from stormjay.weather.page import routes
from stormjay.weather.page.reader import JournalReader, PageSettings
from stormjay.weather.views import Site
from stormjay.weather.views_strip import Target

pytestmark = pytest.mark.anyio
NOW = us("2026-08-06T12:00:00Z")
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
SITES = {STATION: Site(name="Garden", elevation_m=408, time_zone="Europe/Zurich")}
TARGETS = (Target(name="api", table="aws_delivery_queue", label="the cloud"),)


@asynccontextmanager
async def browsing(
    folder: Path,
    fill: Callable[[sqlite3.Connection], Any] | None = None,
    *,
    sites: dict[str, Site] | None = None,
    targets: tuple[Target, ...] = TARGETS,
    public: bool = True,
) -> AsyncIterator[httpx.AsyncClient]:
    clock = ManualClock(to_datetime(NOW))
    tokens = Tokens(public=(READ,) if public else ())
    database = await Database.open(folder / "weatherstation.db", MIGRATIONS, clock=clock)
    if fill is not None:
        await database.write(fill)
    handlers = routes.routes(
        database, SITES if sites is None else sites, PageSettings(), clock, targets, (tokens.require(READ),)
    )
    app = create_app(
        route_handlers=handlers,
        settings=WebSettings(),
        tokens=tokens,
        statistics=Statistics(),
        health=Health(clock),
        announcer=Announcer(),
        clock=clock,
        static={routes.STATIC_PATH: routes.STATIC},
    )
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://stormjay") as client:
        yield client
    await database.close()


def an_hour(connection: sqlite3.Connection) -> None:
    for minute in range(60):
        store(connection, NOW - minute * MINUTE, "delivered", temp_c=20.0 - minute / 10, wind_gust_ms=7.5)
    refuse(connection, NOW - 5 * MINUTE, packet_type="invalid", reason="malformed_json", raw_payload=HOSTILE)
    store(connection, NOW - 2 * HOUR, "retry", source_name=HOSTILE, source_node_id="!0000beef", raw_payload=HOSTILE)


async def test_the_page_is_complete_without_scripts(data_dir: Path) -> None:
    async with browsing(data_dir, an_hour) as client:
        answer = await client.get("/")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        text = answer.text
    for piece in ("Garden", "20.0", "Feels like", "As a table", "delivered", "Newest packets", "Europe/Zurich"):
        assert piece in text
    assert 'style="' not in text
    assert "<script>" not in text


async def test_times_are_the_stations_and_utc_on_demand(data_dir: Path) -> None:
    async with browsing(data_dir, an_hour) as client:
        assert 'title="2026-08-06 14:00:00 CEST"' in (await client.get("/")).text
        assert 'title="2026-08-06 12:00:00 UTC"' in (await client.get("/", params={"zone": "utc"})).text


async def test_a_station_without_zone_says_that_its_days_are_utc(data_dir: Path) -> None:
    async with browsing(data_dir, an_hour, sites={}) as client:
        text = (await client.get("/")).text
    assert "no time zone is set" in text
    assert "elevation not set" in text


async def test_hostile_payloads_are_shown_as_text(data_dir: Path) -> None:
    async with browsing(data_dir, an_hour) as client:
        pages = [
            (await client.get(path)).text
            for path in (
                "/",
                "/?station=!0000beef",
                "/weather/packet/ledger/1",
                "/weather/fragments/packet/ledger/1",
                f"/weather/fragments/minute?station={STATION}&start={(NOW - 5 * MINUTE) // 1_000_000}",
            )
        ]
    for text in pages:
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages[2]


async def test_an_empty_journal_says_what_to_do(data_dir: Path) -> None:
    async with browsing(data_dir, sites={}) as client:
        answer = await client.get("/")
        assert answer.status_code == 200
        assert "No station has been heard yet" in answer.text
        assert "stormjay doctor" in answer.text
        assert (await client.get("/api/v1/weather/stations")).json() == {"stations": []}
        assert (await client.get("/api/v1/weather/now")).status_code == 404
        assert (await client.get("/weather/fragments/live")).status_code == 404


async def test_a_station_that_is_set_but_silent_has_a_page(data_dir: Path) -> None:
    async with browsing(data_dir) as client:
        answer = await client.get("/")
    assert answer.status_code == 200
    assert "No reading yet" in answer.text


async def test_no_destination_says_what_to_do(data_dir: Path) -> None:
    async with browsing(data_dir, an_hour, targets=()) as client:
        assert "weather.delivery.api_url" in (await client.get("/")).text


async def test_the_json_of_a_station(data_dir: Path) -> None:
    async with browsing(data_dir, an_hour) as client:
        now = (await client.get("/api/v1/weather/now")).json()
        assert now["now"]["reading"]["values"]["air_temp_c"] == 20
        assert now["now"]["gust_today"]["value"] == 7.5
        day = (await client.get("/api/v1/weather/day", params={"date": "2026-08-06"})).json()
        assert day["readings"] == 60
        span = {"from": "2026-08-06T11:30:00Z", "to": str(NOW // 1_000_000), "fields": "air_temp_c"}
        series = (await client.get("/api/v1/weather/series", params=span)).json()
        assert series["readings"] == 30
        assert list(series["fields"]) == ["air_temp_c"]
        torn = (await client.get("/api/v1/weather/series?from=2026-08-06T13:30:00+02:00")).json()
        assert torn["from_utc"] == "2026-08-06T11:30:00.000000Z"
        assert (await client.get("/api/v1/weather/rose", params={"range": "7d"})).json()["readings"] == 60
        assert (await client.get("/api/v1/weather/link")).json()["heard"] == 59  # one is received later
        strip = (await client.get("/api/v1/weather/strip")).json()["lines"]
        assert [line["station"] for line in strip] == [STATION, "!0000beef"]
        assert ["delivered", 60] in strip[0]["runs"]
        packet = (await client.get("/api/v1/weather/packet/reading/1")).json()
        assert packet["deliveries"][0]["state"] == "delivered"
        assert (await client.get("/api/v1/weather/packets")).json()["packets"][0]["kind"] == "reading"


MISTAKES = (
    ("/api/v1/weather/now?station=!ffffffff", 404),
    ("/api/v1/weather/now?station=%00%ff", 404),
    ("/api/v1/weather/day?station=nobody", 404),
    ("/api/v1/weather/day?date=yesterday", 400),
    ("/api/v1/weather/day?date=9999-12-31", 400),
    ("/api/v1/weather/day?date=0001-01-01", 400),
    ("/api/v1/weather/strip?date=2026-13-01", 400),
    ("/api/v1/weather/strip?station=nobody", 404),
    ("/api/v1/weather/series?fields=raw_payload", 400),
    ("/api/v1/weather/series?from=soon", 400),
    ("/api/v1/weather/series?from=2026-08-07&to=2026-08-06", 400),
    ("/api/v1/weather/series?from=1&to=4102444800", 400),
    ("/api/v1/weather/series?to=0001-01-01T00:00:00Z", 200),
    ("/api/v1/weather/series?max_points=1", 400),
    ("/api/v1/weather/series?max_points=many", 400),
    ("/api/v1/weather/series?range=1y", 400),
    ("/api/v1/weather/series?station=nobody", 404),
    ("/api/v1/weather/rose?from=0&to=1786000000", 400),
    ("/api/v1/weather/rose?station=nobody", 404),
    ("/api/v1/weather/link?to=never", 400),
    ("/api/v1/weather/link?station=nobody", 404),
    ("/api/v1/weather/packets?station=nobody", 404),
    ("/api/v1/weather/packet/reading/999999", 404),
    ("/api/v1/weather/packet/reading/99999999999999999999999", 404),
    ("/api/v1/weather/packet/sqlite_master/1", 400),
    ("/api/v1/weather/packet/reading/first", 404),
    ("/?zone=mars", 400),
    ("/?station=nobody", 404),
    ("/weather/fragments/live?station=nobody", 404),
    ("/weather/fragments/minute?start=-5", 400),
    ("/weather/fragments/minute?start=1786000000", 404),
    ("/weather/packet/reading/0", 404),
    ("/weather/packet/nothing/1", 404),
)


async def test_what_cannot_be_answered_is_the_callers_mistake(data_dir: Path) -> None:
    async with browsing(data_dir, an_hour) as client:
        found = {path: (await client.get(path)).status_code for path, _ in MISTAKES}
    assert found == dict(MISTAKES)


async def test_reads_can_be_kept_for_those_with_a_token(data_dir: Path) -> None:
    async with browsing(data_dir, an_hour, public=False) as client:
        for path in ("/", "/api/v1/weather/now", "/weather/fragments/live", "/weather/packet/reading/1"):
            assert (await client.get(path)).status_code == 401


async def test_the_api_is_described_and_the_fragments_are_not(data_dir: Path) -> None:
    async with browsing(data_dir) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
    ours = [path for path in paths if "weather" in path]
    assert len(ours) == 9
    assert all(path.startswith("/api/v1/weather/") for path in ours)


async def test_files_of_the_page_are_there(data_dir: Path) -> None:
    async with browsing(data_dir) as client:
        manifest = await client.get("/manifest.webmanifest")
        assert manifest.headers["content-type"].startswith("application/manifest+json")
        names = [icon["src"] for icon in manifest.json()["icons"]]
        scripts = ("page", "theme", "time-chart", "now-tile", "wind-rose", "delivery-strip")
        for path in [*names, "/static/weather/page.css", *(f"/static/weather/{name}.js" for name in scripts)]:
            assert (await client.get(path)).status_code == 200, path


@pytest.mark.anyio
async def test_past_days_are_summed_before_anybody_asks(data_dir: Path) -> None:
    clock = ManualClock(to_datetime(NOW))
    database = await Database.open(data_dir / "journal.db", MIGRATIONS, clock=clock)
    await database.write(an_hour)
    reader = JournalReader(database, {}, (), PageSettings(), clock)
    warming = asyncio.create_task(reader.run())
    with anyio.fail_after(30):
        while not clock.waiters():
            await anyio.lowlevel.checkpoint()
    assert {station for station, _ in reader._rain._kept} == {STATION, "!0000beef"}
    warming.cancel()
    await asyncio.gather(warming, return_exceptions=True)
    await database.close()
