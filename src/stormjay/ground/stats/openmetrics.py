"""All counters and gauges as OpenMetrics 1.0 text, or as Prometheus text for who asks for that alone and for browsers.

Names get the product's prefix; totals end in ``_total``; ``stormjay_build_info`` says which version runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client import exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector, CollectorRegistry

from stormjay.ground.stats.port import Statistics

PREFIX = "stormjay"
_TEXT_ONLY = re.compile(r"\btext/(plain|html)\b")  # a browser saves what it does not know to a file
_OPENMETRICS = re.compile(r"\bapplication/openmetrics-text\b")


class Metrics:
    """Renders the statistics of one process."""

    def __init__(self, statistics: Statistics, *, version: str) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_StatisticsCollector(statistics, version))

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """Return content type and body.

        Args:
            accept: The request's Accept header; OpenMetrics unless it names only Prometheus text or a browser's.
        """
        if _TEXT_ONLY.search(accept) and not _OPENMETRICS.search(accept):
            return exposition.CONTENT_TYPE_PLAIN_0_0_4, exposition.generate_latest(self._registry)
        text: bytes = openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call] # untyped vendor
        return openmetrics.CONTENT_TYPE_LATEST, text


class _StatisticsCollector(Collector):
    """What the library reads at each scrape; values live in ``Statistics`` alone."""

    def __init__(self, statistics: Statistics, version: str) -> None:
        self._statistics = statistics
        self._version = version

    def collect(self) -> Iterator[Family]:
        """Yield one family per declared metric that has values, with all its label sets together."""
        yield InfoMetricFamily(f"{PREFIX}_build", "Which Stormjay runs.", value={"version": self._version})
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for sample in self._statistics.samples():
            metric = sample.metric
            family = families.get(metric.name)
            if family is None:
                kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                family = kind(f"{PREFIX}_{metric.name}", metric.help or metric.name, labels=metric.labels)
                families[metric.name] = family
            labels = dict(sample.labels)
            family.add_metric([labels.get(name, "") for name in metric.labels], sample.value)
        yield from families.values()
