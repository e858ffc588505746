"""Every file ends at the schema of ``schema.sql``, and keeps what was in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.unit.weather_packets import NODE, SEED_DDL, TS, observation, opened, packet, rows, seed_file

from stormjay.ground.sqlite import migrate
from stormjay.weather.fields import FIELDS
from stormjay.weather.journal_schema import MIGRATIONS
from stormjay.weather.journal_status import HEARD_COLUMNS, STATUS_COLUMNS

pytestmark = pytest.mark.anyio


def shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return all columns, keys and indexes, whatever the spelling of the statements that made them."""
    found: dict[str, Any] = {}
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        found[table] = {
            "columns": [tuple(row) for row in connection.execute(f"PRAGMA table_info({table})")],
            "keys": sorted(tuple(row)[2:] for row in connection.execute(f"PRAGMA foreign_key_list({table})")),
            "indexes": sorted(
                (
                    row[1],
                    row[2],
                    row[3],
                    row[4],
                    [tuple(part) for part in connection.execute(f"PRAGMA index_info({row[1]})")],
                )
                for row in connection.execute(f"PRAGMA index_list({table})")
            ),
        }
    return found


async def test_a_fresh_file_and_the_seeds_end_at_the_same_schema(tmp_path: Path) -> None:
    seed_file(tmp_path / "old.db", [(1, str(TS), "2026-03-18T09:00:05+00:00")])
    for name in ("old.db", "new.db"):
        await (await opened(tmp_path / name)).close()
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, closing(sqlite3.connect(tmp_path / "new.db")) as new:
        assert shape(old) == shape(new)


async def test_the_seeds_columns_come_first_and_in_the_seeds_order() -> None:
    with closing(sqlite3.connect(":memory:")) as seed, closing(sqlite3.connect(":memory:")) as ours:
        seed.executescript(SEED_DDL)
        migrate(ours, MIGRATIONS)
        for table, description in shape(seed).items():
            mine = shape(ours)[table]
            assert mine["columns"][: len(description["columns"])] == description["columns"]
            assert mine["keys"] == description["keys"]
            assert {index[0] for index in description["indexes"]} <= {index[0] for index in mine["indexes"]}


async def test_a_file_that_lacks_a_later_seed_column_gets_it(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.executescript(SEED_DDL.replace("wind_sample_interval_s INTEGER, ", ""))
    journal = await opened(tmp_path / "a.db")
    await journal.capture(packet(observation(ws=3)))
    assert (await rows(journal, "weather_readings"))[0]["wind_sample_interval_s"] == 3
    await journal.close()


async def test_an_existing_file_of_the_seed_opens_and_carries_on(tmp_path: Path) -> None:
    path = tmp_path / "weatherstation.db"
    seed_file(
        path,
        [
            (1, str(TS), "2026-03-18T09:00:05.123456+00:00"),
            (2, f"{TS}.0", "2026-03-18T09:00:06+00:00"),
            (3, "gibberish", "2026-03-18 09:00:07"),
        ],
    )
    journal = await opened(path)
    first, double, odd = await rows(journal, "weather_readings")
    assert first["source_ts_canonical"] == double["source_ts_canonical"] == "2026-03-18T09:00:00.000000Z"
    assert (first["source_double_of"], double["source_double_of"]) == (None, first["id"])
    assert odd["source_ts_canonical"] is None
    repeated = await journal.capture(packet(observation(i=4), 90))
    assert (repeated.reason, repeated.row_id) == ("duplicate", first["id"])
    await journal.capture(packet(observation(i=5, ts=TS + 60), 65))
    assert [row["status"] for row in await rows(journal, "aws_delivery_queue")] == ["delivered"] * 3 + ["pending"]
    [status] = await rows(journal, "device_status_current")
    assert (status["source_name"], status["last_msg_id"]) == ("Garden", 5)
    await journal.close()


async def test_what_the_seeds_program_writes_meanwhile_is_taken_in_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    journal = await opened(path)
    await journal.capture(packet(observation()))
    await journal.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO weather_readings (source_node_id, msg_id, source_ts_utc, received_at_utc, temp_c,"
            " humidity_pct, pressure_hpa, wind_ms, wind_dir_deg, rain_mm, raw_payload)"
            " VALUES (?, 2, ?, '2026-03-18T09:01:05+00:00', 6.2, 71, 1008.4, 2.1, 190, 0, '{}'),"
            " (?, 3, ?, '2026-03-18T09:00:05+00:00', 6.2, 71, 1008.4, 2.1, 190, 0, '{}')",
            (NODE, str(TS + 60), NODE, f"{TS}.0"),
        )
        connection.commit()
    again = await opened(path)
    assert [row["source_double_of"] for row in await rows(again, "weather_readings")] == [None, None, 1]
    assert (await again.capture(packet(observation(ts=TS + 60)))).reason == "duplicate"
    await again.close()


async def test_the_code_knows_exactly_the_columns_of_the_file() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection, MIGRATIONS)
        status = {row[1] for row in connection.execute("PRAGMA table_info(device_status_current)")}
        readings = {row[1]: row[2] for row in connection.execute("PRAGMA table_info(weather_readings)")}
    assert set(STATUS_COLUMNS) == status - {"source_node_id", "derived_state", "updated_at_utc", "value_times_json"}
    assert set(HEARD_COLUMNS) == {name for name in STATUS_COLUMNS if name.endswith("_at_utc")}
    for field in FIELDS:
        assert readings[field.column] == {"int": "INTEGER", "float": "REAL"}[field.kind]
