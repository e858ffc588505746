"""Home Assistant's MQTT discovery messages, as pure values.

Two forms, never both for one device (DESIGN.md decision 14): ``device`` is one retained message for a device with all
its entities (``<prefix>/device/<id>/config``), ``single`` one record per entity
(``<prefix>/<platform>/<id>/<key>/config``). Rules of the form: conventions 2.1. Long names are used throughout, so that
a person can read what a broker holds.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

Mode = Literal["device", "single"]
ONLINE = "online"
OFFLINE = "offline"
MIGRATE = {"migrate_discovery": True}
"""Sent to an old record's topic before the new form, so that Home Assistant keeps the entity and its history."""
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]+")


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """One entity of a device.

    Attributes:
        key: Its name inside the device: letters, digits, ``_``; part of ids, never changed.
        name: For people.
        platform: Home Assistant's kind of entity.
        value_template: How its value is found in the state topic's JSON.
        device_class, state_class, unit_of_measurement: Home Assistant's classes, or None.
        suggested_display_precision: Decimals shown.
        entity_category: ``diagnostic`` for what tells of the device rather than of the weather.
        expire_after: Seconds after which an unrefreshed value is unknown; None for totals, which must not vanish.
        icon: A Material Design icon, where no class gives one.
        options: The words an ``enum`` can take.
        enabled_by_default: False for what few want.
        payload_on, payload_off: For a binary sensor: the texts that mean on and off.
        state_topic: Where its value is, when not in the device's state.
    """

    key: str
    name: str
    value_template: str
    platform: Literal["sensor", "binary_sensor"] = "sensor"
    device_class: str | None = None
    state_class: str | None = None
    unit_of_measurement: str | None = None
    suggested_display_precision: int | None = None
    entity_category: str | None = None
    expire_after: int | None = None
    icon: str | None = None
    options: tuple[str, ...] | None = None
    enabled_by_default: bool | None = None
    payload_on: str | None = None
    payload_off: str | None = None
    state_topic: str | None = None


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device and how it is heard of.

    Attributes:
        device_id: Stable id, letters, digits, ``_`` and ``-``.
        name: For people.
        entities: What it measures and tells.
        state_topic: Topic of its JSON state.
        availability_topics: Each must say ``online`` for the device to be available.
        manufacturer, model, sw_version, serial_number: What is known of it.
        via_device: The id of the device through which it is heard, or None.
        slug: Begins the proposed entity ids (``sensor.<slug>_<key>``).
    """

    device_id: str
    name: str
    entities: tuple[Entity, ...]
    state_topic: str
    availability_topics: tuple[str, ...]
    slug: str
    manufacturer: str | None = None
    model: str | None = None
    sw_version: str | None = None
    serial_number: str | None = None
    via_device: str | None = None


class Record(msgspec.Struct, frozen=True):
    """A retained message."""

    topic: str
    payload: dict[str, Any]


def safe_id(text: str) -> str:
    """Return text with everything but letters, digits, ``_`` and ``-`` taken out, in lower case."""
    return _NOT_IN_ID.sub("_", text.lower()).strip("_")


def device_topic(prefix: str, device: Device) -> str:
    """Return the topic of a device's one message."""
    return f"{prefix}/device/{device.device_id}/config"


def single_topic(prefix: str, device: Device, entity: Entity) -> str:
    """Return the topic of one entity's record."""
    return f"{prefix}/{entity.platform}/{device.device_id}/{entity.key}/config"


def discovery_records(prefix: str, device: Device, *, mode: Mode, version: str) -> list[Record]:
    """Return the messages that make a device known in the form asked for."""
    if mode == "device":
        return [Record(device_topic(prefix, device), device_message(device, version=version))]
    return [
        Record(single_topic(prefix, device, entity), single_record(device, entity, version=version))
        for entity in device.entities
    ]


def topics_of_other_mode(prefix: str, device: Device, *, mode: Mode) -> list[str]:
    """Return where the records of the form not used would lie; what is found there is moved and cleared."""
    if mode == "single":
        return [device_topic(prefix, device)]
    return [single_topic(prefix, device, entity) for entity in device.entities]


def device_message(device: Device, *, version: str) -> dict[str, Any]:
    """Return the one message of a device with all its entities."""
    return {
        "device": _device_part(device),
        "origin": _origin(version),
        "state_topic": device.state_topic,
        **_availability(device),
        "qos": 1,
        "components": {
            entity.key: {"platform": entity.platform, **_entity_part(device, entity)} for entity in device.entities
        },
    }


def single_record(device: Device, entity: Entity, *, version: str) -> dict[str, Any]:
    """Return the record of one entity, with its device in it."""
    return {
        "state_topic": device.state_topic,
        **_entity_part(device, entity),
        **_availability(device),
        "qos": 1,
        "device": _device_part(device),
        "origin": _origin(version),
    }


def _origin(version: str) -> dict[str, Any]:
    return {"name": "Stormjay", "sw_version": version}


def _device_part(device: Device) -> dict[str, Any]:
    known = {
        "identifiers": [device.device_id],
        "name": device.name,
        "manufacturer": device.manufacturer,
        "model": device.model,
        "sw_version": device.sw_version,
        "serial_number": device.serial_number,
        "via_device": device.via_device,
    }
    return {name: value for name, value in known.items() if value is not None}


def _availability(device: Device) -> dict[str, Any]:
    return {
        "availability": [
            {"topic": topic, "payload_available": ONLINE, "payload_not_available": OFFLINE}
            for topic in device.availability_topics
        ],
        "availability_mode": "all",
    }


def _entity_part(device: Device, entity: Entity) -> dict[str, Any]:
    own = {
        name: value
        for name, value in msgspec.to_builtins(entity).items()
        if value is not None and name not in ("key", "platform")
    }
    return {
        "unique_id": f"{device.device_id}_{entity.key}",
        "default_entity_id": f"{entity.platform}.{device.slug}_{entity.key}",
        **own,
    }
