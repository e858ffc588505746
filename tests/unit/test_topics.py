"""The list of topics names each topic that the code publishes, and settings that exist."""

from __future__ import annotations

import re

from stormjay import settings
from stormjay.ground.stats.components import component_topic
from stormjay.ground.stats.homeassistant import Device, Entity, device_topic, single_topic
from stormjay.topics import TOPICS, topics_markdown
from stormjay.weather.discovery import station_topics


def test_every_published_topic_is_listed() -> None:
    device = Device(
        device_id="x",
        name="x",
        slug="x",
        state_topic="x",
        availability_topics=(),
        entities=(Entity(key="y", name="y", value_template="z"),),
    )
    used = [
        "stormjay/bridge/state",
        component_topic("stormjay", "weather"),
        *station_topics("stormjay", "!5c32d4d9"),
        device_topic("homeassistant", device),
        single_topic("homeassistant", device, device.entities[0]),
        "homeassistant/status",
        "msh/US/2/json/LongFast/!01020304",
    ]
    patterns = [re.compile(re.sub(r"<[a-z_]+>", "[^/]+", topic.pattern)) for topic in TOPICS]
    assert all(any(pattern.fullmatch(topic) for pattern in patterns) for topic in used)
    assert len(used) == len(TOPICS)


def test_the_reference_lists_all_and_settings_exist() -> None:
    text = topics_markdown()
    for topic in TOPICS:
        assert topic.pattern in text
        assert settings.find(tuple(topic.setting.split("."))) is not None
