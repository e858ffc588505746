"""The bridge as a program: socket, radio that comes and goes, state file. What it decides is tested beside the core."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from stormjay.errors import LinkLost, Refused, SettingsError, StormjayError
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Statistics
from stormjay.weather import bridge_core, bridge_state, fields
from stormjay.weather.bridge import (
    DATAGRAMS,
    DATAGRAMS_LOST,
    LINKS_LOST,
    RAIN_HELD,
    STATE_ERRORS,
    TEXTS_REFUSED,
    TEXTS_SENT,
    WAITING,
    GardenBridge,
)
from stormjay.weather.bridge_core import SUMS, Bridge
from stormjay.weather.bridge_lines import OBS_FIELDS, REQUIRED
from stormjay.weather.bridge_settings import BridgeSettings, edge_ranges
from stormjay.weather.garden_files import garden_constants, write_garden
from stormjay.weather.radio.port import MeshPacket

T0 = 1773824400


def obs(minute: int, rain: float = 0.25) -> bytes:
    values = [T0 + 60 * minute, 0.4, 1.1, 2.0, 180, 3, 1008.0, 6.0, 80, 900, 0.1, 5, rain, 1, 0, 0, 2.6, 1]
    return json.dumps({"serial_number": "ST-1", "type": "obs_st", "obs": [values]}).encode()


class FakeRadio:
    """A radio whose connecting and sending answer as the test has laid down; None means well."""

    name = "fake:"

    def __init__(self) -> None:
        self.on_connect: list[StormjayError | None] = []
        self.on_send: list[StormjayError | None] = []
        self.tried: list[bytes] = []
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self.before_send: Callable[[bytes], Awaitable[None]] | None = None
        self.ended = asyncio.Event()
        self.heard: list[MeshPacket] = []

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[FakeRadio]:
        error = self.on_connect.pop(0) if self.on_connect else None
        if error is not None:
            raise error
        self.ended.clear()
        yield self

    async def packets(self) -> AsyncIterator[MeshPacket]:
        for packet in self.heard:
            yield packet
        await self.ended.wait()
        raise LinkLost("unplugged")

    async def send_text(self, payload: bytes) -> None:
        self.tried.append(payload)
        if self.before_send is not None:
            await self.before_send(payload)
        error = self.on_send.pop(0) if self.on_send else None
        if error is not None:
            raise error
        self.sent.put_nowait(payload)


class Bench:
    """A running bridge with its surroundings."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(datetime(2026, 3, 18, 9, tzinfo=UTC))
        self.statistics = Statistics()
        self.radio = FakeRadio()
        self.beats = 0
        chosen = {"port": 0, "gap_seconds": 0.0, "heartbeat_seconds": 0.0, **settings}
        self.bridge = GardenBridge(BridgeSettings(**chosen), self.radio, self.clock, self.statistics, self._beat)

    def _beat(self) -> None:
        self.beats += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.bridge.run())
        try:
            with anyio.fail_after(30):
                await self.bridge.listening.wait()
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def hear(self, *datagrams: bytes) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for data in datagrams:
                sender.sendto(data, self.bridge.address)

    async def text(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.radio.sent.get())
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_a_datagram_becomes_a_text_and_its_repeat_does_not() -> None:
    bench = Bench()
    async with bench.running():
        bench.hear(obs(0), obs(0), b"[]")
        text = await bench.text()
        assert (text["ts"], text["r"], text["i"]) == (T0, 0.25, 1)
        await bench.until(lambda: bench.statistics.value(DATAGRAMS, outcome="malformed") == 1)
        assert bench.statistics.value(DATAGRAMS, outcome="duplicate") == 1
        assert bench.statistics.value(TEXTS_SENT) == 1
        assert bench.radio.sent.empty()
        assert bench.beats > 0


@pytest.mark.anyio
async def test_heartbeats_go_out_by_the_clock_and_name_the_address() -> None:
    bench = Bench(heartbeat_seconds=900.0)
    async with bench.running():
        first = await bench.text()
        assert (first["sys"], first["up"], first["ip"]) == ("dbg", 0, "127.0.0.1")
        await bench.clock.advance(900)
        assert (await bench.text())["up"] == 900


@pytest.mark.anyio
async def test_a_lost_link_gets_the_same_bytes_again() -> None:
    bench = Bench()
    bench.radio.on_send = [LinkLost("cable")]
    async with bench.running():
        bench.hear(obs(0))
        await bench.until(lambda: bench.clock.waiters() > 0 and bench.statistics.value(LINKS_LOST) == 1)
        bench.hear(obs(1))
        await bench.until(lambda: bench.statistics.value(DATAGRAMS, outcome="queued") == 2)
        await bench.clock.advance(1)
        assert await bench.radio.sent.get() == bench.radio.tried[0]
        assert (await bench.text())["ts"] == T0 + 60


@pytest.mark.anyio
async def test_b14_a_link_that_dies_in_silence_is_noticed_and_opened_again() -> None:
    bench = Bench()
    async with bench.running():
        bench.hear(obs(0))
        await bench.text()
        bench.radio.ended.set()
        await bench.until(lambda: bench.statistics.value(LINKS_LOST) == 1)
        await bench.clock.advance(1)
        bench.hear(obs(1))
        assert (await bench.text())["ts"] == T0 + 60


@pytest.mark.anyio
async def test_while_the_radio_is_away_records_merge_and_waits_grow() -> None:
    bench = Bench(heartbeat_seconds=900.0)
    bench.radio.on_connect = [LinkLost("no device")] * 4
    async with bench.running():
        bench.hear(*(obs(minute) for minute in range(8)))
        await bench.until(lambda: bench.statistics.value(DATAGRAMS, outcome="queued") == 8)
        for seconds in (1, 2, 4):
            await bench.clock.advance(seconds)
        assert bench.radio.tried == []
        assert [sample.value for sample in bench.statistics.samples() if sample.metric == WAITING] == [1]
        assert [sample.value for sample in bench.statistics.samples() if sample.metric == RAIN_HELD] == [2.0]
        await bench.clock.advance(8)
        heartbeat, reading = await bench.text(), await bench.text()
        assert heartbeat["err"] == "radio: no device"
        assert (reading["ts"], reading["r"], reading["ri"]) == (T0 + 7 * 60, 2.0, 8)
        assert bench.statistics.value(LINKS_LOST) == 4


@pytest.mark.anyio
async def test_a_refused_text_is_counted_and_its_rain_goes_on() -> None:
    bench = Bench()
    bench.radio.on_send = [Refused("too long")]
    async with bench.running():
        bench.hear(obs(0))
        await bench.until(lambda: bench.statistics.value(TEXTS_REFUSED) == 1)
        bench.hear(obs(1))
        assert (await bench.text())["r"] == 0.5


@pytest.mark.anyio
async def test_a_port_in_use_says_what_to_change() -> None:
    bench = Bench()
    async with bench.running():
        other = Bench(port=bench.bridge.address[1])
        with pytest.raises(SettingsError) as caught:
            await other.bridge.run()
        assert "weather.bridge.udp_port" in caught.value.next_step


@pytest.mark.anyio
async def test_broadcasts_are_heard_beside_other_listeners() -> None:
    bench = Bench(host="0.0.0.0")  # noqa: S104 - what the test is about
    async with bench.running():
        other = Bench(host="0.0.0.0", port=bench.bridge.address[1])  # noqa: S104 - as above
        async with other.running():
            assert other.bridge.address[1] == bench.bridge.address[1]


@pytest.mark.anyio
async def test_b25_foreign_hubs_are_not_heard() -> None:
    bench = Bench(serials=("ST-2",))
    async with bench.running():
        bench.hear(obs(0))
        await bench.until(lambda: bench.statistics.value(DATAGRAMS, outcome="foreign") == 1)
        assert bench.bridge.core.waiting() == 0


@pytest.mark.anyio
async def test_a_full_inbox_loses_and_counts() -> None:
    bench = Bench(inbox_max=2)
    async with bench.running():
        for minute in range(5):
            bench.bridge._inbox.datagram_received(obs(minute), ("127.0.0.1", 1))
        assert bench.statistics.value(DATAGRAMS_LOST) == 3


@pytest.mark.anyio
async def test_what_is_held_survives_a_kill_and_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "bridge.json"
    killed = Bench(state_path=path)
    killed.radio.on_connect = [LinkLost("no device")] * 99
    async with killed.running():
        killed.hear(obs(0), obs(1), obs(2, rain=None))  # type: ignore[arg-type] # a sensor without a value
        await killed.until(lambda: killed.statistics.value(DATAGRAMS, outcome="carried") == 1)
        await killed.until(path.exists)
        await killed.until(lambda: path.read_bytes() == bridge_state.encoded(killed.bridge.core))
    after = Bench(state_path=path)
    async with after.running():
        after.hear(obs(1), obs(0))
        text = await after.text()
        assert (text["ts"], text["r"]) == (T0 + 60, 0.5)
        await after.until(lambda: after.statistics.value(DATAGRAMS, outcome="duplicate") == 2)
        assert after.bridge.core.held() == dict.fromkeys(SUMS, 0)


@pytest.mark.anyio
async def test_a_text_is_on_the_disk_before_the_radio_sees_it(tmp_path: Path) -> None:
    """Killed between handing over and noting it, the bridge sends the same bytes again and nothing else of it."""
    path = tmp_path / "bridge.json"
    bench = Bench(state_path=path)
    at_send: list[bytes] = []

    async def look(_: bytes) -> None:
        at_send.append(path.read_bytes())

    bench.radio.before_send = look
    async with bench.running():
        bench.hear(obs(0))
        first = await bench.radio.sent.get()
    path.write_bytes(at_send[0])
    again = Bench(state_path=path)
    async with again.running():
        again.hear(obs(0))
        assert await again.radio.sent.get() == first
        again.hear(obs(1))
        text = await again.text()
        assert (text["i"], text["r"]) == (2, 0.25)


@pytest.mark.anyio
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"msg_id": "x"}', b'{"msg_id": 1, "carry": {"r": null}}'])
async def test_a_damaged_state_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bridge.json"
    path.write_bytes(content)
    bridge = Bridge()
    assert not bridge_state.restore(bridge, path)
    assert (tmp_path / "bridge.json.damaged").read_bytes() == content
    assert bridge.msg_id == 1


@pytest.mark.anyio
async def test_a_disk_that_does_not_write_does_not_stop_the_weather(tmp_path: Path) -> None:
    bench = Bench(state_path=tmp_path / "missing" / "bridge.json")
    async with bench.running():
        bench.hear(obs(0))
        assert (await bench.text())["r"] == 0.25
        assert bench.statistics.value(STATE_ERRORS) > 0


def test_the_bridges_fields_are_those_of_the_table() -> None:
    ours = {key: (place, whole, low, high) for key, place, whole, low, high in OBS_FIELDS}
    table = {field.key: (field.hub_index, field.kind == "int", *field.edge) for field in fields.FIELDS}
    assert ours == table
    assert set(REQUIRED) == {field.key for field in fields.REQUIRED}
    assert set(SUMS) == {field.key for field in fields.FIELDS if field.merge == "sum"}


def test_widened_ranges_reach_the_bridge_and_the_pico() -> None:
    """A mountain station's pressure is refused by the table and taken once the setting says so (decision 5)."""
    ranges = fields.ranges({"pressure_hpa": (550, 1200)})
    names: dict[str, Any] = {}
    exec(garden_constants(ranges), names)  # noqa: S102 - our own text, as the Pico imports it
    assert names["RANGES"] == {"p": (550, 1200)}
    assert edge_ranges(ranges)["t"] == (-60, 70)
    mountain = json.loads(obs(0))
    mountain["obs"][0][6] = 775.2
    data = json.dumps(mountain).encode()
    assert Bridge().on_datagram(data, 0) == "carried"
    assert Bridge(ranges=names["RANGES"]).on_datagram(data, 0) == "queued"


def test_constants_of_an_unchanged_table_are_empty() -> None:
    names: dict[str, Any] = {}
    exec(garden_constants(fields.ranges()), names)  # noqa: S102 - our own text, as the Pico imports it
    assert names["RANGES"] == {}


def test_the_picos_files_are_laid_out_as_on_the_board(tmp_path: Path) -> None:
    """What is copied is what is tested, byte for byte; the user's own configuration stays."""
    folder = tmp_path / "pico"
    folder.mkdir()
    (folder / "config.py").write_text("mine")
    written = write_garden(folder, fields.ranges({"pressure_hpa": (550, 1200)}))
    assert {path.relative_to(folder).as_posix() for path in written} == {
        "main.py",
        "garden_loop.py",
        "config_example.py",
        "README.md",
        "garden_constants.py",
        "lib/stormjay/weather/bridge_core.py",
        "lib/stormjay/weather/bridge_lines.py",
    }
    core = Path(bridge_core.__file__)
    assert (folder / "lib/stormjay/weather/bridge_core.py").read_bytes() == core.read_bytes()
    assert '"p": (550, 1200)' in (folder / "garden_constants.py").read_text()
    assert (folder / "config.py").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError):
        write_garden(tmp_path / "file", fields.ranges())
