import hashlib
import json

import numpy as np
import pytest

from problem1 import dataset
from problem1.dataset import BOS, PAD, PLUS, carries_in, carry_facts, contains, encode_pairs, every_pair, split_pairs


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
    with pytest.raises(ValueError, match="is not a sum of two 3-digit numbers") as error:
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
    with pytest.raises(ValueError, match=sentence):
        split_pairs(*arguments)
