"""A real Mosquitto broker on a free loopback port, for tests that need one.

with mosquitto(tmp_path) as broker:
    ...  # broker.url, broker.port
    broker.kill()      # as a power cut would
    broker.start()     # the same port, the same data folder
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tests.servers import require

_START_SECONDS = 10.0
_PORT_TRIES = 5


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"]))


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Mosquitto:
    """One broker and its folder.

    Attributes:
        folder: Where configuration, passwords and stored messages lie.
        port: Loopback port; stays the same over ``kill`` and ``start``.
        user, password: What a client has to show; both empty when anybody may connect.
        durable: Every change is on disk before the next, so that ``kill`` loses nothing.
        tls: Speaks only TLS, with a certificate that ``ca_file`` vouches for.
    """

    folder: Path
    port: int = 0
    user: str = ""
    password: str = ""
    durable: bool = False
    tls: bool = False
    said: deque[str] = field(default_factory=lambda: deque(maxlen=50))
    _process: subprocess.Popen[str] | None = None
    _listener: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The broker's address, with user and password (percent-encoded) when it asks for them."""
        who = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user else ""
        return f"mqtt{'s' if self.tls else ''}://{who}127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        """The certificate that vouches for the broker, when it speaks TLS."""
        return self.folder / "broker.crt"

    def start(self) -> None:
        """Start, or start again after ``kill`` or ``stop``, and return when it accepts connections.

        Raises:
            RuntimeError: It did not come up; the text holds its last words.
        """
        for _ in range(1 if self.port else _PORT_TRIES):
            if self._try_start(self.port or free_port()):
                return
        raise RuntimeError("mosquitto did not start: " + " | ".join(self.said))

    def _try_start(self, port: int) -> bool:
        program = _program("mosquitto")
        assert program is not None
        ready = threading.Event()
        ended = threading.Event()
        process = subprocess.Popen(
            [program, "-c", str(self._write_configuration(port))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def listen() -> None:
            # The pipe is read to its end, or the broker would stop when it is full.
            assert process.stdout is not None
            with process.stdout as lines:
                for line in lines:
                    self.said.append(line.rstrip())
                    if "running" in line:
                        ready.set()
            ended.set()
            ready.set()

        self._process = process
        self._listener = threading.Thread(target=listen, daemon=True)
        self._listener.start()
        if ready.wait(_START_SECONDS) and not ended.is_set():
            self.port = port
            return True
        self.kill()
        return False

    def _write_configuration(self, port: int) -> Path:
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        lines = [
            "per_listener_settings false",
            "persistence true",
            f"persistence_location {data}/",
            "log_dest stderr",
            "connection_messages false",
            "max_queued_messages 0",
            f"listener {port} 127.0.0.1",
        ]
        if self.tls:
            lines += [f"certfile {self._write_certificate()}", f"keyfile {self.folder / 'broker.key'}"]
        if os.getuid() == 0:
            # Otherwise it gives up root for a user that cannot write this folder.
            lines.append("user root")
        if self.durable:
            lines += ["autosave_on_changes true", "autosave_interval 1"]
        if self.user:
            lines += ["allow_anonymous false", f"password_file {self._write_passwords()}"]
        else:
            lines.append("allow_anonymous true")
        path = self.folder / "mosquitto.conf"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _write_passwords(self) -> Path:
        path = self.folder / "passwords"
        if not path.exists():
            program = _program("mosquitto_passwd")
            assert program is not None, "mosquitto_passwd comes in the package mosquitto"
            subprocess.run(
                [program, "-b", "-c", str(path), self.user, self.password], check=True, capture_output=True, timeout=10
            )
        return path

    def _write_certificate(self) -> Path:
        if not self.ca_file.exists():
            program = _program("openssl")
            require("openssl", found=program is not None, how="apt-get install openssl")
            assert program is not None
            command = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            command += ["-keyout", str(self.folder / "broker.key"), "-out", str(self.ca_file), "-days", "2"]
            command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
            subprocess.run(command, check=True, capture_output=True, timeout=20)
        return self.ca_file

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL); nothing that is not on disk survives."""
        self._end(lambda process: process.kill())

    def stop(self) -> None:
        """End it politely (SIGTERM); it stores what it holds."""
        self._end(lambda process: process.terminate())

    def _end(self, how: Callable[[subprocess.Popen[str]], None]) -> None:
        process, listener = self._process, self._listener
        self._process = self._listener = None
        if process is None:
            return
        how(process)
        process.wait(_START_SECONDS)
        if listener is not None:
            listener.join(_START_SECONDS)


@contextmanager
def mosquitto(
    folder: Path, *, user: str = "", password: str = "", durable: bool = False, tls: bool = False
) -> Iterator[Mosquitto]:
    """Run a broker for the length of the block; the test is skipped (or fails under CI) where none is installed.

    Args:
        folder: An empty folder; ``tmp_path`` will do.
        user: With ``password``: what clients must show. Empty lets anybody in.
        password: See ``user``.
        durable: Store on every change instead of every half hour, so that ``kill`` keeps queued messages.
        tls: Speak TLS; clients check against ``broker.ca_file``.
    """
    require("mosquitto", found=_program("mosquitto") is not None, how="apt-get install mosquitto")
    broker = Mosquitto(folder / "mosquitto", user=user, password=password, durable=durable, tls=tls)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
