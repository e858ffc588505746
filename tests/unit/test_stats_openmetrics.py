"""Metrics as text: both forms are read back by the parsers of the reference library."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from stormjay.ground.stats import Metric, Statistics
from stormjay.ground.stats.openmetrics import Metrics

RECEIVED = Metric("weather_received", "counter", "Packets heard.")
REJECTED = Metric("weather_rejected", "counter", "Packets refused.", labels=("reason",))
DEPTH = Metric("outbox_depth", "gauge", "Items that wait.", labels=("destination", "status"))


def filled() -> Statistics:
    statistics = Statistics()
    statistics.declare(RECEIVED, REJECTED, DEPTH)
    statistics.add(RECEIVED, 3)
    statistics.add(REJECTED, reason='odd "one"\nand\\more')
    statistics.add(REJECTED, 2, reason="malformed_json")
    statistics.set(DEPTH, 7, destination="cloud", status="retry")
    return statistics


def test_openmetrics_text_parses_and_says_everything() -> None:
    content_type, body = Metrics(filled(), version="1.2.3").render()
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    text = body.decode()
    assert text.endswith("# EOF\n")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in openmetrics_families(text)  # type: ignore[no-untyped-call] # untyped vendor
        for sample in family.samples
    }
    assert samples == {
        ("stormjay_build_info", (("version", "1.2.3"),)): 1.0,
        ("stormjay_weather_received_total", ()): 3.0,
        ("stormjay_weather_rejected_total", (("reason", 'odd "one"\nand\\more'),)): 1.0,
        ("stormjay_weather_rejected_total", (("reason", "malformed_json"),)): 2.0,
        ("stormjay_outbox_depth", (("destination", "cloud"), ("status", "retry"))): 7.0,
    }


def test_prometheus_text_only_for_who_asks_for_it_alone() -> None:
    metrics = Metrics(filled(), version="1")
    content_type, body = metrics.render("text/plain;version=0.0.4;q=0.5, */*;q=0.1")
    assert content_type.startswith("text/plain; version=0.0.4")
    names = {sample.name for family in prometheus_families(body.decode()) for sample in family.samples}
    assert "stormjay_weather_received_total" in names
    assert metrics.render("text/html,application/xhtml+xml,*/*;q=0.8")[0].startswith("text/plain")  # not a download
    both = metrics.render("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3")
    assert both[0].startswith("application/openmetrics-text")


def test_a_gauge_that_is_only_known_when_asked_is_asked_at_each_scrape() -> None:
    statistics = filled()
    asked: list[int] = []

    def refresh() -> None:
        asked.append(1)
        statistics.set(DEPTH, len(asked), destination="cloud", status="pending")

    statistics.watch(refresh)
    metrics = Metrics(statistics, version="1")
    metrics.render()
    assert b'status="pending"} 2.0' in metrics.render()[1]
