"""Modules and functions stay small, and the large ones only shrink."""

from __future__ import annotations

import pytest

from tests.repository import sizes


def test_modules_and_functions_only_shrink() -> None:
    assert sizes.all_faults() == []


@pytest.mark.parametrize(
    ("lines", "record", "fault"),
    [
        (100, {}, ""),
        (310, {}, "grew to 310"),
        (310, {"m.py": 310}, ""),
        (320, {"m.py": 310}, "from 310 to 320"),
        (305, {"m.py": 310}, "lower its record"),
        (200, {"m.py": 310}, "no longer large"),
        (501, {"m.py": 501}, "the limit is 500"),
    ],
)
def test_the_record_is_a_ratchet(lines: int, record: dict[str, int], fault: str) -> None:
    found = sizes.faults({"m.py": lines}, record, mark=300, limit=500)
    assert len(found) == bool(fault)
    assert all(fault in sentence for sentence in found)
