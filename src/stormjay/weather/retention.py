"""Removes old rows, when told to (contract weather 5.5, fault B27).

A reading goes when it is older than the limit and no destination still needs it: in every queue it has no row, or one
that is ``delivered`` or was ``discarded`` by a person. ``pending``, ``retry`` and ``failed`` keep it, however old: what
the far side refused stays in sight until somebody decides. A reading counts once, whatever queue rows go with it.
Statuses of stations are never removed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec
import structlog

from stormjay.errors import StoreUnavailable
from stormjay.ground.clock import Clock
from stormjay.ground.sqlite import Database
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.weather.journal_rows import received_text

log = structlog.get_logger(__name__)

REMOVED = Metric(
    "weather_retention_rows_removed", "counter", "Rows removed for their age, readings counted once", ("table",)
)
OTHER_TABLES = (
    *("device_health_events", "weather_events", "device_telemetry_events", "ingest_events", "native_telemetry"),
)


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What goes when.

    Attributes:
        enabled: Whether the regular run removes anything (``DB_RETENTION_ENABLED``); a dry run always counts.
        days: Rows received longer ago than this may go (``DB_RETENTION_DAYS``).
        batch_size: Most rows in one commit (``DB_RETENTION_BATCH_SIZE``).
        batches_max: Most commits for one table in one run (``DB_RETENTION_MAX_BATCHES``).
        interval_seconds: How often the service runs it.
    """

    enabled: bool = False
    days: int = 180
    batch_size: int = 1_000
    batches_max: int = 100
    interval_seconds: float = 86_400.0


class RetentionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did, or in a dry run would do.

    Attributes:
        dry_run: Whether nothing was removed.
        cutoff_utc: Rows received before this were looked at.
        removed: Rows by table; the queue rows of a reading are not counted.
        complete: Whether nothing that may go is left; False when the batches ran out.
    """

    dry_run: bool
    cutoff_utc: str
    removed: dict[str, int]
    complete: bool


class Retention:
    """Retention over one journal file.

    Args:
        database: The journal's.
        queues: The queue tables of all destinations there are; a reading waits for each of them.
        settings: See ``RetentionSettings``.
        clock: What is old is measured by it.
        statistics: Where removed rows are counted.
    """

    def __init__(
        self,
        database: Database,
        *,
        queues: Sequence[str],
        settings: RetentionSettings,
        clock: Clock,
        statistics: Statistics,
    ) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._statistics = statistics
        wanted = "".join(
            f" AND NOT EXISTS (SELECT 1 FROM {queue} q WHERE q.reading_id = r.id"  # noqa: S608 - names of ours
            " AND q.status NOT IN ('delivered', 'discarded'))"
            for queue in queues
        )
        self._conditions = {
            "weather_readings": f"r.received_at_utc < ?{wanted}",
            **dict.fromkeys(OTHER_TABLES, "r.received_at_utc < ?"),
        }
        statistics.declare(REMOVED)

    async def run_once(self, *, dry_run: bool = False) -> RetentionReport:
        """Remove what may go, oldest first, a commit per batch; or count it.

        Args:
            dry_run: Count only, whatever the settings say.

        Raises:
            StoreUnavailable: The file cannot be written; batches before that are gone.
        """
        cutoff = received_text(self._clock.now() - timedelta(days=self._settings.days))
        if not dry_run and not self._settings.enabled:
            log.info("retention_disabled")
            return RetentionReport(dry_run=False, cutoff_utc=cutoff, removed={}, complete=True)
        log.info("retention_start", cutoff_utc=cutoff, dry_run=dry_run)
        removed: dict[str, int] = {}
        complete = True
        for table, condition in self._conditions.items():
            if dry_run:
                removed[table] = await self._database.read(_counting(table, condition, cutoff))
                log.info("retention_table_dry_run", table=table, rows=removed[table])
                continue
            removed[table], ended = await self._empty(table, condition, cutoff)
            complete = complete and ended
            log.info("retention_table_complete", table=table, rows=removed[table], complete=ended)
        log.info("retention_complete", removed=removed, dry_run=dry_run)
        return RetentionReport(dry_run=dry_run, cutoff_utc=cutoff, removed=removed, complete=complete)

    async def _empty(self, table: str, condition: str, cutoff: str) -> tuple[int, bool]:
        total = 0
        for _ in range(self._settings.batches_max):
            count = await self._database.write(_removing(table, condition, cutoff, self._settings.batch_size))
            total += count
            if count:
                self._statistics.add(REMOVED, count, table=table)
                log.info("retention_batch_deleted", table=table, rows=count)
            if count < self._settings.batch_size:
                return total, True
        return total, False

    async def run(self) -> None:
        """Run at start and then once per interval, until cancelled."""
        while True:
            try:
                await self.run_once()
            except StoreUnavailable as error:
                log.warning("retention_error", error=str(error))
            await self._clock.sleep(self._settings.interval_seconds)


def _counting(table: str, condition: str, cutoff: str) -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        sql = f"SELECT count(*) FROM {table} r WHERE {condition}"  # noqa: S608 - names of ours
        return int(connection.execute(sql, (cutoff,)).fetchone()[0])

    return work


def _removing(table: str, condition: str, cutoff: str, most: int) -> Callable[[sqlite3.Connection], int]:
    def work(connection: sqlite3.Connection) -> int:
        ids = connection.execute(
            f"SELECT r.id FROM {table} r WHERE {condition} ORDER BY r.received_at_utc, r.id LIMIT ?",  # noqa: S608 - ours
            (cutoff, most),
        ).fetchall()
        connection.executemany(f"DELETE FROM {table} WHERE id = ?", [(row[0],) for row in ids])  # noqa: S608 - ours
        return len(ids)

    return work
