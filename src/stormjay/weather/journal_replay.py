"""Parses packets of the ledger again and stores what is accepted now (``weather replay``).

After a range was widened or a parser mended, what was refused can still become a reading. The source time is judged
against the capture time of then, so that a replay decides as the capture did.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from stormjay.ground import timestamps
from stormjay.weather.importer import ImportReport
from stormjay.weather.journal import Journal
from stormjay.weather.journal_write import Capture, store_batch
from stormjay.weather.radio.port import TEXT_MESSAGE_APP, MeshPacket
from stormjay.weather.records import Captured

CHUNK_ROWS = 500
_UNASKED = (
    "replayed_at_utc IS NULL AND source_node_id IS NOT NULL AND packet_type IN ('invalid', 'rejected', 'unknown')"
    " AND coalesce(reason, '') NOT IN ('sender_not_allowed', 'channel_not_allowed')"
)


async def replay_ledger(
    journal: Journal, *, ids: Sequence[int] | None = None, progress: Callable[[int], None] = lambda _: None
) -> ImportReport:
    """Go through the ledger once.

    Args:
        journal: Whose ledger.
        ids: These rows only, also such as were not let in for their sender or channel; all others when None.
        progress: Told after each chunk how many rows were read so far.

    Returns:
        What became of the rows: ``stored`` are new records now, ``refused`` stay as they are.

    Raises:
        StoreUnavailable: The journal cannot be read or written; doing it again carries on.
    """
    report = ImportReport()
    after = 0
    wanted = None if ids is None else sorted(set(ids))
    while True:
        if wanted is None:
            chunk = await journal.database.read(_next_rows(after))
        else:
            part, wanted = wanted[:CHUNK_ROWS], wanted[CHUNK_ROWS:]
            chunk = await journal.database.read(_rows_with(part)) if part else []
        if not chunk and not wanted:
            return report
        if chunk:
            after = int(chunk[-1]["id"])
            report.add(await _replay(journal, chunk))
            progress(report.read)


def _next_rows(after: int) -> Callable[[sqlite3.Connection], list[sqlite3.Row]]:
    return lambda connection: connection.execute(
        f"SELECT * FROM ingest_events WHERE id > ? AND {_UNASKED} ORDER BY id LIMIT ?",  # noqa: S608 - constant above
        (after, CHUNK_ROWS),
    ).fetchall()


def _rows_with(ids: Sequence[int]) -> Callable[[sqlite3.Connection], list[sqlite3.Row]]:
    places = ",".join("?" * len(ids))
    return lambda connection: connection.execute(
        f"SELECT * FROM ingest_events WHERE id IN ({places}) AND source_node_id IS NOT NULL ORDER BY id",  # noqa: S608 - marks only
        list(ids),
    ).fetchall()


async def _replay(journal: Journal, ledger: Sequence[sqlite3.Row]) -> list[Captured]:
    writing = journal.writing()._replace(once=True)
    refused: list[Captured] = []
    accepted: list[tuple[int, Capture]] = []
    for row in ledger:
        packet = _packet(row)
        event = journal.parser.parse_packet(packet)
        if event.body is None:
            refused.append(Captured(event.packet_type, reason=event.reason, msg_id=event.msg_id))
        else:
            accepted.append((row["id"], Capture(packet, event)))

    def work(connection: sqlite3.Connection) -> list[Captured]:
        results = store_batch(connection, [capture for _, capture in accepted], writing)
        connection.executemany(
            "UPDATE ingest_events SET replayed_at_utc = ? WHERE id = ?",
            [(writing.created_at, row_id) for row_id, _ in accepted],
        )
        return results

    return refused + (await journal.database.write(work) if accepted else [])


def _packet(row: sqlite3.Row) -> MeshPacket:
    payload = row["raw_payload"] or ""
    return MeshPacket(
        received_at=timestamps.to_datetime(timestamps.to_epoch_us(row["received_at_utc"])),
        portnum=TEXT_MESSAGE_APP,
        payload=payload.encode() if row["payload_hex"] is None else bytes.fromhex(row["payload_hex"]),
        source_node_id=row["source_node_id"],
        source_name=row["source_name"],
        packet_id=row["packet_id"],
        channel=row["channel"],
        gateway_id=row["gateway_id"],
    )
