"""The teacher's checks: the public ones with other numbers. Right answers, for any calls, come from the solutions.

Change HIDDEN_SEEDS from year to year.
"""

import functools
import json

from course.edition import checks, solutions
from course.edition.checks import Call, Result

HIDDEN_SEEDS = (641, 1_641, 2_641)


def calls(task: str) -> list[Call]:
    """All calls that a submission is graded on: the public ones, then those of HIDDEN_SEEDS."""
    return [call for seed in (0, *HIDDEN_SEEDS) for call in checks.calls(task, seed)]


def sentence(task: str, calls: list[Call], results: list[Result]) -> str:
    """As `checks.sentence`, but for any calls. A mistake is named from the first set of calls that shows it."""
    if not isinstance(results, list) or len(results) != len(calls):
        return checks.sentence(task, calls, results, answer)
    size = len(checks.calls(task)) or 1
    parts = range(0, len(calls), size)
    found = (checks.sentence(task, calls[i : i + size], results[i : i + size], answer) for i in parts)
    return next(filter(None, found), "")


def answer(task: str, call: Call) -> Result:
    """What the solution returns."""
    return solved(task, json.dumps(call))


@functools.lru_cache(maxsize=20_000)
def solved(task: str, call: str) -> Result:
    return checks.run(getattr(solutions, task), json.loads(call))
