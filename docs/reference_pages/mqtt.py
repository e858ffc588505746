"""The page of all MQTT topics, and of the values in a station's state as the code announces them."""

from __future__ import annotations

from docs.reference_pages.table import table
from stormjay.topics import topics_markdown
from stormjay.weather.discovery import station_device
from stormjay.weather.views import Site


def mqtt_page() -> str:
    """Return the page of what is published and listened to, with the values of a station."""
    site = Site(name="Orchard", elevation_m=420.0, time_zone="Europe/Zurich")
    station = station_device("!5c32d4d9", site.name, site, base_topic="stormjay", period_seconds=60)
    values = (
        (
            f"`{entity.key}`",
            entity.name,
            entity.unit_of_measurement or "",
            entity.device_class or "",
            entity.state_class or "",
        )
        for entity in station.entities
    )
    lines = [
        topics_markdown(),
        "After an outage of the broker the newest payload of each topic is sent, never a history.",
        "",
        "## The state of a station",
        "",
        "Values that the station did not give are null. What needs the elevation or the time zone is only there when",
        "that is set.",
        "",
        *table(("key", "meaning", "unit", "device class", "state class"), values),
    ]
    return "\n".join(lines).rstrip() + "\n"
