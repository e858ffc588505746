"""Whatever arrives, however often, and whatever the radio does: no rain is lost, none is counted twice."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stormjay.weather import bridge_state
from stormjay.weather.bridge_core import Bridge, Entry
from stormjay.weather.bridge_lines import REQUIRED, heartbeat_text

T0 = 1773824400
LIMIT = 232

maybe = st.sampled_from([None, None, 12.5, 3, -1, 1e9, float("nan"), True, "x"])
rains = st.sampled_from([0.0, 0.25, 1.5, 40.0, 499.5])
strikes = st.integers(0, 40) | st.just(9000)

records = st.fixed_dictionaries(
    {
        "minute": st.integers(0, 300),
        "rain": rains,
        "strikes": strikes,
        "temperature": st.sampled_from([6.1, 6.1, 6.1, None, 99.0]),
        "interval": st.sampled_from([1, 1, 1, 5, None]),
        "others": st.lists(maybe, min_size=3, max_size=3),
        "day": st.lists(st.floats(0, 2000), max_size=4),
    }
)
arrivals = st.tuples(st.just("obs"), records, st.integers(1, 3))
events = st.one_of(
    arrivals,
    arrivals,
    arrivals,
    st.tuples(st.just("wait"), st.integers(1, 400), st.just(1)),
    st.tuples(st.just("radio"), st.sampled_from(["sent", "failed", "refused"]), st.just(1)),
    st.tuples(st.just("status"), st.sampled_from(["device_status", "hub_status"]), st.just(2)),
    st.tuples(st.just("strike"), st.integers(0, 50), st.just(2)),
    st.tuples(st.just("junk"), st.binary(max_size=12), st.just(1)),
    st.tuples(st.just("restart"), st.just(0), st.just(1)),
)


def observation(record: dict[str, Any]) -> bytes:
    """Return the datagram of a record."""
    lull, gust, lux = record["others"]
    values = [T0 + 60 * record["minute"], lull, 1.1, gust, 180, 3, 1008.0, record["temperature"], 80, lux, 0.1, 5]
    values += [record["rain"], 1, 7, record["strikes"], 2.6, record["interval"], *record["day"]]
    return json.dumps({"type": "obs_st", "obs": [values]}).encode()


def restarted(bridge: Bridge, queue_max: int) -> Bridge:
    """Return a new bridge that carries on from what the old one would have written down."""
    state = msgspec.json.decode(bridge_state.encoded(bridge), type=bridge_state.BridgeState)
    fresh = Bridge(queue_max=queue_max, gap_ms=1000, heartbeat_ms=90_000)
    fresh.restore(
        msg_id=state.msg_id,
        carry=state.carry,
        queue=[Entry(*entry) for entry in state.queue],
        flight=None if state.flight is None else Entry(*state.flight),
        seen=state.seen,
    )
    return fresh


def checked(line: bytes) -> dict[str, Any]:
    """Return the text of a line that keeps what every line promises."""
    assert len(line) <= LIMIT
    assert b"\n" not in line
    text: dict[str, Any] = json.loads(line, parse_constant=int)
    if text.get("et") == "obs_st":
        assert all(isinstance(text[key], int | float) for key in REQUIRED)
        assert 0 <= text["r"] <= 500
        assert text.get("ri", 0) <= 120
    return text


class World:
    """A bridge, a radio and a hub, and what a plain sum over the hub's records says."""

    def __init__(self, queue_max: int) -> None:
        self.queue_max = queue_max
        self.bridge = Bridge(queue_max=queue_max, gap_ms=1000, heartbeat_ms=90_000)
        self.now_ms = 0
        self.heard: dict[int, dict[str, Any]] = {}
        self.sent = {"r": 0.0, "lc": 0}
        self.frozen: bytes | None = None

    def obs(self, record: dict[str, Any], copies: int) -> None:
        # The bridge remembers 16 records; an older one that comes again is beyond what it promises.
        if record["minute"] in self.heard and record["minute"] not in list(self.heard)[-16:]:
            return
        known = self.heard.setdefault(record["minute"], record)
        for _ in range(copies):
            self.bridge.on_datagram(observation(known), self.now_ms)

    def wait(self, seconds: int, _: int) -> None:
        self.now_ms += seconds * 1000

    def status(self, kind: str, _: int) -> None:
        message = {"type": kind, "timestamp": T0 + self.now_ms // 1000}
        self.bridge.on_datagram(json.dumps(message).encode(), self.now_ms)

    def strike(self, second: int, _: int) -> None:
        message = {"type": "evt_strike", "evt": [T0 + second, 3, 9]}
        self.bridge.on_datagram(json.dumps(message).encode(), self.now_ms)

    def junk(self, data: bytes, _: int) -> None:
        self.bridge.on_datagram(data, self.now_ms)

    def restart(self, _: int, __: int) -> None:
        self.bridge = restarted(self.bridge, self.queue_max)
        self.now_ms = 0

    def radio(self, outcome: str, _: int) -> None:
        line = self.bridge.next_line(self.now_ms)
        if line is None:
            return
        text = checked(line)
        assert self.frozen in (None, line)
        self.frozen = line if outcome == "failed" else None
        if outcome == "sent" and text.get("et") == "obs_st":
            self.sent["r"] += text["r"]
            self.sent["lc"] += text.get("lc", 0)
        getattr(self.bridge, "sent" if outcome == "sent" else f"send_{outcome}")(self.now_ms)


@given(st.lists(events, min_size=10, max_size=50), st.integers(5, 12))
def test_amounts_sent_and_held_are_those_of_the_distinct_records(
    happenings: list[tuple[str, Any, int]], queue_max: int
) -> None:
    """The sum over all sent texts and all that is held equals the sum over the distinct records heard."""
    world = World(queue_max)
    for what, value, copies in happenings:
        world.now_ms += 250
        getattr(world, what)(value, copies)
        assert world.bridge.waiting() <= queue_max + 1
    held = world.bridge.held()
    rain = sum(record["rain"] for record in world.heard.values())
    assert abs(world.sent["r"] + held["r"] - rain) < 1e-3 * (1 + len(happenings))
    assert world.sent["lc"] + held["lc"] == sum(record["strikes"] for record in world.heard.values())


@given(st.text(max_size=300), st.lists(st.integers(0, 10**9), max_size=18), st.integers(96, 300), st.integers(0, 10**9))
@settings(max_examples=80)
def test_b2_every_heartbeat_fits(error: str, numbers: list[int], limit: int, up_s: int) -> None:
    """Whatever the counters and the error are, a heartbeat is one whole JSON object inside the limit."""
    keys = ("wc", "pm", "udp", "jerr", "unsup", "rej", "skip", "qsz", "qrepl", "qdrop", "fwd", "sockrec", "wifirec")
    counters = list(zip(keys, numbers, strict=False))
    start = [("sys", '"dbg"'), ("i", "4294967295"), ("up", str(up_s)), ("ip", '"192.168.108.105"')]
    text = heartbeat_text(start, error, counters, limit)
    assert len(text.encode()) <= limit
    found = json.loads(text)
    assert found["sys"] == "dbg"
    assert found["up"] == up_s
    assert "".join("?" if "\ud800" <= c <= "\udfff" else c for c in error).startswith(found.get("err", ""))


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_b25_no_datagram_is_an_error(data: bytes) -> None:
    """Anybody on the network can send anything; it is counted."""
    bridge = Bridge()
    bridge.on_datagram(data, 0)
    assert bridge.counts["udp"] == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)


@given(
    st.sampled_from(["obs_st", "rapid_wind", "evt_precip", "evt_strike", "device_status", "hub_status", None, 3]),
    st.dictionaries(
        st.sampled_from(
            ["obs", "ob", "evt", "timestamp", "uptime", "voltage", "rssi", "fs", "radio_stats", "mqtt_stats",
             "firmware_revision", "reset_flags", "seq", "serial_number", "hub_sn", "debug"]
        ),
        json_values | st.integers(1, 2 * 10**9) | st.lists(st.integers(0, 2 * 10**9), max_size=22).map(lambda x: [x]),
    ),
)  # fmt: skip
def test_b25_no_object_is_an_error(kind: object, message: dict[str, Any]) -> None:
    """Well-formed nonsense neither raises nor leads to a line that is too long or no JSON."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    bridge.on_datagram(json.dumps({"type": kind, **message}).encode(), 0)
    line = bridge.next_line(0)
    if line is not None:
        checked(line)
