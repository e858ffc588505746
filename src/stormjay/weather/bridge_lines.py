"""From a hub's datagram to checked values, and from values to a line that fits on the air: the pure half of the bridge.

MicroPython on the Pico W imports this same file, so it needs ``json`` and nothing else: no typing, no dataclasses,
floats that may have 32 bits, dicts that keep no order. Contract weather 1.2, 1.3, 1.6 and 2.3; faults B2, B4, B5, B30.
"""

import json

# Key on the air, place in the hub's list, whole number, lowest and highest; in the order in which they are written.
OBS_FIELDS = (
    ("t", 7, False, -60, 70), ("h", 8, False, 0, 100), ("p", 6, False, 800, 1200),
    ("w", 2, False, 0, 100), ("g", 3, False, 0, 120), ("l", 1, False, 0, 100),
    ("d", 4, True, 0, 360), ("ws", 5, True, 0, 120), ("r", 12, False, 0, 500),
    ("uv", 10, False, 0, 30), ("sr", 11, False, 0, 2000), ("lux", 9, False, 0, 200000),
    ("bat", 16, False, 0, 10), ("ld", 14, False, 0, 500), ("lc", 15, True, 0, 10000),
    ("pt", 13, True, 0, 4), ("ri", 17, True, 0, 120), ("rd", 18, False, 0, 2000),
    ("nr", 19, False, 0, 2000), ("nrd", 20, False, 0, 2000), ("pa", 21, True, 0, 10),
)  # fmt: skip
REQUIRED = ("t", "h", "p", "w", "d", "r")

# Key on the air, name in the datagram, whole number, lowest and highest: those of the home parser (contract weather
# 4.4); the highest of the counters only keeps a broken number from filling the line.
COUNTER_MAX = 10**12
STATUS_FIELDS = {
    "device_status": (
        ("up", "uptime", True, 0, COUNTER_MAX),
        ("v", "voltage", False, 0, 10),
        ("fw", "firmware_revision", False, 0, COUNTER_MAX),
        ("r", "rssi", True, -200, 50),
        ("hr", "hub_rssi", True, -200, 50),
        ("ss", "sensor_status", True, 0, COUNTER_MAX),
        ("dbg", "debug", True, 0, 1),
    ),
    "hub_status": (
        ("up", "uptime", True, 0, COUNTER_MAX),
        ("fw", "firmware_revision", False, 0, COUNTER_MAX),
        ("r", "rssi", True, -200, 50),
        ("seq", "seq", True, 0, COUNTER_MAX),
    ),
}
HUB_LISTS = (("fs", "fs"), ("rs", "radio_stats"), ("ms", "mqtt_stats"))
STRIKE_FIELDS = (("ld", 1, 500), ("se", 2, 1000000000))

OLDEST_S = 946684800  # 2000-01-01; DESIGN.md decision 2
SECONDS_END = 100000000000  # an epoch number from here on is not in seconds
DATAGRAM_BYTES_MAX = 4096
TEXT_LENGTH_MAX = 40
LIST_LENGTH_MAX = 32
LIST_DEPTH_MAX = 3
FIRST_PRINTABLE = 32
SURROGATES = (0xD800, 0xDFFF)

# A float of 32 bits cannot hold today's seconds; a time that came as one is then no time.
END_OF_WHOLE_FLOATS = 16777216.0
FLOATS_HOLD_SECONDS = END_OF_WHOLE_FLOATS + 1.0 != END_OF_WHOLE_FLOATS

# What an observation gives up, in this order, until it fits: a number is how many decimals stay, DROP_ZERO lets go of a
# value that is zero, DROP of any. Contract weather 11.6, carried on for limits that are smaller still; required values
# are never left out. With 136 bytes or more rain keeps three decimals, and strikes and interval stay.
DROP_ZERO = -1
DROP = -2
OBS_STEPS = (
    ("", DROP), ("r", 3),
    ("nrd", DROP_ZERO), ("nr", DROP_ZERO), ("rd", DROP_ZERO), ("pa", DROP_ZERO), ("ws", DROP_ZERO), ("ld", DROP_ZERO),
    ("pt", DROP_ZERO), ("sr", DROP_ZERO), ("lux", DROP_ZERO), ("uv", DROP_ZERO), ("bat", DROP_ZERO), ("l", DROP_ZERO),
    ("g", DROP_ZERO),
    ("nrd", DROP), ("nr", DROP), ("rd", DROP), ("pa", DROP), ("lux", 0), ("sr", DROP), ("uv", DROP), ("l", DROP),
    ("ld", 1), ("h", 1), ("t", 1), ("p", 1), ("w", 1), ("g", 1), ("bat", 1),
    ("ws", DROP), ("pt", DROP), ("bat", DROP), ("ld", DROP), ("lux", DROP), ("g", DROP),
    ("h", 0), ("r", 2), ("ri", DROP), ("lc", DROP),
)  # fmt: skip
STATUS_DROPS = ("ms", "dbg", "fs", "rf", "fw", "rs", "hr", "seq", "ss", "v", "r", "up")
HEARTBEAT_DROPS = (
    "pm", "wc", "qsz", "nwu", "sockerr", "sockrec", "wifirec", "skip", "qrepl", "unsup", "last_udp_s", "jerr", "frgn",
    "over", "last_ok_s", "rej", "qdrop", "udp", "fwd", "last_obs_s",
)  # fmt: skip
HEARTBEAT_ERROR_BYTES = 64


def message_of(data: bytes) -> "dict[str, object] | None":
    """Return the JSON object of a datagram, or None when it holds none."""
    if len(data) > DATAGRAM_BYTES_MAX:
        return None
    try:
        text = bytes(data).decode("utf-8")
        try:
            message = json.loads(text)
        except ValueError:
            # Python's reader takes these words and MicroPython's does not; null is what they mean.
            for word in ("-Infinity", "Infinity", "NaN"):
                text = text.replace(word, "null")
            message = json.loads(text)
    except (ValueError, RuntimeError, MemoryError):
        return None
    return message if isinstance(message, dict) else None


def number_of(value: object) -> "float | None":
    """Return the value as a finite number, or None: true, null, NaN and words are no numbers; text of digits is one."""
    if value is True or value is False:
        return None
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    return None


def number_within(value: object, whole: bool, low: float, high: float) -> "float | None":  # noqa: FBT001 - a table's
    """Return the value as a number inside the inclusive bounds, rounded where it is to be whole, or None."""
    number = number_of(value)
    if number is None or number < low or number > high:
        return None
    return round(number) if whole else number


def time_of(value: object) -> "int | None":
    """Return a source time in whole seconds, or None when it is no such number."""
    number = number_of(value)
    if number is None or number < 0 or number >= SECONDS_END:
        return None
    if not isinstance(number, int) and (number != int(number) or not FLOATS_HOLD_SECONDS):
        return None
    return int(number)


def read_record(values: "list[object]", ranges: "dict[str, tuple[float, float]]") -> "dict[str, float]":
    """Return the values of one observation that are there and inside their range, by key on the air (fault B5)."""
    record = {}
    for key, place, whole, _, _ in OBS_FIELDS:
        low, high = ranges[key]
        number = number_within(values[place] if place < len(values) else None, whole, low, high)
        if number is not None:
            record[key] = number
    return record


def read_strike(evt: "list[object]") -> "list[tuple[str, str]] | None":
    """Return distance and energy of a strike as pairs of key and text, or None when one is missing or out of range."""
    pairs = []
    for key, place, high in STRIKE_FIELDS:
        number = number_within(evt[place] if place < len(evt) else None, True, 0, high)  # noqa: FBT003 - as above
        if number is None:
            return None
        pairs.append((key, str(number)))
    return pairs


def read_status(kind: str, message: "dict[str, object]") -> "list[tuple[str, str]]":
    """Return what a status datagram holds, as pairs of key and text; what is missing or out of range is left out."""
    pairs = []
    for key, name, whole, low, high in STATUS_FIELDS[kind]:
        value = message.get(name)
        if key == "fw" and isinstance(value, str):
            pairs.append((key, text_of(value[:TEXT_LENGTH_MAX])))
            continue
        number = number_within(value, whole, low, high)
        if number is not None:
            pairs.append((key, number_text(number, 2)))
    if kind == "hub_status":
        flags = message.get("reset_flags", "")
        if isinstance(flags, str):
            pairs.append(("rf", text_of(flags[:TEXT_LENGTH_MAX])))
        for key, name in HUB_LISTS:
            values = message.get(name, [])
            if isinstance(values, list):
                pairs.append((key, passed_on(values, 0)))
    return pairs


def passed_on(value: object, depth: int) -> str:
    """Return a value of the hub's own lists in JSON; what is no text, sane number or shallow list is null."""
    if isinstance(value, str):
        return text_of(value[:TEXT_LENGTH_MAX])
    if isinstance(value, list) and depth < LIST_DEPTH_MAX:
        return "[" + ",".join([passed_on(item, depth + 1) for item in value[:LIST_LENGTH_MAX]]) + "]"
    number = None if value is None else number_within(value, False, -COUNTER_MAX, COUNTER_MAX)  # noqa: FBT003 - as above
    return "null" if number is None else number_text(number, 6)


def text_of(value: str) -> str:
    """Return a string in JSON, printable characters as they are; half a surrogate pair becomes a question mark."""
    parts = ['"']
    for character in value:
        code = ord(character)
        if character in '"\\':
            parts.append("\\" + character)
        elif code < FIRST_PRINTABLE:
            parts.append(f"\\u{code:04x}")
        else:
            parts.append("?" if SURROGATES[0] <= code <= SURROGATES[1] else character)
    parts.append('"')
    return "".join(parts)


def number_text(value: float, decimals: int) -> str:
    """Return a number in JSON with at most that many decimals and no useless zeros."""
    if isinstance(value, int):
        return str(value)
    text = f"{value:.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def object_text(pairs: "list[tuple[str, str]]") -> str:
    """Return a JSON object of pairs of a key and the text of its value."""
    return "{" + ",".join(['"' + key + '":' + text for key, text in pairs]) + "}"


def bytes_of(text: str) -> int:
    """Return how long a text is on the air."""
    return len(text.encode("utf-8"))


def fitted(pairs: "list[tuple[str, str]]", drops: "tuple[str, ...]", limit: int) -> "str | None":
    """Return the object without as many of ``drops``, in order, as have to go; None when that is not enough."""
    text = object_text(pairs)
    for key in drops:
        if bytes_of(text) <= limit:
            break
        pairs = [pair for pair in pairs if pair[0] != key]
        text = object_text(pairs)
    return text if bytes_of(text) <= limit else None


def head(kind: str, msg_id: int, ts: int) -> "list[tuple[str, str]]":
    """Return the pairs that every forwarded text begins with."""
    return [("et", text_of(kind)), ("i", str(msg_id)), ("ts", str(ts))]


def obs_text(msg_id: int, ts: int, record: "dict[str, float]", limit: int) -> "str | None":
    """Return an observation in at most ``limit`` bytes, rounded and shortened as ``OBS_STEPS`` says, or None."""
    left = dict(record)
    decimals = {"r": 6}
    for key, action in OBS_STEPS:
        if action >= 0:
            decimals[key] = action
        elif action == DROP or left.get(key) == 0:
            left.pop(key, None)
        names = [field[0] for field in OBS_FIELDS if field[0] in left]
        pairs = [(name, number_text(left[name], decimals.get(name, 2))) for name in names]
        text = object_text(head("obs_st", msg_id, ts) + pairs)
        if bytes_of(text) <= limit:
            return text
    return None


def status_text(kind: str, msg_id: int, ts: int, pairs: "list[tuple[str, str]]", limit: int) -> "str | None":
    """Return an event or status in at most ``limit`` bytes, or None."""
    return fitted(head(kind, msg_id, ts) + pairs, STATUS_DROPS, limit)


def heartbeat_text(start: "list[tuple[str, str]]", error: str, counters: "list[tuple[str, int]]", limit: int) -> str:
    """Return a heartbeat that fits: zero counters go first, then the error is cut, then other counters go (fault B2).

    Args:
        start: Pairs of key and text that always stand in it.
        error: What went wrong last, or an empty text; cut only between characters.
        counters: Pairs of a key and a whole number, in the order in which they are written.
        limit: Bytes.
    """
    every = [(key, str(value)) for key, value in counters]
    telling = [(key, str(value)) for key, value in counters if value > 0]
    for pairs in (every, telling):
        text = object_text(start + error_pair(error) + pairs)
        if bytes_of(text) <= limit:
            return text
    around = bytes_of(object_text(start + [("err", '""')] + telling))  # noqa: RUF005 - as above
    short = cut(error, max(limit - around, HEARTBEAT_ERROR_BYTES))
    whole = fitted(start + error_pair(short) + telling, HEARTBEAT_DROPS, limit)
    if whole is not None:
        return whole
    around = bytes_of(object_text(start + [("err", '""')]))  # noqa: RUF005 - as above
    return object_text(start + error_pair(cut(error, limit - around)))


def error_pair(error: str) -> "list[tuple[str, str]]":
    """Return the pair of the error, or none when there is no error."""
    return [("err", text_of(error))] if error else []


def cut(text: str, room: int) -> str:
    """Return the longest beginning of a text whose JSON takes at most ``room`` bytes between its quotes."""
    used = 0
    for index, character in enumerate(text):
        used += bytes_of(text_of(character)) - 2
        if used > room:
            return text[:index]
    return text
