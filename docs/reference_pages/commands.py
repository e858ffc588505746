"""The page of all verbs, read off the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from docs.reference_pages.table import MADE, table
from stormjay.cli import app


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield every verb with its full name, in the order of the help."""
    yield from _commands("stormjay", typer.main.get_command(app))


def _commands(name: str, command: object) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        for part, inner in command.commands.items():
            yield from _commands(f"{name} {part}", inner)
    elif isinstance(command, TyperCommand):
        yield name, command


def parameters(command: TyperCommand | TyperGroup) -> Iterator[TyperArgument | TyperOption]:
    """Yield the arguments and options of a verb, or of all, that people are meant to see."""
    for parameter in command.params:
        if isinstance(parameter, TyperArgument | TyperOption) and not parameter.hidden:
            yield parameter


def commands_page() -> str:
    """Return the page of all verbs with their arguments and options."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)  # noqa: S101 - the app has verbs
    lines = ["# Commands", "", MADE.format(source="`src/stormjay/cli.py` and its neighbours"), ""]
    lines += ["Options before the verb hold for all of them: `stormjay --config FILE run`.", ""]
    lines += table(("option", "default", "meaning"), [_row(parameter) for parameter in parameters(root)])
    for name, command in commands():
        if command.hidden:
            continue
        lines += [f"## {name}", "", inspect.cleandoc(command.help or "").replace("\f", ""), ""]
        rows = [_row(parameter) for parameter in parameters(command)]
        if rows:
            lines += table(("argument or option", "default", "meaning"), rows)
    return "\n".join(lines).rstrip() + "\n"


def _row(parameter: TyperArgument | TyperOption) -> tuple[str, str, str]:
    is_argument = isinstance(parameter, TyperArgument)
    names = [(parameter.name or "").upper()] if is_argument else [*parameter.opts, *parameter.secondary_opts]
    default = parameter.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    shown = f"`{default}`" if plain else "required" if parameter.required else ""
    return f"`{', '.join(names)}`", shown, parameter.help or ""
