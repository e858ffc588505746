"""A weather station as a Home Assistant device: its entities and its state, both pure (conventions 2.1).

Values come from ``weather/fields.py`` and from what the views derive, under the names that the views give them; the
state always holds every name of the entities, null where nothing is known, which Home Assistant shows as unknown.

Measured values expire after a number of their expected periods. Totals never expire and are never absent for long: a
total that comes back after weeks would break Home Assistant's sums. What needs the station's elevation or time zone is
an entity only where that is set (DESIGN.md decision 12).
"""

from __future__ import annotations

from typing import Any

import msgspec

from stormjay.ground.stats.homeassistant import OFFLINE, ONLINE, Device, Entity, safe_id
from stormjay.weather.fields import FIELDS, Field
from stormjay.weather.journal_status import STATES
from stormjay.weather.views import DayView, NowView, Site
from stormjay.weather.views_link import ConditionView

PERIODS_SECONDS = (60, 120, 300, 600, 900, 1800, 3600, 7200)
"""Expected periods are one of these, so that a period which varies a little does not change the device each time."""
_TOTALS = frozenset({"total", "total_increasing"})
_QUIET = frozenset({"wind_sample_interval_s", "report_interval_min", "precipitation_analysis_type"})
"""Values that tell of the station's way of working rather than of the weather."""


class Derived(msgspec.Struct, frozen=True, kw_only=True):
    """A value that no sensor measures, as the views name it.

    Attributes:
        name: Its name in the state.
        label, unit, device_class, state_class, decimals, icon: As for a field.
        needs: What must be known of the station: ``elevation``, ``zone``, or nothing.
    """

    name: str
    label: str
    unit: str | None = None
    device_class: str | None = None
    state_class: str | None = "measurement"
    decimals: int | None = 1
    icon: str | None = None
    needs: str = ""


DERIVED = (
    Derived(name="dew_point_c", label="Dew point", unit="°C", device_class="temperature"),
    Derived(name="feels_like_c", label="Feels like", unit="°C", device_class="temperature"),
    Derived(name="wet_bulb_c", label="Wet bulb", unit="°C", device_class="temperature"),
    Derived(
        name="sea_level_pressure_hpa", label="Sea-level pressure", unit="hPa", device_class="atmospheric_pressure",
        needs="elevation",
    ),
    Derived(name="pressure_change_3h_hpa", label="Pressure change in 3 h", unit="hPa", icon="mdi:trending-up"),
    Derived(
        name="rain_rate_mm_h", label="Rain rate", unit="mm/h", device_class="precipitation_intensity", decimals=2
    ),
    Derived(
        name="rain_today_mm", label="Rain today", unit="mm", device_class="precipitation",
        state_class="total_increasing", decimals=2, needs="zone",
    ),
    Derived(
        name="lightning_today", label="Lightning strikes today", state_class="total_increasing", decimals=0,
        icon="mdi:flash", needs="zone",
    ),
    Derived(
        name="wind_gust_today_ms", label="Highest gust today", unit="m/s", device_class="wind_speed", needs="zone",
    ),
)  # fmt: skip

_DIAGNOSTICS = (
    Entity(
        key="snr_db", name="Radio signal to noise", value_template="{{ value_json.snr_db }}", state_class="measurement",
        unit_of_measurement="dB", entity_category="diagnostic", suggested_display_precision=1, icon="mdi:signal",
    ),
    Entity(
        key="rssi_dbm", name="Radio signal strength", value_template="{{ value_json.rssi_dbm }}",
        device_class="signal_strength", state_class="measurement", unit_of_measurement="dBm",
        entity_category="diagnostic", suggested_display_precision=0,
    ),
    Entity(
        key="hops_away", name="Radio relays passed", value_template="{{ value_json.hops_away }}",
        state_class="measurement", entity_category="diagnostic", icon="mdi:transit-connection-variant",
    ),
    Entity(
        key="state", name="State", value_template="{{ value_json.state }}", device_class="enum", options=STATES,
        entity_category="diagnostic",
    ),
    Entity(
        key="last_reading", name="Last reading", value_template="{{ value_json.ts }}", device_class="timestamp",
        entity_category="diagnostic",
    ),
)  # fmt: skip


def station_topics(base_topic: str, station: str) -> tuple[str, str]:
    """Return the topics of a station's state and availability."""
    name = safe_id(station)
    return f"{base_topic}/weather/{name}/state", f"{base_topic}/weather/{name}/availability"


def expected_period_seconds(report_interval_min: float | None) -> int:
    """Return the period in which the next reading is expected, from the longest interval reported lately."""
    wanted = 60 * (report_interval_min or 1)
    return next((period for period in PERIODS_SECONDS if period >= wanted), PERIODS_SECONDS[-1])


def station_device(
    station: str,
    name: str,
    site: Site,
    *,
    base_topic: str,
    period_seconds: int,
    expire_factor: float = 2.5,
    firmware: str | None = None,
) -> Device:
    """Return a station with all its entities.

    Args:
        station: Node id, as ``!5c32d4d9``.
        name: For people.
        site: What is known of the station; decides which derived values it has.
        base_topic: First part of the product's topics.
        period_seconds: How often a reading is expected.
        expire_factor: A measured value expires after this many periods.
        firmware: Of the station itself, or None.
    """
    state_topic, availability_topic = station_topics(base_topic, station)
    expire_after = round(expire_factor * period_seconds)
    known = {"": True, "elevation": site.elevation_m is not None, "zone": bool(site.time_zone)}
    return Device(
        device_id=f"{safe_id(base_topic)}_{safe_id(station)}",
        name=name,
        slug=safe_id(name) or safe_id(station),
        entities=(
            *(_measured(field, expire_after) for field in FIELDS),
            *(_derived(value, expire_after) for value in DERIVED if known[value.needs]),
            *_DIAGNOSTICS,
        ),
        state_topic=state_topic,
        availability_topics=(f"{base_topic}/bridge/state", availability_topic),
        manufacturer="WeatherFlow",
        model="Tempest over Meshtastic",
        serial_number=station,
        sw_version=firmware,
        via_device=f"{safe_id(base_topic)}_service",
    )


def station_state(now: NowView, day: DayView, condition: ConditionView, site: Site) -> dict[str, Any]:
    """Return a station's state: the newest reading by its source time, what follows from it, and how it is heard."""
    reading, derived = now.reading, now.derived
    state: dict[str, Any] = {
        "ts": reading.source_ts_utc if reading else None,
        "received_at_utc": reading.received_at_utc if reading else None,
    }
    for field in FIELDS:
        state[field.cloud] = _rounded(reading.values.get(field.cloud), field.decimals + 2) if reading else None
    own = {
        "pressure_change_3h_hpa": now.pressure_trend.change_hpa if now.pressure_trend else None,
        "rain_today_mm": now.rain.today.amount_mm,
        "lightning_today": day.lightning_strike_count,
        "wind_gust_today_ms": now.gust_today.value if now.gust_today else None,
    }
    known = {"": True, "elevation": site.elevation_m is not None, "zone": bool(site.time_zone)}
    for value in DERIVED:
        if known[value.needs]:
            number = own[value.name] if value.name in own else getattr(derived, value.name, None)
            state[value.name] = _rounded(number, (value.decimals or 0) + 1)
    state["battery_voltage_v"] = condition.battery_voltage_v
    state["snr_db"] = condition.snr_db
    state["rssi_dbm"] = condition.rssi_dbm
    state["hops_away"] = condition.hops_away
    state["state"] = condition.state
    return state


def availability(condition: ConditionView) -> str:
    """Return whether a station counts as available: it was heard within the time after which it is called offline."""
    return OFFLINE if condition.state in (None, "offline") else ONLINE


def _rounded(number: float | None, decimals: int) -> float | None:
    """Two figures more than are shown: without them arithmetic leaves tails of sixteen digits in every message."""
    return number if number is None or isinstance(number, int) else round(number, decimals)


def _measured(field: Field, expire_after: int) -> Entity:
    is_diagnostic = field.column in _QUIET or field.device_class == "voltage"
    return Entity(
        key=field.cloud,
        name=field.label,
        value_template="{{ value_json." + field.cloud + " }}",
        device_class=field.device_class,
        state_class=field.state_class,
        unit_of_measurement=field.unit or None,
        suggested_display_precision=field.decimals,
        entity_category="diagnostic" if is_diagnostic else None,
        expire_after=None if field.state_class in _TOTALS else expire_after,
        # Values of the cloud's layout, which no station sends by radio, would stand there as unknown for ever.
        enabled_by_default=False if field.column in _QUIET or field.hub_index >= _CLOUD_ONLY_FROM else None,
    )


_CLOUD_ONLY_FROM = 18


def _derived(value: Derived, expire_after: int) -> Entity:
    return Entity(
        key=value.name,
        name=value.label,
        value_template="{{ value_json." + value.name + " }}",
        device_class=value.device_class,
        state_class=value.state_class,
        unit_of_measurement=value.unit,
        suggested_display_precision=value.decimals,
        expire_after=None if value.state_class in _TOTALS else expire_after,
        icon=value.icon,
    )
