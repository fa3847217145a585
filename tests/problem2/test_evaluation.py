"""What a classifier is examined on, how it is scored, and policies at test time."""

import copy
import itertools
import math
import statistics

import pandas as pd
import pytest
import torch
from torch import nn

from problem1.shared.errors import UserError
from problem2 import evaluation
from problem2.dataset import crowded_items, long_items, make_items, split_items
from problem2.encodings import ENCODINGS, Policies, encoding_options
from problem2.evaluation import (
    CONTROLS,
    HARD_SIZE,
    LENGTHS,
    LOG_LENGTH,
    NEW_SEED,
    SIZE,
    all_sets,
    crowded_sets,
    development_sets,
    evaluate,
    exact_sets,
    examine,
    far_sets,
    hard_sets,
    narrow_sets,
    new_group,
    new_sets,
    piece_sets,
    scores,
    split_rows,
    with_policy,
)
from problem2.model import Classifier

LABELS = [True, True, True, False, False, True, False, False, False, False]
LOGITS = [2.0, 0.5, -1.0, -3.0, 0.5, 0.0, -0.1, 4.0, -2.0, -1.0]
POLICIES = [(name, policy) for name, cls in ENCODINGS.items() if issubclass(cls, Policies) for policy in cls.policies]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def tiny(encoding="sinusoidal", **arguments):
    model = Classifier(encoding, n_layers=2, n_heads=2, d_model=16, d_ff=16, **arguments)
    for parameter in model.parameters():
        if parameter.ndim == 1:  # biases start at zero, where a mistake would not show
            nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.3)
    return model.eval()


def tokens_of(length, batch=6):
    return torch.randint(0, 100, (batch, length))


@torch.inference_mode()
def logits_of(model, tokens):
    return model(tokens).logits


def scored(logits=LOGITS, labels=LABELS):
    return scores(torch.tensor(logits), torch.tensor(labels))


def close(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name


# --- scores ----------------------------------------------------------------------------------------------------------


def test_the_scores_of_ten_answers_are_those_counted_by_hand():
    found = scored()
    assert found["items"] == 10 and found["share sorted"] == pytest.approx(0.4)
    assert found["accuracy"] == pytest.approx(0.6)  # 2 of 4 sorted and 4 of 6 unsorted; a logit of 0 says unsorted
    assert found["balanced accuracy"] == pytest.approx((2 / 4 + 4 / 6) / 2)
    assert found["share answered sorted"] == pytest.approx(0.4)
    assert found["constant prediction"] is False


def test_auroc_is_the_share_of_ordered_pairs_and_ties_count_half():
    ups, downs = ([z for z, label in zip(LOGITS, LABELS, strict=True) if label is side] for side in (True, False))
    pairs = [(up > down) + (up == down) / 2 for up, down in itertools.product(ups, downs)]
    assert len(pairs) == 24 and pairs.count(0.5) == 2
    assert scored()["AUROC"] == pytest.approx(statistics.mean(pairs))
    assert scored([-z for z in LOGITS])["AUROC"] == pytest.approx(1 - statistics.mean(pairs))


def test_a_shifted_threshold_costs_accuracy_and_not_auroc():
    logits = [1.0 if label else -1.0 for label in LABELS]
    assert scored(logits)["accuracy"] == scored(logits)["AUROC"] == 1
    for shift, share in [(5, 0.4), (-5, 0.6)]:
        found = scored([z + shift for z in logits])
        assert found["AUROC"] == 1 and found["accuracy"] == pytest.approx(share)
        assert found["balanced accuracy"] == 0.5 and found["constant prediction"]


@pytest.mark.parametrize(
    ("logits", "share", "constant"),
    [
        ([0.1, 5.0, 2.0, 1.0], 1, True),
        ([-0.1, -5.0, -2.0, -1.0], 0, True),
        ([0.0, -5.0, -2.0, -1.0], 0, True),
        ([0.1, -5.0, -2.0, -1.0], 0.25, False),
        ([0.1, 5.0, 2.0, -1.0], 0.75, False),
    ],
)
def test_a_constant_prediction_is_one_whose_answers_are_all_the_same(logits, share, constant):
    found = scored(logits, [True, False, True, False])
    assert found["constant prediction"] is constant and found["share answered sorted"] == share


@pytest.mark.parametrize(("right", "items"), [(0, 40), (1, 40), (20, 40), (389, 500), (500, 500)])
def test_the_interval_is_wilsons_and_contains_the_accuracy(right, items):
    labels = torch.arange(items) % 2 == 0
    answers = torch.where(torch.arange(items) < right, labels, ~labels)
    found = scores(answers.double() - 0.5, labels)
    p, z = right / items, statistics.NormalDist().inv_cdf(0.975)
    middle, width = p + z**2 / (2 * items), z * math.sqrt(p * (1 - p) / items + z**2 / (4 * items**2))
    assert found["accuracy"] == pytest.approx(p)
    assert found["low"] == pytest.approx((middle - width) / (1 + z**2 / items), abs=1e-9)
    assert found["high"] == pytest.approx((middle + width) / (1 + z**2 / items), abs=1e-9)
    assert 0 <= found["low"] <= p + 1e-12 and p - 1e-12 <= found["high"] <= 1
    assert found["high"] - found["low"] > 0.005


# --- the sets --------------------------------------------------------------------------------------------------------


def items_in(examination):
    return list(zip(examination.group.tokens.tolist(), examination.group.is_sorted.tolist(), strict=True))


def sequences_in(examination):
    return {tuple(sequence) for sequence in examination.group.tokens.tolist()}


def test_exact_sets_are_the_assignments_items():
    sets = {each.length: each for each in exact_sets()}
    assert list(sets) == [8, 12, 16, 32, 64, 128, 256]
    assert {(each.name, each.corruption) for each in sets.values()} == {("exact", "swaps")}
    test = split_items("test")
    for length, size in {8: 232, 12: 221, 16: 228}.items():
        found = items_in(sets[length])
        assert len(found) == size and found == [item for item in test if len(item[0]) == length]
    for length, share in {32: 0.454, 64: 0.514, 128: 0.518, 256: 0.512}.items():
        assert items_in(sets[length]) == long_items(length) and len(sets[length].group.tokens) == 500
        assert sets[length].group.is_sorted.double().mean().item() == pytest.approx(share)


def test_development_and_new_sets_are_half_sorted_with_true_labels():
    for each in development_sets() + new_sets() + narrow_sets():
        items = items_in(each)
        assert len(items) == SIZE and sum(label for _, label in items) == SIZE // 2
        assert all(label == (sequence == sorted(sequence)) for sequence, label in items)


def test_there_is_one_set_for_each_corruption_and_length_and_its_items_are_of_them():
    assert [(e.name, e.corruption, e.length) for e in development_sets()] == [
        ("development", corruption, length) for corruption in CONTROLS for length in (24, 48, 96)
    ]
    assert [(e.name, e.corruption, e.length) for e in new_sets()] == [
        ("new", corruption, length) for corruption in CONTROLS for length in LENGTHS
    ]
    assert [(e.corruption, e.length) for e in new_sets(("reversed",), (7, 9), 10)] == [("reversed", 7), ("reversed", 9)]
    for each in development_sets() + new_sets():
        assert each.group.tokens.shape == (SIZE, each.length)
        unsorted = each.group.tokens[~each.group.is_sorted]
        if each.corruption == "adjacent":
            assert ((unsorted[:, :-1] > unsorted[:, 1:]).sum(1) == 1).all()
        if each.corruption == "reversed":
            assert (unsorted[:, :-1] >= unsorted[:, 1:]).all()


def test_what_is_chosen_is_chosen_at_lengths_and_seeds_that_are_not_read_later():
    later = exact_sets() + new_sets() + far_sets()
    assert not {each.length for each in development_sets()} & {each.length for each in later}
    for each in development_sets():
        assert not sequences_in(each) & sequences_in(each._replace(group=new_group(each.corruption, each.length)))


def test_no_sequence_is_in_two_sets():
    sets = [sequences_in(each) for each in development_sets() + exact_sets() + new_sets() + far_sets()]
    assert len(set.union(*sets)) == sum(map(len, sets))


def test_the_seeds_of_the_sets_are_those_stated():
    for sets, seed in ((development_sets(), 7), (new_sets(), 2_026)):
        each = sets[5]
        assert items_in(each) == make_items(SIZE, each.length, each.corruption, seed=seed)


def test_pieces_are_the_middle_16_of_the_new_sequences_with_true_labels():
    whole = new_sets(("swaps",), (32, 64, 128, 256))
    for piece, source, start in zip(piece_sets(), whole, (8, 24, 56, 120), strict=True):
        assert (piece.name, piece.corruption, piece.length) == ("pieces", "swaps", source.length)
        sequences = [sequence[start : start + 16] for sequence in source.group.tokens.tolist()]
        assert items_in(piece) == [(sequence, sequence == sorted(sequence)) for sequence in sequences]
        labels = piece.group.is_sorted
        assert labels[source.group.is_sorted].all() and not labels.all()


def test_a_piece_of_an_unsorted_sequence_may_be_sorted_and_its_label_says_so(monkeypatch):
    """One adjacent swap is often outside the piece; the assignment's many swaps hardly ever are."""
    monkeypatch.setattr("problem2.evaluation.new_group", lambda corruption, length: new_group("adjacent", length))
    for piece in piece_sets():
        assert all(label == (sequence == sorted(sequence)) for sequence, label in items_in(piece))
        assert piece.group.is_sorted.sum() > SIZE // 2


def test_narrow_sets_have_length_16_and_as_many_items_for_each_value_as_a_longer_sequence():
    assert [(each.name, each.corruption, each.length) for each in narrow_sets()] == [
        ("narrow", "swaps", length) for length in (32, 64, 128, 256)
    ]
    for each in narrow_sets():
        assert each.group.tokens.shape == (SIZE, 16)
        width = 100 * 16 // each.length
        assert each.group.tokens.unique().tolist() == list(range(50, 50 + width))


def test_crowded_and_hard_sets_are_what_their_names_say():
    assert [(each.name, each.corruption, each.length) for each in crowded_sets()] == [
        ("crowded", "swaps", length) for length in (32, 64, 128, 256)
    ]
    assert all(items_in(each) == crowded_items(SIZE, each.length, NEW_SEED) for each in crowded_sets())
    hard = [(each.name, each.length, len(each.group.tokens)) for each in hard_sets()]
    new = [("new", length, SIZE) for length in (8, 12, 16, 32, 64, 128, 256)]
    far = [("new", 512, HARD_SIZE), ("new", 1_024, HARD_SIZE)]
    assert hard == [("development", length, SIZE) for length in (24, 48, 96)] + new + far
    assert {each.corruption for each in hard_sets()} == {"adjacent"} and HARD_SIZE >= 200  # one mistake is 0.5 %


def test_every_classifier_is_examined_on_all_sets_under_names_that_tell_them_apart():
    names = [(each.name, each.corruption, each.length) for each in all_sets()]
    assert len(names) == len(set(names)) == 7 + 28 + 4 + 4
    assert {name for name, _, _ in names} == {"exact", "new", "pieces", "narrow"}


# --- examining a classifier ------------------------------------------------------------------------------------------


def undecided(groups):
    """A tiny classifier that calls about half of these sequences sorted."""
    model = tiny()
    logits = torch.cat([logits_of(model, group.tokens) for group in groups])
    with torch.no_grad():
        model.head[-1].bias -= logits.median()
    return model


def test_examining_several_groups_scores_all_their_answers_together():
    groups = [new_group("swaps", 8, 1_100), new_group("reversed", 12, 60), new_group("adjacent", 40, 20)]
    model = undecided(groups)
    logits = torch.cat([logits_of(model, group.tokens) for group in groups])
    labels = torch.cat([group.is_sorted for group in groups])
    found = examine(model, groups)
    assert found["items"] == 1_180 and 0.4 < found["share answered sorted"] < 0.6  # 1,100 of length 8: two batches
    close(found, scores(logits, labels))


def test_evaluating_gives_one_row_for_each_set():
    sets = [*new_sets(("adjacent", "reversed"), (8, 20), 40), narrow_sets()[3]]
    model = undecided([each.group for each in sets])
    rows = evaluate(model, sets)
    assert len({row["AUROC"] for row in rows}) == 5
    for row, each in zip(rows, sets, strict=True):
        expected = scores(logits_of(model, each.group.tokens), each.group.is_sorted)
        close(row, {"set": each.name, "corruption": each.corruption, "length": each.length, **expected})


def test_rows_in_a_column_become_a_table_under_the_keys_of_theirs():
    scored = [{"length": 8, "accuracy": 1.0}, {"length": 16, "accuracy": 0.5}]
    runs = pd.DataFrame({"seed": [0, 1], "name": ["a", "b"], "loss": [0.1, 0.2], "rows": [scored, scored[:1]]})
    table, rows = split_rows(runs, ["name", "seed"])
    assert list(table) == ["seed", "name", "loss"] and len(table) == 2
    assert list(rows) == ["name", "seed", "length", "accuracy"]
    assert rows.to_numpy().tolist() == [["a", 0, 8, 1.0], ["a", 0, 16, 0.5], ["b", 1, 8, 1.0]]


# --- policies at test time -------------------------------------------------------------------------------------------


def test_policies_are_a_classifiers_own_then_the_others_of_its_encoding_then_log_length_scaling():
    assert evaluation.policies_for(tiny("sinusoidal")) == ["extend", "clamp", "interpolate", "moved", LOG_LENGTH]
    assert evaluation.policies_for(tiny("sinusoidal", options={"beyond": "interpolate"})) == [
        "interpolate",
        "extend",
        "clamp",
        "moved",
        LOG_LENGTH,
    ]
    assert evaluation.policies_for(tiny("learned", options={"beyond": "untrained"})) == [
        "untrained",
        "clamp",
        "interpolate",
        "moved",
        LOG_LENGTH,
    ]
    assert evaluation.policies_for(tiny("randomized")) == ["spread", LOG_LENGTH]
    assert evaluation.policies_for(tiny("shaw")) == evaluation.policies_for(tiny("none")) == ["as trained", LOG_LENGTH]
    for encoding in ENCODINGS:
        own, *others = evaluation.policies_for(tiny(encoding))
        assert own not in others and others[-1] == LOG_LENGTH
        assert evaluation.policies_for(tiny(encoding, options={"ssmax": 1})) == [own, *others[:-1]]


@pytest.mark.parametrize(("encoding", "policy"), POLICIES)
def test_under_a_policy_a_classifier_answers_as_if_it_were_built_with_it(encoding, policy):
    model, tokens = tiny(encoding), tokens_of(64)
    options = {"beyond": policy} if "beyond" in encoding_options(encoding) else {}
    other = tiny(encoding, options=options)
    other.load_state_dict(model.state_dict())
    before = logits_of(model, tokens)
    with with_policy(model, policy) as classifier:
        assert classifier is model
        during = logits_of(model, tokens)
    assert torch.equal(during, logits_of(other, tokens))
    assert torch.equal(during, before) == (policy == evaluation.policies_for(model)[0])


def hooks_of(model):
    return [hook for module in model.modules() for hook in module._forward_hooks]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_afterwards_the_classifier_is_as_before_even_if_something_went_wrong(encoding):
    model, tokens = tiny(encoding), tokens_of(64)
    known, before, state = evaluation.policies_for(model), logits_of(model, tokens), copy.deepcopy(model.state_dict())
    for policy in known:
        with with_policy(model, policy):
            pass
        assert (
            evaluation.policies_for(model) == known
            and not hooks_of(model)
            and torch.equal(logits_of(model, tokens), before)
        )
        with pytest.raises(KeyboardInterrupt), with_policy(model, policy):
            assert bool(hooks_of(model)) == (policy == LOG_LENGTH)
            raise KeyboardInterrupt
        assert (
            evaluation.policies_for(model) == known
            and not hooks_of(model)
            and torch.equal(logits_of(model, tokens), before)
        )
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_log_length_scaling_changes_nothing_at_trained_lengths(encoding, pooling):
    model = tiny(encoding, pooling=pooling)
    for length in (2, 8, 16):
        tokens = tokens_of(length)
        before = logits_of(model, tokens)
        with with_policy(model, LOG_LENGTH):
            assert torch.equal(logits_of(model, tokens), before)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(("pooling", "factor"), [("mean", 1.5), ("cls", math.log(65) / math.log(17))])
def test_log_length_scaling_multiplies_the_queries_of_every_layer(encoding, pooling, factor):
    """log(64) / log(16) is 1.5; CLS is one more position in both."""
    model, tokens = tiny(encoding, pooling=pooling), tokens_of(64)
    by_hand = copy.deepcopy(model)
    with torch.no_grad():
        for block in by_hand.blocks:
            block.attention.query.weight *= factor
            block.attention.query.bias *= factor
    before = logits_of(model, tokens)
    with with_policy(model, LOG_LENGTH):
        during = logits_of(model, tokens)
    torch.testing.assert_close(during, logits_of(by_hand, tokens), atol=1e-5, rtol=0)
    assert (during - before).abs().max() > 1e-3


@pytest.mark.parametrize("encoding", ["none", "rope"])
def test_an_unknown_policy_names_the_known_ones(encoding):
    model = Classifier(encoding, n_layers=1, n_heads=2, d_model=8, d_ff=8)
    before = dict(vars(model.positions))
    with (
        pytest.raises(
            UserError, match=r"policy is 'nonsense'; this classifier can be tested under .*, log-length scaling\."
        ),
        with_policy(model, "nonsense"),
    ):
        pass
    assert vars(model.positions) == before
