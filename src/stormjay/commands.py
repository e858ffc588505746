"""The verbs that concern the whole installation: write a settings file, ask a running service how it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from stormjay.errors import BadRequest, DestinationDown, StoreUnavailable, Unauthorized
from stormjay.settings import Settings, toml_template

_ANSWER_SECONDS_MAX = 5.0


def write_settings(path: Path, values: Mapping[str, str], *, force: bool = False) -> Path:
    """Write a commented settings file that only its owner can read, for it may hold secrets; return its path.

    Args:
        path: Where.
        values: Dotted names and TOML values of the lines that are not commented out.
        force: Replace a file that is there.

    Raises:
        BadRequest: There is a file, and ``force`` is off.
        StoreUnavailable: It cannot be written.
    """
    if path.exists() and not force:
        raise BadRequest(
            "file_exists", f"{path} is there already", next_step="give another --path, or --force to replace it"
        )
    neighbour = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        neighbour.unlink(missing_ok=True)
        handle = os.open(neighbour, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(toml_template(values))
        neighbour.replace(path)
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be written: {error.strerror}", next_step="give a --path in a folder of yours"
        ) from error
    return path


async def status(settings: Settings, url: str, *, transport: httpx.AsyncBaseTransport | None = None) -> dict[str, Any]:
    """Return what the running service says of itself.

    Args:
        settings: Hold a token, where reading needs one.
        url: Where the service is.
        transport: Another way to it, for tests.

    Raises:
        DestinationDown: No service answers there, or something else does.
        Unauthorized: Reading needs a token, and none in the settings is good for it.
    """
    token = next((each.token for each in settings.web.tokens.values() if {"read", "admin"} & set(each.scopes)), None)
    headers = {"accept": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    where = "start it with `stormjay run`, or set web.host and web.port to where it is"
    try:
        # A proxy of the environment would not know this machine's own service.
        async with httpx.AsyncClient(timeout=_ANSWER_SECONDS_MAX, trust_env=False, transport=transport) as client:
            answer = await client.get(f"{url}/status", headers=headers)
            if answer.status_code in (401, 403):
                raise Unauthorized(
                    "unauthorized",
                    "the service wants a token to be read",
                    next_step="put one with the scope read into [web.tokens]",
                )
            body = answer.json()
    except httpx.HTTPError as error:
        raise DestinationDown(f"no service answers at {url}", next_step=where) from error
    except ValueError as error:
        raise DestinationDown(f"what answers at {url} is no Stormjay", next_step=where) from error
    if not isinstance(body, dict):
        raise DestinationDown(f"what answers at {url} is no Stormjay", next_step=where)
    return body


def status_for_people(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a status with one line per figure that says something: labelled for people, and not 0."""
    figures: dict[str, Any] = {}
    for figure in answer.get("statistics", []):
        name, value = figure.get("label"), figure.get("value")
        if (
            name and value and not str(figure.get("name")).endswith("_timestamp_seconds")
        ):  # the sections say it as a time
            places = ", ".join(map(str, (figure.get("labels") or {}).values()))
            figures[f"{name} ({places})" if places else name] = value
    return {**answer, "statistics": figures}
