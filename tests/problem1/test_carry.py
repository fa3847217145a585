"""Which heads carry: controls whose answer is known beforehand."""

import pytest
import torch

from problem1.carry import (
    attention_by_sum,
    attention_past_nine,
    carry_probes,
    digit_errors,
    minimal_pairs,
    patch_carries,
    strongest,
)
from problem1.dataset import carries_in, carry_facts, column_names, encode_pairs, shift_right, split_pairs
from problem1.shared.errors import UserError
from problem1.train import unseen_pairs


@pytest.mark.parametrize(("column", "through_nine"), [(0, False), (1, False), (2, False), (0, True), (1, True)])
def test_minimal_pairs_differ_in_one_digit_and_one_carry(column, through_nine):
    with_carry, without = minimal_pairs(column, 300, through_nine)
    assert len(with_carry) == len(without) == 300 and with_carry.min() >= 100 and without.min() >= 100
    source, target = encode_pairs(with_carry)
    other_source, other_target = encode_pairs(without)
    assert ((source != other_source).sum(1) == 1).all()
    assert carries_in(with_carry)[:, column].all() and not carries_in(without)[:, column].any()
    assert torch.equal(target[:, :column], other_target[:, :column])  # the decoder has read the same
    assert (target[:, column] != other_target[:, column]).all()
    assert (carries_in(with_carry)[:, :column] == carries_in(without)[:, :column]).all()
    if through_nine:
        assert carry_facts(with_carry)["through a 9"].all()


def test_no_carry_can_arrive_in_the_ones():
    with pytest.raises(UserError, match="no carry can arrive in column 3"):
        minimal_pairs(3, 10)


def test_patching_controls(adder):
    """All that the decoder knows of the source comes through cross-attention, and lower digits are not yet written."""
    table = patch_carries(adder, count=100).set_index("patched")["flip rate"]
    assert (table["all heads"] == 1).all() and (table["all Decoder Cross"] == 1).all()
    for head in range(4):  # the first self-attention has read the same digits in both sums
        assert (table[f"Decoder Self L0 H{head}"] == 0).all()


def test_the_ones_never_take_part_in_carry_errors(adder, pairs, validation):
    table = digit_errors(adder, pairs, validation)
    assert set(table["digit"]) == set(column_names()[:-1]) and len(table) == 24 * 2 * 3
    row = table.loc[table["difference"].idxmax()]
    assert row["difference"] == pytest.approx(row["with carry"] - row["without carry"])


def test_removing_a_group_equals_closing_all_its_gates(adder, pairs, validation):
    table = digit_errors(adder, pairs, validation, {"both": [5, 13], "one": [13]}).set_index(
        ["head", "method", "digit"]
    )
    single = digit_errors(adder, pairs, validation).set_index(["head", "method", "digit"])
    name = adder.head_names[13]
    assert (table.loc["one"]["with carry"] == single.loc[name]["with carry"]).all()
    source, target = encode_pairs(pairs)
    wrong = (adder(source, shift_right(target), adder.gates(5, 13)).argmax(-1) != target).numpy()
    arrives = carries_in(pairs)
    for column, digit in enumerate(column_names()[:-1]):
        assert table.loc[("both", "zero", digit), "with carry"] == wrong[arrives[:, column], column].mean()


def test_probes_cannot_read_a_carry_before_the_source_is_read(adder):
    table = carry_probes(adder, split_pairs("validation")[:1_000], unseen_pairs("test"))
    table = table.set_index(["read at", "point", "digit"])["accuracy"].sort_index()
    assert (table["answer position", "after Self L0"] < 0.65).all()
    assert (table["answer position", "after Cross L0"] > 0.9).all()


def test_attention_by_sum_covers_all_sums(adder):
    table = attention_by_sum(adder, unseen_pairs("test"), "Decoder Cross L0 H0")
    assert sorted(set(table["digit sum"])) == list(range(19))
    assert (table.groupby("digit sum")["mean"].sum() <= 1 + 1e-6).all()
    far = table[table["attends to"] == "two columns lower"].set_index("digit sum")["mean"]
    assert attention_past_nine(table) == pytest.approx(far[9] - far[far.index != 9].mean())


def test_the_strongest_head_is_of_the_kind_asked_for(adder):
    table = patch_carries(adder, count=50)
    for kind in ("Encoder", "Decoder Cross"):
        rates = table[(table["digit"] == "tens") & table["patched"].str.startswith(f"{kind} L")]
        best = strongest(table, "tens", kind)
        assert rates.groupby("patched")["flip rate"].mean()[best] == rates.groupby("patched")["flip rate"].mean().max()
