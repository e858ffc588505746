"""Retention, import, replay of the ledger, and what is known of stations."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.unit.weather_packets import NODE, START, TS, observation, opened, packet, rows, seed_file

from stormjay.errors import BadRequest, NotFound, SettingsError
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Statistics
from stormjay.weather.importer import import_csv, import_database
from stormjay.weather.journal import Journal
from stormjay.weather.journal_replay import replay_ledger
from stormjay.weather.journal_schema import Destination
from stormjay.weather.retention import Retention, RetentionSettings
from stormjay.weather.stations import Station, checked, station_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def journal(data_dir: Path) -> AsyncIterator[Journal]:
    made = await opened(data_dir / "weatherstation.db", destinations=(Destination(name="club"),))
    yield made
    await made.close()


def retention(journal: Journal, *, days_later: int = 200, enabled: bool = True, batch_size: int = 2) -> Retention:
    return Retention(
        journal.database,
        queues=journal.queues,
        settings=RetentionSettings(enabled=enabled, batch_size=batch_size),
        clock=ManualClock(START + timedelta(days=days_later)),
        statistics=Statistics(),
    )


async def settle(journal: Journal, aws: list[str], club: list[str]) -> None:
    def work(connection: sqlite3.Connection) -> None:
        for table, statuses in (("aws_delivery_queue", aws), ("delivery_queue_club", club)):
            for number, status in enumerate(statuses, 1):
                connection.execute(f"UPDATE {table} SET status = ? WHERE reading_id = ?", (status, number))  # noqa: S608 - ours

    await journal.database.write(work)


async def test_b27_a_reading_goes_when_every_destination_has_done_with_it_and_counts_once(journal: Journal) -> None:
    await journal.capture_many([packet(observation(ts=TS + n), n) for n in range(5)])
    await journal.capture_many([packet(b"junk"), packet({"sys": "dbg"})])
    await settle(
        journal,
        ["delivered", "delivered", "failed", "discarded", "retry"],
        ["delivered", "pending", "delivered", "delivered", "delivered"],
    )
    counted = await retention(journal, enabled=False).run_once(dry_run=True)
    assert counted.removed["weather_readings"] == 2
    assert len(await rows(journal, "weather_readings")) == 5
    report = await retention(journal).run_once()
    assert report.complete
    assert report.removed == counted.removed
    assert (report.removed["ingest_events"], report.removed["device_health_events"]) == (1, 1)
    assert [row["id"] for row in await rows(journal, "weather_readings")] == [2, 3, 5]
    assert len(await rows(journal, "aws_delivery_queue")) == 3
    assert len(await rows(journal, "device_status_current")) == 1


async def test_retention_is_off_by_default_and_spares_what_is_young(journal: Journal) -> None:
    await journal.capture(packet(observation()))
    await settle(journal, ["delivered"], ["delivered"])
    assert RetentionSettings().enabled is False
    assert (await retention(journal, enabled=False).run_once()).removed == {}
    assert (await retention(journal, days_later=179).run_once()).removed["weather_readings"] == 0


async def test_an_existing_file_is_imported_once_with_its_delivery_state(journal: Journal, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    seed_file(old, [(n, str(TS + 60 * n), f"2026-03-18T09:0{n}:05+00:00") for n in range(4)])
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("UPDATE aws_delivery_queue SET status = 'retry', attempt_count = 3 WHERE reading_id = 4")
        connection.execute("UPDATE weather_readings SET temp_c = 400 WHERE id = 1")
        for number in (1, 2):
            connection.execute(
                "INSERT INTO weather_events (source_node_id, event_type, received_at_utc, raw_payload)"
                " VALUES (?, 'evt_precip', ?, ?)",
                (NODE, f"2026-03-18T09:00:0{number}+00:00", json.dumps({"et": "evt_precip", "i": number, "ts": TS})),
            )
        connection.commit()
    told: list[int] = []
    report = await import_database(journal, old, progress=told.append)
    assert (report.read, report.stored, report.duplicates, report.refused) == (6, 4, 1, 1)
    assert report.reasons == {"temp_out_of_range": 1, "duplicate": 1}
    assert told[-1] == 6
    statuses = [(row["status"], row["attempt_count"]) for row in await rows(journal, "aws_delivery_queue")]
    assert statuses == [("delivered", 0), ("delivered", 0), ("retry", 3)]
    before = {table: await rows(journal, table) for table in ("weather_readings", "ingest_events", "weather_events")}
    again = await import_database(journal, old)
    assert (again.stored, again.duplicates, again.refused) == (0, 5, 1)
    assert before == {table: await rows(journal, table) for table in before}


@pytest.mark.parametrize("deliver", [True, False])
async def test_a_csv_with_columns_or_cloud_names_is_imported(
    journal: Journal, tmp_path: Path, *, deliver: bool
) -> None:
    path = tmp_path / "old.csv"
    path.write_text(
        "timestamp,air_temp_c,humidity_pct,station_pressure_hpa,wind_avg_ms,wind_dir_deg,rain_interval_mm,note\n"
        "2026-03-18T09:00:00Z,6.2,71,1008.4,2.1,190,0.0,x\n"
        "1773824460,6.3,71,1008.4,2.1,190,,x\n"
        "1773824520,6.4,71,1008.4,2.1,190,0.1,x\n",
        encoding="utf-8",
    )
    report = await import_csv(journal, path, source_node_id=NODE, deliver=deliver)
    assert (report.stored, report.refused, report.reasons) == (2, 1, {"'rain_mm'": 1})
    assert [row["source_ts_canonical"][11:19] for row in await rows(journal, "weather_readings")] == [
        "09:00:00",
        "09:02:00",
    ]
    for queue in ("aws_delivery_queue", "delivery_queue_club"):
        assert [row["status"] for row in await rows(journal, queue)] == (["pending"] * 2 if deliver else [])
    assert (await import_csv(journal, path, source_node_id=NODE)).duplicates == 2
    assert len(await rows(journal, "ingest_events")) == 1


async def test_what_is_no_file_database_or_csv_is_the_callers_mistake(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await import_database(journal, tmp_path / "absent.db")
    junk = tmp_path / "junk"
    junk.write_bytes(b"\xff\xfe not a database")
    with pytest.raises(BadRequest):
        await import_database(journal, junk)
    with pytest.raises(BadRequest):
        await import_csv(journal, junk)
    junk.write_text("a,b\n1,2\n")
    with pytest.raises(BadRequest, match="source_node_id, source_ts_utc, temp_c"):
        await import_csv(journal, junk)


async def test_a_replay_of_the_ledger_stores_what_is_accepted_now(journal: Journal, data_dir: Path) -> None:
    mountain = observation(p=600.0)
    await journal.capture_many([packet(mountain), packet(b"junk"), packet(observation(ts=TS + 60))])
    await journal.capture(packet(observation(ts=TS + 60), 70))
    await journal.refuse_many([packet(observation(ts=TS + 120))], "sender_not_allowed")
    await journal.close()
    wider = await opened(data_dir / "weatherstation.db", ranges={"pressure_hpa": (550, 1200)})
    report = await replay_ledger(wider)
    assert (report.read, report.stored, report.refused) == (2, 1, 1)
    ledger = await rows(wider, "ingest_events")
    assert [row["replayed_at_utc"] is not None for row in ledger] == [True, False, False, False]
    assert (await replay_ledger(wider)).stored == 0
    asked = await replay_ledger(wider, ids=[ledger[-1]["id"]])
    assert asked.stored == 1
    assert len(await rows(wider, "weather_readings")) == 3
    assert len(await rows(wider, "ingest_events")) == 4
    await wider.close()


async def test_a_station_says_what_it_is() -> None:
    station = checked(Station(source_node_id=NODE, time_zone="Europe/Vienna", elevation_m=180))
    assert station.zone == ZoneInfo("Europe/Vienna")
    assert station_of({NODE: station}, "!b05f00d1") == Station(source_node_id="!b05f00d1")
    for wrong in ({"time_zone": "Mars/Base"}, {"time_zone": "/etc/passwd"}, {"latitude": 91.0}, {"elevation_m": 1e6}):
        with pytest.raises(SettingsError):
            checked(Station(source_node_id=NODE, **wrong))
