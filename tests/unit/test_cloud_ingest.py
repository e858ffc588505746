"""``POST /observations`` and its batch form, against the real store and the whole application."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.servers.cloud import STATION, STATION_KEY, WRITE, body_of, cloud

from stormjay.ground.web.app import WebSettings
from stormjay.ground.web.envelope import TOO_LARGE
from stormjay.weather.cloud.serving import CloudSettings
from stormjay.weather.cloud.store import DEDUPED, REFUSED, STORED

pytestmark = pytest.mark.anyio

WORKED = (
    b'{"payload": {"source_node_id": "!5c32d4d9", "msg_id": 9, "source_ts_utc": "1786000000", '
    b'"received_at_utc": "2026-08-06T07:06:41.5Z", "weather": {"air_temp_c": 22.0, "uv_index": 1.25}}}'
)
WORKED_ANSWER = (
    '{"ok": true, "deduped": false, "source_node_id": "!5c32d4d9", "msg_id": 9, '
    '"source_ts_utc": "2026-08-06T07:06:40.000000Z", "observation_sk": "OBS#2026-08-06T07:06:40.000000Z#WEATHER"}'
)


async def test_the_worked_example_byte_for_byte(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench, bench.announcer.listen() as heard:
        first = await bench.post(WORKED)
        assert first.status_code == 200
        assert first.text == WORKED_ANSWER
        again = await bench.post(WORKED)
        assert again.text == WORKED_ANSWER.replace('"deduped": false', '"deduped": true')
        told = heard.get_nowait()
        assert (told.topic, told.body["source_node_id"]) == ("observation", STATION)
        assert heard.empty()
        assert bench.statistics.value(STORED) == bench.statistics.value(DEDUPED) == 1
        latest, observation = await bench.items()
        assert latest["latest_observation_sk"] == observation["sk"] == "OBS#2026-08-06T07:06:40.000000Z#WEATHER"
        assert observation["raw_payload"] == json.loads(WORKED)


async def test_every_answer_has_the_contracts_headers(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        for answer in (await bench.post(WORKED), await bench.post(b"{"), await bench.client.put("/observations")):
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["access-control-allow-origin"] == "*"
            assert answer.headers["access-control-allow-headers"] == "content-type,x-weatherstation-key"
            assert answer.headers["access-control-allow-methods"] == "GET,POST,OPTIONS"


async def test_routes_are_exact(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        for method, path in (("POST", "/observations/"), ("PUT", "/observations"), ("POST", "/observation")):
            answer = await bench.client.request(method, path, headers=WRITE)
            assert answer.status_code == 404
            assert answer.json() == {"ok": False, "error": "route_not_found", "method": method, "path": path}
        options = await bench.client.options("/observations")
        assert (options.status_code, options.text) == (200, '{"ok": true}')


async def test_the_key_is_asked_for_before_the_body_is_read(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        for headers in ({"x-weatherstation-key": "wrong"}, {"authorization": "Bearer wrong"}, {"x-none": ""}):
            answer = await bench.post(b"no json", **headers)
            assert (answer.status_code, answer.text) == (401, '{"ok": false, "error": "unauthorized"}')
        reader = await bench.post(WORKED, authorization="Bearer may look")
        assert reader.status_code == 403
        assert (await bench.post(WORKED, authorization=f"Bearer {STATION_KEY}")).status_code == 200


async def test_b26_a_station_key_only_writes_its_own_station(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        other = await bench.post(body_of(source_node_id="!00000001"), authorization=f"Bearer {STATION_KEY}")
        assert other.status_code == 403
        assert other.json()["error"] == "forbidden_station"
        assert await bench.items("!00000001") == []
        assert bench.statistics.value(REFUSED, error="forbidden_station") == 1


async def test_b7_a_repeat_finishes_what_a_death_left_half_done(data_dir: Path) -> None:
    """Fault B7 and case W6: killed between the observation and LATEST; the repeat is deduped and moves LATEST."""
    path = data_dir / "cloud.db"
    async with cloud(path) as bench:
        await bench.post(body_of(source_ts_utc="1785999940"))
        bench.store.writes_left = 1
        assert (await bench.post(WORKED)).status_code == 503
    async with cloud(path) as bench:
        before = (await bench.get("/observations/latest", stationId=STATION)).json()["item"]
        assert before["source_ts_utc"] == "2026-08-06T07:05:40.000000Z"
        answer = await bench.post(WORKED)
        assert answer.json()["deduped"] is True
        after = (await bench.get("/observations/latest", stationId=STATION)).json()["item"]
        assert after["source_ts_utc"] == "2026-08-06T07:06:40.000000Z"


async def test_b7_latest_is_made_from_the_stored_observation_not_from_the_repeat(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        await bench.post(body_of(msg_id=1, weather={"air_temp_c": 10}))
        await bench.post(body_of(msg_id=2, weather={"air_temp_c": 20}))
        latest, observation = await bench.items()
        assert latest["weather"] == observation["weather"] == {"air_temp_c": 10, "uv_index": 1.25}
        assert latest["msg_id"] == 1


async def test_older_observations_do_not_move_latest_back(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        await bench.post(body_of(source_ts_utc="1786000060"))
        await bench.post(body_of(source_ts_utc="1786000000"))
        latest, *observations = await bench.items()
        assert latest["source_ts_utc"] == "2026-08-06T07:07:40.000000Z"
        assert len(observations) == 2


async def test_a_batch_answers_each_payload_as_the_single_route_would(data_dir: Path) -> None:
    payloads = [
        body_of()["payload"],
        body_of(source_ts_utc=1786000060)["payload"],
        body_of()["payload"],
        body_of(msg_id=None)["payload"],
        5,
        None,
        body_of(source_node_id="!00000001")["payload"],
    ]
    async with cloud(data_dir / "one.db") as bench:
        single = [await bench.post({"payload": payload}, authorization=f"Bearer {STATION_KEY}") for payload in payloads]
    async with cloud(data_dir / "many.db") as bench:
        answer = await bench.client.post(
            "/observations/batch",
            content=msgspec.json.encode({"payloads": payloads}),
            headers={"authorization": f"Bearer {STATION_KEY}"},
        )
        assert answer.status_code == 200
        results = answer.json()["results"]
        assert results == [{"status": one.status_code, **one.json()} for one in single]
        latest, *observations = await bench.items()
        assert latest["source_ts_utc"] == "2026-08-06T07:07:40.000000Z"
        assert observations[0]["raw_payload"] == {"payload": payloads[0]}


async def test_a_batch_is_committed_as_a_group(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        payloads = [body_of(source_ts_utc=1786000000 + n)["payload"] for n in range(300)]
        before = bench.database.commits
        answer = await bench.client.post(
            "/observations/batch", content=msgspec.json.encode({"payloads": payloads}), headers=WRITE
        )
        assert len(answer.json()["results"]) == 300
        assert bench.database.commits - before < 60


async def test_a_batch_that_is_none_is_refused_as_a_whole(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db", settings=CloudSettings(batch_max=2)) as bench:
        for body, status, error in (
            (b"{", 400, "invalid_json"),
            (b"[]", 400, "body_must_be_object"),
            (b"{}", 400, "payloads_must_be_array"),
            (b'{"payloads": {}}', 400, "payloads_must_be_array"),
            (b'{"payloads": [1, 2, 3]}', 413, "batch_too_large"),
        ):
            answer = await bench.client.post("/observations/batch", content=body, headers=WRITE)
            assert (answer.status_code, answer.json()["error"]) == (status, error)


async def test_a_body_over_the_bound_is_413_and_counted(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db", web=WebSettings(body_bytes_max=100)) as bench:
        answer = await bench.post(b" " * 101)
        assert (answer.status_code, answer.json()["error"]) == (413, "body_too_large")
        assert bench.statistics.value(TOO_LARGE) == 1


async def test_an_item_over_the_stores_bound_is_413(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        answer = await bench.post(body_of(weather={"essay": "x" * 500_000}))
        assert (answer.status_code, answer.json()["error"]) == (413, "item_too_large")


async def test_an_integer_beyond_64_bits_is_kept(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        answer = await bench.post(body_of(msg_id=10**30, weather={"big": 10**37}))
        assert answer.json()["msg_id"] == 10**30
        latest = await bench.get("/observations/latest", stationId=STATION)
        assert latest.json()["item"]["weather"]["big"] == 10**37


async def test_problem_details_on_request(data_dir: Path) -> None:
    async with cloud(data_dir / "cloud.db") as bench:
        answer = await bench.post(body_of(msg_id="x"), accept="application/problem+json", **WRITE)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json() == {
            "type": "urn:stormjay:error:validation_failed",
            "title": "Bad Request",
            "status": 400,
            "code": "validation_failed",
            "detail": "payload.msg_id must be an integer",
            "errors": ["payload.msg_id must be an integer"],
        }
