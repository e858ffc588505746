"""What the weather page brings to the web application: its handlers and its static folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from litestar.handlers import HTTPRouteHandler

from stormjay.ground.clock import Clock
from stormjay.ground.sqlite import Database
from stormjay.weather.page import api, html
from stormjay.weather.page.api import Guards
from stormjay.weather.page.reader import JournalReader, PageSettings
from stormjay.weather.views import Site
from stormjay.weather.views_strip import Target

STATIC_PATH = "/static/weather"
STATIC = Path(__file__).parent / "static"
"""To be served under ``STATIC_PATH``."""


def routes(
    journal_database: Database,
    stations: Mapping[str, Site],
    settings: PageSettings,
    clock: Clock,
    destinations: Sequence[Target],
    guards: Guards = (),
) -> list[HTTPRouteHandler]:
    """Return the handlers of the page, its fragments and its JSON.

    Args:
        journal_database: The journal, which is only read.
        stations: What the settings say of each station, by node id.
        settings: See ``PageSettings``.
        clock: Ages, today, and what is still to come go by it.
        destinations: Where readings are delivered to; the strip has a line for each.
        guards: Who may read; applied to every handler that shows data.
    """
    return reading(JournalReader(journal_database, stations, destinations, settings, clock), guards)


def reading(reader: JournalReader, guards: Guards = ()) -> list[HTTPRouteHandler]:
    """Return the same handlers over a reader of the caller's, who may keep it warm (``JournalReader.run``)."""
    return [*html.routes(reader, guards), *api.routes(reader, guards)]
