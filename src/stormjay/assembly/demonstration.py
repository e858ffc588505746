"""The whole chain on one machine, without hardware or account: ``make run``.

A recorded day (made-up weather where the recording is not at hand) is sent as a hub's UDP broadcasts, over the real
bridge, the real radio library, two simulated nodes with air between them, the real journal, delivery over HTTP into
the real serving side, and shown on the page. Only the hub and the nodes are simulated.

Source times are the recorded ones moved by whole days, so that noon stays noon, and a second start sends the same
readings at the same times: they are recognised, and the day goes on. The last 24 hours go by quickly; from then on
it is one reading a minute, as a hub has it.
"""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from stormjay.assembly.parts import Common
from stormjay.assembly.running import Loop, run_with
from stormjay.errors import SettingsError
from stormjay.ground.clock import Clock, seeded_random
from stormjay.ground.web.server import bind
from stormjay.settings import Settings
from stormjay.settings_table import Mqtt, Station, Weather
from stormjay.weather import hub
from stormjay.weather.radio.simulated_mesh import LinkConditions, SimulatedMesh

RECORDING = Path(__file__).parents[3] / "recordings" / "weather" / "tempest_obs_st_from_midc.ndjson.gz"
FOLDER = "demo"
"""Under ``data_dir``."""
DAY_SECONDS = 86_400
GARDEN_NODE, HOME_NODE = 0x5C32D4D9, 0x7EA0B1C2
GARDEN_ID = f"!{GARDEN_NODE:08x}"
STATION = Station(name="Demo garden", elevation_m=786.0, time_zone="America/Phoenix")
"""Fits the recording: UTC-7 without summer time, about 928 hPa on the ground."""
AIR = LinkConditions(duplication=0.1, delay_seconds=(0.0, 0.05), snr_db=(-6.0, 9.0), rssi_dbm=(-112, -78))


@dataclass(frozen=True)
class Hub:
    """Sends a recorded or made-up day as a hub would.

    Attributes:
        clock: When it sends.
        port: The bridge's UDP port on this machine.
        speed: How many times faster the past goes by.
        randomness: For made-up weather.
    """

    clock: Clock
    port: int
    speed: float
    randomness: random.Random

    async def run(self) -> None:
        """Send until cancelled."""
        await hub.send(self._datagrams(), target="127.0.0.1", port=self.port, clock=self.clock)

    def _datagrams(self) -> Iterator[hub.Timed]:
        now = self.clock.now()
        if not RECORDING.is_file():
            return hub.simulate(hub.HubSettings(port=self.port), now, self.randomness)
        messages = up_to(hub.load_recording(RECORDING), now)
        first = datetime.fromtimestamp(hub.source_time(messages[0]) or 0, now.tzinfo)
        return hub.replay(messages, start=now, first=first, speed=self.speed, again=True)


def up_to(recorded: list[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Return one day of records that begins 24 hours before ``now``, each moved by whole days and in order of time."""
    begin = int((now - timedelta(seconds=DAY_SECONDS)).timestamp())
    moved = []
    for message in recorded:
        recorded_at = hub.source_time(message)
        if recorded_at is not None:
            days = -((recorded_at - begin) // DAY_SECONDS)
            moved.append(hub.shifted(message, days * DAY_SECONDS))
    return sorted(moved, key=lambda message: hub.source_time(message) or 0)


async def demo(settings: Settings, *, speed: float) -> int:
    """Run the chain until stopped; return the exit code.

    Args:
        settings: Ports, folder and log format are taken from them; the rest is the demonstration's own.
        speed: How many times faster the last 24 hours go by.

    Raises:
        SettingsError: A port is in use, or the extra for the radio is missing.
    """
    # The simulated nodes speak through the radio library's own messages, which an installation may lack.
    from stormjay.weather.radio.node_simulator import KnownNode, NodeSimulator  # noqa: PLC0415 - see above

    common = Common.fresh()
    web_port = settings.web.port or _free_port()
    bind(settings.web.host, web_port).close()  # before anything else is started, so that the word about it comes first
    udp_port = _checked_udp_port(settings.weather.bridge.udp_port)
    garden_node = KnownNode(number=GARDEN_NODE, long_name="Demo garden", short_name="GRDN")
    home_node = KnownNode(number=HOME_NODE, long_name="Demo home", short_name="HOME")
    console = Console(stderr=True, soft_wrap=True)
    async with AsyncExitStack() as stack:
        mesh = await stack.enter_async_context(
            SimulatedMesh(clock=common.clock, random=seeded_random(1), conditions=AIR)
        )
        node = partial(NodeSimulator, clock=common.clock, mesh=mesh)
        garden = await stack.enter_async_context(node(node=garden_node, known_nodes=(home_node,)))
        home = await stack.enter_async_context(node(node=home_node, known_nodes=(garden_node,)))
        chain = chain_settings(
            settings, garden=garden.url, home=home.url, web_port=web_port, udp_port=udp_port, speed=speed
        )
        sender = Hub(common.clock, udp_port, speed, seeded_random(1))
        return await run_with(
            chain, (), common, further={"hub": Loop(sender.run)}, told=partial(_tell, console, chain, speed)
        )


def chain_settings(
    settings: Settings, *, garden: str, home: str, web_port: int, udp_port: int, speed: float
) -> Settings:
    """Return the settings of the whole chain: everything on, wired to itself, the bridge's pauses as much shorter.

    Nothing of an installation's own is taken over or touched: its broker and its destinations must not get the
    recorded day, its files and its bridge's state must not be mixed with it, and its limits must not refuse it.
    """
    own, secret = Weather(), secrets.token_urlsafe(24)
    replace = msgspec.structs.replace
    host = "127.0.0.1" if settings.web.host in ("0.0.0.0", "::", "") else settings.web.host  # noqa: S104 - compared
    weather = replace(
        own,
        stations={GARDEN_ID: STATION},
        bridge=replace(
            own.bridge,
            enabled=True,
            udp_host="127.0.0.1",
            udp_port=udp_port,
            output=garden,
            interval_obs_st_seconds=own.bridge.interval_obs_st_seconds / speed,
            gap_seconds=own.bridge.gap_seconds / speed,
        ),
        radio=replace(own.radio, enabled=True, source=home),
        delivery=replace(
            own.delivery,
            enabled=True,
            api_url=f"http://{f'[{host}]' if ':' in host else host}:{web_port}",
            api_key=secret,
        ),
        cloud=replace(own.cloud, enabled=True, api_shared_secret=secret),
    )
    web = replace(settings.web, port=web_port)
    return replace(settings, data_dir=str(settings.file(FOLDER)), web=web, mqtt=Mqtt(), weather=weather)


def _free_port() -> int:
    with bind("127.0.0.1", 0) as probe:
        return int(probe.getsockname()[1])


def _checked_udp_port(port: int) -> int:
    """Return the bridge's port, a free one for 0; told here, because the hub must know it before the bridge listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise SettingsError(
                "udp_port_in_use",
                f"UDP port {port} is in use by another program",
                next_step="set STORMJAY_WEATHER__BRIDGE__UDP_PORT to a free port",
            ) from error
        return int(probe.getsockname()[1])


def _tell(console: Console, settings: Settings, speed: float, url: str) -> None:
    """Say where to look, for people; the log has its own lines."""
    seconds = DAY_SECONDS / speed
    console.print()
    console.print(f"[bold]Stormjay is running.[/] Look at [bold cyan]{url}[/]")
    console.print(
        f"  the last 24 hours of a recorded day come in over about {seconds:.0f} s, then one reading a minute"
    )
    console.print(f"  latest     {url}/observations/latest?stationId={GARDEN_ID}", highlight=False)
    console.print(f"  API        {url}/docs      status  {url}/status", highlight=False)
    console.print(f"  data lies  {Path(settings.data_dir).resolve()}", highlight=False)
    console.print("  Ctrl-C stops it; started again, it goes on where it was")
    console.print()
