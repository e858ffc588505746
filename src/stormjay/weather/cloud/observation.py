"""Body of a request -> observation, or the refusal with its reasons; pure (contract weather 6.1 and 6.2).

Every body gets an observation or a 4xx: what JSON allows and the store cannot hold (NaN, 1e200, 39 digits, half a
surrogate pair, endless nesting) is found here (fault B22). Messages and their order are the contract's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from stormjay.ground import timestamps
from stormjay.ground.timestamps import TimestampError
from stormjay.weather.fields import BY_CLOUD, FIELDS, Ranges

DIGITS_MAX = 38
NESTING_MAX = 28
"""The store allows 32 levels; the item puts the body two levels down."""
STATION_ID_LENGTH_MAX = 256
ENUMERATED = frozenset({"precipitation_type", "precipitation_analysis_type"})
"""Cloud names whose values are codes: a list of allowed ones, and no mean."""
_MAGNITUDE_BELOW = 1e126
_MAGNITUDE_FROM = 1e-130
_WHOLE_BELOW = 2**53
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """A valid observation.

    Attributes:
        station_id: Who measured.
        msg_id: The sender's message number.
        source_ts_utc: When, in the one output form; with the station it is the identity.
        item: The whole observation item but for the time of its writing.
    """

    station_id: str
    msg_id: int
    source_ts_utc: str
    item: dict[str, Any]

    @property
    def partition(self) -> str:
        """Partition key."""
        return partition_of(self.station_id)

    @property
    def sort(self) -> str:
        """Sort key."""
        return f"OBS#{self.source_ts_utc}#WEATHER"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a body is no observation.

    Attributes:
        status: HTTP status.
        error: The machine word.
        details: One line per fault found.
    """

    error: str
    status: int = 400
    details: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """What a weather value must be.

    Attributes:
        low, high: Inclusive bounds.
        allowed: Codes whose whole part is allowed, in place of the bounds.
    """

    low: float
    high: float
    allowed: tuple[int, ...] = ()


def rules(ranges: Ranges) -> dict[str, Rule]:
    """Return the rule of each weather value by its cloud name, from the one field table and what settings widened."""
    result: dict[str, Rule] = {}
    for field in FIELDS:
        low, high = ranges[field.column][1]
        allowed = tuple(range(int(low), int(high) + 1)) if field.cloud in ENUMERATED else ()
        result[field.cloud] = Rule(low, high, allowed)
    return result


def partition_of(station_id: str) -> str:
    """Return the partition key of a station."""
    return f"STATION#{station_id}"


class _LongNumber(float):
    """A number with more digits than can be kept; it compares as the nearest float."""


def parse_body(body: bytes) -> dict[str, Any] | Refusal:
    """Return the JSON object of a request body; an absent body is an empty object."""
    if not body:
        return {}
    try:
        text = body.decode()
        content = json.loads(text, parse_float=_float, parse_int=_int, parse_constant=_no_json)
        if _SURROGATE.search(body):
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return Refusal(error="invalid_json")
    if not isinstance(content, dict):
        return Refusal(error="body_must_be_object", details=("the body must be a JSON object",))
    return content


def _float(text: str) -> float:
    mantissa = text.lower().partition("e")[0]
    digits = mantissa.replace("-", "").replace(".", "").strip("0")
    return _LongNumber(text) if len(digits) > DIGITS_MAX else float(text)


def _int(text: str) -> float:
    return int(text) if len(text.lstrip("-")) <= DIGITS_MAX else _LongNumber(text)


def _no_json(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def observe(request: Mapping[str, Any], known: Mapping[str, Rule], now_us: int) -> Observation | Refusal:
    """Return the observation of a request, or everything that is wrong with it.

    Args:
        request: The body as an object, with the level ``payload``.
        known: From ``rules``.
        now_us: When it arrived, microseconds since 1970; source times are judged by it.
    """
    payload = request.get("payload") or {}
    if not isinstance(payload, dict):
        return Refusal(error="payload_must_be_object")
    errors: list[str] = []
    station_id = _station_id(payload.get("source_node_id"), errors)
    source_name = payload.get("source_name")
    if source_name is not None and not isinstance(source_name, str):
        errors.append("payload.source_name must be a string")
    msg_id = _msg_id(payload.get("msg_id"), errors)
    weather = payload.get("weather")
    if weather is None:
        errors.append("payload.weather is required")
    elif not isinstance(weather, dict):
        errors.append("payload.weather must be an object")
    received = _time(payload.get("received_at_utc"), "payload.received_at_utc", errors)
    source = _time(payload.get("source_ts_utc"), "payload.source_ts_utc", errors)
    if source is not None and not timestamps.is_plausible(source, now_us):
        errors.append("payload.source_ts_utc must lie between 2000-01-01T00:00:00Z and 24 hours from now")
    if weather is not None:
        _check_weather(weather, known, errors)
    kept = _kept(request, "body", 1, errors)
    if errors or station_id is None or msg_id is None or received is None or source is None:
        return Refusal(error="validation_failed", details=tuple(errors))
    canonical = timestamps.format_us(source)
    observation = Observation(station_id=station_id, msg_id=msg_id, source_ts_utc=canonical, item={})
    observation.item.update(
        pk=observation.partition,
        sk=observation.sort,
        record_type="observation",
        observation_type="WEATHER",
        source_node_id=station_id,
        source_name=source_name,
        msg_id=msg_id,
        source_ts_utc=canonical,
        source_ts_raw=kept["payload"]["source_ts_utc"],
        source_ts_sort_utc=canonical,
        received_at_utc=timestamps.format_us(received),
        weather=kept["payload"]["weather"],
        raw_payload=kept,
    )
    return observation


def latest_of(item: Mapping[str, Any], updated_at_utc: str) -> dict[str, Any]:
    """Return the LATEST item that points to a stored observation item."""
    latest = {name: value for name, value in item.items() if name not in {"raw_payload", "ingested_at_utc"}}
    latest.update(sk="LATEST", record_type="latest", latest_observation_sk=item["sk"], updated_at_utc=updated_at_utc)
    return latest


def _station_id(value: object, errors: list[str]) -> str | None:
    if not value or not isinstance(value, str):
        errors.append("payload.source_node_id is required and must be a string")
        return None
    if len(value) > STATION_ID_LENGTH_MAX:
        errors.append(f"payload.source_node_id must have at most {STATION_ID_LENGTH_MAX} characters")
        return None
    return value


def _msg_id(value: object, errors: list[str]) -> int | None:
    if value is None:
        errors.append("payload.msg_id is required")
        return None
    if isinstance(value, int | float | str) and not isinstance(value, bool | _LongNumber):
        try:
            number = int(value)
        except (ValueError, OverflowError):
            number = 10**DIGITS_MAX
        if abs(number) < 10**DIGITS_MAX:
            return number
    errors.append("payload.msg_id must be an integer")
    return None


def _time(value: object, name: str, errors: list[str]) -> int | None:
    if value is None:
        errors.append(f"{name} is required")
        return None
    try:
        return timestamps.to_epoch_us(float(value) if isinstance(value, _LongNumber) else value)
    except TimestampError as error:
        errors.append(f"{name} {error}")
        return None


def _check_weather(weather: object, known: Mapping[str, Rule], errors: list[str]) -> None:
    if not isinstance(weather, dict):
        errors.append("payload.weather must be an object")  # the contract has it a second time at this place
        return
    for name, value in weather.items():
        if name == "timestamp":
            _time(value, "weather.timestamp", errors)
        elif name in BY_CLOUD:
            fault = _fault(value, known[name])
            if fault:
                errors.append(f"{name} {fault}")


def _fault(value: object, rule: Rule) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "must be numeric"
    if rule.allowed:
        inside = rule.allowed[0] - 1 < value < rule.allowed[-1] + 1 and int(value) in rule.allowed
        return "" if inside else f"must be one of {list(rule.allowed)}"
    return "" if rule.low <= value <= rule.high else f"must be between {rule.low:.15g} and {rule.high:.15g}"


def _kept(value: Any, path: str, level: int, errors: list[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value as it is kept, whole numbers as integers; what cannot be kept is added to the errors."""
    if isinstance(value, float):
        return _kept_number(value, path, errors)
    if not isinstance(value, dict | list):
        return value
    if level > NESTING_MAX:
        errors.append(f"{path:.100} is nested deeper than {NESTING_MAX} levels")
        return None
    if isinstance(value, dict):
        inner = "" if path == "body" else f"{path}."
        return {name: _kept(part, f"{inner}{name}", level + 1, errors) for name, part in value.items()}
    return [_kept(part, f"{path}[{place}]", level + 1, errors) for place, part in enumerate(value)]


def _kept_number(value: float, path: str, errors: list[str]) -> float:
    if isinstance(value, _LongNumber):
        errors.append(f"{path:.100} has more than {DIGITS_MAX} digits")
    elif value and not _MAGNITUDE_FROM <= abs(value) < _MAGNITUDE_BELOW:
        if abs(value) > 1 and path.removeprefix("payload.weather.") in BY_CLOUD:
            return value  # its own range has been named already
        errors.append(f"{path:.100} is out of the range of numbers that can be kept")
    elif value.is_integer() and abs(value) < _WHOLE_BELOW:
        return int(value)
    return value
