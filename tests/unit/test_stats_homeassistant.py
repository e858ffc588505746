"""Discovery messages: what Home Assistant asks of them (conventions 2.1), in both forms."""

from __future__ import annotations

import re

import pytest

from stormjay.ground.stats import Metric, Statistics
from stormjay.ground.stats.components import service_device, statistics_by_component
from stormjay.ground.stats.homeassistant import (
    Device,
    Entity,
    device_message,
    device_topic,
    discovery_records,
    safe_id,
    topics_of_other_mode,
)

DEVICE = Device(
    device_id="stormjay_5c32d4d9",
    name="Garden",
    slug="garden",
    state_topic="stormjay/weather/5c32d4d9/state",
    availability_topics=("stormjay/bridge/state", "stormjay/weather/5c32d4d9/availability"),
    entities=(
        Entity(
            key="air_temp_c",
            name="Temperature",
            value_template="{{ value_json.air_temp_c }}",
            device_class="temperature",
            state_class="measurement",
            unit_of_measurement="°C",
            expire_after=150,
        ),
        Entity(key="online", name="Online", value_template="{{ value_json.online }}", platform="binary_sensor"),
    ),
)


def test_one_message_per_device_has_device_origin_components_and_availability() -> None:
    message = device_message(DEVICE, version="1.2.3")
    assert device_topic("homeassistant", DEVICE) == "homeassistant/device/stormjay_5c32d4d9/config"
    assert message["device"] == {"identifiers": ["stormjay_5c32d4d9"], "name": "Garden"}
    assert message["origin"] == {"name": "Stormjay", "sw_version": "1.2.3"}
    assert message["availability_mode"] == "all"
    assert [each["topic"] for each in message["availability"]] == list(DEVICE.availability_topics)
    assert message["components"]["air_temp_c"] == {
        "platform": "sensor",
        "unique_id": "stormjay_5c32d4d9_air_temp_c",
        "default_entity_id": "sensor.garden_air_temp_c",
        "name": "Temperature",
        "value_template": "{{ value_json.air_temp_c }}",
        "device_class": "temperature",
        "state_class": "measurement",
        "unit_of_measurement": "°C",
        "expire_after": 150,
    }
    assert "object_id" not in str(message)


def test_single_records_carry_the_same_and_their_device() -> None:
    records = discovery_records("homeassistant", DEVICE, mode="single", version="1")
    assert [record.topic for record in records] == [
        "homeassistant/sensor/stormjay_5c32d4d9/air_temp_c/config",
        "homeassistant/binary_sensor/stormjay_5c32d4d9/online/config",
    ]
    assert records[0].payload["device"]["identifiers"] == ["stormjay_5c32d4d9"]
    assert records[0].payload["state_topic"] == DEVICE.state_topic
    assert records[0].payload["unique_id"] == "stormjay_5c32d4d9_air_temp_c"
    assert "platform" not in records[0].payload


@pytest.mark.parametrize("mode", ["device", "single"])
def test_each_form_knows_where_the_other_would_lie(mode: str) -> None:
    used = {record.topic for record in discovery_records("ha", DEVICE, mode=mode, version="1")}  # type: ignore[arg-type] # parametrised
    others = set(topics_of_other_mode("ha", DEVICE, mode=mode))  # type: ignore[arg-type] # parametrised
    assert used
    assert others
    assert not used & others


def test_ids_hold_only_what_topics_may() -> None:
    assert safe_id("!5c32D4d9") == "5c32d4d9"
    assert re.fullmatch(r"[a-z0-9_-]+", safe_id("über / alles#+"))


def test_statistics_are_grouped_by_component_and_the_service_is_a_device() -> None:
    statistics = Statistics()
    received = Metric("weather_received", "counter", "Packets heard.", label="Packets heard")
    depth = Metric("outbox_depth", "gauge", "Waiting.", labels=("destination",), label="Waiting")
    disk = Metric("disk_free_bytes", "gauge", "Free.", device_class="data_size", unit="B", label="Free space")
    statistics.declare(received, depth, disk)
    statistics.add(received, 2)
    statistics.set(depth, 5, destination="Second one")
    assert statistics_by_component(statistics) == {
        "weather": {"received": 2.0},
        "outbox": {"depth_second_one": 5.0},
        "disk": {"free_bytes": 0.0},
    }
    device = service_device(statistics, "stormjay", version="1")
    entities = {entity.key: entity for entity in device.entities}
    assert set(entities) == {"weather_received", "disk_free_bytes"}
    assert entities["weather_received"].state_class == "total_increasing"
    assert entities["weather_received"].state_topic == "stormjay/statistics/weather/state"
    assert entities["disk_free_bytes"].unit_of_measurement == "B"
    assert all(entity.entity_category == "diagnostic" for entity in device.entities)
