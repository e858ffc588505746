"""The bodies of requests and answers as the API's description shows them; the field table gives the weather values."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from stormjay.weather.cloud.observation import ENUMERATED, Rule
from stormjay.weather.fields import FIELDS, Field

_EXAMPLE = {
    "payload": {
        "source_node_id": "!5c32d4d9",
        "source_name": "garden",
        "msg_id": 99,
        "source_ts_utc": "2026-03-18T00:45:43Z",
        "received_at_utc": "2026-03-18T00:45:46.982324Z",
        "weather": {
            "air_temp_c": 21.8,
            "relative_humidity_pct": 56,
            "station_pressure_hpa": 1011.9,
            "wind_avg_ms": 2.2,
            "wind_dir_deg": 240,
            "rain_interval_mm": 0.2,
        },
    }
}
Moment = Annotated[str, msgspec.Meta(description="UTC with microseconds.", examples=["2026-03-18T00:45:43.000000Z"])]
AnyTime = Annotated[
    str | float,
    msgspec.Meta(description="ISO 8601 with any offset, or an epoch in seconds, milliseconds or microseconds."),
]


def _value(field: Field, rule: Rule | None) -> Any:  # noqa: ANN401 - a type made at run time
    about = f"{field.label}, {field.unit}" if field.unit else field.label
    if rule is None or field.cloud in ENUMERATED:
        return Annotated[float, msgspec.Meta(description=about)]
    return Annotated[float, msgspec.Meta(description=about, ge=rule.low, le=rule.high)]


def weather_values(name: str, rules: dict[str, Rule] | None = None) -> type[msgspec.Struct]:
    """Return a struct of all weather values, each optional, with the bounds of the rules when given."""
    fields: list[tuple[str, Any, Any]] = [
        (field.cloud, _value(field, (rules or {}).get(field.cloud)) | msgspec.UnsetType, msgspec.UNSET)
        for field in FIELDS
    ]
    fields.append(("timestamp", AnyTime | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(
        name, fields, kw_only=True, namespace={"__doc__": "Weather values; further names are kept as they are."}
    )


Weather = weather_values("Weather")


def ingest_bodies(rules: dict[str, Rule]) -> tuple[type[msgspec.Struct], type[msgspec.Struct]]:
    """Return the bodies of ``POST /observations`` and ``POST /observations/batch`` with the bounds in force."""
    payload = msgspec.defstruct(
        "Payload",
        [
            ("source_node_id", Annotated[str, msgspec.Meta(min_length=1, max_length=256)]),
            ("msg_id", int),
            ("source_ts_utc", AnyTime),
            ("received_at_utc", AnyTime),
            ("weather", weather_values("WeatherToStore", rules)),
            ("source_name", str | None, None),
        ],
        kw_only=True,
        namespace={"__doc__": "One observation as a home sends it."},
    )
    one = msgspec.defstruct("IngestBody", [("payload", payload)], namespace={"__doc__": "One observation."})
    payloads: Any = list[payload]  # type: ignore[valid-type]  # the struct is made at run time
    many = msgspec.defstruct("IngestBatch", [("payloads", payloads)], namespace={"__doc__": "Several observations."})
    return one, many


INGEST_EXAMPLE = _EXAMPLE


class Ingested(msgspec.Struct, kw_only=True):
    """The observation is stored; ``deduped`` when it had been before."""

    ok: Literal[True]
    deduped: bool
    source_node_id: str
    msg_id: int
    source_ts_utc: Moment
    observation_sk: str


class BatchResult(msgspec.Struct, kw_only=True):
    """What the single route would have answered to one payload, and its status."""

    status: int
    ok: bool
    error: str | msgspec.UnsetType = msgspec.UNSET
    message: str | msgspec.UnsetType = msgspec.UNSET
    details: list[str] | msgspec.UnsetType = msgspec.UNSET
    deduped: bool | msgspec.UnsetType = msgspec.UNSET
    source_node_id: str | msgspec.UnsetType = msgspec.UNSET
    msg_id: int | msgspec.UnsetType = msgspec.UNSET
    source_ts_utc: Moment | msgspec.UnsetType = msgspec.UNSET
    observation_sk: str | msgspec.UnsetType = msgspec.UNSET


class BatchIngested(msgspec.Struct, kw_only=True):
    """One result per payload, in their order."""

    ok: Literal[True]
    results: list[BatchResult]


class SampledObservation(msgspec.Struct, kw_only=True):
    """An observation without what only its keeper needs."""

    pk: str
    sk: str
    record_type: str
    source_node_id: str
    source_name: str | None
    msg_id: int
    source_ts_utc: Moment
    received_at_utc: Moment
    weather: Weather  # type: ignore[valid-type]  # made at run time from the field table


class StoredObservation(SampledObservation, kw_only=True):
    """An observation item (contract weather 6.3)."""

    observation_type: str
    source_ts_raw: AnyTime
    source_ts_sort_utc: Moment
    raw_payload: dict[str, Any]
    ingested_at_utc: Moment


class LatestItem(SampledObservation, kw_only=True):
    """The newest observation of a station."""

    observation_type: str
    source_ts_raw: AnyTime
    source_ts_sort_utc: Moment
    latest_observation_sk: str
    updated_at_utc: Moment


class LatestAnswer(msgspec.Struct, kw_only=True):
    """The newest observation of a station."""

    ok: Literal[True]
    item: LatestItem


class RawHistory(msgspec.Struct, kw_only=True):
    """A page of observations; ``nextToken`` when more may follow."""

    ok: Literal[True]
    mode: Literal["raw"]
    stationId: str  # noqa: N815 - the seed's name
    from_: str = msgspec.field(name="from")
    to: str
    order: Literal["asc", "desc"]
    count: int
    items: list[StoredObservation]
    nextToken: str | msgspec.UnsetType = msgspec.UNSET  # noqa: N815 - the seed's name


class SampledHistory(msgspec.Struct, kw_only=True):
    """Observations at even distances in rank, oldest first."""

    ok: Literal[True]
    mode: Literal["sampled"]
    stationId: str  # noqa: N815 - the seed's name
    from_: str = msgspec.field(name="from")
    to: str
    sampleRequested: int  # noqa: N815 - the seed's name
    totalMatched: int  # noqa: N815 - the seed's name
    count: int
    items: list[SampledObservation]


class FieldSummary(msgspec.Struct, kw_only=True):
    """One weather value in one bucket. The direction's mean is that of the wind as a vector; it has no extremes."""

    count: int
    first: float
    last: float
    min: float | msgspec.UnsetType = msgspec.UNSET
    min_at_utc: Moment | msgspec.UnsetType = msgspec.UNSET
    max: float | msgspec.UnsetType = msgspec.UNSET
    max_at_utc: Moment | msgspec.UnsetType = msgspec.UNSET
    mean: float | msgspec.UnsetType | None = msgspec.UNSET
    sum: float | msgspec.UnsetType = msgspec.UNSET


class Bucket(msgspec.Struct, kw_only=True):
    """An hour or a day, from ``start`` (inside) to ``end`` (not inside)."""

    start: Moment
    end: Moment
    local_start: str
    count: int
    first_source_ts_utc: Moment
    last_source_ts_utc: Moment
    covered_minutes: float
    coverage: float
    sums_are_lower_bounds: bool
    fields: dict[str, FieldSummary]


class BucketedHistory(msgspec.Struct, kw_only=True):
    """Hours or days in the station's time zone, oldest first; those without an observation are left out."""

    ok: Literal[True]
    mode: Literal["bucketed"]
    stationId: str  # noqa: N815 - in the style of the seed's names
    from_: str = msgspec.field(name="from")
    to: str
    bucket: Literal["hour", "day"]
    timeZone: str  # noqa: N815 - in the style of the seed's names
    totalMatched: int  # noqa: N815 - the seed's name
    count: int
    items: list[Bucket]


class StationAnswer(msgspec.Struct, kw_only=True):
    """A station: what the settings say of it and what it sent."""

    id: str
    name: str | None
    elevation_m: float | None
    time_zone: str | None
    latitude: float | None
    longitude: float | None
    first_seen_utc: str | None
    last_seen_utc: str | None
    latest: LatestItem | None


class StationsAnswer(msgspec.Struct, kw_only=True):
    """All stations that are configured or have sent."""

    ok: Literal[True]
    count: int
    stations: list[StationAnswer]
