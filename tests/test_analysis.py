"""Questions about heads, asked of models whose answer is known."""

import copy

import numpy as np
import pytest
import torch

from problem1.ablation import (
    ablate_heads,
    ablate_pairs,
    accuracy_without,
    gate_gradients,
    greedy_pruning,
    mean_heads,
    prunable_alone,
    random_pruning,
    ranked,
    renumber_heads,
    right_without,
)
from problem1.analysis import unseen_pairs
from problem1.carry import attention_by_sum, carry_probes, digit_errors, minimal_pairs, patch_carries
from problem1.dataset import carries_in, carry_facts, column_names, decoder_input, encode_pairs, split_pairs
from problem1.model import Adder
from problem1.specialization import example_pairs, head_specialization, key_classes, trace_pairs, uniform_attention
from problem1.train import published_adder

FEW = 150


@pytest.fixture(scope="module")
def adder():
    return published_adder()[0]


@pytest.fixture(scope="module")
def pairs():
    return unseen_pairs("test")[:FEW]


@pytest.fixture(scope="module")
def validation():
    return unseen_pairs("validation")[:FEW]


# --- removing heads ---


@torch.inference_mode()
def test_the_number_of_a_head_means_nothing(adder, pairs):
    """Renumbered, the adder computes the same, and the head that was number 2 is removed as number 0."""
    source, target = encode_pairs(pairs)
    written, other = decoder_input(target), renumber_heads(copy.deepcopy(adder), 3, [2, 0, 3, 1])
    assert torch.allclose(adder(source, written), other(source, written), atol=1e-4)
    before, after = adder(source, written, adder.gates(14)), other(source, written, other.gates(12))
    assert torch.allclose(before, after, atol=1e-4)
    assert not torch.allclose(before, other(source, written, other.gates(14)), atol=1e-2)


@torch.inference_mode()
def test_ablation_gives_the_verdict_of_a_plain_loop_on_every_item(adder, pairs, validation):
    """The plain loop: for each head and method, encode once and decode greedily in four passes."""
    source, _ = encode_pairs(pairs)
    trace, target = trace_pairs(adder, pairs)
    table = ablate_heads(adder, pairs, validation).set_index(["head", "method"])
    for method, patches in {"zero": None, "mean": mean_heads(adder, validation)}.items():
        for head, name in enumerate(adder.head_names):
            right = (adder.generate(source, adder.gates(head), patches) == target).all(1)
            assert torch.equal(right_without(adder, trace, target, (), head, patches), right)
            assert table.loc[(name, method), "accuracy"] == right.double().mean().item()
    assert (
        table["drop"].max() > 0.3 and (table["low"] <= table["drop"]).all() and (table["drop"] <= table["high"]).all()
    )


def test_ranking_and_prunable_heads(adder, pairs, validation):
    ablation = ablate_heads(adder, pairs, validation)
    table = ranked(ablation)
    assert table["rank"].tolist() == list(range(1, 25)) and table["zero drop"].is_monotonic_decreasing
    assert set(prunable_alone(ablation)) == set(table.loc[table["zero drop"] <= 0.01, "head"])


def test_removing_nothing_or_everything(adder, pairs):
    assert accuracy_without(adder, pairs, [])["mean"] == 1.0
    assert accuracy_without(adder, pairs, adder.head_names)["mean"] < 0.05


def test_pairs_of_heads_agree_with_closing_both_gates(adder, pairs):
    table = ablate_pairs(adder, pairs, progress=None)
    assert len(table) == 276
    for row in table.iloc[[0, 100, 275]].itertuples():
        kept = accuracy_without(adder, pairs, [row.first, row.second])["mean"]
        assert abs(row.together - (1 - kept)) < 1e-9


def test_greedy_pruning_is_no_worse_than_random_and_reads_where_it_does_not_choose(adder, pairs, validation):
    greedy = greedy_pruning(adder, validation, pairs, progress=None)
    assert greedy["removed"].tolist() == list(range(25)) and greedy["head"].nunique() == 25
    for count in (5, 10):
        kept = accuracy_without(adder, pairs, greedy["head"][1 : count + 1].tolist())["mean"]
        assert kept == greedy["accuracy"][count]
    random = random_pruning(adder, pairs, orders=3, progress=None)
    assert (random.groupby("removed")["accuracy"].median()[2:10] <= greedy["accuracy"][2:10] + 0.02).all()


def test_gate_gradients_are_the_slope_of_the_margin(adder, pairs):
    """Against a finite difference in double precision, one head at a time, on one pair."""
    one = pairs[:1]
    table = gate_gradients(adder, one).set_index(["quantity", "head"])["mean"]
    precise, (source, target) = copy.deepcopy(adder).double(), encode_pairs(one)

    def margin(head, gate):
        gates = adder.gates().double()
        gates.view(-1)[head] = gate
        logits = precise(source, decoder_input(target), gates)[0].detach()
        right = logits.gather(-1, target[0][:, None])
        return (right - logits.scatter(-1, target[0][:, None], -torch.inf).amax(-1, keepdim=True)).sum().item()

    for head in range(24):
        slope = abs(margin(head, 1 + 1e-5) - margin(head, 1 - 1e-5)) / 2e-5
        assert table["margin", adder.head_names[head]] == pytest.approx(slope, rel=0.01, abs=0.001)


# --- where heads look ---


def test_key_classes_name_the_right_tokens():
    cross = key_classes("cross", 3)
    assert np.flatnonzero(cross["same column"][2]).tolist() == [1, 5]  # the tens of 663+497 are its 6 and its 9
    assert np.flatnonzero(cross["next lower column"][2]).tolist() == [2, 6]
    assert np.flatnonzero(cross["+"][0]).tolist() == [3]
    assert not cross["same column"][0].any() and not cross["next lower column"][3].any()
    encoder = key_classes("encoder", 3)
    assert np.flatnonzero(encoder["same column"][4]).tolist() == [0, 4] and not encoder["same column"][3].any()
    own = key_classes("self", 3)
    assert np.flatnonzero(own["BOS"][3]).tolist() == [0] and np.flatnonzero(own["earlier outputs"][2]).tolist() == [
        1,
        2,
    ]


def test_a_model_that_looks_everywhere_alike_shows_the_uniform_values(pairs):
    torch.manual_seed(0)
    model = Adder().eval()
    for block in model.blocks:  # no queries, no differences between keys
        torch.nn.init.zeros_(block.attention.query.weight)
    table = head_specialization(model, pairs).set_index(["head", "measure"])["mean"]
    for kind, name in [("encoder", "Encoder L1 H2"), ("self", "Decoder Self L0 H1"), ("cross", "Decoder Cross L1 H0")]:
        for measure, value in uniform_attention(kind).items():
            assert table[name, measure] == pytest.approx(value, abs=1e-5)
        assert table[name, "stability"] == pytest.approx(1, abs=1e-5)


def test_examples_show_every_number_of_carries_and_a_nine():
    facts = carry_facts(example_pairs())
    assert len(facts) == 12 and facts["carries"].value_counts().tolist() == [3, 3, 3, 3]
    assert facts["through a 9"].sum() >= 2


# --- carry ---


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
    with pytest.raises(ValueError, match="no carry can arrive in column 3"):
        minimal_pairs(3, 10)


def test_patching_controls(adder):
    """All that the decoder knows of the source comes through cross-attention, and lower digits are not yet written."""
    table = patch_carries(adder, count=100).set_index("patched")["follows"]
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
    wrong = (adder(source, decoder_input(target), adder.gates(5, 13)).argmax(-1) != target).numpy()
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
