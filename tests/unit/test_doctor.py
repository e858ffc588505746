"""The doctor: each thing that can be wrong is found, told in words, and comes with a next step."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from stormjay import commands, doctor, settings
from stormjay.doctor import Finding
from stormjay.errors import DestinationDown, Unauthorized
from stormjay.ground.clock import ManualClock
from stormjay.settings import Settings

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def given(folder: Path, **variables: str) -> Settings:
    environment = {
        "HOME": str(folder),
        "STORMJAY_DATA_DIR": str(folder / "data"),
        "STORMJAY_WEB__PORT": str(free_port()),
        **variables,
    }
    return settings.load(environment=environment, folder=folder).settings


def found(wanted: Settings, *, now: datetime = NOW, static: Path = Path("/nowhere")) -> dict[str, Finding]:
    findings = asyncio.run(doctor.examine(wanted, clock=ManualClock(now), static=static, file=None))
    for finding in findings:
        assert (finding.next_step == "") == (finding.verdict in ("ok", "skipped")), finding
    return {finding.check: finding for finding in findings}


@contextmanager
def far_side(status: int, body: bytes, *, date: datetime = NOW) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response_only(status)
            self.send_header("date", format_datetime(date))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_fresh_installation_is_well(tmp_path: Path) -> None:
    for name in ("uplot/uPlot.iife.min.js", "htmx/htmx.min.js", "swagger-ui/swagger-ui-bundle.js"):
        file = tmp_path / "static/vendor" / name
        file.parent.mkdir(parents=True)
        file.touch()
    findings = found(given(tmp_path), static=tmp_path / "static")
    assert {finding.verdict for finding in findings.values()} <= {"ok", "skipped"}
    assert not doctor.has_problem(list(findings.values()))
    assert not (tmp_path / "data").exists()


def test_databases_are_checked_and_those_set_aside_are_named(tmp_path: Path) -> None:
    wanted = given(tmp_path)
    wanted.journal_file.parent.mkdir()
    with closing(sqlite3.connect(wanted.journal_file)) as connection:
        connection.execute("CREATE TABLE t (x)")
    assert found(wanted)["journal"].verdict == "ok"
    wanted.journal_file.write_bytes(b"this is no database at all" * 100)
    assert found(wanted)["journal"].verdict == "problem"
    wanted.journal_file.unlink()
    (wanted.journal_file.parent / f"{wanted.journal_file.name}.damaged-20260806T070640Z").touch()
    assert "set aside" in found(wanted)["journal"].text


@pytest.mark.parametrize(("now", "verdict"), [("1970-01-01", "problem"), ("2050-01-01", "warning")])
def test_a_clock_that_cannot_be_right_is_told(tmp_path: Path, now: str, verdict: str) -> None:
    moment = datetime.fromisoformat(f"{now}T00:00:00+00:00")
    assert found(given(tmp_path), now=moment)["clock"].verdict == verdict


def test_a_port_in_use_is_told_unless_it_is_ours(tmp_path: Path) -> None:
    with far_side(200, b'{"ok": true}') as url:
        wanted = given(tmp_path, STORMJAY_WEB__PORT=url.rpartition(":")[2])
        assert "a running Stormjay answers" in found(wanted)["web port"].text
    with far_side(404, b"other") as url:
        finding = found(given(tmp_path, STORMJAY_WEB__PORT=url.rpartition(":")[2]))["web port"]
    assert finding.verdict == "problem"
    assert "STORMJAY_WEB__PORT" in finding.next_step


def test_serial_ports_and_radios_are_looked_for(tmp_path: Path) -> None:
    finding = found(given(tmp_path, MESHTASTIC_DEVICE="/dev/ttyNONE7"))["weather.radio.source"]
    assert (finding.verdict, finding.text) == ("problem", "there is no /dev/ttyNONE7")
    master, slave = os.openpty()
    try:
        assert found(given(tmp_path, MESHTASTIC_DEVICE=os.ttyname(slave)))["weather.radio.source"].verdict == "ok"
    finally:
        os.close(master)
        os.close(slave)
    with socket.socket() as radio:
        radio.bind(("127.0.0.1", 0))
        radio.listen()
        source = f"tcp://127.0.0.1:{radio.getsockname()[1]}"
        assert found(given(tmp_path, MESHTASTIC_DEVICE=source))["weather.radio.source"].verdict == "ok"
    findings = found(given(tmp_path, STORMJAY_MQTT__URL=f"mqtt://127.0.0.1:{free_port()}"))
    assert findings["mqtt.url"].verdict == "problem"


@pytest.mark.parametrize(
    ("status", "body", "verdict", "part"),
    [
        (400, b'{"ok": false, "error": "validation_failed"}', "ok", "takes the key"),
        (401, b'{"ok": false, "error": "unauthorized"}', "problem", "refuses the key"),
        (200, b"<html>welcome</html>", "problem", "login page"),
        (302, b"", "problem", "login page"),
        (404, b'{"ok": false}', "problem", "404"),
        (503, b"busy", "warning", "503"),
    ],
)
def test_the_far_side_and_its_key_are_tried_without_storing(
    tmp_path: Path, status: int, body: bytes, verdict: str, part: str
) -> None:
    """Fault B6: what answers 200 with a page is no far side."""
    with far_side(status, body) as url:
        findings = found(given(tmp_path, API_URL=url, API_KEY="a-key-that-is-long"))
    assert findings["weather.delivery"].verdict == verdict
    assert part in findings["weather.delivery"].text


def test_a_far_side_that_is_down_or_has_another_time_is_told(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    assert "cannot be reached" in found(given(tmp_path, API_URL=nobody, API_KEY="k"))["weather.delivery"].text
    with far_side(400, b'{"error": "x"}', date=datetime(2026, 12, 1, 13, tzinfo=UTC)) as url:
        assert "3600 s apart" in found(given(tmp_path, API_URL=url, API_KEY="a-key-that-is-long"))["clock"].text


def test_what_has_an_address_and_is_not_enabled_is_told(tmp_path: Path) -> None:
    addresses = {"API_URL": f"http://127.0.0.1:{free_port()}", "MESHTASTIC_DEVICE": "/dev/ttyNOWHERE"}
    findings = found(given(tmp_path, **addresses))
    assert "readings stay here" in findings["weather.delivery.enabled"].text
    assert "STORMJAY_WEATHER__DELIVERY__ENABLED=true" in findings["weather.delivery.enabled"].next_step
    assert "weather.listener" in findings["weather.radio.enabled"].text
    on = found(given(tmp_path, API_KEY="k", STORMJAY_WEATHER__DELIVERY__ENABLED="true", **addresses))
    assert "weather.delivery.enabled" not in on


def test_short_secrets_and_bare_stations_are_warned_of(tmp_path: Path) -> None:
    findings = found(given(tmp_path, API_SHARED_SECRET="short", STORMJAY_WEATHER__STATIONS__5C32D4D9__NAME="Garden"))
    assert findings["weather.cloud.api_shared_secret"].verdict == "warning"
    assert "time_zone and elevation_m" in findings["station !5c32d4d9"].text


def test_the_running_service_is_asked_with_a_token(tmp_path: Path) -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"ok": True})

    wanted = given(
        tmp_path, STORMJAY_WEB__TOKENS__ME__TOKEN="a-token-that-is-long", STORMJAY_WEB__TOKENS__ME__SCOPES="read"
    )
    told = asyncio.run(commands.status(wanted, "http://service", transport=httpx.MockTransport(answer)))
    assert told == {"ok": True}
    assert seen == ["Bearer a-token-that-is-long"]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (httpx.Response(401, json={}), Unauthorized),
        (httpx.Response(200, text="hello"), DestinationDown),
        (httpx.Response(200, json=[]), DestinationDown),
    ],
)
def test_what_is_no_service_is_told(tmp_path: Path, response: httpx.Response, error: type[Exception]) -> None:
    with pytest.raises(error):
        asyncio.run(
            commands.status(given(tmp_path), "http://service", transport=httpx.MockTransport(lambda _request: response))
        )


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),  # noqa: S104 - a setting, not a socket
        ("::", "http://[::1]:1"),
        ("::1", "http://[::1]:1"),
    ],
)
def test_the_service_is_reached_where_it_listens(tmp_path: Path, host: str, url: str) -> None:
    assert doctor.service_url(given(tmp_path, STORMJAY_WEB__HOST=host, STORMJAY_WEB__PORT="1")) == url
