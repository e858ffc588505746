"""Tells systemd how the service is: one datagram per message, no library needed (sd_notify(3)).

Without ``NOTIFY_SOCKET`` every call does nothing. A message that cannot be sent is dropped: the service matters more
than what is said about it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

_STATUS_CHARACTERS_MAX = 500


class Notifier:
    """Sends ``READY=1``, ``STATUS=...``, ``WATCHDOG=1`` and ``STOPPING=1``."""

    def __init__(self, address: str = "", watchdog_seconds: float | None = None) -> None:
        self.watchdog_seconds = watchdog_seconds
        """Within how many seconds systemd wants to hear that the service works, or None."""
        self._address = "\0" + address[1:] if address.startswith("@") else address

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *, process_id: int | None = None) -> Notifier:
        """Return the notifier that systemd's variables ask for."""
        seconds: float | None = None
        microseconds = environment.get("WATCHDOG_USEC", "")
        meant_for = environment.get("WATCHDOG_PID", "")
        if microseconds.isascii() and microseconds.isdigit() and int(microseconds) > 0:
            own = str(process_id if process_id is not None else os.getpid())
            if meant_for in ("", own):
                seconds = int(microseconds) / 1_000_000
        return cls(environment.get("NOTIFY_SOCKET", ""), seconds)

    def ready(self, status: str) -> None:
        """Say that the service is up."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, text: str) -> None:
        """Say in one line what the service does."""
        self._send(f"STATUS={_one_line(text)}")

    def alive(self) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """Say that the service is about to end."""
        self._send(f"STOPPING=1\nSTATUS={_one_line(status)}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(0)
                sender.connect(self._address)
                sender.send(message.encode())
        except (OSError, AttributeError):  # AttributeError: a system without unix sockets
            return


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_STATUS_CHARACTERS_MAX]
