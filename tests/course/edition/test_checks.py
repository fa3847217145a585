"""Checks name mistakes, call no right answer wrong, survive anything, and hold no solution."""

import itertools
import json
import math
import re
import time

import numpy as np
import pytest
import torch
from course.edition import checks, hidden, solutions
from course.edition.checks import TASKS

from tests.course.edition.mistakes import MISTAKES
from tests.course.edition.styles import STYLES

FUNCTIONS = [name for name, task in TASKS.items() if not task.text]
FAMILIES = (  # of the mistakes in public hand-ins; words of the sentences that name them
    "not with BOS", "0, which is a digit", "zeros are not counted", "teacher forcing", "true first digit",
    "most common first digit", "square root", "wrong axis", "shifted by one", "transposed", "after the softmax",
    "without transposing", "after W_O", "all layers", "on one item", "two blocks", "frequencies are off",
    "beyond its last row", "padding is inside the mean", "constant prediction", "leak", "chosen on the test set",
    "begin with 1", "own label", "dead", "batches of unequal size",
)  # fmt: skip


def said(task, function, seed=0):
    calls = checks.calls(task, seed)
    return checks.sentence(task, calls, [checks.run(function, call) for call in calls], hidden.answer)


def test_there_are_mistakes_of_every_family():
    assert len(MISTAKES) >= 30 and {mistake.task for mistake in MISTAKES} == {*FUNCTIONS}
    for family in FAMILIES:
        assert any(family in mistake.words or mistake.words in family for mistake in MISTAKES), family


@pytest.mark.parametrize("mistake", MISTAKES[::3], ids=lambda mistake: mistake.name)
def test_a_mistake_is_named(mistake):
    assert mistake.words in said(mistake.task, mistake.function)


@pytest.mark.parametrize(("task", "function"), STYLES, ids=lambda part: getattr(part, "__name__", part))
def test_a_right_answer_in_another_style_is_right(task, function):
    assert said(task, function, seed=0) == "" == said(task, function, seed=5)


def test_every_task_is_tried_in_two_other_styles():
    assert all(sum(task == name for task, _ in STYLES) >= 2 for name in FUNCTIONS)


def test_a_sentence_is_one_sentence():
    for task, mistakes in itertools.groupby(MISTAKES, key=lambda mistake: mistake.task):
        sentence = said(task, next(mistakes).function)
        assert re.fullmatch(rf"{task}: .*[^.?][.?]", sentence), sentence
        assert ". " not in sentence.replace("...", "") and len(sentence) < 320


# --- whatever is returned --------------------------------------------------------------------------------------------

NAN, DEEP = math.nan, [0]
for _ in range(60):
    DEEP = [DEEP]
ODD = [
    None,
    True,
    3,
    -1,
    NAN,
    math.inf,
    10**30,
    "",
    "text",
    [],
    {},
    [[]],
    [1, "a"],
    [[1, 2], [3]],
    [NAN] * 5,
    [None] * 4,
    {"$object": "function"},
    {"accuracy": "no"},
    [[[NAN]]],
    list(range(5_000)),
    DEEP,
    [[], []],
    [[1], [2]],
    ["x"],
    {"16": 3},
    {"16": {}},
    [{}, {}],
    [[0.5]],
    [[[0] * 8] * 5] * 2,
]


@pytest.mark.parametrize("task", FUNCTIONS)
def test_any_value_gets_a_sentence(task):
    calls = checks.calls(task)
    for value in ODD:
        sentence = checks.sentence(task, calls, [{"value": value}] * len(calls), hidden.answer)
        assert sentence.startswith(task) and "\n" not in sentence, value


@pytest.mark.parametrize("results", [None, [], [None], {"value": 1}, [{}] * 9, [{"error": None}], [3, 4]])
def test_results_of_any_form_get_a_sentence(results):
    for task in FUNCTIONS:
        assert checks.sentence(task, checks.calls(task), results, hidden.answer).startswith(task)


@pytest.mark.parametrize("task", FUNCTIONS)
def test_a_right_answer_that_is_damaged_is_not_right(task):
    """One number moved, in any of the calls."""
    calls = checks.calls(task)
    results = [hidden.answer(task, call) for call in calls]
    assert checks.sentence(task, calls, results, hidden.answer) == ""
    for i in {0, len(calls) - 1}:
        damaged = [*results]
        damaged[i] = {"error": "ValueError: no"}
        assert "ValueError" in checks.sentence(task, calls, damaged, hidden.answer)
        damaged[i] = {"value": None}
        assert checks.sentence(task, calls, damaged, hidden.answer)


def test_an_error_is_told():
    assert "it raises ZeroDivisionError: division by zero" in said("greedy", lambda model, source: 1 / 0)
    assert "it raises TypeError" in said("greedy", lambda: 0)
    assert "is there a `return`" in said("greedy", lambda model, source: None)


# --- running ---------------------------------------------------------------------------------------------------------


def test_what_is_returned_becomes_json():
    returned = [torch.ones(2, requires_grad=True), np.float32(2), (1, True), {3: {1}}, range(2), map(abs, [-1]), None]
    value = checks.run(lambda: returned, {})["value"]
    assert value == [[1.0, 1.0], 2.0, [1, True], {"3": [1]}, [0, 1], [1], None]
    json.dumps(value)
    assert checks.run(lambda: print, {}) == {"value": {"$object": "builtin_function_or_method"}}


@pytest.mark.parametrize("value", [[0] * 10**6, itertools.count(), torch.zeros(10**6), DEEP, [itertools.count()] * 2])
def test_too_much_is_an_error(value):
    assert "too large" in checks.run(lambda: value, {})["error"]


def test_arguments_are_new_in_every_call():
    def spoils(x, real):
        found = solutions.mean_pool(x, real)
        x.zero_()
        return found

    assert said("mean_pool", spoils) == ""


def test_calls_are_json_and_differ_between_seeds():
    for task in FUNCTIONS:
        assert json.loads(json.dumps(checks.calls(task, 1))) == checks.calls(task, 1)
        assert checks.calls(task, 0) == checks.calls(task, 0)
        assert checks.calls(task, 0) != checks.calls(task, 1) or task == "singly_prunable"


def test_check_prints_the_sentence_or_right(capsys, monkeypatch):
    monkeypatch.setattr(checks, "known_answers", lambda: hidden.answer)
    checks.check(solutions.positions)
    checks.check(lambda length, d_model: None, "positions")
    checks.check(np.sin)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "right" and lines[1].startswith("positions returns nothing")
    assert lines[2].startswith("There is no task called 'sin'; the tasks are tokens, ")


def test_the_checks_of_a_problem_take_at_most_a_minute():
    for problem in (1, 2):
        before = time.process_time()
        for task in FUNCTIONS:
            if TASKS[task].problem == problem:
                assert said(task, getattr(solutions, task)) == ""
        assert time.process_time() - before < 60


def test_points_add_up():
    assert sum(task.points for task in TASKS.values()) == 100
    assert [name for name, task in TASKS.items() if task.text] == ["discussion", "explanation"]
