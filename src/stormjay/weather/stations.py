"""What an installation knows of its stations beyond what they send (DESIGN.md decision 12)."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

import msgspec

from stormjay.errors import SettingsError


class Station(msgspec.Struct, frozen=True, kw_only=True):
    """One station; what needs a value that is missing here is not shown.

    Attributes:
        source_node_id: ``!`` and eight lower-case hex digits.
        name: What people call it, or None.
        elevation_m: Height above sea level, for sea-level pressure.
        time_zone: IANA name, for the local day.
        latitude, longitude: Degrees, north and east positive.
    """

    source_node_id: str
    name: str | None = None
    elevation_m: float | None = None
    time_zone: str | None = None
    latitude: float | None = None
    longitude: float | None = None

    @property
    def zone(self) -> ZoneInfo | None:
        """The station's zone, or None when none is set."""
        return None if self.time_zone is None else ZoneInfo(self.time_zone)


_ELEVATION_M = (-450.0, 9000.0)


def checked(station: Station) -> Station:
    """Return the station when its values make sense.

    Raises:
        SettingsError: With the value that does not.
    """
    where = f"weather.stations.{station.source_node_id!r}"
    if station.time_zone is not None:
        try:
            ZoneInfo(station.time_zone)
        except (KeyError, ValueError, OSError) as error:  # unknown, absolute path, or a folder of the zone data
            raise SettingsError(
                f"{where}: there is no time zone {station.time_zone!r}", next_step="use an IANA name like Europe/Vienna"
            ) from error
    for name, value, (low, high) in (
        ("elevation_m", station.elevation_m, _ELEVATION_M),
        ("latitude", station.latitude, (-90.0, 90.0)),
        ("longitude", station.longitude, (-180.0, 180.0)),
    ):
        if value is not None and not low <= value <= high:
            raise SettingsError(f"{where}: {name} {value} is not between {low} and {high}")
    return station


Stations = Mapping[str, Station]
"""Stations by node id."""


def station_of(stations: Stations, source_node_id: str) -> Station:
    """Return what is known of a sender, which may be its id alone."""
    return stations.get(source_node_id) or Station(source_node_id=source_node_id)
