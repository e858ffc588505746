"""Feeds the vectors to the bridge and returns what came out; runs under MicroPython and CPython alike."""

import json

from stormjay.weather.bridge_core import Bridge

TYPE_CHECKING = False
if TYPE_CHECKING:  # MicroPython has no such module; a checker takes the name for true
    from typing import Any


def datagram(given: "dict[str, Any]") -> bytes:
    """Return the bytes of a row's datagram."""
    if "bytes_hex" in given:
        text = given["bytes_hex"]
        return bytes([int(text[place : place + 2], 16) for place in range(0, len(text), 2)])
    return json.dumps(given).encode("utf-8")


def outcomes(run: "dict[str, Any]") -> "list[list[Any]]":
    """Return for each row of a run [word, text, its bytes, amounts held], as plain values."""
    bridge = Bridge(**run["settings"])
    bridge.ip = run.get("ip", "")
    bridge.link = run.get("link", {})
    found = []
    for now_ms, given, _, expected in run["rows"]:
        word = None if given is None else bridge.on_datagram(datagram(given), now_ms)
        line = None if expected == "busy" else bridge.next_line(now_ms)
        if line is not None:
            bridge.sent(now_ms)
        text = None if line is None else json.loads(line.decode("utf-8"))
        found.append([word, text, 0 if line is None else len(line), bridge.held()])
    return found


def all_outcomes(vectors: "dict[str, Any]") -> "list[list[list[Any]]]":
    """Return the outcomes of every run."""
    return [outcomes(run) for run in vectors["runs"]]
