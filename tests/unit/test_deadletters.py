"""Dead letters are whole files that a person can list, show, replay and discard; the cap is kept and counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stormjay.errors import NotFound, StoreUnavailable
from stormjay.ground.outbox.deadletters import EVICTED, KEPT, WRITTEN, DeadLetter, DeadLetters
from stormjay.ground.stats.port import Statistics

pytestmark = pytest.mark.anyio
QUEUED = datetime(2026, 3, 18, 9, 0, 0, 123456, tzinfo=UTC)


def _letter(number: int = 0, **changes: object) -> DeadLetter:
    values: dict[str, object] = {
        "id": f"flight-{number}",
        "destination": "archive",
        "queued_at": QUEUED + timedelta(seconds=number),
        "dead_at": QUEUED + timedelta(hours=1),
        "reason": "not an object",
        "attempts": 5,
        "body": '{"_id": 1, "air": "räumlich"}',
    }
    return DeadLetter(**(values | changes))  # type: ignore[arg-type]  # of the right types


def _folder(path: Path, statistics: Statistics | None = None, cap_bytes: int = 10_000) -> DeadLetters:
    return DeadLetters(path / "dead", "archive", statistics or Statistics(), cap_bytes=cap_bytes)


async def test_a_letter_comes_back_as_it_was(tmp_path: Path) -> None:
    letters = _folder(tmp_path)
    assert await letters.entries() == []
    name = await letters.write(_letter())
    assert name == "20260318T090000123456Z-flight-0.json"
    assert await letters.write(_letter()) == name, "writing it again changes nothing"
    (listed,) = await letters.entries()
    assert listed.letter == _letter()
    assert (await letters.show(name)).size_bytes == listed.size_bytes == (tmp_path / "dead" / name).stat().st_size
    assert [path.name for path in (tmp_path / "dead").iterdir()] == [name], "no neighbour is left behind"


async def test_listing_goes_by_age_and_can_be_continued(tmp_path: Path) -> None:
    letters = _folder(tmp_path)
    names = [await letters.write(_letter(number)) for number in (3, 1, 2)]
    first = await letters.entries(limit=2)
    assert [one.name for one in first] == sorted(name or "" for name in names)[:2]
    (last,) = await letters.entries(after=first[-1].name)
    assert last.letter == _letter(3)


async def test_replay_removes_the_file_only_when_it_was_taken(tmp_path: Path) -> None:
    letters = _folder(tmp_path)
    name = await letters.write(_letter()) or ""
    taken: list[DeadLetter] = []

    async def full(letter: DeadLetter) -> None:
        raise StoreUnavailable(letter.id)

    async def take(letter: DeadLetter) -> None:
        taken.append(letter)

    with pytest.raises(StoreUnavailable):
        await letters.replay(name, full)
    await letters.replay(name, take)
    assert taken == [_letter()]
    with pytest.raises(NotFound):
        await letters.replay(name, take)


async def test_discard(tmp_path: Path) -> None:
    statistics = Statistics()
    letters = _folder(tmp_path, statistics)
    name = await letters.write(_letter()) or ""
    assert statistics.value(KEPT, destination="archive") == 1
    await letters.discard(name)
    assert statistics.value(KEPT, destination="archive") == 0
    for wrong in (name, "../../etc/passwd", "", "20260318T090000123456Z-..json"):
        with pytest.raises(NotFound):
            await letters.discard(wrong)
        with pytest.raises(NotFound):
            await letters.show(wrong)


async def test_the_oldest_go_when_the_cap_is_passed_and_are_counted(tmp_path: Path) -> None:
    statistics = Statistics()
    letters = _folder(tmp_path, statistics, cap_bytes=2_500)
    for number in range(10):
        await letters.write(_letter(number, body="x" * 500))
    kept = await letters.entries()
    assert sum(one.size_bytes for one in kept) <= 2_500
    assert [one.letter.id for one in kept if one.letter] == [f"flight-{number}" for number in range(7, 10)]
    assert statistics.value(EVICTED, destination="archive") == 7
    assert statistics.value(WRITTEN, destination="archive") == 10
    assert await letters.write(_letter(99, body="x" * 9_000)) is None, "what alone is over the cap is not kept"


async def test_a_cap_of_zero_keeps_none(tmp_path: Path) -> None:
    letters = _folder(tmp_path, cap_bytes=0)
    assert await letters.write(_letter()) is None
    assert await letters.entries() == []


async def test_odd_ids_and_damaged_files(tmp_path: Path) -> None:
    letters = _folder(tmp_path)
    name = await letters.write(_letter(id="../../a b/ü")) or ""
    assert (await letters.show(name)).letter == _letter(id="../../a b/ü")
    (tmp_path / "dead" / name).write_bytes(b"{")
    (tmp_path / "dead" / "notes.txt").write_text("by a person")
    (listed,) = await letters.entries()
    assert listed.letter is None

    async def take(_: DeadLetter) -> None:
        raise AssertionError

    with pytest.raises(NotFound, match="cannot be read"):
        await letters.replay(name, take)


async def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "dead").write_text("a file")
    with pytest.raises(StoreUnavailable):
        await _folder(tmp_path).write(_letter())
