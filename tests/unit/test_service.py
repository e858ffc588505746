"""The service: order of stopping, crashes, signals, and what systemd hears over a real datagram socket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from stormjay.errors import StoreInUse
from stormjay.ground.clock import ManualClock
from stormjay.ground.service import EXIT_CRASHED, EXIT_FORCED, EXIT_OK, Heartbeats, Part, Service
from stormjay.ground.systemd import Notifier

pytestmark = pytest.mark.anyio


class Worker:
    """A part that works until cancelled and writes down when it ends."""

    def __init__(self, name: str, ended: list[str]) -> None:
        self.name, self.ended = name, ended
        self.started = asyncio.Event()

    async def run(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(self.name)


class Failing:
    """A part that ends when told."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.go = asyncio.Event()

    async def run(self) -> None:
        await self.go.wait()
        if self.error is not None:
            raise self.error


class Stubborn:
    """A part that does not let itself be cancelled until released."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.started = asyncio.Event()

    async def run(self) -> None:
        self.started.set()
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                continue


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 8, 6, tzinfo=UTC))


class Ear:
    """systemd's end of the socket."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(0)

    def heard(self) -> list[str]:
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return messages


@pytest.fixture(params=["path", "abstract"])
def ear(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ear, str]]:
    if request.param == "path":
        address = shown = str(tmp_path / "notify")
    else:
        address, shown = f"\0stormjay-test-{os.getpid()}", f"@stormjay-test-{os.getpid()}"
    ear = Ear(address)
    yield ear, shown
    ear.socket.close()


def service(
    clock: ManualClock,
    *parts: Part,
    notifier: Notifier | None = None,
    heartbeats: Heartbeats | None = None,
    ready: Callable[[], Awaitable[None]] | None = None,
    abandoned: list[int] | None = None,
) -> Service:
    codes = abandoned if abandoned is not None else []
    return Service(
        parts,
        clock=clock,
        notifier=notifier or Notifier(),
        heartbeats=heartbeats or Heartbeats(clock),
        status=lambda: "3 readings wait",
        ready=ready,
        abandon=codes.append,
    )


async def turns() -> None:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def test_parts_end_in_the_order_given(clock: ManualClock) -> None:
    ended: list[str] = []
    workers = [Worker(name, ended) for name in ("source", "relay", "web")]
    running = service(clock, *(Part(worker.name, worker) for worker in workers))
    with anyio.fail_after(30):
        task = asyncio.create_task(running.run())
        for worker in workers:
            await worker.started.wait()
        running.stop()
        assert await task == EXIT_OK
    assert ended == ["source", "relay", "web"]
    assert running.failed_part is None


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("error", [ValueError("broken"), StoreInUse("in use", next_step="stop the other"), None])
async def test_a_part_that_ends_stops_all_and_is_named(clock: ManualClock, error: Exception | None) -> None:
    ended: list[str] = []
    bad = Failing(error)
    running = service(clock, Part("source", Worker("source", ended)), Part("relay", bad))
    with anyio.fail_after(30), capture_logs() as logs:
        task = asyncio.create_task(running.run())
        await turns()
        bad.go.set()
        assert await task == EXIT_CRASHED
    assert running.failed_part == "relay"
    assert ended == ["source"]
    line = next(line for line in logs if line["event"] == "service.part_ended")
    assert line["part"] == "relay"
    assert line["next_step"] == getattr(error, "next_step", "")


async def test_a_part_that_does_not_end_in_its_time_is_left_behind(clock: ManualClock) -> None:
    ended: list[str] = []
    abandoned: list[int] = []
    stubborn = Stubborn()
    web = Worker("web", ended)
    running = service(clock, Part("relay", stubborn, 5.0), Part("web", web), abandoned=abandoned)
    with anyio.fail_after(30):
        task = asyncio.create_task(running.run())
        await stubborn.started.wait()
        await web.started.wait()
        running.stop()
        await turns()
        assert not ended
        await clock.advance(5.0)
        await task
    assert running.left_behind == ["relay"]
    assert ended == ["web"]
    assert abandoned == [EXIT_CRASHED]
    stubborn.release.set()
    await turns()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_in_order_and_a_second_one_at_once(clock: ManualClock, number: signal.Signals) -> None:
    abandoned: list[int] = []
    stubborn = Stubborn()
    running = service(clock, Part("relay", stubborn), abandoned=abandoned)
    with anyio.fail_after(30), capture_logs() as logs:
        task = asyncio.create_task(running.run())
        await stubborn.started.wait()
        os.kill(os.getpid(), number)
        await until(lambda: any(line["event"] == "shutdown_requested" for line in logs))
        os.kill(os.getpid(), number)
        await until(lambda: bool(abandoned))
        assert abandoned == [EXIT_FORCED]
        stubborn.release.set()
        assert await task == EXIT_OK
    assert {line["signal"] for line in logs if line["event"] == "shutdown_requested"} == {number.name}


async def test_systemd_hears_ready_only_when_ready_then_stopping(clock: ManualClock, ear: tuple[Ear, str]) -> None:
    listens = asyncio.Event()

    async def ready() -> None:
        await listens.wait()

    notifier = Notifier.from_environment({"NOTIFY_SOCKET": ear[1]})
    running = service(clock, Part("web", Worker("web", [])), notifier=notifier, ready=ready)
    with anyio.fail_after(30):
        task = asyncio.create_task(running.run())
        await turns()
        assert not any("READY=1" in message for message in ear[0].heard())
        listens.set()
        await turns()
        assert "READY=1\nSTATUS=3 readings wait" in ear[0].heard()
        running.stop()
        await task
    assert "STOPPING=1\nSTATUS=stopping" in ear[0].heard()


async def test_the_watchdog_starves_when_a_loop_hangs_and_is_fed_again(
    clock: ManualClock, ear: tuple[Ear, str]
) -> None:
    """Fault B10: what feeds the watchdog is the loop at work, not a timer."""
    heartbeats = Heartbeats(clock)
    beat = heartbeats.register("relay", silent_seconds_max=20)
    notifier = Notifier.from_environment(
        {"NOTIFY_SOCKET": ear[1], "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, process_id=7
    )
    running = service(clock, Part("relay", Worker("relay", [])), notifier=notifier, heartbeats=heartbeats)
    with anyio.fail_after(30), capture_logs() as logs:
        task = asyncio.create_task(running.run())
        await turns()
        assert ear[0].heard().count("WATCHDOG=1") == 1
        beat()
        await clock.advance(15)
        assert ear[0].heard().count("WATCHDOG=1") == 1
        await clock.advance(15)
        messages = ear[0].heard()
        assert "WATCHDOG=1" not in messages
        assert "STATUS=no sign of life from relay" in messages
        beat()
        await clock.advance(15)
        assert "WATCHDOG=1" in ear[0].heard()
        running.stop()
        await task
    assert {tuple(line["loops"]) for line in logs if line["event"] == "service.loop_hangs"} == {("relay",)}
    assert heartbeats.hanging() == []


async def test_a_broken_status_ends_the_service_rather_than_the_watchdog_silently(clock: ManualClock) -> None:
    def broken() -> str:
        raise RuntimeError("no status")

    running = Service(
        [Part("web", Worker("web", []))],
        clock=clock,
        notifier=Notifier(),
        heartbeats=Heartbeats(clock),
        status=broken,
        abandon=lambda _code: None,
    )
    with anyio.fail_after(30):
        assert await running.run() == EXIT_CRASHED
    assert running.failed_part == "service.watchdog"


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_the_watchdogs_time_is_read_from_the_environment(variables: dict[str, str], seconds: float | None) -> None:
    assert Notifier.from_environment(variables, process_id=7).watchdog_seconds == seconds


def test_without_systemd_or_with_a_dead_socket_nothing_happens(tmp_path: Path) -> None:
    for notifier in (Notifier(), Notifier(str(tmp_path / "nobody"))):
        notifier.ready("up")
        notifier.alive()
