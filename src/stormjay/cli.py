"""The command line: arguments only, each verb one call. What a verb does stands in ``commands`` and the pipelines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

import stormjay
from stormjay import cli_letters, cli_weather_work, commands, doctor, settings
from stormjay.cli_run import Json, Options, assembly, do, loaded_settings, run_service
from stormjay.console import EXIT_CODES, EXIT_PROBLEM, exit_code, tell, tell_error
from stormjay.errors import BadRequest, StormjayError
from stormjay.ground.clock import SystemClock
from stormjay.settings import Loaded
from stormjay.settings_rows import MismatchError

PARTS = {
    "weather": "",
    "weather.bridge": "weather.bridge",
    "weather.listener": "weather.radio",
    "weather.delivery": "weather.delivery",
    "weather.retention": "weather.retention",
    "weather.cloud": "weather.cloud",
    "weather.page": "weather.page",
}
"""What `run` can be given, and the section that naming it switches on."""

app = typer.Typer(
    name="stormjay",
    no_args_is_help=True,
    epilog=EXIT_CODES,
    help="Captures telemetry where links are bad, keeps it on local disk first, and forwards it until it has arrived.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)
config_app = typer.Typer(no_args_is_help=True, help="Check and show the settings.", epilog=EXIT_CODES)
app.add_typer(config_app, name="config")
app.add_typer(cli_letters.app, name="dead-letters")
app.add_typer(cli_weather_work.app, name="weather")


def _tell_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"stormjay {stormjay.__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    *,
    config: Annotated[
        Path | None, typer.Option(help="Settings file; else STORMJAY_CONFIG, ./stormjay.toml and the usual places.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version and end.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    """Keep what is common to all verbs."""
    del version  # told by its callback
    context.obj = Options(config=config)


@app.command()
def run(
    context: typer.Context,
    *,
    parts: Annotated[
        list[str] | None, typer.Argument(help=f"What to run: {', '.join(PARTS)}. All enabled without.")
    ] = None,
) -> None:
    """Run the enabled parts, or those named, until stopped.

    Example: stormjay run weather.listener weather.delivery
    """
    wanted = parts or []
    try:
        sections = [PARTS[_known_part(part)] for part in wanted]
    except StormjayError as error:
        tell_error(error, as_json=False)
        raise typer.Exit(exit_code(error)) from error
    run_service(
        context,
        lambda loaded: assembly().run(loaded.settings, wanted),
        enable=[section for section in sections if section],
    )


@app.command()
def demo(
    context: typer.Context,
    *,
    speed: Annotated[
        float, typer.Option(help="How much faster than it happened the recorded day goes by.", min=1)
    ] = 600.0,
) -> None:
    """Run the whole chain on a recorded day: hub, bridge, radio, journal, delivery, store, page."""
    run_service(context, lambda loaded: assembly().demo(loaded.settings, speed=speed))


@app.command()
def init(
    context: typer.Context,
    *,
    path: Annotated[Path, typer.Option(help="Settings file to write.")] = Path("stormjay.toml"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, take the defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    garden: Annotated[Path | None, typer.Option(help="Write the Pico's files into this folder instead.")] = None,
) -> None:
    """Write a commented settings file, or with --garden the files for the Pico beside the station."""
    try:
        if garden is not None:
            written = assembly().write_garden(loaded_settings(context).settings, garden)
            tell([str(each) for each in written], as_json=False, title="Written")
            return
        values = {} if yes else _asked()
        tell(f"{commands.write_settings(path, values, force=force)} is written; check it with `stormjay config check`",
             as_json=False)  # fmt: skip
    except StormjayError as error:
        tell_error(error, as_json=False)
        raise typer.Exit(exit_code(error)) from error


@config_app.command()
def check(context: typer.Context, *, as_json: Json = False) -> None:
    """Read the settings from all sources and tell everything that is wrong with them."""

    async def work(loaded: Loaded) -> dict[str, Any]:
        return {"ok": True, "file": None if loaded.file is None else str(loaded.file), "set": len(loaded.origins)}

    do(context, work, as_json=as_json, title="The settings are sound")


@config_app.command("show")
def config_show(
    context: typer.Context,
    *,
    origin: Annotated[bool, typer.Option("--origin", help="Tell where each value comes from.")] = False,
    as_json: Json = False,
) -> None:
    """Show every setting as it holds, secrets masked."""

    async def work(loaded: Loaded) -> list[dict[str, str]]:
        rows = ({"name": name, "value": value, "origin": place} for name, value, place in loaded.explain())
        return [row if origin else {"name": row["name"], "value": row["value"]} for row in rows]

    do(context, work, as_json=as_json)


@app.command()
def status(
    context: typer.Context,
    *,
    url: Annotated[
        str | None, typer.Option(help="Where the service is; from web.host and web.port without it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask the running service how it is; exit code 1 when it says that it is not well."""

    async def work(loaded: Loaded) -> dict[str, Any]:
        answer = await commands.status(loaded.settings, url or doctor.service_url(loaded.settings))
        return answer if as_json else commands.status_for_people(answer)

    do(
        context,
        work,
        as_json=as_json,
        title="Service",
        verdict=lambda answer: 0 if answer.get("ok") is True else EXIT_PROBLEM,
    )


@app.command("doctor")
def examine(context: typer.Context, *, as_json: Json = False) -> None:
    """Check settings, folder, databases, clock, ports, radio and far side, and say what to do about what is wrong."""

    async def work(loaded: Loaded) -> list[doctor.Finding]:
        static = Path(stormjay.__file__).parent / "ground" / "web" / "static"
        return await doctor.examine(loaded.settings, clock=SystemClock(), static=static, file=loaded.file)

    do(
        context,
        work,
        as_json=as_json,
        verdict=lambda findings: EXIT_PROBLEM if doctor.has_problem(findings) else 0,
    )


def _known_part(part: str) -> str:
    if part in PARTS:
        return part
    close = get_close_matches(part, PARTS, n=1, cutoff=0.4)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise BadRequest("unknown_part", f"there is no part {part}{hint}", next_step=f"parts are: {', '.join(PARTS)}")


def _asked() -> dict[str, str]:
    """Ask for the few settings that nobody can guess; return names and TOML values of those that were given."""
    values: dict[str, str] = {}

    def ask(question: str, name: str, *, hide: bool = False, enables: str = "") -> None:
        setting = settings.find(tuple(name.split(".")))
        assert setting is not None  # noqa: S101 - the names below are ours

        def checked(answer: str) -> object:
            try:
                return setting.convert(answer.strip(), is_text=True) if answer.strip() else None
            except MismatchError as error:  # the question is put again
                raise typer.BadParameter(f"it must be {error}") from error

        value = typer.prompt(question, default="", show_default=False, hide_input=hide, value_proc=checked)
        if value is None:
            return
        values[name] = json.dumps(value)
        if enables:
            values[f"{enables}.enabled"] = "true"

    typer.echo("Press Enter to leave out what you do not have.")
    ask("Home radio (serial:///dev/ttyUSB0, tcp://host:4403, mqtt://host/msh/...)", "weather.radio.source",
        enables="weather.radio")  # fmt: skip
    ask("Address of the API to deliver to (https://...)", "weather.delivery.api_url", enables="weather.delivery")
    if "weather.delivery.api_url" in values:
        ask("Its key", "weather.delivery.api_key", hide=True)
    ask("MQTT broker for Home Assistant (mqtt://user:password@host)", "mqtt.url")
    ask("Web port (8420)", "web.port")
    return values


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    app(args=None if arguments is None else list(arguments))
