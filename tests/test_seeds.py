"""What is said across seeds, on data whose answer is known, and on the committed tables."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from problem1.intervals import difference_interval
from problem1.seeds import head_stability, pair_interval, paired_comparisons, seed_intervals, shared_by_all
from problem1.sweep import SEEDS, published_tables
from problem2.analysis import evaluated
from problem2.encodings import ENCODINGS


def scores(**values):
    """Rows of {name: a value for each seed}."""
    return pd.DataFrame([{"name": n, "seed": s, "accuracy": v} for n, vs in values.items() for s, v in enumerate(vs)])


def test_an_interval_over_seeds_holds_the_mean_and_grows_with_the_spread():
    table = seed_intervals(scores(calm=[0.5, 0.51, 0.49, 0.5], wild=[0.1, 0.9, 0.3, 0.7], same=[0.3] * 4), "name")
    calm, wild, same = table.itertuples()
    assert calm.mean == pytest.approx(0.5) and calm.low <= 0.5 <= calm.high and calm.seeds == 4
    assert wild.high - wild.low > 10 * (calm.high - calm.low) > 0 and same.low == same.high == pytest.approx(0.3)


# --- comparisons on the same seeds -----------------------------------------------------------------------------------


def test_pairing_finds_a_shift_that_means_do_not_show():
    """Seeds differ by far more than the encodings do, but every seed says the same."""
    luck = np.random.default_rng(0)
    hard = luck.uniform(0.3, 0.9, 10)
    shifted = hard + 0.02 + luck.normal(0, 0.005, 10)
    [row] = paired_comparisons(scores(better=shifted, worse=hard)).to_dict("records")
    assert 0.01 < row["low"] < row["difference"] < row["high"] < 0.03
    assert row["p"] == pytest.approx(2 / 2**10) and row["seeds"] == 10
    unpaired = difference_interval(shifted, hard)
    assert unpaired["low"] < 0 < unpaired["high"]


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
    assert row["low"] == pytest.approx(-back["high"], abs=0.03)


def test_only_seeds_of_both_are_compared_and_one_seed_shows_nothing():
    rows = scores(a=[0.9, 0.8, 0.7], b=[0.5, 0.6, 0.7], c=[0.2])
    table = paired_comparisons(rows, baseline="c").set_index("first")
    assert list(table.index) == ["a", "b"] and (table["seeds"] == 1).all() and table.loc["a", "difference"] == 0.7
    assert table[["low", "high", "p", "q"]].isna().all(axis=None)
    assert len(paired_comparisons(rows)) == 3


def test_many_comparisons_are_held_against_each_one():
    luck = np.random.default_rng(2)
    table = paired_comparisons(scores(**{f"n{i}": luck.normal(size=9) for i in range(6)}))
    assert len(table) == 15 and (table["q"] >= table["p"]).all() and (table["q"] > table["p"]).any()


def test_comparisons_within_groups_are_corrected_together():
    luck = np.random.default_rng(3)
    groups = [scores(old=luck.normal(size=9), new=luck.normal(0.8, size=9)).assign(where=i) for i in range(4)]
    table = paired_comparisons(pd.concat(groups), baseline="old", within="where")
    alone = [paired_comparisons(group, baseline="old") for group in groups]
    assert table["where"].tolist() == [0, 1, 2, 3] and table["p"].tolist() == [part["p"].item() for part in alone]
    assert (table["q"] >= table["p"]).all() and (table["q"] > table["p"]).any()
    assert table["difference"].tolist() == [part["difference"].item() for part in alone]


def test_rows_that_cannot_be_compared_get_one_sentence():
    rows = scores(a=[0.5, 0.6], b=[0.5, 0.6])
    with pytest.raises(ValueError, match="more than one accuracy for a name and a seed"):
        paired_comparisons(pd.concat([rows, rows]))
    with pytest.raises(ValueError, match="no name is 'c'; there are a, b"):
        paired_comparisons(rows, baseline="c")
    with pytest.raises(ValueError, match="needs two values of name; there are 1"):
        paired_comparisons(rows[:2])


# --- heads -----------------------------------------------------------------------------------------------------------

COLUMNS = ["zero drop", "mean drop", "+", "next lower column", "same column", "carry into tens, next column"]
NAMES = [f"Encoder L{layer} H{head}" for layer in (0, 1) for head in range(4)]


def heads(*roles):
    """The heads of one seed for each array of roles (8 heads, 6 shares)."""
    parts = [pd.DataFrame(r, columns=COLUMNS).assign(head=NAMES, seed=seed) for seed, r in enumerate(roles)]
    return pd.concat(parts, ignore_index=True)


def test_renumbered_heads_are_the_same_heads():
    luck = np.random.default_rng(0)
    roles = luck.uniform(size=(8, 6))
    table = heads(roles, luck.permutation(roles), roles)
    stability = head_stability(table).set_index(["seed", "other seed"])
    assert stability[["matched", "score"]].to_numpy() == pytest.approx(1)
    assert stability.loc[(0, 2), "by place"] == 1 > stability.loc[(0, 1), "by place"] + 0.1
    mixed = head_stability(table.sample(frac=1, random_state=0)).set_index(["seed", "other seed"])
    assert mixed["by place"].to_numpy() == pytest.approx(stability["by place"].to_numpy())  # whatever the order of rows


def test_unrelated_heads_score_about_nothing_and_similar_ones_in_between():
    luck = np.random.default_rng(0)
    unrelated = head_stability(heads(*luck.uniform(size=(8, 8, 6))))
    assert len(unrelated) == 28 and abs(unrelated["score"].mean()) < 0.05
    tied = luck.dirichlet(np.full(6, 0.3), size=(8, 8))  # a head that looks here does not look there
    assert abs(head_stability(heads(*tied))["score"].mean()) < 0.05
    assert (unrelated["matched"] > unrelated["at random"] + 0.05).all()  # why chance is not the mean of all matchings
    roles = luck.uniform(0.2, 0.8, size=(8, 6))
    noisy = [luck.permutation(roles) + luck.uniform(-0.1, 0.1, (8, 6)) for _ in range(4)]
    assert head_stability(heads(*noisy))["score"].between(0.3, 0.7).all()


@pytest.mark.filterwarnings("error")
def test_heads_that_are_all_the_same_have_no_score():
    assert head_stability(heads(*np.full((2, 8, 6), 0.5)))["score"].isna().all()


def all_pairs(score, seeds=10):
    """A row for each two of these seeds; score(seed, other)."""
    pairs = itertools.combinations(range(seeds), 2)
    return pd.DataFrame([{"seed": a, "other seed": b, "score": score(a, b)} for a, b in pairs])


def test_an_interval_over_pairs_takes_seeds_for_what_chance_drew():
    """One odd seed of ten spoils nine pairs of 45 at once: a bootstrap over pairs takes that for nine accidents."""
    odd = all_pairs(lambda a, b: float(a != 3 and b != 3))
    found = pair_interval(odd)
    assert found["mean"] == pytest.approx(36 / 45) and found["low"] < found["mean"] < found["high"] == 1
    naive = seed_intervals(odd.assign(name="all"), "name", "score").iloc[0]
    assert found["low"] < naive["low"] - 0.1
    assert pair_interval(all_pairs(lambda a, b: 0.25)) == pytest.approx({"mean": 0.25, "low": 0.25, "high": 0.25})


def test_what_all_seeds_share_is_binomial():
    for seeds in (1, 5, 10):
        assert binomtest(seeds, seeds).proportion_ci(0.90, "exact").low == pytest.approx(shared_by_all(seeds))


# --- the committed tables --------------------------------------------------------------------------------------------


def test_the_committed_heads_have_a_stability():
    table = head_stability(published_tables()["heads"])
    pairs = len(SEEDS) * (len(SEEDS) - 1) // 2
    assert table["kind"].value_counts().to_dict() == dict.fromkeys(["Decoder Cross", "Decoder Self", "Encoder"], pairs)
    assert (table["matched"] >= table["by place"] - 1e-12).all() and (table["matched"] > table["at random"]).all()
    assert table["score"].between(-1, 1).all()


def test_the_committed_encodings_can_be_compared():
    rows = evaluated("plain", set="exact", length=64)
    table = paired_comparisons(rows, baseline="sinusoidal").set_index("first")
    seeds = rows["seed"].nunique()
    assert len(table) == len(ENCODINGS) - 1 and (table["seeds"] == seeds).all() and seeds >= 10
    assert table.loc["causal", "low"] > 0.3 and table.loc["causal", "p"] == 2 / 2**seeds
