"""Intervals and comparisons, against scipy, published examples, simulations and what can be counted by hand."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from problem1.shared.statistics import (
    difference_interval,
    interval_of,
    mean_interval,
    pair_interval,
    paired_comparisons,
    seed_intervals,
    shared_by_all,
    sign_flip,
    wilson,
    with_q,
)
from problem2.analysis import evaluated
from problem2.published import published_encodings


def sample(right, items):
    return np.arange(items) < right


def scores(**values):
    """Rows of {name: a value for each seed}."""
    return pd.DataFrame([{"name": n, "seed": s, "accuracy": v} for n, vs in values.items() for s, v in enumerate(vs)])


# --- shares of items -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("right", "items"), [(0, 1), (1, 1), (3, 7), (50, 100), (1_999, 2_000), (0, 40), (40, 40)])
def test_the_interval_of_a_share_is_wilsons(right, items):
    expected = stats.binomtest(right, items).proportion_ci(0.95, "wilson")
    assert wilson(right, items) == pytest.approx(tuple(expected), abs=1e-12)
    found = mean_interval(sample(right, items))
    assert [found[key] for key in ("mean", "low", "high")] == pytest.approx([right / items, *expected], abs=1e-12)


def test_a_sample_without_a_mistake_and_one_of_mistakes_only_have_an_interval_with_width():
    """A bootstrap of 2,000 right answers has none, but the next answer may be wrong."""
    all_right, none_right = mean_interval(np.ones(2_000)), mean_interval(np.zeros(2_000))
    assert all_right["high"] == 1 and 0.997 < all_right["low"] < 0.999
    assert none_right["low"] == 0 and none_right["high"] == pytest.approx(1 - all_right["low"])


def test_each_row_of_an_array_has_the_interval_that_it_has_by_itself():
    luck = np.random.default_rng(0)
    for values in (luck.integers(0, 2, (3, 8)), luck.normal(size=(3, 8))):
        found = mean_interval(values)
        for row, part in enumerate(values):
            by_itself = [float(value) for value in mean_interval(part).values()]
            assert [value[row] for value in found.values()] == pytest.approx(by_itself)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_no_items_say_nothing():
    assert np.isnan(wilson(0, 0)).all() and np.isnan([*mean_interval([]).values()]).all()


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((0, 10), (0, 10), -0.2775, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_the_interval_of_a_difference_of_shares_is_that_of_newcombes_own_examples(first, second, low, high):
    """Table II of his paper of 1998, method 10; they include samples without a mistake."""
    found = difference_interval(sample(*first), sample(*second))
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=6e-5)
    assert -1 <= found["low"] <= found["difference"] <= found["high"] <= 1
    assert found["difference"] == pytest.approx(first[0] / first[1] - second[0] / second[1])
    back = difference_interval(sample(*second), sample(*first))
    assert (back["low"], back["high"]) == pytest.approx((-found["high"], -found["low"]))


# --- over seeds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[0.2, 0.9], [1.0, 0.0, 0.5, 1.0], np.random.default_rng(0).normal(3, 2, 10)])
def test_the_interval_of_a_mean_is_students(values):
    expected = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    for found in (mean_interval(values), interval_of(values)):
        assert found["mean"] == pytest.approx(np.mean(values))
        assert (found["low"], found["high"]) == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
def test_one_seed_has_a_mean_but_no_interval():
    for found in (mean_interval([0.3]), interval_of([0.3]), interval_of([1])):
        assert found["mean"] in (0.3, 1) and np.isnan(found["low"]) and np.isnan(found["high"])


def test_accuracies_of_seeds_are_no_shares_even_if_all_are_1():
    assert interval_of([1.0] * 10) == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert mean_interval([1.0] * 10)["low"] < 0.75


def test_of_ten_seeds_the_t_interval_holds_the_mean_in_95_percent_and_a_bootstrap_does_not():
    """Why there is no bootstrap here: its percentiles hold the mean in 90 %."""
    luck = np.random.default_rng(0)
    draws = luck.normal(size=(2_000, 10))
    found = mean_interval(draws)
    assert 0.935 < np.mean((found["low"] <= 0) & (found["high"] >= 0)) < 0.965
    again = [row[luck.integers(0, 10, (500, 10))].mean(1) for row in draws]
    low, high = np.percentile(again, [2.5, 97.5], axis=1)
    assert 0.88 < np.mean((low <= 0) & (high >= 0)) < 0.92


def test_an_interval_over_seeds_holds_the_mean_and_grows_with_the_spread():
    table = seed_intervals(scores(calm=[0.5, 0.51, 0.49, 0.5], wild=[0.1, 0.9, 0.3, 0.7], same=[0.3] * 4), "name")
    calm, wild, same = table.itertuples()
    assert calm.mean == pytest.approx(0.5) and calm.low <= 0.5 <= calm.high and calm.seeds == 4
    assert wild.high - wild.low > 10 * (calm.high - calm.low) > 0 and same.low == same.high == pytest.approx(0.3)


def test_groups_may_be_of_several_columns_and_of_any_value():
    rows = pd.concat([scores(a=[0.2, 0.4], b=[0.5, 0.7, 0.9]).assign(length=length) for length in (8, 16)])
    table = seed_intervals(rows.rename(columns={"accuracy": "share"}), ["length", "name"], "share")
    assert table[["length", "name"]].to_numpy().tolist() == [[8, "a"], [8, "b"], [16, "a"], [16, "b"]]
    assert table["seeds"].tolist() == [2, 3, 2, 3] and table["mean"].tolist() == pytest.approx([0.3, 0.7] * 2)


def test_what_all_seeds_share_is_binomial():
    for seeds in (1, 5, 10):
        assert stats.binomtest(seeds, seeds).proportion_ci(0.90, "exact").low == pytest.approx(shared_by_all(seeds))


def all_pairs(score, seeds=10):
    """A row for each two of these seeds; score(seed, other)."""
    pairs = itertools.combinations(range(seeds), 2)
    return pd.DataFrame([{"seed": a, "other seed": b, "score": score(a, b)} for a, b in pairs])


def test_an_interval_over_pairs_takes_seeds_for_what_chance_drew():
    """One odd seed of ten spoils nine pairs of 45 at once: an interval over pairs takes that for nine accidents."""
    odd = all_pairs(lambda a, b: float(a != 3 and b != 3))
    found, naive = pair_interval(odd), interval_of(odd["score"])
    assert found["mean"] == pytest.approx(36 / 45) and found["low"] < naive["low"] - 0.1
    assert found["high"] > naive["high"] + 0.1
    assert pair_interval(all_pairs(lambda a, b: 0.25)) == pytest.approx({"mean": 0.25, "low": 0.25, "high": 0.25})


def test_if_a_pair_is_the_mean_of_its_seeds_the_interval_is_that_of_the_seeds():
    values = np.random.default_rng(0).normal(size=7)
    found = pair_interval(all_pairs(lambda a, b: (values[a] + values[b]) / 2, seeds=7))
    assert found == pytest.approx(interval_of(values))


@pytest.mark.filterwarnings("error")
def test_a_pair_of_two_seeds_has_no_interval():
    found = pair_interval(all_pairs(lambda a, b: 0.5, seeds=2))
    assert found["mean"] == 0.5 and np.isnan(found["low"]) and np.isnan(found["high"])


# --- comparisons on the same seeds -----------------------------------------------------------------------------------


def flipped(*differences):
    return sign_flip(pd.Series(differences), pd.Series(np.zeros(len(differences))))


@pytest.mark.parametrize(
    ("differences", "as_far"),
    [
        ((-1.0, 2.0, 3.0), 4),  # the sums are 6, 4, 2, 0, 0, -2, -4, -6, and 4 is what is seen
        ((1.0, 2.0, 3.0), 2),
        ((-1.0, -2.0, 3.0), 8),
        ((1.0, 1.0, -1.0), 8),  # 3, six times 1 or -1, -3
    ],
)
def test_a_sign_flip_test_is_exact(differences, as_far):
    assert flipped(*differences) == pytest.approx(as_far / 8)


def test_fewer_than_six_seeds_never_get_below_a_p_of_one_twentieth():
    luck = np.random.default_rng(0)
    for seeds in range(2, 9):
        least = flipped(*luck.uniform(1, 2, seeds))
        assert least == pytest.approx(2 / 2**seeds) and (least < 0.05) == (seeds >= 6)


def test_beyond_13_seeds_random_flips_come_close_to_all_flips_and_are_the_same_every_time():
    differences = np.random.default_rng(0).normal(0.6, 1, 14)
    signs = np.array(list(itertools.product([-1, 1], repeat=14)))
    exact = np.mean(abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
    assert 0.01 < exact < 0.2 and flipped(*differences) == pytest.approx(exact, abs=0.01)
    assert flipped(*differences) == flipped(*differences)


def test_q_is_that_of_a_hand_worked_example_of_benjamini_and_hochberg():
    """0.02 * 4 / 2 and 0.01 * 4 / 1 are above 0.021 * 4 / 3, which a smaller p may not exceed; no p is no test."""
    found = with_q(pd.DataFrame({"p": [0.5, 0.02, np.nan, 0.01, 0.021]}))
    assert found["q"].tolist() == pytest.approx([0.5, 0.028, np.nan, 0.028, 0.028], nan_ok=True)


def test_pairing_finds_a_shift_that_means_do_not_show():
    """Seeds differ by far more than the encodings do, but every seed says the same."""
    luck = np.random.default_rng(0)
    hard = luck.uniform(0.3, 0.9, 10)
    shifted = hard + 0.02 + luck.normal(0, 0.005, 10)
    [row] = paired_comparisons(scores(better=shifted, worse=hard)).to_dict("records")
    assert 0.01 < row["low"] < row["difference"] < row["high"] < 0.03
    assert row["p"] == pytest.approx(2 / 2**10) and row["seeds"] == 10
    unpaired = stats.ttest_ind(shifted, hard).confidence_interval()
    assert unpaired.low < 0 < unpaired.high


def test_a_difference_that_is_not_there_is_not_found():
    """Of many comparisons of the same with the same, about one in twenty has p below 0.05."""
    luck, found = np.random.default_rng(1), []
    for _ in range(100):
        found.append(paired_comparisons(scores(a=luck.normal(size=8), b=luck.normal(size=8)))["p"].item())
    assert np.mean(np.array(found) <= 0.05) < 0.12 and 0.4 < np.mean(found) < 0.65


def test_exchanging_the_two_changes_the_sign_only():
    one, other = [0.9, 0.8, 0.85, 0.7], [0.6, 0.75, 0.8, 0.72]
    [row] = paired_comparisons(scores(a=one, b=other)).to_dict("records")
    [back] = paired_comparisons(scores(b=other, a=one)).to_dict("records")
    assert row["difference"] == -back["difference"] > 0 and row["p"] == back["p"] == 4 / 2**4  # as far, or farther
    assert (row["low"], row["high"]) == pytest.approx((-back["high"], -back["low"]))


def test_only_seeds_of_both_are_compared_and_one_seed_shows_nothing():
    rows = scores(a=[0.9, 0.8, 0.7], b=[0.5, 0.6, 0.7], c=[0.2])
    table = paired_comparisons(rows, baseline="c").set_index("first")
    assert list(table.index) == ["a", "b"] and (table["seeds"] == 1).all() and table.loc["a", "difference"] == 0.7
    assert table[["low", "high", "p", "q"]].isna().all(axis=None)
    assert len(paired_comparisons(rows)) == 3


def test_many_comparisons_are_held_against_each_one():
    luck = np.random.default_rng(2)
    table = paired_comparisons(scores(**{f"n{i}": luck.normal(size=9) for i in range(6)}))
    assert len(table) == math.comb(6, 2) and (table["q"] >= table["p"]).all() and (table["q"] > table["p"]).any()


def test_comparisons_within_groups_are_corrected_together():
    luck = np.random.default_rng(3)
    groups = [scores(old=luck.normal(size=9), new=luck.normal(0.8, size=9)).assign(where=i) for i in range(4)]
    table = paired_comparisons(pd.concat(groups), baseline="old", within="where")
    singly = [paired_comparisons(group, baseline="old") for group in groups]
    for column in ("p", "difference"):
        assert table[column].tolist() == [part[column].item() for part in singly]
    assert table["where"].tolist() == [0, 1, 2, 3]
    assert table["q"].tolist() == pytest.approx(stats.false_discovery_control(table["p"])) != table["p"].tolist()


def test_rows_that_cannot_be_compared_get_one_sentence():
    rows = scores(a=[0.5, 0.6], b=[0.5, 0.6])
    with pytest.raises(ValueError, match="more than one accuracy for a name and a seed"):
        paired_comparisons(pd.concat([rows, rows]))
    with pytest.raises(ValueError, match="no name is 'c'; there are a, b"):
        paired_comparisons(rows, baseline="c")
    with pytest.raises(ValueError, match="needs two values of name; there are 1"):
        paired_comparisons(rows[:2])


def test_the_published_encodings_can_be_compared():
    rows = evaluated("plain", set="exact", length=64)
    table = paired_comparisons(rows, baseline="sinusoidal").set_index("first")
    seeds = rows["seed"].nunique()
    assert len(table) == len(published_encodings()) - 1 and (table["seeds"] == seeds).all() and seeds >= 10
    assert table.loc["causal", "low"] > 0.3 and table.loc["causal", "p"] == 2 / 2**seeds


def test_each_row_gets_the_interval_of_its_own_values():
    """A row of shares keeps its width beside a row that holds more than 0 and 1."""
    rows = np.array([[0, 0, 0, 0], [0, 0, 1, -1]])
    both, first, second = mean_interval(rows), mean_interval(rows[0]), mean_interval(rows[1])
    for name in ("mean", "low", "high"):
        assert both[name] == pytest.approx([float(first[name]), float(second[name])])
    assert first["high"] > 0.3
