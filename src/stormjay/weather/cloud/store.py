"""Observation and LATEST items over a keyed store (contract weather 6.3), so that any order of arrivals ends alike.

One observation takes two writes. A process killed between them leaves the observation without its LATEST; the sender
hears nothing and sends again, the repeat meets the observation item and moves LATEST from THAT (fault B7, case W6).
LATEST only ever moves to what is at least as new, so order does not matter either.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stormjay.errors import CallerMistake
from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import Clock
from stormjay.ground.keyed.port import KeyedStore, TableSpec
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.weather.cloud.observation import Observation, latest_of, partition_of

TABLE = TableSpec("WeatherObservations", columns={"record_type": "TEXT", "source_ts_sort_utc": "TEXT"})
STATIONS_PARTITION = "STATIONS"
"""Holds one item per station that ever sent; the seed's table has no such list, and a scan would cost too much."""
LATEST_CACHE_MAX = 1000

STORED = Metric("weather_cloud_stored", "counter", "Observations stored.", label="Observations stored")
DEDUPED = Metric(
    "weather_cloud_deduped", "counter", "Observations that were there already.", label="Repeated observations"
)
REFUSED = Metric(
    "weather_cloud_refused", "counter", "Observations refused, by error word.", ("error",), label="Refused observations"
)


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an observation.

    Attributes:
        deduped: It was there already.
    """

    deduped: bool


class Observations:
    """The observation table of all stations."""

    def __init__(
        self,
        store: KeyedStore,
        *,
        clock: Clock,
        statistics: Statistics,
        announcer: Announcer,
        exclusive: bool = True,
    ) -> None:
        """Work on a table.

        Args:
            store: The table, declared as ``TABLE``.
            clock: Stamps what is written.
            statistics: Where stored and repeated observations are counted.
            announcer: Told of each newly stored observation, topic ``observation``.
            exclusive: Nobody else writes to the table, so that the latest items may be kept in memory.
        """
        self.store = store
        self._clock = clock
        self._statistics = statistics
        self._announcer = announcer
        self._exclusive = exclusive
        self._known_stations: set[str] = set()
        self._latest: dict[str, bytes] = {}
        self._latest_writes = 0
        statistics.declare(STORED, DEDUPED, REFUSED)

    def refused(self, error: str) -> None:
        """Count an observation that was refused."""
        self._statistics.add(REFUSED, error=error)

    async def put(self, observations: Sequence[Observation]) -> list[Stored | CallerMistake]:
        """Store observations in one group and bring LATEST up to date; an outcome each, in their order.

        Raises:
            RetryLater: Some may be stored, some not; sending all again is harmless and finishes the work.
        """
        now = timestamps.format_utc(self._clock.now())
        await self._register({observation.station_id for observation in observations})
        outcomes = await asyncio.gather(
            *(self._put_one(observation, now) for observation in observations), return_exceptions=True
        )
        result: list[Stored | CallerMistake] = []
        newest: dict[str, Mapping[str, Any]] = {}
        for outcome in outcomes:
            if isinstance(outcome, CallerMistake):
                result.append(outcome)
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            item, deduped = outcome
            result.append(Stored(deduped=deduped))
            best = newest.get(item["pk"])
            if best is None or best["source_ts_sort_utc"] <= item["source_ts_sort_utc"]:
                newest[item["pk"]] = item
        await asyncio.gather(*(self._move_latest(item, now) for item in newest.values()))
        for observation, done in zip(observations, result, strict=True):
            self._tell(observation, done)
        return result

    async def latest(self, station_id: str) -> bytes | None:
        """Return a station's LATEST item as stored JSON, or None."""
        cached = self._latest.get(station_id)
        if cached is not None:
            return cached
        writes = self._latest_writes
        document = await self.store.get(partition_of(station_id), "LATEST")
        # A write that came between may have made this one old; then it is answered but not kept.
        if document is not None and self._exclusive and writes == self._latest_writes:
            if len(self._latest) >= LATEST_CACHE_MAX:
                self._latest.pop(next(iter(self._latest)))
            self._latest[station_id] = document
        return document

    async def station_ids(self, limit: int) -> list[str]:
        """Return the stations that have sent, by id, at most ``limit``."""
        page = await self.store.query(STATIONS_PARTITION, limit=limit)
        return [key.sort for key in page.keys]

    async def first_seen(self, station_id: str) -> str | None:
        """Return the source time of a station's oldest observation, or None when there is none."""
        page = await self.store.query(partition_of(station_id), "OBS#", "OBS#~", limit=1)
        return page.keys[0].sort.split("#")[1] if page.keys else None

    async def _register(self, station_ids: set[str]) -> None:
        for station_id in station_ids - self._known_stations:
            item = {"pk": STATIONS_PARTITION, "sk": station_id, "record_type": "station"}
            try:
                await self.store.put_if_absent(item)
            except CallerMistake:
                continue  # an id too long for a sort key is refused with the observation, with its reason
            if len(self._known_stations) < LATEST_CACHE_MAX:
                self._known_stations.add(station_id)

    async def _put_one(self, observation: Observation, now: str) -> tuple[Mapping[str, Any], bool]:
        item = {**observation.item, "ingested_at_utc": now}
        if await self.store.put_if_absent(item):
            return item, False
        document = await self.store.get(observation.partition, observation.sort)
        if document is None:  # removed since; then this one is the first again
            return await self._put_one(observation, now)
        return json.loads(document), True

    async def _move_latest(self, item: Mapping[str, Any], now: str) -> None:
        try:
            await self.store.put_if_newer(latest_of(item, now), "source_ts_sort_utc")
        finally:  # an error may still mean that it was written
            self._latest_writes += 1
            self._latest.pop(item["source_node_id"], None)

    def _tell(self, observation: Observation, done: Stored | CallerMistake) -> None:
        if isinstance(done, CallerMistake):
            self.refused(done.code)
        elif done.deduped:
            self._statistics.add(DEDUPED)
        else:
            self._statistics.add(STORED)
            self._announcer.announce(
                "observation", source_node_id=observation.station_id, source_ts_utc=observation.source_ts_utc
            )
