"""Where ``stormjay`` begins; the version is told without loading anything else."""

from __future__ import annotations

import sys

from stormjay import __version__


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"stormjay {__version__}\n")
        return
    from stormjay.cli import main as run  # noqa: PLC0415 - the line above must be quick on a small computer

    run()


if __name__ == "__main__":
    main()
