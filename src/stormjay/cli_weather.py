"""The verbs that look into the weather journal, each one call."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stormjay.cli_run import Json, Station, assembly, do, open_journal
from stormjay.console import EXIT_CODES
from stormjay.ground import timestamps
from stormjay.ground.clock import SystemClock
from stormjay.settings import Loaded
from stormjay.weather import commands

app = typer.Typer(no_args_is_help=True, help="Look into the weather journal and work on it.", epilog=EXIT_CODES)
CLOCK = SystemClock()
Limit = Annotated[int | None, typer.Option(help="Most rows.")]


def _now_us() -> int:
    return timestamps.from_datetime(CLOCK.now())


@app.command()
def latest(context: typer.Context, *, station: Station = None, as_json: Json = False) -> None:
    """Show a station's newest reading, what follows from it, and how the station is."""

    async def work(loaded: Loaded) -> dict[str, Any]:
        build = assembly()
        async with open_journal(loaded.settings, writing=False) as journal:
            return await commands.latest(
                journal.database,
                now_us=_now_us(),
                sites=build.sites(loaded.settings),
                thresholds=build.thresholds(loaded.settings),
                station=station,
            )

    do(context, work, as_json=as_json, title="Newest reading")


@app.command()
def history(
    context: typer.Context,
    *,
    station: Station = None,
    since: Annotated[
        str | None, typer.Option(help="Begin: ISO 8601 with zone, or epoch. A day before the end.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="End; now without it.")] = None,
    limit: Annotated[int, typer.Option(help="Most readings; the newest are kept.")] = 200,
    as_json: Json = False,
) -> None:
    """Show readings over a span of time, the newest last.

    Example: stormjay weather history --since 2026-08-06T00:00:00Z --json
    """

    async def work(loaded: Loaded) -> commands.Rows:
        build = assembly()
        async with open_journal(loaded.settings, writing=False) as journal:
            return await commands.history(
                journal.database,
                now_us=_now_us(),
                sites=build.sites(loaded.settings),
                station=station,
                since=since,
                until=until,
                limit=limit,
            )

    do(context, work, as_json=as_json)


@app.command()
def show(
    context: typer.Context,
    *,
    what: Annotated[commands.What, typer.Argument(help="latest readings, health reports, or the delivery queue.")],
    limit: Limit = None,
    queue: Annotated[str, typer.Option(help="With queue: its table.")] = "aws_delivery_queue",
    as_json: Json = False,
) -> None:
    """Show the newest rows of a table, the newest first."""

    async def work(loaded: Loaded) -> commands.Rows:
        async with open_journal(loaded.settings, writing=False) as journal:
            return await commands.show(journal.database, what, limit=limit, queue=queue)

    do(context, work, as_json=as_json)


@app.command()
def ledger(
    context: typer.Context,
    *,
    station: Annotated[str | None, typer.Option(help="Only of this node.")] = None,
    packet_type: Annotated[str | None, typer.Option("--type", help="invalid, rejected, unknown, weather ...")] = None,
    reason: Annotated[str | None, typer.Option(help="Only with this reason.")] = None,
    before: Annotated[int | None, typer.Option(help="Only rows below this id, to page on.")] = None,
    limit: Annotated[int, typer.Option(help="Most rows.")] = 50,
    as_json: Json = False,
) -> None:
    """Show what was refused or came twice, with the reason, the newest first."""

    async def work(loaded: Loaded) -> commands.Rows:
        async with open_journal(loaded.settings, writing=False) as journal:
            return await commands.ledger(
                journal.database,
                station=station,
                packet_type=packet_type,
                reason=reason,
                before_id=before,
                limit=limit,
            )

    do(context, work, as_json=as_json)
