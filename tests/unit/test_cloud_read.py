"""``GET /observations/latest``, ``/observations`` and ``/stations`` against the real store and application."""

from __future__ import annotations

import base64
import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.cloud import STATION, WRITE, CloudBench, body_of, cloud

from stormjay.errors import BadRequest, SettingsError
from stormjay.ground.clock import ManualClock
from stormjay.ground.keyed.port import Key
from stormjay.ground.web.query import Query
from stormjay.weather.cloud.read import HistoryQuery, TokenSeal, history_query, ranks
from stormjay.weather.cloud.serving import CloudSettings
from stormjay.weather.stations import Station

FIRST = 1786000000
RANGE = {"stationId": STATION, "from_": "2026-08-06T07:06:40.000000Z", "to": "2026-08-06T07:59:59.999999Z"}


async def filled(bench: CloudBench, count: int, step_seconds: int = 60, **weather: Any) -> None:
    payloads = [
        body_of(msg_id=n, source_ts_utc=FIRST + n * step_seconds, weather={"air_temp_c": n % 40, **weather})["payload"]
        for n in range(count)
    ]
    answer = await bench.client.post(
        "/observations/batch", content=msgspec.json.encode({"payloads": payloads}), headers=WRITE
    )
    assert all(result["ok"] for result in answer.json()["results"])


@pytest.mark.anyio
async def test_latest_and_its_refusals(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        missing = await bench.get("/observations/latest")
        assert (missing.status_code, missing.text) == (400, '{"ok": false, "error": "missing_stationId"}')
        unknown = await bench.get("/observations/latest", stationId=STATION)
        assert (unknown.status_code, unknown.text) == (404, '{"ok": false, "error": "not_found"}')
        await filled(bench, 3)
        latest = await bench.get("/observations/latest", stationId=STATION)
        assert latest.text.startswith('{"ok": true, "item": {')
        assert latest.json()["item"]["msg_id"] == 2


@pytest.mark.anyio
async def test_latest_is_fresh_after_every_write_and_tagged(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        await filled(bench, 1)
        first = await bench.get("/observations/latest", stationId=STATION)
        unchanged = await bench.client.get(
            "/observations/latest", params={"stationId": STATION}, headers={"if-none-match": first.headers["etag"]}
        )
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        await filled(bench, 2)
        second = await bench.client.get(
            "/observations/latest", params={"stationId": STATION}, headers={"if-none-match": first.headers["etag"]}
        )
        assert second.status_code == 200
        assert second.json()["item"]["msg_id"] == 1


@pytest.mark.anyio
async def test_raw_history_has_the_contracts_members(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        await filled(bench, 5)
        answer = await bench.get("/observations", **RANGE)
        body = answer.json()
        assert list(body) == ["ok", "mode", "stationId", "from", "to", "order", "count", "items"]
        assert (body["mode"], body["order"], body["count"]) == ("raw", "desc", 5)
        assert (body["from"], body["to"]) == (RANGE["from_"], RANGE["to"])
        assert [item["msg_id"] for item in body["items"]] == [4, 3, 2, 1, 0]
        ascending = (await bench.get("/observations", **RANGE, order="ASC")).json()
        assert [item["msg_id"] for item in ascending["items"]] == [0, 1, 2, 3, 4]
        empty = (await bench.get("/observations", stationId="!0", from_="0", to="1")).json()
        assert (empty["count"], empty["items"]) == (0, [])


@pytest.mark.anyio
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_hold_every_observation_once(data_dir: Path, order: str) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        await filled(bench, 10)
        seen: list[int] = []
        token: dict[str, str] = {}
        for _ in range(6):
            body = (await bench.get("/observations", **RANGE, limit=5, order=order, **token)).json()
            seen += [item["msg_id"] for item in body["items"]]
            if "nextToken" not in body:
                break
            token = {"nextToken": body["nextToken"]}
        assert seen == sorted(range(10), reverse=order == "desc")


@pytest.mark.anyio
async def test_b21_a_token_belongs_to_its_query(data_dir: Path) -> None:
    """Fault B21: tokens of another station, range or order, and mangled ones, are 400 and never 500."""
    async with cloud(data_dir / "cloud.db") as bench:
        await filled(bench, 4)
        token = (await bench.get("/observations", **RANGE, limit=2)).json()["nextToken"]
        wire = json.loads(base64.urlsafe_b64decode(token))
        assert wire["pk"] == {"S": f"STATION#{STATION}"}
        assert wire["sk"] == {"S": "OBS#2026-08-06T07:08:40.000000Z#WEATHER"}
        respelled = {**RANGE, "from_": str(FIRST)}
        assert (await bench.get("/observations", **respelled, limit=1, nextToken=token)).status_code == 200
        forged = base64.urlsafe_b64encode(
            json.dumps({**wire, "sk": {"S": "OBS#2026-08-06T07:09:00.000000Z#WEATHER"}}).encode()
        ).decode()
        others: list[dict[str, Any]] = [
            {"stationId": "!00000001"},
            {"to": "2026-08-06T08:00:00Z"},
            {"order": "asc"},
            {"sample": 2},
            {"bucket": "day"},
            *({"nextToken": odd} for odd in ("NQ==", "x", "5", "é", token[:-4], token + "A" * 6000, forged)),
        ]
        for change in others:
            answer = await bench.get("/observations", **{**RANGE, "limit": 2, "nextToken": token, **change})
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_nextToken"), change


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"stationId": ""}, "missing_stationId_from_to"),
    ({"from_": ""}, "missing_stationId_from_to"),
    ({"to": ""}, "missing_stationId_from_to"),
    ({"limit": "x"}, "limit_must_be_integer"),
    ({"limit": ""}, "limit_must_be_integer"),
    ({"limit": "9" * 5000}, "limit_must_be_integer"),
    ({"limit": 0, "sample": 5}, "limit_must_be_at_least_1"),
    ({"limit": 1001}, "limit_must_be_at_most_1000"),
    ({"sample": "1.5"}, "sample_must_be_integer"),
    ({"sample": -1}, "sample_must_be_at_least_1"),
    ({"sample": 2001}, "sample_must_be_at_most_2000"),
    ({"bucket": "week"}, "bucket_must_be_hour_or_day"),
    ({"bucket": "hour", "sample": 5}, "sample_and_bucket_exclude_each_other"),
    ({"from_": "yesterday"}, "invalid_from"),
    ({"to": "2026-08-06T07:06:40"}, "invalid_to"),
    ({"from_": "-5"}, "invalid_from"),
    ({"from_": "2026-08-07T00:00:00Z"}, "invalid_range"),
]


@pytest.mark.anyio
async def test_b21_what_is_wrong_with_a_query_is_named(data_dir: Path) -> None:
    """Fault B21: reversed ranges and odd parameters are 400 with a word for each."""
    async with cloud(data_dir / "cloud.db") as bench:
        for change, error in WRONG:
            answer = await bench.get("/observations", **{**RANGE, **change})
            assert (answer.status_code, answer.json()["error"]) == (400, error), change
            if error.startswith("invalid_"):
                name = "from" if error == "invalid_range" else error.removeprefix("invalid_")
                assert answer.json()["details"][0].startswith(f"{name} ")


@pytest.mark.anyio
async def test_limits_are_read_as_python_reads_integers(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        await filled(bench, 4)
        for limit in (" 5 ", "1_0", "5"):
            assert (await bench.get("/observations", **RANGE, limit=limit)).json()["count"] == 4


@pytest.mark.anyio
async def test_b20_every_spelling_of_a_time_means_the_instant(data_dir: Path) -> None:
    """Fault B20: compared as text, a time without a fraction missed its own second."""
    async with cloud(data_dir / "cloud.db") as bench:
        await filled(bench, 2)
        for begin in (str(FIRST), f"{FIRST}000", "2026-08-06T07:06:40Z", "2026-08-06T09:06:40 02:00"):
            body = (await bench.get("/observations", stationId=STATION, from_=begin, to=str(FIRST))).json()
            assert (body["count"], body["from"]) == (1, begin)


@pytest.mark.parametrize(
    ("total", "sample", "expected"),
    [
        (10, 4, [0, 3, 6, 9]),
        (5, 4, [0, 1, 3, 4]),
        (6, 3, [0, 2, 5]),
        (12, 5, [0, 3, 6, 8, 11]),
        (100, 7, [0, 16, 33, 50, 66, 82, 99]),
        (11, 1, [5]),
        (2, 1, [1]),
        (3, 3, [0, 1, 2]),
        (0, 5, []),
    ],
)
def test_ranks_are_the_contracts(total: int, sample: int, expected: list[int]) -> None:
    assert ranks(total, sample) == expected


@given(st.integers(0, 60_000), st.integers(1, 2000))
def test_ranks_are_distinct_ascending_and_hold_both_ends(total: int, sample: int) -> None:
    picked = ranks(total, sample)
    assert picked == sorted(set(picked))
    assert len(picked) == min(total, sample)
    if sample > 1 and total:
        assert picked[0] == 0
        assert picked[-1] == total - 1


@pytest.mark.anyio
async def test_sampled_history_is_exact_and_slim(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        await filled(bench, 100, step_seconds=10)
        body = (await bench.get("/observations", **RANGE, sample=7, order="desc")).json()
        assert list(body) == [
            "ok", "mode", "stationId", "from", "to", "sampleRequested", "totalMatched", "count", "items",
        ]  # fmt: skip
        assert (body["mode"], body["sampleRequested"], body["totalMatched"], body["count"]) == ("sampled", 7, 100, 7)
        assert [item["msg_id"] for item in body["items"]] == [0, 16, 33, 50, 66, 82, 99]
        assert list(body["items"][0]) == [
            "pk", "sk", "record_type", "source_node_id", "source_name", "msg_id", "source_ts_utc", "received_at_utc",
            "weather",
        ]  # fmt: skip


@pytest.mark.anyio
async def test_windows_over_their_bounds_are_refused(data_dir: Path) -> None:
    settings = CloudSettings(sample_window_max=5, bucket_window_max=4)
    async with cloud(data_dir / "cloud.db", settings=settings) as bench:
        await filled(bench, 5)
        assert (await bench.get("/observations", **RANGE, sample=2)).status_code == 200
        folded = await bench.get("/observations", **RANGE, bucket="hour")
        assert (folded.status_code, folded.json()["error"]) == (400, "bucket_window_too_large")
        await filled(bench, 6)
        sampled = await bench.get("/observations", **RANGE, sample=2)
        assert (sampled.status_code, sampled.json()["error"]) == (400, "sample_window_too_large")


@pytest.mark.anyio
async def test_b23_b24_buckets_keep_the_gust_and_add_the_rain(data_dir: Path) -> None:
    """Faults B23 and B24: what sampling loses, buckets keep, in the station's own day."""
    facts = {STATION: Station(source_node_id=STATION, name="Garden", time_zone="Europe/Berlin")}
    clock = ManualClock(datetime(2026, 8, 8, tzinfo=UTC))
    async with cloud(data_dir / "cloud.db", stations=facts, clock=clock) as bench:
        for n, (moment, gust) in enumerate(
            [("2026-08-06T21:59:00Z", 3), ("2026-08-06T22:00:00Z", 21.5), ("2026-08-06T22:01:00Z", 2)]
        ):
            weather = {"wind_gust_ms": gust, "rain_interval_mm": 0.1, "report_interval_min": 1}
            await bench.post(body_of(msg_id=n, source_ts_utc=moment, weather=weather))
        body = (
            await bench.get(
                "/observations", stationId=STATION, from_="2026-08-06T00:00:00Z", to="1786147200", bucket="day"
            )
        ).json()
        assert (body["mode"], body["timeZone"], body["count"]) == ("bucketed", "Europe/Berlin", 2)
        first, second = body["items"]
        assert (first["start"], first["end"]) == ("2026-08-05T22:00:00.000000Z", "2026-08-06T22:00:00.000000Z")
        assert second["local_start"] == "2026-08-07T00:00:00+02:00"
        assert second["fields"]["rain_interval_mm"]["sum"] == 0.2
        assert second["sums_are_lower_bounds"] is True
        assert second["covered_minutes"] == 2
        assert second["fields"]["wind_gust_ms"]["max"] == 21.5
        assert second["fields"]["wind_gust_ms"]["max_at_utc"] == "2026-08-06T22:00:00.000000Z"


@pytest.mark.anyio
async def test_stations_show_facts_and_never_a_key(data_dir: Path) -> None:
    facts = {
        STATION: Station(source_node_id=STATION, name="Garden", elevation_m=310.5, time_zone="Europe/Berlin"),
        "!silent": Station(source_node_id="!silent", name="New"),
    }
    async with cloud(data_dir / "cloud.db", stations=facts) as bench:
        await filled(bench, 2)
        await bench.post(body_of(source_node_id="!00000001", source_name="Hill"))
        body = (await bench.get("/stations")).json()
        assert body["count"] == 3
        hill, garden, new = body["stations"]
        assert (hill["id"], hill["name"], hill["elevation_m"]) == ("!00000001", "Hill", None)
        assert (garden["name"], garden["elevation_m"]) == ("Garden", 310.5)
        assert garden["first_seen_utc"] == "2026-08-06T07:06:40.000000Z"
        assert garden["last_seen_utc"] == garden["latest"]["source_ts_utc"] == "2026-08-06T07:07:40.000000Z"
        assert (new["id"], new["first_seen_utc"], new["latest"]) == ("!silent", None, None)
        assert "key" not in garden


@pytest.mark.anyio
async def test_reads_can_be_closed(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db", public=()) as bench:
        for path in ("/observations/latest", "/observations", "/stations"):
            assert (await bench.get(path)).status_code == 401
            answer = await bench.client.get(path, headers={"authorization": "Bearer may look"})
            assert answer.status_code in {200, 400}


def test_a_range_of_no_column_ends_the_start(data_dir: Path) -> None:
    async def opened() -> None:
        async with cloud(data_dir / "cloud.db", settings=CloudSettings(ranges={"colour": (0, 1)})):
            pass

    with pytest.raises(SettingsError, match="colour"):
        anyio.run(opened)


def test_a_seal_of_another_key_does_not_open() -> None:
    query = HistoryQuery(station_id="s", from_text="0", to_text="1", low_us=0, high_us=1)
    token = TokenSeal(b"one").token(query, Key("STATION#s", "OBS#x"))
    assert TokenSeal(b"one").open(query, token) == Key("STATION#s", "OBS#x")
    with pytest.raises(BadRequest):
        TokenSeal(b"two").open(query, token)


PARAMETERS = ["stationId", "from", "to", "limit", "sample", "order", "bucket", "nextToken"]


@given(st.dictionaries(st.sampled_from(PARAMETERS), st.text()))
def test_any_query_is_understood_or_refused(fields: dict[str, str]) -> None:
    whole = {"stationId": "s", "from": "0", "to": "1", **fields}
    query_string = urlencode(whole, errors="replace").encode()
    with contextlib.suppress(BadRequest):
        history_query(Query(query_string), TokenSeal(b""))
