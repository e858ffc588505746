"""Every MQTT topic that the product publishes or listens to, in one list; the reference page is made from it."""

from __future__ import annotations

from typing import Literal

import msgspec


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic or family of topics.

    Attributes:
        pattern: With ``<name>`` for each part that varies.
        direction: Whether the product publishes it or listens to it.
        payload: What is in it, one sentence.
        retained: Whether the broker keeps the newest.
        setting: The setting that switches it, or empty.
    """

    pattern: str
    direction: Literal["published", "heard"]
    payload: str
    retained: bool
    setting: str = ""


TOPICS = (
    Topic(
        pattern="<base_topic>/bridge/state",
        direction="published",
        payload="`online` while Stormjay is connected; the broker makes it `offline` by the last will.",
        retained=True,
        setting="mqtt.url",
    ),
    Topic(
        pattern="<base_topic>/statistics/<component>/state",
        direction="published",
        payload="All counters and gauges of one component as a JSON object, each minute.",
        retained=True,
        setting="mqtt.url",
    ),
    Topic(
        pattern="<base_topic>/weather/<station>/state",
        direction="published",
        payload="Newest reading of a station with derived values and link quality, a JSON object; the station is its "
        "node id without `!`. A name without a value is null.",
        retained=True,
        setting="mqtt.url",
    ),
    Topic(
        pattern="<base_topic>/weather/<station>/availability",
        direction="published",
        payload="`online`, or `offline` when nothing was heard of the station for `weather.offline_after_seconds`.",
        retained=True,
        setting="mqtt.url",
    ),
    Topic(
        pattern="<discovery_prefix>/device/<device>/config",
        direction="published",
        payload="Home Assistant: one device with all its entities (`mqtt.discovery_mode` is `device`).",
        retained=True,
        setting="mqtt.discovery",
    ),
    Topic(
        pattern="<discovery_prefix>/<platform>/<device>/<entity>/config",
        direction="published",
        payload="Home Assistant: one entity (`mqtt.discovery_mode` is `single`). In the mode `device` a record found "
        "there is moved with `migrate_discovery` and then cleared.",
        retained=True,
        setting="mqtt.discovery",
    ),
    Topic(
        pattern="<discovery_prefix>/status",
        direction="heard",
        payload="`online` when Home Assistant has come up: discovery and states are sent again after 1 to 8 seconds.",
        retained=False,
        setting="mqtt.discovery",
    ),
    Topic(
        pattern="msh/<region>/2/json/<channel>/<gateway>",
        direction="heard",
        payload="JSON uplink of a Meshtastic node; the filter is the path of the address.",
        retained=False,
        setting="weather.radio.source",
    ),
)


def topics_markdown() -> str:
    """Return the reference of all topics."""
    lines = [
        "# MQTT topics",
        "",
        "Made from the list in `src/stormjay/topics.py`; change it there.",
        "",
        "| topic | direction | retained | payload | switched by |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{topic.pattern}` | {topic.direction} | {'yes' if topic.retained else 'no'} | {topic.payload} |"
        f" {f'`{topic.setting}`' if topic.setting else ''} |"
        for topic in TOPICS
    ]
    return "\n".join(lines) + "\n"
