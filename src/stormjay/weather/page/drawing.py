"""Pictures that the server draws itself, as numbers for SVG: the wind rose and the delivery strip."""

from __future__ import annotations

import math
from datetime import tzinfo

import msgspec

from stormjay.ground.timestamps import to_datetime, to_epoch_us
from stormjay.weather.page.show import DASH, number
from stormjay.weather.views_series import RoseView
from stormjay.weather.views_strip import StripLine

ROSE_RADIUS = 100.0
_HALF_WIDTH_DEG = 8.5
_HOLE = 10.0
_RINGS = 3
_MINUTE_SECONDS = 60
_QUARTER_SECONDS = 900
_SAID = (
    ("delivered", "delivered"),
    ("captured", "captured"),
    ("waiting", "waiting"),
    ("refused", "refused"),
    ("none", "without a record"),
)


class Petal(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the rose: one direction, one speed class."""

    path: str
    speed_class: int
    title: str


class Ring(msgspec.Struct, frozen=True, kw_only=True):
    """A circle that says how often."""

    radius: float
    label: str


class Rose(msgspec.Struct, frozen=True, kw_only=True):
    """A wind rose ready to draw around (0, 0), north up."""

    petals: list[Petal]
    rings: list[Ring]
    classes: list[str]
    calm_percent: str
    summary: str


def draw_rose(view: RoseView) -> Rose:
    """Return the petals; their length is the share of all readings."""
    totals = [sum(row) for row in view.counts]
    most = max(totals, default=0)
    step = _step(most / view.readings * 100) if view.readings and most else 5
    full = max(1, math.ceil(most / view.readings * 100 / step)) * step if view.readings and most else step * _RINGS
    petals: list[Petal] = []
    for place, row in enumerate(view.counts):
        inner = 0
        for speed_class, count in enumerate(row):
            if not count:
                continue
            low, high = (_radius(each / view.readings * 100, full) for each in (inner, inner + count))
            inner += count
            petals.append(
                Petal(
                    path=_sector(place * 22.5, low, high),
                    speed_class=speed_class,
                    title=f"{view.directions[place]}, {_class_words(view.classes_ms, speed_class)}: "
                    f"{number(count / view.readings * 100, 1)} % of the time",
                )
            )
    return Rose(
        petals=petals,
        rings=[
            Ring(radius=round(_radius(each, full), 2), label=f"{each:g} %") for each in _ring_values(step, full)
        ],
        classes=[_class_words(view.classes_ms, each) for each in range(len(view.classes_ms))],
        calm_percent=number(view.calm / view.readings * 100, 1) if view.readings else DASH,
        summary=_rose_words(view, totals),
    )  # fmt: skip


def _rose_words(view: RoseView, totals: list[int]) -> str:
    if not view.readings:
        return "No wind measured in this span."
    calm = f"calm {number(view.calm / view.readings * 100, 0)} % of the time"
    if not any(totals):
        return f"Always calm: {calm}."
    place = max(range(len(totals)), key=lambda each: (totals[each], -each))
    share = number(totals[place] / view.readings * 100, 0)
    mean = f"; mean {number(view.mean.speed_ms, 1)} m/s" if view.mean else ""
    return f"Mostly from {view.directions[place]} ({share} %), {calm}{mean}."


def _class_words(classes: tuple[float, ...], place: int) -> str:
    if place + 1 < len(classes):
        return f"{classes[place]:g} to {classes[place + 1]:g} m/s"
    return f"from {classes[place]:g} m/s"


def _step(most_percent: float) -> float:
    for step in (1, 2, 5, 10, 20):
        if most_percent / step <= _RINGS + 1:
            return step
    return 25


def _ring_values(step: float, full: float) -> list[float]:
    return [step * each for each in range(1, round(full / step) + 1)]


def _radius(percent: float, full: float) -> float:
    return _HOLE + (ROSE_RADIUS - _HOLE) * percent / full


def _sector(center_deg: float, low: float, high: float) -> str:
    start, end = center_deg - _HALF_WIDTH_DEG, center_deg + _HALF_WIDTH_DEG
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = (
        _point(start, low),
        _point(start, high),
        _point(end, high),
        _point(end, low),
    )
    return f"M{ax} {ay}L{bx} {by}A{high:.2f} {high:.2f} 0 0 1 {cx} {cy}L{dx} {dy}A{low:.2f} {low:.2f} 0 0 0 {ax} {ay}Z"


def _point(bearing_deg: float, radius: float) -> tuple[float, float]:
    angle = math.radians(bearing_deg)
    return round(radius * math.sin(angle), 2), round(-radius * math.cos(angle), 2)


class StripPart(msgspec.Struct, frozen=True, kw_only=True):
    """A run of cells as a rectangle: where it begins, how many, and its state."""

    x: int
    width: int
    state: str


class HourMark(msgspec.Struct, frozen=True, kw_only=True):
    """An hour under the strip: its place in percent of the width, and its name."""

    percent: float
    label: str


def hour_marks(line: StripLine, zone: tzinfo) -> list[HourMark]:
    """Return every third hour of the line's day as its clocks show it, also on days of 23 and 25 hours."""
    start_us = to_epoch_us(line.start_utc)
    seconds = strip_cells(line) * line.cell_seconds
    marks: list[HourMark] = []
    for offset in range(0, seconds, _QUARTER_SECONDS):
        moment = to_datetime(start_us + offset * 1_000_000).astimezone(zone)
        if moment.hour % 3 == 0 and moment.minute == 0:
            marks.append(HourMark(percent=round(offset / seconds * 100, 3), label=f"{moment:%H}"))
    return marks


def strip_parts(line: StripLine) -> list[StripPart]:
    """Return the runs with their places."""
    parts: list[StripPart] = []
    x = 0
    for run in line.runs:
        parts.append(StripPart(x=x, width=run.cells, state=run.state))
        x += run.cells
    return parts


def strip_cells(line: StripLine) -> int:
    """Return how many cells the line has."""
    return sum(run.cells for run in line.runs)


def strip_words(line: StripLine) -> str:
    """Return the day of one line in words."""
    unit = "min" if line.cell_seconds == _MINUTE_SECONDS else "cells of two minutes"
    said = [
        f"{line.minutes[state]} {unit} {word}" if state == first else f"{line.minutes[state]} {word}"
        for first in [next((each for each, _ in _SAID if line.minutes.get(each)), "")]
        for state, word in _SAID
        if line.minutes.get(state)
    ]
    return ", ".join(said) or "nothing yet"
