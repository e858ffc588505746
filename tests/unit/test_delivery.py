"""Delivery over a real socket: what counts as delivered, what is final, what is tried again."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.servers.api import Answer, Request, closed_port_url, serve
from tests.unit.delivery_bench import KEY, NODE, START, open_bench

from stormjay.ground.clock import ManualClock
from stormjay.ground.outbox.port import TryLater
from stormjay.ground.outbox.sqlite import SqliteOutbox
from stormjay.weather.delivery_body import COLUMNS, load_payloads, payload
from stormjay.weather.delivery_http import DeliverySettings, HttpSender

pytestmark = pytest.mark.anyio

CAPTIVE = Answer(200, b"<html>Welcome to the hotel</html>", {"content-type": "text/html"})
SINGLES = {"batch_size": 1}


def test_the_body_of_the_contract() -> None:
    """Nulls are dropped on both levels, +00:00 becomes Z, the rest is as stored."""
    row = dict.fromkeys(COLUMNS) | {
        "source_node_id": NODE,
        "msg_id": 17,
        "source_ts_utc": "1741985112",
        "received_at_utc": "2026-03-18T00:45:46.982324+00:00",
        "temp_c": 22.5,
        "humidity_pct": 52.0,
        "pressure_hpa": 1011.4,
        "wind_ms": 3.4,
        "wind_dir_deg": 230,
        "rain_mm": 0.0,
        "wind_gust_ms": float("inf"),
        "precipitation_type": 4,
        "weather_timestamp": 1741985112,
    }
    assert json.loads(payload([row[name] for name in COLUMNS])) == {
        "source_node_id": NODE,
        "msg_id": 17,
        "source_ts_utc": "1741985112",
        "received_at_utc": "2026-03-18T00:45:46.982324Z",
        "weather": {
            "air_temp_c": 22.5,
            "relative_humidity_pct": 52,
            "station_pressure_hpa": 1011.4,
            "wind_avg_ms": 3.4,
            "wind_dir_deg": 230,
            "rain_interval_mm": 0.0,
            "precipitation_type": 4,
            "timestamp": 1741985112,
        },
    }


def test_every_weather_column_is_sent() -> None:
    sent = json.loads(payload([*["x"] * 5, *range(len(COLUMNS) - 5)]))
    assert len(sent["weather"]) == 22
    assert {"precipitation_analysis_type", "nearcast_rain_mm", "timestamp"} <= set(sent["weather"])


async def test_a_reading_is_posted_as_the_seed_does(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, serve(lambda _: Answer()) as api:
        await bench.add(source_name="Garden")
        await (await bench.delivery(api.url + "/prod///")).drain()
        (request,) = api.requests
        assert (request.method, request.path) == ("POST", "/prod/observations")
        assert request.headers["content-type"] == "application/json"
        assert request.headers["x-weatherstation-key"] == KEY
        assert request.json["payload"]["source_name"] == "Garden"
        (row,) = await bench.rows()
        assert (row["status"], row["last_error"], row["delivered_at_utc"]) == (
            "delivered",
            None,
            "2026-03-18 09:00:00",
        )


NO_DELIVERY = {
    "page of a captive portal": CAPTIVE,
    "redirect to a login page": Answer(302, b"", {"location": "/login"}),
    "redirect that keeps the method": Answer(307, b"", {"location": "/other"}),
    "a list": Answer(200, b"[1]"),
    "a word": Answer(200, b"true"),
    "ok is false": Answer(200, b'{"ok": false}'),
    "ok is a text": Answer(200, b'{"ok": "true"}'),
    "no ok": Answer(200, b"{}"),
    "nothing": Answer(200, b""),
    "no content": Answer(204, b""),
    "half a body": Answer(200, b'{"ok": tr'),
    "no text": Answer(200, b"\xff\xfe"),
    "nested without end": Answer(200, b"[" * 60_000),
    "an endless answer": Answer(200, b'{"ok": true, "x": "' + b"x" * 100_000 + b'"}'),
}


async def test_b6_b12_only_an_object_that_says_ok_is_delivery(tmp_path: Path) -> None:
    """Whatever else comes with a 2xx or a redirect, the row waits, with the answer's text."""
    answers = iter(NO_DELIVERY.values())
    async with open_bench(tmp_path) as bench, serve(lambda _: next(answers)) as api:
        await bench.add()
        delivery = await bench.delivery(api.url)
        for attempt, (about, answer) in enumerate(NO_DELIVERY.items(), start=1):
            await delivery.drain()
            (row,) = await bench.rows()
            assert (row["status"], row["attempt_count"]) == ("retry", attempt), about
            assert row["last_error"].startswith(f"AWS API HTTP {answer.status}: "), about
            assert len(row["last_error"]) <= 500
            await bench.clock.advance(1800)
        assert set(api.paths) == {"/observations"}, "no redirect is followed"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(Answer(hang=True), "AWS API timeout", id="no answer"),
        pytest.param(Answer(cut=10), "AWS API network error: ", id="cut in the head"),
        pytest.param(Answer(cut=45), "AWS API network error: ", id="cut in the body"),
        pytest.param(Answer(cut=0), "AWS API network error: ", id="closed"),
    ],
)
async def test_a_broken_line_is_nobodys_fault(answer: Answer, error: str, tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, serve(lambda _: answer) as api:
        await bench.add(3)
        delivery = await bench.delivery(api.url, timeout_seconds=0.5, concurrency=1, **SINGLES)
        await delivery.drain()
        assert await bench.states() == [("pending", 0)] * 3
        assert len(api.requests) == 1, "the breaker stops the others (fault B11)"
        assert delivery.relay.status().reason.startswith(error)


async def test_a_refused_connection_is_nobodys_fault_and_all_goes_on_afterwards(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await bench.add(3)
        delivery = await bench.delivery(closed_port_url())
        await delivery.drain()
        assert await bench.states() == [("pending", 0)] * 3
        assert delivery.relay.status().reason.startswith("AWS API network error: ")
        async with serve(lambda _: Answer()) as api:
            await (await bench.delivery(api.url, **SINGLES)).drain()
        assert await bench.states() == [("delivered", 0)] * 3


async def test_b9_what_the_far_side_calls_invalid_ends(tmp_path: Path) -> None:
    statuses = iter((400, 413, 422))
    async with (
        open_bench(tmp_path) as bench,
        serve(lambda _: Answer(next(statuses), b'{"error":"validation_failed"}')) as api,
    ):
        delivery = await bench.delivery(api.url)
        for _ in range(3):
            await bench.add()
            await delivery.drain()
            await bench.clock.advance(86_400)
        await delivery.drain()
        assert len(api.requests) == 3, "each once"
        assert [entry.error for entry in await delivery.outbox.entries("failed")] == [
            f'AWS API HTTP {status}: {{"error":"validation_failed"}}' for status in (400, 413, 422)
        ]


async def test_everything_else_is_tried_again(tmp_path: Path) -> None:
    statuses = [401, 403, 404, 405, 408, 409, 418, 429, 500, 502, 503, 504]
    waiting = iter(statuses)
    async with open_bench(tmp_path) as bench, serve(lambda _: Answer(next(waiting), b"busy")) as api:
        await bench.add()
        delivery = await bench.delivery(api.url)
        for attempt, status in enumerate(statuses, start=1):
            await delivery.drain()
            (row,) = await bench.rows()
            assert (row["status"], row["attempt_count"]) == ("retry", attempt)
            wait = timedelta(seconds=(30, 120, 600, 1800)[min(attempt, 4) - 1])
            assert row["next_attempt_at_utc"] == (bench.clock.now() + wait).isoformat(timespec="microseconds")
            assert row["last_error"] == f"AWS API HTTP {status}: busy"
            await bench.clock.advance(wait.total_seconds())


async def test_retry_after_is_understood() -> None:
    headers = {
        None: None,
        "120": 120.0,
        "Wed, 18 Mar 2026 09:01:40 GMT": 100.0,
        "Wed, 18 Mar 2026 08:00:00 GMT": 0.0,
        "soon": None,
        "-5": None,
    }
    waiting = iter(headers)

    def handler(_: Request) -> Answer:
        header = next(waiting)
        return Answer(429, b"", {} if header is None else {"retry-after": header})

    async with serve(handler) as api, _sender(api.url) as sender:
        for seconds in headers.values():
            assert await sender.send([b"{}"]) == [TryLater("AWS API HTTP 429: ", seconds)]


async def test_the_secret_is_in_no_log_line(tmp_path: Path) -> None:
    answers = [CAPTIVE, Answer(401, b"no"), Answer(hang=True), Answer(400, b"bad")]
    waiting = iter(answers * 3)
    async with open_bench(tmp_path) as bench, serve(lambda _: next(waiting)) as api:
        with capture_logs() as lines:
            for _ in answers:
                await bench.add()
                await (await bench.delivery(api.url, timeout_seconds=0.5)).drain()
                await bench.clock.advance(3600)
        assert len(lines) >= 4
        assert KEY not in json.dumps(lines, default=str)


async def test_connections_are_few_and_kept(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, serve(lambda _: Answer()) as api:
        await bench.add(60)
        await (await bench.delivery(api.url, concurrency=4, **SINGLES)).drain()
        assert await bench.states() == [("delivered", 0)] * 60
        assert api.connections <= 4


async def test_two_destinations_of_one_file_do_not_touch_each_other(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench, serve(lambda _: Answer()) as api:
        await bench.add(2)
        await bench.database.write(
            lambda connection: connection.execute(
                "CREATE TABLE delivery_queue_copy AS SELECT * FROM aws_delivery_queue"
            )
        )
        other = await SqliteOutbox.open(
            bench.database, "delivery_queue_copy", load_payloads, destination="copy", clock=bench.clock
        )
        await (await bench.delivery(api.url)).drain()
        assert (await other.counts()).pending == 2
        assert len(await other.claim(9)) == 2


def _sender(url: str) -> HttpSender:
    settings = DeliverySettings(api_url=url, timeout_seconds=0.5, concurrency=2)
    return HttpSender(settings, clock=ManualClock(START))
