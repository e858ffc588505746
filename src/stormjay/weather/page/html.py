"""The page as HTML: complete without scripts, brought to life by a few custom elements.

Names and payloads come from strangers on the mesh: the template engine escapes everything, and nothing is marked safe.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, tzinfo
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import jinja2
import msgspec
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter

from stormjay.errors import NotFound
from stormjay.ground.timestamps import format_us
from stormjay.weather import views_link, views_packet, views_series
from stormjay.weather.page import charts, drawing, show, tiles
from stormjay.weather.page.api import Guards
from stormjay.weather.page.reader import JournalReader
from stormjay.weather.page.show import Times

_Zone = Annotated[Literal["station", "utc"], QueryParameter(name="zone", description="In which zone to show times.")]
_Station = Annotated[str | None, QueryParameter(name="station", description="Node id.")]
_Range = Annotated[Literal["24h", "7d", "30d"], QueryParameter(name="range", description="Length of the charts.")]
_Kind = Annotated[str, PathParameter(description="Which table the packet is in.")]
_Number = Annotated[int, PathParameter(description="Its row.")]
_MANIFEST = {
    "name": "Stormjay",
    "short_name": "Stormjay",
    "start_url": "/",
    "display": "standalone",
    "background_color": "#f5f4ef",
    "theme_color": "#1f4e79",
    "icons": [
        {"src": "/static/weather/icon.svg", "sizes": "any", "type": "image/svg+xml"},
        {"src": "/static/weather/icon-192.png", "sizes": "192x192", "type": "image/png"},
        {"src": "/static/weather/icon-512.png", "sizes": "512x512", "type": "image/png"},
    ],
}


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What the address says: all of a view can be shared as its URL."""

    station: str | None
    zone: str
    length: str

    def url(self, path: str = "/", /, **changes: str) -> str:
        """Return an address with this view's choices, some of them changed; defaults are left out."""
        chosen = {"station": self.station, "zone": self.zone, "range": self.length, **changes}
        usual = {"zone": "station", "range": "24h"}
        query = urlencode({name: text for name, text in chosen.items() if text and usual.get(name) != text})
        return f"{path}?{query}" if query else path


class Pages:
    """Fills the templates."""

    def __init__(self, reader: JournalReader) -> None:
        """Compile the templates of the package."""
        self._reader = reader
        source = files("stormjay.weather.page").joinpath("templates")
        names = ("base.html", "page.html", "live.html", "parts.html", "packet.html", "packet_page.html", "minute.html")
        self._environment = jinja2.Environment(
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            loader=jinja2.DictLoader({name: source.joinpath(name).read_text(encoding="utf-8") for name in names}),
        )
        self._environment.globals.update(
            show=show, drawing=drawing, ranges=charts.RANGE_WORDS, sites_zone=self._strip_zone
        )

    def _strip_zone(self, station: str) -> tzinfo:
        return self._reader.site(station).zone()

    def render(self, template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template needs
        """Return a filled template."""
        return self._environment.get_template(template).render(**values)

    def times(self, station: str | None, zone: str) -> Times:
        """Return how times are shown for a station."""
        site = self._reader.site(station or "")
        own: tzinfo = UTC if zone == "utc" else site.zone()
        name = "UTC" if zone == "utc" or not site.time_zone else site.time_zone
        return Times(zone=own, zone_name=name, now_us=self._reader.now_us())

    def live(self, journal: sqlite3.Connection, station: str, view: View) -> dict[str, Any]:
        """Return what the parts need that change while one watches."""
        reader, times = self._reader, self.times(station, view.zone)
        moment = reader.moment(journal, station)
        rose = views_series.rose(journal, station, *reader.bounds(None, None, view.length))
        return {
            "view": view,
            "times": times,
            "now": moment.now,
            "condition": moment.condition,
            "headline": tiles.headline(moment.now, moment.day),
            "tiles": tiles.tiles(moment.now, moment.day, moment.condition),
            "rose": drawing.draw_rose(rose),
            "rose_view": rose,
            "link": views_link.link(journal, station, *reader.bounds(None, None, "24h")),
            "lines": _first(reader.strip(journal, None, None), station),
            "delivered_somewhere": bool(reader.targets),
            "packets": reader.packets(journal, station),
            "charts": charts.charts(journal, station, reader.bounds(None, None, view.length), view.length, times),
            "series_url": view.url("/api/v1/weather/series", zone="", fields=",".join(charts.CHART_FIELDS)),
        }

    def page(self, journal: sqlite3.Connection, view: View) -> str:
        """Return the whole page."""
        stations = self._reader.stations(journal)
        station = view.station or (stations[0].station if stations else None)
        times = self.times(station, view.zone)
        if station is None:
            return self.render("page.html", view=view, times=times, stations=stations, station=None)
        own = View(station=station, zone=view.zone, length=view.length)
        live = self.live(journal, station, own)
        return self.render(
            "page.html",
            stations=stations,
            station=station,
            **live,
        )


def _first(lines: list[Any], station: str) -> list[Any]:
    return sorted(lines, key=lambda line: line.station != station)


def routes(reader: JournalReader, guards: Guards) -> list[HTTPRouteHandler]:
    """Return the handlers of the page and its fragments."""
    pages = Pages(reader)
    return [*_page_routes(pages, reader, guards), *_packet_routes(pages, reader, guards), manifest]


def _page_routes(pages: Pages, reader: JournalReader, guards: Guards) -> list[HTTPRouteHandler]:
    @get("/", guards=list(guards), include_in_schema=False)
    async def page(station: _Station = None, zone: _Zone = "station", length: _Range = "24h") -> Response[str]:
        view = View(station=station, zone=zone, length=length)
        return _html(await reader.ask(lambda journal: pages.page(journal, view)))

    @get("/weather/fragments/live", guards=list(guards), include_in_schema=False)
    async def live(station: _Station = None, zone: _Zone = "station", length: _Range = "24h") -> Response[str]:
        def fill(journal: sqlite3.Connection) -> str:
            chosen = reader.choose(journal, station)
            view = View(station=chosen, zone=zone, length=length)
            return pages.render("live.html", **pages.live(journal, chosen, view))

        return _html(await reader.ask(fill))

    return [page, live]


def _packet_routes(pages: Pages, reader: JournalReader, guards: Guards) -> list[HTTPRouteHandler]:
    async def packet_with(template: str, kind: str, number: int, zone: str) -> Response[str]:
        def fill(journal: sqlite3.Connection) -> str:
            packet = views_packet.packet(journal, kind, number, reader.targets)
            view = View(station=packet.station, zone=zone, length="24h")
            return pages.render(template, packet=packet, view=view, times=pages.times(packet.station, zone))

        return _html(await reader.ask(fill))

    @get("/weather/packet/{kind:str}/{number:int}", guards=list(guards), include_in_schema=False)
    async def packet_page(kind: _Kind, number: _Number, zone: _Zone = "station") -> Response[str]:
        return await packet_with("packet_page.html", kind, number, zone)

    @get("/weather/fragments/packet/{kind:str}/{number:int}", guards=list(guards), include_in_schema=False)
    async def packet_fragment(kind: _Kind, number: _Number, zone: _Zone = "station") -> Response[str]:
        return await packet_with("packet.html", kind, number, zone)

    @get("/weather/fragments/minute", guards=list(guards), include_in_schema=False)
    async def minute(
        start: Annotated[int, QueryParameter(ge=0, le=7_000_000_000, description="Begin of the cell, epoch seconds.")],
        seconds: Annotated[Literal[60, 120], QueryParameter(description="Length of the cell.")] = 60,
        station: _Station = None,
        zone: _Zone = "station",
    ) -> Response[str]:
        def fill(journal: sqlite3.Connection) -> str:
            if not station:
                raise NotFound("unknown_station", "no station was named")
            start_us = start * 1_000_000
            packets = views_packet.at_minute(journal, station, reader.targets, start_us, seconds)
            view = View(station=station, zone=zone, length="24h")
            times = pages.times(station, zone)
            only = (
                views_packet.packet(journal, packets[0].kind, packets[0].id, reader.targets)
                if len(packets) == 1
                else None
            )

            def minute_url(step: int) -> str:
                begin = str(max(0, start + step * seconds))
                return view.url("/weather/fragments/minute", start=begin, seconds=str(seconds))

            return pages.render(
                "minute.html",
                packets=packets,
                packet=only,
                start=format_us(start_us),
                view=view,
                times=times,
                minute_url=minute_url,
            )

        return _html(await reader.ask(fill))

    return [packet_page, packet_fragment, minute]


def _html(text: str) -> Response[str]:
    return Response(text, media_type="text/html", headers={"cache-control": "no-store"})


@get("/manifest.webmanifest", include_in_schema=False)
async def manifest() -> Response[bytes]:
    """Return what a phone needs to put the page on its home screen."""
    return Response(msgspec.json.encode(_MANIFEST), media_type="application/manifest+json")
