"""Reading the project's Markdown: its links, its headings, and the commands in its fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

FENCE = re.compile(r"^(```|~~~)")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")


def without_fences(text: str) -> str:
    """Return the text with its fenced blocks and code spans taken out."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if FENCE.match(line.strip()):
            inside = not inside
        elif not inside:
            kept.append(line)
    return re.sub(r"`[^`\n]*`", "", "\n".join(kept))


def links(text: str) -> list[str]:
    """Return the target of every inline link and picture."""
    return LINK.findall(without_fences(text))


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, spelled as code hosts spell them."""
    found: set[str] = set()
    inside = False
    for line in text.splitlines():
        if FENCE.match(line.strip()):
            inside = not inside
        heading = None if inside else re.match(r"#{1,6}\s+(.*)", line)
        if heading:
            words = re.sub(r"[^\w\- ]", "", heading.group(1).strip().lower())
            found.add(words.replace(" ", "-"))
    return found


def commands(text: str, program: str) -> Iterator[str]:
    """Yield each call of ``program`` in a fenced block or a code span, from its name on, without comments."""
    spans = re.findall(rf"`({program} [^`\n]+)`", text)
    inside = False
    lines: list[str] = []
    for line in text.splitlines():
        if FENCE.match(line.strip()):
            inside = not inside
        elif inside:
            lines.append(line)
    begin = r"(?:^|^sudo |/bin/)"
    calls = [match.group(1) for line in lines if (match := re.search(rf"{begin}({program} [^#&|]+)", line))]
    for call in spans + calls:
        yield call.strip()
