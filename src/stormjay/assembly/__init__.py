"""Settings become live objects: builders of single parts, the service that runs them, and the demo."""

from stormjay.assembly.demonstration import demo
from stormjay.assembly.parts import open_journal, outboxes, radio, retention, sites, thresholds, write_garden
from stormjay.assembly.running import run

__all__ = [
    "demo", "open_journal", "outboxes", "radio", "retention", "run", "sites", "thresholds", "write_garden",
]  # fmt: skip
