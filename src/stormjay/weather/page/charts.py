"""The charts of the page: which there are, what each says in words, and its twin as a table."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from stormjay.ground.timestamps import format_us
from stormjay.weather.fields import BY_CLOUD
from stormjay.weather.page.show import DASH, Times, value
from stormjay.weather.views_series import FieldSeries, SeriesView, series

RANGE_WORDS = {"24h": "24 hours", "7d": "7 days", "30d": "30 days"}
_TABLE_BUCKET_SECONDS = {"24h": 3600, "7d": 21_600, "30d": 86_400}
_BUCKET_WORDS = {"24h": "hour", "7d": "6 hours", "30d": "day"}
_TABLE_ROWS_MAX = 60


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One chart.

    Attributes:
        key: Its name in the page.
        title: Heading.
        unit: Unit of its axis.
        fields: Cloud names of its lines, the first one first.
        kind: ``line``, ``area`` or ``bars``.
        summary: What it shows, in a sentence.
        head, rows: Its twin as a table.
    """

    key: str
    title: str
    unit: str
    fields: tuple[str, ...]
    kind: str
    summary: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


CHARTS = (
    Chart(key="temperature", title="Temperature", unit="°C", fields=("air_temp_c",), kind="line"),
    Chart(key="wind", title="Wind and gusts", unit="m/s", fields=("wind_avg_ms", "wind_gust_ms"), kind="line"),
    Chart(key="rain", title="Rain", unit="mm", fields=("rain_interval_mm",), kind="bars"),
    Chart(key="pressure", title="Station pressure", unit="hPa", fields=("station_pressure_hpa",), kind="line"),
    Chart(key="humidity", title="Humidity", unit="%", fields=("relative_humidity_pct",), kind="line"),
    Chart(key="sun", title="Solar radiation", unit="W/m²", fields=("solar_radiation_wm2",), kind="area"),
)
CHART_FIELDS = tuple(dict.fromkeys(name for chart in CHARTS for name in chart.fields))
"""All charts of a page share one question."""


def charts(
    connection: sqlite3.Connection, station: str, bounds: tuple[int, int], length: str, times: Times
) -> list[Chart]:
    """Return the charts with their words and tables; the points themselves the browser asks for."""
    table = series(
        connection,
        station,
        [BY_CLOUD[name] for name in CHART_FIELDS],
        *bounds,
        max_points=_TABLE_ROWS_MAX,
        bucket_seconds=_TABLE_BUCKET_SECONDS[length],
    )
    return [_filled(chart, table, length, times) for chart in CHARTS]


def _filled(chart: Chart, table: SeriesView, length: str, times: Times) -> Chart:
    head, rows = _table(chart, table, times)
    return msgspec.structs.replace(chart, summary=_words(chart, table, length), head=head, rows=rows)


def _words(chart: Chart, table: SeriesView, length: str) -> str:
    span_words = RANGE_WORDS[length]
    main = table.fields[chart.fields[0]]
    if chart.kind == "bars":
        amounts = [amount for amount in main.sum if amount is not None]
        if not amounts:
            return f"No readings in the last {span_words}."
        return f"{value(chart.fields[0], sum(amounts))} {chart.unit} in the last {span_words}."
    low, high = _lowest(main.min), _highest(table.fields[chart.fields[-1]].max)
    if low is None or high is None:
        return f"No readings in the last {span_words}."
    name = chart.fields[0]
    newest = next((each for each in reversed(main.mean) if each is not None), None)
    return (
        f"Between {value(name, low)} and {value(name, high)} {chart.unit} in the last {span_words}; "
        f"mean of the latest {_BUCKET_WORDS[length]} {value(name, newest)} {chart.unit}."
    )


def _lowest(values: Sequence[float | None]) -> float | None:
    return min((each for each in values if each is not None), default=None)


def _highest(values: Sequence[float | None]) -> float | None:
    return max((each for each in values if each is not None), default=None)


def _table(chart: Chart, table: SeriesView, times: Times) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    head: list[str] = ["From"]
    columns: list[list[str]] = []
    for name in chart.fields:
        label, found = BY_CLOUD[name].label, table.fields[name]
        for word, numbers in _parts(chart, found):
            head.append(f"{label}, {word} ({chart.unit})")
            columns.append([DASH if each is None else value(name, each) for each in numbers])
    starts = [times.short(format_us(int(moment * 1_000_000))) for moment in table.t]
    rows = [(start, *(column[place] for column in columns)) for place, start in enumerate(starts)]
    return tuple(head), tuple(reversed(rows))


def _parts(chart: Chart, found: FieldSeries) -> list[tuple[str, list[float | None]]]:
    if chart.kind == "bars":
        return [("total", found.sum)]
    return [("lowest", found.min), ("mean", found.mean), ("highest", found.max)]
