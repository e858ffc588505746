"""Delivery in batches over a real socket, and what happens where the far side takes none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.servers.api import Answer, Request, serve
from tests.unit.delivery_bench import START, open_bench

from stormjay.ground.clock import ManualClock
from stormjay.ground.outbox.port import Delivered, Outcome, TryLater, Unavailable
from stormjay.weather.delivery_http import DeliverySettings, HttpSender

pytestmark = pytest.mark.anyio

CAPTIVE = Answer(200, b"<html>Welcome to the hotel</html>", {"content-type": "text/html"})
SINGLES = {"batch_size": 1}


def _batch(request: Request, each: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
    assert request.path == "/observations/batch"
    results = [each(one) for one in request.json["payloads"]]
    return Answer(200, json.dumps({"ok": True, "results": results}).encode())


async def test_a_backlog_goes_in_batches_and_results_count_one_by_one(tmp_path: Path) -> None:
    def each(one: dict[str, Any]) -> dict[str, Any]:
        second = int(one["source_ts_utc"]) - 1741985112
        if second == 2:
            return {"status": 400, "ok": False, "error": "validation_failed"}
        if second == 5:
            return {"status": 503, "ok": False, "error": "busy"}
        return {"status": 200, "ok": True, "deduped": second == 3}

    async with open_bench(tmp_path) as bench, serve(lambda request: _batch(request, each)) as api:
        await bench.add(10)
        await (await bench.delivery(api.url, batch_size=4)).drain()
        states = await bench.states()
        assert [states.pop(5), states.pop(2)] == [("retry", 1), ("failed", 1)]
        assert set(states) == {("delivered", 0)}
        assert len(api.requests) == 3
        assert "AWS API HTTP 400: " in (await bench.rows())[2]["last_error"]


async def test_a_far_side_without_batch_route_gets_single_posts_and_is_asked_again(tmp_path: Path) -> None:
    async with (
        open_bench(tmp_path) as bench,
        serve(lambda request: Answer(404) if request.path.endswith("/batch") else Answer()) as api,
    ):
        await bench.add(5)
        delivery = await bench.delivery(api.url, batch_retry_seconds=600)
        await delivery.drain()
        assert api.paths == ["/observations/batch", *["/observations"] * 5]
        assert await bench.states() == [("delivered", 0)] * 5
        await bench.add(5)
        await delivery.drain()
        assert api.paths.count("/observations/batch") == 1
        await bench.clock.advance(600)
        await bench.add(2)
        await delivery.drain()
        assert api.paths.count("/observations/batch") == 2


async def test_a_batch_that_is_too_large_is_halved(tmp_path: Path) -> None:
    def handler(request: Request) -> Answer:
        if request.path.endswith("/batch") and len(request.json["payloads"]) > 3:
            return Answer(413)
        return _batch(request, lambda _: {"ok": True}) if request.path.endswith("/batch") else Answer()

    async with open_bench(tmp_path) as bench, serve(handler) as api:
        await bench.add(8)
        delivery = await bench.delivery(api.url, batch_size=6, concurrency=1)
        await delivery.drain()
        assert await bench.states() == [("delivered", 0)] * 8
        await bench.add(6)
        await delivery.drain()
        assert await bench.states() == [("delivered", 0)] * 14
        assert api.paths[-2:] == ["/observations/batch"] * 2


async def test_what_befalls_a_batch_befalls_all_its_items() -> None:
    cases: list[tuple[Answer, Outcome]] = [
        (Answer(503, b"busy"), TryLater("AWS API HTTP 503: busy")),
        (Answer(401, b"no"), TryLater("AWS API HTTP 401: no")),
        (CAPTIVE, TryLater("AWS API HTTP 200: <html>Welcome to the hotel</html>")),
        (Answer(hang=True), Unavailable("AWS API timeout")),
    ]
    waiting = iter(cases)
    async with serve(lambda _: next(waiting)[0]) as api, _sender(api.url) as sender:
        for _, expected in cases:
            assert await sender.send([b"{}"] * 3) == [expected] * 3
        assert set(api.paths) == {"/observations/batch"}


async def test_a_batch_that_is_not_understood_means_single_posts() -> None:
    bodies = [json.dumps({"ok": True, "results": results}).encode() for results in ([], [{"ok": True}], "x", None)]
    answers = [*(Answer(200, body) for body in bodies), *(Answer(status) for status in (404, 405, 400, 422))]
    for answer in answers:
        wrong = answer
        async with (
            serve(lambda request: wrong if request.path.endswith("/batch") else Answer()) as api,  # noqa: B023 - used before the next turn
            _sender(api.url) as sender,
        ):
            assert await sender.send([b"{}"] * 2) == [Delivered()] * 2
            assert sender.batch_max == 1


async def test_once_nobody_answers_the_rest_of_a_group_is_not_posted() -> None:
    def handler(request: Request) -> Answer:
        return Answer(404) if request.path.endswith("/batch") else Answer(cut=0)

    async with serve(handler) as api, _sender(api.url) as sender:
        outcomes = await sender.send([b"{}"] * 50)
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert len(api.requests) <= 1 + 2


def _sender(url: str) -> HttpSender:
    settings = DeliverySettings(api_url=url, timeout_seconds=0.5, concurrency=2)
    return HttpSender(settings, clock=ManualClock(START))
