"""Shares of items, as they are printed."""

import pytest
from course.audit.facts import Share
from course.audit.finding import CERTAIN, LIKELY, Finding, as_scores, batches, listed, matching, worst_first
from course.audit.names import number

SHARES = [Share(824, 2_000, "sums below 1000")]


def scores(*written):
    return as_scores([number(value) for value in written])


@pytest.mark.parametrize("written", [("0.4120", "0.4115"), ("41.20", "40.55"), ("41.20 %", "1 %"), (0.412, 0.4055)])
def test_a_share_is_known_in_any_unit(written):
    score = scores(*written)[0]
    assert matching(score, SHARES) and score.tells(2_000) and not matching(scores(*written)[1], SHARES)


def test_a_rounded_number_does_not_tell_single_items():
    (score,) = scores(0.41)
    assert matching(score, SHARES) and not score.tells(2_000)
    assert not matching(scores(0.4)[0], SHARES)  # one digit says nothing


def test_one_item_beside_it_is_another_number():
    assert not matching(scores("0.4125")[0], SHARES) and not matching(scores("0.4115")[0], SHARES)


def test_whole_numbers_of_items():
    (whole, odd) = scores(0.4125, 0.4123)
    assert whole.is_whole(2_000) and not odd.is_whole(2_000)
    assert scores(0.508621)[0].is_whole(232)


def test_means_over_batches_are_known():
    right = [61] + [60] * 30 + [15]  # of 31 batches of 64 and one of 16
    mean = sum(r / size for r, size in zip(right, [64] * 31 + [16], strict=True)) / 32
    (score,) = scores(mean)
    assert not score.is_whole(2_000) and batches(2_000, [score]) in (16, 32, 64)
    assert batches(2_000, scores(0.123456789)) is None


def test_the_worst_comes_first():
    words = ["file", "says", "means", "check", "mend"]
    marks = [("a", LIKELY, 1), ("b", CERTAIN, 2), ("c", CERTAIN, 1)]
    a, b, c = (Finding(name, certainty, weight, *words) for name, certainty, weight in marks)
    assert worst_first([a, b, c]) == [c, a, b]


def test_lists_in_words():
    assert [listed("a"), listed("ab"), listed("abc"), listed("abcdefgh", 3)] == [
        "a",
        "a and b",
        "a, b and c",
        "a, b and 6 more",
    ]
