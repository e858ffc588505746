"""Every spelling of a time, one form out (contract weather 6.2; cases W7, X1, X2; faults B8, B19, B20)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormjay.ground import timestamps


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        (1786000000, "2026-08-06T07:06:40.000000Z"),
        (1786000000123, "2026-08-06T07:06:40.123000Z"),
        (1786000000123456, "2026-08-06T07:06:40.123456Z"),
        (1786000000123456789, "2026-08-06T07:06:40.123456Z"),
        ("1786000000.25", "2026-08-06T07:06:40.250000Z"),
        (1786000000.25, "2026-08-06T07:06:40.250000Z"),
        (" 1786000000 ", "2026-08-06T07:06:40.000000Z"),
        ("2026-08-06T05:30:00+05:30", "2026-08-06T00:00:00.000000Z"),
        ("20260806T000000Z", "2026-08-06T00:00:00.000000Z"),
        ("2026-08-06 00:00:00.1Z", "2026-08-06T00:00:00.100000Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
        (99999999999, "5138-11-16T09:46:39.000000Z"),
        (946684800000, "2000-01-01T00:00:00.000000Z"),
        (99999999999999, "5138-11-16T09:46:39.999000Z"),
        ("0800-01-01T00:00:00Z", "0800-01-01T00:00:00.000000Z"),
    ],
)
def test_b19_one_form_for_every_spelling(spelling: object, expected: str) -> None:
    assert timestamps.normalise(spelling) == expected


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        (True, "must be an ISO-8601 UTC string or epoch number"),
        ([], "must be an ISO-8601 UTC string or epoch number"),
        (None, "must be an ISO-8601 UTC string or epoch number"),
        (-5, "epoch must be non-negative"),
        ("-5", "epoch must be non-negative"),
        (float("nan"), "epoch is out of range"),
        (float("inf"), "epoch is out of range"),
        (10**30, "epoch is out of range"),
        ("", "must not be empty"),
        ("  ", "must not be empty"),
        ("abc", "must be an ISO-8601 UTC string like"),
        ("1e9", "must be an ISO-8601 UTC string like"),
        ("+5", "must be an ISO-8601 UTC string like"),
        ("2026-08-06", "must include timezone information"),
        ("2026-08-06T00:00:00", "must include timezone information"),
        ("0001-01-01T00:00:00+05:00", "is out of range"),
        ("9999-12-31T23:59:59-05:00", "is out of range"),
        ("\u0661\u0662", "must be an ISO-8601 UTC string like"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_reason(spelling: object, reason: str) -> None:
    with pytest.raises(timestamps.TimestampError, match=reason):
        timestamps.normalise(spelling)


def test_b20_a_plus_sign_that_the_url_lost_is_put_back() -> None:
    for text in ("2026-03-18T01:00:00+01:00", "2026-03-18T01:00:00 01:00", "20260318T010000 0100", "1773792000"):
        assert timestamps.format_us(timestamps.from_query(text)) == "2026-03-18T00:00:00.000000Z"
    with pytest.raises(timestamps.TimestampError, match="timezone"):
        timestamps.from_query("2026-03-18 01:00")


moments = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


@given(moments, st.integers(-14 * 60, 14 * 60))
def test_every_offset_of_an_instant_gives_the_same_text(moment: datetime, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    try:
        shown = moment.astimezone(zone).isoformat()
    except OverflowError:
        return
    assert timestamps.normalise(shown) == timestamps.format_utc(moment)


@given(moments, moments)
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    assert (timestamps.format_utc(one) < timestamps.format_utc(other)) == (one < other)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.binary()))
def test_anything_gives_a_time_or_a_reason(value: Any) -> None:
    try:
        text = timestamps.normalise(value)
    except timestamps.TimestampError:
        pass
    else:
        assert len(text) == 27
        assert timestamps.normalise(text) == text


def test_plausible_from_2000_to_a_day_ahead() -> None:
    captured = timestamps.to_epoch_us("2026-03-18T09:00:00Z")
    day = 86_400_000_000
    assert timestamps.is_plausible(captured + day, captured)
    assert not timestamps.is_plausible(captured + day + 1, captured)
    assert timestamps.is_plausible(timestamps.to_epoch_us("2000-01-01T00:00:00Z"), captured)
    assert not timestamps.is_plausible(timestamps.to_epoch_us("1999-12-31T23:59:59.999999Z"), captured)


def test_a_naive_moment_is_an_error_where_it_enters() -> None:
    with pytest.raises(timestamps.TimestampError, match="timezone"):
        timestamps.format_utc(datetime(2026, 1, 1))  # noqa: DTZ001 - the naive moment is what is tested
