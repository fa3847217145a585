"""Controls that can fail: each counts what it says, on heads for which the answer is known."""

import numpy as np
import torch

from problem1 import published
from problem1.dataset import split_pairs
from problem1.every_pair import random_pairs
from problem1.program import controls
from problem1.program.controls import (
    alike,
    as_tokens,
    control_batch,
    control_pairs,
    untrained_right,
    with_named,
    written_with,
)
from problem1.program.tables import Outputs, mean_pairs
from problem1.program.variables import Part, read


def test_pairs_of_the_controls_are_random_and_others_than_those_of_the_means():
    pairs = control_pairs()
    assert pairs.shape == (20_000, 2) and not np.array_equal(pairs, mean_pairs()[-20_000:])


def test_alike_counts_whole_answers():
    assert alike(torch.tensor([[1, 2], [3, 4], [5, 6]]), torch.tensor([[1, 2], [3, 0], [5, 6]])) == 2


def test_named_tokens_stay_and_all_others_come_from_the_other_sum(program, some):
    tokens, other = as_tokens(some, program), as_tokens(random_pairs(len(some), seed=8), program)
    variable = (Part("sum", 1), Part("class", 2, 1), Part("written", 1))
    source, written = with_named(variable, tokens, other)
    assert torch.equal(read(variable, source, written), read(variable, *tokens))
    for column in range(7):
        expected = tokens if column in (1, 2, 5, 6) else other
        assert torch.equal(source[:, column], expected[0][:, column])
    for position in range(4):
        assert torch.equal(written[:, position], (tokens if position == 1 else other)[1][:, position])


def test_a_head_that_is_given_its_own_output_changes_nothing(program, some):
    model = program.model
    record, other = (model.record(*as_tokens(pairs, program)) for pairs in (some, some[::-1].copy()))
    as_it_is = record.logits.argmax(-1)
    for head, positions in (("Encoder L1 H3", 7), ("Decoder Cross L0 H2", 4)):
        assert torch.equal(written_with(model, record, head, [record] * positions), as_it_is)
        assert not torch.equal(written_with(model, record, head, [other] * positions), as_it_is)


def test_controls_of_the_published_program_are_counted_again_on_a_sample(program, some, monkeypatch):
    """A row for each head that says something; the shares are those of the published table."""
    monkeypatch.setattr(controls, "BATCH", 250)
    outputs = Outputs(program.model, split_pairs("train")[:2_000])
    rows = controls.controls(program, outputs, some).set_index("head")
    stored = published.table("program_controls").set_index("head")
    assert list(rows.index) == program.speaking == list(stored.index) and (rows["sums"] == len(some)).all()
    for column in ("next row, right", "unnamed, changed", "interchange, changed", "interchange, as the program"):
        assert (rows[column] / len(some) - stored[column] / stored["sums"]).abs().max() < 0.1, column


def test_a_head_that_is_silent_changes_nothing_however_it_is_asked(program, some):
    head = next(head for head in program.choice if head not in program.speaking)
    silent = program.tables[head]
    speaking = program.replaced(head, [(Part("digit", 0, 0),)] * len(silent), [t.expand(10, -1) for t in silent])
    only = {name: [t.mean(0, keepdim=True) for t in tables] for name, tables in program.tables.items()}
    row = next(row for row in control_batch(speaking, only, some[:100], some[100:200]) if row["head"] == head)
    assert row["one row, right"] == row["next row, right"] == row["sums"] == 100


def test_variables_alone_do_not_add(program, some):
    """As tables of an adder that has not been trained, the same variables get next to nothing right."""
    right = untrained_right(program.choice, program.shape, split_pairs("train")[:2_000], some)
    assert right < len(some) / 50
