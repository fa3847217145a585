"""What holds across seeds: the published tables, one row per seed, and whether heads keep their roles."""

import itertools

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from problem1 import published
from problem1.ablation import TOLERANCE

ROLES = ("zero drop", "mean drop", "+", "BOS", "earlier outputs", "next lower column", "same column", "carry into")


def published_tables() -> dict[str, pd.DataFrame]:
    """The committed tables by name; `heads` gains a column 'carries', the highest flip rate of the head."""
    tables = {name: published.table(name) for name in published.STUDY}
    tables["heads"]["carries"] = tables["heads"][carry_questions(tables["heads"])].max(axis=1)
    return tables


def carry_questions(table: pd.DataFrame) -> list[str]:
    return [column for column in table.columns if column.startswith("carry into")]


def seed_summary(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per seed: how many heads can go, singly and jointly, and which kind of head carries."""
    heads, greedy, adders = tables["heads"], tables["greedy"], tables["adders"].set_index("seed")
    encoder = tables["groups"].query("patched == 'all Encoder'").set_index("seed")
    carriers, own = heads["carries"] > 0.5, heads["head"].str.startswith("Decoder Self")
    constant = (heads["zero drop"] > 0.05) & (heads["mean drop"] <= TOLERANCE)
    joint = greedy[greedy["accuracy"] >= 1 - TOLERANCE].groupby("seed")["removed"].max()
    return pd.DataFrame(
        {
            "singly prunable (zero)": adders["zero.count"],
            "singly prunable (mean)": adders["mean.count"],
            "accuracy without all of them (zero)": adders["zero.accuracy without all of them.mean"].round(3),
            "jointly prunable (greedy)": joint,
            "heads with a flip rate above .5": carriers.groupby(heads["seed"]).sum(),
            "of them cross heads": (carriers & heads["head"].str.contains("Cross")).groupby(heads["seed"]).sum(),
            "highest flip rate of a self head": heads[own].groupby("seed")["carries"].max().round(3),
            "through a 9: flip rate of all encoder heads": encoder["carry into hundreds, through a 9"].round(3),
            "through a 9: attention past the 9": adders["attention past a 9"].round(3),
            "self heads that matter by zero only": (own & constant).groupby(heads["seed"]).sum(),
        }
    )


# --- do heads keep their roles? --------------------------------------------------------------------------------------


def head_stability(heads: pd.DataFrame, deals: int = 200) -> pd.DataFrame:
    """One row for each two seeds and each kind of head: how alike are their heads?

    A head's role is what it attends to, what is lost without it, and which digits it flips: shares from 0 to 1. Two
    heads are alike by 1 minus the mean difference of these, and one seed's heads can be matched to the other's

        matched     so that they are as alike as possible: heads have no names, so this is the fair comparison
        by place    by layer and number
        at random   (the mean over all ways)
        unrelated   as alike as possible, when the heads of all seeds are thrown together and dealt out anew: what
                    matching finds in two handfuls of such heads

    'score' is how much of the way from unrelated to identical the matched heads have come: 1 if the heads were only
    renumbered, about 0 if a seed's heads have no more to do with another's than any heads of this kind.
    """
    draw, found = np.random.default_rng(0), []
    kinds = heads["head"].str.rsplit(" ", n=2).str[0]
    for kind, part in heads.groupby(kinds):
        shares = part[[column for column in part if column.startswith(ROLES)]]
        shares = shares.dropna(axis=1)  # some have no BOS to read
        roles = {
            seed: shares.loc[of_seed.sort_values("head").index].to_numpy() for seed, of_seed in part.groupby("seed")
        }
        pool, size = np.concatenate(list(roles.values())), len(next(iter(roles.values())))
        dealt = (draw.permutation(pool)[: 2 * size].reshape(2, size, -1) for _ in range(deals))
        unrelated = np.mean([matched(likeness(*hands)) for hands in dealt])
        for (seed, ours), (other, theirs) in itertools.combinations(roles.items(), 2):
            alike = likeness(ours, theirs)
            row = {
                "matched": matched(alike),
                "by place": alike.diagonal().mean(),
                "at random": alike.mean(),
                "unrelated": unrelated,
            }
            room = 1 - unrelated
            score = (row["matched"] - unrelated) / room if room > 1e-9 else np.nan  # all heads are the same
            found.append({"kind": kind, "seed": seed, "other seed": other, **row, "score": score})
    return pd.DataFrame(found)


def likeness(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """(heads, heads): 1 minus the mean difference of the shares of each two heads."""
    return 1 - np.abs(ours[:, None] - theirs[None]).mean(-1)


def matched(alike: np.ndarray) -> float:
    """Mean likeness of the best one-to-one matching."""
    return float(alike[linear_sum_assignment(alike, maximize=True)].mean())
