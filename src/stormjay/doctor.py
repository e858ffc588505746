"""Looks at an installation and says, check by check, what is well, what is not, and what to do about it.

Nothing is changed and nothing is stored: a probe file in the data folder is removed at once, databases are opened for
reading, and the key of the far side is tried with an empty reading, which every ingest refuses before storing it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stormjay.doctor_network import Finding, Verdict, far_sides, links, reachable, service_url, web_port
from stormjay.ground.clock import Clock
from stormjay.settings import Settings

__all__ = ["Finding", "examine", "has_problem", "service_url"]

RELEASED = datetime(2026, 11, 1, tzinfo=UTC)
"""No clock that is right shows a time before this program was made."""
FREE_BYTES_LOW = 500_000_000
FREE_BYTES_MIN = 50_000_000
SECRET_LENGTH_MIN = 16
"""As the seed's stack asks of its shared secret (contract weather 6)."""
_PART = {"weather.radio": "weather.listener", "weather.delivery": "weather.delivery"}
_ASSETS = ("uplot/uPlot.iife.min.js", "htmx/htmx.min.js", "swagger-ui/swagger-ui-bundle.js")


async def examine(settings: Settings, *, clock: Clock, static: Path, file: Path | None) -> list[Finding]:
    """Make all checks.

    Args:
        settings: Of the installation; they are sound, or there would be none.
        clock: The machine's.
        static: The folder with the browser's files.
        file: The settings file that was read, or None.
    """
    findings = [
        Finding(check="settings", verdict="ok", text=f"sound, read from {file or 'the environment and defaults'}"),
        *_data_folder(settings),
        *_databases(settings),
        *_clock(clock),
        *_zones(settings),
        *_serial_ports(settings),
        *_extras(settings),
        *_assets(static),
        *_secrets(settings),
        *_idle(settings),
    ]
    findings.append(await web_port(settings))
    findings += await reachable(settings)
    findings += await far_sides(settings, clock)
    return findings


def has_problem(findings: Sequence[Finding]) -> bool:
    """Tell whether something does not work."""
    return any(finding.verdict == "problem" for finding in findings)


def _data_folder(settings: Settings) -> Iterator[Finding]:
    folder = Path(settings.data_dir).expanduser()
    existing = next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(b"probe")
    except OSError as error:
        yield Finding(
            check="data folder",
            verdict="problem",
            text=f"{existing} cannot be written: {error.strerror}",
            next_step="give this user the right to write there, or set STORMJAY_DATA_DIR to another folder",
        )
        return
    missing = "" if folder.is_dir() else " (it does not exist yet and will be made)"
    free = shutil.disk_usage(existing).free
    text = f"{folder} can be written{missing}, {free / 1e9:.1f} GB free"
    if free < FREE_BYTES_LOW:
        verdict: Verdict = "problem" if free < FREE_BYTES_MIN else "warning"
        yield Finding(
            check="data folder",
            verdict=verdict,
            text=text,
            next_step="free some space, or move data_dir to another disk",
        )
    else:
        yield Finding(check="data folder", verdict="ok", text=text)


def _databases(settings: Settings) -> Iterator[Finding]:
    for name, path in (("journal", settings.journal_file), ("store", settings.store_file)):
        if path.is_file():
            yield _sound(name, path)
        elif name == "journal":
            yield Finding(check=name, verdict="skipped", text=f"{path} does not exist yet")
        aside = sorted(path.parent.glob(f"{path.name}.damaged-*")) if path.parent.is_dir() else []
        aside = [each for each in aside if not each.name.endswith(("-wal", "-shm"))]
        if aside:
            yield Finding(
                check=name,
                verdict="warning",
                text=f"a damaged file was set aside: {aside[-1]}",
                next_step="take out what can be saved with `sqlite3 FILE .recover`, import it, then remove the file",
            )


def _sound(name: str, path: Path) -> Finding:
    try:
        # Not immutable: the file may be in use, and its newest commits lie in the -wal file.
        with contextlib.closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=5)
        ) as connection:
            answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        answer = str(error)
    if answer == "ok":
        return Finding(check=name, verdict="ok", text=f"{path} is sound, {path.stat().st_size / 1e6:.1f} MB")
    return Finding(
        check=name,
        verdict="problem",
        text=f"{path} is not sound: {answer}",
        next_step="stop the service and start it again: the file is set aside; then restore a backup",
    )


def _clock(clock: Clock) -> Iterator[Finding]:
    now = clock.now()
    if now < RELEASED:
        yield Finding(
            check="clock",
            verdict="problem",
            text=f"the clock says {now:%Y-%m-%d %H:%M} UTC, which is before this program was made",
            next_step="set the clock or start time synchronisation (systemd-timesyncd, chrony)",
        )
    elif now > RELEASED + timedelta(days=3650):
        yield Finding(
            check="clock",
            verdict="warning",
            text=f"the clock says {now:%Y-%m-%d %H:%M} UTC, ten years after this program was made",
            next_step="check the year",
        )
    else:
        yield Finding(check="clock", verdict="ok", text=f"the clock says {now:%Y-%m-%d %H:%M:%S} UTC")


def _zones(settings: Settings) -> Iterator[Finding]:
    wanted = {"Europe/Zurich", *(station.time_zone for station in settings.weather.stations.values())} - {""}
    missing = []
    for zone in sorted(wanted):
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, OSError, ValueError):
            missing.append(zone)
    if missing:
        yield Finding(
            check="time zones",
            verdict="problem",
            text=f"no data for {', '.join(missing)}",
            next_step="install the Python package tzdata, or the system's tzdata",
        )
    else:
        yield Finding(check="time zones", verdict="ok", text="time zone data are there")
    for node, station in settings.weather.stations.items():
        lacks = [
            name
            for name, known in (("time_zone", station.time_zone), ("elevation_m", station.elevation_m is not None))
            if not known
        ]
        if lacks:
            yield Finding(
                check=f"station {node}",
                verdict="warning",
                text=f"{' and '.join(lacks)} not set: local days or sea-level pressure are not shown",
                next_step=f'set them in [weather.stations."{node}"]',
            )


def _serial_ports(settings: Settings) -> Iterator[Finding]:
    for name, url in links(settings):
        parts = urlsplit(url)
        if parts.scheme not in ("serial", "uart"):
            continue
        path = parts.path or parts.netloc
        if not Path(path).exists():
            there = sorted(
                str(port) for pattern in ("ttyUSB*", "ttyACM*", "ttyS0") for port in Path("/dev").glob(pattern)
            )
            yield Finding(
                check=name,
                verdict="problem",
                text=f"there is no {path}",
                next_step=f"plug the radio in and set {name} to its port"
                + (f"; there are: {', '.join(there)}" if there else "; no serial port is there at all"),
            )
        elif not os.access(path, os.R_OK | os.W_OK):
            yield Finding(
                check=name,
                verdict="problem",
                text=f"{path} is there but this user may not open it",
                next_step="add the user to the group that owns it: `sudo usermod -aG dialout $USER`, then log in again",
            )
        else:
            yield Finding(check=name, verdict="ok", text=f"{path} is there and may be opened")


def _extras(settings: Settings) -> Iterator[Finding]:
    needed: dict[str, tuple[str, str]] = {}
    for name, url in links(settings):
        scheme = urlsplit(url).scheme
        if scheme in ("serial", "tcp"):
            needed["meshtastic"] = ("mesh", name)
        if scheme == "uart":
            needed["serial"] = ("serial", name)
    for module, (extra, name) in needed.items():
        if importlib.util.find_spec(module) is None:
            yield Finding(
                check=f"extra {extra}",
                verdict="problem",
                text=f"{name} needs the extra {extra}, which is not installed",
                next_step=f"in the checkout, with the pip that installed Stormjay: `pip install '.[{extra}]'`",
            )
        else:
            yield Finding(check=f"extra {extra}", verdict="ok", text=f"the extra {extra} is installed")


def _assets(static: Path) -> Iterator[Finding]:
    missing = [name for name in _ASSETS if not (static / "vendor" / name).is_file()]
    if missing:
        yield Finding(
            check="browser files",
            verdict="warning",
            text=f"missing: {', '.join(missing)}; the page has no charts and the API page does not open",
            next_step="run `make vendor` in the checkout and install from it again, or install from a wheel",
        )
    else:
        yield Finding(check="browser files", verdict="ok", text="the browser's files are there")


def _idle(settings: Settings) -> Iterator[Finding]:
    """Tell of what has an address and is not enabled: the older scripts were started one by one."""
    weather = settings.weather
    for name, address, enabled, words in (
        ("weather.radio", weather.radio.source, weather.radio.enabled, "nothing is heard"),
        ("weather.delivery", weather.delivery.api_url, weather.delivery.enabled, "readings stay here"),
    ):
        if address and not enabled:
            variable = f"STORMJAY_{name.upper().replace('.', '__')}__ENABLED"
            yield Finding(
                check=f"{name}.enabled",
                verdict="warning",
                text=f"{name} has an address and is not enabled: {words} unless `stormjay run {_PART[name]}` runs, too",
                next_step=f"set {name}.enabled = true ({variable}=true)",
            )


def _secrets(settings: Settings) -> Iterator[Finding]:
    for name, secret in (
        ("weather.cloud.api_shared_secret", settings.weather.cloud.api_shared_secret),
        ("weather.delivery.api_key", settings.weather.delivery.api_key),
    ):
        if secret and len(secret) < SECRET_LENGTH_MIN:
            yield Finding(
                check=name,
                verdict="warning",
                text=f"it has fewer than {SECRET_LENGTH_MIN} characters and can be guessed",
                next_step="take a longer one on both sides",
            )
