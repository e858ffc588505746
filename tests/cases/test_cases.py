"""Every case file is a test that carries the case's id, and the judge itself is judged."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import run
from tests.cases.judging import Outcome, Verdict, compare, compare_near, judge_by, matches

FILES = run.files_in(run.HERE)


def _id(path: Path) -> str:
    return str(json.loads(path.read_text(encoding="utf-8"))["id"])


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_case(path: Path) -> None:
    judged = run.judge_file(path)
    assert judged.ok, "\n".join(judged.lines())


def _mutated(value: object) -> object:
    """Return something of the same kind that is not equal."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1000
    if isinstance(value, str):
        return f"{value}-changed"
    if value is None:
        return "a value where none was"
    if isinstance(value, list):
        return [*value, "one more"]
    return "no object"


WRONG: dict[str, Callable[[Any], Any]] = {
    "utf8_bytes_at_most": lambda _: 1,
    "keys_absent_or_null": lambda keys: [*keys, "t"],
    "weather_keys_absent": lambda keys: [*keys, "air_temp_c"],
    "packet_types_in": lambda _: ["weather"],
    "none_is": lambda _: "invalid",
    "items": lambda _: 2,
}
"""Keys that state a limit, a ban or a choice: a merely different value would hold too, so each has a wrong one."""

STILL_TRUE = {"required_keys_may_be_dropped", "first_four_never.status"}
"""Keys whose opposite is weaker, so that it holds as well: a permission, and half of a ban."""


def _leaves(value: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, key))]
    return [path]


def _with(case: dict[str, Any], path: tuple[str, ...], change: Any) -> dict[str, Any]:
    changed = copy.deepcopy(case)
    place = changed["expect"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = change(place.get(path[-1]))
    return changed


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_a_wrong_expectation_never_passes(path: Path) -> None:
    """Each single value of each case's expectation, made wrong, must stop the case from being ok."""
    case = json.loads(path.read_text(encoding="utf-8"))
    passed = [
        ".".join(leaf)
        for leaf in _leaves(case["expect"])
        if not ".".join(leaf).endswith(tuple(STILL_TRUE))
        and run.Judged("mutated", tuple(run.judge_case(_with(case, leaf, WRONG.get(leaf[-1], _mutated))))).ok
    ]
    assert passed == []


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_an_unknown_key_never_passes(path: Path) -> None:
    """A key that no driver knows is reported as unknown, at the top and in every section."""
    case = json.loads(path.read_text(encoding="utf-8"))
    sections = {leaf[:-1] for leaf in _leaves(case["expect"])}
    for section in sections:
        changed = _with(case, (*section, "a_key_nobody_knows"), lambda _: 1)
        outcomes = [verdict.outcome for verdict in run.judge_case(changed)]
        assert Outcome.UNKNOWN in outcomes or Outcome.FAIL in outcomes, f"section {'.'.join(section) or '(top)'}"


def test_a_stage_without_a_driver_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path / "F1.json", {"id": "F1", "given": {"stage": "telepathy"}, "expect": {"objects": 1}})
    assert run.main([str(tmp_path)]) == 1
    assert "UNKNOWN F1: stage telepathy (no driver)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        '{"id": "Q1"}',
        '{"id": "Q1", "given": {}, "expect": {"a": 1}}',
        '{"id": "Q1", "given": {"stage": 7}, "expect": {"a": 1}}',
        '{"id": "Q1", "given": {"stage": "listener"}, "expect": {}}',
        '{"id": "Q1", "given": {"stage": "../run"}, "expect": {"a": 1}}',
        "\udcff",
    ],
)
def test_a_file_that_is_no_case_is_reported_and_the_next_one_goes_on(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Q1.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    _write(tmp_path / "Q2.json", {"id": "Q2", "given": {"stage": "telepathy"}, "expect": {"objects": 1}})
    assert run.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "Q1: " in out
    assert "UNKNOWN Q2" in out


def test_an_empty_folder_is_not_a_pass(tmp_path: Path) -> None:
    assert run.main([str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("stage", "parts"),
    [
        ("listener", ["listener"]),
        ("bridge, then listener", ["bridge", "listener"]),
        ("outbox and ingest", ["outbox", "ingest"]),
        ("index and compaction", ["index", "compaction"]),
        ("bridge, then listener, then outbox and ingest", ["bridge", "listener", "outbox", "ingest"]),
    ],
)
def test_combined_stages_are_split_in_order(stage: str, parts: list[str]) -> None:
    assert run.stages_of(stage) == parts


def test_one_answer_per_key_and_faults_stand() -> None:
    answers = [
        Verdict.unknown("listener"),
        Verdict.ok("listener.rows"),
        Verdict.ok("rows"),
        Verdict.fail("rows", 1, 2),
        Verdict.unknown("nobody"),
    ]
    kept = {verdict.key: verdict.outcome for verdict in run.settled({"listener": {}, "silent": 1}, answers)}
    assert kept == {
        "listener.rows": Outcome.OK,
        "rows": Outcome.FAIL,
        "nobody": Outcome.UNKNOWN,
        "silent": Outcome.UNKNOWN,
    }


@pytest.mark.parametrize(
    ("expected", "got", "holds"),
    [
        (0.3, 0.1 + 0.2, True),
        (1, 1.0, True),
        (1, True, False),
        (True, 1, False),
        (0, None, False),
        (1773824400, 1773824401, False),
        (None, None, True),
        (None, 0, False),
        ("400", 400, False),
        (1.0, float("nan"), False),
        ({"near": [10, 0.5]}, 10.5, True),
        ({"near": [10, 0.5]}, 10.6, False),
        ({"one_of": [None, {"rows": 0}]}, {"rows": 0, "more": 1}, True),
        ({"one_of": [1, 2]}, 3, False),
        ([1, [2]], [1, [2.0000000001]], True),
        ([1], [1, 2], False),
    ],
)
def test_values_are_compared_as_the_cases_say(expected: object, got: object, holds: bool) -> None:  # noqa: FBT001 - a column of the table
    assert matches(expected, got) is holds


def test_a_name_the_product_does_not_have_is_unknown_and_a_value_it_lacks_is_none() -> None:
    expected = {"temp_c": 1.0, "uv_index": None, "mood": "good"}
    verdicts = {v.key: v.outcome for v in compare("row", expected, {"temp_c": 1.0}, names={"temp_c", "uv_index"})}
    assert verdicts == {"row.temp_c": Outcome.OK, "row.uv_index": Outcome.OK, "row.mood": Outcome.UNKNOWN}
    assert [v.outcome for v in compare("row", expected, None)] == [Outcome.FAIL]


def test_near_and_judge_by() -> None:
    assert [v.outcome for v in compare_near("near", {"t": [1, 0.1], "h": [5, 1]}, {"t": 1.05})] == [
        Outcome.OK,
        Outcome.FAIL,
    ]
    verdicts = judge_by({"a": 1, "b": 2}, {"a": lambda expected: compare("a", expected, 1)})
    assert verdicts == [Verdict.ok("a"), Verdict.unknown("b")]


def _write(path: Path, case: dict[str, Any]) -> None:
    path.write_text(json.dumps(case), encoding="utf-8")
