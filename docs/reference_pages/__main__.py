"""Writes the reference pages: ``python -m docs.reference_pages``, or ``--check`` to only compare."""

from __future__ import annotations

import sys

from docs.reference_pages import REFERENCE, pages


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` name those that are not up to date.

    Returns:
        0, or 1 when ``--check`` found a page that is not up to date.
    """
    stale = []
    for name, text in pages().items():
        path = REFERENCE / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if arguments != ["--check"]:
            path.write_text(text, encoding="utf-8")
    sys.stdout.writelines(f"{'not up to date' if arguments == ['--check'] else 'written'}: {name}\n" for name in stale)
    return 1 if stale and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
