"""Do heads keep their roles? On heads whose answer is known, and on the committed tables."""

import numpy as np
import pandas as pd
import pytest

from problem1.seeds import carry_questions, head_stability, published_tables, seed_summary
from problem1.sweep import SEEDS

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
    tied = luck.dirichlet(np.full(6, 0.3), size=(8, 8))  # a head that attends here does not attend there
    assert abs(head_stability(heads(*tied))["score"].mean()) < 0.05
    assert (unrelated["matched"] > unrelated["at random"] + 0.05).all()  # why chance is not the mean of all matchings
    roles = luck.uniform(0.2, 0.8, size=(8, 6))
    noisy = [luck.permutation(roles) + luck.uniform(-0.1, 0.1, (8, 6)) for _ in range(4)]
    assert head_stability(heads(*noisy))["score"].between(0.3, 0.7).all()


@pytest.mark.filterwarnings("error")
def test_heads_that_are_all_the_same_have_no_score():
    assert head_stability(heads(*np.full((2, 8, 6), 0.5)))["score"].isna().all()


# --- the committed tables --------------------------------------------------------------------------------------------


def test_the_committed_heads_have_a_stability():
    table = head_stability(published_tables()["heads"])
    pairs = len(SEEDS) * (len(SEEDS) - 1) // 2
    assert table["kind"].value_counts().to_dict() == dict.fromkeys(["Decoder Cross", "Decoder Self", "Encoder"], pairs)
    assert (table["matched"] >= table["by place"] - 1e-12).all() and (table["matched"] > table["at random"]).all()
    assert table["score"].between(-1, 1).all()


def test_the_summary_has_a_row_for_each_seed():
    tables = published_tables()
    summary, heads = seed_summary(tables), tables["heads"]
    assert summary.index.tolist() == list(SEEDS) and summary.notna().all(axis=None)
    questions = carry_questions(heads)
    assert len(questions) == 5 and (heads["carries"] == heads[questions].max(axis=1)).all()
    of_one = heads[(heads["seed"] == SEEDS[3]) & (heads["carries"] > 0.5)]["head"]
    assert summary.loc[SEEDS[3], "heads with a flip rate above .5"] == len(of_one)
    assert summary.loc[SEEDS[3], "of them cross heads"] == of_one.str.contains("Cross").sum()
