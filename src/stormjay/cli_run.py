"""What every command does around its one call: load the settings, set up logging, print the result or the error."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeVar

import typer

from stormjay.console import exit_code, tell, tell_error
from stormjay.errors import NotFound, StormjayError
from stormjay.ground import logging_setup
from stormjay.ground.clock import SystemClock
from stormjay.settings import Loaded, Settings, load
from stormjay.weather.journal import Journal

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Station = Annotated[str | None, typer.Option(help="Node id as !5c32d4d9; the one heard of last without it.")]


def assembly() -> ModuleType:
    """Return the module that builds parts from settings."""
    # It brings the whole product with it; help, settings and completion must be quick on a small computer.
    import stormjay.assembly as module  # noqa: PLC0415 - see above

    return module


@asynccontextmanager
async def open_journal(settings: Settings, *, writing: bool) -> AsyncIterator[Journal]:
    """Open the journal for one command, beside a running service or alone.

    Raises:
        NotFound: There is none to look into.
        StoreUnavailable, StoreDamaged, StoreInUse: It cannot be used.
    """
    if not writing and not settings.journal_file.is_file():
        raise NotFound(
            "no_journal",
            f"there is no journal at {settings.journal_file} yet",
            next_step="start `stormjay run`, or check data_dir with `stormjay config show --origin`",
        )
    async with assembly().open_journal(settings, writing=writing) as journal:
        yield journal


@dataclass(frozen=True)
class Options:
    """What is given before the verb."""

    config: Path | None = None


def loaded_settings(context: typer.Context, *, enable: Sequence[str] = ()) -> Loaded:
    """Return the settings of this call.

    Raises:
        SettingsError: Something is wrong with them.
    """
    options = context.find_object(Options) or Options()
    return load(environment=os.environ, config=options.config, enable=enable)


def do(
    context: typer.Context,
    work: Callable[[Loaded], Awaitable[T]],
    *,
    as_json: bool = False,
    title: str = "",
    verdict: Callable[[T], int] = lambda _result: 0,
) -> None:
    """Run one command to its end.

    Args:
        context: Of the call.
        work: The command, given the settings; what it returns is printed unless it is None.
        as_json: Print JSON.
        title: Over the table.
        verdict: Gives the exit code for a result that is no error.
    """
    try:
        loaded = loaded_settings(context)
        # Log lines must not get into a result that a program reads.
        quiet_logging(loaded)
        result = asyncio.run(_awaited(work(loaded)))
    except StormjayError as error:
        tell_error(error, as_json=as_json)
        raise typer.Exit(exit_code(error)) from error
    if result is not None:
        tell(result, as_json=as_json, title=title)
    code = verdict(result)
    if code:
        raise typer.Exit(code)


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def quiet_logging(loaded: Loaded) -> None:
    """Log warnings and errors of a short command to standard error."""
    logging_setup.configure(
        clock=SystemClock(),
        log_format=loaded.settings.log_format,
        level="debug" if loaded.settings.log_level == "debug" else "warning",
        secrets=loaded.secrets(),
        stream=sys.stderr,
    )


def run_service(
    context: typer.Context, work: Callable[[Loaded], Awaitable[int]], *, enable: Sequence[str] = ()
) -> None:
    """Run what goes on until it is stopped; its result is the exit code."""
    try:
        loaded = loaded_settings(context, enable=enable)
        settings = loaded.settings
        logging_setup.configure(
            clock=SystemClock(), log_format=settings.log_format, level=settings.log_level, secrets=loaded.secrets()
        )
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(_awaited(work(loaded)))
    except StormjayError as error:
        tell_error(error, as_json=False)
        raise typer.Exit(exit_code(error)) from error
    raise typer.Exit(code)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - only long runs gain from it, and not every system has it
    except ImportError:
        return None
    factory: Any = uvloop.new_event_loop
    return factory  # type: ignore[no-any-return] # untyped on systems without it
