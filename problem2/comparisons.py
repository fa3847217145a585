"""What the studies say that change one thing at a time: rows of the published tables -> tables and sentences."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from problem1.shared.words import listing, span
from problem2 import published
from problem2.analysis import evaluated, over_seeds
from problem2.dataset import LONG_LENGTHS, LONGEST
from problem2.encodings import ENCODINGS
from problem2.plots import label_of
from problem2.studies import CONFIRMED_FROM, FARTHEST_FROM


def easy_and_hard(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Balanced accuracy over seeds on the assignment's sets and on the hard test, for `plots.factors`."""
    parts = {"assignment's sets": rows[rows["set"] == "exact"]}
    parts["hard test"] = rows[(rows["set"] == "new") & (rows["corruption"] == "adjacent")]
    return {title: over_seeds(part, ["name", "length"], "balanced accuracy") for title, part in parts.items()}


def by_mask(names: Iterable[str]) -> str:
    """The encodings in words: 'with a causal mask NoPE and FIRE; without one Shaw (clipped)'."""
    names = list(names)
    masked = [ENCODINGS[name].label.removesuffix(", causal") for name in names if ENCODINGS[name].causal]
    others = [ENCODINGS[name].label for name in names if not ENCODINGS[name].causal]
    parts = [f"with a causal mask {listing(masked)}"] if masked else []
    return "; ".join(parts + ([f"without one {listing(others)}" if masked else listing(others)] if others else []))


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


def losses(table: pd.DataFrame, length: int) -> dict[str, float]:
    """What each change costs at a length: balanced accuracy of interpolated positions, less that after the change."""
    means = table[table["length"] == length].set_index("name")["mean"]
    return {str(label): means["interpolated"] - mean for label, mean in means.items() if label != "interpolated"}


def interpolation_in_words(tables: Mapping[str, pd.DataFrame], lengths: Sequence[int] = (32, 64, 256)) -> str:
    """The caption of its figure, from {title: balanced accuracy over seeds}."""
    costs = []
    for title, table in tables.items():
        alone = "; ".join(
            f"{label} {', '.join(f'{losses(table, length)[label]:.2f}' for length in lengths)}"
            for label in list(INTERPOLATION)[1:4]
        )
        costs.append(f"{title} ({table['seeds'].max()} seeds): {alone}")
    at = listing(map(str, lengths))
    return (
        "**Figure 7.** One change at a time; dots are means over the seeds, bars reach from the lowest to the highest. "
        f"What each change alone costs in balanced accuracy, at {at}: {'. '.join(costs)}. The two rows of crowded "
        "sequences differ in positions only, on the same items; where they fall alike, as with window 1, it is of the "
        "items, whose neighbours are closer. Where it falls short: what two changes cost together need not be the sum."
    )


def why_in_words(tables: Mapping[str, pd.DataFrame], length: int = 64) -> str:
    """What absolute positions fail of, in one sentence."""
    unseen, shared, values = (
        span([losses(tables[name], length)[label] for name in ("sinusoidal", "learned")])
        for label in list(INTERPOLATION)[1:4]
    )
    return (
        f"absolute encodings fail of unseen positions and of misplaced values. Each alone costs the same weights, at "
        f"{length}, {unseen} and {values} of balanced accuracy; that many tokens share a position costs {shared} "
        "(Figure 7, augmented). They have learned which value stands where, and interpolation keeps it there."
    )


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
        "**Figure 11 and Table 14.** The hard test with full attention, balanced accuracy. Figure: mean over the first "
        f"{seeds['studies']} seeds. Table: mean (lowest) of {seeds['encodings']} seeds, for what reached "
        f"{CONFIRMED_FROM[1]} on the development length {CONFIRMED_FROM[0]}. {answer} {least} "
        f"at {length:,} in every seed. Nearest comes {best}: {(scores >= least).sum()} of its {len(scores)} seeds, "
        f"mean {scores.mean():.2f}, lowest {scores.min():.2f}. Scalable softmax changes the mean at {length:,} by "
        f"{span(gained)}: upwards by more than 0.1 for {up}, downwards for {down}. Dilution is part of the trouble, "
        "not all of it."
    )
