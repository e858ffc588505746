"""What must hold between settings: a group is required once its source is enabled, limits fit each other.

One function per section, each yielding whole sentences for people; ``problems_of`` joins them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stormjay.ground import timestamps
from stormjay.settings_table import Settings, Weather, Web
from stormjay.weather import fields

TOKEN_LENGTH_MIN = 16
"""Shorter tokens can be guessed."""
_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,255}")


def problems_of(settings: Settings) -> list[str]:
    """Return what is missing or contradicts itself, one sentence each."""
    weather = settings.weather
    return [
        *_topics(settings),
        *_tokens(settings.web),
        *_enabled(weather),
        *_destinations(weather),
        *_limits(weather),
        *_stations(weather),
    ]


def _missing(name: str, because: str) -> str:
    variable = "STORMJAY_" + name.replace(".", "__").upper()
    return f"{name} is missing: {because}; set it in stormjay.toml or as {variable}"


def _topics(settings: Settings) -> Iterator[str]:
    for name, text in (("base_topic", settings.mqtt.base_topic), ("discovery_prefix", settings.mqtt.discovery_prefix)):
        if not text or text != text.strip("/ ") or any(sign in text for sign in "+#$\0"):
            yield f"mqtt.{name} must be a topic without +, #, $ and without / at its ends, not {text!r}"


def _tokens(web: Web) -> Iterator[str]:
    for name, token in web.tokens.items():
        place = f"web.tokens.{name}"
        if not token.token:
            yield _missing(f"{place}.token", "an entry without a token lets nobody in")
        elif len(token.token) < TOKEN_LENGTH_MIN:
            yield f"{place}.token must have at least {TOKEN_LENGTH_MIN} characters"
        if not token.scopes:
            yield f"{place}.scopes must name what the token allows: weather:write, read, admin"
        if token.expires:
            try:
                timestamps.to_epoch_us(token.expires)
            except timestamps.TimestampError as error:
                yield f"{place}.expires {error}"


def _enabled(weather: Weather) -> Iterator[str]:
    if weather.radio.enabled and not weather.radio.source:
        yield _missing("weather.radio.source", "weather.radio is enabled and must know which radio to listen to")
    if weather.bridge.enabled and not weather.bridge.output:
        yield _missing("weather.bridge.output", "weather.bridge is enabled and must know where its texts go")
    if weather.delivery.enabled:
        for key in ("api_url", "api_key"):
            if not getattr(weather.delivery, key).strip():
                yield _missing(f"weather.delivery.{key}", "weather.delivery is enabled")
    if weather.cloud.enabled and not weather.cloud.api_shared_secret:
        keyless = not any(station.key for station in weather.stations.values())
        if keyless:
            yield _missing("weather.cloud.api_shared_secret", "weather.cloud is enabled and no station has a key")


def _destinations(weather: Weather) -> Iterator[str]:
    for name, destination in weather.destinations.items():
        for key in ("api_url", "api_key"):
            if not getattr(destination, key).strip():
                yield _missing(f"weather.destinations.{name}.{key}", "a destination needs it")


def _limits(weather: Weather) -> Iterator[str]:
    if weather.offline_after_seconds <= weather.stale_after_seconds:
        yield "weather.offline_after_seconds must be more than weather.stale_after_seconds"
    if not _TABLE_NAME.fullmatch(weather.cloud.table_name) or weather.cloud.table_name.lower().startswith("sqlite_"):
        yield f"weather.cloud.table_name: {weather.cloud.table_name!r} must be letters, digits, _, - or ., 1 to 255"
    if not weather.delivery.schedule_seconds:
        yield "weather.delivery.schedule_seconds must hold at least one pause"
    for node in weather.allow_nodes:
        if len(node) != 9 or node[0] != "!" or any(sign not in "0123456789abcdef" for sign in node[1:]):  # noqa: PLR2004 - ! and eight digits
            yield f"weather.allow_nodes: {node!r} is no node id such as !5c32d4d9"
    for column, (low, high) in weather.ranges.items():
        if column not in fields.BY_COLUMN:
            close = get_close_matches(column, fields.BY_COLUMN, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            yield f"weather.ranges.{column} is no column of weather_readings{hint}"
        elif not low < high:
            yield f"weather.ranges.{column} ends ({high:g}) before it begins ({low:g})"


def _stations(weather: Weather) -> Iterator[str]:
    for node, station in weather.stations.items():
        place = f"weather.stations.{node}"
        if (station.latitude is None) != (station.longitude is None):
            yield f"{place} has only one of latitude and longitude"
        if station.time_zone:
            try:
                ZoneInfo(station.time_zone)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                yield f"{place}.time_zone must be a zone such as Europe/Zurich, not {station.time_zone!r}"
