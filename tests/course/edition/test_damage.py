"""Notebooks damaged at random are graded: every task has its mark. The command does this to a hundred."""

import json
import random

import pytest
from course.edition import damage

from tests.course.edition.notebooks import ADD, SCALED, notebook, standin

OTHERS = [f"x{number} = {number}\ny = [\n    x{number},\n]" for number in range(8)]
NOTEBOOKS = [notebook("import math", ADD, *OTHERS), notebook(*OTHERS, SCALED)]


@pytest.mark.parametrize("kind", [*damage.OF_CELLS, *damage.OF_FILES])
def test_each_damage_is_one(kind):
    """Of ten tries at least one changes what is in the file."""
    for seed in range(10):
        text, draw = json.loads(NOTEBOOKS[0]), random.Random(seed)
        if kind in damage.OF_FILES:
            before = json.dumps(text).encode()
            after = kind(before, draw)
        else:
            before = json.dumps(text["cells"])
            kind(text["cells"], draw)
            after = json.dumps(text["cells"])
        if after != before:
            return
    pytest.fail("nothing changed")


def test_a_sample_is_graded_and_the_table_adds_up(namespaces):
    table = damage.grade_damaged(NOTEBOOKS, standin(), 14, seed=1)
    assert table.loc["all", "notebooks"] == table.loc["all", "marked"] == 14
    kinds = table.drop("all")
    assert (kinds.notebooks == kinds.marked).all() and kinds.notebooks.sum() >= 14
    assert 0 < table.loc["all", "points"] < 1


def test_a_task_without_a_mark_is_seen(monkeypatch, namespaces):
    def without_last(*arguments):
        rows = grade(*arguments)
        rows.loc[rows.index[-1], ["points", "sentence"]] = [0, ""]
        return rows

    grade = damage.grade
    monkeypatch.setattr(damage, "grade", without_last)
    table = damage.grade_damaged(NOTEBOOKS, standin(), 2, seed=2)
    assert table.loc["all", "marked"] == 1


def test_the_same_seed_makes_the_same_damage():
    one, two = (damage.damaged(NOTEBOOKS[0], random.Random(3)) for _ in range(2))
    assert one == two != damage.damaged(NOTEBOOKS[0], random.Random(4))
