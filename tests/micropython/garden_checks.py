"""Checks of the Pico's loop with a made-up board; MicroPython and CPython run them alike."""

import json

from garden_loop import GardenLoop  # type: ignore[import-not-found] # a file of the Pico, of no package
from stormjay.weather.bridge_core import Bridge

TYPE_CHECKING = False
if TYPE_CHECKING:  # MicroPython has no such module; a checker takes the name for true
    from typing import Any

T0 = 1773824400
WRAP = 1 << 30


class Board:
    """A board whose time moves only by waiting, with a hub that speaks at given moments."""

    def __init__(self, start_ticks: int = 0) -> None:
        self.ticks = start_ticks
        self.elapsed = 0
        self.arrivals: list[tuple[int, bytes]] = []
        self.wifi_works = True
        self.socket_works = True
        self.uart_takes: int | None = None
        self.connected = False
        self.wifi_starts: list[int] = []
        self.sockets = 0
        self.written = b""
        self.fed: list[int] = []
        self.resets: list[int] = []
        self.broken = False

    def ticks_ms(self) -> int:
        return self.ticks % WRAP

    def ticks_diff(self, new: int, old: int) -> int:
        return (new - old + WRAP // 2) % WRAP - WRAP // 2

    def pause_ms(self, duration: int) -> None:
        self.ticks += duration
        self.elapsed += duration

    def feed(self) -> None:
        self.fed.append(self.elapsed)

    def wifi_off(self) -> None:
        self.connected = False

    def wifi_on(self) -> None:
        pass

    def wifi_connect(self) -> None:
        self.wifi_starts.append(self.elapsed)
        self.connected = self.wifi_works

    def wifi_is_up(self) -> bool:
        if self.broken:
            raise RuntimeError("chip")
        return self.connected

    def address(self) -> str:
        return "192.0.2.17"

    def power_mode(self) -> int:
        return 0

    def open_socket(self) -> None:
        self.sockets += 1
        if not self.socket_works:
            raise OSError(12)

    def close_socket(self) -> None:
        raise OSError(9)

    def receive(self) -> "bytes | None":
        if self.arrivals and self.arrivals[0][0] <= self.elapsed + 1000:
            self.pause_ms(max(0, self.arrivals[0][0] - self.elapsed))
            return self.arrivals.pop(0)[1]
        self.pause_ms(1000)
        return None

    def write(self, data: bytes) -> int:
        taken = len(data) if self.uart_takes is None else min(self.uart_takes, len(data))
        self.written += data[:taken]
        return taken

    def blink(self) -> None:
        pass

    def collect(self) -> None:
        pass

    def reset(self) -> None:
        self.resets.append(self.elapsed)


def silent(*_: object) -> None:
    """Say nothing."""


def obs(minute: int, rain: float) -> bytes:
    """Return an observation of that minute as the hub sends it."""
    values = [T0 + 60 * minute, 0.4, 1.1, 2.0, 180, 3, 1008.0, 6.0, 80, 900, 0.1, 5, rain, 1, 0, 0, 2.6, 1]
    return json.dumps({"type": "obs_st", "obs": [values]}).encode()


def run(board: Board, until_ms: int, bridge: "Bridge | None" = None) -> Bridge:
    """Turn the loop until that time; every turn is short enough for the watchdog."""
    bridge = bridge or Bridge()
    loop = GardenLoop(bridge, board, silent)
    while board.elapsed < until_ms and not board.resets:
        before = board.elapsed
        loop.turn()
        assert board.elapsed - before <= 8000
    return bridge


def steps(times: "list[int]") -> "list[int]":
    """Return the time between each and the next."""
    return [times[place] - times[place - 1] for place in range(1, len(times))]


def texts(board: Board) -> "list[dict[str, Any]]":
    """Return the texts on the wire."""
    return [json.loads(line) for line in board.written.decode().split("\n") if line]


def check_an_hour_of_weather_reaches_the_wire() -> None:
    """Each minute's rain arrives, each datagram comes twice, and the board's time wraps meanwhile."""
    board = Board(start_ticks=WRAP - 600000)
    for minute in range(60):
        for copy in (0, 4):
            board.arrivals.append((10000 + minute * 60000 + copy, obs(minute, 0.25)))
    run(board, 3600000 + 20000)
    found = texts(board)
    readings = [text for text in found if text.get("et") == "obs_st"]
    beats = [text for text in found if text.get("sys") == "dbg"]
    assert len(readings) == 60, len(readings)
    assert abs(sum([text["r"] for text in readings]) - 15.0) < 0.001
    assert beats[0]["up"] == 0
    assert len(beats) == 5, len(beats)
    assert beats[-1]["ip"] == "192.0.2.17"
    assert beats[-1]["up"] >= 3600
    assert max([len(line) for line in board.written.split(b"\n")]) <= 232
    assert not board.resets


def check_no_wifi_waits_longer_and_still_beats() -> None:
    """Waits between tries grow from 3 s to 60 s; heartbeats go on; after half an hour the board resets itself."""
    board = Board()
    board.wifi_works = False
    run(board, 3600000)
    gaps = steps(board.wifi_starts)
    assert 24000 <= gaps[0] <= 27000, gaps
    assert gaps == sorted(gaps)
    assert 80000 <= gaps[-1] <= 84000, gaps
    assert 1800000 <= board.resets[0] <= 1802000
    beats = texts(board)
    assert [text["up"] for text in beats][:2] == [0, 900], beats
    assert beats[1]["err"] == "wifi: no connection"
    assert max(steps(board.fed)) <= 2000


def check_silence_reopens_the_socket_then_the_wifi() -> None:
    """After 120 s without a datagram a new socket, after 300 s a new Wi-Fi connection, then weather as before."""
    board = Board()
    board.arrivals = [(400000, obs(0, 0.5))]
    bridge = run(board, 460000)
    assert board.sockets == 3, board.sockets
    assert len(board.wifi_starts) == 2
    assert [text["r"] for text in texts(board) if "et" in text] == [0.5]
    assert bridge.link["wifirec"] == 1
    assert not board.resets


def check_a_socket_that_fails_is_tried_again() -> None:
    """Errors are counted and told, with growing waits in between."""
    board = Board()
    board.socket_works = False
    bridge = run(board, 100000)
    assert 3 <= board.sockets <= 9, board.sockets
    assert bridge.link["sockerr"] == board.sockets
    assert bridge.error.startswith("socket: OSError")


def check_a_line_cut_short_comes_again_whole() -> None:
    """What the wire did not take whole is ended with a newline and sent again, byte for byte."""
    board = Board()
    board.uart_takes = 50
    bridge = Bridge()
    loop = GardenLoop(bridge, board, silent)
    loop.turn()
    board.uart_takes = None
    while board.elapsed < 20000:
        loop.turn()
    parts = board.written.split(b"\n")
    assert len(parts[0]) == 50
    assert parts[1].startswith(parts[0])
    assert json.loads(parts[1].decode())["sys"] == "dbg"


def check_errors_without_end_reset_the_board() -> None:
    """A fault that stays is told, and ends in a reset after ten turns."""
    board = Board()
    bridge = Bridge()
    loop = GardenLoop(bridge, board, silent)
    while board.elapsed < 10000:
        loop.turn()
    board.broken = True
    for _ in range(10):
        loop.turn()
    assert board.resets
    assert bridge.error.startswith("loop: RuntimeError")


CHECKS = (
    check_an_hour_of_weather_reaches_the_wire,
    check_no_wifi_waits_longer_and_still_beats,
    check_silence_reopens_the_socket_then_the_wifi,
    check_a_socket_that_fails_is_tried_again,
    check_a_line_cut_short_comes_again_whole,
    check_errors_without_end_reset_the_board,
)
