"""Stage ``ingest``: bodies go through the real route into a real SQLite file; what lies there is judged.

After the stage ``outbox`` the bodies are those that it posted (``context["posts"]``), attempt by attempt. A process
that dies between its writes is ended and a new one opened on the file that it left.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from stormjay.ground import timestamps
from stormjay.ground.clock import ManualClock
from stormjay.weather.fields import BY_CLOUD
from tests.cases.judging import MISSING, CannotDrive, Verdict, compare, judge_by
from tests.servers.cloud import STATION, CloudBench, body_of, cloud

KNOWN = {
    "stage", "note", "because", "then", "clock_utc", "latest_before", "body", "events", "bodies_in_order_of_arrival",
    "observation_times",
}  # fmt: skip
OF_OTHERS = {"start_time_values", "rows", "cycles", "seconds_between_cycles"}
EVENT_KNOWN = {"attempt", "dies", "lost", "body", "ingest", "ingest_dies", "client_sees", "note", "because"}
DIES_BEFORE = {"before_latest": "LATEST", "before_observation": "OBS#"}
AFTER_ALL_WRITES = {"before_answer", "before_ack"}
LATEST_PLAUSIBLE = "2100-01-01T00:00:00Z"
ITEM_NAMES = {
    "pk", "sk", "record_type", "observation_type", "source_node_id", "source_name", "msg_id", "source_ts_utc",
    "source_ts_raw", "source_ts_sort_utc", "received_at_utc", "latest_observation_sk", "updated_at_utc", "weather",
}  # fmt: skip


def drive(given: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Send everything in its order; return the answers and what is stored then.

    Raises:
        CannotDrive: A part of ``given`` is not understood.
    """
    combined = given.get("stage") != "ingest"
    for key in given:
        if key not in KNOWN and not (combined and key in OF_OTHERS):
            raise CannotDrive(key)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_Drive(given, context, Path(folder) / "cloud.db").run())


class _Drive:
    """One run on a file of its own."""

    def __init__(self, given: dict[str, Any], context: dict[str, Any], path: Path) -> None:
        self._given = given
        self._posted = [post["body"] for post in context.get("posts", [])]
        self._path = path
        self._clock = ManualClock(_clock_of(given))
        self._attempts: dict[str, dict[str, Any]] = {}
        self._answers: list[dict[str, Any]] = []
        self._times: list[Any] = []
        self._station = STATION
        self._before_sk = ""
        """Of the observation behind ``latest_before``; it is not one of the case's."""

    async def run(self) -> dict[str, Any]:
        """Return everything that can be judged."""
        await self._before()
        await self._events()
        async with self._process() as bench:
            for body in self._given.get("bodies_in_order_of_arrival", []):
                self._answers.append(await _sent(bench, self._whole(body)))
            for number, moment in enumerate(self._given.get("observation_times", [])):
                # A station each, so that none is the repeat of another.
                answer = await _sent(bench, body_of(source_node_id=f"!{number:08x}", source_ts_utc=moment))
                self._times.append(answer.get("source_ts_utc", str(answer["status"])))
            return await self._state(bench)

    def _process(self) -> contextlib.AbstractAsyncContextManager[CloudBench]:
        return cloud(self._path, clock=self._clock)

    async def _before(self) -> None:
        if "latest_before" in self._given:
            body = self._whole({**_payload(self._given.get("body", {})), "source_ts_utc": self._given["latest_before"]})
            async with self._process() as bench:
                answer = await _sent(bench, body)
                if answer["status"] != 200:
                    raise CannotDrive("latest_before")
                self._before_sk = answer["observation_sk"]

    async def _events(self) -> None:
        for number, event in enumerate(self._given.get("events", [])):
            for key in event:
                if key not in EVENT_KNOWN:
                    raise CannotDrive(f"events.{key}")
            given_body = event["body"] if isinstance(event.get("body"), dict) else self._given.get("body")
            body = self._posted[number] if number < len(self._posted) else given_body
            if not isinstance(body, dict):
                raise CannotDrive("body")
            self._attempts[str(event.get("attempt", number + 1))] = await self._attempt(event, self._whole(body))

    async def _attempt(self, event: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        dies = event.get("dies")
        if dies is not None and dies not in {*DIES_BEFORE, *AFTER_ALL_WRITES}:
            raise CannotDrive(f"events.dies ({dies})")
        async with self._process() as bench:
            bench.store.dies_before = DIES_BEFORE.get(dies) if dies else None
            answer = await _sent(bench, body)
        return {"timeout": True} if dies or event.get("lost") else answer

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the request body of what a case gives of it."""
        payload = _payload(body)
        self._station = payload.get("source_node_id", self._station)
        weather = payload.get("weather", {"air_temp_c": 6.2})
        whole = body_of(source_node_id=self._station, received_at_utc=timestamps.format_utc(self._clock.now()))
        whole["payload"].update({**payload, "weather": weather})
        return whole

    async def _state(self, bench: CloudBench) -> dict[str, Any]:
        items = await bench.items(self._station)
        observations = [
            item for item in items if item["record_type"] == "observation" and item["sk"] != self._before_sk
        ]
        latest = (await bench.get("/observations/latest", stationId=self._station)).json().get("item")
        ranged = await bench.get(
            "/observations", stationId=self._station, from_="0", to="9999-12-31T23:59:59Z", limit=1000, order="asc"
        )
        return {
            "attempts": self._attempts,
            "answers": self._answers,
            "observation_times_utc": self._times,
            "observation_items": len(observations),
            "sort_keys_by_msg_id": {str(item["msg_id"]): item["sk"] for item in observations},
            "range_ascending_msg_ids": [item["msg_id"] for item in ranged.json()["items"]],
            "latest": None if latest is None else {**latest["weather"], **latest},
            "latest_msg_id": None if latest is None else latest["msg_id"],
            "statuses_in_order_of_arrival": [answer["status"] for answer in self._answers],
            "deduped_in_order_of_arrival": [answer.get("deduped") for answer in self._answers],
        }


def _payload(body: dict[str, Any]) -> dict[str, Any]:
    payload = body.get("payload", body)
    return payload if isinstance(payload, dict) else {}


async def _sent(bench: CloudBench, body: dict[str, Any]) -> dict[str, Any]:
    answer = await bench.post(body)
    return {"status": answer.status_code, **answer.json()}


def _clock_of(given: dict[str, Any]) -> datetime:
    """Return when all this happens: what the case says, else the newest time that it names."""
    if "clock_utc" in given:
        return timestamps.to_datetime(timestamps.to_epoch_us(given["clock_utc"]))
    payloads = [_payload(body) for body in (given.get("body") or {}, *given.get("bodies_in_order_of_arrival", []))]
    received = [payload["received_at_utc"] for payload in payloads if payload.get("received_at_utc")]
    named = received or [payload.get("source_ts_utc") for payload in payloads] + given.get("observation_times", [])
    moments = []
    for value in named:
        with contextlib.suppress(timestamps.TimestampError):
            moments.append(timestamps.to_epoch_us(value))
    bound = timestamps.to_epoch_us(LATEST_PLAUSIBLE)
    newest = max(
        (moment for moment in moments if moment < bound), default=timestamps.to_epoch_us("2026-03-18T09:00:05Z")
    )
    return timestamps.to_datetime(max(newest, timestamps.PLAUSIBLE_FROM_US))


def judge(expect: dict[str, Any], actual: dict[str, Any]) -> list[Verdict]:
    """Judge the keys that are about answers of ingest and what is stored."""
    judges = {
        key: _same(key, actual[key])
        for key in expect
        if key in actual and key not in {"attempts", "answers", "latest", "sort_keys_by_msg_id"}
    }
    judges["latest"] = lambda wanted: compare(
        "latest", wanted, actual["latest"], names=ITEM_NAMES | set(BY_CLOUD) | {"timestamp"}
    )
    judges["sort_keys_by_msg_id"] = lambda wanted: [
        *compare("sort_keys_by_msg_id", wanted, actual["sort_keys_by_msg_id"], names=set(wanted))
    ]
    judges["returns_for_every_value"] = lambda wanted: compare("returns_for_every_value", wanted, True)  # noqa: FBT003 - the value
    for key in expect:
        match = re.fullmatch(r"attempt_(\d+)", key)
        if match:
            judges[key] = _judge_attempt(key, actual["attempts"].get(match[1]))
    return judge_by(expect, judges)


def _same(key: str, got: Any) -> Any:
    return lambda wanted: compare(key, wanted, got)


def _judge_attempt(key: str, attempt: dict[str, Any] | None) -> Any:
    names = {
        "status",
        "ok",
        "deduped",
        "error",
        "timeout",
        "msg_id",
        "source_node_id",
        "source_ts_utc",
        "observation_sk",
    }

    def judged(wanted: Any) -> list[Verdict]:
        if attempt is None:
            return [Verdict.fail(key, wanted, MISSING)]
        return compare(key, wanted, attempt, names=names)

    return judged
