"""The journal: every packet heard is on disk, as a record or as a refusal with its reason, before anything else.

What survives what: a packet whose ``capture`` has returned survives a killed process and a power cut, in the database
or, while that cannot be written, in ``spool.ndjson`` beside it. What neither can take waits in memory up to a bound,
counted and reported, and is tried again with each capture and by ``run``.

The first capture of a key that is committed is the one whose receive time, message number and link the row keeps;
everything else in the tables is a function of the set of packets (CONVERGENCE.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from stormjay.errors import StoreDamaged, StoreUnavailable
from stormjay.ground import timestamps
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import Clock
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Statistics
from stormjay.weather import journal_metrics as metrics
from stormjay.weather.fields import ranges
from stormjay.weather.journal_rows import received_text
from stormjay.weather.journal_schema import (
    FIRST_QUEUE,
    MIGRATIONS,
    ensure_queue,
    fill_identities,
    queue_table,
)
from stormjay.weather.journal_settings import JournalSettings
from stormjay.weather.journal_spool import Spool, SpoolFull
from stormjay.weather.journal_status import STATES, refresh_states
from stormjay.weather.journal_write import Capture, Writing, refuse_batch, store_batch
from stormjay.weather.parser import Parser
from stormjay.weather.radio.port import TELEMETRY_APP, TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.records import Captured, ParsedEvent

__all__ = ["SPOOL_NAME", "Journal", "JournalSettings"]

log = structlog.get_logger(__name__)

SPOOL_NAME = "spool.ndjson"
_REPLAY_PACKETS = 500
_STORE_FAULTS = (StoreUnavailable, StoreDamaged, sqlite3.Error)


class Journal:
    """One ``weatherstation.db``; make one with ``open``, end it with ``close``."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        settings: JournalSettings,
        statistics: Statistics,
        announcer: Announcer,
    ) -> None:
        self.database = database
        self.parser = Parser(ranges(settings.ranges))
        self.settings = settings
        self.queues = (FIRST_QUEUE, *(queue_table(destination.name) for destination in settings.destinations))
        """Tables that get a row for each new reading."""
        self._clock = clock
        self._statistics = statistics
        self._announcer = announcer
        self._spool = Spool(database.path.with_name(SPOOL_NAME), settings.spool_bytes_max)
        self._held: list[MeshPacket] = []
        self._outside = asyncio.Lock()
        """Held while spool or memory change: nothing may be added to a spool that is about to be removed."""
        metrics.declare(statistics)
        statistics.watch(self._refresh_gauges)

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Clock,
        settings: JournalSettings | None = None,
        statistics: Statistics,
        announcer: Announcer,
        owner: bool = True,
    ) -> Journal:
        """Open or make the file, bring it to the schema, and take in what an earlier run left in the spool.

        Args:
            path: ``weatherstation.db``; a file of the seed's programs opens and carries on.
            clock: Wall time for capture, states and file names.
            settings: The defaults when None.
            statistics: Where packets are counted.
            announcer: Who is told of each record after its commit.
            owner: False for a command that looks into the file of a running service; it leaves the spool alone.

        Raises:
            StoreInUse, StoreDamaged, StoreUnavailable: As ``Database.open``.
            SettingsError: A destination's name cannot name a table.
        """
        settings = settings or JournalSettings()
        database = await Database.open(path, MIGRATIONS, clock=clock, owner=owner)
        try:
            journal = cls(database, clock=clock, settings=settings, statistics=statistics, announcer=announcer)
            if database.set_aside is not None:
                log.error("journal.file_set_aside", path=str(path), moved_to=str(database.set_aside))
            if owner:
                await journal._prepare()
        except BaseException:
            await database.close()
            raise
        return journal

    async def _prepare(self) -> None:
        created_at = self.writing().created_at

        def work(connection: sqlite3.Connection) -> dict[str, int]:
            doubles = fill_identities(connection)
            added = {place.name: ensure_queue(connection, place, created_at) for place in self.settings.destinations}
            return {"doubles": doubles, **added}

        found = await self.database.write(work)
        if any(found.values()):
            log.info("journal.prepared", **found)
        await self.replay_waiting()
        await self.refresh_states()

    async def close(self) -> None:
        """Take what waits to disk and close the file. Closing twice is harmless."""
        if self._held:
            await self._keep([], "closing")
        if self._held:  # of no use to anybody from here on
            log.error("journal.packets_lost", packets=len(self._held), next_step="make room on the disk")
        await self.database.close()

    async def capture(self, packet: MeshPacket) -> Captured:
        """Keep one packet; see ``capture_many``."""
        return (await self.capture_many([packet]))[0]

    async def capture_many(self, packets: Sequence[MeshPacket]) -> list[Captured]:
        """Keep packets in one commit and say what became of each, in their order.

        Texts are parsed and stored as what they are, or go to the ledger with their reason; a node's own telemetry
        goes to ``native_telemetry``; packets of other ports are only counted (``ignored``). Never raises for what is
        in a packet, nor for a store that cannot be written: then the answer is ``spooled`` (or ``lost`` when spool
        and memory are full).
        """
        captures = [self._read(packet) for packet in packets]
        known = [capture for capture in captures if capture is not None]
        results = await self._store(known, lambda c, w: store_batch(c, known, w)) if known else []
        if len(known) < len(captures):
            stored = iter(results)
            results = [Captured("ignored") if capture is None else next(stored) for capture in captures]
        metrics.count(self._statistics, packets, results)
        return results

    async def refuse_many(self, packets: Sequence[MeshPacket], reason: str) -> list[Captured]:
        """Put packets into the ledger unread, ``rejected`` with that reason (a sender that is not allowed)."""
        captures = [Capture(packet, None) for packet in packets]
        results = await self._store(captures, lambda c, w: refuse_batch(c, captures, reason, w), keep=False)
        metrics.count(self._statistics, packets, results)
        return results

    def _read(self, packet: MeshPacket) -> Capture | None:
        if packet.portnum == TEXT_MESSAGE_APP:
            return Capture(packet, self.parser.parse_packet(packet))
        if packet.portnum == TELEMETRY_APP and packet.telemetry:
            return Capture(packet, None)
        return None

    async def _store(
        self,
        captures: Sequence[Capture],
        work: Callable[[sqlite3.Connection, Writing], list[Captured]],
        *,
        keep: bool = True,
    ) -> list[Captured]:
        writing = self.writing()
        try:
            results = await self.database.write(lambda connection: work(connection, writing))
        except _STORE_FAULTS as error:
            if not keep:
                log.warning("journal.refusal_not_kept", error=str(error), packets=len(captures))
                return [Captured("lost", reason=str(error)) for _ in captures]
            return await self._keep([capture.packet for capture in captures], str(error))
        self._announce(captures, results)
        if self._held or self._spool.waiting():  # the store is back
            await self.replay_waiting()
        return results

    def _announce(self, captures: Sequence[Capture], results: Sequence[Captured]) -> None:
        if self._announcer.listeners == 0:
            return
        for (packet, event), result in zip(captures, results, strict=True):
            if result.kind == "weather" and not result.duplicate and event is not None and event.body is not None:
                self._announcer.announce(
                    "reading",
                    source_node_id=packet.source_node_id,
                    source_ts_utc=timestamps.format_us(event.body.epoch_us or 0),
                    reading_id=result.row_id,
                )
            else:
                self._announcer.announce(
                    "packet",
                    source_node_id=packet.source_node_id,
                    packet_type=result.kind,
                    reason=result.reason,
                    received_at_utc=received_text(packet.received_at),
                )

    async def _keep(self, packets: list[MeshPacket], why: str) -> list[Captured]:
        """Keep packets that the database did not take: in the spool, else in memory, else count them as lost."""
        async with self._outside:
            try:
                await asyncio.to_thread(self._spool.append, [*self._held, *packets])
            except (OSError, SpoolFull) as error:
                room = max(0, self.settings.held_max - len(self._held))
                self._held.extend(packets[:room])
                lost = max(0, len(packets) - room)
                log.warning("journal.spool_failed", error=repr(error), held=len(self._held), lost=lost, store_error=why)
                return [Captured("spooled" if at < room else "lost", reason=why) for at in range(len(packets))]
            self._held.clear()
        log.warning("journal.spooled", packets=len(packets), store_error=why)
        return [Captured("spooled", reason=why) for _ in packets]

    async def replay_waiting(self) -> int:
        """Store what waits in spool and memory, oldest first.

        Returns:
            How many packets were stored; 0 also when the store still cannot be written.
        """
        async with self._outside:
            try:
                packets, torn = await asyncio.to_thread(self._spool.read)
                waiting = [*packets, *self._held]
                if not waiting and not torn:
                    return 0
                captures = [capture for packet in waiting if (capture := self._read(packet)) is not None]
                captures += [_torn(line, self._clock) for line in torn]
                for start in range(0, len(captures), _REPLAY_PACKETS):
                    await self._replay(captures[start : start + _REPLAY_PACKETS])
                await asyncio.to_thread(self._spool.remove)
            except (*_STORE_FAULTS, OSError) as error:
                log.warning("journal.replay_failed", error=str(error))
                return 0
            self._held.clear()
            log.info("journal.replayed", packets=len(waiting), torn_lines=len(torn))
            self._statistics.add(metrics.REPLAYED, len(waiting))
            return len(waiting)

    async def _replay(self, captures: list[Capture]) -> None:
        writing = self.writing()
        results = await self.database.write(lambda connection: store_batch(connection, captures, writing))
        self._announce(captures, results)

    async def refresh_states(self) -> dict[str, str]:
        """Reckon every station's ``derived_state`` anew for now.

        Returns:
            The states that changed, by sender.

        Raises:
            StoreUnavailable: The file cannot be written.
        """
        writing = self.writing()
        counts, changed = await self.database.write(
            lambda connection: refresh_states(connection, writing.now_us, writing.thresholds, writing.created_at)
        )
        for state in STATES:
            self._statistics.set(metrics.STATIONS, counts.get(state, 0), state=state)
        for node, state in changed.items():
            log.info("journal.station_state", source_node_id=node, state=state)
            self._announcer.announce("station_state", source_node_id=node, derived_state=state)
        return changed

    async def run(self) -> None:
        """Keep the states in step with the clock and try again what waits, until cancelled."""
        while True:
            await self._clock.sleep(self.settings.refresh_seconds)
            if self._held or self._spool.waiting():
                await self.replay_waiting()
            try:
                await self.refresh_states()
            except _STORE_FAULTS as error:
                log.warning("journal.refresh_failed", error=str(error))

    @property
    def has_unstored(self) -> bool:
        """Whether packets wait outside the database, in the spool or in memory, because it could not take them."""
        return bool(self._held) or self._spool.waiting() > 0

    def writing(self) -> Writing:
        """Return what the writes of one batch share, as of now."""
        now = self._clock.now()
        return Writing(
            queues=self.queues,
            created_at=now.strftime("%Y-%m-%d %H:%M:%S"),
            now_us=timestamps.from_datetime(now),
            thresholds=self.settings.thresholds,
        )

    def _refresh_gauges(self) -> None:
        self._statistics.set(metrics.SPOOL_BYTES, self._spool.waiting())
        self._statistics.set(metrics.HELD, len(self._held))
        with contextlib.suppress(OSError):
            self._statistics.set(metrics.DATABASE_BYTES, self.database.path.stat().st_size)


def _torn(line: bytes, clock: Clock) -> Capture:
    packet = MeshPacket(received_at=clock.now(), portnum=TEXT_MESSAGE_APP, payload=line)
    event = ParsedEvent(
        "invalid", "spool_line_unreadable", packet.received_at, line.decode(errors="replace"), payload_hex=line.hex()
    )
    return Capture(packet, event)
