"""Counterexample-guided training on a vocabulary of twelve values, and the whole way from nothing to a certificate."""

import itertools
import sys

import numpy as np
import pytest
import torch

import problem2.certificate.counterexamples
from problem2.certificate import Certificate, Tables, certify
from problem2.certificate.counterexamples import (
    counterexamples,
    missed_descents,
    put_inside,
    sorted_pieces,
    train_on_counterexamples,
)
from problem2.certificate.form import check_form
from problem2.certificate.tables import tabulate
from problem2.dataset import in_order, is_sorted
from problem2.model import load_classifier
from problem2.train import ClassifierRecipe
from tests.problem2.certificate.common import brute_force, local_classifier, train_briefly


@pytest.fixture(scope="module")
def half_trained_weights():
    torch.manual_seed(0)
    return train_briefly(local_classifier(12, smooth=True), 60, (8, 16)).state_dict()


@pytest.fixture
def half_trained(half_trained_weights):
    model = local_classifier(12, smooth=True)
    model.load_state_dict(half_trained_weights)
    return model


def test_a_piece_is_put_where_its_tokens_see_the_same_and_nothing_else_descends():
    draw = np.random.default_rng(0)
    for where, piece in itertools.product(("start", "end", "anywhere"), ([3, 3, 9], [0, 11], [5, 11, 0, 4])):
        for length in (8, 11, 16):
            sequence = put_inside(np.array(piece), where, length, draw, 12).tolist()
            starts = [i for i in range(length) if sequence[i : i + len(piece)] == piece]
            assert len(sequence) == length and min(sequence) >= 0 and max(sequence) < 12 and starts
            assert where != "start" or 0 in starts
            assert where != "end" or length - len(piece) in starts
            drops = sum(a > b for a, b in itertools.pairwise(sequence))
            assert drops == sum(a > b for a, b in itertools.pairwise(piece))


def test_counterexamples_are_sequences_that_the_classifier_gets_wrong(half_trained):
    tables, draw = tabulate(half_trained), np.random.default_rng(0)
    found = counterexamples(half_trained, tables, 0.0, draw)
    assert set(found) == set(range(8, 17))
    labels = []
    for length, tokens in found.items():
        assert tokens.shape[1] == length
        for sequence in tokens[::50].tolist():
            labels.append(in_order(sequence))
            assert half_trained.says_sorted(sequence) != in_order(sequence)
    assert 0 < sum(labels) < len(labels)


def test_with_a_margin_they_may_be_right_by_no_more_than_that(half_trained):
    tables, draw = tabulate(half_trained), np.random.default_rng(0)
    for tokens in counterexamples(half_trained, tables, 2.0, draw).values():
        with torch.inference_mode():
            logits = half_trained(tokens).logits
        assert (torch.where(is_sorted(tokens), logits, -logits) <= 2.0).all()


def test_a_descent_that_no_single_swap_shows_is_found_as_a_walk():
    """Only 3 > 2 > 1 is missed: every token of it accepts, but none of its descents is missed alone."""
    first, middle, last = (np.full((4,) * n, -1.0) for n in (2, 3, 2))
    first[3, 2] = middle[3, 2, 1] = last[2, 1] = 1
    tables = Tables(first, middle, last)
    found = missed_descents(tables, 0.0, np.random.default_rng(0))
    assert [(pieces.tolist(), where) for pieces, where in found] == [
        ([[3, 2, 1]], "anywhere"),
        ([[3, 2, 1]], "start"),
        ([[3, 2, 1]], "end"),
    ]
    last[2, 1] = -1
    assert missed_descents(tables, 0.0, np.random.default_rng(0)) == []


def test_the_rounds_end_with_a_certificate_that_holds_by_the_margin(half_trained):
    assert not certify(half_trained).certified
    recipe = ClassifierRecipe(batch_size=64, steps=1)
    certificate, rows = train_on_counterexamples(
        half_trained, recipe, rounds=30, items=3_000, learning_rate=3e-3, progress=False
    )
    assert certificate.certified and certificate.margin > 2 and len(rows) > 1
    assert [row["round"] for row in rows] == list(range(len(rows)))
    assert rows[0]["sorted pieces"] + rows[0]["missed descents"] > 0
    assert rows[-1]["sorted pieces"] == rows[-1]["missed descents"] == 0
    again = certify(half_trained)
    assert again.certified and again.margin == pytest.approx(certificate.margin)
    assert not brute_force(half_trained, longest=4)[2]


def test_no_rounds_leave_the_weights_and_is_the_same_twice(half_trained, half_trained_weights):
    recipe = ClassifierRecipe(steps=1)
    certificate, rows = train_on_counterexamples(half_trained, recipe, rounds=0, progress=False)
    assert not certificate.certified and len(rows) == 1
    state = half_trained.state_dict()
    assert all(torch.equal(state[name], half_trained_weights[name]) for name in state)
    results = []
    for _ in range(2):
        half_trained.load_state_dict(half_trained_weights)
        train_on_counterexamples(half_trained, recipe, rounds=1, items=640, progress=False)
        results.append({name: value.clone() for name, value in half_trained.state_dict().items()})
    assert all(torch.equal(results[0][name], results[1][name]) for name in state)
    assert not all(torch.equal(results[0][name], half_trained_weights[name]) for name in state)


def test_sorted_pieces_say_where_they_fail():
    first, middle, last = (np.full((3,) * n, 5.0) for n in (2, 3, 2))
    first[0, 2] = last[1, 1] = middle[0, 1, 2] = middle[2, 1, 0] = 1
    found = sorted_pieces(Tables(first, middle, last), 2.0)
    assert [(pieces.tolist(), where) for pieces, where in found] == [
        ([[0, 2]], "start"),
        ([[1, 1]], "end"),
        ([[0, 1, 2]], "anywhere"),
    ]


def test_the_command_leaves_the_classifier_and_its_report(tmp_path, monkeypatch, capsys):
    """The whole command, with a training and a tabulation cut short."""

    def short(model, recipe, progress):
        return Certificate(-1.0, 1.0, [1, 0], 1e-6, 1e-6, 1e-7, 1, [[1, 0]], 1.0), [{"round": 0, "cpu seconds": 1.0}]

    recipe = problem2.certificate.counterexamples.certified_recipe
    monkeypatch.setattr(problem2.certificate.counterexamples, "train_on_counterexamples", short)
    monkeypatch.setattr(
        problem2.certificate.counterexamples,
        "certified_recipe",
        lambda seed: ClassifierRecipe(**vars(recipe(seed)) | {"steps": 2, "evaluate_every": 2}),
    )
    monkeypatch.setattr(sys, "argv", ["counterexamples", "--seed", "3", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        problem2.certificate.counterexamples.main()
    assert end.value.code
    assert "NOT CERTIFIED" in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {"certified.safetensors", "certificate.json", "training"}
    check_form(load_classifier(tmp_path / "certified.safetensors"))
