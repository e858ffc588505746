"""Declared once, counted anywhere, read in order."""

from __future__ import annotations

import pytest

from stormjay.ground.stats import Metric, Sample, Statistics

RECEIVED = Metric("weather_received", "counter", "Packets heard")
REFUSED = Metric("weather_refused", "counter", "Packets refused", ("reason",))
DEPTH = Metric("weather_queue_depth", "gauge", "Readings that wait", ("destination",))


def test_counts_gauges_and_watched_gauges() -> None:
    statistics = Statistics()
    statistics.declare(RECEIVED, REFUSED, DEPTH)
    statistics.declare(RECEIVED)
    statistics.add(RECEIVED)
    statistics.add(REFUSED, 2, reason="malformed_json")
    statistics.watch(lambda: statistics.set(DEPTH, 7, destination="aws"))
    assert list(statistics.samples()) == [
        Sample(DEPTH, (("destination", "aws"),), 7),
        Sample(RECEIVED, (), 1),
        Sample(REFUSED, (("reason", "malformed_json"),), 2),
    ]
    assert statistics.value(REFUSED, reason="never seen") == 0


def test_one_name_means_one_thing() -> None:
    statistics = Statistics()
    statistics.declare(RECEIVED)
    with pytest.raises(ValueError, match="declared twice"):
        statistics.declare(Metric("weather_received", "gauge", "something else"))
