"""What the studies say that change one thing at a time: rows of the published tables -> tables and sentences."""

from collections.abc import Mapping, Sequence

import pandas as pd

from problem1.shared.words import listing, span
from problem2 import published
from problem2.analysis import evaluated, over_seeds
from problem2.dataset import LONG_LENGTHS, LONGEST
from problem2.plots import label_of
from problem2.studies import CONFIRMED_FROM, FARTHEST_FROM


def easy_and_hard(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Balanced accuracy over seeds on the assignment's sets and on the hard test, for `plots.factors`."""
    parts = {"assignment's sets": rows[rows["set"] == "exact"]}
    parts["hard test"] = rows[(rows["set"] == "new") & (rows["corruption"] == "adjacent")]
    return {title: over_seeds(part, ["name", "length"], "balanced accuracy") for title, part in parts.items()}


# What interpolation changes, one at a time and on the same weights: label -> policy at test time, set.
INTERPOLATION = {
    "interpolated": ("interpolate", "exact"),
    "positions unseen": ("moved", "exact"),
    "positions shared": ("clamp", "crowded"),
    "other values there": ("interpolate", "crowded"),
    "shared, other values": ("clamp", "exact"),
    "as it is: all three": ("extend", "exact"),
}


def interpolation_taken_apart(study: str, name: str) -> pd.DataFrame:
    """The rows of one classifier of a study at the long lengths, named after what differs from interpolation."""
    rows = evaluated(study, policy=None, name=name, length=LONG_LENGTHS)
    policies = set(rows["policy"])
    parts = []
    for label, (policy, kind) in INTERPOLATION.items():
        policy = "untrained" if policy == "extend" and "untrained" in policies else policy  # the learned table
        found = rows[(rows["policy"] == policy) & (rows["set"] == kind) & (rows["corruption"] == "swaps")]
        parts.append(found.assign(name=label))
    return pd.concat(parts)


# --- the hard test with full attention -------------------------------------------------------------------------------

SOFTMAX = {False: "softmax", True: "scalable softmax"}


def hard_study() -> pd.DataFrame:
    """The rows of the hard study: which classifier (encoding, softmax, seed) on which set, with what scores."""
    hard, rows = published.table("hard").fillna({"options": ""}), published.table("hard_evaluated")
    hard["softmax"] = hard["options"].str.contains("ssmax=1").map(SOFTMAX)
    hard["encoding"] = hard["name"].str.removesuffix(", scalable softmax")
    return hard[["name", "encoding", "softmax", "seed"]].merge(rows, on=["name", "seed"])


def first_seeds(rows: pd.DataFrame, seeds: int, lengths: Sequence[int]) -> pd.DataFrame:
    """Balanced accuracy of the hard study over the first seeds, which all encodings have, for `plots.controls`."""
    rows = rows[(rows["seed"] < seeds) & rows["length"].isin(lengths)].assign(name=rows["encoding"])
    return over_seeds(rows, ["name", "softmax", "length"], "balanced accuracy")


def with_all_seeds(rows: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """The rows of the hard study of what has that many seeds, under labels."""
    rows = rows[rows.groupby("name")["seed"].transform("nunique") == seeds]
    return rows.assign(name=[f"{label_of(row.encoding)}, {row.softmax}" for row in rows.itertuples()])


def hard_study_in_words(rows: pd.DataFrame, seeds: Mapping[str, int]) -> str:
    """The caption of its figure and table; `seeds` is `studies.SEEDS`."""
    ten, (length, least) = with_all_seeds(rows, seeds["encodings"]), FARTHEST_FROM
    at_end = ten[ten["length"] == length].groupby("name", sort=False)["balanced accuracy"]
    lowest = at_end.min()
    reached = list(lowest.index[lowest >= least])
    answer = f"{listing(reached)} reaches" if reached else f"{LONGEST:,} was asked of none, because none reaches"
    best = at_end.mean().idxmax()
    scores = at_end.get_group(best)
    three = first_seeds(rows, seeds["studies"], [length]).pivot(index="name", columns="softmax", values="mean")
    gained = three["scalable softmax"] - three["softmax"]
    up, down = (listing(map(label_of, gained.index[sign * gained > 0.1])) for sign in (1, -1))
    return (
        "**Figure 10 and Table 14.** The hard test with full attention, balanced accuracy. Figure: mean over the first "
        f"{seeds['studies']} seeds. Table: mean (lowest) of {seeds['encodings']} seeds, for what reached "
        f"{CONFIRMED_FROM[1]} on the development length {CONFIRMED_FROM[0]}. {answer} {least} "
        f"at {length:,} in every seed. Nearest comes {best}: {(scores >= least).sum()} of its {len(scores)} seeds, "
        f"mean {scores.mean():.2f}, lowest {scores.min():.2f}. Scalable softmax changes the mean at {length:,} by "
        f"{span(gained)}: upwards by more than 0.1 for {up}, downwards for {down}. Dilution is part of the trouble, "
        "not all of it."
    )
