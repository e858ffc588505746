"""The real serving side in this process: a SQLite file, the whole web application, and a client without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec

from stormjay.errors import RetryLater
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import Clock, ManualClock
from stormjay.ground.keyed.port import Document, KeyedStore
from stormjay.ground.keyed.sqlite import SqliteKeyedStore, migration
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web.app import WebApp, WebSettings, create_app
from stormjay.ground.web.health import Health
from stormjay.ground.web.tokens import READ, WEATHER_WRITE, Token, Tokens
from stormjay.weather.cloud.routes import routes
from stormjay.weather.cloud.serving import Cloud, CloudSettings
from stormjay.weather.cloud.store import TABLE, Observations
from stormjay.weather.stations import Stations

START = datetime(2026, 8, 6, 8, tzinfo=UTC)
SECRET = "the shared secret of all homes"
STATION_KEY = "the key of one station"
STATION = "!5c32d4d9"
WRITE = {"x-weatherstation-key": SECRET}
TOKENS = (
    Token(name="shared", secret=SECRET, scopes=(WEATHER_WRITE,)),
    Token(name="garden", secret=STATION_KEY, scopes=(WEATHER_WRITE,), station=STATION),
    Token(name="reader", secret="may look", scopes=(READ,)),
)


class KilledError(RetryLater):
    """The process ends here; what was not written is not written, and nobody gets an answer that counts."""


class DyingStore:
    """Passes everything on to a store until the write that is not to happen any more.

    Attributes:
        writes_left: How many writes still happen; None is no end.
        dies_before: Beginning of the sort key whose writing never happens; None is none.
    """

    def __init__(self, store: KeyedStore, *, writes_left: int | None = None, dies_before: str | None = None) -> None:
        self._store = store
        self.writes_left = writes_left
        self.dies_before = dies_before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _one_write(self, document: Document) -> None:
        if self.writes_left == 0 or (self.dies_before and str(document["sk"]).startswith(self.dies_before)):
            self.writes_left = 0
            raise KilledError("killed between two writes")
        if self.writes_left is not None:
            self.writes_left -= 1

    async def put_if_absent(self, document: Document) -> bool:
        self._one_write(document)
        return await self._store.put_if_absent(document)

    async def put_if_newer(self, document: Document, attribute: str) -> bool:
        self._one_write(document)
        return await self._store.put_if_newer(document, attribute)


@dataclass
class CloudBench:
    """All parts of one serving side."""

    app: WebApp
    database: Database
    client: httpx.AsyncClient
    store: DyingStore
    observations: Observations
    statistics: Statistics
    announcer: Announcer
    health: Health

    async def post(self, body: Mapping[str, Any] | bytes, **headers: str) -> httpx.Response:
        """Post a body with the shared secret, or with the headers given."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.client.post("/observations", content=content, headers=headers or WRITE)

    async def get(self, path: str, **parameters: Any) -> httpx.Response:
        """Get a path; ``from_`` stands for ``from``."""
        query = {name.rstrip("_"): value for name, value in parameters.items()}
        return await self.client.get(path, params=query)

    async def items(self, station_id: str = STATION) -> list[dict[str, Any]]:
        """Return all stored items of a station, LATEST too, by sort key."""
        page = await self.store.query(f"STATION#{station_id}", limit=10_000)
        return [msgspec.json.decode(document) for document in page.documents]


@asynccontextmanager
async def cloud(
    path: Path,
    *,
    clock: Clock | None = None,
    stations: Stations | None = None,
    settings: CloudSettings | None = None,
    web: WebSettings | None = None,
    public: tuple[str, ...] = (READ,),
    synchronous: str = "NORMAL",
) -> AsyncIterator[CloudBench]:
    """Open the file and serve it; closing leaves the file as a stopped process does."""
    clock = clock or ManualClock(START)
    database = await Database.open(path, [migration(TABLE)], clock=clock, synchronous=synchronous)
    try:
        store = DyingStore(SqliteKeyedStore(database, TABLE))
        statistics, announcer, health = Statistics(), Announcer(), Health(clock)
        observations = Observations(store, clock=clock, statistics=statistics, announcer=announcer)
        serving = Cloud(observations, settings=settings or CloudSettings(), stations=stations or {}, clock=clock)
        tokens = Tokens(TOKENS, public=public)
        app = create_app(
            route_handlers=routes(serving, tokens),
            settings=web or WebSettings(),
            tokens=tokens,
            statistics=statistics,
            health=health,
            announcer=announcer,
            clock=clock,
        )
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://cloud") as client:
            yield CloudBench(app, database, client, store, observations, statistics, announcer, health)
    finally:
        await database.close()


def body_of(**payload: Any) -> dict[str, Any]:
    """Return a valid request body, with members replaced or, by ``None`` in ``weather``, taken away."""
    weather = {"air_temp_c": 22.0, "uv_index": 1.25, **payload.pop("weather", {})}
    return {
        "payload": {
            "source_node_id": STATION,
            "msg_id": 9,
            "source_ts_utc": "1786000000",
            "received_at_utc": "2026-08-06T07:06:41.5Z",
            "weather": {name: value for name, value in weather.items() if value is not None},
            **payload,
        }
    }
