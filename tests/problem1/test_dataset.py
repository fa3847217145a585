import hashlib
import itertools
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
    columns = ["same order", "either order", "up to swaps of columns"]
    assert table.loc[("test", "train"), columns].tolist() == [25, 49, 158]
    assert table.loc[("validation", "train"), columns].tolist() == [16, 48, 166]
    assert table.loc[("test", "validation"), "same order"] == 6


def test_contains_looks_through_swaps_only_when_asked():
    pool, pairs = np.array([[123, 456]]), np.array([[123, 456], [456, 123], [156, 423], [123, 457], [132, 465]])
    assert contains(pool, pairs).tolist() == [True, False, False, False, False]
    assert contains(pool, pairs, "operands").tolist() == [True, True, False, False, False]
    assert contains(pool, pairs, "columns").tolist() == [True, True, True, False, False]


def test_the_training_pairs_stand_for_65675_of_all_pairs_under_swaps_of_columns():
    """By brute force: every training pair with every choice of columns that change places."""
    train = split_pairs("train")
    above, below = (dataset.to_digits(numbers, 3) for numbers in train.T)
    reached = set()
    for choice in itertools.product([False, True], repeat=3):
        first = dataset.from_digits(np.where(choice, below, above))
        reached |= set(zip(first.tolist(), (train.sum(1) - first).tolist(), strict=True))
    shown = np.concatenate([pairs[contains(train, pairs, "columns")] for pairs in every_pair(3, 90_000)])
    assert set(map(tuple, shown.tolist())) == reached and len(shown) == len(reached) == 65_675


def test_pairs_with_a_nine_are_those_with_a_column_that_adds_up_to_9():
    assert dataset.has_nine(np.array([[145, 257], [123, 456], [181, 318], [900, 100]])).tolist() == [
        True,  # 4 + 5
        True,  # 3 + 6
        True,  # 8 + 1 and 1 + 8
        False,
    ]
    assert sum(dataset.has_nine(pairs).sum() for pairs in every_pair(3, 90_000)) == 218_700


def test_whoever_forgets_to_carry_is_right_exactly_where_nothing_is_carried():
    assert dataset.carryless_digits(np.array([[663, 497], [145, 257], [123, 456]])).tolist() == [
        [1, 0, 5, 0],
        [0, 3, 9, 2],
        [0, 5, 7, 9],
    ]
    for pairs in every_pair(2, 90_000):
        right = (dataset.carryless_digits(pairs, 2) == dataset.to_digits(pairs.sum(1), 3)).all(1)
        assert (right == ~carries_in(pairs, 2)[:, 1:].any(1)).all()  # a carry into the new column is only written


def test_digits_and_back():
    numbers = np.array([0, 7, 120, 999_999])
    assert (dataset.from_digits(dataset.to_digits(numbers, 6)) == numbers).all()


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


def test_swapping_operands_shows_both_orders_of_the_same_sums():
    plain, both = (ExactBatches(0, 64, swap=swap, train_size=640)(3) for swap in ("none", "operands"))
    assert torch.equal(plain[1], both[1]) and not torch.equal(plain[0], both[0])
    swapped = torch.cat([plain[0][:, 4:], plain[0][:, 3:4], plain[0][:, :3]], 1)
    assert ((both[0] == plain[0]).all(1) | (both[0] == swapped).all(1)).all()


def test_swapping_columns_keeps_the_two_digits_of_every_column_and_shows_them_in_every_way():
    plain, swapped = (ExactBatches(0, 640, swap=swap, train_size=640) for swap in ("none", "columns"))
    ways = set()
    for step in range(4):
        (before, sums), (after, same_sums) = plain(step), swapped(step)
        assert torch.equal(sums, same_sums)
        turned = after[:, :3] != before[:, :3]
        assert torch.equal(torch.where(turned, before[:, 4:], before[:, :3]), after[:, :3])
        assert torch.equal(torch.where(turned, before[:, :3], before[:, 4:]), after[:, 4:])
        ways |= set(map(tuple, turned.tolist()))
        assert abs(turned.double().mean() - 0.45) < 0.05  # a half, but equal digits are not seen to change places
    assert len(ways) == 8


def test_a_share_of_each_batch_are_training_pairs_with_a_nine_drawn_again():
    batches, plain = ExactBatches(0, 32, nines=0.3, train_size=640), ExactBatches(0, 22, train_size=640)
    for step in (0, 5, 31):
        pairs = batches.pairs_of(step)
        assert len(pairs) == 32 and np.array_equal(pairs[:22], plain.pairs_of(step))  # the rest is an epoch as before
        assert dataset.has_nine(pairs[22:]).all() and contains(batches.pairs, pairs).all()
    assert not np.array_equal(batches.pairs_of(0)[22:], batches.pairs_of(1)[22:])
    assert batches.per_epoch == 640 // 22
    without = ExactBatches(0, 4, train_size=2, nines=0.5)
    assert without.drawn_again == 0 if not dataset.has_nine(without.pairs).any() else len(without.pairs_of(0)) <= 4
    assert len(ExactBatches(0, 32, nines=1.0).pairs_of(0)) == 32  # at least one is of the epoch


@pytest.mark.parametrize("swap", dataset.SWAPS)
def test_online_batches_show_no_held_out_pair_up_to_their_swaps(swap):
    batches = OnlineBatches(0, 500, swap=swap)
    shown = np.concatenate([batches.pairs_of(step) for step in range(20)])
    assert not contains(batches.held_out, shown, "operands").any()
    assert swap != "columns" or not contains(batches.held_out, shown, "columns").any()


def test_online_batches_are_full_and_new_in_every_step():
    for swap in dataset.SWAPS:
        batches = OnlineBatches(seed=0, batch_size=64, digits=2, swap=swap)
        steps = [batches.pairs_of(step) for step in range(30)]
        assert {len(pairs) for pairs in steps} == {64} and not np.array_equal(steps[0], steps[1])
        assert np.array_equal(steps[0], OnlineBatches(0, 64, 2, swap).pairs_of(0))
