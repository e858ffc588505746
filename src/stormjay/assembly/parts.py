"""Each function builds one part from its section of the settings.

With ``demonstration.py`` the only module that names an adapter. A part knows nothing of settings or other adapters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import stormjay
from stormjay.errors import SettingsError, StoreInUse
from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import Clock, SystemClock, seeded_random
from stormjay.ground.keyed.port import TableSpec
from stormjay.ground.keyed.sqlite import SqliteKeyedStore, create_table
from stormjay.ground.outbox.sqlite import SqliteOutbox
from stormjay.ground.service import Heartbeats
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.mqtt import MqttSink
from stormjay.ground.stats.mqtt_settings import MqttSettings
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web.app import WebSettings
from stormjay.ground.web.health import Health
from stormjay.ground.web.tokens import READ, WEATHER_WRITE, Token, Tokens
from stormjay.settings import Settings
from stormjay.weather import fields, garden_files
from stormjay.weather.bridge import GardenBridge
from stormjay.weather.bridge_settings import BridgeSettings
from stormjay.weather.cloud.serving import Cloud, CloudSettings
from stormjay.weather.cloud.store import TABLE, Observations
from stormjay.weather.delivery import Delivery
from stormjay.weather.delivery_body import load_payloads
from stormjay.weather.delivery_http import DeliverySettings
from stormjay.weather.discovery_publisher import WeatherMqtt, WeatherMqttSettings
from stormjay.weather.journal import Journal
from stormjay.weather.journal_schema import FIRST_QUEUE, Destination, queue_table
from stormjay.weather.journal_settings import JournalSettings
from stormjay.weather.journal_status import Thresholds
from stormjay.weather.listener import Listener, ListenerSettings
from stormjay.weather.radio.options import RadioOptions
from stormjay.weather.radio.port import Radio
from stormjay.weather.retention import Retention, RetentionSettings
from stormjay.weather.stations import Station, checked
from stormjay.weather.views import Site
from stormjay.weather.views_strip import Target

FIRST_DESTINATION = "api"
"""What the destination of ``[weather.delivery]`` is called in metrics, logs and on the page."""
BRIDGE_STATE_FILE = "bridge.json"


@dataclass(frozen=True)
class Common:
    """What every part of one process shares."""

    clock: Clock
    statistics: Statistics
    announcer: Announcer
    heartbeats: Heartbeats
    health: Health

    @classmethod
    def fresh(cls, clock: Clock | None = None) -> Common:
        """Return new ones over a clock, the machine's when None."""
        own = clock or SystemClock()
        return cls(own, Statistics(), Announcer(), Heartbeats(own), Health(own))


# ------------------------------------------------------------------------------------- what is known beside the data


def stations(settings: Settings) -> dict[str, Station]:
    """Return the stations of the settings by node id, checked.

    Raises:
        SettingsError: A value makes no sense.
    """
    return {
        node: checked(
            Station(
                source_node_id=node,
                name=own.name or None,
                elevation_m=own.elevation_m,
                time_zone=own.time_zone or None,
                latitude=own.latitude,
                longitude=own.longitude,
            )
        )
        for node, own in settings.weather.stations.items()
    }


def sites(settings: Settings) -> dict[str, Site]:
    """Return what the views need to know of each station."""
    return {
        node: Site(name=own.name, elevation_m=own.elevation_m, time_zone=own.time_zone)
        for node, own in settings.weather.stations.items()
    }


def thresholds(settings: Settings) -> Thresholds:
    """Return when a station counts as what."""
    own = settings.weather
    return Thresholds(
        stale_after_seconds=own.stale_after_seconds,
        offline_after_seconds=own.offline_after_seconds,
        low_battery_v=own.low_battery_v,
    )


def ranges(settings: Settings) -> fields.Ranges:
    """Return the bounds of every weather value.

    Raises:
        SettingsError: A range is reversed or of no column.
    """
    try:
        return fields.ranges(dict(settings.weather.ranges))
    except (KeyError, ValueError) as error:
        raise SettingsError("weather_ranges", f"[weather.ranges]: {error}") from error


def targets(settings: Settings) -> list[Target]:
    """Return the places that readings are delivered to, for the page; none when delivery is off."""
    own = settings.weather
    first = [Target(name=FIRST_DESTINATION, table=FIRST_QUEUE, label="API")] if own.delivery.enabled else []
    return first + [Target(name=name, table=queue_table(name), label=name) for name in own.destinations]


# --------------------------------------------------------------------------------------------------------- the journal


def journal_settings(settings: Settings) -> JournalSettings:
    """Return the journal's settings."""
    own = settings.weather
    return JournalSettings(
        destinations=tuple(
            Destination(name=name, backfill=place.start_from) for name, place in own.destinations.items()
        ),
        ranges=dict(own.ranges),
        thresholds=thresholds(settings),
    )


@asynccontextmanager
async def open_journal(settings: Settings, *, writing: bool, common: Common | None = None) -> AsyncIterator[Journal]:
    """Open the journal for the length of the block.

    Args:
        settings: Say where it is.
        writing: Be its owner, unless a running service is: then work beside it.
        common: Of the process; fresh ones for a command.

    Raises:
        StoreUnavailable, StoreDamaged: It cannot be used.
    """
    shared = common or Common.fresh()

    async def opened(*, owner: bool) -> Journal:
        return await Journal.open(
            settings.journal_file,
            clock=shared.clock,
            settings=journal_settings(settings),
            statistics=shared.statistics,
            announcer=shared.announcer,
            owner=owner,
        )

    try:
        journal = await opened(owner=writing)
    except StoreInUse:
        if common is not None:
            raise
        journal = await opened(owner=False)
    try:
        yield journal
    finally:
        await journal.close()


async def outboxes(settings: Settings, journal: Journal) -> dict[str, SqliteOutbox[bytes]]:
    """Return the queue of every destination by name, the first one first."""
    tables = {FIRST_DESTINATION: FIRST_QUEUE, **{name: queue_table(name) for name in settings.weather.destinations}}
    return {
        name: await SqliteOutbox.open(journal.database, table, load_payloads, destination=name, clock=SystemClock())
        for name, table in tables.items()
    }


def retention(settings: Settings, journal: Journal, common: Common | None = None) -> Retention:
    """Return what removes old rows."""
    own, shared = settings.weather.retention, common or Common.fresh()
    return Retention(
        journal.database,
        queues=journal.queues,
        settings=RetentionSettings(
            enabled=own.enabled, days=own.days, batch_size=own.batch_size, batches_max=own.max_batches
        ),
        clock=shared.clock,
        statistics=shared.statistics,
    )


# ---------------------------------------------------------------------------------------------------------- the radios


def radio_at(url: str, common: Common, options: RadioOptions) -> Radio:
    """Return the radio that an address names.

    Raises:
        SettingsError: Nobody knows that kind of address, or the extra that it needs is not installed.
    """
    scheme = url.partition(":")[0]
    clock, statistics = common.clock, common.statistics
    # The libraries behind these are extras, and importing meshtastic starts a thread: only who names one pays for it.
    if scheme in ("serial", "tcp"):
        from stormjay.weather.radio.meshtastic_node import MeshtasticNode  # noqa: PLC0415 - see above

        return MeshtasticNode.from_url(url, clock=clock, statistics=statistics, options=options)
    if scheme == "uart":
        from stormjay.weather.radio.uart import Uart  # noqa: PLC0415 - see above

        return Uart.from_url(url, clock=clock, statistics=statistics, options=options)
    if scheme in ("mqtt", "mqtts"):
        from stormjay.weather.radio.mqtt_uplink import MqttUplink  # noqa: PLC0415 - see above

        return MqttUplink.from_url(url, clock=clock, statistics=statistics, options=options)
    raise SettingsError(
        "unknown_radio",
        f"no radio is known for addresses that begin with {scheme!r}",
        next_step="use serial://, tcp://, uart:// or mqtt://",
    )


def radio(settings: Settings, common: Common | None = None) -> Radio:
    """Return the home radio.

    Raises:
        SettingsError: None is set, or it cannot be built.
    """
    own = settings.weather.radio
    if not own.source:
        raise SettingsError(
            "no_radio", "weather.radio.source is not set", next_step="set it, for example to serial:///dev/ttyUSB0"
        )
    options = RadioOptions(watchdog_enabled=own.watchdog_enabled, watchdog_timeout_seconds=own.watchdog_timeout_seconds)
    return radio_at(own.source, common or Common.fresh(), options)


def bridge(settings: Settings, common: Common) -> GardenBridge:
    """Return the garden bridge with its radio."""
    own = settings.weather.bridge
    built = BridgeSettings(
        host=own.udp_host,
        port=own.udp_port,
        serials=own.serials,
        obs_interval_seconds=own.interval_obs_st_seconds,
        precip_interval_seconds=own.interval_evt_precip_seconds,
        strike_interval_seconds=own.interval_evt_strike_seconds,
        device_interval_seconds=own.interval_device_status_seconds,
        hub_interval_seconds=own.interval_hub_status_seconds,
        gap_seconds=own.gap_seconds,
        heartbeat_seconds=own.heartbeat_seconds,
        queue_max=own.queue_max,
        max_payload_bytes=own.max_payload_bytes,
        ranges=ranges(settings),
        state_path=settings.file(BRIDGE_STATE_FILE),
    )
    # A node in a garden may hear nobody for hours: silence is no fault of its link.
    output = radio_at(own.output, common, RadioOptions(watchdog_enabled=False))
    return GardenBridge(built, output, common.clock, common.statistics, common.heartbeats.register("weather.bridge"))


def listener(settings: Settings, journal: Journal, common: Common) -> Listener:
    """Return the listener with the home radio."""
    own = settings.weather
    return Listener(
        radio(settings, common),
        journal,
        settings=ListenerSettings(
            allowed_nodes=frozenset(own.allow_nodes),
            allowed_channels=frozenset(own.allow_channels),
            reconnect_delay_seconds=own.radio.reconnect_delay_seconds,
        ),
        clock=common.clock,
        statistics=common.statistics,
        heartbeat=common.heartbeats.register("weather.listener"),
    )


# ------------------------------------------------------------------------------------------------------- the far sides


async def deliveries(settings: Settings, journal: Journal, common: Common) -> dict[str, Delivery]:
    """Return a delivery for each destination, by name."""
    own = settings.weather
    wanted = {FIRST_DESTINATION: (FIRST_QUEUE, own.delivery.api_url, own.delivery.api_key)}
    wanted |= {name: (queue_table(name), place.api_url, place.api_key) for name, place in own.destinations.items()}
    return {
        name: await Delivery.open(
            journal.database,
            table,
            DeliverySettings(
                name=name,
                api_url=api_url,
                api_key=api_key,
                timeout_seconds=own.delivery.timeout_seconds,
                concurrency=own.delivery.concurrency,
                batch_size=own.delivery.batch_size,
                order=own.delivery.order,
                schedule_seconds=own.delivery.schedule_seconds,
            ),
            clock=common.clock,
            statistics=common.statistics,
            announcer=common.announcer,
            heartbeat=common.heartbeats.register(f"weather.delivery.{name}"),
        )
        for name, (table, api_url, api_key) in wanted.items()
    }


@asynccontextmanager
async def open_cloud(settings: Settings, common: Common) -> AsyncIterator[Cloud]:
    """Open the serving side's store for the length of the block."""
    own = settings.weather.cloud
    spec = TableSpec(own.table_name, columns=TABLE.columns)
    database = await Database.open(settings.store_file, [], clock=common.clock)
    try:
        await database.write(lambda connection: create_table(connection, spec))  # no migration: its name is a setting
        common.health.add("store", lambda: file_check(database))
        observations = Observations(
            SqliteKeyedStore(database, spec),
            clock=common.clock,
            statistics=common.statistics,
            announcer=common.announcer,
        )
        yield Cloud(
            observations,
            settings=CloudSettings(ranges=dict(settings.weather.ranges), token_key=own.api_shared_secret),
            stations=stations(settings),
            clock=common.clock,
        )
    finally:
        await database.close()


def tokens(settings: Settings, clock: Clock) -> Tokens:
    """Return who may do what: the shared secret, the stations' keys, and the tokens of ``[web.tokens]``.

    Raises:
        SettingsError: A token cannot be understood.
    """
    own = settings.weather
    known = [Token(name="shared", secret=own.cloud.api_shared_secret, scopes=(WEATHER_WRITE,))]
    known += [
        Token(name=f"station {node}", secret=station.key, scopes=(WEATHER_WRITE,), station=node)
        for node, station in own.stations.items()
    ]
    known += [
        Token(
            name=name,
            secret=token.token,
            scopes=token.scopes,
            expires_us=timestamps.to_epoch_us(token.expires) if token.expires else None,
        )
        for name, token in settings.web.tokens.items()
    ]
    return Tokens(known, public=(READ,) if settings.web.public_reads else (), clock=clock)


def web_settings(settings: Settings) -> WebSettings:
    """Return how the web listens; the only paths with CORS headers are the seeds', which the cloud side serves."""
    own = settings.web
    return WebSettings(
        host=own.host,
        port=own.port,
        body_bytes_max=own.max_body_bytes,
        cors_allow_origin=settings.weather.cloud.allowed_cors_origin,
    )


def mqtt_sink(settings: Settings, common: Common) -> MqttSink:
    """Return the sink that publishes figures and stations."""
    own = settings.mqtt
    return MqttSink(
        MqttSettings(
            url=own.url,
            base_topic=own.base_topic,
            discovery=own.discovery,
            discovery_prefix=own.discovery_prefix,
            discovery_mode=own.discovery_mode,
            version=stormjay.__version__,
        ),
        clock=common.clock,
        statistics=common.statistics,
        randomness=seeded_random(),
        heartbeat=common.heartbeats.register("mqtt"),
    )


def weather_mqtt(settings: Settings, journal: Journal, sink: MqttSink, common: Common) -> WeatherMqtt:
    """Return what publishes the stations."""
    return WeatherMqtt(
        journal.database,
        sink,
        clock=common.clock,
        announcer=common.announcer,
        settings=WeatherMqttSettings(
            base_topic=settings.mqtt.base_topic,
            expire_factor=settings.mqtt.expire_factor,
            sites=sites(settings),
            thresholds=thresholds(settings),
        ),
        heartbeat=common.heartbeats.register("weather.mqtt", silent_seconds_max=300.0),
    )


def write_garden(settings: Settings, folder: Path) -> list[Path]:
    """Write what the Pico needs into a folder; return the files.

    Raises:
        SettingsError: The folder cannot be written.
    """
    return garden_files.write_garden(folder, ranges(settings))


def file_check(database: Database) -> tuple[bool, str, bool]:
    """Say whether a file is the one that was there before; a damaged one was set aside and capture goes on."""
    if not database.is_in_place:
        return False, f"{database.path.name} was removed or replaced while in use; restart to go on with another", True
    if database.set_aside is None:
        return True, f"{database.path.name} is sound", True
    return False, f"{database.path.name} was damaged and lies at {database.set_aside}; a new one was begun", False
