"""A Tempest hub without hardware: made-up weather, or recorded datagrams sent again as if they happened now.

What is sent and when are pure generators of (seconds from the start, datagram); ``send`` is the only part that waits
and writes. Intervals and options are those of the mock senders (contract weather 2.6; DESIGN.md decision 17).
"""

from __future__ import annotations

import gzip
import heapq
import json
import random
import socket
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from stormjay.errors import LinkLost, SettingsError
from stormjay.ground.clock import Clock
from stormjay.weather.hub_sky import Sky

_log = structlog.get_logger(__name__)

REPEAT_SECONDS = 0.004
"""How long after a datagram its repeat comes: real hubs send each one twice (contract weather 1.1)."""
BETWEEN_SECONDS = 0.05
"""Time between datagrams that would fall on one moment."""
RECORDS_MAX = 1_000_000
"""Datagrams of a recording that are read; more would not fit in memory on a small computer."""


class Timed(NamedTuple):
    """A datagram and when it is to be sent, seconds from the start."""

    at_seconds: float
    data: bytes


class HubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the made-up hub sends, and where.

    Attributes:
        target, port: Where datagrams go; ``255.255.255.255`` reaches the whole local network.
        tick_seconds: Step of the made-up weather.
        obs_interval_seconds, rapid_wind_interval_seconds, device_status_interval_seconds, hub_status_interval_seconds:
            Time between two datagrams of a kind; 0 sends none of it.
        strike_chance: Chance of a lightning strike per observation while it rains, 0 to 1.
        repeats: How often each datagram is sent.
        station, hub: Serial numbers.
    """

    target: str = "127.0.0.1"
    port: int = 50222
    tick_seconds: float = 1.0
    obs_interval_seconds: float = 60.0
    rapid_wind_interval_seconds: float = 3.0
    device_status_interval_seconds: float = 60.0
    hub_status_interval_seconds: float = 10.0
    strike_chance: float = 0.06
    repeats: int = 2
    station: str = "ST-TEST0001"
    hub: str = "HB-TEST0001"


def simulate(settings: HubSettings, start: datetime, randomness: random.Random) -> Iterator[Timed]:
    """Yield a hub's datagrams for ever, in the order in which they are sent.

    Args:
        settings: What is sent.
        start: The moment from which source times count.
        randomness: Seeded, it gives the same weather again.
    """
    sky = Sky(randomness)
    begin = int(start.timestamp())
    is_wet = False
    intervals = {
        "rapid_wind": settings.rapid_wind_interval_seconds,
        "hub_status": settings.hub_status_interval_seconds,
        "device_status": settings.device_status_interval_seconds,
        "obs_st": settings.obs_interval_seconds,
    }
    due = [(order * BETWEEN_SECONDS, order, kind) for order, kind in enumerate(intervals) if intervals[kind] > 0]
    heapq.heapify(due)
    while due:
        at, order, kind = heapq.heappop(due)
        step = max(settings.tick_seconds, 0.001)
        heapq.heappush(due, (at + max(intervals[kind], step), order, kind))
        epoch = begin + int(at)
        messages: list[dict[str, Any]]
        if kind == "rapid_wind":
            speed, direction = sky.wind(epoch)
            sky.speeds.append(speed)
            messages = [_envelope(settings, kind, ob=[epoch, speed, direction])]
        elif kind == "obs_st":
            struck = is_wet and randomness.random() < settings.strike_chance
            strikes = randomness.randint(1, 3) if struck else 0
            seconds = settings.obs_interval_seconds
            values = sky.observation(epoch, seconds, settings.rapid_wind_interval_seconds, strikes)
            sky.speeds.clear()
            messages = _events(settings, values, is_wet=is_wet, randomness=randomness)
            is_wet = bool(values[12])
            messages.append(_envelope(settings, kind, obs=[values]))
        else:
            messages = [_status(settings, kind, epoch, int(at), randomness)]
        for number, message in enumerate(messages):
            yield from _repeated(Timed(at + number * BETWEEN_SECONDS, _encoded(message)), settings.repeats)


def _repeated(timed: Timed, repeats: int) -> Iterator[Timed]:
    for copy in range(repeats):
        yield Timed(timed.at_seconds + copy * REPEAT_SECONDS, timed.data)


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _envelope(settings: HubSettings, kind: str, **values: object) -> dict[str, Any]:
    start = {"serial_number": settings.station, "type": kind, "hub_sn": settings.hub}
    return {**start, **values, "firmware_revision": 181}


def _events(
    settings: HubSettings, values: list[float | None], *, is_wet: bool, randomness: random.Random
) -> list[dict[str, Any]]:
    """Return the events of an observation: rain when it begins, and each strike."""
    epoch, rain, distance, strikes = values[0], values[12], values[14], int(values[15] or 0)
    events = [_envelope(settings, "evt_precip", evt=[epoch])] if rain and not is_wet else []
    energies = [randomness.randint(100, 60_000) for _ in range(strikes)]
    return events + [_envelope(settings, "evt_strike", evt=[epoch, distance, energy]) for energy in energies]


def _status(settings: HubSettings, kind: str, epoch: int, uptime: int, randomness: random.Random) -> dict[str, Any]:
    rssi = -60 - randomness.randint(0, 15)
    if kind == "device_status":
        return {
            **_envelope(settings, kind, timestamp=epoch, uptime=uptime, voltage=2.6, rssi=rssi),
            "hub_rssi": rssi - 3,
            "sensor_status": 0,
            "debug": 0,
        }
    message: dict[str, Any] = {
        "serial_number": settings.hub,
        "type": kind,
        "firmware_revision": "309",
        "uptime": uptime,
        "rssi": rssi,
        "timestamp": epoch,
        "reset_flags": "BOR,PIN,POR",
        "seq": uptime // 10,
        "radio_stats": [28, 1, 0, 3, 1466],
        "mqtt_stats": [3, 17],
    }
    if randomness.random() < 0.15:  # noqa: PLR2004 - older hubs; the share of the mock senders
        message["fs"] = [1, 0, 15675411, 524288]
    return message


def load_recording(path: Path) -> list[dict[str, Any]]:
    """Return the datagrams of a recording, one JSON object a line, gzip or plain; other lines are left out and logged.

    Raises:
        SettingsError: The file cannot be read, or holds no datagram with a time.
    """
    messages: list[dict[str, Any]] = []
    bad = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                if len(messages) >= RECORDS_MAX:
                    break
                message = _object(line)
                if message is None or source_time(message) is None:
                    bad += bool(line.strip())
                    continue
                messages.append(message)
    except (OSError, EOFError) as error:
        raise SettingsError("recording_unreadable", f"{path} cannot be read: {error}") from error
    if bad:
        _log.warning("hub.lines_left_out", path=str(path), lines=bad)
    if not messages:
        raise SettingsError("recording_empty", f"{path} holds no datagram of a hub")
    return messages


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def source_time(message: dict[str, Any]) -> int | None:
    """Return the source time of a hub's datagram, epoch seconds, or None when it has none."""
    place = _time_place(message)
    value = place[0][place[1]] if place else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time_place(message: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return the list or object that holds the time, and where in it."""
    if "timestamp" in message:
        return message, "timestamp"
    for key in ("ob", "evt"):
        if isinstance(message.get(key), list) and message[key]:
            return message[key], 0
    obs = message.get("obs")
    if isinstance(obs, list) and obs and isinstance(obs[0], list) and obs[0]:
        return obs[0], 0
    return None


def shifted(message: dict[str, Any], seconds: int) -> dict[str, Any]:
    """Return the datagram as it was, but so much later; nothing else of it changes."""
    copy: dict[str, Any] = json.loads(json.dumps(message))
    places = [(values, 0) for values in copy["obs"]] if isinstance(copy.get("obs"), list) else [_time_place(copy)]
    for place in places:
        if place is not None:
            place[0][place[1]] += seconds
    return copy


def replay(
    messages: list[dict[str, Any]],
    *,
    start: datetime,
    first: datetime,
    speed: float = 1.0,
    repeats: int = 2,
    again: bool = False,
) -> Iterator[Timed]:
    """Yield a recording's datagrams with their times moved to now.

    A recording that begins in the past is sent ``speed`` times faster than it happened, until it has caught up with the
    clock; from there on it goes at the pace of the clock, so that no source time lies in the future.

    Args:
        messages: The recording, in order of source time.
        start: The moment at which sending begins.
        first: The moment that the first datagram's source time becomes; not after ``start``.
        speed: How much faster than it happened; at least 1.
        repeats: How often each datagram is sent.
        again: Begin anew after the last one, for ever, one interval later.
    """
    origin = source_time(messages[0]) or 0
    last = source_time(messages[-1]) or 0
    interval = max(1, round((last - origin) / max(1, len(messages) - 1)))
    lead = max(0.0, (start - first).total_seconds())
    offset = round(first.timestamp()) - origin
    rounds_s = 0
    while True:
        for message in messages:
            elapsed = (source_time(message) or origin) - origin + rounds_s
            at = max(elapsed / max(1.0, speed), elapsed - lead, 0.0)
            yield from _repeated(Timed(at, _encoded(shifted(message, offset + rounds_s))), repeats)
        if not again:
            return
        rounds_s += last - origin + interval


async def send(datagrams: Iterable[Timed], *, target: str, port: int, clock: Clock) -> int:
    """Send each datagram at its time; return how many were sent.

    Raises:
        LinkLost: The network does not take them.
    """
    begin = clock.monotonic()
    count = 0
    with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.settimeout(0)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for timed in datagrams:
            while (left := begin + timed.at_seconds - clock.monotonic()) > 0:
                await clock.sleep(left)
            while not _sent(opened, timed.data, (target, port)):
                await clock.sleep(BETWEEN_SECONDS)
            count += 1
    return count


def _sent(opened: socket.socket, data: bytes, address: tuple[str, int]) -> bool:
    """Send one datagram; return False when the system has no room for it just now.

    Raises:
        LinkLost: The network does not take it.
    """
    try:
        # Not the loop's own sendto: uvloop has none.
        opened.sendto(data, address)
    except BlockingIOError:
        return False
    except ConnectionRefusedError:
        pass  # Nobody listens just now; a hub does not mind.
    except OSError as error:
        raise LinkLost(f"datagrams to {address[0]}:{address[1]} cannot be sent: {error}") from error
    return True
