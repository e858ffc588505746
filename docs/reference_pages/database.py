"""The page of the journal's tables, read off its schema."""

from __future__ import annotations

import re
import sqlite3
from importlib.resources import files

from docs.reference_pages.table import MADE, table


def database_page() -> str:
    """Return the page of the journal's tables, read off its schema."""
    script = files("stormjay.weather").joinpath("schema.sql").read_text(encoding="utf-8")
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(script)
        lines = [
            "# Database",
            "",
            MADE.format(source="`src/stormjay/weather/schema.sql`"),
            "",
            "The journal is one SQLite file in WAL mode, `weatherstation.db` under `data_dir`. Any tool may read it",
            "while Stormjay runs. Times are UTC text. Columns marked *added* are beside those of the older scripts.",
            "",
        ]
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        ).fetchall():
            lines += [f"## {name}", "", *_before_table(script, name), *_columns(connection, script, name)]
    finally:
        connection.close()
    return "\n".join(lines).rstrip() + "\n"


def _before_table(script: str, name: str) -> list[str]:
    """Return the comment right before a table, as a paragraph."""
    match = re.search(rf"((?:^--[^\n]*\n)+)CREATE TABLE IF NOT EXISTS {name}\b", script, flags=re.MULTILINE)
    if match is None:
        return []
    return [" ".join(line.lstrip("- ") for line in match.group(1).splitlines()), ""]


def _columns(connection: sqlite3.Connection, script: str, name: str) -> list[str]:
    body = script.partition(f"CREATE TABLE IF NOT EXISTS {name} (")[2].partition("\n);")[0]
    notes = _notes(body)
    rows = []
    for _, column, kind, not_null, default, key in connection.execute(f"PRAGMA table_info({name})"):
        traits = ["key"] if key else []
        traits += ["never null"] if not_null else []
        traits += [f"default {default}"] if default else []
        rows.append((f"`{column}`", kind, ", ".join(traits), notes.get(column, "")))
    return table(("column", "type", "", "note"), rows)


def _notes(body: str) -> dict[str, str]:
    """Return the comment of each column: the one on its line, or the line of its own before it."""
    notes: dict[str, str] = {}
    waiting = ""
    for line in body.splitlines():
        code, _, comment = line.partition("--")
        word = code.split()
        if not word:
            waiting = f"{waiting} {comment.strip()}".strip()
            continue
        notes[word[0]] = comment.strip() or waiting
        waiting = ""
    return notes
