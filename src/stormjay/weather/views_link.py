"""How well a station is heard, and how it is: radio link, losses, power, sensors, in numbers and in words."""

# ruff: noqa: S608 - names and numbers in the SQL are constants of ours; what callers say is bound

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from stormjay.ground.timestamps import format_us, to_epoch_us
from stormjay.weather import derived
from stormjay.weather.journal_senders import SenderStatistics, sender_statistics
from stormjay.weather.journal_status import STATUS_COLUMNS, Status, Thresholds, derived_state
from stormjay.weather.views_rows import utc_text

_HOUR = "substr(received_at_utc, 1, 13)"
_STATE_WORDS = {
    "online": "Online",
    "stale": "Late: no weather for a while",
    "offline": "Offline: nothing heard",
    "low_battery": "Online, but its battery is low",
    None: "Never heard",
}


class LossEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What the message numbers say about packets that were never heard.

    Attributes:
        heard: Different messages heard.
        expected: Messages that the sender numbered between the first and last of each run.
        lost: The difference; what was lost before the first or after the last of a run cannot be seen.
        lost_ratio: Share, 0 to 1; None when nothing was heard.
        restarts: How often the count began anew.
    """

    heard: int
    expected: int
    lost: int
    lost_ratio: float | None
    restarts: int


def _loss(found: SenderStatistics) -> LossEstimate:
    expected = found.received + found.lost
    return LossEstimate(
        heard=found.received,
        expected=expected,
        lost=found.lost,
        lost_ratio=found.loss_ratio if expected else None,
        restarts=found.restarts,
    )


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Lowest, mean and highest."""

    min: float
    mean: float
    max: float


class LinkHour(msgspec.Struct, frozen=True, kw_only=True):
    """One UTC hour of the link."""

    start_utc: str
    heard: int
    snr_db: float | None
    rssi_dbm: float | None


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """The radio link of one station over a span, by the time of receipt.

    Attributes:
        station: Which.
        from_utc, to_utc: The span.
        heard: Readings heard.
        snr_db, rssi_dbm: Of the last hop of each reading; None when no radio said.
        hops: How many readings came over how many relays.
        quality: good, fair, bad, or unknown.
        loss: What the message numbers give away.
        hours: Hour by hour; hours without a reading are absent.
    """

    station: str
    from_utc: str
    to_utc: str
    heard: int
    snr_db: Spread | None
    rssi_dbm: Spread | None
    hops: dict[str, int]
    quality: str
    loss: LossEstimate
    hours: list[LinkHour]


def link(connection: sqlite3.Connection, station: str, start_us: int, end_us: int) -> LinkView:
    """Return the link over (start, end] of receipt."""
    bounds = (station, format_us(start_us)[:26], format_us(end_us)[:26])
    own = "source_node_id = ? AND received_at_utc > ? AND received_at_utc <= ?"
    total = connection.execute(
        "SELECT COUNT(*), MIN(snr_db), AVG(snr_db), MAX(snr_db), MIN(rssi_dbm), AVG(rssi_dbm), MAX(rssi_dbm)"
        f" FROM weather_readings WHERE {own}",
        bounds,
    ).fetchone()
    hops = connection.execute(
        f"SELECT hops_away, COUNT(*) FROM weather_readings WHERE {own} AND hops_away IS NOT NULL"
        " GROUP BY hops_away ORDER BY hops_away",
        bounds,
    ).fetchall()
    hours = connection.execute(
        f"SELECT {_HOUR}, COUNT(*), AVG(snr_db), AVG(rssi_dbm) FROM weather_readings WHERE {own}"
        f" GROUP BY {_HOUR} ORDER BY {_HOUR}",
        bounds,
    ).fetchall()
    snr = None if total[2] is None else Spread(min=total[1], mean=total[2], max=total[3])
    rssi = None if total[5] is None else Spread(min=total[4], mean=total[5], max=total[6])
    return LinkView(
        station=station,
        from_utc=format_us(start_us),
        to_utc=format_us(end_us),
        heard=total[0],
        snr_db=snr,
        rssi_dbm=rssi,
        hops={str(row[0]): row[1] for row in hops},
        quality=link_quality(snr.mean if snr else None, rssi.mean if rssi else None),
        loss=_loss(sender_statistics(connection, *bounds)),
        hours=[
            LinkHour(start_utc=f"{row[0]}:00:00.000000Z", heard=row[1], snr_db=row[2], rssi_dbm=row[3]) for row in hours
        ],
    )


def link_quality(snr_db: float | None, rssi_dbm: float | None) -> str:
    """Return good, fair or bad by the bounds that Meshtastic's own apps use for LongFast, or unknown."""
    if snr_db is None:
        return "unknown"
    strength = -100 if rssi_dbm is None else rssi_dbm
    if snr_db > -7 and strength > -115:  # noqa: PLR2004 - see the docstring
        return "good"
    if snr_db < -15 or strength < -126:  # noqa: PLR2004 - see the docstring
        return "bad"
    return "fair"


class ConditionView(msgspec.Struct, frozen=True, kw_only=True):
    """How the station itself is.

    Attributes:
        state: online, stale, offline, low_battery, or None when it was never heard.
        words: The same in words.
        last_heard_utc: When anything of it was received last.
        battery_voltage_v: The newest known.
        sensor_faults: In words; None when the station never said.
        power: Notes on the power booster.
        firmware, hub_firmware: Revisions.
        device_uptime_seconds, hub_uptime_seconds, bridge_uptime_seconds: Time since each started.
        device_rssi_dbm: How strongly the hub hears the sensor; hub_rssi_dbm how strongly the hub hears its Wi-Fi.
        reset_flags: Why the hub restarted last.
        snr_db, rssi_dbm, hops_away: Of the newest packet.
    """

    state: str | None
    words: str
    last_heard_utc: str | None
    battery_voltage_v: float | None
    sensor_faults: tuple[str, ...] | None
    power: tuple[str, ...] | None
    firmware: str | None
    hub_firmware: str | None
    device_uptime_seconds: int | None
    hub_uptime_seconds: int | None
    bridge_uptime_seconds: int | None
    device_rssi_dbm: int | None
    hub_rssi_dbm: int | None
    reset_flags: str | None
    snr_db: float | None
    rssi_dbm: int | None
    hops_away: int | None


def condition(connection: sqlite3.Connection, station: str, now_us: int, thresholds: Thresholds) -> ConditionView:
    """Return the station's condition; the word for its state goes by the clock, not by when it was last written."""
    row = connection.execute("SELECT * FROM device_status_current WHERE source_node_id = ?", (station,)).fetchone()
    known: dict[str, Any] = {} if row is None else dict(row)
    said = Status([known.get(name) for name in STATUS_COLUMNS], known.get("value_times_json"))
    state = None if row is None else derived_state(said, now_us, thresholds)
    heard = [text for name, value in known.items() if name.endswith("_at_utc") and name != "updated_at_utc"
             and (text := utc_text(value))]  # fmt: skip
    faults = derived.sensor_faults(known.get("last_sensor_status"))
    battery = known.get("last_battery_voltage_v")
    return ConditionView(
        state=state,
        words=_STATE_WORDS.get(state, "Unknown"),
        last_heard_utc=max(heard, default=None),
        battery_voltage_v=known.get("last_device_voltage_v") if battery is None else battery,
        sensor_faults=faults,
        power=derived.power_notes(known.get("last_sensor_status")),
        firmware=known.get("last_device_firmware_revision"),
        hub_firmware=known.get("last_hub_firmware_revision"),
        device_uptime_seconds=known.get("last_device_uptime_sec"),
        hub_uptime_seconds=known.get("last_hub_uptime_sec"),
        bridge_uptime_seconds=known.get("last_bridge_uptime_sec"),
        device_rssi_dbm=known.get("last_device_rssi"),
        hub_rssi_dbm=known.get("last_hub_own_rssi"),
        reset_flags=known.get("last_reset_flags"),
        snr_db=known.get("last_snr_db"),
        rssi_dbm=known.get("last_rssi_dbm"),
        hops_away=known.get("last_hops_away"),
    )


def age_seconds(text: str | None, now_us: int) -> float | None:
    """Return how long ago a time of the one output form was."""
    return None if text is None else (now_us - to_epoch_us(text)) / 1e6
