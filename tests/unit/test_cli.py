"""The command line: arguments, JSON, exit codes and words, over a real journal and a stand-in for the assembly."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import typer.testing
from tests.unit.cli_stand_in import COMMAND, FakeAssembly, Terminal, text

import stormjay
from stormjay import cli, cli_run, settings
from stormjay.console import EXIT_CODES
from stormjay.errors import LinkLost, StoreInUse
from stormjay.ground import logging_setup
from stormjay.settings import Settings

NODE = "!5c32d4d9"


@pytest.fixture
def assembly(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAssembly]:
    fake = FakeAssembly()
    monkeypatch.setitem(sys.modules, "stormjay.assembly", fake)
    monkeypatch.setattr(stormjay, "assembly", fake, raising=False)
    # Log lines would otherwise go on into streams that the runner has closed.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    monkeypatch.setattr(cli_run, "quiet_logging", lambda _loaded: None)
    monkeypatch.setattr(logging_setup, "configure", lambda **_given: None)
    yield fake
    structlog.reset_defaults()


@pytest.fixture
def terminal(tmp_path: Path, assembly: FakeAssembly, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(typer.testing, "_get_command", lambda _app: COMMAND)  # building it anew takes most of the time
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STORMJAY_DATA_DIR", str(tmp_path / "data"))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return Terminal(tmp_path, assembly)


def test_the_version_is_told_quickly_and_without_the_rest() -> None:
    source = (
        "import sys; sys.argv = ['stormjay', '--version']; from stormjay.__main__ import main; main(); "
        "loaded = {'typer', 'rich', 'litestar', 'msgspec'} & set(sys.modules); assert not loaded, loaded"
    )
    told = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True, timeout=30)
    assert told.stdout == f"stormjay {stormjay.__version__}\n"


def test_help_documents_exit_codes_and_every_verb(terminal: Terminal) -> None:
    shown = " ".join(terminal("--help").split())
    assert EXIT_CODES[:40] in shown
    for verb in ("run", "demo", "init", "config", "status", "doctor", "dead-letters", "weather"):
        assert verb in shown
    shown = terminal("weather", "--help")
    for verb in ("latest", "history", "show", "ledger", "replay", "listen", "ingest-text", "simulate-hub", "import"):
        assert verb in shown
    assert f"stormjay {stormjay.__version__}" in terminal("--version")


def test_config_check_and_show(terminal: Terminal) -> None:
    assert terminal.json("config", "check")["ok"] is True
    terminal.environment = {"API_KEY": "hush-hush-hush", "STORMJAY_WEB__PORT": "9000"}
    shown = {row["name"]: row for row in terminal.json("config", "show", "--origin")}
    assert shown["web.port"] == {"name": "web.port", "value": "9000", "origin": "environment: STORMJAY_WEB__PORT"}
    assert shown["weather.delivery.api_key"]["value"] == settings.MASK
    assert "hush-hush-hush" not in terminal("config", "show")
    terminal.environment = {"STORMJAY_WEB__PROT": "1", "STORMJAY_WEB__PORT": "x"}
    wrong = terminal.json("config", "check", code=2)
    assert wrong["ok"] is False
    assert len(wrong["details"]) == 2
    assert "did you mean web.port?" in terminal("config", "check", code=2)


def test_a_settings_file_can_be_named(terminal: Terminal) -> None:
    (terminal.folder / "mine.toml").write_text("[web]\nport = 1234\n")
    rows = terminal.json("--config", "mine.toml", "config", "show")
    assert {"name": "web.port", "value": "1234"} in rows
    terminal("--config", "none.toml", "config", "check", code=2)


def test_init_writes_a_file_that_holds_and_replaces_none(terminal: Terminal) -> None:
    terminal("init", "--yes")
    file = terminal.folder / "stormjay.toml"
    assert file.stat().st_mode & 0o077 == 0
    assert terminal.json("config", "check")["file"] == str(file)
    assert "is there already" in terminal("init", "--yes", code=2)
    answers = "/dev/ttyUSB0\nhttps://api.example\na-key-that-is-long\n\n8500\n"
    terminal("init", "--force", input=answers)
    loaded = settings.load(environment={"HOME": "/nowhere"}, folder=terminal.folder).settings
    assert loaded.weather.radio.source == "serial:///dev/ttyUSB0"
    assert loaded.weather.radio.enabled
    assert (loaded.weather.delivery.api_key, loaded.weather.delivery.enabled) == ("a-key-that-is-long", True)
    assert loaded.web.port == 8500
    assert "main.py" in terminal("init", "--garden", "pico")


def test_init_asks_again_for_what_is_no_answer(terminal: Terminal) -> None:
    terminal("init", input="ftp://wrong\ntcp://radio.example\n\n\nno port\n8500\n")
    loaded = settings.load(environment={"HOME": "/nowhere"}, folder=terminal.folder).settings
    assert loaded.weather.radio.source == "tcp://radio.example"
    assert loaded.web.port == 8500


def test_run_hands_settings_and_parts_over_and_passes_the_code_on(terminal: Terminal) -> None:
    terminal.assembly.exit_code = 1
    terminal("run", code=1)
    terminal.environment = {"MESHTASTIC_DEVICE": "/dev/ttyUSB0"}
    terminal.assembly.exit_code = 0
    terminal("run", "weather.listener")
    given, parts = terminal.assembly.ran[-1]
    assert parts == ["weather.listener"]
    assert given.weather.radio.enabled
    terminal.environment = {}
    assert "weather.radio.source is missing" in terminal("run", "weather.listener", code=2)
    assert "did you mean weather.listener?" in terminal("run", "weather.listner", code=2)


def test_text_goes_in_and_comes_out_by_every_verb(terminal: Terminal) -> None:
    node = ("--node", NODE)
    assert terminal.json("weather", "ingest-text", text(1), *node)[0]["kind"] == "weather"
    lines = "\n".join([text(2), text(2), text(3, p=700), "junk"])
    results = terminal.json("weather", "ingest-text", "-", *node, code=1, input=lines)
    assert [each["kind"] for each in results] == ["weather", "weather", "rejected", "invalid"]
    assert terminal.json("weather", "latest")["reading"]["values"]["air_temp_c"] == 22.0
    assert [row["msg_id"] for row in terminal.json("weather", "history", "--limit", "1")] == [2]
    assert [row["msg_id"] for row in terminal.json("weather", "show", "latest")] == [2, 1]
    assert len(terminal.json("weather", "show", "queue")) == 2
    assert terminal.json("weather", "show", "health") == []
    assert [row["reason"] for row in terminal.json("weather", "ledger", "--type", "rejected")] == [
        "pressure_out_of_range"
    ]
    terminal.environment = {"STORMJAY_WEATHER__RANGES__PRESSURE_HPA": "550,1200"}
    assert terminal.json("weather", "replay")["stored"] == 1
    assert terminal.json("weather", "replay")["stored"] == 0
    assert NODE in terminal("weather", "show", "latest")
    terminal("weather", "show", "nonsense", code=2)
    terminal("weather", "history", "--since", "soon", code=2)


def test_import_takes_csv_and_databases_once(terminal: Terminal) -> None:
    names = "source_node_id,source_ts_utc,msg_id,temp_c,humidity_pct,pressure_hpa,wind_ms,wind_dir_deg,rain_mm"
    (terminal.folder / "old.csv").write_text(f"{names}\n{NODE},2026-08-06T07:06:40Z,1,20,50,960,1,90,0\n")
    assert terminal.json("weather", "import", "old.csv")["stored"] == 1
    assert terminal.json("weather", "import", "old.csv")["duplicates"] == 1
    other = terminal.folder / "other"
    terminal.environment = {"STORMJAY_DATA_DIR": str(other)}
    assert terminal.json("weather", "import", str(terminal.folder / "data/weatherstation.db"))["stored"] == 1
    terminal("weather", "import", "missing.db", code=1)


def test_retention_only_counts_while_it_is_off(terminal: Terminal) -> None:
    terminal("weather", "ingest-text", text(1), "--node", NODE)
    report = terminal.json("weather", "retention", "--dry-run", "--retention-days", "1")
    assert report["dry_run"] is True
    assert terminal.json("weather", "retention")["removed"] == {}
    terminal.environment = {"DB_RETENTION_ENABLED": "1"}
    assert terminal.json("weather", "retention")["removed"]["weather_readings"] == 0


async def fail_rows(given: Settings, assembly: FakeAssembly) -> None:
    async with assembly.open_journal(given, writing=True) as journal:
        await journal.database.write(
            lambda connection: connection.execute("UPDATE aws_delivery_queue SET status='failed', last_error='no: 400'")
        )


def test_dead_letters_are_listed_shown_replayed_and_discarded(terminal: Terminal) -> None:
    import asyncio  # noqa: PLC0415 - only here: the commands themselves run their own loop

    for number in (1, 2):
        terminal("weather", "ingest-text", text(number), "--node", NODE)
    given = settings.load(environment={"STORMJAY_DATA_DIR": str(terminal.folder / "data")}).settings
    asyncio.run(fail_rows(given, terminal.assembly))
    rows = terminal.json("dead-letters", "list")
    assert [(row["id"], row["destination"], row["error"]) for row in rows] == [
        (1, "cloud", "no: 400"),
        (2, "cloud", "no: 400"),
    ]
    assert terminal.json("dead-letters", "show", "2")["reading"]["temp_c"] == 22.0
    terminal("dead-letters", "show", "9", code=1)
    terminal("dead-letters", "replay", code=2)
    assert terminal.json("dead-letters", "replay", "1")["replayed"] == 1
    assert terminal.json("dead-letters", "discard", "2")["discarded"] == 1
    assert terminal.json("dead-letters", "list") == []
    assert [row["id"] for row in terminal.json("dead-letters", "list", "--discarded")] == [2]
    assert terminal.json("dead-letters", "replay", "--all")["replayed"] == 0
    terminal("dead-letters", "discard", "99", code=1)
    terminal("dead-letters", "list", "--destination", "nowhere", code=1)


@pytest.mark.parametrize(
    ("fault", "code"),
    [(StoreInUse("w.db is in use", next_step="stop the other"), 4), (LinkLost("gone"), 3)],
)
def test_faults_have_their_exit_code_and_next_step(terminal: Terminal, fault: Exception, code: int) -> None:
    terminal.assembly.fault = fault
    told = terminal.json("weather", "replay", code=code)
    assert told["ok"] is False
    assert told["message"] == str(fault)
    shown = terminal("weather", "replay", code=code)
    assert str(fault) in shown
    assert ("Next:" in shown) == bool(getattr(fault, "next_step", ""))


def test_no_journal_and_an_empty_one_are_told_apart(terminal: Terminal) -> None:
    assert "there is no journal" in terminal("weather", "latest", code=1)
    terminal("weather", "ingest-text", "junk", "--node", NODE, code=1)
    terminal("weather", "ledger")
    assert "holds no reading" in terminal("weather", "latest", code=1)
    assert "nothing there" in terminal("weather", "show", "latest")


def test_simulate_hub_sends_what_it_says(terminal: Terminal) -> None:
    assert (
        terminal.json("weather", "simulate-hub", "--port", "9", "--seconds", "0", "--seed", "1")["datagrams_sent"] > 0
    )
    terminal("weather", "simulate-hub", "--recording", "none.jsonl", code=2)


def test_status_without_a_service_is_unreachable(terminal: Terminal) -> None:
    assert "no service answers" in terminal("status", "--url", "http://127.0.0.1:9", code=3)


def test_the_parts_that_run_takes_are_sections_that_exist() -> None:
    for section in cli.PARTS.values():
        if section:
            assert settings.find((*section.split("."), "enabled")) is not None
