"""Carries one outbox to its far side: several sends at a time, settled in groups, held by the breaker.

One loop does everything but the sending itself: take in finished sends, judge and store them in one transaction, claim
more, wait. It feeds the heartbeat on each turn, also while it waits (fault B10). A stop cancels what is in the air and
leaves those items as they were (fault B13); what was answered before the stop is stored.

If the disk refuses, answers already received are kept and stored later, and nothing new is sent meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from stormjay.errors import StoreUnavailable
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import Clock, WallWatch, seeded_random
from stormjay.ground.outbox.breaker import Breaker
from stormjay.ground.outbox.policy import RelayPolicy, RelayStatus, Sender
from stormjay.ground.outbox.port import Claimed, Delivered, Final, Outbox, Outcome, Settlement, TryLater, Work
from stormjay.ground.outbox.report import Report
from stormjay.ground.outbox.settling import Settling, waking
from stormjay.ground.outbox.suspects import CRASHED, Suspects
from stormjay.ground.stats.port import Statistics

T = TypeVar("T")
Result = tuple[Claimed[T], Outcome]
GONE = "what this row stands for no longer exists"


class Relay(Generic[T]):
    """Works on one outbox; ``run`` goes on until cancelled, ``drain`` until nothing can be sent now."""

    def __init__(
        self,
        outbox: Outbox[T],
        sender: Sender[T],
        policy: RelayPolicy,
        *,
        clock: Clock,
        statistics: Statistics,
        announcer: Announcer,
        heartbeat: Callable[[], None] = lambda: None,
        randomness: random.Random | None = None,
    ) -> None:
        self._outbox = outbox
        self._sender = sender
        self._policy = policy
        self._clock, self._wall = clock, WallWatch(clock)
        self._announcer = announcer
        self._heartbeat = heartbeat
        self._report = Report(outbox.destination, statistics, announcer)
        self._breaker = Breaker(policy.probe, randomness or seeded_random())
        self._sending: dict[asyncio.Task[list[Result[T]]], list[Claimed[T]]] = {}
        self._ready: deque[Claimed[T]] = deque()
        """Claimed and noted, to be sent as soon as a send is finished."""
        self._unsaved: list[Settlement] = []
        self._wake_waiting = False
        self._settling = Settling(policy.schedule, remembered_max=2 * outbox.claims_max)
        self._suspects = Suspects(Work())
        self._alone = self._alone_is_noted = False
        """Whether a suspect is under way, so that nothing else may be; and whether the stored note says so."""
        self._look = asyncio.Event()
        self._gauges_at = float("-inf")
        self._last_success_at: datetime | None = None

    def status(self) -> RelayStatus:
        """Return what a status page shows."""
        return RelayStatus(
            destination=self._outbox.destination,
            down=self._breaker.is_open,
            reason=self._breaker.reason,
            probe_in_seconds=self._breaker.seconds_to_probe(self._clock.monotonic()),
            in_flight=len(self._sending),
            last_success_at=self._last_success_at,
        )

    async def run(self) -> None:
        """Deliver until cancelled. A store that refuses is waited for."""
        async with waking(self._look, self._announcer, self._policy.wake_topic):
            await self._work(until_quiet=False)

    async def drain(self) -> None:
        """Deliver what is due now and return when nothing more can be sent without waiting.

        Raises:
            StoreUnavailable: Rows cannot be read or stored.
        """
        await self._work(until_quiet=True)

    async def _work(self, *, until_quiet: bool) -> None:
        recalled = False
        try:
            while True:
                self._heartbeat()
                refused = False
                try:
                    if not recalled:
                        await self._recall()
                        recalled = True
                    await self._take_in(self._finished())
                    await self._send_more()
                    await self._clear_note_of_alone()
                    await self._show_gauges()
                except StoreUnavailable as error:
                    if until_quiet:
                        raise
                    self._report.trouble(error)
                    refused = True
                if until_quiet and not (self._sending or self._ready or self._unsaved):
                    return
                if refused or not self._unsaved:
                    await self._wait(pause=refused)
        finally:
            await self._stop()

    async def _recall(self) -> None:
        """Find out what an earlier process died with."""
        found = await self._outbox.unfinished_work()
        self._suspects = Suspects(found, deaths_max=self._policy.deaths_max)
        for item_id in self._suspects.crashed:
            error = CRASHED.format(deaths=self._suspects.deaths(item_id))
            self._report.crashed(item_id, error)
            await self._outbox.settle([Final(item_id, error)])
        if found != Work():
            await self._outbox.note_work(self._suspects.note())

    async def _send_more(self) -> None:
        self._look.clear()
        if self._unsaved or self._breaker.seconds_to_probe(self._clock.monotonic()) > 0:
            return
        if (self._suspects or self._breaker.is_open) and not self._sending:
            # Alone, for two reasons: a suspect so that a death is its own, a probe to spare the far side.
            await self._send_one()
        if not self._is_free():
            return
        wanted = self._policy.in_flight_max * self._batch_max()
        if len(self._ready) <= wanted // 2:
            free_now = (self._policy.in_flight_max - len(self._sending)) * self._batch_max()
            self._ready += await self._claim(wanted + free_now - len(self._ready))
        self._start_ready()

    def _is_free(self) -> bool:
        """Tell whether items may go side by side."""
        return not (self._unsaved or self._suspects or self._alone or self._breaker.is_open)

    def _batch_max(self) -> int:
        return max(1, self._sender.batch_max)

    def _start_ready(self) -> None:
        while self._ready and self._is_free() and len(self._sending) < self._policy.in_flight_max:
            self._start([self._ready.popleft() for _ in range(min(self._batch_max(), len(self._ready)))])

    async def _send_one(self) -> None:
        while (suspect := self._suspects.take()) is not None:
            try:
                claimed = await self._outbox.claim(1, only=[suspect])
                if claimed:
                    await self._note(self._suspects.note(alone=suspect), claimed)
            except StoreUnavailable:
                self._suspects.give_back(suspect)
                raise
            if claimed:
                self._alone = self._alone_is_noted = True
                self._start(self._without_gone(claimed))
                return
        if self._breaker.is_open:
            others = await self._claim(1, skip=self._breaker.skip_when_probing())
            self._start(others or await self._claim(1))

    async def _claim(self, limit: int, skip: Sequence[int] = ()) -> list[Claimed[T]]:
        claimed = await self._outbox.claim(limit, order=self._policy.order, skip=skip)
        if claimed:
            in_work = [*self._in_work(), *(item.id for item in self._ready), *(item.id for item in claimed)]
            await self._note(self._suspects.note(in_work=in_work), claimed)
        return self._without_gone(claimed)

    def _in_work(self) -> set[int]:
        return {item.id for group in self._sending.values() for item in group}

    async def _note(self, work: Work, claimed: list[Claimed[T]]) -> None:
        try:
            await self._outbox.note_work(work)
        except BaseException:
            self._outbox.release([item.id for item in claimed])
            raise
        self._alone_is_noted = False

    async def _clear_note_of_alone(self) -> None:
        """Take back the note of a suspect that came through: it is not to blame for a kill while nothing is in work."""
        if self._alone_is_noted and not self._sending:
            await self._outbox.note_work(self._suspects.note())
            self._alone_is_noted = False

    def _without_gone(self, claimed: list[Claimed[T]]) -> list[Claimed[T]]:
        """Return the items; rows whose item no longer exists are to be settled on the next turn."""
        self._unsaved += [Final(item.id, GONE, counts=False) for item in claimed if item.item is None]
        return [item for item in claimed if item.item is not None]

    def _start(self, group: list[Claimed[T]]) -> None:
        if group:
            self._settling.remember(group)
            self._sending[asyncio.create_task(self._send(group))] = group

    async def _send(self, group: list[Claimed[T]]) -> list[Result[T]]:
        items = [item.item for item in group if item.item is not None]
        outcomes: Sequence[Outcome]
        try:
            outcomes = await self._sender.send(items)
            if len(outcomes) != len(group):
                outcomes = [TryLater(f"{len(outcomes)} outcomes for {len(group)} items")] * len(group)
        except Exception as error:  # noqa: BLE001 - whatever an item makes the sender raise is that item's failure
            self._report.trouble(error)
            outcomes = [TryLater(f"{type(error).__name__}: {error}")] * len(group)
        return list(zip(group, outcomes, strict=True))

    def _finished(self) -> list[Result[T]]:
        results: list[Result[T]] = []
        for task in [task for task in self._sending if task.done()]:
            group = self._sending.pop(task)
            if task.cancelled():
                self._outbox.release([item.id for item in group])
            else:
                results += task.result()
        self._alone = self._alone and bool(self._sending)
        return results

    async def _take_in(self, results: list[Result[T]]) -> None:
        judged = self._breaker.judge([(item.id, outcome) for item, outcome in results], self._clock.monotonic())
        self._outbox.release(judged.untouched)
        self._report.outcomes(results)
        self._report.breaker(judged, self._breaker.reason)
        if self._breaker.is_open:
            self._outbox.release([self._ready.popleft().id for _ in range(len(self._ready))])
        self._start_ready()  # before what takes time, so that no connection idles meanwhile
        now = self._clock.now()
        if any(isinstance(outcome, Delivered) for _, outcome in judged.over):
            self._last_success_at = now
        self._unsaved += self._settling.settlements(judged, self._in_work(), now)
        # First waiting rows become due (also those timed by a wrong clock), then those at fault get their own times.
        self._wake_waiting = self._wake_waiting or judged.closed or self._wall.went_back()
        while self._wake_waiting:
            self._wake_waiting = await self._outbox.wake(skip=self._breaker.at_fault()) > 0
            self._heartbeat()
        if self._unsaved:
            await self._outbox.settle(self._unsaved)
            self._report.stored(self._unsaved, now)
            self._unsaved = []

    async def _show_gauges(self) -> None:
        now = self._clock.monotonic()
        if now >= self._gauges_at:
            self._gauges_at = now + self._policy.heartbeat_seconds
            self._report.gauges(await self._outbox.counts(), await self._outbox.oldest(), self._clock.now())

    async def _wait(self, *, pause: bool) -> None:
        """Wait for a finished send, for new items, or for the time at which something can be done.

        Args:
            pause: Something was refused: let at least a poll interval pass.
        """
        seconds = min(self._policy.poll_seconds, self._policy.heartbeat_seconds)
        if not pause and not self._sending and not self._unsaved:
            seconds = min(seconds, await self._seconds_to_next_chance(seconds))
        waiting: list[asyncio.Task[Any]] = [asyncio.ensure_future(self._clock.sleep(seconds))]
        if not pause:
            waiting.append(asyncio.ensure_future(self._look.wait()))
        try:
            await asyncio.wait([*self._sending, *waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()

    async def _seconds_to_next_chance(self, otherwise: float) -> float:
        if self._breaker.is_open:
            return self._breaker.seconds_to_probe(self._clock.monotonic()) or otherwise
        try:
            due = await self._outbox.next_due()
        except StoreUnavailable:
            return otherwise
        return otherwise if due is None else max(0.0, (due - self._clock.now()).total_seconds())

    async def _stop(self) -> None:
        """Give back what is in the air, store what was answered, and leave a note without suspects of this run."""
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        self._outbox.release([self._ready.popleft().id for _ in range(len(self._ready))])
        with contextlib.suppress(StoreUnavailable):
            await self._take_in(self._finished())
            await self._outbox.note_work(self._suspects.note())
