"""The one row per sender that says what is known of it now, and the word for its state.

Each value carries the time at which it was said: its source time, else the time of receipt. A value gives way only to
one said later (on a tie the later receipt, then the greater value), and never to null. That is a maximum per column, so
the row is the same in whatever order the packets come, how often they repeat and how they are batched (fault B17).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from stormjay.ground import timestamps
from stormjay.weather.records import BATTERY_PLACE, Body, Health, Telemetry, WeatherEvent, WeatherReading

ONLINE, STALE, OFFLINE, LOW_BATTERY = STATES = ("online", "stale", "offline", "low_battery")
_LONG_AGO_US = -(2**62)
_AHEAD_US = timestamps.PLAUSIBLE_AHEAD // timedelta(microseconds=1)
"""What was said further ahead of now was said while this machine's clock was wrong; it must not outlast that clock."""

Value = str | int | float
Said = tuple[int, int, Value]
"""When it was said, when it was received (microseconds since 1970), and the value."""


class Observation(NamedTuple):
    """What one packet says of its sender.

    Attributes:
        said_us: Its source time, or the time of receipt when it has none that is plausible.
        received_us: When it was received.
        values: By column of ``device_status_current``; None says nothing.
        heard: Columns that hold times of receipt, with this one's.
    """

    said_us: int
    received_us: int
    values: Mapping[str, Value | None]
    heard: Mapping[str, str]


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """When a station counts as what.

    Attributes:
        stale_after_seconds: Without weather for this long it is stale.
        offline_after_seconds: Without any packet for this long it is offline.
        low_battery_v: At or below this, volts, its battery is low.
    """

    stale_after_seconds: float = 900.0
    offline_after_seconds: float = 3600.0
    low_battery_v: float = 2.375


class Link(NamedTuple):
    """How the packet came."""

    snr_db: float | None = None
    rssi_dbm: int | None = None
    hops_away: int | None = None


def observe(body: Body, *, source_name: str | None, link: Link, received_us: int, received_at_utc: str) -> Observation:
    """Return what a packet says of its sender, under the columns that contract weather 5.2 names and our own."""
    said_us = received_us if body.epoch_us is None else body.epoch_us
    heard = {"last_heard_at_utc": received_at_utc}
    values: dict[str, Value | None] = {
        "source_name": source_name,
        "last_snr_db": link.snr_db,
        "last_rssi_dbm": link.rssi_dbm,
        "last_hops_away": link.hops_away,
    }
    if isinstance(body, WeatherEvent):
        heard["last_event_at_utc"] = received_at_utc
        return Observation(said_us, received_us, values, heard)
    values["last_msg_id"] = body.msg_id
    if body.epoch_us is not None:
        values["last_source_ts_utc"] = body.source_ts_utc
    if isinstance(body, WeatherReading):
        heard["last_weather_at_utc"] = received_at_utc
        values["last_weather_source_ts_utc"] = timestamps.format_us(body.epoch_us)
        values["last_battery_voltage_v"] = body.values[BATTERY_PLACE]
    elif isinstance(body, Health):
        heard["last_health_at_utc"] = received_at_utc
        values |= {
            "last_status": body.status,
            "last_uptime_sec": body.uptime_sec,
            "last_bridge_uptime_sec": body.uptime_sec,
            "last_ip_address": body.ip_address,
        }
    elif body.event_type == "device_status":
        heard["last_device_status_at_utc"] = received_at_utc
        values |= _of_device(body)
    else:
        heard["last_hub_status_at_utc"] = received_at_utc
        values |= _of_hub(body)
    return Observation(said_us, received_us, values, heard)


def _of_device(body: Telemetry) -> dict[str, Value | None]:
    return {
        "last_telemetry_type": body.event_type,
        "last_uptime_sec": body.uptime_sec,
        "last_device_uptime_sec": body.uptime_sec,
        "last_firmware_revision": body.firmware_revision,
        "last_device_firmware_revision": body.firmware_revision,
        "last_rssi": body.rssi,
        "last_device_rssi": body.rssi,
        "last_hub_rssi": body.hub_rssi,
        "last_sensor_status": body.sensor_status,
        "last_debug": body.debug,
        "last_device_voltage_v": body.voltage,
    }


def _of_hub(body: Telemetry) -> dict[str, Value | None]:
    return {
        "last_telemetry_type": body.event_type,
        "last_uptime_sec": body.uptime_sec,
        "last_hub_uptime_sec": body.uptime_sec,
        "last_firmware_revision": body.firmware_revision,
        "last_hub_firmware_revision": body.firmware_revision,
        "last_rssi": body.rssi,
        "last_hub_own_rssi": body.rssi,
        "last_reset_flags": body.reset_flags,
        "last_hub_seq": body.seq,
        "last_fs_json": body.fs_json,
        "last_radio_stats_json": body.radio_stats_json,
        "last_mqtt_stats_json": body.mqtt_stats_json,
    }


class Status:
    """What is known of one sender: per column when it was said, and what."""

    def __init__(self, values: Sequence[Value | None] = (), times_json: str | None = None) -> None:
        """Take the values of a stored row, in the order of ``STATUS_COLUMNS``, and its ``value_times_json``."""
        self.said: dict[str, Said] = {}
        known = {name: value for name, value in zip(STATUS_COLUMNS, values, strict=False) if value is not None}
        times = _times(times_json)
        fallback: tuple[int, int] | None = None
        for name, value in known.items():
            time = times.get(name)
            if time is None:  # a row from before the times were kept, or edited by hand
                fallback = fallback or _last_heard(known)
                time = (_instant(value),) * 2 if name in HEARD_COLUMNS else fallback
            self.said[name] = (time[0], time[1], value)

    def take(self, observation: Observation) -> None:
        """Take over what was said later than what is known."""
        said_us, received_us, values, heard = observation
        said = self.said
        for name, value in values.items():
            if value is not None:
                _take_later(said, name, (said_us, received_us, value))
        for name, text in heard.items():
            _take_later(said, name, (received_us, received_us, text))

    def row(self) -> tuple[tuple[Value | None, ...], str]:
        """Return the values in the order of ``STATUS_COLUMNS``, and the times at which they were said."""
        said = self.said
        times = {name: said[name][:2] for name in STATUS_COLUMNS if name in said}
        values = tuple(said[name][2] if name in said else None for name in STATUS_COLUMNS)
        return values, msgspec.json.encode(times).decode()


HEARD_COLUMNS = (
    *("last_heard_at_utc", "last_weather_at_utc", "last_health_at_utc", "last_device_status_at_utc"),
    *("last_hub_status_at_utc", "last_event_at_utc"),
)
STATUS_COLUMNS = (
    *HEARD_COLUMNS,
    *("source_name", "last_status", "last_telemetry_type", "last_msg_id", "last_source_ts_utc", "last_uptime_sec"),
    *("last_ip_address", "last_firmware_revision", "last_rssi", "last_hub_rssi", "last_sensor_status", "last_debug"),
    *("last_device_voltage_v", "last_reset_flags", "last_hub_seq", "last_fs_json", "last_radio_stats_json"),
    *("last_mqtt_stats_json", "last_weather_source_ts_utc", "last_battery_voltage_v", "last_bridge_uptime_sec"),
    *("last_device_uptime_sec", "last_device_firmware_revision", "last_device_rssi", "last_hub_uptime_sec"),
    *("last_hub_firmware_revision", "last_hub_own_rssi", "last_snr_db", "last_rssi_dbm", "last_hops_away"),
)
"""Every column of ``device_status_current`` that packets say; the rest is reckoned."""
_SELECT = (
    f"SELECT {', '.join(STATUS_COLUMNS)}, value_times_json, derived_state, source_node_id FROM device_status_current"  # noqa: S608 - names above
)
_WRITTEN = (*STATUS_COLUMNS, "value_times_json", "derived_state", "updated_at_utc")
_UPSERT = (
    f"INSERT INTO device_status_current (source_node_id, {', '.join(_WRITTEN)})"  # noqa: S608 - names above
    f" VALUES (?{', ?' * len(_WRITTEN)}) ON CONFLICT(source_node_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _WRITTEN)
)


def _times(text: str | None) -> dict[str, tuple[int, int]]:
    try:
        return _TIMES.decode(text or "{}")
    except msgspec.DecodeError:  # somebody edited the file by hand; the values count as said when last heard
        return {}


_TIMES = msgspec.json.Decoder(dict[str, tuple[int, int]])


def _take_later(said: dict[str, Said], name: str, offered: Said) -> None:
    known = said.get(name)
    if known is None or offered[:2] > known[:2] or (offered[:2] == known[:2] and _rank(offered[2]) > _rank(known[2])):
        said[name] = offered


def _rank(value: Value) -> tuple[int, float, str]:
    """Order values of one moment: numbers by size, texts by code points."""
    return (1, 0.0, value) if isinstance(value, str) else (0, value, "")


def _instant(value: Value) -> int:
    try:
        return timestamps.to_epoch_us(value)
    except timestamps.TimestampError:
        return _LONG_AGO_US


def _last_heard(known: Mapping[str, Value]) -> tuple[int, int]:
    """Return the time that stands for values of a row from before the times were kept."""
    latest = max((_instant(known[name]) for name in HEARD_COLUMNS if name in known), default=_LONG_AGO_US)
    return latest, latest


def derived_state(status: Status, now_us: int, thresholds: Thresholds) -> str | None:
    """Return the word for a sender's state, None when it was never heard.

    Offline goes before stale, stale before a low battery: the graver fault is named.
    """
    if not status.said.keys() & set(HEARD_COLUMNS):
        return None
    believed = _believed(status.said, now_us)
    last_heard = max((believed[name][0] for name in HEARD_COLUMNS if name in believed), default=_LONG_AGO_US)
    if now_us - last_heard > thresholds.offline_after_seconds * 1e6:
        return OFFLINE
    weather = believed.get("last_weather_at_utc")
    if weather is None or now_us - weather[0] > thresholds.stale_after_seconds * 1e6:
        return STALE
    batteries = [
        said for name in ("last_battery_voltage_v", "last_device_voltage_v") if (said := believed.get(name)) is not None
    ]
    if batteries and float(max(batteries)[2]) <= thresholds.low_battery_v:
        return LOW_BATTERY
    return ONLINE


def _believed(known: Mapping[str, Said], now_us: int) -> dict[str, Said]:
    return {name: said for name, said in known.items() if max(said[:2]) <= now_us + _AHEAD_US}


def write_status(
    connection: sqlite3.Connection,
    source_node_id: str,
    observations: Iterable[Observation],
    *,
    now_us: int,
    thresholds: Thresholds,
    updated_at: str,
) -> None:
    """Bring the row of one sender up to date with what its packets say."""
    held = connection.execute(f"{_SELECT} WHERE source_node_id = ?", (source_node_id,)).fetchone()
    status = Status() if held is None else Status(tuple(held), held["value_times_json"])
    status.said = _believed(status.said, now_us)
    for observation in observations:
        status.take(observation)
    values, times_json = status.row()
    state = derived_state(status, now_us, thresholds)
    connection.execute(_UPSERT, (source_node_id, *values, times_json, state, updated_at))


def refresh_states(
    connection: sqlite3.Connection, now_us: int, thresholds: Thresholds, updated_at: str
) -> tuple[dict[str, int], dict[str, str]]:
    """Reckon the state of every sender for now.

    Returns:
        How many senders are in which state, and the states that changed by sender.
    """
    counts: dict[str, int] = {}
    changed: dict[str, str] = {}
    for row in connection.execute(_SELECT).fetchall():
        state = derived_state(Status(tuple(row), row["value_times_json"]), now_us, thresholds)
        if state is None:
            continue
        counts[state] = counts.get(state, 0) + 1
        if state != row["derived_state"]:
            changed[row["source_node_id"]] = state
            connection.execute(
                "UPDATE device_status_current SET derived_state = ?, updated_at_utc = ? WHERE source_node_id = ?",
                (state, updated_at, row["source_node_id"]),
            )
    return counts, changed
