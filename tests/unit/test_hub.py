"""The hub without hardware: made-up weather and recordings moved to now."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import random
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from stormjay.errors import SettingsError
from stormjay.ground.clock import ManualClock
from stormjay.weather import fields
from stormjay.weather.bridge_core import Bridge
from stormjay.weather.hub import HubSettings, Timed, load_recording, replay, send, simulate, source_time

NOW = datetime(2026, 3, 18, 9, tzinfo=UTC)


def made_up(seconds: float, **settings: Any) -> list[Timed]:
    hub = simulate(HubSettings(**settings), NOW, random.Random(7))  # noqa: S311 - made-up weather
    return list(itertools.takewhile(lambda timed: timed.at_seconds < seconds, hub))


def test_the_made_up_hub_speaks_like_a_real_one() -> None:
    sent = made_up(3600.0)
    kinds = [json.loads(timed.data)["type"] for timed in sent]
    assert {kind: kinds.count(kind) for kind in ("rapid_wind", "hub_status", "device_status", "obs_st")} == {
        "rapid_wind": 2400,
        "hub_status": 720,
        "device_status": 120,
        "obs_st": 120,
    }
    assert [timed.at_seconds for timed in sent] == sorted(timed.at_seconds for timed in sent)
    assert sent == made_up(3600.0)


def test_made_up_values_are_inside_the_ranges_over_a_week() -> None:
    """Every observation of a week has 18 values inside the table's edge ranges; it rains, and there is lightning."""
    sent = made_up(7 * 86400.0, obs_interval_seconds=600.0, rapid_wind_interval_seconds=120.0, repeats=1,
                   hub_status_interval_seconds=0, device_status_interval_seconds=0, strike_chance=0.5)  # fmt: skip
    messages = [json.loads(timed.data) for timed in sent]
    records = [message["obs"][0] for message in messages if message["type"] == "obs_st"]
    assert {len(record) for record in records} == {18}
    for field in fields.FIELDS:
        if field.hub_index < 18:
            values = [record[field.hub_index] for record in records]
            assert min(values) >= field.edge[0], field.key
            assert max(values) <= field.edge[1], field.key
    assert sum(record[12] for record in records) > 1
    assert {message["type"] for message in messages} >= {"evt_precip", "evt_strike"}


def test_the_bridge_takes_everything_the_made_up_hub_sends() -> None:
    bridge = Bridge()
    words = {bridge.on_datagram(timed.data, int(timed.at_seconds * 1000)) for timed in made_up(600.0)}
    assert words <= {"queued", "held", "duplicate", "wind", "skipped"}


def recording(path: Path, minutes: int) -> Path:
    lines = [
        json.dumps({"type": "obs_st", "obs": [[1539846000 + 60 * minute, None, 2.95, 0.0]]})
        for minute in range(minutes)
    ]
    with gzip.open(path, "wt") as file:
        file.write("\n".join([*lines, "not json", "[]", "{}", ""]))
    return path


def times(sent: list[Timed]) -> list[tuple[float, int]]:
    return [(timed.at_seconds, source_time(json.loads(timed.data)) or 0) for timed in sent]


def test_a_recording_is_shifted_and_nothing_else_of_it_changes(tmp_path: Path) -> None:
    messages = load_recording(recording(tmp_path / "day.ndjson.gz", 3))
    sent = list(replay(messages, start=NOW, first=NOW, repeats=2))
    begin = int(NOW.timestamp())
    assert times(sent)[::2] == [(0.0, begin), (60.0, begin + 60), (120.0, begin + 120)]
    assert [timed.data for timed in sent][::2] == [timed.data for timed in sent][1::2]
    assert json.loads(sent[0].data) == {"type": "obs_st", "obs": [[begin, None, 2.95, 0.0]]}


def test_a_replay_from_yesterday_catches_up_and_then_keeps_the_clocks_pace(tmp_path: Path) -> None:
    messages = load_recording(recording(tmp_path / "day.ndjson.gz", 100))
    first = NOW - timedelta(minutes=59)
    sent = times(list(replay(messages, start=NOW, first=first, speed=60.0, repeats=1)))
    assert sent[30][0] == 30.0
    for at, source in sent:
        assert source <= NOW.timestamp() + at + 1e-6
    assert sent[-1][0] == 40 * 60.0


def test_a_recording_goes_round(tmp_path: Path) -> None:
    messages = load_recording(recording(tmp_path / "day.ndjson.gz", 3))
    hub = replay(messages, start=NOW, first=NOW, repeats=1, again=True)
    sources = [source for _, source in times(list(itertools.islice(hub, 9)))]
    assert [later - earlier for earlier, later in itertools.pairwise(sources)] == [60] * 8


@pytest.mark.parametrize("content", [None, b"", b"{}\n", b"\x1f\x8bbroken"])
def test_what_is_no_recording_is_said(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "day.ndjson.gz"
    if content is not None:
        path.write_bytes(content if content.startswith(b"\x1f") else gzip.compress(content))
    with pytest.raises(SettingsError):
        load_recording(path)


@pytest.mark.anyio
async def test_datagrams_are_sent_at_their_times() -> None:
    clock = ManualClock(NOW)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(0)
        datagrams = [Timed(0.0, b"a"), Timed(12.0, b"b")]
        task = asyncio.create_task(
            send(
                datagrams,
                target="127.0.0.1",
                port=listener.getsockname()[1],
                clock=clock,
            )
        )
        loop = asyncio.get_running_loop()
        with anyio.fail_after(30):
            assert await loop.sock_recv(listener, 10) == b"a"
            await clock.advance(11)
            assert not task.done()
            await clock.advance(1)
            assert await loop.sock_recv(listener, 10) == b"b"
            assert await task == 2


@pytest.mark.anyio
async def test_nobody_listening_does_not_stop_the_hub() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        port = gone.getsockname()[1]
    assert await send([Timed(0.0, b"a")] * 3, target="127.0.0.1", port=port, clock=ManualClock(NOW)) == 3
