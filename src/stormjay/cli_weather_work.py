"""The verbs that work on the weather station: take data in, try it again, listen, play a hub, clean up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from stormjay.cli_run import Json, assembly, do, open_journal
from stormjay.cli_weather import CLOCK, app
from stormjay.console import EXIT_PROBLEM, progress, tell_line
from stormjay.ground.clock import seeded_random
from stormjay.settings import Loaded, Settings
from stormjay.weather import commands_write, importer, journal_replay
from stormjay.weather.hub import HubSettings
from stormjay.weather.retention import RetentionReport

__all__ = ["app"]

DEFAULT_NODE = "!00000000"


@app.command()
def replay(
    context: typer.Context,
    *,
    ids: Annotated[list[int] | None, typer.Argument(help="Rows of the ledger; all that were refused without.")] = None,
    as_json: Json = False,
) -> None:
    """Parse refused packets again, with the ranges that hold now, and store what is accepted."""

    async def work(loaded: Loaded) -> importer.ImportReport:
        async with open_journal(loaded.settings, writing=True) as journal:
            with progress("replaying") as shown:
                task = shown.add_task("", total=None)
                return await journal_replay.replay_ledger(
                    journal, ids=ids or None, progress=lambda count: shown.update(task, completed=count)
                )

    do(context, work, as_json=as_json, title="Replayed")


@app.command()
def listen(
    context: typer.Context,
    *,
    count: Annotated[int | None, typer.Option(help="End after so many packets.")] = None,
) -> None:
    """Print what the radio hears, one JSON object a line, without storing it."""

    async def work(loaded: Loaded) -> None:
        settings = loaded.settings
        await commands_write.listen(
            assembly().radio(settings),
            tell_line,
            clock=CLOCK,
            packets_max=count,
            retry_seconds=settings.weather.radio.reconnect_delay_seconds,
        )

    do(context, work, as_json=True)


@app.command("ingest-text")
def ingest_text(
    context: typer.Context,
    *,
    text: Annotated[
        str, typer.Argument(help="The text as the radio would have it; - reads standard input, line by line.")
    ],
    node: Annotated[str, typer.Option(help="Sender, as !5c32d4d9.")] = DEFAULT_NODE,
    name: Annotated[str | None, typer.Option(help="Sender's name.")] = None,
    as_json: Json = False,
) -> None:
    """Take a text into the journal as if the radio had just heard it."""

    async def work(loaded: Loaded) -> list[dict[str, Any]]:
        lines = sys.stdin.buffer if text == "-" else [text.encode("utf-8", "surrogateescape")]
        async with open_journal(loaded.settings, writing=True) as journal:
            return [
                await commands_write.ingest_text(journal, line, clock=CLOCK, source_node_id=node, source_name=name)
                for line in lines
            ]

    do(
        context,
        work,
        as_json=as_json,
        verdict=lambda results: EXIT_PROBLEM if any(each["kind"] in _NOT_TAKEN for each in results) else 0,
    )


_NOT_TAKEN = frozenset({"invalid", "rejected", "unknown", "lost", "ignored"})


@app.command("simulate-hub")
def simulate_hub(  # noqa: PLR0913 - the options of the mock senders
    context: typer.Context,
    *,
    target: Annotated[str, typer.Option(help="Where to; 255.255.255.255 for all of the local network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="UDP port.", min=1, max=65_535)] = 50_222,
    tick: Annotated[float, typer.Option(help="Step of the made-up weather, seconds.", min=0.01)] = 1.0,
    obs_interval: Annotated[float, typer.Option("--obs-interval", "--interval", help="Seconds.", min=0)] = 60.0,
    rapid_wind_interval: Annotated[float, typer.Option(help="Seconds.", min=0)] = 3.0,
    device_status_interval: Annotated[float, typer.Option(help="Seconds.", min=0)] = 60.0,
    hub_status_interval: Annotated[float, typer.Option(help="Seconds.", min=0)] = 10.0,
    strike_chance: Annotated[float, typer.Option(help="Of lightning per wet observation.", min=0, max=1)] = 0.06,
    repeats: Annotated[int, typer.Option(help="How often each datagram is sent; real hubs send it twice.", min=1)] = 2,
    seconds: Annotated[float | None, typer.Option(help="End after so long.", min=0)] = None,
    recording: Annotated[Path | None, typer.Option(help="Send this recording again, moved to now.")] = None,
    speed: Annotated[float, typer.Option(help="With a recording: so much faster than it happened.", min=1)] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Makes the same weather again.")] = None,
    as_json: Json = False,
) -> None:
    """Play a Tempest hub: send its UDP broadcasts, made up or from a recording.

    Example: stormjay weather simulate-hub --obs-interval 10 --seconds 60
    """
    settings = HubSettings(
        target=target,
        port=port,
        tick_seconds=tick,
        obs_interval_seconds=obs_interval,
        rapid_wind_interval_seconds=rapid_wind_interval,
        device_status_interval_seconds=device_status_interval,
        hub_status_interval_seconds=hub_status_interval,
        strike_chance=strike_chance,
        repeats=repeats,
    )

    async def work(_loaded: Loaded) -> dict[str, int]:
        with progress("sending datagrams") as shown:
            task = shown.add_task("", total=None)
            sent = await commands_write.simulate_hub(
                settings,
                clock=CLOCK,
                randomness=seeded_random(seed),
                seconds=seconds,
                recording=recording,
                speed=speed,
                progress=lambda count, _at: shown.update(task, completed=count),
            )
        return {"datagrams_sent": sent}

    do(context, work, as_json=as_json)


@app.command("import")
def import_file(
    context: typer.Context,
    *,
    path: Annotated[Path, typer.Argument(help="A weatherstation.db, or a CSV with a header.")],
    node: Annotated[str | None, typer.Option(help="CSV: sender of rows that name none.")] = None,
    deliver: Annotated[
        bool, typer.Option("--deliver", help="CSV: put the readings into the delivery queues too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take readings from another journal or a CSV; doing it again changes nothing."""

    async def work(loaded: Loaded) -> importer.ImportReport:
        async with open_journal(loaded.settings, writing=True) as journal:
            with progress("importing rows") as shown:
                task = shown.add_task("", total=None)

                def told(count: int) -> None:
                    shown.update(task, completed=count)

                if path.suffix.lower() == ".csv":
                    return await importer.import_csv(journal, path, source_node_id=node, deliver=deliver, progress=told)
                return await importer.import_database(journal, path, progress=told)

    do(context, work, as_json=as_json, title="Imported")


@app.command()
def retention(
    context: typer.Context,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only, also when retention is disabled.")] = False,
    retention_days: Annotated[int | None, typer.Option(min=1, help="Instead of weather.retention.days.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Instead of weather.retention.batch_size.")] = None,
    max_batches: Annotated[int | None, typer.Option(min=1, help="Instead of weather.retention.max_batches.")] = None,
    as_json: Json = False,
) -> None:
    """Delete old rows that every destination has, once; does nothing while weather.retention.enabled is false."""
    given = {"days": retention_days, "batch_size": batch_size, "max_batches": max_batches}

    async def work(loaded: Loaded) -> RetentionReport:
        settings = _with_retention(loaded.settings, {name: value for name, value in given.items() if value is not None})
        build = assembly()
        async with open_journal(settings, writing=not dry_run) as journal:
            report: RetentionReport = await build.retention(settings, journal).run_once(dry_run=dry_run)
            return report

    do(context, work, as_json=as_json, title="Retention")


def _with_retention(settings: Settings, changes: dict[str, int]) -> Settings:
    retention = msgspec.structs.replace(settings.weather.retention, **changes)
    return msgspec.structs.replace(settings, weather=msgspec.structs.replace(settings.weather, retention=retention))
