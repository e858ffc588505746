"""How the garden bridge is set, and the deciding part built from it."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import msgspec

from stormjay.weather.bridge_core import Bridge
from stormjay.weather.fields import BY_COLUMN, Ranges


class BridgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the bridge listens and how often it speaks.

    Attributes:
        host, port: Where hubs' datagrams are heard; ``0.0.0.0`` or nothing hears the local network's broadcasts.
        serials: Serial numbers of stations or hubs that are heard; none means all.
        obs_interval_seconds, precip_interval_seconds, strike_interval_seconds, device_interval_seconds,
            hub_interval_seconds: Least time between two texts of a type.
        gap_seconds: Least time between any two texts.
        heartbeat_seconds: Time between heartbeats; 0 sends none.
        queue_max: Texts that may wait for the radio, at least 5.
        max_payload_bytes: Longest text; the radio's 233 less one for the line's end on a UART.
        inbox_max: Datagrams that may wait to be read.
        ranges: Widened bounds by column (setting ``weather.ranges``), as ``fields.ranges`` gives them, or None.
        state_path: File that keeps what is held over a restart; None keeps it in memory only.
        reconnect_seconds, reconnect_seconds_max: First and longest wait before the radio is tried again.
    """

    host: str = "127.0.0.1"
    port: int = 50222
    serials: tuple[str, ...] = ()
    obs_interval_seconds: float = 60.0
    precip_interval_seconds: float = 60.0
    strike_interval_seconds: float = 30.0
    device_interval_seconds: float = 60.0
    hub_interval_seconds: float = 60.0
    gap_seconds: float = 5.0
    heartbeat_seconds: float = 900.0
    queue_max: int = 12
    max_payload_bytes: int = 232
    inbox_max: int = 256
    ranges: Ranges | None = None
    state_path: Path | None = None
    reconnect_seconds: float = 1.0
    reconnect_seconds_max: float = 60.0


def edge_ranges(ranges: Ranges) -> dict[str, tuple[float, float]]:
    """Return the bridge's bounds by key on the air: the edge half of the table's, with what settings widened."""
    return {BY_COLUMN[column].key: edge for column, (edge, _) in ranges.items()}


def core_of(settings: BridgeSettings, now_ms: int) -> Bridge:
    """Return the deciding part as the settings want it.

    Args:
        settings: The bridge's.
        now_ms: The time of the start on the counter that it will be given.
    """
    intervals = {
        "obs_st": settings.obs_interval_seconds,
        "evt_precip": settings.precip_interval_seconds,
        "evt_strike": settings.strike_interval_seconds,
        "device_status": settings.device_interval_seconds,
        "hub_status": settings.hub_interval_seconds,
    }
    core = Bridge(
        now_ms=now_ms,
        intervals_ms={kind: int(seconds * 1000) for kind, seconds in intervals.items()},
        gap_ms=int(settings.gap_seconds * 1000),
        heartbeat_ms=int(settings.heartbeat_seconds * 1000),
        queue_max=settings.queue_max,
        line_bytes_max=settings.max_payload_bytes,
        serials=settings.serials,
        ranges=edge_ranges(settings.ranges) if settings.ranges is not None else {},
    )
    if settings.host and not is_wildcard(settings.host):
        core.ip = settings.host
    return core


def is_wildcard(host: str) -> bool:
    """Tell whether an address stands for all of the machine's."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
