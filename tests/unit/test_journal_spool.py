"""B15: what the journal does when its file cannot be written, is gone, or the spool holds noise."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.weather_packets import TS, observation, opened, packet, rows

from stormjay.errors import StoreUnavailable
from stormjay.weather import journal_metrics as metrics
from stormjay.weather.journal import Journal

pytestmark = pytest.mark.anyio


@pytest.fixture
async def journal(data_dir: Path) -> AsyncIterator[Journal]:
    made = await opened(data_dir / "weatherstation.db")
    yield made
    await made.close()


class _Broken:
    """Stands before a database and refuses writes while told to."""

    def __init__(self, journal: Journal) -> None:
        self.down = True
        self._write = journal.database.write
        journal.database.write = self  # type: ignore[method-assign]

    async def __call__(self, work: Any) -> Any:
        if self.down:
            raise StoreUnavailable("disk full")
        return await self._write(work)


async def test_b15_a_store_that_fails_drops_nothing(journal: Journal) -> None:
    broken = _Broken(journal)
    lost = [packet(observation(i=n, ts=TS + 60 * n), 60 * n) for n in range(3)]
    assert {one.kind for one in await journal.capture_many(lost)} == {"spooled"}
    assert journal._statistics.value(metrics.SPOOLED) == 3
    assert journal._spool.waiting() > 0
    broken.down = False
    assert (await journal.capture(packet(observation(i=3, ts=TS + 180), 180))).kind == "weather"
    assert [row["msg_id"] for row in await rows(journal, "weather_readings", "msg_id")] == [0, 1, 2, 3]
    assert journal._spool.waiting() == 0


async def test_b15_the_spool_outlives_the_process_and_a_torn_end(data_dir: Path) -> None:
    first = await opened(data_dir / "a.db")
    _Broken(first)
    await first.capture_many([packet(observation(i=n, ts=TS + 60 * n), 60 * n) for n in range(3)])
    await first.close()
    spool = data_dir / "spool.ndjson"
    spool.write_bytes(spool.read_bytes() + b'{"received_at":"2026-')
    second = await opened(data_dir / "a.db")
    assert len(await rows(second, "weather_readings")) == 3
    [torn] = await rows(second, "ingest_events")
    assert (torn["reason"], bytes.fromhex(torn["payload_hex"])) == ("spool_line_unreadable", b'{"received_at":"2026-')
    assert not spool.exists()
    await second.close()


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\x00",
        b'{"received_at":"0001-01-01T00:00:00+14:00","portnum":"TEXT_MESSAGE_APP","payload":""}',
        b'{"received_at":"2026-03-18T09:00:00","portnum":"TEXT_MESSAGE_APP","payload":""}',
        b'{"received_at":"2026-03-18T09:00:00Z","portnum":"TEXT_MESSAGE_APP","payload":"","telemetry":{"a":'
        + b"[" * 5000,
    ],
    ids=["noise", "no year", "no zone", "deep"],
)
async def test_b15_no_line_of_the_spool_keeps_the_journal_from_opening(data_dir: Path, line: bytes) -> None:
    spool = data_dir / "spool.ndjson"
    await asyncio.to_thread(spool.write_bytes, line + b"\n")
    journal = await opened(data_dir / "a.db")
    assert [row["reason"] for row in await rows(journal, "ingest_events")] == ["spool_line_unreadable"]
    assert journal._spool.waiting() == 0
    await journal.close()


async def test_b15_the_spool_takes_a_packet_for_its_payload_whatever_stands_beside_it(journal: Journal) -> None:
    broken = _Broken(journal)
    odd = packet(observation(), source_name="Garden \ud800", telemetry={"\ud800": 1})
    assert (await journal.capture(odd)).kind == "spooled"
    broken.down = False
    await journal.replay_waiting()
    assert [row["temp_c"] for row in await rows(journal, "weather_readings")] == [6.2]


async def test_b15_a_journal_removed_under_the_process_loses_nothing_more(data_dir: Path) -> None:
    folder = data_dir / "journal"
    journal = await opened(folder / "a.db")
    await asyncio.to_thread(shutil.rmtree, folder)
    assert (await journal.capture(packet(observation()))).kind == "spooled"
    assert journal.has_unstored
    await journal.close()
    again = await opened(folder / "a.db")
    assert len(await rows(again, "weather_readings")) == 1
    await again.close()


async def test_b15_what_the_disk_took_half_of_does_not_come_twice(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = _Broken(journal)
    assert (await journal.capture(packet(observation(i=1)))).kind == "spooled"
    before = journal._spool.waiting()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        assert (await journal.capture(packet(observation(i=2, ts=TS + 60), 60))).kind == "spooled"
    assert journal._spool.waiting() == before
    broken.down = False
    await journal.replay_waiting()
    assert [row["msg_id"] for row in await rows(journal, "weather_readings")] == [1, 2]
    assert await rows(journal, "ingest_events") == []


async def test_b15_the_ledger_takes_what_no_column_can_hold(journal: Journal) -> None:
    odd = packet(observation(t=99), packet_id=2**70, channel=2**70, gateway_id="\ud800", source_name="\ud800")
    assert (await journal.capture(odd)).reason == "temp_out_of_range"
    [row] = await rows(journal, "ingest_events")
    assert (row["packet_id"], row["channel"], row["gateway_id"]) == (None, None, "\\ud800")


async def test_b15_memory_holds_what_the_spool_cannot_up_to_its_bound(data_dir: Path) -> None:
    journal = await opened(data_dir / "a.db", spool_bytes_max=10, held_max=2)
    broken = _Broken(journal)
    many = [packet(observation(i=n, ts=TS + n), n) for n in range(3)]
    assert [one.kind for one in await journal.capture_many(many)] == ["spooled", "spooled", "lost"]
    assert journal._statistics.value(metrics.LOST) == 1
    broken.down = False
    assert await journal.replay_waiting() == 2
    assert len(await rows(journal, "weather_readings")) == 2
    await journal.close()
