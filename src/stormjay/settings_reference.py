"""The settings table for people: the reference page and the commented file that ``stormjay init`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from stormjay.settings_rows import Setting, quoted, settings_rows

_EXAMPLE_ENTRIES = {"station": '"!5c32d4d9"', "name": "example", "column": "pressure_hpa"}
_EXAMPLES = {"weather.ranges.<column>": "[550, 1200]"}


def reference_markdown() -> str:
    """Return the reference of all settings: one section with a table per table of the file."""
    lines = [
        "# Settings",
        "",
        "Made from the table in `src/stormjay/settings_table.py`; change it there.",
        "",
        "Later sources win: the default, the file `stormjay.toml`, the `.env` file of an existing weather station, its",
        "variables (column *also*), and the `STORMJAY_` variable of the same path. A value marked *secret* may instead",
        "come from a file: add `_file` to its name, or `_FILE` to its variable. `stormjay config show --origin` tells",
        "what holds and where it was set; `stormjay config check` tells everything that is wrong.",
        "",
    ]
    for section, rows in groupby(settings_rows(), key=_section):
        members = list(rows)
        lines += [f"## {'[' + section + ']' if section else 'Top'}", "", members[0].section, ""]
        lines += ["| name | type | default | meaning | also |", "| --- | --- | --- | --- | --- |"]
        lines += [_table_row(setting) for setting in members]
        lines.append("")
    return "\n".join(lines)


def toml_template(values: Mapping[str, str] | None = None) -> str:
    """Return a commented settings file: every setting with its default, commented out unless ``values`` sets it.

    Args:
        values: Dotted name to the text of its TOML value; such a line is not commented out.
    """
    values = values or {}
    lines = [
        "# Settings of Stormjay. Every line that is commented out shows its default.",
        "# `stormjay config check` tells what is wrong, `stormjay config show --origin` what holds.",
    ]
    for section, rows in groupby(settings_rows(), key=_section):
        members = list(rows)
        lines += ["", f"# {members[0].section}"]
        if section:
            is_example = "<" in section or section.endswith("ranges")
            lines.append(f"{'# ' if is_example else ''}[{_example(section, members[0])}]")
        for setting in members:
            key = setting.path[-1] if setting.path[-1] != "*" else _EXAMPLE_ENTRIES[setting.entry]
            unit = f" ({setting.row.unit})" if setting.row.unit else ""
            lines.append(f"# {setting.row.text}{unit}")
            if setting.name in values:
                lines.append(f"{key} = {values[setting.name]}")
            else:
                lines.append(f"# {key} = {_EXAMPLES.get(setting.name) or _toml_default(setting)}")
    return "\n".join(lines) + "\n"


def _section(setting: Setting) -> str:
    return setting.name.rpartition(".")[0]


def _example(section: str, setting: Setting) -> str:
    return section.replace(f"<{setting.entry}>", _EXAMPLE_ENTRIES.get(setting.entry, ""))


def _toml_default(setting: Setting) -> str:
    if setting.default is None:
        return "0"
    if isinstance(setting.default, str):
        return quoted(setting.default)
    return setting.shown_default() or '""'


def _table_row(setting: Setting) -> str:
    row = setting.row
    bounds = ""
    if row.low is not None and row.high is not None:
        bounds = f", {row.low:.10g} to {row.high:.10g}"
    unit = f" Unit: {row.unit}." if row.unit else ""
    also = [f"`{setting.variable}`", *(f"`{alias}`" for alias in row.aliases)]
    if row.hide:
        also.append("secret")
    default = setting.shown_default()
    cells = (
        f"`{setting.path[-1] if setting.path[-1] != '*' else '<' + setting.entry + '>'}`",
        setting.type_words + bounds,
        f"`{default}`" if default else "(none)",
        row.text + unit,
        ", ".join(also),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
