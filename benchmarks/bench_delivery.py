"""Delivery of a backlog over a link with 100 ms answers: one reading per request, and batches, against the seed's way.

The seed's worker is rebuilt in its essence: one row at a time, a request on a new connection, then a commit on a new
connection to the file. The server runs in a process of its own and answers each request 100 ms after it came.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import sqlite3
import tempfile
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import structlog

from benchmarks.table import Row
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import SystemClock
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Statistics
from stormjay.weather.delivery import Delivery
from stormjay.weather.delivery_body import COLUMNS, payload
from stormjay.weather.delivery_http import DeliverySettings
from stormjay.weather.journal_schema import FIRST_QUEUE, MIGRATIONS

ANSWER_SECONDS = 0.1
BACKLOG = 10_080
"""A week of minutes; for the single posts a fifth of it, which takes several seconds as well."""
SINGLES = BACKLOG // 5
SEED_ROWS = 40
START = datetime(2026, 3, 18, tzinfo=UTC)


class _Answers(asyncio.Protocol):
    """Just enough HTTP/1.1 to answer posts of known length, late."""

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self._data) < end + 4 + length:
                return
            body = self._data[end + 4 : end + 4 + length]
            self._data = self._data[end + 4 + length :]
            asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._answer, b"/batch" in head[:100], body)

    def _answer(self, batch: bool, body: bytes) -> None:  # noqa: FBT001 - called back by place
        answer = b'{"ok":true,"deduped":false}'
        if batch:
            number = len(json.loads(body)["payloads"])
            answer = b'{"ok":true,"results":[%b]}' % b",".join([answer] * number)
        if isinstance(self._transport, asyncio.Transport) and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer))


def _server(port: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Answers, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def _journal(path: Path, number: int) -> Database:
    database = await Database.open(path, MIGRATIONS, clock=SystemClock())

    def fill(connection: sqlite3.Connection) -> None:
        for minute in range(number):
            moment = START + timedelta(minutes=minute)
            reading = connection.execute(
                "INSERT INTO weather_readings (source_node_id, msg_id, source_ts_utc, received_at_utc, temp_c, "
                "humidity_pct, pressure_hpa, wind_ms, wind_dir_deg, rain_mm, wind_gust_ms, illuminance_lux, "
                "uv_index, battery_voltage_v, raw_payload) VALUES ('!5c32d4d9', ?, ?, ?, 22.5, 52, 1011.4, 3.4, 230, "
                "0, 5.1, 52000, 3.2, 2.61, '{}')",
                (minute, str(int(moment.timestamp())), moment.isoformat()),
            )
            connection.execute("INSERT INTO aws_delivery_queue (reading_id) VALUES (?)", (reading.lastrowid,))

    await database.write(fill)
    return database


async def _ours(url: str, number: int, batch_size: int) -> float:
    """Return readings per second."""
    with tempfile.TemporaryDirectory() as folder:
        database = await _journal(Path(folder) / "weatherstation.db", number)
        parts = {"clock": SystemClock(), "statistics": Statistics(), "announcer": Announcer()}
        settings = DeliverySettings(api_url=url, batch_size=batch_size)
        delivery = await Delivery.open(database, FIRST_QUEUE, settings, **parts)  # type: ignore[arg-type]  # see parts
        begin = time.perf_counter()
        await delivery.drain()
        rate = number / (time.perf_counter() - begin)
        left = await delivery.outbox.claim(1)
        await database.close()
        assert not left, "something was not delivered"
        return rate


def _seeds(url: str) -> float:
    """Return readings per second of the seed's worker."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weatherstation.db"

        async def fill() -> None:
            await (await _journal(path, SEED_ROWS)).close()

        asyncio.run(fill())
        begin = time.perf_counter()
        for _ in range(SEED_ROWS):
            connection = sqlite3.connect(path)
            row = connection.execute(
                f"SELECT q.id, {', '.join('r.' + name for name in COLUMNS)} FROM aws_delivery_queue q "  # noqa: S608 - names
                "JOIN weather_readings r ON r.id = q.reading_id WHERE q.status IN ('pending', 'retry') "
                "ORDER BY q.id LIMIT 1"
            ).fetchone()
            connection.close()
            request = urllib.request.Request(f"{url}/observations", b'{"payload":%b}' % payload(row[1:]))  # noqa: S310 - loopback
            with urllib.request.urlopen(request, timeout=15) as answer:  # noqa: S310 - loopback
                answer.read()
            connection = sqlite3.connect(path)
            connection.execute("UPDATE aws_delivery_queue SET status = 'delivered' WHERE id = ?", (row[0],))
            connection.commit()
            connection.close()
        return SEED_ROWS / (time.perf_counter() - begin)


def run() -> list[Row]:
    """Measure the three ways in one run."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    parent, child = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_server, args=(child,), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{parent.recv()}"
        seeds = _seeds(url)
        ours = partial(_ours, url)
        single = asyncio.run(ours(SINGLES, 1))
        batch = asyncio.run(ours(BACKLOG, 500))
    finally:
        server.terminate()
        server.join()
        structlog.reset_defaults()
    peer = "the seed's worker"
    return [
        Row("backlog delivered, one reading per request, 100 ms answers", single, peer, seeds, "readings/s", 25),
        Row(
            f"backlog of {BACKLOG:,} delivered by the batch route, 100 ms answers",
            batch,
            peer,
            seeds,
            "readings/s",
            300,
        ),
    ]
