"""What the routes of the serving side do: examine, store, and answer, for one table of observations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from stormjay.errors import BadRequest, CallerMistake, Forbidden, NotFound, SettingsError, TooLarge
from stormjay.ground import timestamps
from stormjay.ground.clock import Clock
from stormjay.ground.web.answer import Answer, etag_of, tagged
from stormjay.ground.web.envelope import problem_of
from stormjay.ground.web.query import Query
from stormjay.ground.web.tokens import Principal
from stormjay.weather.cloud.observation import Observation, Refusal, observe, parse_body, rules
from stormjay.weather.cloud.read import History, TokenSeal, history_query
from stormjay.weather.cloud.store import Observations, Stored
from stormjay.weather.fields import Range, ranges
from stormjay.weather.stations import Stations, station_of

_CACHED_ANSWERS_MAX = 1000
_STATIONS_MAX = 1000


class CloudSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the serving side.

    Attributes:
        batch_max: Most payloads in one batch.
        sample_window_max: Most observations that a sampled range may hold.
        bucket_window_max: Most observations that a bucketed range may hold.
        ranges: Widened ranges by column, from ``[weather.ranges]``.
        token_key: Seals the tokens of paging; the same in every process that serves the same API. Any text, or none.
    """

    batch_max: int = 1000
    sample_window_max: int = 50_000
    bucket_window_max: int = 100_000
    ranges: dict[str, Range] = {}
    token_key: str = ""


class Cloud:
    """The routes' common parts."""

    def __init__(
        self,
        observations: Observations,
        *,
        settings: CloudSettings,
        stations: Stations,
        clock: Clock,
    ) -> None:
        """Serve a table of observations.

        Args:
            observations: The table.
            settings: See ``CloudSettings``.
            stations: What the settings know of stations, checked.
            clock: Judges source times.

        Raises:
            SettingsError: A widened range has no such column or is reversed.
        """
        self._observations = observations
        self._settings = settings
        self._stations = stations
        self._clock = clock
        self._seal = TokenSeal(settings.token_key.encode())
        try:
            self.rules = rules(ranges(settings.ranges))
        except (KeyError, ValueError) as error:
            raise SettingsError("weather_ranges", f"[weather.ranges]: {error}") from error
        self._history = History(
            observations.store,
            clock=clock,
            seal=self._seal,
            zones={station_id: station.zone for station_id, station in stations.items() if station.zone is not None},
            sample_window_max=settings.sample_window_max,
            bucket_window_max=settings.bucket_window_max,
        )
        self._latest_answers: dict[str, tuple[bytes, Answer, bytes]] = {}

    async def ingest(self, body: bytes, principal: Principal) -> dict[str, Any]:
        """Store the observation of a body; return the answer's content.

        Raises:
            CallerMistake: The body is no valid observation, or of a station that this key may not write.
        """
        request = parse_body(body)
        outcome: Observation | CallerMistake
        if isinstance(request, Refusal):
            outcome = self._refused(request)
        else:
            outcome = self._examined(request, principal, self._now_us())
        if isinstance(outcome, CallerMistake):
            raise outcome
        done = (await self._observations.put([outcome]))[0]
        if isinstance(done, CallerMistake):
            raise done
        return _ingested(outcome, done)

    async def ingest_batch(self, body: bytes, principal: Principal) -> dict[str, Any]:
        """Store the observations of a body in one group; return the answer's content, a result per payload.

        Raises:
            CallerMistake: The body as a whole is no batch.
        """
        request = parse_body(body)
        if isinstance(request, Refusal):
            raise self._refused(request)
        payloads = request.get("payloads")
        if not isinstance(payloads, list):
            raise self._refused(Refusal(error="payloads_must_be_array"))
        if len(payloads) > self._settings.batch_max:
            raise TooLarge("batch_too_large", f"a batch may have {self._settings.batch_max} payloads")
        now_us = self._now_us()
        examined = [self._examined({"payload": payload}, principal, now_us) for payload in payloads]
        valid = [outcome for outcome in examined if isinstance(outcome, Observation)]
        done = iter(await self._observations.put(valid))
        results = [
            _result(outcome, next(done) if isinstance(outcome, Observation) else outcome) for outcome in examined
        ]
        return {"ok": True, "results": results}

    async def latest(self, scope: Mapping[str, Any]) -> Answer:
        """Return a station's newest observation; ``scope`` is the request's ASGI scope.

        Raises:
            BadRequest: ``missing_stationId``.
            NotFound: The station never sent.
        """
        station_id = Query(scope["query_string"]).first("stationId")
        if not station_id:
            raise BadRequest("missing_stationId")
        document = await self._observations.latest(station_id)
        if document is None:
            raise NotFound("not_found")
        made = self._latest_answers.get(station_id)
        if made is None or made[0] is not document:
            body = b'{"ok": true, "item": %b}' % document
            etag = etag_of(body)
            made = (document, Answer(body, headers=((b"etag", etag),)), etag)
            if len(self._latest_answers) >= _CACHED_ANSWERS_MAX:
                self._latest_answers.pop(next(iter(self._latest_answers)))
            self._latest_answers[station_id] = made
        return tagged(scope, made[1], made[2])

    async def history(self, query_string: bytes) -> bytes:
        """Return the body of a history answer.

        Raises:
            BadRequest: What is asked for is wrong.
        """
        return await self._history.answer(history_query(Query(query_string), self._seal))

    async def stations(self) -> bytes:
        """Return the body of the list of stations; what is configured comes with or without observations."""
        sent = await self._observations.station_ids(_STATIONS_MAX)
        listed = [await self._station(station_id) for station_id in sorted({*self._stations, *sent})[:_STATIONS_MAX]]
        shown = [station for station in listed if station is not None]
        return msgspec.json.encode({"ok": True, "count": len(shown), "stations": shown})

    async def _station(self, station_id: str) -> dict[str, Any] | None:
        facts = station_of(self._stations, station_id)
        document = await self._observations.latest(station_id)
        first_seen = await self._observations.first_seen(station_id)
        if first_seen is None and station_id not in self._stations:
            return None
        latest = json.loads(document) if document is not None else {}
        return {
            "id": station_id,
            "name": facts.name or latest.get("source_name"),
            "elevation_m": facts.elevation_m,
            "time_zone": facts.time_zone,
            "latitude": facts.latitude,
            "longitude": facts.longitude,
            "first_seen_utc": first_seen,
            "last_seen_utc": latest.get("source_ts_utc"),
            "latest": None if document is None else msgspec.Raw(document),
        }

    def _examined(self, request: Mapping[str, Any], principal: Principal, now_us: int) -> Observation | CallerMistake:
        outcome = observe(request, self.rules, now_us)
        if isinstance(outcome, Refusal):
            return self._refused(outcome)
        if principal.station is not None and outcome.station_id != principal.station:
            self._observations.refused("forbidden_station")
            return Forbidden("forbidden_station", f"this key may only write {principal.station}")
        return outcome

    def _refused(self, refusal: Refusal) -> CallerMistake:
        self._observations.refused(refusal.error)
        return BadRequest(refusal.error, details=refusal.details)

    def _now_us(self) -> int:
        return timestamps.from_datetime(self._clock.now())


def _ingested(observation: Observation, done: Stored) -> dict[str, Any]:
    return {
        "ok": True,
        "deduped": done.deduped,
        "source_node_id": observation.station_id,
        "msg_id": observation.msg_id,
        "source_ts_utc": observation.source_ts_utc,
        "observation_sk": observation.sort,
    }


def _result(outcome: Observation | CallerMistake, done: Stored | CallerMistake) -> dict[str, Any]:
    if isinstance(done, CallerMistake):
        return {"status": done.status, **problem_of(done).body()}
    if isinstance(outcome, CallerMistake):
        return {"status": outcome.status, **problem_of(outcome).body()}
    return {"status": 200, **_ingested(outcome, done)}
