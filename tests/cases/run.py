"""Judges the product by a folder of cases: ``python -m tests.cases.run [DIR]``.

One line per case and fault: ``ok W1``, ``FAIL W1: key: expected ..., got ...``, ``UNKNOWN W1: ...``. The exit status
is 0 only when there was at least one case and every one is ok: a case whose stage or key nobody can judge counts
as not passed, and so does a file that is no case.
"""

from __future__ import annotations

import importlib
import json
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import structlog

from tests.cases import drivers
from tests.cases.judging import CannotDrive, Outcome, Verdict, shown

HERE = Path(__file__).parent
STAGE_NAME = re.compile(r"[a-z][a-z0-9_]*")
BETWEEN_STAGES = re.compile(r",\s*then\s+|\s+then\s+|\s+and\s+|\s*,\s*")
SHOWN_AT_MOST = 400
"""Characters of an expected or actual value on a line."""


@dataclass(frozen=True)
class Judged:
    """All verdicts on one case.

    Attributes:
        case_id: Its id, or its file's name when the file has none.
        verdicts: One or more; the case is ok when all are.
    """

    case_id: str
    verdicts: tuple[Verdict, ...]

    @property
    def ok(self) -> bool:
        """Whether every key of the case holds."""
        return bool(self.verdicts) and all(verdict.outcome is Outcome.OK for verdict in self.verdicts)

    def lines(self) -> Iterator[str]:
        """Yield what is to be printed: one line when all is well, else one for each fault."""
        if self.ok:
            yield f"ok {self.case_id}"
        elif not self.verdicts:
            yield f"UNKNOWN {self.case_id}: nothing in it was judged"
        for verdict in self.verdicts:
            if verdict.outcome is Outcome.FAIL:
                wanted, got = _short(verdict.expected), _short(verdict.got)
                yield f"FAIL {self.case_id}: {verdict.key}: expected {wanted}, got {got}"
            elif verdict.outcome is Outcome.UNKNOWN:
                yield f"UNKNOWN {self.case_id}: {verdict.key}"


def stages_of(stage: str) -> list[str]:
    """Split a combined stage ("bridge, then listener", "outbox and ingest") into its single ones, in order."""
    return [part for part in BETWEEN_STAGES.split(stage.strip()) if part]


def driver_of(stage: str) -> ModuleType | None:
    """Return the driver module of a single stage, or None when there is none."""
    if not STAGE_NAME.fullmatch(stage):
        return None
    name = f"{drivers.__name__}.{stage}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return None
        raise


def judge_file(path: Path) -> Judged:
    """Read and judge one file. Whatever is wrong with it or happens on the way becomes a verdict."""
    try:
        case = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Judged(path.stem, (Verdict.unknown(f"the file cannot be read as JSON: {error}"),))
    case_id = str(case["id"]) if isinstance(case, dict) and case.get("id") else path.stem
    return Judged(case_id, tuple(judge_case(case)))


def judge_case(case: object) -> list[Verdict]:
    """Drive one case through its stages and return the verdicts on it."""
    given, expect = (case.get("given"), case.get("expect")) if isinstance(case, dict) else (None, None)
    if not isinstance(given, dict) or not isinstance(expect, dict) or not expect:
        return [Verdict.unknown("a case has the objects given and expect, and expect names something")]
    stage = given.get("stage")
    stages = stages_of(stage) if isinstance(stage, str) else []
    if not stages:
        return [Verdict.unknown("given.stage is missing")]
    try:
        modules = {name: driver_of(name) for name in stages}
        present = {name: module for name, module in modules.items() if module is not None}
        if len(present) < len(modules):
            return [Verdict.unknown(f"stage {name} (no driver)") for name in modules if name not in present]
        return _driven(present, given, expect)
    except CannotDrive as error:
        return [Verdict.unknown(f"given.{error.key}")]
    except Exception as error:  # noqa: BLE001 - a crash is this case's verdict, not the end of the run
        return [Verdict.fail("the run", "no exception", f"{type(error).__name__}: {error}")]


def _driven(modules: dict[str, ModuleType], given: dict[str, Any], expect: dict[str, Any]) -> list[Verdict]:
    context: dict[str, Any] = {}
    for name, module in modules.items():
        context[name] = module.drive(given, context)
    answers: list[Verdict] = []
    for name, module in modules.items():
        answers += module.judge(expect, context[name])
        section = expect.get(name)
        if len(modules) > 1 and isinstance(section, dict):
            answers += [verdict.under(name) for verdict in module.judge(section, context[name])]
    return settled(expect, answers)


def settled(expect: dict[str, Any], answers: list[Verdict]) -> list[Verdict]:
    """Return one verdict per key out of what several drivers answered.

    A fault stands whatever others say. An unknown is dropped when somebody judged that key or something inside it.
    A key of ``expect`` on which nobody said anything is unknown.
    """
    judged = {answer.key for answer in answers if answer.outcome is not Outcome.UNKNOWN}
    said = {answer.key for answer in answers}
    kept: dict[str, Verdict] = {}
    for answer in answers:
        if answer.outcome is Outcome.UNKNOWN and _covers(answer.key, judged):
            continue
        if answer.key not in kept or answer.outcome is Outcome.FAIL:
            kept[answer.key] = answer
    return [*kept.values(), *(Verdict.unknown(key) for key in expect if not _covers(key, said))]


def _covers(key: str, others: set[str]) -> bool:
    return key in others or any(other.startswith((f"{key}.", f"{key}[")) for other in others)


def _short(value: object) -> str:
    try:
        text = json.dumps(shown(value), ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= SHOWN_AT_MOST else text[:SHOWN_AT_MOST] + " ..."


def files_in(folder: Path) -> list[Path]:
    """Return the case files of a folder, W2 before W10."""
    return sorted(
        folder.glob("*.json"),
        key=lambda path: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)],
    )


def main(arguments: list[str]) -> int:
    """Judge every case of the folder named first, or of this one.

    Returns:
        0 when all are ok, 1 when one is not or there is none.
    """
    folder = Path(arguments[0]) if arguments else HERE
    results = [judge_file(path) for path in files_in(folder)]
    passed = sum(result.ok for result in results)
    lines = [line for result in results for line in result.lines()]
    lines.append(f"{passed} of {len(results)} cases in {folder.name} ok")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if results and passed == len(results) else 1


if __name__ == "__main__":
    # The product's log lines would stand among the verdicts; tests that call main() keep their own configuration.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.exit(main(sys.argv[1:]))
