"""Do the checks do what they promise? `python -m course.edition.prove`, from the project's folder.

Solutions of the teacher's notebooks get all points, on public and hidden calls; blanks of the student's notebooks get
none, with a sentence each; every seeded mistake is named; right answers in other styles are right.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from course.edition import checks, hidden
from course.edition.checks import TASKS
from course.edition.handout import notebook
from problem1.shared.commands import Parser, one_sentence
from problem1.shared.errors import UserError
from problem1.shared.training import one_thread


class Row(NamedTuple):
    """What was tried, and what the checks say."""

    sort: str  # solution, blank, mistake or style
    name: str
    task: str
    as_it_should_be: bool
    sentence: str


def functions(teacher: bool) -> dict[str, Callable[..., Any]]:
    """{task: function}: each cell of the notebooks is run alone."""
    found = {}
    for name in ("problem1", "problem2"):
        for cell in notebook(name, teacher).cells:
            task = cell.metadata.get("task")
            if task and cell.cell_type == "code":
                names: dict[str, Any] = {}
                exec(cell.source, names)
                found[task] = names[task]
    return found


def said_of(task: str, function: Callable[..., Any], calls: list[checks.Call]) -> str:
    return hidden.sentence(task, calls, [checks.run(function, call) for call in calls])


def solved() -> Iterator[Row]:
    for task, function in functions(teacher=True).items():
        sentence = said_of(task, function, hidden.calls(task))
        yield Row("solution", task, task, not sentence, sentence)


def blanks() -> Iterator[Row]:
    for task, function in functions(teacher=False).items():
        sentence = said_of(task, function, checks.calls(task))
        yield Row("blank", task, task, checks.BLANK in sentence, sentence)


def tried(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"tests.course.edition.{name}")
    except ModuleNotFoundError:
        raise UserError(f"{name} are in tests/course/edition; run this in the project's folder.") from None


def mistakes() -> Iterator[Row]:
    for name, task, words, function in tried("mistakes").MISTAKES:
        sentence = said_of(task, function, checks.calls(task))
        yield Row("mistake", name, task, words in sentence, sentence)


def styles() -> Iterator[Row]:
    for task, function in tried("styles").STYLES:
        sentence = said_of(task, function, hidden.calls(task))
        yield Row("style", function.__name__, task, not sentence, sentence)


def points(rows: list[Row], sort: str) -> str:
    """What these answers get, of the points that functions can get."""
    total = sum(task.points for task in TASKS.values() if not task.text)
    gained = sum(TASKS[row.task].points for row in rows if row.sort == sort and not row.sentence)
    return f"{gained} of {total} points ({gained / total:.0%})"


def summary(rows: list[Row]) -> list[str]:
    def count(sort: str) -> str:
        good = [row.as_it_should_be for row in rows if row.sort == sort]
        return f"{sum(good)} of {len(good)}"

    return [
        f"solutions   {points(rows, 'solution')}",
        f"blanks      {points(rows, 'blank')}, {count('blank')} told that they are blank",
        f"mistakes    {count('mistake')} named by their check",
        f"styles      {count('style')} right answers in other styles called right",
    ]


def main() -> None:
    parser = Parser(prog="python -m course.edition.prove", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--all", action="store_true", help="show all sentences, not only those that are not as they should"
    )
    everything = parser.parse_args().all
    with one_sentence(parser.prog), one_thread():
        rows = [*solved(), *blanks(), *mistakes(), *styles()]
    for row in rows:
        if everything or not row.as_it_should_be:
            wrong = "" if row.as_it_should_be else "NOT AS IT SHOULD BE  "
            print(f"{wrong}{row.sort:9} {row.name}\n    {row.sentence or 'right'}")
    print("\n".join(summary(rows)))
    sys.exit(not all(row.as_it_should_be for row in rows))


if __name__ == "__main__":
    main()
