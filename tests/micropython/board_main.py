"""What MicroPython runs on Node: every check, then the outcomes of the vectors as one line of JSON."""

import json
import sys

from tests.micropython import core_checks, garden_checks, main_checks, vector_run

names = []
for check in core_checks.CHECKS + garden_checks.CHECKS + (main_checks.check_main_runs_on_the_board,):
    check()
    names.append(check.__name__)
with open("/vectors.json") as file:  # noqa: PTH123 - MicroPython has no pathlib
    found = vector_run.all_outcomes(json.load(file))
print(json.dumps({"version": sys.version, "checks": names, "vectors": found}))  # noqa: T201 - its only way out
