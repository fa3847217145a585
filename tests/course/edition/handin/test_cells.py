"""A function comes out of a notebook with what it needs and without what it does not."""

import json

import pytest
from course.edition.handin.cells import NotThere, load, text_of


@pytest.fixture
def write(tmp_path):
    def write(*sources, **other):
        path = tmp_path / "problem1.ipynb"
        path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": source} for source in sources], **other}))
        return path

    return write


def test_what_a_function_needs_is_run_in_order(write):
    path = write(
        "import math as m\nfrom math import *",
        "table = []\nfor i in range(3):\n    table.append(i)",
        "table[0] = 10\nclass Scale:\n    by = 2\nScale.by = 3",
        "def helper(x):\n    return Scale.by * x + m.pi * 0 + floor(0.5)",
        "table.extend([1])\nhelper = staticmethod(helper).__func__",
        "def f(x, more=table[0]):\n    loss = sum(table)\n    return [helper(each) + loss + more for each in [x]]",
    )
    assert load(path, "f")(1) == [3 + 14 + 10]


@pytest.mark.parametrize(
    "cell",
    [
        "raise SystemExit",
        "loss = train()",
        "while True:\n    pass",
        "import os\nos._exit(0)",
        "f(0)",
        "model.fit()",
        "[f(i) for i in range(10**9)]",
        "for loss in iter(int, 1):\n    history.append(loss)",
    ],
)
def test_what_it_does_not_need_is_not_run(write, cell):
    """Names inside of the function are its own, though trainings use the same ones."""
    path = write("def f(x):\n    loss = x\n    history = [loss]\n    return history", cell)
    assert load(path, "f")(1) == [1]


def test_plots_are_not_drawn_and_seeds_are_not_set(write):
    path = write("import random\nrandom.seed(0)\nrandom.shuffle(1 / 0)\ndef f():\n    return random.random() < 2")
    assert load(path, "f")()


def test_the_last_definition_counts(write):
    assert load(write("def f():\n    raise NotImplementedError", "f = 3", "def f():\n    return 2"), "f")() == 2


def test_cells_may_have_changed_places(write):
    path = write("def f(x=TWO):\n    return x", "TWO = ONE + 1", "ONE = 1")
    with pytest.raises(NotThere, match="'TWO' is not defined"):
        load(path, "f")
    assert load(write("TWO = ONE + 1", "def f(x=2):\n    return x + TWO", "ONE = 1"), "f")() == 4


@pytest.mark.parametrize("line", ["%matplotlib inline", "!pip install torch", "f?", "%%time", "  !ls"])
def test_lines_for_ipython_are_left_out(write, line):
    assert load(write(f"{line.strip()}\ndef f():\n    return 1"), "f")() == 1


def test_an_annotation_that_is_not_there_and_a_dataclass(write):
    path = write(
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int", "def f(a: Tensor) -> A:\n    return A(a)"
    )
    assert load(path, "f")(1).x == 1


def test_a_cell_that_is_not_python_is_named_and_costs_only_itself(write):
    path = write("def g(:", "def f():\n    return 1", None, ["def h():\n", "    return 2"], "\0", "(" * 10_000)
    assert load(path, "f")() == 1 and load(path, "h")() == 2
    with pytest.raises(NotThere, match=r"problem1.ipynb defines no function g: code cell 1 is not Python"):
        load(path, "g")


def test_a_definition_that_fails_is_told(write):
    with pytest.raises(NotThere, match=r"no function f: code cell 2 fails \(ZeroDivisionError: division by zero\)"):
        load(write("x = 1", "f = 1 / 0"), "f")
    with pytest.raises(NotThere, match="defines no function f"):
        load(write("f = 3"), "f")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cells": 3}', '{"cells": [3, {"cell_type": "code"}]}', "[" * 10**5, "\xff"]
)
def test_what_is_no_notebook_is_said_to_be_none(tmp_path, text):
    path = tmp_path / "problem1.ipynb"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(NotThere, match=r"^problem1.ipynb (is not a notebook that can be read|defines no function f)"):
        load(path, "f")
    with pytest.raises(NotThere, match=r"^problem2.ipynb is missing"):
        load(tmp_path / "problem2.ipynb", "f")


def test_a_text_is_blank_missing_or_written(tmp_path):
    path = tmp_path / "problem1.ipynb"

    def write(*cells):
        path.write_text(json.dumps({"cells": [{"cell_type": "markdown", **cell} for cell in cells]}))

    blank = {"source": "*Write here.*", "metadata": {"task": "discussion"}}
    write(blank)
    with pytest.raises(NotThere, match="not written yet"):
        text_of(path, "discussion")
    write(blank, {"source": ["Heads", " carry."], "metadata": {"task": "discussion"}}, {"source": "x" * 99})
    assert text_of(path, "discussion") == "Heads carry."
    write({"source": "Heads carry.", "metadata": None})
    with pytest.raises(NotThere, match="no text cell"):
        text_of(path, "discussion")
