"""What every radio adapter is told, and what every one counts."""

from __future__ import annotations

import msgspec

from stormjay.ground.stats.port import Metric, Statistics

PAYLOAD_BYTES_MAX = 233
"""The most that one Meshtastic text carries; longer ones cannot be sent (contract weather 1.6, 9.3)."""


class RadioOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in time and number for one radio.

    Attributes:
        watchdog_enabled: Whether a link without traffic counts as dead.
        watchdog_timeout_seconds: How long a link may be silent; 0 also switches the watchdog off.
        connect_timeout_seconds: How long opening and the first exchange may take.
        send_timeout_seconds: How long handing one text or heartbeat to the radio may take.
        packets_waiting_max: Packets that may wait for the listener; later ones are dropped and counted.
    """

    watchdog_enabled: bool = True
    watchdog_timeout_seconds: float = 600.0
    connect_timeout_seconds: float = 30.0
    send_timeout_seconds: float = 30.0
    packets_waiting_max: int = 1000

    @property
    def silence_seconds_max(self) -> float | None:
        """The watchdog's limit, or None when it is off."""
        if not self.watchdog_enabled or self.watchdog_timeout_seconds <= 0:
            return None
        return self.watchdog_timeout_seconds


CONNECTED = Metric("weather_radio_connected", "gauge", "1 while a radio link is open, else 0.", label="Radio link open")
LINKS_OPENED = Metric("weather_radio_links_opened", "counter", "Radio links opened.", label="Radio links opened")
LINKS_LOST = Metric("weather_radio_links_lost", "counter", "Radio links that ended by themselves.", ("reason",))
TEXTS_SENT = Metric("weather_radio_texts_sent", "counter", "Texts handed to the radio.", label="Texts sent")
HEARTBEATS = Metric("weather_radio_heartbeats", "counter", "Signs of life that the radio took from this program.")
DROPPED = Metric(
    "weather_radio_dropped",
    "counter",
    "Packets lost because too many waited for the listener.",
    label="Packets dropped",
)
MALFORMED = Metric(
    "weather_radio_malformed", "counter", "Frames or messages that could not be understood, by reason.", ("reason",)
)


def declare(statistics: Statistics) -> None:
    """Make the metrics of this module known."""
    statistics.declare(CONNECTED, LINKS_OPENED, LINKS_LOST, TEXTS_SENT, HEARTBEATS, DROPPED, MALFORMED)
