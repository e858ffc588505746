"""Settings become the parts they describe, and nothing else runs."""

from __future__ import annotations

import shutil
import sqlite3
from collections import namedtuple
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from stormjay.assembly import demonstration, parts, running
from stormjay.assembly.parts import Common
from stormjay.errors import SettingsError
from stormjay.ground.clock import ManualClock
from stormjay.ground.web.tokens import ADMIN, READ, WEATHER_WRITE
from stormjay.settings import Settings, load
from stormjay.weather import hub
from stormjay.weather.radio.options import RadioOptions

NOW = datetime(2026, 12, 1, 3, 10, 27, tzinfo=UTC)
NODE = "!5c32d4d9"


def settings(folder: Path, **variables: str) -> Settings:
    return load(
        environment={"HOME": str(folder), "STORMJAY_DATA_DIR": str(folder / "data"), **variables}, folder=folder
    ).settings


def common() -> Common:
    return Common.fresh(ManualClock(NOW))


def plan(folder: Path, *wanted: str, **variables: str) -> running.Plan:
    return running.Plan(settings(folder, **variables), frozenset(wanted), common(), AsyncExitStack())


@pytest.mark.parametrize(
    ("wanted", "name", "enabled", "runs"),
    [
        ((), "weather.bridge", True, True),
        ((), "weather.bridge", False, False),
        (("weather",), "weather.bridge", True, True),
        (("weather",), "weather.bridge", False, False),
        (("weather.bridge",), "weather.bridge", False, True),
        (("weather.listener",), "weather.bridge", True, False),
    ],
)
def test_what_is_named_runs_else_what_is_enabled(
    tmp_path: Path, wanted: tuple[str, ...], name: str, *, enabled: bool, runs: bool
) -> None:
    assert plan(tmp_path, *wanted).runs(name, enabled=enabled) is runs


@pytest.mark.anyio
async def test_a_bridge_alone_opens_neither_journal_nor_web(tmp_path: Path) -> None:
    made = plan(tmp_path, "weather.bridge", STORMJAY_WEATHER__BRIDGE__OUTPUT="tcp://127.0.0.1:4403")
    async with made.stack:
        await running._add_sources(made)
        await running._add_far_sides(made)
        assert await running._web(made, lambda _url: None) is None
    assert [part.name for part in made.parts] == ["weather.bridge"]
    assert made.journal is None


@pytest.mark.anyio
async def test_each_destination_has_its_own_queue_and_key(tmp_path: Path) -> None:
    made = plan(
        tmp_path,
        API_URL="https://first.example",
        API_KEY="first key of sixteen",
        STORMJAY_WEATHER__DELIVERY__ENABLED="true",
        STORMJAY_WEATHER__DESTINATIONS__CLUB__API_URL="https://club.example",
        STORMJAY_WEATHER__DESTINATIONS__CLUB__API_KEY="club key of sixteen",
        STORMJAY_WEB__PORT="0",
    )
    async with made.stack:
        await running._add_far_sides(made)
        web = await running._web(made, lambda _url: None)
        assert made.journal is not None
        assert made.journal.queues == ("aws_delivery_queue", "delivery_queue_club")
        assert list(await parts.outboxes(made.settings, made.journal)) == ["api", "club"]
        assert [target.name for target in parts.targets(made.settings)] == ["api", "club"]
    assert web is not None
    assert {"weather.delivery.api", "weather.delivery.club", "weather.page"} <= {part.name for part in made.parts}
    assert {"delivery api", "delivery club", "journal"} <= set(made.common.health.readiness().checks)


@pytest.mark.anyio
async def test_an_address_that_nothing_is_delivered_to_is_told(tmp_path: Path) -> None:
    """As with the variables of the older scripts, whose worker was started by itself."""
    made = plan(tmp_path, API_URL="https://first.example", API_KEY="first key of sixteen")
    with capture_logs() as logs:
        async with made.stack:
            await running._add_far_sides(made)
    told = next(line for line in logs if line["event"] == "delivery.destinations_not_served")
    assert told["destinations"] == ["api"]
    assert "weather.delivery.enabled" in told["next_step"]


def test_an_unknown_kind_of_radio_is_told() -> None:
    with pytest.raises(SettingsError, match="bluetooth") as caught:
        parts.radio_at("bluetooth://x", common(), RadioOptions())
    assert "serial://" in caught.value.next_step


def test_no_radio_is_told_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"weather\.radio\.source"):
        parts.radio(settings(tmp_path), common())


def test_b26_secrets_stations_and_tokens_open_what_they_should(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    made = parts.tokens(
        settings(
            tmp_path,
            API_SHARED_SECRET="the shared secret of all",
            STORMJAY_WEATHER__STATIONS__5C32D4D9__KEY="the key of one station",
            STORMJAY_WEB__TOKENS__GUEST__TOKEN="a token for a guest",
            STORMJAY_WEB__TOKENS__GUEST__SCOPES="read",
            STORMJAY_WEB__TOKENS__GUEST__EXPIRES="2026-12-02T00:00:00Z",
        ),
        clock,
    )
    shared, station, guest = (
        made.find(secret) for secret in (b"the shared secret of all", b"the key of one station", b"a token for a guest")
    )
    assert shared is not None
    assert shared.may(WEATHER_WRITE)
    assert not shared.may(ADMIN)
    assert station is not None
    assert station.station == NODE
    assert guest is not None
    assert guest.may(READ)
    assert made.find(b"a guess") is None


@pytest.mark.anyio
async def test_a_token_is_refused_from_its_last_moment_on(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    variables = {
        "STORMJAY_WEB__TOKENS__GUEST__TOKEN": "a token for a guest",
        "STORMJAY_WEB__TOKENS__GUEST__SCOPES": "read",
        "STORMJAY_WEB__TOKENS__GUEST__EXPIRES": "2026-12-01T03:10:28Z",
    }
    made = parts.tokens(settings(tmp_path, **variables), clock)
    assert made.find(b"a token for a guest") is not None
    await clock.advance(1)
    assert made.find(b"a token for a guest") is None


@pytest.mark.anyio
async def test_a_damaged_journal_and_a_full_disk_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(tmp_path)
    made.settings.journal_file.parent.mkdir(parents=True)
    made.settings.journal_file.write_bytes(b"no database" * 1000)
    async with made.stack:
        await made.opened_journal()
        journal = made.common.health.readiness().checks["journal"]
        assert (journal.ok, journal.needed) == (False, False)  # capture goes on, in a new file
        assert "damaged" in journal.reason
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - what the standard library returns
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(1, 1, 1_000_000))
    ok, reason, needed = running._disk_check(tmp_path)
    assert (ok, needed) == (False, True)
    assert "1 MB free" in reason


def test_the_demonstrations_day_ends_now_and_keeps_its_time_of_day() -> None:
    recorded = hub.load_recording(demonstration.RECORDING)
    day = demonstration.up_to(recorded, NOW)
    times = [hub.source_time(message) or 0 for message in day]
    assert times == sorted(times)
    assert len(times) == len(recorded)
    assert (NOW - timedelta(days=1)).timestamp() <= times[0]
    assert times[-1] < NOW.timestamp()
    at = {(hub.source_time(message) or 0) % demonstration.DAY_SECONDS: message["obs"][0][1:] for message in recorded}
    assert all(
        message["obs"][0][1:] == at[time % demonstration.DAY_SECONDS] for message, time in zip(day, times, strict=True)
    )


def test_the_demonstration_keeps_away_from_what_an_installation_has(tmp_path: Path) -> None:
    (tmp_path / "stormjay.toml").write_text(
        '[mqtt]\nurl = "mqtt://broker.invalid"\n[weather]\nallow_nodes = ["!0000beef"]\n'
        '[weather.bridge]\nserials = ["ST-1"]\n[weather.delivery]\nenabled = true\napi_url = "https://far.invalid"\n'
        'api_key = "k"\n[weather.destinations.club]\napi_url = "https://club.invalid"\napi_key = "k"\n'
    )
    own = settings(tmp_path, STORMJAY_WEB__HOST="127.0.0.2")
    chain = demonstration.chain_settings(
        own, garden="tcp://127.0.0.1:1", home="tcp://127.0.0.1:2", web_port=8421, udp_port=50223, speed=600
    )
    weather = chain.weather
    assert (chain.mqtt.url, weather.destinations, weather.allow_nodes, weather.bridge.serials) == ("", {}, (), ())
    assert weather.delivery.api_url == "http://127.0.0.2:8421"
    assert chain.journal_file.parent == chain.store_file.parent == own.journal_file.parent / "demo"


@pytest.mark.anyio
async def test_the_store_is_called_what_the_settings_say(tmp_path: Path) -> None:
    async def names(**variables: str) -> list[Any]:
        made = settings(tmp_path, API_SHARED_SECRET="the shared secret of all", **variables)
        async with parts.open_cloud(made, common()):
            pass
        with sqlite3.connect(made.store_file) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").fetchall()
        connection.close()
        return [row[0] for row in rows]

    assert await names() == ["WeatherObservations"]
    assert await names(TABLE_NAME="Other") == ["Other", "WeatherObservations"]
