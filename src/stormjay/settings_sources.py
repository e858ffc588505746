"""The sources of settings, read into one heap of values with their origins and all problems found on the way."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from stormjay.settings_rows import MismatchError, Setting, settings_rows, shown
from stormjay.settings_rows import Path as Place

_FILE_BYTES_MAX = 1_048_576
_OWN_VARIABLES = frozenset({"STORMJAY_CONFIG"})
_ENTRY_NAMES = {
    "station": re.compile(r"![0-9a-f]{8}"),
    "name": re.compile(r"[a-z][a-z0-9_]{0,30}"),
    "column": re.compile(r"[a-z][a-z0-9_]{0,60}"),
}
_ENTRY_WORDS = {
    "station": "a node id: ! and eight hex digits, as !5c32d4d9",
    "name": "a name of lower-case letters, digits and _, beginning with a letter",
    "column": "a column of weather_readings, as pressure_hpa",
}


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: ``default``, or the file, variable or command that set it last."""

    place: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.key}" if self.key else self.place


@dataclass
class Loading:
    """Values and problems as they gather."""

    home: Path
    values: dict[Place, Any] = field(default_factory=dict)
    origins: dict[Place, Origin] = field(default_factory=dict)
    entries: set[Place] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def put(self, path: Place, value: object, origin: Origin, *, is_text: bool) -> None:
        """Take a value for a place, or note what is wrong with it."""
        setting = find(path)
        if setting is None:
            secret = find((*path[:-1], path[-1].removesuffix("_file"))) if path[-1].endswith("_file") else None
            if secret is None or not secret.row.hide:
                self.problems.append(f"{origin} is not a setting{suggestion('.'.join(path))}")
                return
            path, setting, is_text = (*path[:-1], path[-1].removesuffix("_file")), secret, True
            content = self._content(value, origin)
            if content is None:
                return
            value = content
        name = self.entry_name(path, setting, origin)
        if name is None:
            return
        try:
            self.values[name] = setting.convert(value, is_text=is_text)
            self.origins[name] = origin
        except MismatchError as error:
            told = "" if setting.row.hide else f", not {shown(value) or 'empty'!s:.60}"
            self.problems.append(f"{origin} must be {error}{told}")

    def entry_name(self, path: Place, setting: Setting, origin: Origin) -> Place | None:
        """Return the place with its entry's name spelled as it must be; None, with a problem noted, when it cannot."""
        if "*" not in setting.path:
            return path
        index = setting.path.index("*")
        entry = path[index].lower() if setting.entry == "station" else path[index]
        if setting.entry == "station" and re.fullmatch(r"[0-9a-f]{8}", entry):
            entry = "!" + entry  # a shell has no variable with an exclamation mark in its name
        if not _ENTRY_NAMES[setting.entry].fullmatch(entry):
            self.problems.append(f"{origin}: {path[index]!r} must be {_ENTRY_WORDS[setting.entry]}")
            return None
        return (*path[:index], entry, *path[index + 1 :])

    def _content(self, value: object, origin: Origin) -> str | None:
        if not isinstance(value, str) or not value:
            self.problems.append(f"{origin} must be the path of a file")
            return None
        path = Path(value).expanduser()
        try:
            with path.open("rb") as handle:
                content = handle.read(_FILE_BYTES_MAX + 1)
            if len(content) > _FILE_BYTES_MAX:
                self.problems.append(f"{origin}: {path} is over {_FILE_BYTES_MAX} bytes")
                return None
            return content.decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(f"{origin}: {path} cannot be read ({getattr(error, 'strerror', None) or error})")
            return None


def find(path: Place) -> Setting | None:
    """Return the row at a path, entry names standing for themselves."""
    for setting in settings_rows():
        if len(setting.path) == len(path) and all(
            want in ("*", got) for want, got in zip(setting.path, path, strict=True)
        ):
            return setting
    return None


def suggestion(name: str) -> str:
    """Return ``; did you mean ...?`` for a name that is close to a setting's, else nothing."""
    known = {setting.name: setting.name for setting in settings_rows()}
    last = name.rpartition(".")[2]
    close = get_close_matches(name, known, n=1, cutoff=0.75)
    if not close:
        same_end = [full for full in known if full.rpartition(".")[2] == last]
        close = same_end[:1] or get_close_matches(name, known, n=1, cutoff=0.55)
    return f"; did you mean {close[0]}?" if close else ""


def read_toml(file: Path, loading: Loading) -> None:
    """Take everything that a settings file says."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # also a number of thousands of digits, or endless nesting
        loading.problems.append(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}")
        return
    found = sorted(_leaves(content, ()), key=lambda item: item[0][-1].endswith("_file"))  # a file beats its sibling
    for path, value in found:
        key = path[-1] if len(path) == 1 else f"[{'.'.join(path[:-1])}] {path[-1]}"
        if isinstance(value, dict) and find(path) is None:  # an empty table: an entry that is only named, or nothing
            setting = next((row for row in settings_rows() if _begins(row.path, path)), None)
            if setting is None:
                loading.problems.append(f"{file}: [{'.'.join(path)}] is not a setting{suggestion('.'.join(path))}")
            elif setting.path[len(path) - 1] == "*":
                named = loading.entry_name((*path, ""), setting, Origin(str(file)))
                if named is not None:
                    loading.entries.add(named[: len(path)])
            continue
        loading.put(path, value, Origin(str(file), key), is_text=False)


def _begins(whole: Place, part: Place) -> bool:
    return len(part) < len(whole) and all(
        want in ("*", got) for want, got in zip(whole[: len(part)], part, strict=True)
    )


def _leaves(table: Mapping[str, Any], path: Place) -> Iterator[tuple[Place, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value and find((*path, key)) is None:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def read_env_file(path: Path, problems: list[str]) -> dict[str, str]:
    """Return the variables of an ``.env`` file as the seed's worker reads it (contract weather 5.4)."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
        return {}
    variables: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip().removeprefix("export ").strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            problems.append(f"{path} line {number}: there is no = in it")
            continue
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":  # noqa: PLR2004 - a pair of quotes
            value = value[1:-1]
        variables[name.strip()] = value
    return variables


def take_variables(variables: Mapping[str, str], place: str, loading: Loading) -> None:
    """Take the seeds' variables, then our own; a blank one counts as absent, as the seed's worker has it."""
    for setting in settings_rows():
        for alias in setting.row.aliases:
            for name, suffix in ((alias, ""), (f"{alias}_FILE", "_file" if setting.row.hide else None)):
                if suffix is not None and variables.get(name, "").strip():
                    path = (*setting.path[:-1], setting.path[-1] + suffix)
                    loading.put(path, variables[name], Origin(place, name), is_text=True)
    for name in sorted(variables, key=lambda name: (name.endswith("_FILE"), name)):
        if not name.startswith("STORMJAY_") or name in _OWN_VARIABLES:
            continue
        path = tuple(part.lower() for part in name.removeprefix("STORMJAY_").split("__"))
        loading.put(path, variables[name], Origin(place, name), is_text=True)


def nested(loading: Loading) -> dict[str, Any]:
    """Return the values as the nested tables that the settings are made from."""
    tree: dict[str, Any] = {}
    for entry in loading.entries:
        _table(tree, entry)
    for path, value in loading.values.items():
        _table(tree, path[:-1])[path[-1]] = value
    return tree


def _table(tree: dict[str, Any], path: Place) -> dict[str, Any]:
    for part in path:
        tree = tree.setdefault(part, {})
    return tree
