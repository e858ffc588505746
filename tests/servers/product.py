"""The real product as a process of its own: started from its settings, listened to, killed for real."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import httpx

START_SECONDS_MAX = 30.0
LINES_KEPT = 400
SERVING = re.compile(r'"event":"web\.started","url":"([^"]+)"')


class Product:
    """One running ``stormjay``; its log is read by a thread, so that it never blocks on a full pipe.

    Attributes:
        process: The process.
        lines: The last lines that it wrote.
    """

    def __init__(self, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        # The environment is small on purpose: whatever the machine has set must not reach the product.
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stormjay", *arguments],
            env={**keep, "STORMJAY_LOG_FORMAT": "json", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._heard: Queue[str | None] = Queue(100_000)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line)
                self._heard.put(line)
        self._heard.put(None)

    def said(self, pattern: re.Pattern[str], seconds: float = START_SECONDS_MAX) -> re.Match[str]:
        """Return the first match in what it says from now on.

        Raises:
            AssertionError: It ended, or did not say so in time.
        """
        while True:
            try:
                line = self._heard.get(timeout=seconds)
            except Empty:
                line = None
            if line is None:
                raise AssertionError(f"never said {pattern.pattern}:\n{''.join(self.lines)[-4000:]}")
            found = pattern.search(line)
            if found:
                return found

    def url(self) -> str:
        """Wait until it takes requests; return its address."""
        return self.said(SERVING)[1]

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        self._reader.join(10)

    def stop(self, seconds: float = 20.0) -> int:
        """Ask it to stop; return its exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code


@contextmanager
def product(*arguments: str, environment: Mapping[str, str]) -> Iterator[Product]:
    """Run it until the block ends, and never longer."""
    running = Product(arguments, environment)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()


def rows(path: Path, sql: str) -> list[Any]:
    """Return rows of a database file that a running product may be writing; none while it is not there yet."""
    if not path.exists():
        return []
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def wait_until(condition: Callable[[], bool], seconds: float, process: Product | None = None) -> None:
    """Look again and again until a condition of another process holds.

    Raises:
        AssertionError: It did not hold in time.
    """
    tick = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        tick.wait(0.05)
    log = "" if process is None else "".join(process.lines)[-4000:]
    raise AssertionError(f"it did not come about in {seconds} s\n{log}")


def get(url: str) -> Any:
    """Return the JSON of an address, or None while it answers with an error."""
    answer = httpx.get(url, timeout=10, trust_env=False)
    return answer.json() if answer.status_code == httpx.codes.OK else None
