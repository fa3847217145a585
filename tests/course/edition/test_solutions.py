"""The solutions have the signatures of the tasks, and the examples of the tasks hold for them."""

import inspect

import numpy as np
import pytest
import torch
from course.edition import given, solutions
from course.edition.checks import TASKS
from course.edition.prove import functions

BLANKS = functions(teacher=False)
FUNCTIONS = [name for name, task in TASKS.items() if not task.text]


def test_every_task_has_a_blank_and_a_solution():
    assert list(BLANKS) == FUNCTIONS == list(functions(teacher=True))


@pytest.mark.parametrize("task", FUNCTIONS)
def test_a_solution_takes_what_the_blank_takes(task):
    assert [*inspect.signature(BLANKS[task]).parameters] == [*inspect.signature(getattr(solutions, task)).parameters]


def near(value, expected):
    return np.allclose(np.asarray(value, dtype=float), expected, atol=0.006)


def test_the_examples_of_problem_1_hold():
    source, reads, target = solutions.tokens([[663, 497], [5, 17]])
    assert source == [[6, 6, 3, 10, 4, 9, 7], [5, 10, 1, 7, 12, 12, 12]]
    assert reads.tolist() == [[11, 1, 1, 6], [11, 0, 0, 2]] and target.tolist() == [[1, 1, 6, 0], [0, 0, 2, 2]]
    zeros = torch.zeros(1, 2, 3)
    assert near(solutions.attention(zeros[:, :1], zeros, zeros, torch.ones(1, 2, dtype=torch.bool))[0], 0.5)
    assert near(solutions.positions(2, 4), [[0, 1, 0, 1], [0.84, 0.54, 0.01, 1.00]])
    assert solutions.unseen([[208, 305]], [[305, 208], [663, 497]]) == [[663, 497]]
    assert solutions.singly_prunable({"Encoder L0 H0": 0.2, "Encoder L0 H1": 0.004}, 0.01) == ["Encoder L0 H1"]


def test_the_examples_of_problem_2_hold():
    assert solutions.relative_bias(torch.tensor([[7, 8, 9]]), 3).tolist() == [[[8, 9, 9], [7, 8, 9], [7, 7, 8]]]
    x, real = torch.tensor([[[1.0], [3], [100]]]), torch.tensor([[True, True, False]])
    assert near(solutions.mean_pool(x, real), [[2]])
    row = solutions.score([(torch.tensor([2.0, 1, 3]), torch.tensor([True, False, True]))])
    assert near([*row.values()], [2 / 3, 2 / 3, 1, 1])
    swapped = {tuple(solutions.hard_negative([3, 14, 15, 15], given.random.Random(seed))) for seed in range(20)}
    assert swapped == {(14, 3, 15, 15), (3, 15, 14, 15)}
    assert near(solutions.interpolated(5, 3), [0, 0.5, 1, 1.5, 2]) and near(solutions.interpolated(2, 3), [0, 1])
    table = torch.randn(16, 4)
    assert torch.equal(solutions.add_positions(torch.zeros(1, 20, 4), "learned", table)[0, 19], table[15])
