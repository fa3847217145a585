"""What the studies compare: rows of the published tables -> the tables that the notebook and its sentences need."""

import functools
from collections.abc import Sequence
from typing import Any

import pandas as pd

from problem1.shared.statistics import paired_comparisons
from problem1.shared.words import number
from problem2 import analysis, published
from problem2.analysis import (
    evaluated,
    in_brackets,
    in_interval,
    in_short,
    length_table,
    over_seeds,
    with_intervals,
    with_position_shift,
)
from problem2.dataset import LONG_LENGTHS, descents
from problem2.encodings import ASSIGNED, ENCODINGS
from problem2.evaluation import LOG_LENGTH, exact_sets
from problem2.plots import label_of
from problem2.studies import COMPARED
from problem2.train import ClassifierRecipe, make_classifier

EXTRAPOLATES = 0.998  # the lowest accuracy on the assignment's long sets, over all seeds
OWN_SHAPE = "assignment shape"  # the study

# --- the assignment's long sets --------------------------------------------------------------------------------------


@functools.cache
def long_sets() -> pd.DataFrame:
    """The rows of all encodings under both recipes on the assignment's long sets."""
    return pd.concat([evaluated(study, set="exact", length=LONG_LENGTHS) for study in COMPARED], ignore_index=True)


def extrapolating(rows: pd.DataFrame, least: float = EXTRAPOLATES) -> dict[str, list[str]]:
    """{study: the encodings that reach this accuracy in every seed and on every set in these rows}"""
    lowest = rows.groupby(["study", "name"])["accuracy"].min()
    return {study: [name for name in ENCODINGS if lowest.get((study, name), 0) >= least] for study in COMPARED}


def assigned_table() -> pd.DataFrame:
    """The assignment's table: its three encodings at its four long lengths, by recipe."""
    rows = pd.concat([long_sets(), evaluated(OWN_SHAPE, set="exact", length=LONG_LENGTHS)])
    rows = rows[rows["name"].isin(ASSIGNED)]
    rows = rows.sort_values("name", key=lambda names: names.map(ASSIGNED.index), kind="stable")
    return length_table(rows.assign(encoding=rows["name"] + ", " + rows["study"]), index="encoding", cell=in_brackets)


def every_table(study: str) -> pd.DataFrame:
    """The same for all encodings under one recipe."""
    rows = long_sets()
    return analysis.labelled(length_table(rows[rows["study"] == study], cell=in_brackets).rename_axis("encoding"))


def policies_table(study: str, names: Sequence[str], *without: str) -> pd.DataFrame:
    """The same weights under every policy at test time but some, at the long lengths."""
    rows = evaluated(study, policy=None, set="exact", name=list(names), length=LONG_LENGTHS)
    rows = rows[~rows["policy"].isin(without)]
    return length_table(rows.assign(encoding=rows["name"] + ", " + rows["policy"]), index="encoding", cell=in_brackets)


def class_table() -> pd.DataFrame:
    """What a constant prediction gets on the assignment's sets, and how unsorted their unsorted items are."""
    facts = []
    for part in exact_sets():
        wrong = descents(part.group.tokens[~part.group.is_sorted]).double()
        share = part.group.is_sorted.double().mean().item()
        facts.append(
            {
                "length": part.length,
                "items": len(part.group.tokens),
                'always "sorted" gets': share,
                'always "unsorted" gets': 1 - share,
                "descending neighbours, unsorted items": wrong.mean().item(),
            }
        )
    return pd.DataFrame(facts).set_index("length")


def in_range_table() -> pd.DataFrame:
    """Accuracy on the assignment's test items, over seeds, by recipe."""
    rows = published.table("classifiers")
    rows = rows[rows["study"].isin([*COMPARED, OWN_SHAPE])]
    found = rows.assign(accuracy=rows["test accuracy"], **{"constant prediction": rows["test constant prediction"]})
    found = found.astype({"constant prediction": bool})
    table = length_table(found, columns="study", cell=in_brackets, form=".4f")
    table = table.loc[published.published_encodings(), [*COMPARED, OWN_SHAPE]]
    lowest = found[found["study"] == "augmented"].groupby("name")["accuracy"].min()
    table.insert(2, "augmented, lowest", lowest.map("{:.4f}".format))
    return analysis.labelled(table).fillna("")


def candidates_table() -> pd.DataFrame:
    """All that was tried before the study: validation accuracy, and balanced accuracy on the development lengths."""
    candidates = published.table("candidates").groupby("name", sort=False)["validation accuracy"].agg(["min", "max"])
    tried = published.table("candidates_evaluated")
    own = tried.groupby(["name", "seed"])["policy"].transform("first") == tried["policy"]
    table = length_table(tried[own & (tried["corruption"] == "swaps")], "balanced accuracy", cell=in_brackets)
    ends = candidates.loc[table.index].map("{:.3f}".format)
    table.insert(0, "validation accuracy", ends["min"] + " to " + ends["max"])
    return table


def scores_table(study: str, lengths: Sequence[int]) -> pd.DataFrame:
    """The same classifiers by every score: AUROC does not ask where the threshold is."""
    exact = evaluated(study, set="exact", length=list(lengths))
    new = evaluated(study, set="new", corruption="swaps", length=list(lengths))
    parts = {
        "accuracy, exact": (exact, "accuracy"),
        "accuracy, new": (new, "accuracy"),
        "AUROC": (exact, "AUROC"),
        'answered "sorted"': (exact, "share answered sorted"),
    }
    shown = {title: length_table(rows, value, cell=in_short) for title, (rows, value) in parts.items()}
    return analysis.labelled(pd.concat(shown, axis=1))


def encodings_table() -> pd.DataFrame:
    """What each encoding learns, and the policies for what is longer than its training; the first one is its own."""

    def parameters(name: str) -> int:
        model = make_classifier(ClassifierRecipe(encoding=name))
        return sum(parameter.numel() for parameter in model.parameters())

    rows = []
    for name in published.published_encodings():
        learned = parameters(name) - parameters("none")
        policies = ", ".join(getattr(ENCODINGS[name], "policies", ()))
        rows.append(
            {"encoding": ENCODINGS[name].label, "name": name, "numbers it learns": learned, "beyond training": policies}
        )
    return pd.DataFrame(rows).set_index("encoding")


# --- what changes one thing at a time --------------------------------------------------------------------------------


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
    "clamped: shared, other values": ("clamp", "exact"),
    "extended: all three": ("extend", "exact"),
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


def absolute_taken_apart(study: str = "augmented") -> dict[str, pd.DataFrame]:
    """{encoding: balanced accuracy over seeds} of the assigned encodings that add rows, for `plots.factors`."""
    return {
        name: over_seeds(interpolation_taken_apart(study, name), ["name", "length"], "balanced accuracy")
        for name in ("sinusoidal", "learned")
    }


WINDOWED = ("what breaks sinusoidal", "attention: the two neighbours only")  # study, name


def windowed_taken_apart() -> pd.DataFrame:
    """The same of the sinusoidal classifier that attends to the two neighbours only."""
    return over_seeds(interpolation_taken_apart(*WINDOWED), ["name", "length"], "balanced accuracy")


def costs_table(lengths: Sequence[int]) -> pd.DataFrame:
    """What each change alone costs in balanced accuracy, under both recipes and with a window of 1."""
    tables = {f"{name}, {study}": table for study in COMPARED for name, table in absolute_taken_apart(study).items()}
    tables["sinusoidal, augmented, window 1"] = windowed_taken_apart()
    columns = {
        (change, length): {title: number(losses(table, length)[change]) for title, table in tables.items()}
        for change in list(INTERPOLATION)[1:4]
        for length in lengths
    }
    return pd.DataFrame(columns)


def position_facts(name: str, study: str = "augmented") -> pd.DataFrame:
    """`mathematics.position_facts` of the classifiers with this encoding, a row for each seed."""
    rows = published.table("classifiers").query("study == @study and name == @name")
    return rows[[column for column in rows if column.startswith(("share of W", "logits explained"))]]


def position_facts_table() -> pd.DataFrame:
    """Mean and standard deviation of these facts, for the encodings that add sines."""
    facts = {label_of(name): position_facts(name).agg(["mean", "std"]).T for name in ("sinusoidal", "randomized")}
    return pd.concat(facts, axis=1).round(3)


# --- the shift of the position distribution --------------------------------------------------------------------------


@functools.cache
def shifted_rows() -> pd.DataFrame:
    """Both recipes under every policy on the long sets, with their position shift; `label` says encoding and policy."""
    rows = with_position_shift(
        pd.concat([evaluated(study, policy=None, set="exact", length=LONG_LENGTHS) for study in COMPARED])
    )
    labels = rows["name"].map(label_of) + ", " + rows["policy"]
    return rows.assign(label=labels.str.replace(", as trained|, spread", "", regex=True))


@functools.cache
def clipped_rows() -> pd.DataFrame:
    """The clipped bias, with more or fewer distances kept apart, with the position shift."""
    rows = with_position_shift(evaluated("how many distances differ", set="exact", length=LONG_LENGTHS))
    return rows.assign(label="clipped at " + rows["name"])


def own_policies(rows: pd.DataFrame, study: str = "plain") -> pd.DataFrame:
    """The rows of a study under each classifier's own policy."""
    return rows[(rows.groupby("key")["policy"].transform("first") == rows["policy"]) & (rows["study"] == study)]


def shift_table(rows: pd.DataFrame, lengths: Sequence[int]) -> pd.DataFrame:
    """What is new at some lengths, beside the balanced accuracy there."""
    rows = rows[rows["length"].isin(lengths)]
    new = rows.pivot_table(index="label", columns="length", values=["unseen", "shift"], sort=False)
    shown = {name: new[name].map("{:.2f}".format) for name in ("unseen", "shift")}
    shown["balanced accuracy"] = length_table(rows, "balanced accuracy", "label", cell=in_short)
    return pd.concat(shown, axis=1)


def with_shift_at(rows: pd.DataFrame, length: int, *columns: str) -> pd.DataFrame:
    """Balanced accuracy by label and length, after what is new at one length."""
    table = length_table(rows, "balanced accuracy", "label", cell=in_brackets)
    for column in reversed(columns):
        found = rows[rows["length"] == length].groupby("label")[column].first()
        table.insert(0, f"{column} at {length}", found.round(2))
    return table


def shift_points() -> pd.DataFrame:
    """For `plots.accuracy_by_shift`: plain training, every policy that changes positions, and the clips."""
    rows = shifted_rows()
    rows = rows[(rows["study"] == "plain") & (rows["policy"] != LOG_LENGTH) & (rows["name"] != "none")]
    rows = pd.concat([rows, clipped_rows().assign(name="clipped")])
    return over_seeds(rows, ["name", "label", "length", "shift"], "balanced accuracy")


# --- over seeds ------------------------------------------------------------------------------------------------------


@functools.cache
def new_sets() -> pd.DataFrame:
    """Both recipes on new sets to length 1,024: the assignment's swaps, and the hard test."""
    rows = pd.concat([evaluated(study, set="new", corruption=["swaps", "adjacent"]) for study in COMPARED])
    titles = rows["corruption"].map({"swaps": "assignment's swaps", "adjacent": "hard test"}) + ", " + rows["study"]
    return rows.assign(title=titles)


def interval_bands() -> dict[str, pd.DataFrame]:
    """{title: mean balanced accuracy with its interval over seeds}, for `plots.panels`; one hard test is enough."""
    parts = new_sets().groupby("title", sort=False)
    return {
        str(title): with_intervals(rows, ["name", "length"], "balanced accuracy")
        for title, rows in parts
        if title != "hard test, plain"
    }


def interval_table(lengths: Sequence[int]) -> pd.DataFrame:
    """The same in numbers, at some lengths, on the assignment's swaps."""
    rows = new_sets()
    rows = rows[(rows["corruption"] == "swaps") & rows["length"].isin(lengths)]
    by: dict[str, Any] = {"columns": ["study", "length"], "cell": in_interval, "summary": with_intervals, "form": ".2f"}
    return analysis.labelled(length_table(rows, "balanced accuracy", **by))


def per_seed() -> pd.DataFrame:
    """Balanced accuracy of each seed, mean over the long sets."""
    groups = long_sets().groupby(["study", "name", "seed"], sort=False, as_index=False)
    return groups["balanced accuracy"].mean()


@functools.cache
def ahead_of_each_other(study: str) -> pd.DataFrame:
    """Every encoding against every other one, on the same seeds, under one recipe; q corrects for all of these."""
    rows = per_seed()
    return paired_comparisons(rows[rows["study"] == study], "balanced accuracy")


def ahead_of(baseline: str, study: str) -> pd.DataFrame:
    """By how much each encoding is ahead of one: mean difference with its interval, p, q."""
    table = ahead_of_each_other(study)
    back = table[table["first"] == baseline].rename(columns={"first": "second", "second": "first"})
    back = back.assign(difference=-back["difference"], low=-back["high"], high=-back["low"])
    found = pd.concat([back, table[table["second"] == baseline]]).set_index("first")
    return found.loc[[name for name in ENCODINGS if name in found.index], ["difference", "low", "high", "p", "q"]]


def with_brackets(table: pd.DataFrame) -> pd.Series:
    """'+0.20 [+0.10, +0.30], q = 0.004' for each row of differences."""
    return pd.Series(
        {
            name: f"{number(row.difference, '+.2f')} [{number(row.low, '+.2f')}, {number(row.high, '+.2f')}], "
            f"q = {number(row.q, '.3f')}"
            for name, row in table.iterrows()
        }
    )


@functools.cache
def effect_of_augmentation() -> pd.DataFrame:
    """Augmented less plain, on the same seeds: a row for each encoding."""
    found = paired_comparisons(per_seed(), "balanced accuracy", name="study", baseline="plain", within="name")
    return found.set_index("name").loc[published.published_encodings()]


def differences_table() -> pd.DataFrame:
    """Each encoding against sinusoidal under both recipes, and augmentation against none."""
    columns = {f"ahead of sinusoidal, {study}": with_brackets(ahead_of("sinusoidal", study)) for study in COMPARED}
    columns["augmented minus plain"] = with_brackets(effect_of_augmentation())
    table = pd.DataFrame(columns).loc[published.published_encodings()].drop("sinusoidal")
    return analysis.labelled(table)


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
