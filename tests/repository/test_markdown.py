"""The reader of Markdown sees what a person sees."""

from __future__ import annotations

from tests.repository import markdown

TEXT = """# A title, with `code`!

See [one](a.md#first-step) and ![picture](b.png "words"), but not `[x](y.md)`.

```
[not](a-link.md)
stormjay run --config x.toml   # why
sudo /opt/bin/stormjay status
```

## First step
"""


def test_links_outside_code_are_found() -> None:
    assert markdown.links(TEXT) == ["a.md#first-step", "b.png"]


def test_headings_become_anchors() -> None:
    assert markdown.anchors(TEXT) == {"a-title-with-code", "first-step"}


def test_calls_in_blocks_and_spans_are_found() -> None:
    calls = list(markdown.commands(TEXT + "\nUse `stormjay doctor`.", "stormjay"))
    assert calls == ["stormjay doctor", "stormjay run --config x.toml", "stormjay status"]
