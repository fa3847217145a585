import hashlib
import json

import numpy as np
import pytest
import torch

from problem1 import dataset
from problem1.dataset import (
    BOS,
    PAD,
    PLUS,
    ExactBatches,
    OnlineBatches,
    carries_in,
    carry_facts,
    contains,
    encode_pairs,
    every_pair,
    split_pairs,
)
from problem1.shared.errors import UserError


@pytest.mark.parametrize(
    ("split", "published"),
    [("train", "25d38dcf7bba9b2a"), ("validation", "c3bfe9078e880005"), ("test", "b80bf64532333431")],
)
def test_splits_hash_to_the_published_values(split, published):
    source, target = encode_pairs(split_pairs(split))
    items = [{"input": s, "target": t} for s, t in zip(source.tolist(), target.tolist(), strict=True)]
    text = json.dumps(items, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == published


def test_overlap_between_splits():
    table = dataset.overlap_table().set_index(["pairs of", "found in"])
    assert table.loc[("test", "train"), ["same order", "either order"]].tolist() == [25, 49]
    assert table.loc[("validation", "train"), ["same order", "either order"]].tolist() == [16, 48]
    assert table.loc[("test", "validation"), "same order"] == 6


def test_contains_looks_at_the_order_only_when_asked():
    pool, pairs = np.array([[123, 456]]), np.array([[123, 456], [456, 123], [123, 123]])
    assert contains(pool, pairs).tolist() == [True, False, False]
    assert contains(pool, pairs, either_order=True).tolist() == [True, True, False]


def test_every_pair_comes_exactly_once():
    pairs = np.concatenate(list(every_pair(3, batch_size=7_001)))
    assert pairs.shape == (810_000, 2) and pairs.min() == 100 and pairs.max() == 999
    assert len(np.unique(pairs[:, 0] * 1_000 + pairs[:, 1])) == 810_000


def test_tokens_of_every_pair_spell_the_sum():
    for pairs in every_pair(3, 90_000):
        source, target = (tokens.numpy() for tokens in encode_pairs(pairs))
        hundreds = np.array([100, 10, 1])
        assert (source[:, :3] @ hundreds == pairs[:, 0]).all() and (source[:, 4:] @ hundreds == pairs[:, 1]).all()
        assert (source[:, 3] == PLUS).all()
        assert (target @ np.array([1_000, 100, 10, 1]) == pairs.sum(1)).all()


@pytest.mark.parametrize("digits", [2, 3])
def test_carries_of_every_pair_agree_with_addition_by_hand(digits):
    for pairs in every_pair(digits, 90_000):
        arrives, facts = carries_in(pairs, digits), carry_facts(pairs, digits)
        left, carry = pairs.copy(), np.zeros(len(pairs), int)
        run, longest, through = np.zeros(len(pairs), int), np.zeros(len(pairs), int), np.zeros(len(pairs), bool)
        for column in range(digits, -1, -1):  # as at school: from the ones up
            assert (arrives[:, column] == carry).all()
            total = left[:, 0] % 10 + left[:, 1] % 10 + carry
            through |= (carry == 1) & (total == 10)
            carry, left = total // 10, left // 10
            run = np.where(carry == 1, run + 1, 0)
            longest = np.maximum(longest, run)
        assert (facts["longest chain"] == longest).all() and (facts["through a 9"] == through).all()
        # a second way: every carry lowers the digit sum by 9
        digit_sum = sum(dataset.to_digits(n, digits + 1).sum(1) for n in pairs.T)
        assert (facts["carries"] * 9 == digit_sum - dataset.to_digits(pairs.sum(1), digits + 1).sum(1)).all()


def test_special_tokens_are_not_digits():
    assert len({*range(10), PLUS, BOS, PAD}) == 13 == len(dataset.TOKENS)


def test_text_encodes_and_decodes():
    source, target = encode_pairs(dataset.parse("663+497"))
    assert dataset.decode(source[0]) == "663+497" and dataset.decode(target[0]) == "1160"
    assert dataset.parse(" 12345 + 99999 ", digits=5).tolist() == [[12345, 99999]]


@pytest.mark.parametrize("text", ["66+497", "12a+345", "-5+3", "663+0497", "663", "", "1000+100", "663+497+1"])
def test_what_is_not_a_sum_gets_one_sentence(text):
    with pytest.raises(UserError, match="is not a sum of two 3-digit numbers") as error:
        dataset.parse(text)
    assert repr(text) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("train", 2), "a train split of 10,000 pairs does not fit: 2-digit sums allow 1 to 8,100."),
        (("train", 3, 0), "a train split of 0 pairs does not fit"),
        (("train", 7), "digits is 7; the task is defined for 2, 3, 4, 5 or 6 digits."),
        (("holdout", 3), "split is 'holdout'; the splits are train, validation, test."),
    ],
)
def test_what_does_not_fit_gets_one_sentence(arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        split_pairs(*arguments)


# --- training batches ---


def test_batches_hold_each_training_pair_once_per_epoch():
    batches = ExactBatches(seed=0, batch_size=64, train_size=640)
    seen = torch.cat([batches(step)[0] for step in range(10)])
    expected, _ = encode_pairs(split_pairs("train", 3, 640))
    assert sorted(seen.tolist()) == sorted(expected.tolist())


def test_an_epoch_of_full_batches_has_156_steps_and_a_whole_one_157():
    full, whole = ExactBatches(0, 64), ExactBatches(0, 64, full_only=False)
    assert (full.per_epoch, whole.per_epoch) == (156, 157)
    assert {len(full.pairs_of(step)) for step in range(157)} == {64}
    sizes = [len(whole.pairs_of(step)) for step in range(158)]
    assert sizes[:156] == [64] * 156 and sizes[156:] == [16, 64]
    epoch = np.concatenate([whole.pairs_of(step) for step in range(157)])
    assert len(np.unique(epoch, axis=0)) == 10_000
    assert len(ExactBatches(0, 64, train_size=10).pairs_of(5)) == 10


def test_swapping_shows_both_orders_of_the_same_sums():
    plain, both = (ExactBatches(0, 64, swap=swap, train_size=640)(3) for swap in (False, True))
    assert torch.equal(plain[1], both[1]) and not torch.equal(plain[0], both[0])
    swapped = torch.cat([plain[0][:, 4:], plain[0][:, 3:4], plain[0][:, :3]], 1)
    assert ((both[0] == plain[0]).all(1) | (both[0] == swapped).all(1)).all()


def test_online_batches_are_full_and_new_in_every_step():
    batches = OnlineBatches(seed=0, batch_size=64, digits=2)
    first, second = batches.pairs_of(0), batches.pairs_of(1)
    assert len(first) == len(second) == 64 and not np.array_equal(first, second)
    assert np.array_equal(first, OnlineBatches(0, 64, 2).pairs_of(0))
