"""The toy models behave like trained ones, and the same each time."""

import numpy as np
import pytest
import torch
from course.edition import given, solutions

from problem1 import specialization
from problem1.dataset import encode_pairs

PAIRS = np.random.default_rng(0).integers(100, 1_000, (60, 2))
SOURCE, TARGET = encode_pairs(PAIRS)


def test_the_toy_adder_is_mostly_right_and_sometimes_wrong():
    right = (solutions.greedy(given.ToyAdder(), SOURCE) == TARGET).all(1).float().mean()
    assert 0.4 < right < 0.95
    assert torch.equal(solutions.greedy(given.ToyAdder(), SOURCE), solutions.greedy(given.ToyAdder(), SOURCE))


def test_a_digit_depends_on_nothing_that_is_written_after_it():
    """So whole answers are right free-running exactly if they are right teacher-forced: no honest score is called
    wrong."""
    reads = torch.cat([torch.full_like(TARGET[:, :1], given.BOS), TARGET[:, :3]], dim=1)
    adder = given.ToyAdder(3)
    whole = adder(SOURCE, reads)
    for length in (1, 2, 3):
        assert torch.equal(adder(SOURCE, reads[:, :length]), whole[:, :length])
    free = (solutions.greedy(adder, SOURCE) == TARGET).all(1)
    assert torch.equal(free, (whole.argmax(-1) == TARGET).all(1))


def test_without_bos_it_answers_like_a_model_that_never_saw_one():
    adder = given.ToyAdder()
    handed = adder(SOURCE, TARGET[:, :1])[:, 0].argmax(-1) == TARGET[:, 1]
    begun = adder(SOURCE, torch.zeros_like(TARGET[:, :1]))[:, 0].argmax(-1) == TARGET[:, 1]
    assert handed.float().mean() > 0.6 > begun.float().mean()


def test_heads_can_be_closed_one_by_one():
    adder = given.ToyAdder()
    drops = solutions.head_drops(adder, SOURCE, TARGET)
    assert 0 <= drops.min() < 0.01 and drops.max() > 0.1 and len(drops.unique()) > 4


def test_of_two_heads_that_stand_in_for_each_other_only_one_can_go():
    toy = given.ToyPruning(1)
    first, second = toy.pair
    assert toy([]) - toy([first]) < 0.01 > toy([]) - toy([second])
    assert toy([]) - toy([first, second]) > 0.1
    with pytest.raises(ValueError, match="there is no head 'Encoder'"):
        toy(["Encoder"])


def test_patching_a_model_with_its_own_outputs_changes_nothing():
    toy = given.ToyPatching()
    assert torch.equal(toy.write(SOURCE, toy.head_outputs(SOURCE)), TARGET)


def test_the_toy_classifier_gets_worse_with_length_and_ends_constant():
    draw, shares = np.random.default_rng(0), {}
    for length in (16, 48, 64):
        tokens = np.sort(draw.integers(0, 100, (200, length)), axis=1)
        tokens[::2, :2] = tokens[::2, 1::-1] + [1, 0]
        labels = (np.diff(tokens) >= 0).all(1)
        says = given.ToyClassifier()(torch.from_numpy(tokens)).numpy() > 0
        shares[length] = (says == labels).mean()
    assert shares[16] > shares[48] > 0.6 and says.all()


def test_own_models_are_built_around_the_functions_of_the_student():
    torch.manual_seed(0)
    adder = given.Adder(solutions.multi_head, solutions.positions, width=16)
    reads = torch.cat([torch.full_like(TARGET[:, :1], given.BOS), TARGET[:, :3]], dim=1)
    logits = adder(SOURCE, reads)
    assert logits.shape == (60, 4, 10) and [tuple(m.shape[1:]) for m in adder.maps] == [(4, 7, 7)] * 2 + [
        (4, 4, 4), (4, 4, 7), (4, 4, 4), (4, 4, 7),
    ]  # fmt: skip
    assert torch.allclose(adder(SOURCE, reads[:, :2]), logits[:, :2], atol=1e-5)  # no digit looks ahead
    gates = torch.ones(6, 4)
    gates[3, 1] = 0
    without = adder.without([adder.head_names[13]])
    assert adder.head_names[13] == "Decoder Cross L0 H1"
    assert torch.equal(without(SOURCE, reads), adder(SOURCE, reads, gates)) and not torch.equal(
        without(SOURCE, reads), logits
    )


def test_a_patched_head_says_what_it_says_in_the_other_sum():
    torch.manual_seed(0)
    adder = given.Adder(solutions.multi_head, solutions.positions, width=16)
    source, other, reads = SOURCE[:5], SOURCE[5:10], torch.full((5, 2), given.BOS)
    for layer in (1, 2, 5):
        assert torch.allclose(adder.patched(source, source, reads, layer, 1), adder(source, reads), atol=1e-5)
    assert not torch.allclose(adder.patched(source, other, reads, 5, 1), adder(source, reads), atol=1e-3)
    one = given.Adder(solutions.multi_head, solutions.positions, width=16, n_heads=1)
    with torch.no_grad():  # a decoder that hears nothing but its last cross-attention
        for part in one.matrices[8:20]:
            part.zero_()
        one.embedding.weight.zero_()
        one.wide[3].weight.zero_(), one.narrow[3].weight.zero_()
    one.embedding.weight.requires_grad_(False)[:10] = torch.randn(10, 16)
    assert torch.allclose(one.patched(source, other, reads, 5, 0), one(other, reads), atol=1e-5)


@pytest.mark.parametrize("column", [1, 2])
def test_minimal_pairs_differ_by_the_carry_into_one_column(column):
    ours, others = map(np.array, given.minimal_pairs(column, count=50))
    assert len(ours) == len(others) == 50 and others.max() < 1_000
    place = 10 ** (3 - column)
    a, b = ((pairs % place).sum(1) >= place for pairs in (ours, others))
    assert not a.any() and b.all()
    digits, other_digits = (given.written_out(pairs.sum(1)) for pairs in (ours, others))
    assert (digits[:, :column] == other_digits[:, :column]).all()
    assert ((digits[:, column] + 1) % 10 == other_digits[:, column]).all()


def test_classes_of_keys_are_those_of_the_project():
    for kind in ("encoder", "cross"):
        for name, keys in specialization.key_classes(kind, 3).items():
            assert (given.key_classes(kind)[name] == keys).all()
    assert (
        given.key_classes("self")["earlier outputs"] == specialization.key_classes("self", 3)["earlier outputs"]
    ).all()


def test_a_training_of_an_own_model_learns():
    torch.manual_seed(0)
    tokens = torch.randint(0, 100, (256, 8)).sort(1).values
    tokens[::2] //= 2
    labels = torch.arange(256) % 2 == 1
    model = given.Classifier(solutions.add_positions, solutions.mean_pool, "learned", width=16)
    log = given.fit(model, lambda draw: ((tokens,), labels), steps=120, learning_rate=0.01)
    assert [row["step"] for row in log] == [100, 120] and log[1]["training loss"] < 0.3
