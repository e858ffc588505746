"""What the garden bridge does with a hub's datagrams: merging, pacing, and lines handed to the radio one at a time.

MicroPython on the Pico W imports this same file and ``bridge_lines``, so it has no typing and no dataclasses, times
come in as whole milliseconds, floats may have 32 bits, dicts keep no order. It does no input or output and reads no
clock. Contract weather 2, faults B2 to B5, B18, B25, B30; DESIGN.md decisions 5 and 10.

How amounts stay whole: rain, strikes, report interval and nearcast rain add up, the gust is the highest, the lull the
lowest, over all that a text stands for; the lightning distance is the mean weighted by strikes. Whatever is not sent
as a reading of its own leaves its amounts in the carry, and the next reading takes from it what its ranges allow.
"""

from stormjay.weather.bridge_lines import (
    OBS_FIELDS,
    OLDEST_S,
    REQUIRED,
    heartbeat_text,
    message_of,
    number_within,
    obs_text,
    read_record,
    read_status,
    read_strike,
    status_text,
    text_of,
    time_of,
)

SUMS = ("r", "lc", "ri", "nr")
PRIORITY = {"evt_strike": 0, "evt_precip": 1, "obs_st": 2, "device_status": 3, "hub_status": 4}
SNAPSHOTS = ("obs_st", "device_status", "hub_status")
INTERVALS_MS = {
    "obs_st": 60000,
    "evt_precip": 60000,
    "evt_strike": 30000,
    "device_status": 60000,
    "hub_status": 60000,
}
COUNTERS = ("udp", "jerr", "unsup", "rej", "skip", "qrepl", "qdrop", "fwd", "dup", "frgn", "over")

WIND_AGE_S, LATE_S_MAX = 120, 600  # a record that seems later than that was not late: the clock was set back
WIND_PARTS = 3
REMEMBERED = 16
OBS_PER_DATAGRAM_MAX = 16
SERIAL_LENGTH_MAX = 20
ADDRESS_LENGTH_MAX = 45
QUEUE_MIN = 5


def amounts_of(record: "dict[str, float]") -> "dict[str, float]":
    """Return what of a record must not be lost. The interval counts only with the rain whose coverage it states."""
    amounts: "dict[str, float]" = {key: record[key] for key in ("r", "lc", "nr", "g", "l") if key in record}
    if "r" in record and "ri" in record:
        amounts["ri"] = record["ri"]
    if record.get("lc") and "ld" in record:
        amounts["ld"] = record["ld"]
    return amounts


def blend(into: "dict[str, float]", other: "dict[str, float]") -> None:
    """Let ``into`` have the highest gust, the lowest lull and the mean strike distance of both; call before adding."""
    if "g" in other:
        into["g"] = max(into.get("g", other["g"]), other["g"])
    if "l" in other:
        into["l"] = min(into.get("l", other["l"]), other["l"])
    if "ld" in other and other.get("lc"):
        mine, theirs = into.get("lc", 0) if "ld" in into else 0, other["lc"]
        into["ld"] = (into.get("ld", 0) * mine + other["ld"] * theirs) / (mine + theirs)


def absorb(into: "dict[str, float]", other: "dict[str, float]") -> None:
    """Add the amounts of ``other`` to those of ``into``."""
    blend(into, other)
    for key in SUMS:
        if key in other:
            into[key] = into.get(key, 0) + other[key]


class Entry:
    """A text that waits.

    Attributes:
        kind: Its ``et``.
        ts: Source time, epoch seconds.
        record: For an observation: its values by key on the air.
        pairs: For the others: key and text of each value.
    """

    def __init__(
        self, kind: str, ts: int, record: "dict[str, float]", pairs: "list[tuple[str, str]]", line: str = ""
    ) -> None:
        """Hold these; ``line`` is the frozen text once the radio has seen it."""
        self.kind = kind
        self.ts = ts
        self.record = record
        self.pairs = pairs
        self.line = line

    def state(self) -> "list[object]":
        """Return it as plain values for JSON."""
        return [self.kind, self.ts, self.record, self.pairs, self.line]


HEARTBEAT = "dbg"
NO_PAIRS: "list[tuple[str, str]]" = []


class Bridge:
    """The bridge of one station: datagrams go in, lines for the radio come out; the caller has the clock and the wires.

    Give it every datagram (``on_datagram``); ask for a line whenever the radio could take one (``next_line``), and say
    how that ended (``sent``, ``send_failed``, ``send_refused``). A line once handed out is frozen: until ``sent`` or
    ``send_refused`` the same bytes come again. ``now_ms`` never goes back.

    Attributes:
        counts: Counters since the start, by the names of the heartbeat; ``dup`` counts repeats.
        ip, error: For the heartbeat; the error is forgotten once a heartbeat has told it.
        link: The caller's own counters for heartbeats: ``wc``, ``pm``, ``sockrec``, ``wifirec``, ``sockerr``, ``nwu``.
        msg_id: Number of the next text.
    """

    def __init__(
        self,
        *,
        now_ms: int = 0,
        intervals_ms: "dict[str, int] | None" = None,
        gap_ms: int = 5000,
        heartbeat_ms: int = 900000,
        queue_max: int = 12,
        line_bytes_max: int = 232,
        serials: "tuple[str, ...]" = (),
        ranges: "dict[str, tuple[float, float]] | None" = None,
    ) -> None:
        """Start with empty hands.

        Args:
            now_ms: The time of the start.
            intervals_ms: Per type the least time between two texts, where it differs from ``INTERVALS_MS``.
            gap_ms: Least time between any two texts.
            heartbeat_ms: Time between heartbeats; 0 sends none.
            queue_max: Texts that may wait, at least 5.
            line_bytes_max: Longest line, newline not counted.
            serials: Serial numbers of stations or hubs that are heard; none means all (fault B25).
            ranges: Bounds by key on the air, where they differ from ``OBS_FIELDS``.
        """
        self._intervals = dict(INTERVALS_MS)
        self._intervals.update(intervals_ms or {})
        self._gap_ms = gap_ms
        self._heartbeat_ms = heartbeat_ms
        self._queue_max = max(QUEUE_MIN, queue_max)
        self._limit = line_bytes_max
        self._serials = tuple(serials)
        self._ranges: "dict[str, tuple[float, float]]" = {field[0]: (field[3], field[4]) for field in OBS_FIELDS}
        self._ranges.update(ranges or {})
        self.msg_id = 1
        self.counts = dict.fromkeys(COUNTERS, 0)
        self.ip = ""
        self.error = ""
        self.link: "dict[str, int]" = {}
        self._boot_ms = now_ms
        self._beat_ms = now_ms
        self._touched_ms: "int | None" = None  # when a line was last sent or tried
        self._udp_ms: "int | None" = None
        self._obs_ms: "int | None" = None
        self._ok_ms: "int | None" = None
        self._sent_ms: "dict[str, int]" = {}  # per type: when the last one was sent
        self._sent_ts: "dict[str, int]" = {}  # per type: source time of the last one sent
        self._event_ms: "dict[str, int]" = {}  # per event type: arrival of the last one queued
        self._seen: "dict[str, list[str]]" = {}
        self._wind: "tuple[str, int, float, float] | None" = None
        self._carry: "dict[str, float]" = {}
        self._queue: "list[Entry]" = []
        self._flight: "Entry | None" = None

    # ---- datagrams in

    def on_datagram(self, data: bytes, now_ms: int) -> str:
        """Take one datagram and return what became of it, as one word.

        Returns:
            ``queued``, ``held`` (queued, but its interval is not over), ``carried`` (a value is missing, its amounts
            are kept), ``wind``, ``skipped`` (an event inside its interval), ``duplicate``, ``dropped`` (queue full),
            ``rejected``, ``unsupported``, ``foreign`` or ``malformed``.
        """
        self.counts["udp"] += 1
        self._udp_ms = now_ms
        message = message_of(data)
        if message is None:
            return self._counted("jerr", "malformed")
        serial = message.get("serial_number")
        if self._serials and serial not in self._serials and message.get("hub_sn") not in self._serials:
            return self._counted("frgn", "foreign")
        return self._sorted(text_of(serial[:SERIAL_LENGTH_MAX]) if isinstance(serial, str) else "", message, now_ms)

    def _sorted(self, serial: str, message: "dict[str, object]", now_ms: int) -> str:
        kind = message.get("type")
        if kind == "obs_st":
            return self._on_obs(serial, message.get("obs"), now_ms)
        if kind == "rapid_wind":
            return self._on_wind(serial, message.get("ob"))
        if kind in ("evt_precip", "evt_strike"):
            return self._on_event(serial, str(kind), message.get("evt"), now_ms)
        if kind in ("device_status", "hub_status"):
            return self._on_status(serial, str(kind), message, now_ms)
        return self._counted("unsup", "unsupported")

    def _counted(self, name: str, word: str) -> str:
        self.counts[name] += 1
        return word

    def _repeated(self, kind: str, key: str) -> bool:
        """Tell whether this record came before (a hub's datagrams all come twice), and remember it."""
        seen = self._seen.setdefault(kind, [])
        if key in seen:
            self.counts["dup"] += 1
            return True
        seen.append(key)
        if len(seen) > REMEMBERED:
            seen.pop(0)
        return False

    def _on_obs(self, serial: str, obs: object, now_ms: int) -> str:
        if not isinstance(obs, list) or not obs:
            return self._counted("rej", "rejected")
        word = ""
        for values in obs[:OBS_PER_DATAGRAM_MAX]:
            word = self._on_record(serial, values, now_ms)
        return word

    def _on_record(self, serial: str, values: object, now_ms: int) -> str:
        ts = time_of(values[0]) if isinstance(values, list) and values else None
        if ts is None or not isinstance(values, list):
            # Without a time a repeat cannot be told from a new record, so nothing of it is counted.
            return self._counted("rej", "rejected")
        if self._repeated("obs_st", serial + "/" + str(ts)):
            return "duplicate"
        self._obs_ms = now_ms
        record = read_record(values, self._ranges)
        if self._wind is not None and self._wind[0] == serial and abs(ts - self._wind[1]) < WIND_AGE_S:
            record.setdefault("w", self._wind[2])
            record.setdefault("d", self._wind[3])
        if ts < OLDEST_S or [key for key in REQUIRED if key not in record]:
            absorb(self._carry, amounts_of(record))
            return self._counted("rej", "carried")
        return self._queue_obs(ts, record, now_ms)

    def _queue_obs(self, ts: int, record: "dict[str, float]", now_ms: int) -> str:
        waiting = [entry for entry in self._queue if entry.kind == "obs_st"]
        last = waiting[-1] if waiting else None
        if last is not None and last.ts - LATE_S_MAX <= ts < last.ts:  # it came late: the newer one speaks for both
            absorb(self._carry, amounts_of(record))
            self._take(last.record)
            return self._counted("qrepl", "queued")
        if last is not None and (self._joins(last.record, record) or not self._make_room("obs_st")):
            absorb(self._carry, amounts_of(last.record))
            last.ts, last.record = ts, record
            self.counts["qrepl"] += 1
        else:
            self._make_room("obs_st")
            last = Entry("obs_st", ts, record, NO_PAIRS)
            self._insert(last)
        self._take(record)
        return "queued" if self._is_due(last, now_ms) else self._counted("skip", "held")

    def _joins(self, older: "dict[str, float]", newer: "dict[str, float]") -> bool:
        """Tell whether one reading may stand for both: before 120 min or 500 mm carrying ends and a new text starts."""
        return all(older.get(key, 0) + newer.get(key, 0) <= self._ranges[key][1] for key in SUMS)

    def _take(self, record: "dict[str, float]") -> None:
        """Move into a reading what its ranges allow of the carry; rain and strikes beyond that wait for the next."""
        carry = self._carry
        blend(record, carry)
        for key in ("g", "l", "ld"):
            carry.pop(key, None)
        for key in SUMS:
            amount = carry.pop(key, 0)
            part = min(amount, max(0, self._ranges[key][1] - record.get(key, 0)))
            if part:
                record[key] = record.get(key, 0) + part
            # An interval beyond the range is let go: the reading then says less about its coverage, never more.
            if amount > part and key != "ri":
                carry[key] = amount - part

    def _on_wind(self, serial: str, ob: object) -> str:
        if isinstance(ob, list) and len(ob) >= WIND_PARTS:
            ts = time_of(ob[0])
            speed = number_within(ob[1], False, self._ranges["w"][0], self._ranges["w"][1])
            direction = number_within(ob[2], True, self._ranges["d"][0], self._ranges["d"][1])
            if ts is not None and speed is not None and direction is not None:
                self._wind = (serial, ts, speed, direction)
                return "wind"
        return self._counted("rej", "rejected")

    def _on_event(self, serial: str, kind: str, evt: object, now_ms: int) -> str:
        if not isinstance(evt, list) or not evt:
            return self._counted("rej", "rejected")
        ts = time_of(evt[0])
        pairs = read_strike(evt) if kind == "evt_strike" else NO_PAIRS
        if ts is None or pairs is None:
            return self._counted("rej", "rejected")
        if self._repeated(kind, "/".join([serial, str(ts)] + [text for _, text in pairs])):
            return "duplicate"
        before = self._event_ms.get(kind)
        if before is not None and now_ms - before < self._intervals[kind]:
            return self._counted("skip", "skipped")
        if not self._make_room(kind):
            return self._counted("qdrop", "dropped")
        self._event_ms[kind] = now_ms
        entry = Entry(kind, ts, {}, pairs)
        self._insert(entry)
        return "queued" if self._is_due(entry, now_ms) else "held"

    def _on_status(self, serial: str, kind: str, message: "dict[str, object]", now_ms: int) -> str:
        ts = time_of(message.get("timestamp"))
        if ts is None:
            return self._counted("rej", "rejected")
        if self._repeated(kind, serial + "/" + str(ts)):
            return "duplicate"
        entry = Entry(kind, ts, {}, read_status(kind, message))
        places = [place for place, waiting in enumerate(self._queue) if waiting.kind == kind]
        if places:
            self._queue[places[0]] = entry
            self.counts["qrepl"] += 1
        elif not self._make_room(kind):
            return self._counted("qdrop", "dropped")
        else:
            self._insert(entry)
        return "queued" if self._is_due(entry, now_ms) else self._counted("skip", "held")

    # ---- the queue

    def _insert(self, entry: Entry) -> None:
        place = len(self._queue)
        while place and PRIORITY[self._queue[place - 1].kind] > PRIORITY[entry.kind]:
            place -= 1
        self._queue.insert(place, entry)

    def _make_room(self, kind: str) -> bool:
        """Tell whether one more fits; a full queue lets go of a status first, and of an event for a reading."""
        if len(self._queue) < self._queue_max:
            return True
        for place in range(len(self._queue) - 1, -1, -1):
            other = self._queue[place].kind
            if other != "obs_st" and (kind == "obs_st" or PRIORITY[other] > PRIORITY[kind]):
                self._queue.pop(place)
                self.counts["qdrop"] += 1
                return True
        return False

    def _is_due(self, entry: Entry, now_ms: int) -> bool:
        """Tell whether the interval of its type is over.

        A snapshot's is also over when the source times are that far apart, less a tenth: neither the hub's jitter nor
        the wait behind other texts may cost a 60 s source a reading (fault B3). Events are asked again here, at the
        way out, and wait if need be (fault B18).
        """
        interval = self._intervals[entry.kind]
        last = self._sent_ms.get(entry.kind)
        if last is None or now_ms - last >= interval:
            return True
        if entry.kind not in SNAPSHOTS:
            return False
        return (entry.ts - self._sent_ts[entry.kind]) * 1000 >= interval - interval // 10

    # ---- lines out

    def next_line(self, now_ms: int) -> "bytes | None":
        """Return the line to send now, without newline, or None when there is none or the gap is not over."""
        if self._touched_ms is not None and now_ms - self._touched_ms < self._gap_ms:
            return None
        if self._flight is None:
            self._flight = self._beat(now_ms) or self._depart(now_ms)
        return None if self._flight is None else self._flight.line.encode("utf-8")

    def sent(self, now_ms: int) -> None:
        """Say that the line is out."""
        flight, self._flight = self._flight, None
        self._touched_ms = self._ok_ms = now_ms
        if flight is None or flight.kind == HEARTBEAT:
            return
        self.counts["fwd"] += 1
        self._sent_ms[flight.kind] = now_ms
        self._sent_ts[flight.kind] = flight.ts

    def send_failed(self, now_ms: int) -> None:
        """Say that nobody knows whether the line went out: it stays frozen and comes again after the gap."""
        self._touched_ms = now_ms

    def send_refused(self, now_ms: int) -> None:
        """Say that the radio will never take this line: it is dropped and counted, its amounts are carried on."""
        flight, self._flight = self._flight, None
        self._touched_ms = now_ms
        if flight is not None:
            self.counts["qdrop"] += 1
            absorb(self._carry, flight.record)

    def _depart(self, now_ms: int) -> "Entry | None":
        """Take the first entry that is due out of the queue and freeze its text."""
        for entry in list(self._queue):
            if not self._is_due(entry, now_ms):
                continue
            self._queue.remove(entry)
            amounts: "dict[str, float]" = {}
            if entry.kind == "obs_st":
                line = obs_text(self.msg_id, entry.ts, entry.record, self._limit)
                amounts = amounts_of(entry.record)
            else:
                line = status_text(entry.kind, self.msg_id, entry.ts, entry.pairs, self._limit)
            if line is not None:
                self.msg_id += 1
                return Entry(entry.kind, entry.ts, amounts, NO_PAIRS, line)
            self.counts["over"] += 1
            absorb(self._carry, amounts)
        return None

    def _beat(self, now_ms: int) -> "Entry | None":
        """Freeze a heartbeat when one is due: at the start, then at whole intervals from it."""
        if not self._heartbeat_ms or now_ms < self._beat_ms:
            return None
        while self._beat_ms <= now_ms:
            self._beat_ms += self._heartbeat_ms
        start = [
            ("sys", text_of(HEARTBEAT)),
            ("i", str(self.msg_id)),
            ("up", str((now_ms - self._boot_ms) // 1000)),
            ("ip", text_of((self.ip or "0.0.0.0")[:ADDRESS_LENGTH_MAX])),  # noqa: S104 - the seed's word for unknown
        ]
        line = heartbeat_text(start, self.error, self._counters(now_ms), self._limit)
        self.msg_id += 1
        self.error = ""
        return Entry(HEARTBEAT, 0, {}, NO_PAIRS, line)

    def _counters(self, now_ms: int) -> "list[tuple[str, int]]":
        def since(moment: "int | None") -> int:
            return -1 if moment is None else (now_ms - moment) // 1000

        counts, link = self.counts, self.link
        pairs: "list[tuple[str, int]]" = [(key, link[key]) for key in ("wc", "pm") if key in link]
        pairs += [(key, counts[key]) for key in ("udp", "jerr", "unsup", "rej", "skip")]
        pairs.append(("qsz", len(self._queue)))
        pairs += [(key, counts[key]) for key in ("qrepl", "qdrop", "fwd")]
        pairs += [(key, link[key]) for key in ("sockrec", "wifirec", "sockerr", "nwu") if key in link]
        pairs += [(key, counts[key]) for key in ("frgn", "over") if counts[key]]
        pairs.append(("last_udp_s", since(self._udp_ms)))
        pairs.append(("last_obs_s", since(self._obs_ms)))
        pairs.append(("last_ok_s", since(self._ok_ms)))
        return pairs

    # ---- what is held, and what survives a restart

    def held(self) -> "dict[str, float]":
        """Return the amounts taken in that no sent text holds yet: carried, queued, and in the frozen line."""
        total: "dict[str, float]" = dict.fromkeys(SUMS, 0)
        absorb(total, self._carry)
        for entry in self._queue:
            absorb(total, amounts_of(entry.record))
        if self._flight is not None:
            absorb(total, self._flight.record)
        return {key: total[key] for key in SUMS}

    def waiting(self) -> int:
        """Return how many texts wait, the frozen one included."""
        return len(self._queue) + (0 if self._flight is None else 1)

    def state(self) -> "dict[str, object]":
        """Return what must survive a restart as plain values for JSON; write it out before the next call."""
        return {
            "msg_id": self.msg_id,
            "carry": self._carry,
            "queue": [entry.state() for entry in self._queue],
            "flight": None if self._flight is None else self._flight.state(),
            "seen": self._seen,
        }

    def restore(
        self,
        *,
        msg_id: int,
        carry: "dict[str, float]",
        queue: "list[Entry]",
        flight: "Entry | None",
        seen: "dict[str, list[str]]",
    ) -> None:
        """Carry on from what ``state`` returned before the restart. Pacing begins anew."""
        self.msg_id = msg_id
        self._carry = carry
        self._queue = queue
        self._flight = flight
        self._seen = seen
