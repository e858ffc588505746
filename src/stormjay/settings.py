"""Settings from all their sources, checked as a whole: every problem is told at once, with its place and a suggestion.

Later sources win: defaults, the file (``stormjay.toml``), the seeds' ``.env`` file, the seeds' own variables,
``STORMJAY_SECTION__KEY`` variables. A secret may be given at each of them by a sibling that names a file
(``api_key_file``, ``API_KEY_FILE``, ``STORMJAY_..._API_KEY_FILE``); where one source has both, the file holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from stormjay.errors import SettingsError
from stormjay.settings_checks import problems_of
from stormjay.settings_reference import reference_markdown, toml_template
from stormjay.settings_rows import Path as Place
from stormjay.settings_rows import Setting, settings_rows, shown
from stormjay.settings_sources import (
    Loading,
    Origin,
    find,
    nested,
    read_env_file,
    read_toml,
    suggestion,
    take_variables,
)
from stormjay.settings_table import Settings

__all__ = [
    "MASK", "Loaded", "Origin", "Settings", "find", "load", "masked", "reference_markdown", "suggestion",
    "toml_template", "without_password",
]  # fmt: skip

MASK = "********"


@dataclass(frozen=True)
class Loaded:
    """Settings and how they came to be.

    Attributes:
        settings: What holds.
        origins: For each row that is set somewhere, where from.
        file: The settings file that was read, or None.
    """

    settings: Settings
    origins: Mapping[Place, Origin]
    file: Path | None

    def explain(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, value (secrets masked) and origin of every value."""
        plain = msgspec.to_builtins(self.settings)
        for setting in settings_rows():
            for place in _places(plain, setting.path):
                value: Any = plain
                for part in place:
                    value = value[part]
                origin = self.origins.get(place, Origin("default"))
                yield ".".join(place), masked(setting, value), str(origin)

    def secrets(self) -> frozenset[str]:
        """Return every secret value, so that log lines can be kept free of them."""
        found: set[str] = set()
        plain = msgspec.to_builtins(self.settings)
        for setting in settings_rows():
            for place in _places(plain, setting.path) if setting.row.hide else ():
                value: Any = plain
                for part in place:
                    value = value[part]
                password = _password(value) if setting.row.hide == "password" else value
                found.update((password, unquote(password)))
        return frozenset(found - {""})


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def masked(setting: Setting, value: object) -> str:
    """Return a value for people, with what is secret in it hidden."""
    if setting.row.hide == "all":
        return MASK if value else ""
    if setting.row.hide == "password" and isinstance(value, str):
        return without_password(value)
    return shown(value)


def without_password(url: str) -> str:
    """Return an address with its password replaced by stars."""
    try:
        parts = urlsplit(url)
        if not parts.password:
            return url
    except ValueError:
        return MASK
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{MASK}@{host}"))


def load(
    *,
    environment: Mapping[str, str],
    config: Path | None = None,
    enable: Sequence[str] = (),
    folder: Path | None = None,
) -> Loaded:
    """Read all sources and check the whole.

    Args:
        environment: The process's variables.
        config: The file to read; without it ``STORMJAY_CONFIG``, then the usual places.
        enable: Sections that the command asks for by name (``weather.delivery``); their ``enabled`` becomes true.
        folder: The current folder, where ``stormjay.toml`` and ``.env`` are looked for first.

    Raises:
        SettingsError: With one line per problem in ``details``.
    """
    here = folder or Path.cwd()
    home = Path(environment.get("HOME") or Path.home())
    loading = Loading(home)
    file = _settings_file(environment, config, here, home, loading.problems)
    if file is not None:
        read_toml(file, loading)
    env_file = _env_file(environment, here, home, loading.problems)
    if env_file is not None:
        take_variables(read_env_file(env_file, loading.problems), str(env_file), loading)
    take_variables(environment, "environment", loading)
    for section in enable:
        loading.put((*section.split("."), "enabled"), value=True, origin=Origin("command line"), is_text=False)
    data_home = environment.get("XDG_DATA_HOME") or str(home / ".local" / "share")
    if not loading.values.get(("data_dir",)):
        loading.values["data_dir",] = str(Path(data_home) / "stormjay")
    settings = msgspec.convert(nested(loading), Settings)
    problems = loading.problems + problems_of(settings)
    if problems:
        count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
        raise SettingsError(
            "settings",
            f"{count} in the settings",
            details=tuple(problems),
            next_step="correct it and run `stormjay config check`",
        )
    return Loaded(settings, loading.origins, file)


def _settings_file(
    environment: Mapping[str, str], config: Path | None, here: Path, home: Path, problems: list[str]
) -> Path | None:
    named = config or (Path(environment["STORMJAY_CONFIG"]) if environment.get("STORMJAY_CONFIG") else None)
    if named is not None:
        path = named.expanduser()
        if not path.is_file():
            problems.append(f"{path}: there is no such settings file")
            return None
        return path
    config_home = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    usual = (here / "stormjay.toml", config_home / "stormjay" / "stormjay.toml", Path("/etc/stormjay/stormjay.toml"))
    return next((path for path in usual if path.is_file()), None)


def _env_file(environment: Mapping[str, str], here: Path, home: Path, problems: list[str]) -> Path | None:
    """Return the ``.env`` file as the seed's worker finds it (contract weather 5.4)."""
    named = environment.get("WEATHERSTATION_ENV_PATH")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            problems.append(f"environment: WEATHERSTATION_ENV_PATH names {path}, which is no file")
            return None
        return path
    usual = (here / ".env", home / "weatherstation-home" / ".env", Path("/etc/weatherstation-home.env"))
    return next((path for path in usual if path.is_file()), None)


def _places(tree: Mapping[str, Any], path: Place) -> Iterator[Place]:
    """Yield the real places of a row, one per entry where it has entries."""
    if "*" not in path:
        yield path
        return
    index = path.index("*")
    table: Any = tree
    for part in path[:index]:
        table = table[part]
    for entry in table:
        yield (*path[:index], entry, *path[index + 1 :])
