"""Weather events, telemetry and heartbeats: their keys, coercions and checks (contract weather 4.3 to 4.5).

Each function takes the JSON object and the capture time and returns the record or raises ``Refusal``; of several faults
the first in the contract's order is the one named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from stormjay.ground import timestamps
from stormjay.weather.parser_values import (
    Refusal,
    clean,
    message_id,
    optional_float,
    optional_int,
    optional_json,
    optional_text,
    plausible_us,
    storable,
    time_text,
    to_int,
)
from stormjay.weather.records import Health, Telemetry, WeatherEvent

EVENT_TYPES = ("evt_precip", "evt_strike")
TELEMETRY_TYPES = ("device_status", "hub_status")
_STRIKE_DISTANCE_KM_MAX = 500
_STRIKE_ENERGY_MAX = 1_000_000_000
_VOLTAGE_V_MAX = 10
_RSSI_DBM = (-200, 50)


def weather_event(document: Mapping[str, Any], event_type: str, captured_us: int) -> WeatherEvent:
    """Return a rain start or a strike (contract weather 4.3).

    Raises:
        Refusal: With the contract's reason.
    """
    number = message_id(document)
    text, whole = _time(document)
    distance_km = optional_float(document, "ld")
    energy = optional_int(document, "se")
    if text is None or whole is None:
        raise Refusal("event_missing_ts")
    epoch_us = plausible_us(text, captured_us)
    if event_type == "evt_strike":
        if distance_km is None:
            raise Refusal("strike_missing_distance")
        if energy is None:
            raise Refusal("strike_missing_energy")
        _within(distance_km, 0, _STRIKE_DISTANCE_KM_MAX, "strike_distance_out_of_range")
        _within(energy, 0, _STRIKE_ENERGY_MAX, "strike_energy_out_of_range")
    # A rain start carries neither; when it does they are unchecked in the seed, but must still fit the store.
    if distance_km is not None and not math.isfinite(distance_km):
        raise Refusal("strike_distance_out_of_range")
    if energy is not None:
        storable(energy, "strike_energy_out_of_range")
    return WeatherEvent(event_type, number, text, epoch_us, whole, distance_km, energy)


def telemetry(document: Mapping[str, Any], event_type: str, captured_us: int) -> Telemetry:
    """Return what the sensor or the hub says of itself (contract weather 4.4).

    Raises:
        Refusal: With the contract's reason.
    """
    number = message_id(document)
    text, whole = _time(document)
    numbers = {key: optional_int(document, key) for key in ("up", "r", "hr", "ss", "dbg", "seq")}
    voltage = optional_float(document, "v")
    if text is None or whole is None:
        raise Refusal("telemetry_missing_ts")
    epoch_us = plausible_us(text, captured_us)
    if event_type == "device_status":
        _check_device(numbers, voltage)
    else:
        _check_hub(document, numbers)
    for key, value in numbers.items():
        if value is not None:
            storable(value, f"{_LONG[key]}_out_of_range")
    if voltage is not None and not math.isfinite(voltage):
        raise Refusal("voltage_out_of_range")
    return Telemetry(
        event_type=event_type,
        msg_id=number,
        source_ts_utc=text,
        epoch_us=epoch_us,
        telemetry_timestamp=whole,
        uptime_sec=numbers["up"],
        firmware_revision=optional_text(document, "fw"),
        rssi=numbers["r"],
        hub_rssi=numbers["hr"],
        sensor_status=numbers["ss"],
        debug=numbers["dbg"],
        voltage=voltage,
        reset_flags=optional_text(document, "rf"),
        seq=numbers["seq"],
        fs_json=optional_json(document, "fs", "fs_not_finite"),
        radio_stats_json=optional_json(document, "rs", "radio_stats_not_finite"),
        mqtt_stats_json=optional_json(document, "ms", "mqtt_stats_not_finite"),
    )


_LONG = {"up": "uptime", "r": "rssi", "hr": "hub_rssi", "ss": "sensor_status", "dbg": "debug", "seq": "seq"}


def _check_device(numbers: Mapping[str, int | None], voltage: float | None) -> None:
    _at_least_zero(numbers["up"], "uptime_out_of_range")
    if voltage is not None:
        _within(voltage, 0, _VOLTAGE_V_MAX, "voltage_out_of_range")
    for key in ("r", "hr"):
        value = numbers[key]
        if value is not None:
            _within(value, *_RSSI_DBM, f"{_LONG[key]}_out_of_range")
    _at_least_zero(numbers["ss"], "sensor_status_out_of_range")
    if numbers["dbg"] not in (None, 0, 1):
        raise Refusal("debug_out_of_range")


def _check_hub(document: Mapping[str, Any], numbers: Mapping[str, int | None]) -> None:
    _at_least_zero(numbers["up"], "uptime_out_of_range")
    rssi = numbers["r"]
    if rssi is not None:
        _within(rssi, *_RSSI_DBM, "rssi_out_of_range")
    _at_least_zero(numbers["seq"], "seq_out_of_range")
    for key, name in (("fs", "fs"), ("rs", "radio_stats"), ("ms", "mqtt_stats")):
        if not isinstance(document.get(key), list | None):
            raise Refusal(f"{name}_not_list")


def health(document: Mapping[str, Any], captured_us: int) -> Health:
    """Return a heartbeat (contract weather 4.5).

    Raises:
        Refusal: ``i`` or ``up`` is there and no whole number that can be stored.
    """
    number = optional_int(document, "i")
    uptime = optional_int(document, "up")
    if number is not None:
        storable(number, "msg_id_out_of_range")
    if uptime is not None:
        storable(uptime, "uptime_out_of_range")
    text = time_text(document)
    return Health(
        status=clean(str(document["sys"])),
        msg_id=number,
        uptime_sec=uptime,
        ip_address=optional_text(document, "ip"),
        error_reason=optional_text(document, "err"),
        source_ts_utc=text,
        epoch_us=plausible_us_if_any(text, captured_us),
    )


def plausible_us_if_any(text: str | None, captured_us: int) -> int | None:
    """Return the instant of an optional time, None when it is absent, not understood or implausible."""
    if text is None:
        return None
    try:
        epoch_us = timestamps.to_epoch_us(text)
    except timestamps.TimestampError:
        return None
    return epoch_us if timestamps.is_plausible(epoch_us, captured_us) else None


def _time(document: Mapping[str, Any]) -> tuple[str | None, int | None]:
    text = time_text(document)
    return text, None if text is None else to_int("ts", document["ts"])


def _within(value: float, low: float, high: float, reason: str) -> None:
    if not low <= value <= high:  # written so that NaN fails it
        raise Refusal(reason)


def _at_least_zero(value: int | None, reason: str) -> None:
    if value is not None and value < 0:
        raise Refusal(reason)
