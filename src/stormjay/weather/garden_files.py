"""The files that go on the Pico W, gathered from where this program is installed (DESIGN.md decision 5)."""

from __future__ import annotations

from pathlib import Path

from stormjay.errors import SettingsError
from stormjay.weather.bridge_settings import edge_ranges
from stormjay.weather.fields import BY_KEY, Ranges

HERE = Path(__file__).resolve().parent
PLACES = (HERE.parent / "garden", HERE.parents[2] / "garden")
"""Where the board's own files are: inside the installed package, or at the root of a checkout."""

BOARD_FILES = ("main.py", "garden_loop.py", "config_example.py", "README.md")
PURE_FILES = ("bridge_core.py", "bridge_lines.py")
PURE_FOLDER = Path("lib/stormjay/weather")
CONSTANTS_FILE = "garden_constants.py"


def garden_constants(ranges: Ranges) -> str:
    """Return the file ``garden_constants.py`` that carries widened ranges to the Pico (DESIGN.md decision 5).

    Only bounds that differ from the field table are named; the text is a Python module that MicroPython imports.
    """
    lines = [
        '"""Written by `stormjay init --garden`; copy it to the Pico beside main.py. Bounds by key on the air."""',
        "",
        "RANGES = {",
    ]
    for key, (low, high) in edge_ranges(ranges).items():
        if (low, high) != BY_KEY[key].edge:
            lines.append(f'    "{key}": ({low!r}, {high!r}),  # {BY_KEY[key].column}')
    return "\n".join([*lines, "}", ""])


def write_garden(folder: Path, ranges: Ranges) -> list[Path]:
    """Write everything that the Pico needs into a folder, laid out as on the board; return the files.

    Args:
        folder: Made when it is not there. A ``config.py`` in it, the user's own, is left alone.
        ranges: Bounds by column, as settings have widened them.

    Raises:
        SettingsError: The board's files are not part of this installation, or the folder cannot be written.
    """
    source = next((place for place in PLACES if (place / "main.py").is_file()), None)
    if source is None:
        raise SettingsError(
            "garden_files_missing",
            "this installation does not hold the Pico's files",
            next_step="take the folder garden/ from the source distribution",
        )
    contents = {Path(name): (source / name).read_text(encoding="utf-8") for name in BOARD_FILES}
    contents |= {PURE_FOLDER / name: (HERE / name).read_text(encoding="utf-8") for name in PURE_FILES}
    contents[Path(CONSTANTS_FILE)] = garden_constants(ranges)
    try:
        for name, text in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError("garden_folder_unwritable", f"{folder} cannot be written: {error}") from error
    return [folder / name for name in contents]
