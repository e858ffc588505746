"""Counters and gauges: declared once by the part that counts, shown by every sink."""

from stormjay.ground.stats.port import Metric, Sample, Statistics

__all__ = ["Metric", "Sample", "Statistics"]
