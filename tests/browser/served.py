"""A journal with the recorded day moved to now, served on a free port of the loopback by a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import Clock, SystemClock
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web.app import WebSettings, create_app
from stormjay.ground.web.health import Health
from stormjay.ground.web.server import serve
from stormjay.ground.web.tokens import Tokens
from stormjay.weather.journal import Journal
from stormjay.weather.page import routes
from stormjay.weather.page.reader import PageSettings
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.views import Site
from stormjay.weather.views_strip import Target

STATION, SECOND = "!5c32d4d9", "!0a1b2c3d"
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title = "taken over"</script>'
RECORDING = Path(__file__).parents[2] / "recordings" / "weather" / "tempest_obs_st_from_midc.ndjson.gz"
SITES = {
    STATION: Site(name="Kitchen garden", elevation_m=742, time_zone="America/Denver"),
    SECOND: Site(name="Orchard", time_zone="America/Denver"),
}


def recorded_day() -> list[list[float | None]]:
    """Return the recorded observations, oldest first."""
    with gzip.open(RECORDING, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["obs"][0] for line in lines]


def payload(number: int, epoch: int, obs: list[Any], **changes: Any) -> bytes:
    """Return an observation as the bridge sends it."""
    keys = {"l": 1, "g": 3, "lux": 9, "uv": 10, "sr": 11, "pt": 13, "ld": 14, "lc": 15, "bat": 16, "ri": 17}
    text: dict[str, Any] = {"et": "obs_st", "i": number, "ts": epoch, "t": obs[7], "h": obs[8], "p": obs[6]}
    text |= {"w": obs[2], "d": obs[4], "r": obs[12], "ws": None}
    text |= {key: obs[index] for key, index in keys.items() if obs[index] is not None}
    return json.dumps(text | changes, separators=(",", ":")).encode()


def packet(at: datetime, body: bytes, number: int, station: str = STATION) -> MeshPacket:
    """Return a text as a radio would hand it in."""
    return MeshPacket(
        received_at=at, portnum=TEXT_MESSAGE_APP, payload=body, source_node_id=station, packet_id=number,
        snr_db=round(4.5 - number % 17 * 0.75, 2), rssi_dbm=-88 - number % 23, hop_start=3,
        hop_limit=3 if number % 5 else 2,
    )  # fmt: skip


def three_days(now: datetime) -> list[MeshPacket]:
    """Return the recorded day three times, the last one up to now, with the troubles that a real link has."""
    observations = recorded_day()
    first = now.replace(second=0, microsecond=0) - timedelta(minutes=3 * len(observations) - 1)
    packets: list[MeshPacket] = []
    for number in range(3 * len(observations)):
        minute, at = number % 1440, first + timedelta(minutes=number)
        if 3600 < number < 3640 or number % 97 == 0:  # the link was down, and now and then a packet is lost
            continue
        obs, changes = (
            observations[minute],
            {"bat": round(2.62 - minute / 40_000, 3), "uv": round((observations[minute][11] or 0) / 110, 1)},
        )
        if number % 97 == 1 and number:
            changes["ri"] = 2  # what was lost had been merged into this one
        if 4080 < number < 4140:
            changes |= {"r": round(0.02 + number % 7 * 0.03, 3), "pt": 1}
        if number == 4100:
            changes |= {"lc": 3, "ld": 12}
        packets.append(packet(at + timedelta(seconds=3), payload(number, int(at.timestamp()), obs, **changes), number))
    ledger = first + timedelta(minutes=4000, seconds=20)
    status = {"et": "device_status", "i": 4319, "ts": int(now.timestamp()) - 40, "up": 912_345, "v": 2.61, "fw": 181,
              "r": -67, "hr": -71, "ss": 655_364, "dbg": 0}  # fmt: skip
    packets += [
        packet(ledger, b'{"et":"obs_st","i":4000,"ts":1,"t":', 9_000_001),
        packet(now - timedelta(seconds=90), HOSTILE.encode(), 9_000_002),
        packet(now - timedelta(seconds=30), json.dumps(status).encode(), 9_000_003),
    ]
    orchard = [each for each in packets if each.packet_id is not None and 3000 < each.packet_id < 4200]
    packets += [packet(each.received_at, each.payload, each.packet_id or 0, SECOND) for each in orchard]
    return packets


def settle(connection: sqlite3.Connection) -> None:
    """Bring the queue to where it is after an outage that is just being worked off."""
    connection.execute("UPDATE aws_delivery_queue SET status = 'delivered', delivered_at_utc = CURRENT_TIMESTAMP")
    newest = "(SELECT reading_id FROM aws_delivery_queue ORDER BY reading_id DESC LIMIT 1450)"
    connection.execute(f"DELETE FROM aws_delivery_queue WHERE id % 1000 = 17 AND reading_id NOT IN {newest}")  # noqa: S608 - constants
    ids = [
        row[0]
        for row in connection.execute(
            "SELECT id FROM weather_readings WHERE source_node_id = ? ORDER BY source_ts_canonical DESC LIMIT 400",
            (STATION,),
        )
    ]
    for status, part in (("pending", ids[:4]), ("retry", ids[4:75]), ("failed", ids[150:154])):
        marks = ",".join("?" * len(part))
        connection.execute(
            f"UPDATE aws_delivery_queue SET status = ?, attempt_count = ?, delivered_at_utc = NULL, last_error = ?"  # noqa: S608 - marks
            f" WHERE reading_id IN ({marks})",
            (status, 0 if status == "pending" else 2, None if status == "pending" else "HTTP 503: busy", *part),
        )


class Served:
    """A running application and the loop that it lives on."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop, journal: Journal) -> None:
        self.url = url
        self._loop = loop
        self._journal = journal

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the application's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def capture(self, packets: list[MeshPacket]) -> None:
        """Store packets as the listener does; who watches is told."""
        self.run(self._journal.capture_many(packets))


@contextmanager
def served(
    folder: Path,
    packets: list[MeshPacket],
    *,
    sites: dict[str, Site] | None = None,
    targets: tuple[Target, ...] = (Target(name="api", table="aws_delivery_queue", label="the cloud"),),
    prepare: Callable[[sqlite3.Connection], None] | None = None,
) -> Iterator[Served]:
    """Serve a journal that holds ``packets`` until the block ends."""
    started: threading.Event = threading.Event()
    found: dict[str, Any] = {}

    async def live() -> None:
        clock: Clock = SystemClock()
        announcer, statistics = Announcer(), Statistics()
        journal = await Journal.open(
            folder / "weatherstation.db", clock=clock, statistics=statistics, announcer=announcer
        )
        for start in range(0, len(packets), 500):
            await journal.capture_many(packets[start : start + 500])
        if prepare is not None:
            await journal.database.write(prepare)
        settings = WebSettings(port=0)
        app = create_app(
            route_handlers=routes.routes(journal.database, sites or {}, PageSettings(), clock, targets),
            settings=settings,
            tokens=Tokens(public=("read",)),
            statistics=statistics,
            health=Health(clock),
            announcer=announcer,
            clock=clock,
            static={routes.STATIC_PATH: routes.STATIC},
        )
        found.update(loop=asyncio.get_running_loop(), task=asyncio.current_task(), journal=journal)

        def on_started(url: str) -> None:
            found["url"] = url
            started.set()

        try:
            with contextlib.suppress(asyncio.CancelledError):
                await serve(app, settings, on_started=on_started)
        finally:
            await journal.close()

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="served-page")
    thread.start()
    try:
        assert started.wait(60), "the application did not start"
        yield Served(found["url"], found["loop"], found["journal"])
    finally:
        if "loop" in found:
            found["loop"].call_soon_threadsafe(found["task"].cancel)
        thread.join(30)
