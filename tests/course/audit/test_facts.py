"""The audit draws the assignment's sets by itself: they are those of the two problems."""

import numpy as np
import pytest
from course.audit import facts

from problem1 import dataset as addition
from problem1.flawed import most_common_start
from problem2 import dataset as sorting


@pytest.mark.parametrize("split", facts.SEEDS)
def test_the_sets_are_those_of_the_problems(split):
    assert np.array_equal(facts.pairs(split), addition.split_pairs(split))
    assert list(facts.sequences(split)) == sorting.split_items(split)


@pytest.mark.parametrize("length", facts.LONG)
def test_the_long_sets_are_those_of_problem_2(length):
    assert list(facts.sequences(length)) == sorting.long_items(length)
    assert [share.count for share in facts.class_shares(length)] == [
        sum(item[1] for item in sorting.long_items(length)),
        sum(not item[1] for item in sorting.long_items(length)),
    ]


def test_the_hashes_are_those_of_the_assignment():
    assert facts.hashes(1) == {
        "25d38dcf7bba9b2a": "train",
        "c3bfe9078e880005": "validation",
        "b80bf64532333431": "test",
    }
    assert {"ac1925c58fc20aa9", "2e4efa802d929510", "f63317bbcf9092c4"} < facts.hashes(2).keys()


def test_shares_of_the_test_sums():
    shares = {share.of: share.value for share in facts.sum_shares("test")}
    assert shares["sums below 1000"] == 0.412 and shares["sums below 1000 without a further 0"] == 0.349
    assert shares["sums whose first digit is the most common one of their batch of 64"] == 0.589
    assert shares["sums whose first digit is the most common one of their batch of 32"] == 0.596


@pytest.mark.parametrize("batch", [32, 64])
def test_the_most_common_start_is_that_of_the_flawed_decoders(batch):
    _, target = addition.encode_pairs(addition.split_pairs("test"))
    right = (most_common_start(target, batch) == target[:, 0]).sum().item()
    assert right in [share.count for share in facts.sum_shares("test") if share.of.endswith(f"batch of {batch}")]
