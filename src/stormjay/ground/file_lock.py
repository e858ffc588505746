"""One process is the owner of a file: it holds a lock beside it while it lives, and can tell the file from another."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from stormjay.errors import StoreInUse, StoreUnavailable


def take_lock(path: Path) -> IO[str]:
    """Take the lock of a file, making its folder when absent; closing what is returned gives it back.

    Raises:
        StoreInUse: Another process holds it.
        StoreUnavailable: The folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.with_name(path.name + ".lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(
            f"cannot write beside {path}: {error}", next_step="check that data_dir exists and is writable"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        holder = handle.read().strip() or "unknown"
        handle.close()
        raise StoreInUse(
            f"{path} is in use by process {holder}",
            next_step="stop the other stormjay, or give this one its own STORMJAY_DATA_DIR",
        ) from error
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells the file under a path from every other one, None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
