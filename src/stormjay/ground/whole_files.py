"""Files that are written whole or not at all, and are on the disk when a call returns."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file by way of a hidden neighbour: fsync, rename, fsync of the folder.

    Raises:
        OSError: Disk full, no permission, no folder; what was there before is still there.
    """
    neighbour = path.with_name(f".{path.name}.new")
    with neighbour.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    neighbour.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have what was made, renamed or removed in a folder on the disk.

    Raises:
        OSError: The folder cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
