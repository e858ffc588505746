"""A text to validated values: our parser against a dict check by hand on the standard library's JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from benchmarks import seed_listener
from benchmarks.table import Row
from stormjay.weather.parser import Parser

TEXT = (
    '{"et":"obs_st","i":17,"ts":1786000020,"t":19.46,"h":63.25,"p":1008.37,"w":1.87,"g":3.92,"l":0.54,"d":217,"ws":3,'
    '"r":0.25,"uv":3.71,"sr":402.0,"lux":48211.0,"bat":2.61,"ld":12.0,"lc":2,"pt":1,"ri":1}'
)
"""A full observation as the bridge writes it."""
TEXTS = 3_000
ROUNDS = 15


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    for _ in range(TEXTS):
        work()
    return time.perf_counter() - started


def run() -> list[Row]:
    """Measure both in turns and return the row, the best of all rounds on either side."""
    received = datetime(2026, 8, 6, 7, 7, 3, tzinfo=UTC)
    payload, node, parser, received_text = TEXT.encode(), "!5c32d4d9", Parser(), received.isoformat()
    event = parser.parse(payload, received, node, None)
    peer = seed_listener.parse(TEXT, node, None, received_text)
    assert event.normalized == peer.normalized
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(_seconds(lambda: parser.parse(payload, received, node, None)))
        theirs.append(_seconds(lambda: seed_listener.parse(TEXT, node, None, received_text)))
    return [
        Row(
            "parse and validate a text",
            TEXTS / min(ours),
            "dict check on json",
            TEXTS / min(theirs),
            "texts/s",
            10,
        )
    ]
