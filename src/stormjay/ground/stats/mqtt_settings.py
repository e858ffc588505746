"""Settings of the MQTT sink, and what an address of a broker says."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from stormjay.errors import SettingsError
from stormjay.ground.stats.homeassistant import Mode


class MqttSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the MQTT sink.

    Attributes:
        url: ``mqtt://user:password@host:1883`` or ``mqtts://``; ``?ca_file=`` names a CA of one's own.
        base_topic: First part of every topic.
        discovery: Announce devices to Home Assistant.
        discovery_prefix: Home Assistant's prefix.
        discovery_mode: One message per device, or one per entity.
        statistics_seconds: Pause between two publications of the statistics.
        version: The product's version, told as origin.
    """

    url: str
    base_topic: str = "stormjay"
    discovery: bool = True
    discovery_prefix: str = "homeassistant"
    discovery_mode: Mode = "device"
    statistics_seconds: float = 60.0
    version: str = ""


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """Where the broker is, as its address says."""

    host: str
    port: int
    username: str | None = None
    password: str | None = None
    tls: bool = False
    cafile: str | None = None

    @classmethod
    def from_url(cls, url: str) -> Broker:
        """Take an address apart.

        Raises:
            SettingsError: It is no address of a broker.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise SettingsError("mqtt_url", f"the MQTT address cannot be read: {error}") from error
        if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
            raise SettingsError("mqtt_url", "the MQTT address must be mqtt://host or mqtts://host")
        tls = parts.scheme == "mqtts"
        return cls(
            host=parts.hostname,
            port=port or (8883 if tls else 1883),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            tls=tls,
            cafile=parse_qs(parts.query).get("ca_file", [None])[0],
        )
