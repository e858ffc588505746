"""Runs the Pico's own ``main.py`` under MicroPython, with made-up modules in place of the chip's."""

import sys

from tests.micropython.garden_checks import obs

heard = [obs(0, 0.5)]
written: list[bytes] = []
elapsed = [0]


def pause_ms(duration: int) -> None:
    """Let time pass; the board's own would really wait."""
    elapsed[0] += duration


class Anything:
    """Stands for a module, a pin or a chip: every name is there and every call answers with another such thing."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *_: object, **__: object) -> object:
        return Anything()


class Uart(Anything):
    """The wire to the radio."""

    def any(self) -> int:
        return 0

    def write(self, data: bytes) -> int:
        written.append(data)
        return len(data)


class Machine(Anything):
    """The chip."""

    UART = Uart
    PWRON_RESET = 1
    WDT_RESET = 3

    def reset_cause(self) -> int:
        return 3


class Wlan(Anything):
    """The Wi-Fi chip, connected at once."""

    def isconnected(self) -> bool:
        return True

    def ifconfig(self) -> "tuple[str, str]":
        return ("192.0.2.17", "")

    def config(self, *names: object, **_: object) -> None:
        if names:  # older firmware tells no power mode
            raise ValueError(names)


class Network(Anything):
    """The network module."""

    WLAN = Wlan


class Socket(Anything):
    """A socket with one datagram to give."""

    def recv(self, _: int) -> bytes:
        if heard:
            return heard.pop()
        raise OSError(110)


class Sockets(Anything):
    """The socket module."""

    socket = Socket


class Config(Anything):
    """The user's file."""

    INTERVALS_MS = None
    GAP_MS = 0
    HEARTBEAT_MS = 900000
    SERIALS = ()
    UDP_PORT = 50222
    WATCHDOG = True


def check_main_runs_on_the_board() -> None:
    """From import to the first text on the wire; the reset's cause is in the first heartbeat."""
    sys.modules.update({"machine": Machine(), "network": Network(), "config": Config(), "socket": Sockets()})  # type: ignore[dict-item] # not modules, on purpose
    import main  # type: ignore[import-not-found] # noqa: PLC0415 - its modules exist only from here on

    board = main.Pico()
    board.ticks_ms = lambda: elapsed[0]
    board.pause_ms = pause_ms
    bridge = main.Bridge(gap_ms=0)
    loop = main.GardenLoop(bridge, board, lambda *_: None)
    for _ in range(200):
        pause_ms(50)
        loop.turn()
        if len(written) > 1:
            break
    assert len(written) == 2, (written, bridge.error)
    assert b'"sys":"dbg"' in written[0]
    assert b'"r":0.5' in written[1]
    assert bridge.link["pm"] == -1
    assert bridge.ip == "192.0.2.17"
