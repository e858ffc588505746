"""The doctor's checks that talk: the own port, radio and broker, the far sides and their keys."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

import httpx
import msgspec

from stormjay.ground.clock import Clock
from stormjay.settings import Settings

Verdict = Literal["ok", "warning", "problem", "skipped"]
CLOCK_OFF_SECONDS_MAX = 60.0
_PROBE_SECONDS = 5.0
_DEFAULT_PORTS = {"tcp": 4403, "mqtt": 1883, "mqtts": 8883}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check found.

    Attributes:
        check: What was looked at.
        verdict: ``problem`` keeps something from working, ``warning`` may do so later.
        text: What was found, in plain words.
        next_step: What to do about it; empty when nothing.
    """

    check: str
    verdict: Verdict
    text: str
    next_step: str = ""


def links(settings: Settings) -> list[tuple[str, str]]:
    """Return the settings that name a radio or a line to one, with their addresses."""
    weather = settings.weather
    found = []
    if weather.radio.source:
        found.append(("weather.radio.source", weather.radio.source))
    if weather.bridge.output:
        found.append(("weather.bridge.output", weather.bridge.output))
    return found


async def web_port(settings: Settings) -> Finding:
    """Tell whether the web server can listen, or already does."""
    host, port = settings.web.host, settings.web.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            failure = error
        else:
            return Finding(check="web port", verdict="ok", text=f"{host}:{port} is free")
    if await _is_ours(settings):
        return Finding(check="web port", verdict="ok", text=f"a running Stormjay answers on {host}:{port}")
    return Finding(
        check="web port",
        verdict="problem",
        text=f"{host}:{port} cannot be used: {failure.strerror}",
        next_step="set another one with STORMJAY_WEB__PORT, or stop what uses it",
    )


def service_url(settings: Settings) -> str:
    """Return where this machine reaches the running service."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(settings.web.host, settings.web.host)  # noqa: S104 - compared, not bound
    return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{settings.web.port}"


async def _is_ours(settings: Settings) -> bool:
    try:
        async with httpx.AsyncClient(timeout=_PROBE_SECONDS, trust_env=False) as client:
            answer = await client.get(f"{service_url(settings)}/healthz")
            return answer.is_success and isinstance(answer.json(), dict)
    except (httpx.HTTPError, ValueError):
        return False


async def reachable(settings: Settings) -> list[Finding]:
    """Tell whether radio and broker take a connection."""
    wanted = [*links(settings), *([("mqtt.url", settings.mqtt.url)] if settings.mqtt.url else [])]
    return [await _connects(name, url) for name, url in wanted if urlsplit(url).scheme in _DEFAULT_PORTS]


async def _connects(name: str, url: str) -> Finding:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    except (OSError, TimeoutError) as error:
        return Finding(
            check=name,
            verdict="problem",
            text=f"{host}:{port} does not answer: {getattr(error, 'strerror', None) or 'no answer in time'}",
            next_step="check the address, that the device is on, and that no firewall is in between",
        )
    return Finding(check=name, verdict="ok", text=f"{host}:{port} answers")


async def far_sides(settings: Settings, clock: Clock) -> list[Finding]:
    """Tell whether each destination answers and takes its key."""
    weather = settings.weather
    wanted = [
        (f"weather.destinations.{name}", each.api_url, each.api_key) for name, each in weather.destinations.items()
    ]
    if weather.delivery.api_url:
        wanted.insert(0, ("weather.delivery", weather.delivery.api_url, weather.delivery.api_key))
    findings: list[Finding] = []
    async with httpx.AsyncClient(timeout=_PROBE_SECONDS, follow_redirects=False) as client:
        for name, url, key in wanted:
            findings += await _far_side(client, name, url.rstrip("/"), key, clock)
    return findings


async def _far_side(client: httpx.AsyncClient, name: str, url: str, key: str, clock: Clock) -> list[Finding]:
    try:
        answer = await client.post(
            f"{url}/observations", content=b'{"payload":{}}',
            headers={"content-type": "application/json", "x-weatherstation-key": key},
        )  # fmt: skip
    except httpx.HTTPError as error:
        return [
            Finding(
                check=name,
                verdict="problem",
                text=f"the far side cannot be reached: {str(error) or type(error).__name__}",
                next_step="check the address and the internet connection; readings wait in the journal meanwhile",
            )
        ]
    findings = [_judged(name, answer)]
    with contextlib.suppress(TypeError, ValueError, KeyError):
        off = abs((parsedate_to_datetime(answer.headers["date"]) - clock.now()).total_seconds())
        if off > CLOCK_OFF_SECONDS_MAX:
            findings.append(
                Finding(
                    check="clock",
                    verdict="warning",
                    text=f"this clock and that of {name} are {off:.0f} s apart",
                    next_step="start time synchronisation (systemd-timesyncd, chrony)",
                )
            )
    return findings


def _judged(name: str, answer: httpx.Response) -> Finding:
    """Judge the answer to an empty reading: an ingest that knows the key refuses it as invalid, with 400."""
    try:
        body = answer.json()
    except ValueError:
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    if answer.status_code in (400, 422) and error is not None:
        return Finding(check=name, verdict="ok", text="the far side answers and takes the key")
    if answer.status_code in (401, 403):
        return Finding(
            check=name,
            verdict="problem",
            text="the far side refuses the key",
            next_step=f"set the right key as {name}.api_key (API_KEY)",
        )
    if answer.is_redirect or (answer.is_success and error is None):
        return Finding(
            check=name,
            verdict="problem",
            text=f"what answers with {answer.status_code} is no ingest API; perhaps a login page of the network",
            next_step=f"check {name}.api_url, and log in to the network if it asks for it",
        )
    verdict: Verdict = "warning" if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR else "problem"
    return Finding(
        check=name,
        verdict=verdict,
        text=f"the far side answers with {answer.status_code}",
        next_step=f"check {name}.api_url: it must be the address without /observations",
    )
