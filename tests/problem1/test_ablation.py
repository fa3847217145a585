"""What removing heads does, asked of the published adder; a plain loop is the yardstick."""

import copy

import pytest
import torch

from problem1.ablation import (
    TOLERANCE,
    ablate_heads,
    ablate_pairs,
    accuracy_without,
    gate_gradients,
    greedy_pruning,
    mean_heads,
    prunable_summary,
    random_pruning,
    ranked,
    renumber_heads,
    right_without,
    singly_prunable,
)
from problem1.dataset import encode_pairs, shift_right
from problem1.specialization import record_pairs


@torch.inference_mode()
def test_the_number_of_a_head_means_nothing(adder, pairs):
    """Renumbered, the adder computes the same, and the head that was number 2 is removed as number 0."""
    source, target = encode_pairs(pairs)
    decoder_input, other = shift_right(target), renumber_heads(copy.deepcopy(adder), 3, [2, 0, 3, 1])
    assert torch.allclose(adder(source, decoder_input), other(source, decoder_input), atol=1e-4)
    before, after = adder(source, decoder_input, adder.gates(14)), other(source, decoder_input, other.gates(12))
    assert torch.allclose(before, after, atol=1e-4)
    assert not torch.allclose(before, other(source, decoder_input, other.gates(14)), atol=1e-2)


@torch.inference_mode()
def test_ablation_scores_every_item_as_a_plain_loop_does(adder, pairs, validation):
    """The plain loop: for each head and method, encode once and decode greedily in four passes."""
    source, _ = encode_pairs(pairs)
    record, target = record_pairs(adder, pairs)
    table = ablate_heads(adder, pairs, validation).set_index(["head", "method"])
    for method, patches in {"zero": None, "mean": mean_heads(adder, validation)}.items():
        for head, name in enumerate(adder.head_names):
            right = (adder.generate(source, adder.gates(head), patches) == target).all(1)
            assert torch.equal(right_without(adder, record, target, (), head, patches), right)
            assert table.loc[(name, method), "accuracy"] == right.double().mean().item()
    assert (
        table["drop"].max() > 0.3 and (table["low"] <= table["drop"]).all() and (table["drop"] <= table["high"]).all()
    )


def test_ranking_and_prunable_heads(adder, pairs, validation):
    ablation = ablate_heads(adder, pairs, validation)
    table = ranked(ablation)
    assert table["rank"].tolist() == list(range(1, 25)) and table["zero drop"].is_monotonic_decreasing
    assert set(singly_prunable(ablation)) == set(table.loc[table["zero drop"] <= 0.01, "head"])


def test_removing_nothing_or_everything(adder, pairs):
    assert accuracy_without(adder, pairs, [])["mean"] == 1.0
    assert accuracy_without(adder, pairs, adder.head_names)["mean"] < 0.05


def test_pairs_of_heads_agree_with_closing_both_gates(adder, pairs):
    table = ablate_pairs(adder, pairs, progress=None)
    assert len(table) == 276
    for row in table.iloc[[0, 100, 275]].itertuples():
        kept = accuracy_without(adder, pairs, [row.first, row.second])["mean"]
        assert abs(row.both - (1 - kept)) < 1e-9


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
        logits = precise(source, shift_right(target), gates)[0].detach()
        right = logits.gather(-1, target[0][:, None])
        return (right - logits.scatter(-1, target[0][:, None], -torch.inf).amax(-1, keepdim=True)).sum().item()

    for head in range(24):
        slope = abs(margin(head, 1 + 1e-5) - margin(head, 1 - 1e-5)) / 2e-5
        assert table["margin", adder.head_names[head]] == pytest.approx(slope, rel=0.01, abs=0.001)


def test_the_summary_removes_all_singly_prunable_heads_at_once(adder, pairs, validation):
    ablation = ablate_heads(adder, pairs, validation)
    for method, patches in {"zero": None, "mean": mean_heads(adder, validation)}.items():
        found = prunable_summary(adder, ablation, pairs, validation)[method]
        assert found["heads"] == singly_prunable(ablation, method) and found["count"] == len(found["heads"])
        assert found["accuracy without all of them"] == accuracy_without(adder, pairs, found["heads"], patches)
        drops = ablation[ablation["method"] == method].set_index("head")["drop"]
        assert (drops[found["heads"]] <= TOLERANCE + 1e-12).all() and (drops.drop(found["heads"]) > TOLERANCE).all()


def test_heads_go_by_name_or_number(adder, pairs):
    names = ["Encoder L1 H3", "Decoder Cross L1 H1"]
    numbers = [adder.head_names.index(name) for name in names]
    assert accuracy_without(adder, pairs, names) == accuracy_without(adder, pairs, numbers)
