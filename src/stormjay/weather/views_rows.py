"""How the views name rows and read times: the words that the queries have in common."""

from __future__ import annotations

from datetime import datetime, timedelta

from stormjay.ground import timestamps
from stormjay.ground.timestamps import EPOCH, format_us, to_epoch_us

OWN = "source_node_id = ? AND source_double_of IS NULL"
"""Rows of one station, each instant once; the words that let SQLite use the identity's index."""
REACH_US = 7_200_000_000
"""The longest report interval that a reading may carry is 120 minutes: that far it reaches back."""
_MICROSECOND = timedelta(microseconds=1)


def canonical_us(text: str) -> int:
    """Return the moment of a column that holds the one output form: no other spelling is looked for, which is fast."""
    return (datetime.fromisoformat(text) - EPOCH) // _MICROSECOND


def utc_text(text: str | None) -> str | None:
    """Return a stored time, whichever of the journal's spellings it has, in the one output form; None for none."""
    if not text:
        return None
    try:
        # SQLite's own CURRENT_TIMESTAMP is UTC and carries no zone.
        return format_us(to_epoch_us(text if "+" in text or text.endswith("Z") else text + "+00:00"))
    except timestamps.TimestampError:
        return None
