"""The one table of weather values: short key on the air, SQLite column, cloud name, ranges, unit, label, HA classes.

Parser, ingest, SQLite mapping, delivery body, discovery, page and docs read it. Ranges: ``edge`` is the seed's parser
range and what the bridge may send; ``cloud`` is what ingest takes; edge lies inside cloud, so what the edge accepts the
cloud accepts (DESIGN.md decision 5; contract weather 4.2 and 6.1). Bounds are inclusive.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["int", "float"]
Merge = Literal["state", "sum", "max", "min"]
Range = tuple[float, float]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One weather value.

    Attributes:
        key: Short key on the air.
        column: Column of ``weather_readings`` and key of the parser's normalised form.
        cloud: Name in the delivery body and in the cloud item; unit last.
        kind: Numbers of kind ``int`` are whole.
        edge, cloud_range: Inclusive bounds.
        reason: What a value outside ``edge`` is refused with.
        required: A reading without it is refused.
        unit, label: For people.
        decimals: Shown to people.
        merge: How two records of one interval become one (amounts add; gust is the highest, lull the lowest).
        device_class, state_class: Home Assistant's classes, or None.
        hub_index: Place in the hub's ``obs_st`` list (18 to 21 only in the cloud layout).
    """

    key: str
    column: str
    cloud: str
    kind: Kind
    edge: Range
    cloud_range: Range
    reason: str
    unit: str
    label: str
    hub_index: int
    required: bool = False
    decimals: int = 1
    merge: Merge = "state"
    device_class: str | None = None
    state_class: str | None = "measurement"


FIELDS: tuple[Field, ...] = (
    Field(
        key="t", column="temp_c", cloud="air_temp_c", kind="float", edge=(-60, 70), cloud_range=(-100, 100),
        reason="temp_out_of_range", unit="°C", label="Temperature", hub_index=7, required=True,
        device_class="temperature",
    ),
    Field(
        key="h", column="humidity_pct", cloud="relative_humidity_pct", kind="float", edge=(0, 100),
        cloud_range=(0, 100), reason="humidity_out_of_range", unit="%", label="Humidity", hub_index=8, required=True,
        decimals=0, device_class="humidity",
    ),
    Field(
        key="p", column="pressure_hpa", cloud="station_pressure_hpa", kind="float", edge=(800, 1200),
        cloud_range=(800, 1200), reason="pressure_out_of_range", unit="hPa", label="Station pressure", hub_index=6,
        required=True, device_class="atmospheric_pressure",
    ),
    Field(
        key="w", column="wind_ms", cloud="wind_avg_ms", kind="float", edge=(0, 100), cloud_range=(0, 150),
        reason="wind_out_of_range", unit="m/s", label="Wind average", hub_index=2, required=True,
        device_class="wind_speed",
    ),
    Field(
        key="d", column="wind_dir_deg", cloud="wind_dir_deg", kind="int", edge=(0, 360), cloud_range=(0, 360),
        reason="wind_dir_out_of_range", unit="°", label="Wind direction", hub_index=4, required=True, decimals=0,
        device_class="wind_direction", state_class="measurement_angle",
    ),
    Field(
        key="r", column="rain_mm", cloud="rain_interval_mm", kind="float", edge=(0, 500), cloud_range=(0, 1000),
        reason="rain_out_of_range", unit="mm", label="Rain in the interval", hub_index=12, required=True, decimals=2,
        merge="sum", device_class="precipitation", state_class=None,
    ),
    Field(
        key="l", column="wind_lull_ms", cloud="wind_lull_ms", kind="float", edge=(0, 100), cloud_range=(0, 150),
        reason="wind_lull_out_of_range", unit="m/s", label="Wind lull", hub_index=1, merge="min",
        device_class="wind_speed",
    ),
    Field(
        key="g", column="wind_gust_ms", cloud="wind_gust_ms", kind="float", edge=(0, 120), cloud_range=(0, 200),
        reason="wind_gust_out_of_range", unit="m/s", label="Wind gust", hub_index=3, merge="max",
        device_class="wind_speed",
    ),
    Field(
        key="ws", column="wind_sample_interval_s", cloud="wind_sample_interval_s", kind="int", edge=(0, 120),
        cloud_range=(0, 3600), reason="wind_sample_interval_out_of_range", unit="s", label="Wind sample interval",
        hub_index=5, decimals=0, device_class="duration", state_class=None,
    ),
    Field(
        key="lux", column="illuminance_lux", cloud="illuminance_lux", kind="float", edge=(0, 200_000),
        cloud_range=(0, 500_000), reason="illuminance_out_of_range", unit="lx", label="Illuminance", hub_index=9,
        decimals=0, device_class="illuminance",
    ),
    Field(
        key="uv", column="uv_index", cloud="uv_index", kind="float", edge=(0, 30), cloud_range=(0, 30),
        reason="uv_out_of_range", unit="UV index", label="UV index", hub_index=10,
    ),
    Field(
        key="sr", column="solar_radiation_wm2", cloud="solar_radiation_wm2", kind="float", edge=(0, 2000),
        cloud_range=(0, 2000), reason="solar_radiation_out_of_range", unit="W/m²", label="Solar radiation",
        hub_index=11, decimals=0, device_class="irradiance",
    ),
    Field(
        key="pt", column="precipitation_type", cloud="precipitation_type", kind="int", edge=(0, 4), cloud_range=(0, 4),
        reason="precipitation_type_out_of_range", unit="", label="Precipitation type", hub_index=13, decimals=0,
        state_class=None,
    ),
    Field(
        key="ld", column="lightning_avg_distance_km", cloud="lightning_avg_distance_km", kind="float", edge=(0, 500),
        cloud_range=(0, 1000), reason="lightning_distance_out_of_range", unit="km", label="Lightning distance",
        hub_index=14, decimals=0, device_class="distance",
    ),
    Field(
        key="lc", column="lightning_strike_count", cloud="lightning_strike_count", kind="int", edge=(0, 10_000),
        cloud_range=(0, 1_000_000), reason="lightning_count_out_of_range", unit="", label="Lightning strikes",
        hub_index=15, decimals=0, merge="sum", state_class=None,
    ),
    Field(
        key="bat", column="battery_voltage_v", cloud="battery_voltage_v", kind="float", edge=(0, 10),
        cloud_range=(0, 20), reason="battery_voltage_out_of_range", unit="V", label="Battery", hub_index=16, decimals=2,
        device_class="voltage",
    ),
    Field(
        key="ri", column="report_interval_min", cloud="report_interval_min", kind="int", edge=(0, 120),
        cloud_range=(0, 1440), reason="report_interval_out_of_range", unit="min", label="Report interval",
        hub_index=17, decimals=0, merge="sum", device_class="duration", state_class=None,
    ),
    Field(
        key="rd", column="local_day_rain_mm", cloud="local_day_rain_mm", kind="float", edge=(0, 2000),
        cloud_range=(0, 5000), reason="local_day_rain_out_of_range", unit="mm", label="Rain today (station)",
        hub_index=18, decimals=2, device_class="precipitation", state_class="total_increasing",
    ),
    Field(
        key="nr", column="nearcast_rain_mm", cloud="nearcast_rain_mm", kind="float", edge=(0, 2000),
        cloud_range=(0, 5000), reason="nearcast_rain_out_of_range", unit="mm", label="Nearcast rain", hub_index=19,
        decimals=2, merge="sum", device_class="precipitation", state_class=None,
    ),
    Field(
        key="nrd", column="local_day_nearcast_rain_mm", cloud="local_day_nearcast_rain_mm", kind="float",
        edge=(0, 2000), cloud_range=(0, 5000), reason="local_day_nearcast_rain_out_of_range", unit="mm",
        label="Nearcast rain today (station)", hub_index=20, decimals=2, device_class="precipitation",
        state_class="total_increasing",
    ),
    Field(
        key="pa", column="precipitation_analysis_type", cloud="precipitation_analysis_type", kind="int", edge=(0, 10),
        cloud_range=(0, 10), reason="precipitation_analysis_type_out_of_range", unit="",
        label="Precipitation analysis", hub_index=21, decimals=0, state_class=None,
    ),
)  # fmt: skip

BY_KEY = {field.key: field for field in FIELDS}
BY_COLUMN = {field.column: field for field in FIELDS}
BY_CLOUD = {field.cloud: field for field in FIELDS}
REQUIRED = tuple(field for field in FIELDS if field.required)
OPTIONAL = tuple(field for field in FIELDS if not field.required)

Ranges = dict[str, tuple[Range, Range]]
"""Per column its (edge, cloud) bounds, as settings have widened them."""


def ranges(widened: dict[str, Range] | None = None) -> Ranges:
    """Return the bounds of every column, with those of ``widened`` (setting ``[weather.ranges]``) taken in both places.

    Args:
        widened: New inclusive bounds per column name; the cloud range grows to hold them.

    Raises:
        KeyError: A name is no column of the table.
        ValueError: Bounds are reversed.
    """
    result = {field.column: (field.edge, field.cloud_range) for field in FIELDS}
    for column, (low, high) in (widened or {}).items():
        _, (cloud_low, cloud_high) = result[column]
        if low > high:
            raise ValueError(f"the range of {column} ends ({high}) before it begins ({low})")
        result[column] = ((low, high), (min(low, cloud_low), max(high, cloud_high)))
    return result
