"""The page of all metrics, collected from every module of the product."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType

import stormjay
from docs.reference_pages.table import MADE, table
from stormjay.ground.stats.port import Metric


def modules() -> Iterator[ModuleType]:
    """Yield every module of the product but the one that starts it."""
    for found in pkgutil.walk_packages(stormjay.__path__, "stormjay."):
        if found.name.rpartition(".")[2] != "__main__":
            yield importlib.import_module(found.name)


def metrics() -> list[Metric]:
    """Return every metric that a module declares at its top, by name."""
    found: dict[str, Metric] = {}
    for module in modules():
        for value in vars(module).values():
            for one in _flat(value):
                if isinstance(one, Metric):
                    found[one.name] = one
    return [found[name] for name in sorted(found)]


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list | set | frozenset):
        for inner in value:
            yield from _flat(inner)
    else:
        yield value


def metrics_page() -> str:
    """Return the page of all metrics."""
    lines = [
        "# Metrics",
        "",
        MADE.format(source="the `Metric` values in the code"),
        "",
        "`GET /metrics` answers in OpenMetrics text. There each name begins with `stormjay_`, and a counter's ends in",
        "`_total`. Counters begin at zero with the process.",
        "",
    ]
    rows = (
        (
            f"`{metric.name}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels),
            metric.unit or "",
            metric.help,
        )
        for metric in metrics()
    )
    return "\n".join([*lines, *table(("name", "kind", "labels", "unit", "meaning"), rows)]).rstrip() + "\n"
