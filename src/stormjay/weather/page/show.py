"""How values, times and ages look to people; the one place that rounds."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

import msgspec

from stormjay.ground.timestamps import to_datetime, to_epoch_us
from stormjay.weather.derived import RainTotal
from stormjay.weather.fields import FIELDS

DASH = "–"  # noqa: RUF001 - an en dash stands for no value in a table of numbers
_DECIMALS = {field.cloud: field.decimals for field in FIELDS} | {
    "dew_point_c": 1,
    "feels_like_c": 1,
    "wet_bulb_c": 1,
    "sea_level_pressure_hpa": 1,
    "station_pressure_hpa": 1,
    "rain_rate_mm_h": 1,
}
_LEAST_PERCENT = 0.1
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """In which zone times are shown, and what day it is there.

    Attributes:
        zone: For showing; the station's, or UTC when the reader switched or the station's is unknown.
        zone_name: For people.
        now_us: The clock.
    """

    zone: tzinfo
    zone_name: str
    now_us: int

    def local(self, text: str) -> datetime:
        """Return a time of the one output form in the zone."""
        return to_datetime(to_epoch_us(text)).astimezone(self.zone)

    def short(self, text: str | None) -> str:
        """Return hours and minutes, with the date when it is another day."""
        if not text:
            return DASH
        moment = self.local(text)
        today = to_datetime(self.now_us).astimezone(self.zone).date()
        if moment.date() == today:
            return f"{moment:%H:%M}"
        return f"{moment.day} {moment:%b %H:%M}" if moment.year == today.year else f"{moment.day} {moment:%b %Y %H:%M}"

    def long(self, text: str | None) -> str:
        """Return date, time to the second and zone."""
        if not text:
            return DASH
        moment = self.local(text)
        return f"{moment:%Y-%m-%d %H:%M:%S} {'UTC' if self.zone is UTC else moment.tzname()}"

    def age(self, text: str | None) -> str:
        """Return how long ago it was, in the words of a person."""
        return DASH if not text else age((self.now_us - to_epoch_us(text)) / 1e6)


def age(seconds: float) -> str:
    """Return a span in words; times ahead of the clock within a minute count as now."""
    if seconds < -_MINUTE:
        return f"{duration(-seconds)} ahead of our clock"
    if seconds < 5:  # noqa: PLR2004 - nobody tells three seconds from now
        return "just now"
    return f"{duration(seconds)} ago"


def duration(seconds: float) -> str:
    """Return a span with the one or two units that matter."""
    if seconds < _MINUTE:
        return f"{int(seconds)} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min"
    if seconds < _DAY:
        hours, rest = divmod(int(seconds), _HOUR)
        return f"{hours} h {rest // _MINUTE} min" if rest >= _MINUTE else f"{hours} h"
    days, rest = divmod(int(seconds), _DAY)
    return f"{days} d {rest // _HOUR} h" if rest >= _HOUR else f"{days} d"


def number(value: float | None, decimals: int) -> str:
    """Return a number with so many decimals and a true minus sign, or a dash for none."""
    if value is None:
        return DASH
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", "−")  # noqa: RUF001 - the minus sign is as wide as a digit


def value(name: str, reading: float | None) -> str:
    """Return a value with the decimals of its field."""
    return number(reading, _DECIMALS.get(name, 1))


def rain(total: RainTotal) -> str:
    """Return an amount of rain; a total that may be too low says so."""
    return f"{'≥ ' if total.lower_bound else ''}{number(total.amount_mm, 1)}"


def coverage(total: RainTotal) -> str:
    """Return for how much of the span readings account, in words."""
    if not total.lower_bound:
        return "every minute accounted for"
    percent = total.covered_ratio * 100
    # 99.97 % is not everything, and 0.03 % is not nothing.
    shown = f"{min(99.9, percent):.1f} %" if percent >= _LEAST_PERCENT else "hardly any"
    return f"{shown} of the time accounted for"
