"""The page's JSON: what the journal at home says, under ``/api/v1/weather``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter

from stormjay.weather import views, views_link, views_packet, views_series
from stormjay.weather.page.reader import JournalReader
from stormjay.weather.views import DayView, NowView, StationView
from stormjay.weather.views_link import ConditionView, LinkView
from stormjay.weather.views_packet import PacketLine, PacketView
from stormjay.weather.views_series import RoseView, SeriesView
from stormjay.weather.views_strip import StripLine

Guards = Sequence[Callable[..., Any]]
_PREFIX = "/api/v1/weather"
_TAGS = ["weather at home"]

StationId = Annotated[
    str | None,
    QueryParameter(name="station", description="Node id, as !5c32d4d9; the one with the newest reading by default."),
]
Date = Annotated[
    str | None, QueryParameter(name="date", description="Local date, as 2026-03-18; today by default.", max_length=20)
]
From = Annotated[
    str | None, QueryParameter(name="from", description="Begin, ISO 8601 or epoch; range before the end by default.")
]
To = Annotated[str | None, QueryParameter(name="to", description="End, ISO 8601 or epoch; now by default.")]
Range = Annotated[Literal["24h", "7d", "30d"], QueryParameter(name="range", description="Length of the span.")]
FieldNames = Annotated[
    str | None, QueryParameter(name="fields", description="Comma-separated value names, as air_temp_c,wind_gust_ms.")
]
Points = Annotated[int, QueryParameter(name="max_points", ge=10, le=5000, description="Most points to return.")]
Kind = Literal["reading", "event", "telemetry", "health", "native", "ledger"]


class StationsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All stations, the most recently heard first."""

    stations: list[StationView]


class NowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A station now, and how it is."""

    now: NowView
    condition: ConditionView


class StripAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery strip."""

    lines: list[StripLine]


class PacketsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The newest packets."""

    packets: list[PacketLine]


def routes(reader: JournalReader, guards: Guards) -> list[HTTPRouteHandler]:
    """Return the handlers of the JSON API."""
    return [*_station_routes(reader, guards), *_span_routes(reader, guards), *_packet_routes(reader, guards)]


def _station_routes(reader: JournalReader, guards: Guards) -> list[HTTPRouteHandler]:
    @get(f"{_PREFIX}/stations", tags=_TAGS, guards=list(guards), summary="List stations")
    async def weather_stations() -> StationsAnswer:
        return StationsAnswer(stations=await reader.ask(reader.stations))

    @get(f"{_PREFIX}/now", tags=_TAGS, guards=list(guards), summary="Newest reading with what follows from it")
    async def weather_now(station: StationId = None) -> NowAnswer:
        moment = await reader.ask(lambda journal: reader.moment(journal, reader.choose(journal, station)))
        return NowAnswer(now=moment.now, condition=moment.condition)

    @get(f"{_PREFIX}/day", tags=_TAGS, guards=list(guards), summary="Lowest and highest of a local day, with times")
    async def weather_day(station: StationId = None, date: Date = None) -> DayView:
        return await reader.ask(lambda journal: reader.day(journal, reader.choose(journal, station), date))

    @get(f"{_PREFIX}/strip", tags=_TAGS, guards=list(guards), summary="Delivery strip of a local day")
    async def weather_strip(station: StationId = None, date: Date = None) -> StripAnswer:
        return StripAnswer(lines=await reader.ask(lambda journal: reader.strip(journal, station, date)))

    return [weather_stations, weather_now, weather_day, weather_strip]


def _span_routes(reader: JournalReader, guards: Guards) -> list[HTTPRouteHandler]:
    @get(f"{_PREFIX}/series", tags=_TAGS, guards=list(guards), summary="Series for charts")
    async def weather_series(
        station: StationId = None,
        fields: FieldNames = None,
        start: From = None,
        end: To = None,
        length: Range = "24h",
        max_points: Points = reader.settings.max_points,
    ) -> SeriesView:
        bounds = reader.bounds(start, end, length)
        return await reader.ask(
            lambda journal: reader.series(journal, reader.choose(journal, station), fields, bounds, max_points)
        )

    @get(f"{_PREFIX}/rose", tags=_TAGS, guards=list(guards), summary="Wind rose")
    async def weather_rose(
        station: StationId = None, start: From = None, end: To = None, length: Range = "24h"
    ) -> RoseView:
        bounds = reader.bounds(start, end, length)
        return await reader.ask(
            lambda journal: views_series.rose(journal, known(journal, reader, station), *bounds)
        )  # fmt: skip

    @get(f"{_PREFIX}/link", tags=_TAGS, guards=list(guards), summary="Radio link and losses")
    async def weather_link(
        station: StationId = None, start: From = None, end: To = None, length: Range = "24h"
    ) -> LinkView:
        bounds = reader.bounds(start, end, length)
        return await reader.ask(lambda journal: views_link.link(journal, known(journal, reader, station), *bounds))

    return [weather_series, weather_rose, weather_link]


def known(journal: Any, reader: JournalReader, station: str | None) -> str:  # noqa: ANN401 - a connection, as the views take
    """Return the station asked for or the default one.

    Raises:
        NotFound: It is unknown, or there is none.
    """
    chosen = reader.choose(journal, station)
    views.station_view(journal, chosen, reader.site(chosen), reader.now_us())
    return chosen


def _packet_routes(reader: JournalReader, guards: Guards) -> list[HTTPRouteHandler]:
    @get(f"{_PREFIX}/packets", tags=_TAGS, guards=list(guards), summary="Newest packets")
    async def weather_packets(station: StationId = None) -> PacketsAnswer:
        return PacketsAnswer(
            packets=await reader.ask(lambda journal: reader.packets(journal, known(journal, reader, station)))
        )

    @get(
        f"{_PREFIX}/packet/{{kind:str}}/{{number:int}}",
        tags=_TAGS,
        guards=list(guards),
        summary="One packet, as it came and what became of it",
    )
    async def weather_packet(
        kind: Annotated[Kind, PathParameter(description="Which table it is in.")],
        number: Annotated[int, PathParameter(description="Its row.", ge=1)],
    ) -> PacketView:
        return await reader.ask(lambda journal: views_packet.packet(journal, kind, number, reader.targets))

    return [weather_packets, weather_packet]
