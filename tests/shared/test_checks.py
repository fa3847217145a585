"""Each check of the checklist fires on what it is for, and is silent on what is in order."""

import numpy as np
import pytest
import torch

from problem1.dataset import contains, encode_pairs, split_pairs
from problem1.published import published_adder
from problem1.shared.checks import class_share, constant_answer, leaks, missing_answers, teacher_forcing, warnings_about
from problem1.shared.errors import UserError
from problem2.dataset import long_items

LABELS = np.array([0, 1, 1, 0, 1, 1, 0, 1, 1, 1])


def test_a_good_experiment_gets_no_warning():
    answers = LABELS.copy()
    answers[:2] = 1 - answers[:2]  # not perfect, and both classes are answered
    assert warnings_about(answers, LABELS, {"train": [[1, 2], [3, 4]], "test": [[5, 6]]}, answers) == []
    assert warnings_about(LABELS, LABELS) == []


def test_a_constant_answer_is_found_unless_the_labels_are_constant_too():
    assert "Every answer is 1" in constant_answer(np.ones(10, int), LABELS)[0]
    assert constant_answer(np.ones(10, int), np.ones(10, int)) == []
    assert constant_answer(LABELS, LABELS) == []


def test_a_constant_position_is_named():
    labels = np.stack([LABELS, LABELS[::-1]], axis=1)
    answers = labels.copy()
    answers[:, 1] = 0
    (sentence,) = constant_answer(answers, labels)
    assert "at position 2 is 0" in sentence and "30.00 % (3 of 10)" in sentence


def test_answers_that_are_never_given_are_found():
    labels = np.array([0, 1, 2, 0, 1, 2])
    (sentence,) = missing_answers(np.array([1, 1, 2, 2, 1, 2]), labels)
    assert sentence.startswith("0 is never answered") and "(2 of 6)" in sentence
    assert missing_answers(labels, labels) == []


def test_an_accuracy_that_is_a_class_share_is_found_and_a_coincidence_is_called_one():
    (sentence,) = class_share(np.ones(10, int), LABELS)
    assert "labelled 1: these are the items answered right" in sentence and "70.00 %" in sentence
    answers = LABELS.copy()
    answers[[0, 1, 2]] = 1 - answers[[0, 1, 2]]  # seven right, of both classes
    assert "by chance?" in class_share(answers, LABELS)[0]
    answers[3] = 1 - answers[3]
    assert class_share(answers, LABELS) == []


@pytest.mark.parametrize("length", [32, 64, 128, 256])
def test_the_class_shares_of_the_reports_are_found(length):
    labels = torch.tensor([label for _, label in long_items(length)])
    for answer in (True, False):
        sentences = warnings_about(torch.full_like(labels, answer), labels)
        assert any("share of items labelled" in sentence for sentence in sentences)
        assert any("whatever is asked" in sentence for sentence in sentences)


def test_leaks_are_those_of_the_assignment():
    splits = {name: split_pairs(name) for name in ("train", "validation", "test")}
    said = " ".join(leaks(splits))
    for name in ("test", "validation"):
        same = contains(splits["train"], splits[name]).sum()
        either = contains(splits["train"], splits[name], "operands").sum()
        assert f"of the 2,000 items in {name}, {same} are in train as they stand and {either} in either order" in said
    assert leaks({"train": [[1, 2]], "test": [[3, 1]]}) == []
    assert "0 are in train as they stand and 1 in either order" in leaks({"train": [[1, 2]], "test": [[2, 1]]})[0]


def test_teacher_forcing_is_found_only_if_it_promises_more():
    labels = np.array([[0, 1], [1, 1]])
    free = np.array([[0, 1], [0, 1]])
    assert "100.00 % (2 of 2), free-running decoding reaches 50.00 %" in teacher_forcing(labels, free, labels)[0]
    assert teacher_forcing(free, free, labels) == [] and teacher_forcing(free, labels, labels) == []


def test_the_published_adder_passes():
    adder, _ = published_adder()
    source, target = encode_pairs(split_pairs("test")[:300])
    assert warnings_about(adder.generate(source), target) == []


def test_what_does_not_fit_is_said_in_one_sentence():
    with pytest.raises(UserError, match=r"predictions are \(3, 1\) and labels \(2, 1\)"):
        constant_answer([1, 2, 3], [1, 2])
    with pytest.raises(UserError, match="different lengths"):
        leaks({"train": [[1, 2], [3]], "test": [[1, 2]]})
    with pytest.raises(UserError, match=r"shape \(0,\)"):
        constant_answer([], [])
