"""The HTTP routes of the serving side: ingest, latest, history and stations (contract weather 6).

What the seed's routes answered, these answer; new are the batch form, buckets, ``/stations`` and per-station keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.openapi.spec import Operation, Parameter, Schema
from litestar.openapi.spec.enums import OpenAPIType

from stormjay.ground.web.answer import LEAN, Answer, json_answer
from stormjay.ground.web.description import BODY
from stormjay.ground.web.envelope import ErrorBody
from stormjay.ground.web.tokens import READ, WEATHER_WRITE, Tokens
from stormjay.weather.cloud import answers
from stormjay.weather.cloud.serving import Cloud

AnyRequest = Request[Any, Any, Any]


def _parameter(name: str, about: str, *, required: bool = False, **schema: Any) -> Parameter:  # noqa: ANN401 - members of a schema
    return Parameter(
        name=name,
        param_in="query",
        description=about,
        required=required,
        schema=Schema(**{"type": OpenAPIType.STRING, **schema}),
    )


_STATION = _parameter("stationId", "The station's id.", required=True, min_length=1, examples=["!5c32d4d9"])
_TIME = "ISO 8601 with any offset, or an epoch in seconds, milliseconds or microseconds; inclusive."
_HISTORY = [
    _STATION,
    _parameter("from", f"Begin of the range. {_TIME}", required=True, min_length=1, examples=["2026-03-18T00:00:00Z"]),
    _parameter("to", f"End of the range. {_TIME}", required=True, min_length=1, examples=["2026-03-18T23:59:59Z"]),
    _parameter("limit", "Most items of a raw page.", type=OpenAPIType.INTEGER, minimum=1, maximum=1000, default=200),
    _parameter("order", "Of a raw page, by time.", enum=["asc", "desc"], default="desc"),
    _parameter("nextToken", "Goes on where the raw page before ended; belongs to that page's query."),
    _parameter("sample", "That many evenly spread observations.", type=OpenAPIType.INTEGER, minimum=1, maximum=2000),
    _parameter("bucket", "Fold into hours or days of the station's time zone.", enum=["hour", "day"]),
]


@dataclass
class _LatestOperation(Operation):
    """Names the parameter that the handler reads by itself."""

    def __post_init__(self) -> None:
        self.parameters = [_STATION]


@dataclass
class _HistoryOperation(Operation):
    """Names the parameters that the handler reads by itself."""

    def __post_init__(self) -> None:
        self.parameters = [*_HISTORY]


def _responses(answer: Any, about: str, *errors: int) -> dict[int, ResponseSpec]:  # noqa: ANN401 - a type
    result = {200: ResponseSpec(answer, generate_examples=False, description=about)}
    for status in errors:
        result[status] = ResponseSpec(ErrorBody, generate_examples=False, description=_ERRORS[status])
    return result


_ERRORS = {
    400: "The request is wrong; error and details say what.",
    401: "A key or token is missing or unknown.",
    403: "The key or token does not allow this.",
    404: "There is nothing under that name.",
    413: "The body is too long.",
    503: "Try again later; nothing is wrong with the request.",
}
_CREDENTIALS: list[dict[str, list[str]]] = [{"weatherKey": []}, {"bearer": []}]


def routes(cloud: Cloud, tokens: Tokens) -> list[HTTPRouteHandler]:
    """Return the handlers.

    Args:
        cloud: What they do.
        tokens: Reads need the scope ``read`` (which may be public), writes ``weather:write``.
    """
    return [*_write_routes(cloud, tokens), *_read_routes(cloud, tokens)]


def _write_routes(cloud: Cloud, tokens: Tokens) -> list[HTTPRouteHandler]:
    one, many = answers.ingest_bodies(cloud.rules)

    @post(
        "/observations",
        status_code=200,
        operation_id="postObservation",
        summary="Store an observation",
        description="Doing it again changes nothing and answers deduped: true.",
        tags=["weather"],
        security=_CREDENTIALS,
        opt={BODY: (one, answers.INGEST_EXAMPLE)},
        responses=_responses(answers.Ingested, "It is stored.", 400, 401, 403, 413, 503),
    )
    async def post_observation(request: AnyRequest) -> Answer:
        principal = tokens.authorize(request, WEATHER_WRITE)
        return json_answer(await cloud.ingest(await request.body(), principal))

    @post(
        "/observations/batch",
        status_code=200,
        operation_id="postObservations",
        summary="Store several observations",
        description="Each result is what the single route would have answered, with its status, in order.",
        tags=["weather"],
        security=_CREDENTIALS,
        opt={BODY: (many, {"payloads": [answers.INGEST_EXAMPLE["payload"]]})},
        responses=_responses(answers.BatchIngested, "A result for each payload.", 400, 401, 403, 413, 503),
    )
    async def post_observations(request: AnyRequest) -> Answer:
        principal = tokens.authorize(request, WEATHER_WRITE)
        return json_answer(await cloud.ingest_batch(await request.body(), principal))

    return [post_observation, post_observations]


def _read_routes(cloud: Cloud, tokens: Tokens) -> list[HTTPRouteHandler]:
    async def latest(scope: Mapping[str, Any]) -> Answer:
        tokens.authorize_scope(scope, READ)
        return await cloud.latest(scope)

    @get(
        "/observations/latest",
        operation_id="getLatestObservation",
        summary="The newest observation of a station",
        tags=["weather"],
        operation_class=_LatestOperation,
        opt={LEAN: latest},
        responses=_responses(answers.LatestAnswer, "The newest by source time.", 400, 401, 403, 404, 503),
    )
    async def get_latest(request: AnyRequest) -> Answer:
        return await latest(cast("Mapping[str, Any]", request.scope))

    @get(
        "/observations",
        operation_id="getObservations",
        summary="Observations of a station in a range of time",
        description="As pages (the default), as an even sample (sample), or folded into hours or days (bucket).",
        tags=["weather"],
        operation_class=_HistoryOperation,
        responses=_responses(
            answers.RawHistory | answers.SampledHistory | answers.BucketedHistory,
            "What the range holds.",
            400,
            401,
            403,
            503,
        ),
    )
    async def get_history(request: AnyRequest) -> Answer:
        tokens.authorize(request, READ)
        return Answer(await cloud.history(request.scope["query_string"]))

    @get(
        "/stations",
        operation_id="getStations",
        summary="All stations, with what is known of them",
        tags=["weather"],
        responses=_responses(answers.StationsAnswer, "Stations by id.", 401, 403, 503),
    )
    async def get_stations(request: AnyRequest) -> Answer:
        tokens.authorize(request, READ)
        return Answer(await cloud.stations())

    return [get_latest, get_history, get_stations]
