"""The verbs for readings that a far side refused for good."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stormjay.cli_run import Json, assembly, do, open_journal
from stormjay.console import EXIT_CODES
from stormjay.errors import BadRequest
from stormjay.settings import Loaded
from stormjay.weather import commands_letters

app = typer.Typer(
    no_args_is_help=True, help="Readings that a far side refused: list, show, replay, discard.", epilog=EXIT_CODES
)
Destination = Annotated[str | None, typer.Option(help="Name of the destination; the first one without it.")]


@app.command("list")
def letters_list(
    context: typer.Context,
    *,
    destination: Annotated[str | None, typer.Option(help="Only of this destination.")] = None,
    discarded: Annotated[bool, typer.Option("--discarded", help="Those that were thrown away.")] = False,
    limit: Annotated[int, typer.Option(help="Most rows.")] = 100,
    after: Annotated[int, typer.Option(help="Only rows above this id, to page on.")] = 0,
    as_json: Json = False,
) -> None:
    """List readings that a far side refused for good, oldest first."""

    async def work(loaded: Loaded) -> list[dict[str, Any]]:
        async with open_journal(loaded.settings, writing=False) as journal:
            return await commands_letters.list_letters(
                await assembly().outboxes(loaded.settings, journal),
                destination=destination,
                state="discarded" if discarded else "failed",
                limit=limit,
                after_id=after,
            )

    do(context, work, as_json=as_json)


@app.command("show")
def letters_show(
    context: typer.Context,
    *,
    number: Annotated[int, typer.Argument(help="Id of the row, as listed.")],
    destination: Destination = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter with its reading and the far side's words."""

    async def work(loaded: Loaded) -> dict[str, Any]:
        async with open_journal(loaded.settings, writing=False) as journal:
            boxes = await assembly().outboxes(loaded.settings, journal)
            return await commands_letters.show_letter(boxes, journal.database, number, destination=destination)

    do(context, work, as_json=as_json)


@app.command("replay")
def letters_replay(
    context: typer.Context,
    *,
    ids: Annotated[list[int] | None, typer.Argument(help="Ids of rows, as listed.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that failed.")] = False,
    destination: Destination = None,
    as_json: Json = False,
) -> None:
    """Make dead letters wait for delivery again; a running service takes them up by itself."""

    async def work(loaded: Loaded) -> dict[str, Any]:
        if bool(ids) == every:
            raise BadRequest("ids_or_all", "give either ids or --all")
        async with open_journal(loaded.settings, writing=True) as journal:
            boxes = await assembly().outboxes(loaded.settings, journal)
            return await commands_letters.replay_letters(boxes, ids or None, destination=destination)

    do(context, work, as_json=as_json)


@app.command("discard")
def letters_discard(
    context: typer.Context,
    *,
    ids: Annotated[list[int], typer.Argument(help="Ids of rows, as listed.")],
    destination: Destination = None,
    as_json: Json = False,
) -> None:
    """Throw dead letters away; the readings themselves stay in the journal."""

    async def work(loaded: Loaded) -> dict[str, Any]:
        async with open_journal(loaded.settings, writing=True) as journal:
            boxes = await assembly().outboxes(loaded.settings, journal)
            return await commands_letters.discard_letters(boxes, ids, destination=destination)

    do(context, work, as_json=as_json)
