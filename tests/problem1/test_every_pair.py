"""The check of every pair: it finds what is wrong, in bounded memory, and knows whose result it reads."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from problem1 import every_pair, published
from problem1.dataset import every_pair as all_pairs
from problem1.dataset import split_pairs
from problem1.every_pair import (
    Check,
    check_every_pair,
    check_pairs,
    error_table,
    errors_by_digit,
    float64_difference,
    margins,
    random_pairs,
)
from problem1.model import Adder
from problem1.published import published_adder
from problem1.shared.errors import UserError
from problem1.shared.settings import cores
from problem1.shared.storage import model_hash
from problem1.train import run_pairs


@pytest.fixture(scope="module")
def adder():
    return published_adder()[0]


@pytest.fixture
def spoiled():
    model = published_adder()[0]
    with torch.no_grad():
        model.blocks[3].attention.output.weight.mul_(0.2)
    return model


def test_the_check_finds_what_is_wrong(spoiled):
    """A model with one spoiled weight matrix: the pairs reported are exactly those that greedy decoding gets wrong."""
    pairs = split_pairs("test")[:400]
    wrong = check_pairs(spoiled, [pairs[:150], pairs[150:]], progress=False).wrong
    by_hand = [(a, b) for a, b in pairs.tolist() if int(spoiled.add(f"{a}+{b}")) != a + b]
    assert wrong[["a", "b"]].values.tolist() == [list(pair) for pair in by_hand] and 0 < len(wrong) < 400
    assert all(int(spoiled.add(f"{row.a}+{row.b}")) == row.answer for row in wrong.itertuples())


def test_a_model_without_mistakes_has_an_empty_table(adder):
    wrong = check_pairs(adder, [split_pairs("test")[:50]], progress=False).wrong
    assert len(wrong) == 0 and list(wrong) == ["a", "b", "answer"] and wrong["a"].dtype == int


def test_a_model_that_is_always_wrong_takes_no_more_memory(monkeypatch):
    """Wrong pairs are decoded batch by batch and few at a time, and batches are made when they are needed."""
    torch.manual_seed(0)
    model, decoded, made, done = Adder().eval(), [], 0, 0
    generate = model.generate

    def counted(source, *rest):
        decoded.append(len(source))
        return generate(source, *rest)

    monkeypatch.setattr(model, "generate", counted)
    check_batch = every_pair.check_batch

    def finished(model, pairs):
        nonlocal done
        found = check_batch(model, pairs)
        done += 1
        return found

    monkeypatch.setattr(every_pair, "check_batch", finished)

    def batches():
        nonlocal made
        for pairs in all_pairs(2, 400):
            made += 1
            assert made - done <= 2 * cores() + 1, "batches pile up"
            yield pairs

    monkeypatch.setattr(every_pair, "DECODED_AT_ONCE", 150)
    check = check_pairs(model, batches(), progress=False)
    wrong = check.wrong
    assert len(check.closest) == every_pair.CLOSEST == 1_000
    assert len(wrong) > 7_900 and sum(decoded) == len(wrong) and max(decoded) <= 150
    assert made == 21 and every_pair.BATCH <= 9_000


def test_the_margin_is_that_of_the_right_digit_over_all_others_where_it_is_least():
    logits = torch.tensor([[[5.0, 1, 2], [0, 4, 3.5]], [[1, 2, 0], [9, 0, 0]], [[7, 7, 0], [9, 0, 0]]])
    target = torch.tensor([[0, 1], [0, 0], [0, 0]])
    assert margins(logits, target).tolist() == [0.5, -1, 0]


def test_the_closest_pairs_are_those_of_smallest_margin_and_wrong_ones_are_below_zero(spoiled, monkeypatch):
    monkeypatch.setattr(every_pair, "CLOSEST", 40)
    pairs = split_pairs("test")[:400]
    check = check_pairs(spoiled, [pairs[:150], pairs[150:]], progress=False)
    all_of_them = margins(*run_pairs(spoiled, pairs)).numpy()
    assert np.allclose(check.closest["margin"], np.sort(all_of_them)[:40], atol=1e-4)
    assert check.margin == check.closest["margin"].min() < 0 and len(check.wrong) == (all_of_them <= 0).sum()
    first = check.closest.iloc[0]
    assert [first["a"], first["b"]] == pairs[all_of_them.argmin()].tolist()


def test_float64_differs_by_rounding_only(adder):
    pairs = random_pairs(300)
    assert 1e-7 < float64_difference(adder, pairs) < 1e-3
    assert next(adder.parameters()).dtype is torch.float32  # it is left as it was
    assert pairs.min() >= 100 and pairs.max() <= 999 and np.array_equal(pairs, random_pairs(300))


def test_at_most_a_thousand_wrong_pairs_are_decoded_at_once():
    assert every_pair.DECODED_AT_ONCE <= 1_000


@pytest.fixture
def computed(monkeypatch, tmp_path):
    """The models for which a check is computed rather than read; what is computed goes to a temporary folder."""
    models = []

    def fake(model, *rest):
        models.append(model_hash(model))
        return Check(
            pd.DataFrame([[1, 2, 4]], columns=["a", "b", "answer"]),
            pd.DataFrame([[1, 2, -0.5]], columns=["a", "b", "margin"]),
        )

    monkeypatch.setattr(every_pair, "check_pairs", fake)
    monkeypatch.setattr(every_pair, "RESULTS", tmp_path)
    return models


def test_a_stored_result_belongs_to_its_model(adder, computed, tmp_path):
    assert len(check_every_pair(adder).wrong) == 0 and computed == []  # read
    other = Adder().eval()
    first = check_every_pair(other)
    assert computed == [model_hash(other)] != [model_hash(adder)]  # computed
    stored = json.loads(published.check_file(model_hash(other), tmp_path).read_text())
    assert stored["model"] == model_hash(other) and stored["pairs"] == 810_000
    again = check_every_pair(other)
    assert len(computed) == 1  # read
    assert again.wrong.equals(first.wrong) and again.closest.equals(first.closest) and again.margin == -0.5
    check_every_pair(adder, overwrite=True)
    assert len(computed) == 2


def test_the_same_weights_in_another_shape_are_another_model(adder, computed):
    """One head of width 128 has the parameters of four heads of width 32, but computes something else."""
    other = Adder(n_heads=1).eval()
    other.load_state_dict(adder.state_dict())
    assert model_hash(other) != model_hash(adder)
    check_every_pair(other)
    assert computed == [model_hash(other)]
    right = np.mean([int(other.add(f"{a}+{b}")) == a + b for a, b in split_pairs("test")[:50].tolist()])
    assert right < 0.5


def test_a_space_that_is_too_large_gets_one_sentence(computed):
    with pytest.raises(UserError, match="at most 4 digits can be run whole"):
        check_every_pair(Adder(digits=5))
    assert computed == []


def test_error_tables_count_every_pair_and_every_error():
    wrong = pd.DataFrame({"a": [999, 100], "b": [999, 100], "answer": [1999, 300]})
    table = error_table(wrong)
    assert table["pairs"].sum() == 810_000 and table["wrong"].sum() == 2
    assert table.loc[table["carries"] == 3, "wrong"].sum() == 1
    assert errors_by_digit(wrong).to_dict() == {"thousands": 0, "hundreds": 1, "tens": 0, "ones": 1}
    nothing = error_table(wrong[:0])
    assert nothing["wrong"].sum() == 0 and np.isfinite(nothing["wrong per million"]).all()
