"""What four published reports on this homework claim, and the tables that the verdicts on it rest on.

CLAIMS are in our own words. What is counted here comes from the committed tables and published models of both problems.
"""

import pandas as pd
import torch

from course.reports import flawed_facts, flawed_heads
from problem1 import flawed, published
from problem1.ablation import renumber_heads
from problem1.dataset import encode_pairs, shift_right, split_pairs
from problem1.plots import kind_of
from problem1.seeds import carry_questions, published_tables, seed_summary
from problem1.shared.attention import sinusoids
from problem1.shared.words import listing
from problem1.specialization import record_pairs
from problem2 import published as published2
from problem2.analysis import evaluated, live_recipe, over_seeds, rows_before_and_after
from problem2.dataset import LONG_LENGTHS, VOCABULARY
from problem2.encodings import ENCODINGS, Absolute
from problem2.mathematics import share_of_distance

CLAIMS = {  # key: (reports, the claim in short)
    "exposure bias": ("D", "the gap between 99.85 % and 34.9 % is exposure bias of greedy decoding"),
    "pruning": ("A, D", "58 % and 71 % of the heads can be pruned"),
    "which kind": ("A, B, C", "what matters most is decoder self-attention (A), one cross head (B), the encoder (C)"),
    "numbered heads": ("B", "cross head 2 matters most, 3 comes second, 0 and 1 can go"),
    "no columns": ("D", "cross heads hardly attend to the column of their digit (7.44e-05)"),
    "self carries": ("A, D", "decoder self-attention passes the carry on from the digit written before"),
    "lower inputs carry": ("B", "a head that attends from higher outputs to lower inputs carries"),
    "plus": ("C", "second-layer heads attend to the + and its neighbours"),
    "same patterns": ("C", "about 66 % of the samples show the same first-layer patterns"),
    "subtraction": ("C", "a head on the + would be indispensable if subtraction were included"),
    "function of position": (
        "A, B, D",
        "sinusoidal, a function of position, extrapolates; learned fails, its rows untrained",
    ),
    "function of distance": (
        "A",
        "with any weights the logit of two sinusoidal positions depends on their distance only",
    ),
    "absolute and relative": ("C", "absolute encodings cannot extrapolate; relative ones such as T5's do"),
    "noise": ("B, D", "learned embeddings look like noise, so nothing was learned"),
    "permutations": ("C", "without positions the model is permutation-invariant and at chance"),
    "pooling": ("public solutions", "mean pooling is the bottleneck"),
    "perfect sinusoidal": ("B", "sinusoidal is right on every sequence at every length"),
}


# --- heads -----------------------------------------------------------------------------------------------------------


def importance_by_seed() -> pd.DataFrame:
    """The ten adders of problem 1: how many heads can go, and which matters most by either replacement."""
    tables = published_tables()
    heads, summary = tables["heads"], seed_summary(tables)
    firsts = {
        f"first by {method} ablation": heads.loc[heads.groupby("seed")[f"{method} drop"].idxmax()].set_index("seed")[
            "head"
        ]
        for method in ("zero", "mean")
    }
    return pd.DataFrame(
        {
            "singly prunable": summary["singly prunable (zero)"],
            "accuracy without all of them": summary["accuracy without all of them (zero)"],
            "jointly prunable": summary["jointly prunable (greedy)"],
            **firsts,
        }
    )


def importance_of_flawed() -> pd.DataFrame:
    """The same of every flawed adder: its most important head, what the best of each kind costs, and pruning."""
    runs, heads = flawed_facts(), flawed_heads()
    heads["drop"] = runs["free-running from 0"].loc[heads.index] - heads["accuracy from 0"]
    heads["kind"] = heads["head"].map(kind_of)
    ranked = heads.sort_values("drop", ascending=False, kind="stable").groupby(level=[0, 1])
    by_kind = heads.pivot_table(index=["variant", "seed"], columns="kind", values="drop", aggfunc="max")
    table = pd.DataFrame({"first head": ranked["head"].first()}).join(by_kind.add_prefix("largest drop: ").round(3))
    return table.join(runs[["singly prunable", "without all of them"]]).loc[runs.index]


def counted_kinds(heads: pd.Series) -> str:
    """'Encoder in 8, Decoder Cross in 3 and Decoder Self in 1'"""
    return listing(f"{kind} in {count}" for kind, count in heads.map(kind_of).value_counts().items())


def renumbered(pairs: int = 250) -> tuple[pd.DataFrame, float]:
    """The published adder with the cross heads of its first decoder layer renumbered: the accuracy without each, and
    the largest difference between the logits of both."""
    source, target = encode_pairs(split_pairs("test")[:pairs])
    (adder, _), (other, _) = published.published_adder(), published.published_adder()
    models = {"as trained": adder, "renumbered": renumber_heads(other, 3, [2, 0, 3, 1])}
    with torch.inference_mode():
        logits = [model(source, shift_right(target)) for model in models.values()]
        left = {
            name: [
                (model.generate(source, model.gates(12 + head)) == target).all(1).double().mean().item()
                for head in range(4)
            ]
            for name, model in models.items()
        }
    index = [f"without Decoder Cross L0 H{head}" for head in range(4)]
    return pd.DataFrame(left, index=index), (logits[0] - logits[1]).abs().max().item()


def first_cross_heads() -> list[str]:
    """The most important cross head of each of the ten adders, without its kind."""
    heads = published_tables()["heads"]
    cross = heads[heads["head"].str.contains("Cross")]
    return cross.loc[cross.groupby("seed")["zero drop"].idxmax(), "head"].str.removeprefix("Decoder Cross ").tolist()


# --- carrying --------------------------------------------------------------------------------------------------------


def flip_rates() -> pd.DataFrame:
    """The highest flip rate of any digit when all heads of a kind are patched: a row for each adder."""
    tables = published_tables()
    groups = tables["groups"].set_index(["seed", "patched"])[carry_questions(tables["heads"])]
    return groups.max(axis=1).unstack()


def carriers() -> pd.DataFrame:
    """Every head of the ten adders with a flip rate above one half, and what it attends to."""
    heads = published_tables()["heads"]
    columns = ["carries", "next lower column", "same column", "+"]
    return heads[heads["carries"] > 0.5].sort_values(["seed", "head"]).set_index(["seed", "head"])[columns]


def looking_down() -> pd.DataFrame:
    """The cross heads of the ten adders that give most of their attention to the next lower column."""
    heads = published_tables()["heads"]
    return heads[heads["head"].str.contains("Cross") & (heads["next lower column"] > 0.5)]


# --- what heads attend to --------------------------------------------------------------------------------------------


def attention_of_all() -> pd.DataFrame:
    """`flawed.attention_targets` of the published adder and of every flawed one: a row for each head."""
    adder, log = published.published_adder()
    record, _ = record_pairs(adder, split_pairs("test"))
    ours = flawed.attention_targets(adder, record, writes=(0, 1, 2, 3))
    ours = ours.assign(variant="published adder", seed=log["recipe"]["seed"])
    both = pd.concat([ours, flawed_heads().reset_index()], ignore_index=True)
    return both.assign(layer=both["head"].str.extract(r"(L\d)", expand=False))


def on_the_plus(heads: pd.DataFrame) -> pd.DataFrame:
    """Mean and highest attention to the +, and to it and its neighbours, of encoder and cross heads, by layer."""
    columns = ["on the +", "on the + and its neighbours"]
    groups = heads.dropna(subset=columns).groupby(["variant", "layer"], sort=False)
    return groups[columns].agg(["mean", "max"]).round(2)


def common_patterns(heads: pd.DataFrame) -> pd.DataFrame:
    """In which share of the sums a first-layer encoder head shows its most common pattern, by training."""
    first = heads[heads["head"].str.startswith("Encoder L0")]
    return first.groupby("variant", sort=False)["most common pattern"].agg(["min", "mean", "max"]).round(2)


def on_the_column() -> pd.DataFrame:
    """Attention of cross heads to the column of the digit that a position reads, and of the one that it writes."""
    columns = ["on the column of the digit read", "on the column of the digit written"]
    groups = flawed_heads().dropna(subset=columns).groupby(level=0, sort=False)[columns]
    parts = {"lowest head": groups.min(), "mean of all heads": groups.mean(), "highest head": groups.max()}
    return pd.concat(parts, axis=1).map(lambda value: f"{value:.2g}")


# --- positions -------------------------------------------------------------------------------------------------------


def far_accuracies() -> pd.DataFrame:
    """Each encoding beyond training, on the exact sets: its kind, the lowest and highest accuracy of any seed and
    length, and how many predictions are constant."""
    rows = evaluated("plain", set="exact", length=LONG_LENGTHS)
    table = rows.groupby("name", sort=False).agg(
        lowest=("accuracy", "min"),
        highest=("accuracy", "max"),
        constant=("constant prediction", "sum"),
        of=("accuracy", "size"),
    )
    kinds = {name: "absolute" if issubclass(ENCODINGS[name], Absolute) else "relative" for name in table.index}
    table.insert(0, "kind", pd.Series({**kinds, "none": "neither", "causal": "neither"}))
    return table.round(3)


def learned_at(length: int) -> dict[str, pd.Series]:
    """Accuracies of the ten learned tables at one length by policy: clamped, untrained rows, interpolated."""
    policies = ("clamp", "untrained", "interpolate")
    rows = {
        policy: evaluated("plain", policy=policy, set="exact", length=length, name="learned") for policy in policies
    }
    return {policy: found["accuracy"] for policy, found in rows.items()}


def interpolated() -> pd.Series:
    """Accuracies beyond training when positions are interpolated at test time, nothing trained anew."""
    names = ["sinusoidal", "learned"]
    return evaluated("plain", policy="interpolate", set="exact", length=LONG_LENGTHS, name=names)["accuracy"]


def explained_by_distance() -> pd.Series:
    """How much of the logits between two sinusoidal positions their distance explains."""
    positions = sinusoids(torch.arange(64), 64).double()
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(64, 64, dtype=torch.double, generator=generator)
    trained = published2.table("classifiers").query("name == 'sinusoidal' and study in ['plain', 'augmented']")
    shares = {
        "without weights": share_of_distance(positions @ positions.T),
        "with random weights": share_of_distance(positions @ weights @ positions.T),
        **{
            f"in trained classifiers, length {length}": trained[f"logits explained by distance, length {length}"].mean()
            for length in (16, 64, 256)
        },
    }
    return pd.Series(shares, name="share of the variance")


def moved_rows() -> torch.Tensor:
    """(rows,): how far training moved each row of a learned table, in lengths of the row."""
    before, after = rows_before_and_after(live_recipe("learned"), published2.published_classifier("learned"))
    return (after - before).norm(dim=1) / before.norm(dim=1)


def changed_by_order() -> float:
    """The largest change of a logit of the classifier without positions when sequences are reordered."""
    none, generator = published2.published_classifier("none"), torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (200, 16), generator=generator)
    with torch.inference_mode():
        logits = [none(each).logits for each in (tokens, tokens[:, torch.randperm(16, generator=generator)])]
    return (logits[0] - logits[1]).abs().max().item()


def poolings() -> pd.DataFrame:
    """Sinusoidal classifiers with other poolings, beyond training (three seeds each)."""
    rows = evaluated("what breaks sinusoidal", set="exact", length=LONG_LENGTHS)
    return rows[rows["name"].str.startswith(("as it is", "pooling"))]


def hard_without_min() -> pd.Series:
    """Accuracy at 256 on one adjacent swap of the classifier that masters it, and of the same with mean pooling."""
    rows = evaluated("what the hard test needs", set="new", corruption="adjacent", length=256)
    means = rows.groupby("name", sort=False)["accuracy"].mean()
    return means[["everything", "without min pooling (mean)"]]


def perfect() -> pd.DataFrame:
    """The set-ups of all studies that were right on every item of all four exact long sets in every seed."""
    studies = published2.table("classifiers")["study"].unique()
    rows = pd.concat([evaluated(study, policy=None, set="exact", length=LONG_LENGTHS) for study in studies])
    lowest = rows.groupby(["study", "name", "policy"], sort=False).agg(
        seeds=("seed", "nunique"), lowest=("accuracy", "min")
    )
    chosen = lowest[lowest["lowest"] == 1].reset_index()
    return chosen.groupby(["study", "name"], sort=False).agg(seeds=("seeds", "first"), policies=("policy", listing))


def plain_sinusoidal() -> pd.DataFrame:
    """Every classifier of any study with plain sinusoidal positions, mean pooling and full attention, by length."""
    chosen = published2.table("classifiers").query(
        "encoding == 'sinusoidal' and options.isna() and window == 0 and pooling == 'mean'"
    )
    studies = chosen["study"].unique()
    rows = pd.concat([evaluated(study, policy="extend", set="exact", length=LONG_LENGTHS) for study in studies])
    rows = rows[rows["key"].isin(chosen["key"])].drop_duplicates(["key", "length"])
    table = over_seeds(rows, "length").set_index("length").rename(columns={"seeds": "classifiers"})
    return table[["classifiers", "min", "mean", "max", "constant prediction"]].round(3)
