"""Stormjay: telemetry captured first, forwarded until delivered, served as a function of the set of records."""

__version__ = "0.1.0"
