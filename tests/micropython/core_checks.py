"""Checks of the bridge that need neither pytest nor the standard library; MicroPython and CPython run them alike."""

import json

from stormjay.weather.bridge_core import INTERVALS_MS, Bridge
from stormjay.weather.bridge_lines import bytes_of, cut, heartbeat_text, number_of, number_text, obs_text, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # MicroPython has no such module; a checker takes the name for true
    from typing import Any

T0 = 1773824400


def obs(
    minute: int,
    rain: float = 0.0,
    strikes: int = 0,
    temperature: "float | None" = 6.0,
    distance: int = 0,
    interval: int = 1,
) -> bytes:
    """Return an observation of that minute as the hub sends it."""
    air = [1008.0, temperature, 80, 900, 0.1, 5]
    values = [T0 + 60 * minute, 0.4, 1.1, 2.0, 180, 3] + air + [rain, 1, distance, strikes, 2.6, interval]  # noqa: RUF005 - no unpacking
    return json.dumps({"type": "obs_st", "obs": [values]}).encode()


def status(kind: str, second: int) -> bytes:
    """Return a status datagram of that second."""
    return json.dumps({"type": kind, "timestamp": T0 + second, "uptime": second, "rssi": -60}).encode()


def strike(second: int, distance: int = 5) -> bytes:
    """Return a strike of that second."""
    return json.dumps({"type": "evt_strike", "evt": [T0 + second, distance, 100]}).encode()


def drain(bridge: Bridge, start_ms: int, until_ms: int) -> "list[tuple[int, dict[str, Any]]]":
    """Let the radio take whatever it is given; return time and text of each."""
    texts = []
    for now_ms in range(start_ms, until_ms, 1000):
        line = bridge.next_line(now_ms)
        if line is not None:
            assert len(line) <= 232, line
            texts.append((now_ms, json.loads(line.decode())))
            bridge.sent(now_ms)
    return texts


def check_b3_a_60_s_source_loses_no_minute() -> None:
    """Fault B3: two hours, each datagram twice, others in between: every minute's rain and strikes arrive."""
    bridge = Bridge()
    arrivals = []
    for minute in range(120):
        base = minute * 60000
        late = (minute * 7919) % 900  # the hub's jitter, ms
        copies = (0, 4)
        arrivals += [(base + 37000 + late + copy, status("device_status", minute * 60 + 37)) for copy in copies]
        arrivals += [(base + 38000 + late + copy, obs(minute, 0.25, 1)) for copy in copies]
        for tick in range(6):
            arrivals.append((base + tick * 10000 + 500, status("hub_status", minute * 60 + tick * 10)))
        if minute % 9 == 0:
            arrivals.append((base + 36500, strike(minute * 60)))
        for tick in range(4):
            wind = json.dumps({"type": "rapid_wind", "ob": [T0 + minute * 60 + tick * 15, 2.5, 90]}).encode()
            arrivals.append((base + tick * 15000 + 100, wind))
    arrivals.sort(key=lambda arrival: arrival[0])
    texts = []
    place = 0
    for now_ms in range(0, 121 * 60000, 1000):
        while place < len(arrivals) and arrivals[place][0] <= now_ms:
            bridge.on_datagram(arrivals[place][1], arrivals[place][0])
            place += 1
        line = bridge.next_line(now_ms)
        if line is not None:
            texts.append(json.loads(line.decode()))
            bridge.sent(now_ms)
    readings = [text for text in texts if text.get("et") == "obs_st"]
    assert len(readings) == 120, len(readings)
    assert [text["ts"] for text in readings] == [T0 + 60 * minute for minute in range(120)]
    assert abs(sum([text["r"] for text in readings]) - 30.0) < 0.001
    assert sum([text["lc"] for text in readings]) == 120
    assert len([text for text in texts if text.get("et") == "device_status"]) == 120
    assert len([text for text in texts if text.get("et") == "hub_status"]) >= 118
    assert len([text for text in texts if text.get("sys") == "dbg"]) == 9
    assert len([text for text in texts if text.get("et") == "evt_strike"]) == 14


def check_a_fast_source_is_thinned_and_its_rain_kept() -> None:
    """A record every 10 s goes out once a minute, with what the others in between held."""
    bridge = Bridge(heartbeat_ms=0)
    texts = []
    for number in range(60):
        values = [T0 + 10 * number, 0.4, 1.1, 2.0, 180, 3, 1008.0, 6.0, 80, 900, 0.1, 5, 0.125, 1, 0, 0, 2.6, 1]
        bridge.on_datagram(json.dumps({"type": "obs_st", "obs": [values]}).encode(), number * 10000)
        texts += drain(bridge, number * 10000, number * 10000 + 10000)
    texts += drain(bridge, 600000, 700000)
    assert 10 <= len(texts) <= 11, len(texts)
    assert abs(sum([text["r"] for _, text in texts]) - 7.5) < 0.001
    assert bridge.counts["skip"] > 40


def check_a_frozen_line_comes_again_byte_for_byte() -> None:
    """A text the radio has seen is never merged, whatever comes in meanwhile."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=5000)
    bridge.on_datagram(obs(0, 0.5), 0)
    first = bridge.next_line(0)
    bridge.send_failed(0)
    assert bridge.next_line(1000) is None
    bridge.on_datagram(obs(1, 0.25), 60000)
    assert bridge.next_line(60000) == first
    bridge.send_failed(60000)
    bridge.on_datagram(obs(2, 0.25), 120000)
    assert bridge.next_line(120000) == first
    bridge.sent(120000)
    texts = drain(bridge, 120000, 300000)
    assert [text["r"] for _, text in texts] == [0.5]
    assert texts[0][1]["i"] == 2
    assert bridge.held()["r"] == 0


def check_refused_amounts_go_on_with_the_next_reading() -> None:
    """A text that the radio will never take is dropped, its rain is not."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    bridge.on_datagram(obs(0, 0.5, 2), 0)
    assert bridge.next_line(0)
    bridge.send_refused(0)
    assert bridge.counts["qdrop"] == 1
    assert bridge.held()["r"] == 0.5
    bridge.on_datagram(obs(1, 0.25, 1), 60000)
    text = json.loads((bridge.next_line(60000) or b"").decode())
    assert [text["r"], text["lc"], text["ri"]] == [0.75, 3, 2]


def check_a_clock_that_was_set_back_does_not_date_readings_ahead() -> None:
    """A reading dated days ahead waits for the radio; the ones after it go out with their own times and its rain."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    bridge.on_datagram(obs(3 * 1440, 0.5), 0)
    bridge.on_datagram(obs(0, 0.25), 60000)
    bridge.on_datagram(obs(1, 0.25), 120000)
    text = json.loads((bridge.next_line(120000) or b"").decode())
    assert [text["ts"], text["r"], text["ri"]] == [T0 + 60, 1, 3]


def check_carrying_ends_before_120_minutes_and_500_mm() -> None:
    """While the radio is away texts of their own begin, at the latest after 120 min or before 500 mm."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    for minute in range(300):
        bridge.on_datagram(obs(minute, 0.5, 1), minute * 60000)
    texts = [text for _, text in drain(bridge, 300 * 60000, 302 * 60000)]
    assert [text["ri"] for text in texts] == [120, 120, 60]
    assert [text["r"] for text in texts] == [60, 60, 30]
    assert [text["ts"] for text in texts] == [T0 + 119 * 60, T0 + 239 * 60, T0 + 299 * 60]
    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    for minute in range(4):
        bridge.on_datagram(obs(minute, 200.0), minute * 60000)
    assert [text["r"] for _, text in drain(bridge, 240000, 300000)] == [400, 400]


def check_a_full_queue_of_readings_still_keeps_the_rain() -> None:
    """Two days without a radio: more than twelve texts of two hours; nothing of the rain is lost."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    for minute in range(0, 48 * 60, 10):
        bridge.on_datagram(obs(minute, 1.25, 10, interval=10), minute * 60000)
        if minute % 60 == 0:
            bridge.on_datagram(strike(minute * 60), minute * 60000 + 1)
    assert bridge.waiting() <= 12
    start = 48 * 3600000
    texts = [text for _, text in drain(bridge, start, start + 60000)]
    assert abs(sum([text["r"] for text in texts]) - 360.0) < 0.001
    assert sum([text["lc"] for text in texts]) == 2880
    assert max([text["ri"] for text in texts]) <= 120


def check_incomplete_records_for_hours() -> None:
    """A broken sensor: no reading for hours, then the rain of all of them, 500 mm at a time at most."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    for minute in range(400):
        bridge.on_datagram(obs(minute, 2.0, 30, temperature=None), minute * 60000)
    assert bridge.next_line(400 * 60000) is None
    texts = []
    for minute in range(400, 404):
        bridge.on_datagram(obs(minute, 1.0, 0), minute * 60000)
        texts += [text for _, text in drain(bridge, minute * 60000, minute * 60000 + 60000)]
    assert [text["r"] for text in texts] == [500, 302, 1, 1]
    assert [text["lc"] for text in texts] == [10000, 2000, 0, 0]
    assert [text["ri"] for text in texts] == [120, 1, 1, 1]


def check_b5_no_value_is_made_up() -> None:
    """Fault B5: a sensor without a reading stays without one; only a young rapid_wind speaks for the wind."""

    def hub(second: int, *values: "Any") -> bytes:
        wind = list(values) or [None, None, None, None]
        air = [1008.0, 6.0, 80, None, None, None, 0.0, 0, 0, 0, None, 1]
        return json.dumps({"type": "obs_st", "obs": [[T0 + second] + wind + [None] + air]}).encode()  # noqa: RUF005 - no unpacking

    def rapid(second: int) -> bytes:
        return json.dumps({"type": "rapid_wind", "ob": [T0 + second, 2.3, 198]}).encode()

    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    bridge.on_datagram(hub(60), 60000)
    assert bridge.next_line(61000) is None  # without wind it is no reading
    bridge.on_datagram(rapid(100), 100000)
    bridge.on_datagram(hub(120), 120000)
    line = bridge.next_line(121000)
    assert line is not None
    text = json.loads(line.decode())
    bridge.sent(121000)
    assert (text["w"], text["d"]) == (2.3, 198)
    for key in ("l", "g", "ws", "lux", "uv", "sr", "bat"):
        assert text.get(key) is None, key
    bridge.on_datagram(hub(300), 300000)  # by now that wind is 200 s old
    assert bridge.next_line(301000) is None


def check_b18_strikes_keep_their_interval_on_the_way_out() -> None:
    """Fault B18: repeats count once, one inside the interval is skipped, and those that waited leave 30 s apart."""
    bridge = Bridge(heartbeat_ms=0)
    assert bridge.on_datagram(strike(0), 0) == "queued"
    assert bridge.on_datagram(strike(0), 4) == "duplicate"
    assert bridge.on_datagram(strike(10), 10000) == "skipped"
    assert bridge.on_datagram(strike(31), 31000) == "queued"
    times = [now_ms for now_ms, _ in drain(bridge, 40000, 120000)]
    assert times == [40000, 70000], times


def check_priorities_and_the_full_queue() -> None:
    """Strikes first; what must give way is a status, then an event, never a reading."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=0, queue_max=5, intervals_ms={"evt_strike": 0, "evt_precip": 0})
    bridge.on_datagram(status("hub_status", 0), 0)
    bridge.on_datagram(status("device_status", 0), 0)
    bridge.on_datagram(strike(1), 0)
    bridge.on_datagram(strike(2), 0)
    bridge.on_datagram(json.dumps({"type": "evt_precip", "evt": [T0]}).encode(), 0)
    assert bridge.on_datagram(strike(3), 0) == "queued"  # for the hub status
    assert bridge.on_datagram(obs(0, 0.5), 0) == "queued"  # for the device status
    assert bridge.on_datagram(strike(4), 0) == "queued"  # for the rain event
    assert bridge.on_datagram(status("hub_status", 9), 0) == "dropped"
    kinds = [text["et"] for _, text in drain(bridge, 0, 10000)]
    assert kinds == ["evt_strike", "evt_strike", "evt_strike", "evt_strike", "obs_st"], kinds
    assert bridge.counts["qdrop"] == 4


def check_b30_rain_keeps_its_decimals() -> None:
    """Fault B30: a hundred minutes of 0.103412 mm are 10.3412 mm at home, and merging adds before rounding."""
    for busy_minutes in (1, 10):
        bridge = Bridge(heartbeat_ms=0, gap_ms=0)
        total = 0.0
        for minute in range(100):
            bridge.on_datagram(obs(minute, 0.103412), minute * 60000)
            if minute % busy_minutes == busy_minutes - 1:
                total += json.loads((bridge.next_line(minute * 60000) or b"").decode())["r"]
                bridge.sent(minute * 60000)
        assert abs(total - 10.3412) < 0.0002, total


def check_b4_a_value_out_of_range_is_left_out_and_the_reading_kept() -> None:
    """Fault B4 and DESIGN.md decision 5: an optional value goes; without a required one the amounts wait."""
    bridge = Bridge(heartbeat_ms=0, gap_ms=0)
    values = [T0, 0.4, 1.1, 121.0, 180, 300, 1008.0, 6.0, 80, 200001, 31, 5, 0.5, 5, 501, 2, 11, 1]
    assert bridge.on_datagram(json.dumps({"type": "obs_st", "obs": [values]}).encode(), 0) == "queued"
    text = json.loads((bridge.next_line(0) or b"").decode())
    assert sorted(text) == sorted(["et", "i", "ts", "t", "h", "p", "w", "d", "r", "l", "sr", "lc", "ri"]), text
    bridge.sent(0)
    values = [T0 + 60, 0.4, 101.0, 2.0, 180, 3, 1008.0, 6.0, 80, 900, 0.1, 5, 0.5, 1, 0, 2, 2.6, 1]
    assert bridge.on_datagram(json.dumps({"type": "obs_st", "obs": [values]}).encode(), 60000) == "carried"
    assert bridge.held()["r"] == 0.5


def check_numbers() -> None:
    """Rule 1 of the cases: what is no number never becomes one."""
    words = ["", "x", "nan", "inf", "-Infinity", "1e999"]
    for value in [None, True, False, float("nan"), float("inf"), [1], {"a": 1}] + words:  # noqa: RUF005 - no unpacking
        assert number_of(value) is None, value
    assert [number_of(value) for value in (0, 0.0, "0", " 7 ", "-1.5", 3)] == [0, 0.0, 0, 7, -1.5, 3]
    assert [number_text(12.3456, 2), number_text(402.0, 2), number_text(-0.001, 2), number_text(100, 1)] == [
        "12.35",
        "402",
        "0",
        "100",
    ]


def check_texts() -> None:
    """Nothing is cut inside a character or an escape."""
    assert json.loads(text_of('a"\\\n\té')) == 'a"\\\n\té'
    for room in range(30):
        part = cut('é"é\x01é', room)
        assert bytes_of(text_of(part)) - 2 <= room
        assert 'é"é\x01é'.startswith(part)
    for limit in (90, 120, 160, 200, 232):
        start = [("sys", '"dbg"'), ("i", "40321"), ("up", "8640012"), ("ip", '"192.0.2.17"')]
        text = heartbeat_text(start, "é" * 200, [("udp", 400000), ("jerr", 0), ("last_obs_s", 3)], limit)
        assert bytes_of(text) <= limit
        found = json.loads(text)
        assert found["err"]
        assert ("é" * 200).startswith(found["err"])


def check_every_limit() -> None:
    """Down to the required values a line of any limit is whole; lc and ri stay from 136 bytes on."""
    record = {"t": -60.04, "h": 99.99, "p": 1199.96, "w": 99.96, "d": 359, "r": 499.9994, "lc": 10000, "ri": 120}
    record.update({"g": 119.96, "l": 99.96, "ws": 120, "uv": 29.99, "sr": 1999.99, "lux": 199999.99, "bat": 9.99})
    record.update({"ld": 499.99, "pt": 4, "rd": 1999.99, "nr": 1999.99, "nrd": 1999.99, "pa": 10})
    for limit in (60, 90, 112, 113, 120, 135, 136, 137, 150, 175, 199, 200, 210, 231, 232, 250, 299):
        text = obs_text(999999999, 99999999999, record, limit)
        if limit < 112:
            continue
        assert text is not None, limit
        assert bytes_of(text) <= limit
        found = json.loads(text)
        for key in ("t", "h", "p", "w", "d", "r"):
            assert abs(found[key] - record[key]) <= 0.51, key
        if limit >= 136:
            assert found["lc"] == 10000
            assert found["ri"] == 120
            assert abs(found["r"] - 499.9994) < 0.001


def check_intervals_are_the_seeds() -> None:
    """Contract 2.1."""
    assert sorted(INTERVALS_MS.values()) == [30000, 60000, 60000, 60000, 60000]


CHECKS = (
    check_b5_no_value_is_made_up,
    check_b3_a_60_s_source_loses_no_minute,
    check_a_fast_source_is_thinned_and_its_rain_kept,
    check_a_frozen_line_comes_again_byte_for_byte,
    check_refused_amounts_go_on_with_the_next_reading,
    check_a_clock_that_was_set_back_does_not_date_readings_ahead,
    check_carrying_ends_before_120_minutes_and_500_mm,
    check_a_full_queue_of_readings_still_keeps_the_rain,
    check_incomplete_records_for_hours,
    check_b18_strikes_keep_their_interval_on_the_way_out,
    check_priorities_and_the_full_queue,
    check_b30_rain_keeps_its_decimals,
    check_b4_a_value_out_of_range_is_left_out_and_the_reading_kept,
    check_numbers,
    check_texts,
    check_every_limit,
    check_intervals_are_the_seeds,
)
