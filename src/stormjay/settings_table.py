"""The one table of settings: each field is a row with its name, type, unit, default, help, aliases and secrecy.

The loader, ``stormjay config show``, ``stormjay init`` and the reference page all read this table; the same structs
give the rest of the top layer typed access (``settings.weather.delivery.api_url``). A row's place in the file is its
path (``[weather.delivery] api_url``), its variable the same path in capitals (``STORMJAY_WEATHER__DELIVERY__API_URL``).
Aliases are the variables of the seeds (contract weather 3.4, 5.4, 5.5 and 6), so that an existing setup keeps working.

The docstring's first line of a section heads it in the file that ``stormjay init`` writes and in the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a field carries beside its type and default.

    Attributes:
        text: Help, one sentence.
        unit: For people; the name ends with it where there is one.
        aliases: Variables of the seeds that mean the same.
        hide: ``all`` of it is never shown, or only the ``password`` in an address. Both may come from a file.
        schemes: For an address: what it may begin with.
        plain_scheme: Put before an address that is a bare device path.
        shown_default: What to print as the default when it depends on the machine.
        low: Least number allowed.
        high: Greatest number allowed.
        length_max: Most characters or items.
    """

    text: str
    unit: str = ""
    aliases: tuple[str, ...] = ()
    hide: Literal["", "all", "password"] = ""
    schemes: tuple[str, ...] = ()
    plain_scheme: str = ""
    shown_default: str = ""
    low: float | None = None
    high: float | None = None
    length_max: int = 4096


@dataclass(frozen=True)
class Entries:
    """What a table of named entries carries: how the names are spelled."""

    kind: Literal["station", "name", "column"]


Bounds = Annotated[
    tuple[float, float], Row(text="Lowest and highest value taken for this column, at the edge and in the cloud.")
]
Scope = Literal["weather:write", "read", "admin"]
RADIO_SCHEMES = ("serial", "tcp", "mqtt", "mqtts")
OUTPUT_SCHEMES = ("uart", "serial", "tcp")
WEB_SCHEMES = ("http", "https")


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens for the web: who shows one may do what its scopes say."""

    token: Annotated[str, Row(text="The token itself, at least 16 characters.", hide="all")] = ""
    scopes: Annotated[tuple[Scope, ...], Row(text="What it allows: weather:write, read, admin.")] = ()
    expires: Annotated[str, Row(text="Moment (ISO 8601 with zone) from which it is refused; empty for never.")] = ""


class Web(msgspec.Struct, frozen=True, kw_only=True):
    """The web server: page, API, health and metrics."""

    host: Annotated[str, Row(text="Address to listen on; 0.0.0.0 opens it to the network.")] = "127.0.0.1"
    port: Annotated[int, Row(text="TCP port to listen on; 0 takes a free one.", low=0, high=65_535)] = 8420
    public_reads: Annotated[bool, Row(text="Let everybody read; false asks for a token with the scope read.")] = True
    max_body_bytes: Annotated[
        int, Row(text="Largest request body taken; more is answered with 413.", unit="B", low=1024, high=67_108_864)
    ] = 4_194_304
    tokens: Annotated[dict[str, Token], Entries("name")] = {}


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics."""

    metrics: Annotated[bool, Row(text="Serve /metrics in OpenMetrics text.")] = True
    device_values: Annotated[
        bool, Row(text="Put the newest value of each station among the metrics; off, because each makes a series.")
    ] = False


class Mqtt(msgspec.Struct, frozen=True, kw_only=True):
    """MQTT with Home Assistant discovery; off while url is empty."""

    url: Annotated[
        str,
        Row(text="Broker, as mqtt://user:password@host:1883 or mqtts://.", schemes=("mqtt", "mqtts"), hide="password"),
    ] = ""
    base_topic: Annotated[str, Row(text="First part of every topic that Stormjay publishes.", length_max=64)] = (
        "stormjay"
    )
    discovery: Annotated[bool, Row(text="Announce stations and the service itself to Home Assistant.")] = True
    discovery_prefix: Annotated[str, Row(text="Home Assistant's discovery prefix.", length_max=64)] = "homeassistant"
    discovery_mode: Annotated[
        Literal["device", "single"],
        Row(text="One message per device, or one per value as older setups have it; never both."),
    ] = "device"
    expire_factor: Annotated[
        float, Row(text="A measured value expires after this many of its expected periods.", low=1, high=100)
    ] = 2.5


class Station(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a station beside its readings; what needs a missing one is not shown."""

    name: Annotated[str, Row(text="Name for people.", length_max=64)] = ""
    elevation_m: Annotated[
        float | None, Row(text="Height above sea level; needed for sea-level pressure.", unit="m", low=-450, high=9000)
    ] = None
    time_zone: Annotated[str, Row(text="IANA zone such as Europe/Zurich; needed for the local day.")] = ""
    latitude: Annotated[float | None, Row(text="North positive.", unit="°", low=-90, high=90)] = None
    longitude: Annotated[float | None, Row(text="East positive.", unit="°", low=-180, high=180)] = None
    key: Annotated[
        str, Row(text="Key that this station alone may deliver with, beside the shared secret.", hide="all")
    ] = ""


class Bridge(msgspec.Struct, frozen=True, kw_only=True):
    """Garden bridge: the hub's UDP broadcasts become short texts on the radio."""

    enabled: Annotated[bool, Row(text="Run it with `stormjay run`.")] = False
    udp_host: Annotated[str, Row(text="Address to listen on for the hub; empty for all.")] = "127.0.0.1"
    udp_port: Annotated[int, Row(text="Port of the hub's broadcasts.", low=0, high=65_535)] = 50_222
    serials: Annotated[
        tuple[str, ...], Row(text="Serial numbers of the stations and hubs to take; empty for all.")
    ] = ()
    output: Annotated[
        str,
        Row(
            text="Where texts go: uart:///dev/ttyS0?baud=115200, serial:///dev/ttyUSB0 or tcp://host:4403.",
            schemes=OUTPUT_SCHEMES,
        ),
    ] = ""
    max_payload_bytes: Annotated[
        int,
        Row(text="Longest text; one byte less than the radio's 233, for the line break.", unit="B", low=64, high=236),
    ] = 232
    interval_obs_st_seconds: Annotated[float, Row(text="Pause between observations.", unit="s", low=1, high=3600)] = (
        60.0
    )
    interval_evt_precip_seconds: Annotated[
        float, Row(text="Pause between rain starts.", unit="s", low=1, high=3600)
    ] = 60.0
    interval_evt_strike_seconds: Annotated[float, Row(text="Pause between strikes.", unit="s", low=1, high=3600)] = 30.0
    interval_device_status_seconds: Annotated[
        float, Row(text="Pause between states of the sensor.", unit="s", low=1, high=86_400)
    ] = 60.0
    interval_hub_status_seconds: Annotated[
        float, Row(text="Pause between states of the hub.", unit="s", low=1, high=86_400)
    ] = 60.0
    gap_seconds: Annotated[float, Row(text="Pause between any two texts.", unit="s", low=0, high=600)] = 5.0
    heartbeat_seconds: Annotated[
        float, Row(text="Pause between reports of the bridge's own health.", unit="s", low=60, high=86_400)
    ] = 900.0
    queue_max: Annotated[int, Row(text="Texts that may wait for the radio.", low=1, high=1000)] = 12


class Radio(msgspec.Struct, frozen=True, kw_only=True):
    """Listener: what the home radio hears goes into the journal."""

    enabled: Annotated[bool, Row(text="Run it with `stormjay run`.")] = False
    source: Annotated[
        str,
        Row(
            text="Home radio: serial:///dev/ttyUSB0, tcp://host:4403 or mqtt://user:password@host:1883/msh/US/2/json/+/+.",
            aliases=("MESHTASTIC_DEVICE",),
            hide="password",
            schemes=RADIO_SCHEMES,
            plain_scheme="serial",
        ),
    ] = ""
    reconnect_delay_seconds: Annotated[
        float,
        Row(
            text="First pause before connecting again.",
            unit="s",
            aliases=("MESHTASTIC_RECONNECT_DELAY_SEC",),
            low=1,
            high=3600,
        ),
    ] = 5.0
    watchdog_enabled: Annotated[
        bool,
        Row(text="Take a link for dead that brings nothing for too long.", aliases=("MESHTASTIC_WATCHDOG_ENABLED",)),
    ] = True
    watchdog_timeout_seconds: Annotated[
        float,
        Row(
            text="How long a link may be silent.",
            unit="s",
            aliases=("MESHTASTIC_WATCHDOG_TIMEOUT_SEC",),
            low=1,
            high=86_400,
        ),
    ] = 600.0


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """Delivery: readings go from the journal to an API until it has them."""

    enabled: Annotated[bool, Row(text="Run it with `stormjay run`.")] = False
    api_url: Annotated[
        str,
        Row(
            text="Address of the API, without /observations.",
            aliases=("API_URL",),
            schemes=WEB_SCHEMES,
            hide="password",
        ),
    ] = ""
    api_key: Annotated[str, Row(text="Sent as x-weatherstation-key.", aliases=("API_KEY",), hide="all")] = ""
    batch_size: Annotated[int, Row(text="Readings per request where the far side takes batches.", low=1, high=1000)] = (
        500
    )
    concurrency: Annotated[int, Row(text="Requests in flight at once.", low=1, high=64)] = 48
    timeout_seconds: Annotated[float, Row(text="How long one request may take.", unit="s", low=1, high=300)] = 15.0
    order: Annotated[Literal["oldest", "newest"], Row(text="Which waiting readings go first.")] = "oldest"
    schedule_seconds: Annotated[
        tuple[float, ...],
        Row(text="Pauses after the first, second ... failure; the last one repeats.", unit="s", low=1, high=604_800),
    ] = (30.0, 120.0, 600.0, 1800.0)


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Further places that the same journal is delivered to, each with its own queue."""

    api_url: Annotated[
        str, Row(text="Address of the API, without /observations.", schemes=WEB_SCHEMES, hide="password")
    ] = ""
    api_key: Annotated[str, Row(text="Sent as x-weatherstation-key.", hide="all")] = ""
    start_from: Annotated[
        Literal["start", "now"],
        Row(text="What a new destination gets: all readings that are kept, or those from now on."),
    ] = msgspec.field(default="now", name="from")


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Retention: old rows that are delivered leave the journal."""

    enabled: Annotated[bool, Row(text="Delete old rows once a day.", aliases=("DB_RETENTION_ENABLED",))] = False
    days: Annotated[
        int, Row(text="Age from which rows go.", unit="d", aliases=("DB_RETENTION_DAYS",), low=1, high=36_500)
    ] = 180
    batch_size: Annotated[
        int, Row(text="Rows per transaction.", aliases=("DB_RETENTION_BATCH_SIZE",), low=1, high=100_000)
    ] = 1000
    max_batches: Annotated[
        int, Row(text="Transactions per table and run.", aliases=("DB_RETENTION_MAX_BATCHES",), low=1, high=1_000_000)
    ] = 100


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """Cloud side: ingest, store and read API."""

    enabled: Annotated[bool, Row(text="Serve it with `stormjay run`.")] = False
    database: Annotated[str, Row(text="Store file, under data_dir unless absolute.")] = "store.db"
    table_name: Annotated[str, Row(text="Table of the store.", aliases=("TABLE_NAME",), length_max=255)] = (
        "WeatherObservations"
    )
    api_shared_secret: Annotated[
        str, Row(text="What a delivering station must show.", aliases=("API_SHARED_SECRET",), hide="all")
    ] = ""
    allowed_cors_origin: Annotated[
        str, Row(text="Sent as access-control-allow-origin; empty sends none.", aliases=("ALLOWED_CORS_ORIGIN",))
    ] = "*"


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The page for people."""

    enabled: Annotated[bool, Row(text="Serve it.")] = True


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """The weather station: the journal and what holds for all its parts."""

    database: Annotated[
        str, Row(text="Journal file, under data_dir unless absolute.", aliases=("WEATHERSTATION_DB_PATH",))
    ] = "weatherstation.db"
    allow_nodes: Annotated[tuple[str, ...], Row(text="Radio nodes to believe, as !5c32d4d9; empty for all.")] = ()
    allow_channels: Annotated[tuple[int, ...], Row(text="Channel numbers to believe; empty for all.")] = ()
    ranges: Annotated[dict[str, Bounds], Entries("column")] = {}
    stale_after_seconds: Annotated[
        float, Row(text="Silence after which a station is called stale.", unit="s", low=60, high=604_800)
    ] = 900.0
    offline_after_seconds: Annotated[
        float, Row(text="Silence after which a station is called offline.", unit="s", low=60, high=2_592_000)
    ] = 3600.0
    low_battery_v: Annotated[
        float, Row(text="At or below this a station's battery is called low.", unit="V", low=0, high=20)
    ] = 2.375
    stations: Annotated[dict[str, Station], Entries("station")] = {}
    bridge: Bridge = Bridge()
    radio: Radio = Radio()
    delivery: Delivery = Delivery()
    destinations: Annotated[dict[str, Destination], Entries("name")] = {}
    retention: Retention = Retention()
    cloud: Cloud = Cloud()
    page: Page = Page()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything; each part of the product gets only its own section."""

    data_dir: Annotated[
        str,
        Row(
            text="Folder of all files that are not absolute.",
            shown_default="$XDG_DATA_HOME/stormjay, else ~/.local/share/stormjay",
        ),
    ] = ""
    log_format: Annotated[
        Literal["auto", "text", "json"],
        Row(text="Log lines: text for people, json, or text on a terminal only (auto)."),
    ] = "auto"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Row(text="Least level that is logged.")] = "info"
    web: Web = Web()
    stats: Stats = Stats()
    mqtt: Mqtt = Mqtt()
    weather: Weather = Weather()

    def file(self, name: str) -> Path:
        """Return the path of a file that a setting names: under ``data_dir`` unless absolute."""
        return Path(self.data_dir).expanduser() / Path(name).expanduser()

    @property
    def journal_file(self) -> Path:
        """Where the journal is."""
        return self.file(self.weather.database)

    @property
    def store_file(self) -> Path:
        """Where the cloud side's store is."""
        return self.file(self.weather.cloud.database)
