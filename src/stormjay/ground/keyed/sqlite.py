"""The keyed store in a SQLite file: keys and declared attributes are typed columns, the whole document is JSON text.

The table has a rowid and a slim unique index over its two keys. Counting and stepping to a place walk that index
without touching the documents: measured 2.5 x faster for 200 of 50,000 than a table stored inside its key's own tree.
"""
# ruff: noqa: S608 - table and column names come from the table's declaration and are quoted; values are parameters

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from stormjay.ground.keyed import items
from stormjay.ground.keyed.port import PAGE_BYTES_MAX, Document, Key, Page, TableSpec
from stormjay.ground.sqlite import Database, Migration

DOCUMENT_COLUMN = "document"


def migration(spec: TableSpec) -> Migration:
    """Return the step that makes the table, for ``Database.open``."""
    return Migration(f"table {spec.name}", lambda connection: create_table(connection, spec))


def create_table(connection: sqlite3.Connection, spec: TableSpec) -> None:
    """Make the table if it is absent.

    Raises:
        ValueError: A declared name is taken by the table itself.
    """
    names = [spec.partition_key, spec.sort_key, *spec.columns, DOCUMENT_COLUMN]
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(f"table {spec.name} declares a name twice, or one that is its own: {names}")
    partition, sort = _quoted(spec.partition_key), _quoted(spec.sort_key)
    columns = "".join(f"{_quoted(name)} {kind}, " for name, kind in spec.columns.items())
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {_quoted(spec.name)} ({partition} TEXT NOT NULL, {sort} TEXT NOT NULL, "
        f"{columns}{DOCUMENT_COLUMN} TEXT NOT NULL, UNIQUE ({partition}, {sort}))"
    )


class SqliteKeyedStore:
    """One table of a ``Database``; make the table with ``migration(spec)`` when opening the database."""

    def __init__(self, database: Database, spec: TableSpec, *, page_bytes_max: int = PAGE_BYTES_MAX) -> None:
        self._database = database
        self._spec = spec
        self._page_bytes_max = page_bytes_max
        self._sql = _Statements(spec)

    @property
    def spec(self) -> TableSpec:
        """What the table was declared as."""
        return self._spec

    async def get(self, partition: str, sort: str) -> bytes | None:
        """Return the stored document, or None."""
        items.check_key(partition, sort, self._spec)

        def work(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(self._sql.get, (partition, sort)).fetchone()
            return None if row is None else bytes(row[0])

        return await self._database.read(work)

    async def put(self, document: Document) -> None:
        """Store the document under its keys, in place of what is there."""
        await self._write(self._sql.put, self._values(document))

    async def put_if_absent(self, document: Document) -> bool:
        """Store the document unless its key is taken."""
        return await self._write(self._sql.put_if_absent, self._values(document))

    async def put_if_newer(self, document: Document, attribute: str) -> bool:
        """Store the document when its key is free or the stored attribute is not greater."""
        items.check_version(document, attribute, None, self._spec)
        column = _quoted(attribute)
        newer = f"{self._sql.put} WHERE {self._sql.table}.{column} <= excluded.{column}"
        return await self._write(newer, self._values(document))

    async def update_if_version(self, document: Document, attribute: str, expected: int | str | None) -> bool:
        """Store the document when the stored attribute equals ``expected``; None: when the key is free."""
        items.check_version(document, attribute, expected, self._spec)
        if expected is None:
            return await self.put_if_absent(document)
        values = self._values(document)
        statement = f"{self._sql.update} AND {_quoted(attribute)} = ?"
        return await self._write(statement, (*values[2:], *values[:2], expected))

    async def delete(self, partition: str, sort: str) -> bool:
        """Remove the item; return whether there was one."""
        items.check_key(partition, sort, self._spec)
        return await self._write(self._sql.delete, (partition, sort))

    async def query(
        self,
        partition: str,
        low: str | None = None,
        high: str | None = None,
        *,
        limit: int,
        descending: bool = False,
        after: Key | None = None,
    ) -> Page:
        """Return a page of the range."""
        items.check_limit(limit)
        items.check_range(partition, low, high, self._spec)
        items.check_start(after, partition, low, high)
        where, parameters = self._sql.range(partition, low, high)
        if after is not None:
            where += f" AND {self._sql.sort} {'<' if descending else '>'} ?"
            parameters.append(after.sort)
        statement = (
            f"SELECT {self._sql.sort}, CAST({DOCUMENT_COLUMN} AS BLOB) FROM {self._sql.table} WHERE {where} "
            f"ORDER BY {self._sql.sort} {'DESC' if descending else 'ASC'} LIMIT ?"
        )
        return await self._database.read(
            lambda connection: self._page(connection.execute(statement, (*parameters, limit)), partition, limit)
        )

    async def count(self, partition: str, low: str | None = None, high: str | None = None) -> int:
        """Return how many items the range holds."""
        items.check_range(partition, low, high, self._spec)
        where, parameters = self._sql.range(partition, low, high)
        statement = f"SELECT count(*) FROM {self._sql.table} WHERE {where}"
        return await self._database.read(
            lambda connection: int(connection.execute(statement, parameters).fetchone()[0])
        )

    async def pick(self, partition: str, low: str | None, high: str | None, ranks: Sequence[int]) -> list[bytes]:
        """Return the documents at exactly these places of the range, stepping from each to the next in the index."""
        items.check_ranks(ranks)
        items.check_range(partition, low, high, self._spec)
        return await self._database.read(self._picker(partition, low, high, ranks))

    def _picker(
        self, partition: str, low: str | None, high: str | None, ranks: Sequence[int]
    ) -> Callable[[sqlite3.Connection], list[bytes]]:
        def work(connection: sqlite3.Connection) -> list[bytes]:
            picked: list[bytes] = []
            statement, bound, place = self._sql.first_step, "" if low is None else low, 0
            for rank in ranks:
                row = connection.execute(statement, (partition, bound, rank - place)).fetchone()
                # Testing the end here, once per pick, spares the comparison on every index entry stepped over.
                if row is None or (high is not None and row[0] > high):
                    break
                picked.append(row[1])
                statement, bound, place = self._sql.next_step, row[0], rank + 1
            return picked

        return work

    def _page(self, rows: sqlite3.Cursor, partition: str, limit: int) -> Page:
        documents: list[bytes] = []
        keys: list[Key] = []
        size_bytes = 0
        for sort, document in rows:
            documents.append(document)
            keys.append(Key(partition, sort))
            size_bytes += len(document)
            if size_bytes >= self._page_bytes_max:
                return Page(documents, keys, keys[-1])
        return Page(documents, keys, keys[-1] if len(keys) == limit else None)

    def _values(self, document: Document) -> tuple[str | int | float | None, ...]:
        checked = items.check(document, self._spec)
        return (*checked.key, *checked.values, checked.json.decode())

    async def _write(self, statement: str, parameters: tuple[str | int | float | None, ...]) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            return connection.execute(statement, parameters).rowcount > 0

        return await self._database.write(work)


class _Statements:
    """The SQL of one table; names are quoted, values are always parameters."""

    def __init__(self, spec: TableSpec) -> None:
        self.table = _quoted(spec.name)
        self.sort = _quoted(spec.sort_key)
        partition = _quoted(spec.partition_key)
        others = [*(_quoted(name) for name in spec.columns), DOCUMENT_COLUMN]
        keys = f"{partition} = ? AND {self.sort} = ?"
        columns = ", ".join([partition, self.sort, *others])
        marks = ", ".join("?" * (len(others) + 2))
        insert = f"INSERT INTO {self.table} ({columns}) VALUES ({marks}) ON CONFLICT ({partition}, {self.sort})"
        step = f"SELECT {self.sort}, CAST({DOCUMENT_COLUMN} AS BLOB) FROM {self.table} WHERE {partition} = ?"
        self.get = f"SELECT CAST({DOCUMENT_COLUMN} AS BLOB) FROM {self.table} WHERE {keys}"
        self.put = f"{insert} DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}"
        self.put_if_absent = f"{insert} DO NOTHING"
        self.update = f"UPDATE {self.table} SET {', '.join(f'{name} = ?' for name in others)} WHERE {keys}"
        self.delete = f"DELETE FROM {self.table} WHERE {keys}"
        self.first_step = f"{step} AND {self.sort} >= ? ORDER BY {self.sort} LIMIT 1 OFFSET ?"
        self.next_step = f"{step} AND {self.sort} > ? ORDER BY {self.sort} LIMIT 1 OFFSET ?"
        self._partition = partition

    def range(self, partition: str, low: str | None, high: str | None) -> tuple[str, list[str | int]]:
        """Return the condition of a range and its parameters."""
        where, parameters = f"{self._partition} = ?", [partition]
        if low is not None:
            where += f" AND {self.sort} >= ?"
            parameters.append(low)
        if high is not None:
            where += f" AND {self.sort} <= ?"
            parameters.append(high)
        return where, [*parameters]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
