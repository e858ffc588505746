"""Statistics by component, as the MQTT sink publishes them, and the service itself as a Home Assistant device."""

from __future__ import annotations

from stormjay.ground.stats.homeassistant import Device, Entity, safe_id
from stormjay.ground.stats.port import Metric, Statistics


def component_of(metric: Metric) -> tuple[str, str]:
    """Return the component, the first word of a metric's name, and the rest of the name."""
    component, _, rest = metric.name.partition("_")
    return component, rest or component


def component_topic(base_topic: str, component: str) -> str:
    """Return the topic of a component's statistics."""
    return f"{base_topic}/statistics/{component}/state"


def statistics_by_component(statistics: Statistics) -> dict[str, dict[str, float]]:
    """Return all values by component; the values of labels follow a name, joined by ``_``."""
    components: dict[str, dict[str, float]] = {}
    for sample in statistics.samples():
        component, rest = component_of(sample.metric)
        name = "_".join([rest, *(safe_id(value) for _, value in sample.labels)])
        components.setdefault(component, {})[name] = sample.value
    return components


def service_device(statistics: Statistics, base_topic: str, *, version: str) -> Device:
    """Return the service as a device: every metric without labels that has a label for people is an entity of it."""
    entities = []
    for metric in statistics.metrics:
        if not metric.label or metric.labels:
            continue
        component, rest = component_of(metric)
        entities.append(
            Entity(
                key=safe_id(metric.name),
                name=metric.label,
                value_template="{{ value_json." + rest + " }}",
                device_class=metric.device_class,
                state_class="total_increasing" if metric.kind == "counter" else "measurement",
                unit_of_measurement=metric.unit,
                entity_category="diagnostic",
                state_topic=component_topic(base_topic, component),
            )
        )
    bridge_topic = f"{base_topic}/bridge/state"
    return Device(
        device_id=f"{safe_id(base_topic)}_service",
        name="Stormjay",
        entities=tuple(entities),
        state_topic=bridge_topic,
        availability_topics=(bridge_topic,),
        slug=safe_id(base_topic),
        manufacturer="Stormjay",
        sw_version=version or None,
    )
