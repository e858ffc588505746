"""What a part of the product declares and counts; sinks (OpenMetrics, MQTT, the status page) read it.

A part declares its metrics once at its top and is handed a ``Statistics`` to count on. Counting never fails and never
waits. Values live in memory: totals begin at zero with the process, as OpenMetrics counters do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """One counter or gauge.

    Attributes:
        name: OpenMetrics name without prefix and without ``_total``, base unit last: ``weather_oldest_age_seconds``.
        kind: ``counter`` only grows; ``gauge`` is what it is now.
        help: One sentence for people.
        labels: Names of its labels, few values each.
        device_class: Home Assistant's class for the MQTT sink, or None.
        unit: Unit for Home Assistant (``s``, ``B``), or None.
        label: Short name for people on the status page and in Home Assistant.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()
    device_class: str | None = None
    unit: str | None = None
    label: str = ""


@dataclass(frozen=True)
class Sample:
    """The value of one metric under one set of labels."""

    metric: Metric
    labels: Labels
    value: float


@dataclass
class Statistics:
    """All values of one process; one thread (the event loop's) counts."""

    _metrics: dict[str, Metric] = field(default_factory=dict)
    _values: dict[tuple[str, Labels], float] = field(default_factory=dict)
    _watched: list[Callable[[], None]] = field(default_factory=list)

    def declare(self, *metrics: Metric) -> None:
        """Make metrics known; an unlabelled one starts at 0. Declaring the same one twice is harmless.

        Raises:
            ValueError: When a different metric of that name exists.
        """
        for metric in metrics:
            if self._metrics.setdefault(metric.name, metric) != metric:
                raise ValueError(f"metric {metric.name} is declared twice, differently")
            if not metric.labels:
                self._values.setdefault((metric.name, ()), 0.0)

    def add(self, metric: Metric, amount: float = 1.0, **labels: str) -> None:
        """Count up."""
        key = (metric.name, tuple(sorted(labels.items())))
        self._metrics.setdefault(metric.name, metric)
        self._values[key] = self._values.get(key, 0.0) + amount

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Say what a gauge is now."""
        self._metrics.setdefault(metric.name, metric)
        self._values[metric.name, tuple(sorted(labels.items()))] = value

    def value(self, metric: Metric, **labels: str) -> float:
        """Return the value now, 0 when never counted."""
        return self._values.get((metric.name, tuple(sorted(labels.items()))), 0.0)

    def watch(self, refresh: Callable[[], None]) -> None:
        """Have ``refresh`` called before each reading, to set gauges that are only known when asked."""
        self._watched.append(refresh)

    def samples(self) -> Iterator[Sample]:
        """Yield every value, ordered by metric and labels."""
        for refresh in self._watched:
            refresh()
        for (name, labels), value in sorted(self._values.items()):
            yield Sample(self._metrics[name], labels, value)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All declared metrics, by name."""
        return tuple(self._metrics[name] for name in sorted(self._metrics))
