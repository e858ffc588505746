"""Log lines: their JSON form, and that no secret gets into one."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from stormjay.ground.clock import ManualClock
from stormjay.ground.logging_setup import MASK, Masker, configure, render_json

CLOCK = ManualClock(datetime(2026, 8, 6, 7, 6, 40, 5, tzinfo=UTC))


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_has_time_level_event_and_fields() -> None:
    stream = io.StringIO()
    configure(clock=CLOCK, stream=stream)
    structlog.get_logger().info("packet_received", from_id="!5c32d4d9", payload=b"\xffgr\xc3\xbcn", rx_snr=6.25)
    assert lines(stream) == [
        {
            "ts": "2026-08-06T07:06:40.000005+00:00",
            "level": "info",
            "event": "packet_received",
            "from_id": "!5c32d4d9",
            "payload": "�grün",
            "rx_snr": 6.25,
        }
    ]
    assert "grün" in stream.getvalue()


@pytest.mark.parametrize("failure", [BrokenPipeError(), OSError(28, "No space left on device"), ValueError("closed")])
def test_a_line_that_cannot_be_written_stops_nothing(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: str) -> int:
        raise failure

    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", fail)
    monkeypatch.setattr(stream, "flush", fail)
    configure(clock=CLOCK, stream=stream)
    structlog.get_logger().info("weather_saved")
    logging.getLogger("library").warning("in trouble")
    assert capsys.readouterr().err == ""


def test_secrets_are_masked_by_key_in_addresses_and_by_value() -> None:
    stream = io.StringIO()
    configure(clock=CLOCK, stream=stream, secrets=["hush-hush", "tiny"])
    structlog.get_logger().error(
        "delivery_failure",
        api_key="one",
        headers={"X-Weatherstation-Key": "two", "accept": "x"},
        broker="mqtt://me:three@host:1883/msh",
        error="refused hush-hush from tiny",
    )
    line = lines(stream)[0]
    assert line["api_key"] == MASK
    assert line["headers"] == {"X-Weatherstation-Key": MASK, "accept": "x"}
    assert line["broker"] == f"mqtt://me:{MASK}@host:1883/msh"
    assert line["error"] == f"refused {MASK} from tiny"


def test_lines_of_libraries_come_in_the_same_form_and_masked() -> None:
    stream = io.StringIO()
    configure(clock=CLOCK, stream=stream, secrets=["hush-hush"])
    logging.getLogger("vendor").warning("failed with %s", "hush-hush")
    logging.getLogger("vendor").info("chatter")
    assert lines(stream) == [
        {
            "ts": "2026-08-06T07:06:40.000005+00:00",
            "level": "warning",
            "event": f"failed with {MASK}",
            "logger": "vendor",
        }
    ]


def test_levels_below_the_setting_are_not_written() -> None:
    stream = io.StringIO()
    configure(clock=CLOCK, stream=stream, level="warning")
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_text_form_is_for_people() -> None:
    stream = io.StringIO()
    configure(clock=CLOCK, stream=stream, log_format="text")
    structlog.get_logger().info("weather_saved", msg_id=7)
    assert "weather_saved" in stream.getvalue()
    assert "msg_id=7" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_an_exception_is_one_field_of_the_line() -> None:
    stream = io.StringIO()
    configure(clock=CLOCK, stream=stream)
    try:
        raise ValueError("broken")  # noqa: TRY301 - the traceback is what is looked at
    except ValueError:
        structlog.get_logger().exception("ingest_error")
    assert "ValueError: broken" in lines(stream)[0]["exception"]


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)), inner),
    max_leaves=8,
)


@given(JSONISH)
def test_any_value_can_be_logged(value: object) -> None:
    event = Masker(["hush-hush"])(None, "info", {"event": "x", "value": value, "big": 10**40})
    assert json.loads(render_json(None, "info", event))["big"] == str(10**40)


def test_long_texts_are_cut() -> None:
    event = Masker()(None, "info", {"event": "x", "payload": "a" * 100_000})
    assert len(event["payload"]) < 10_000
