"""Stage ``outbox``: rows of a real journal file go through the real relay and sender to a real HTTP server.

The server on a loopback port answers each row as ``given`` says. Handed on in ``context["posts"]``: the bodies that
were posted, in order, for a stage that takes them in. A stage before may leave ``context["ingest"]``, a callable
``(attempt, body) -> (status, body)`` that raises ``TimeoutError`` when nobody answers; then that answers the posts.

A cycle is one look at the queue: everything due is sent until nothing more can be. Between two cycles passes what the
case says, else the poll interval or the time to the next due row, whichever is longer.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Statistics
from stormjay.weather.delivery import Delivery
from stormjay.weather.delivery_http import DeliverySettings
from stormjay.weather.fields import BY_CLOUD
from stormjay.weather.journal_schema import FIRST_QUEUE, MIGRATIONS
from tests.cases import outbox_verdicts
from tests.cases.judging import CannotDrive, joined
from tests.servers.api import Answer, Request, serve

DEFAULT_CLOCK = "2026-03-18T09:00:05Z"
POLL_SECONDS = 5.0
ANSWER_SECONDS = 1.0
CYCLES_MAX = 20
FOR_PEOPLE = {"stage", "note", "because", "then", "ends", "why"}
KNOWN = FOR_PEOPLE | {"clock_utc", "rows", "cycles", "seconds_between_cycles", "body", "events", "latest_before"}
QUEUE_COLUMNS = {"status", "attempt_count", "last_error", "next_attempt_at_utc", "last_attempt_at_utc"}
ROW_KNOWN = FOR_PEOPLE | QUEUE_COLUMNS | {"row", "answer", "answers", "body"}
ANSWER_KNOWN = FOR_PEOPLE | {"status", "body", "headers", "retry_after", "retry_after_s", "location"}
SILENCE = re.compile(r"time[d\- ]?(?:out| out)|no answer|silent", re.IGNORECASE)
BROKEN = re.compile(r"refused|reset|broken|closed|cut|network|disconnect|unreachable|down", re.IGNORECASE)
WORKS = re.compile(r"\A(?:ok|works|accepted|success)", re.IGNORECASE)
READING: dict[str, Any] = {
    "source_node_id": "!b05f00d1",
    "msg_id": 1,
    "received_at_utc": "2026-03-18T09:00:00.000000+00:00",
    "temp_c": 6.2,
    "humidity_pct": 71,
    "pressure_hpa": 1008.4,
    "wind_ms": 2.1,
    "wind_dir_deg": 190,
    "rain_mm": 0.0,
    "raw_payload": "{}",
}
FIRST_TS = 1773820000


def drive(given: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Run the cycles; return the queue after each, and the posts.

    Raises:
        CannotDrive: A part of ``given`` is not understood.
    """
    _only(given, KNOWN, "")
    driven = asyncio.run(_Drive(given, context).run())
    context["posts"] = driven["posts"]
    return driven


class _Drive:
    """One run on a file of its own."""

    def __init__(self, given: dict[str, Any], context: dict[str, Any]) -> None:
        self._given = given
        self._ingest: Callable[[int, dict[str, Any]], tuple[int, dict[str, Any]]] | None = context.get("ingest")
        self._rows: list[dict[str, Any]] = given.get("rows") or [{"row": 1, "body": given.get("body")}]
        for row in self._rows:
            _only(row, ROW_KNOWN, "rows")
        start = datetime.fromisoformat(timestamps.normalise(given.get("clock_utc", DEFAULT_CLOCK)))
        self._clock = ManualClock(start)
        self._posts: list[dict[str, Any]] = []
        self._row_of_ts: dict[str, str] = {}
        self._cycle = 0

    async def run(self) -> dict[str, Any]:
        """Return rows by cycle and posts."""
        cycles = int(self._given.get("cycles", 1))
        after: dict[int, dict[str, dict[str, Any]]] = {}
        with tempfile.TemporaryDirectory() as folder:
            database = await Database.open(
                Path(folder) / "weatherstation.db", MIGRATIONS, clock=self._clock, synchronous="NORMAL"
            )
            try:
                await database.write(self._insert)
                async with serve(self._answer) as api:
                    delivery = await self._delivery(database, api.url)
                    while self._cycle < cycles or self._events_left():
                        self._cycle += 1
                        await delivery.drain()
                        after[self._cycle] = await database.read(self._read)
                        await self._clock.advance(await self._pause(delivery))
            finally:
                await database.close()
        return {"after": after, "posts": self._posts, "rows": after[self._cycle]}

    def _events_left(self) -> bool:
        """Tell whether an attempt that the case speaks of has not been made yet."""
        return len(self._posts) < len(self._given.get("events", ())) and self._cycle < CYCLES_MAX

    async def _delivery(self, database: Database, url: str) -> Delivery:
        # One reading per request: what a case says of an answer, it says of the single route.
        settings = DeliverySettings(api_url=url, timeout_seconds=ANSWER_SECONDS, batch_size=1, api_key="a key")
        parts = {"clock": self._clock, "statistics": Statistics(), "announcer": Announcer()}
        return await Delivery.open(database, FIRST_QUEUE, settings, **parts)  # type: ignore[arg-type]  # see parts

    async def _pause(self, delivery: Delivery) -> float:
        if "seconds_between_cycles" in self._given:
            return float(self._given["seconds_between_cycles"])
        due = await delivery.outbox.next_due()
        until_due = 0.0 if due is None else (due - self._clock.now()).total_seconds()
        return max(POLL_SECONDS, until_due)

    def _insert(self, connection: sqlite3.Connection) -> None:
        for number, row in enumerate(self._rows):
            reading = {**READING, "source_ts_utc": str(FIRST_TS + 60 * number), **_columns(row.get("body"))}
            self._row_of_ts[reading["source_ts_utc"]] = str(row.get("row", number + 1))
            queue = {name: row[name] for name in QUEUE_COLUMNS if name in row}
            queue["reading_id"] = _insert_row(connection, "weather_readings", reading)
            _insert_row(connection, FIRST_QUEUE, queue)

    def _read(self, connection: sqlite3.Connection) -> dict[str, dict[str, Any]]:
        statement = (
            f"SELECT r.source_ts_utc, q.* FROM {FIRST_QUEUE} q "  # noqa: S608 - a constant
            "JOIN weather_readings r ON r.id = q.reading_id ORDER BY q.id"
        )
        rows = [dict(row) for row in connection.execute(statement)]
        return {self._row_of_ts[row["source_ts_utc"]]: row for row in rows}

    def _answer(self, request: Request) -> Answer:
        name = self._row_of_ts[request.json["payload"]["source_ts_utc"]]
        attempt = 1 + sum(post["row"] == name for post in self._posts)
        self._posts.append({"row": name, "attempt": attempt, "cycle": self._cycle, "body": request.json})
        if callable(self._ingest):
            try:
                status, body = self._ingest(attempt, request.json)
            except TimeoutError:
                return Answer(hang=True)
            return Answer(status, json.dumps(body).encode())
        events = self._given.get("events")
        if events:
            return _answer_of_event(events[min(attempt, len(events)) - 1])
        row = next(row for row in self._rows if str(row.get("row")) == name)
        answers = row.get("answers") or [row.get("answer", {"status": 200})]
        return _answer_of(answers[min(attempt, len(answers)) - 1])


def _only(given: dict[str, Any], known: set[str], where: str) -> None:
    for key in given:
        if key not in known:
            raise CannotDrive(joined(where, key))


def _columns(body: Any) -> dict[str, Any]:
    """Return the columns of the reading that a body was made from."""
    if not isinstance(body, dict):
        return {}
    payload = dict(body.get("payload", body))
    weather = payload.pop("weather", {})
    columns = {name: value for name, value in payload.items() if value is not None}
    for name, value in weather.items():
        if name != "timestamp" and name not in BY_CLOUD:
            raise CannotDrive(f"body.payload.weather.{name}")
        columns["weather_timestamp" if name == "timestamp" else BY_CLOUD[name].column] = value
    return columns


def _insert_row(connection: sqlite3.Connection, table: str, values: dict[str, Any]) -> int:
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - constants and column names
    return connection.execute(statement, tuple(values.values())).lastrowid or 0


def _answer_of(answer: Any) -> Answer:
    """Return what the server does for one ``answer`` of a case."""
    if isinstance(answer, int):
        answer = {"status": answer}
    if isinstance(answer, str):
        return _answer_in_words(answer)
    if not isinstance(answer, dict) or "status" not in answer:
        raise CannotDrive("rows.answer")
    _only(answer, ANSWER_KNOWN, "rows.answer")
    status = answer["status"]
    if isinstance(status, str) and not status.isdigit():
        return _answer_in_words(status)
    body = answer.get("body", {"ok": True} if 200 <= int(status) < 300 else "")
    headers = {str(name): str(value) for name, value in answer.get("headers", {}).items()}
    for key, header in (("retry_after", "retry-after"), ("retry_after_s", "retry-after"), ("location", "location")):
        if key in answer:
            headers[header] = str(answer[key])
    return Answer(int(status), (body if isinstance(body, str) else json.dumps(body)).encode(), headers)


def _answer_in_words(words: str) -> Answer:
    if SILENCE.search(words):
        return Answer(hang=True)
    if BROKEN.search(words):
        return Answer(cut=0)
    if WORKS.match(words):
        return Answer(200, b'{"ok": true}')
    raise CannotDrive(f"rows.answer ({words})")


def _answer_of_event(event: dict[str, Any]) -> Answer:
    if "client_sees" in event:
        return _answer_of(event["client_sees"])
    return Answer(200, json.dumps({"ok": True, "deduped": event.get("attempt", 1) > 1}).encode())


judge = outbox_verdicts.judge
