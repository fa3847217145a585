"""What four published reports on this homework print, and where each number comes from.

REPORTED and REPORTED_LENGTHS are typed in, digit for digit as the reports print them. All else is computed: from the
data alone, or from our own trainings of the same mistakes.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from problem1 import flawed, published
from problem1.dataset import SPLIT_SIZES, encode_pairs, shift_right, split_pairs, to_digits
from problem1.model import Adder
from problem1.shared import checks
from problem1.shared.words import listing, span
from problem2 import published as published2
from problem2.analysis import evaluated
from problem2.dataset import LONG_LENGTHS, LONG_SIZE, long_items, split_items
from problem2.evaluation import exact_sets

# --- what they say ---------------------------------------------------------------------------------------------------

REPORTED = [  # report, what, of which head or heads, as printed
    ("A", "accuracy", "none removed", "41.20 %"),
    ("A", "drop without", "Decoder Self L1 H3", ".2090"),
    ("A", "drop without", "Decoder Self L1 H2", ".1905"),
    ("A", "drop without", "Decoder Self L1 H1", ".1855"),
    ("A", "drop without", "Decoder Self L0 H3", ".1440"),
    ("A", "drop without", "Decoder Self L1 H0", ".0500"),
    ("A", "drop without", "Decoder Cross L0 H0", ".0480"),
    ("A", "drop without", "Encoder L1 H3", ".0120"),
    ("A", "drop without", "Decoder Self L0 H2", ".0145"),
    ("A", "prunable", "14 of 24", "58.3 %"),
    ("C", "accuracy", "none removed", "54.95 %"),
    ("C", "accuracy without", "Encoder L0 H0", "54 %"),
    ("C", "accuracy without", "Encoder L0 H1", "3.5 %"),
    ("C", "accuracy without", "Encoder L0 H2", ".85 %"),
    ("C", "accuracy without", "Encoder L0 H3", ".6 %"),
    ("C", "accuracy without", "Encoder L1 H0", "22.45 %"),
    ("C", "accuracy without", "Encoder L1 H1", "42.2 %"),
    ("C", "accuracy without", "Encoder L1 H3", "17.65 %"),
    ("D", "test accuracy", "none removed", "99.85 %"),
    ("D", "accuracy", "none removed", "34.9 %"),
    ("D", "accuracy without", "Decoder Self L0 H1", "11.25 %"),
    ("D", "accuracy without", "Encoder L1 H3", "17.05 %"),
    ("D", "prunable", "17 of 24", "70.8 %"),
    ("D", "column alignment", "a cross head", "7.44e-05"),
]

REPORTED_LENGTHS = {  # report: {encoding: as printed at 32, 64, 128, 256}; D prints the figures of A
    "A": {"sinusoidal": ".454 .514 .518 .512", "learned": ".546 .486 .482 .488", "none": ".454 .514 .518 .512"},
    "B": {"sinusoidal": "1.0 1.0 1.0 1.0", "learned": ".492 .5 .5 .5", "none": ".488 .486 .488 .478"},
    "D": {"sinusoidal": ".454 .514 .518 .512", "learned": ".546 .486 .482 .488", "none": ".454 .514 .518 .512"},
}


def reported() -> pd.DataFrame:
    return pd.DataFrame(REPORTED, columns=["report", "what", "which", "printed"])


def values(report: str, what: str) -> list[float]:
    """The numbers that a report prints for this, in its order."""
    return [value_of(printed) for name, quantity, _, printed in REPORTED if (name, quantity) == (report, what)]


def reported_lengths() -> list[tuple[str, str, int, str]]:
    """(report, encoding, length, as printed), one after the other."""
    return [
        (report, encoding, length, printed)
        for report, encodings in REPORTED_LENGTHS.items()
        for encoding, line in encodings.items()
        for length, printed in zip(LONG_LENGTHS, line.split(), strict=True)
    ]


def value_of(printed: str) -> float:
    """'41.20 %' -> 0.4120, '.2090' -> 0.2090"""
    number = float(printed.removesuffix("%"))
    return number / 100 if printed.endswith("%") else number


def as_printed(value: float, printed: str) -> str:
    """`value` with as many digits as `printed` has, and in its form: (0.412, '41.20 %') -> '41.20 %'."""
    percent = printed.endswith("%")
    decimals = len(printed.rstrip("% ").partition(".")[2])
    text = f"{value * (100 if percent else 1):.{decimals}f}"
    text = text.removeprefix("0") if printed.startswith(".") else text
    return f"{text} %" if percent else text


# --- what follows from the data alone --------------------------------------------------------------------------------


def sums_below_1000(pairs: np.ndarray) -> np.ndarray:
    """(N,): is the first digit of the answer 0? A decoder that starts with 0 can be right on these only."""
    return pairs.sum(1) < 1_000


def without_further_zero(pairs: np.ndarray) -> np.ndarray:
    """(N,): ... and no other digit is: a decoder that never writes 0 can be right on these only."""
    return sums_below_1000(pairs) & (to_digits(pairs.sum(1), 4)[:, 1:] != 0).all(1)


def most_common_start_right(pairs: np.ndarray, batch: int) -> np.ndarray:
    """(N,): is the first digit of the answer the most common one of its batch (of two equally common the smaller)?"""
    first = to_digits(pairs.sum(1), 4)[:, 0]
    parts = np.split(first, range(batch, len(first), batch))
    return np.concatenate([part == np.bincount(part).argmax() for part in parts])


def class_shares() -> dict[int, float]:
    """{length: share of sorted items} of the assignment's long sets."""
    return {length: float(np.mean([label for _, label in long_items(length)])) for length in LONG_LENGTHS}


def adder_derivations() -> pd.DataFrame:
    """Problem 1: what the test pairs alone give, beside what is reported."""
    pairs, start = split_pairs("test"), "first digit is the most common one of its"
    derived = [
        ("A", "sums below 1000", sums_below_1000(pairs)),
        ("D", "sums below 1000 without a further 0", without_further_zero(pairs)),
        ("C", f"{start} 64: a ceiling", most_common_start_right(pairs, 64)),
        ("C", f"{start} 32: a ceiling", most_common_start_right(pairs, 32)),
    ]
    printed = reported().query("what == 'accuracy'").set_index("report")["printed"]
    rows = []
    for report, what, chosen in derived:
        ceiling, text = "ceiling" in what, as_printed(chosen.mean(), printed[report])
        agrees = value_of(printed[report]) <= chosen.mean() if ceiling else text == printed[report]
        rows.append(
            {
                "report": report,
                "reported": printed[report],
                "share of the test pairs": what,
                "pairs": int(chosen.sum()),
                "derived": text,
                "verdict": ("not above it" if ceiling else "equal") if agrees else "DIFFERS",
            }
        )
    return pd.DataFrame(rows)


def length_derivations() -> pd.DataFrame:
    """Problem 2: every reported accuracy, and which constant answer is right on exactly as many items."""
    shares, rows = class_shares(), []
    for report, encoding, length, printed in reported_lengths():
        constant = {'always "sorted"': shares[length], 'always "unsorted"': 1 - shares[length]}
        right = round(value_of(printed) * LONG_SIZE)
        same = [answer for answer, share in constant.items() if round(share * LONG_SIZE) == right]
        rows.append(
            {
                "report": report,
                "encoding": encoding,
                "length": length,
                "reported": printed,
                **{answer: as_printed(share, ".000") for answer, share in constant.items()},
                "equal to": same[0] if same else "neither",
            }
        )
    return pd.DataFrame(rows)


def constant_table() -> pd.DataFrame:
    """The same, a row for each report and encoding: '.454: always "sorted"'."""
    table = length_derivations()
    table["cell"] = table["reported"] + ": " + table["equal to"]
    return table.pivot(index=["report", "encoding"], columns="length", values="cell").sort_index()


def item_counts() -> pd.DataFrame:
    """How many items each printed share is of the test set: a share of 2,000 (or 500) items is a whole number of them.
    `possible` says whether some whole number of items prints like that."""
    rows = [(*row, SPLIT_SIZES["test"]) for row in REPORTED if row[1].startswith(("accuracy", "drop", "test"))]
    rows += [(report, f"accuracy at {n}", name, printed, LONG_SIZE) for report, name, n, printed in reported_lengths()]
    table = pd.DataFrame(rows, columns=["report", "what", "which", "printed", "items"])
    table["right"] = [round(value_of(text) * n) for text, n in zip(table["printed"], table["items"], strict=True)]
    table["possible"] = [
        as_printed(count / n, text) == text
        for text, count, n in zip(table["printed"], table["right"], table["items"], strict=True)
    ]
    return table


# --- from our own trainings of the same mistakes ---------------------------------------------------------------------

SIMILAR = {  # report: variants that make its mistakes
    "A": ("no BOS", "homework, no BOS"),
    "C": ("no BOS, as good as C",),
    "D": ("no BOS, 0 is PAD", "homework, no BOS, 0 is PAD", "no BOS, 0 is PAD, as good as D"),
}
EQUAL, INSIDE, SHOWN, OPEN = "equal", "inside our spread", "mechanism shown", "open"


def flawed_heads() -> pd.DataFrame:
    """One row for each head of each flawed adder, indexed by variant and seed."""
    tables = [published.table(name) for name in ("flawed_heads", "flawed_stopped_heads")]
    return pd.concat(tables).set_index(["variant", "seed"])


def flawed_facts() -> pd.DataFrame:
    """One row for each flawed adder: its scores, the share of heads that are prunable, its lowest column share."""
    tables = [published.table(name) for name in ("flawed", "flawed_stopped")]
    runs, heads = pd.concat(tables).set_index(["variant", "seed"]), flawed_heads()
    return runs.assign(
        **{
            "share singly prunable": runs["singly prunable"] / heads["head"].nunique(),
            "lowest column share": heads.groupby(level=[0, 1])["on the column of the digit read"].min(),
        }
    )


def head_drops() -> pd.Series:
    """What each head of each flawed adder costs when the decoder starts with 0, the costliest of an adder first."""
    heads = flawed_heads()
    drops = flawed_facts()["free-running from 0"].loc[heads.index] - heads["accuracy from 0"]
    return drops.groupby(level=[0, 1], sort=False, group_keys=False).apply(lambda d: d.sort_values(ascending=False))


OF_ADDERS = {  # (report, what): the column of `flawed_facts` that shows it
    ("C", "accuracy"): "free-running from most common of 64",
    ("D", "test accuracy"): "teacher-forced answers, 0 skipped",
    ("A", "prunable"): "share singly prunable",
    ("D", "prunable"): "share singly prunable",
    ("D", "column alignment"): "lowest column share",
}


def similar(report: str, what: str, rank: int = 0) -> pd.Series:
    """Our values of what a report prints. A drop is compared with ours of the same rank, most important first; what is
    left without a head with what is left without any head (C: any encoder head)."""
    variants = list(SIMILAR[report])
    if (report, what) in OF_ADDERS:
        return flawed_facts().loc[variants, OF_ADDERS[report, what]]
    if what == "drop without":
        return head_drops().loc[variants].groupby(level=[0, 1]).nth(rank)
    heads = flawed_heads().loc[variants]
    if report == "C":
        return heads.loc[heads["head"].str.startswith("Encoder"), "accuracy from most common of 64"]
    return heads["accuracy from 0"]


def is_inside(printed: str, values: Sequence[float] | pd.Series) -> bool:
    """Between the lowest and the highest of our values, but for the rounding of what is printed?"""
    return min(values) - rounding(printed) <= value_of(printed) <= max(values) + rounding(printed)


def adder_numbers() -> pd.DataFrame:
    """Every number of problem 1: what it is equal to, or between which of our values it lies, or how far from them."""
    equal = adder_derivations().query("verdict == 'equal'").set_index("report")["share of the test pairs"]
    rows = []
    for report, lines in reported().groupby("report", sort=False):
        drops = sorted((value_of(text) for text in lines.query("what == 'drop without'")["printed"]), reverse=True)
        for what, which, printed in lines[["what", "which", "printed"]].itertuples(index=False):
            if what == "accuracy" and report in equal.index:
                rows.append((report, what, which, printed, EQUAL, f"share of {equal[report]}", 0.0))
                continue
            rank = drops.index(value_of(printed)) if what == "drop without" else 0
            values = similar(report, what, rank)
            form = ".1e" if "e-" in printed else ".4f"
            beside = f"{span(values, form)} in {values.index.nunique()} adders of ours"
            verdict = INSIDE if is_inside(printed, values) else OPEN
            if verdict == OPEN and (report, what) == ("C", "accuracy"):
                low, high = near(as_c_decodes(), share_begun_right())
                verdict = SHOWN if low <= value_of(printed) <= high else OPEN
                beside += f"; ceiling times C's validation accuracy: {low:.4f} to {high:.4f} in 95 % of all test sets"
            missed = max(min(values) - value_of(printed), value_of(printed) - max(values), 0)
            rows.append((report, what, which, printed, verdict, beside, missed))
    return pd.DataFrame(rows, columns=["report", "what", "which", "printed", "verdict", "beside", "missed by"])


def guessing(items: int = LONG_SIZE) -> tuple[float, float]:
    """Between which accuracies 95 % of all guesses lie when half of the items are sorted (normal approximation)."""
    reach = 1.96 * math.sqrt(0.25 / items)
    return 0.5 - reach, 0.5 + reach


def length_numbers() -> pd.DataFrame:
    """The same of problem 2. B's sets are not ours: its classes are equally large, which both its zeros of
    `guessing` and its halves rest on."""
    rows = []
    stretched = evaluated("plain", name="stretched", set="exact", length=LONG_LENGTHS)
    low, high = guessing()
    for row in length_derivations().itertuples():
        what, which, printed = f"accuracy at {row.length}", row.encoding, row.reported
        values = stretched.loc[stretched["length"] == row.length, "accuracy"]
        if row.report != "B":
            verdict = EQUAL if row[-1] != "neither" else OPEN
            beside = f"{row[-1]}: a class share"
        elif which == "sinusoidal":
            verdict = INSIDE if is_inside(printed, values) else OPEN
            beside = f"stretched positions: {span(values, '.3f')} in {len(values)} seeds"
        elif value_of(printed) == 0.5:
            verdict, beside = SHOWN, "any constant answer, because B's classes are equally large"
        else:
            verdict = SHOWN if low <= value_of(printed) <= high else OPEN
            beside = f"guessing: {low:.3f} to {high:.3f} in 95 % of all cases"
        rows.append((row.report, what, which, printed, verdict, beside))
    return pd.DataFrame(rows, columns=["report", "what", "which", "printed", "verdict", "beside"])


def every_number() -> pd.DataFrame:
    return pd.concat([adder_numbers(), length_numbers()], ignore_index=True)


def number_table() -> pd.DataFrame:
    """The same in fewer rows: the accuracies of one encoding that have the same verdict share one."""
    numbers = every_number()
    numbers["what"] = numbers["what"].str.replace(r"accuracy at \d+", "accuracy beyond training", regex=True)
    numbers["beside"] = numbers["beside"].str.replace(": a class share", "")
    groups = numbers.groupby(["report", "what", "which", "verdict", "beside"], sort=False)
    return groups["printed"].agg(", ".join).reset_index(["verdict", "beside"])[["printed", "verdict", "beside"]]


def verdict_counts(numbers: pd.DataFrame) -> pd.DataFrame:
    """How many numbers of each report got each verdict."""
    return pd.crosstab(numbers["report"], numbers["verdict"]).reindex(
        columns=[EQUAL, INSIDE, SHOWN, OPEN], fill_value=0
    )


def rounding(printed: str) -> float:
    """Half a unit of the last digit: '54.95 %' -> 0.00005"""
    digits, _, exponent = printed.rstrip("% ").partition("e")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]) - 2 * printed.endswith("%"))


# --- one model, five scores ------------------------------------------------------------------------------------------


def five_scores(model: Adder) -> pd.DataFrame:
    """An adder without BOS on the test sums: right answers by teacher forcing, and free-running from every start."""
    source, target = encode_pairs(split_pairs("test"))
    with torch.inference_mode():
        logits, rest = flawed.predict_rest(model, source, target)
    scores = {"teacher forcing, the first digit handed over": flawed.teacher_forced(logits, rest)["answers"]}
    right = flawed.rest_right(model, source, target)
    for name, start in flawed.starts(target).items():
        scores[f"free-running from {name}"] = flawed.free_running(start, target, right)
    return pd.Series(scores, name="answers right").to_frame().round(4)


def warnings_about_start(model: Adder) -> list[str]:
    """What the checklist finds in an adder without BOS that is started with 0."""
    source, target = encode_pairs(split_pairs("test"))
    splits = {name: split_pairs(name) for name in ("train", "validation", "test")}
    with torch.inference_mode():
        logits, _ = flawed.predict_rest(model, source, target)
    forced = torch.cat([target[:, :1], logits.argmax(-1)], dim=1)
    answers = flawed.write_on(model, source, torch.zeros_like(target[:, 0]))
    return checks.warnings_about(answers, target, splits, forced)


def warnings_about_class(length: int = 64) -> list[str]:
    """What it finds in a published sinusoidal classifier beyond training."""
    group = next(part.group for part in exact_sets() if part.length == length)
    with torch.inference_mode():
        says = published2.published_classifier("sinusoidal")(group.tokens).logits > 0
    return checks.warnings_about(says, group.is_sorted)


def baselines() -> dict[str, float]:
    """{'A 41.20 %': 0.412, ...}: accuracies of whole models, for `plots.decoding_scores`."""
    whole = reported().query("which == 'none removed'")
    return {f"{row.report} {row.printed}": value_of(row.printed) for row in whole.itertuples()}


# --- C: how good was it? ---------------------------------------------------------------------------------------------


def share_begun_right() -> float:
    """The share of test sums that begin with the most common digit of their batch of 64: C's ceiling."""
    return float(most_common_start_right(split_pairs("test"), 64).mean())


def as_c_decodes() -> float:
    """What C's decoding gives if the rest is right as often as on C's validation sums."""
    return share_begun_right() * flawed.STOPPED["no BOS, as good as C"]["until"]


def near(share: float, ceiling: float) -> tuple[float, float]:
    """Between which shares of the test sums 95 % of all test sets lie when each sum below the ceiling is right with the
    same probability (normal approximation)."""
    right = share / ceiling
    reach = 1.96 * ceiling * math.sqrt(right * (1 - right) / (ceiling * SPLIT_SIZES["test"]))
    return share - reach, share + reach


def as_good_as_c() -> pd.DataFrame:
    """Adders without BOS, trained fully and as far as C's: how many answers are right, by how decoding begins."""
    columns = {
        "teacher-forced answers": "teacher-forced",
        "free-running from most common of 64": "from the most common digit",
        "free-running from 0": "from 0",
    }
    runs = flawed_facts().loc[["no BOS", "homework, no BOS", "no BOS, as good as C"], list(columns)]
    spans = runs.rename(columns=columns).groupby(level=0, sort=False).agg(lambda values: span(values, ".3f"))
    (printed,) = reported().query("report == 'C' and what == 'accuracy'")["printed"]
    return pd.concat([spans, pd.DataFrame({"from the most common digit": printed}, index=["C, as printed"])]).fillna("")


def drop_panels() -> list[tuple[str, dict[str, list[pd.Series]], list[float]]]:
    """For `plots.ranked_values`: what is lost (A, D) or left (C) without each head, ours by variant and seed."""
    drops, heads = head_drops(), flawed_heads()
    left = heads.loc[heads["head"].str.startswith("Encoder"), "accuracy from most common of 64"]
    (base,) = values("D", "accuracy")
    panels = []
    for report, what, ours, printed in (
        ("A", "lost without each head", drops, values("A", "drop without")),
        ("C", "left without each encoder head", left, values("C", "accuracy without")),
        ("D", "lost without each head", drops, [base - each for each in values("D", "accuracy without")]),
    ):
        lines = {name: [part for _, part in ours.loc[[name]].groupby(level=1)] for name in SIMILAR[report]}
        panels.append((f"{report}: {what}", lines, printed))
    return panels


# --- A and D: trainings that die -------------------------------------------------------------------------------------


def answers_of(shares: pd.Series) -> str:
    """Shares answered "sorted" of constant predictions in words: 'sorted in 2, unsorted in 1'."""
    counts = {"sorted": int((shares == 1).sum()), "unsorted": int((shares == 0).sum())}
    return listing(f"{answer} in {count}" for answer, count in counts.items() if count)


def larger_class() -> float:
    """The share of the larger class of the classifier's training items."""
    share = float(np.mean([label for _, label in split_items("train")]))
    return max(share, 1 - share)


def dead_runs() -> pd.DataFrame:
    """The published trainings with A's set-up or a change of it. `at ln 2` are those whose loss in the last epoch is
    that of guessing, but for 0.01; not all of them give one answer to every item."""
    runs = published2.table("flawed_dead")
    return runs.assign(**{"at ln 2": runs["training loss"] > math.log(2) - 0.01})


def deaths() -> pd.DataFrame:
    """One row for each variant of the starter's training: how many of its seeds died, and what that looks like."""
    runs = dead_runs()
    rows = []
    for variant, part in runs.groupby("variant", sort=False):
        constant = part[part["test constant prediction"]]
        rows.append(
            {
                "training": variant,
                "seeds": len(part),
                "at ln 2": int(part["at ln 2"].sum()),
                "training loss": span(part["training loss"], ".4f"),
                "training accuracy": span(part["training accuracy"], ".3f"),
                "epochs": span(part["epochs trained"], "d"),
                "test accuracy": span(part["test accuracy"], ".3f"),
                "one answer": answers_of(constant["test share answered sorted"]),
            }
        )
    return pd.DataFrame(rows).set_index("training")


def epochs() -> pd.DataFrame:
    """A row for each epoch of each of these trainings."""
    return published2.table("flawed_dead_epochs")


def homework_in_range() -> pd.DataFrame:
    """Test accuracies of our earlier homework trainings of the classifier: a row for each variant, a column a seed."""
    runs = published2.table("flawed")
    runs = runs[runs["variant"].str.startswith("homework")]
    return runs.pivot(index="variant", columns="seed", values="test accuracy")


# --- B: stretched positions, and importance on one sum ---------------------------------------------------------------


def stretched() -> pd.DataFrame:
    """What stretched positions give at each length, in ten seeds: mean (lowest to highest)."""
    exact = evaluated("plain", name="stretched", set="exact", length=LONG_LENGTHS)
    hard = evaluated("plain", name="stretched", set="new", corruption="adjacent", length=LONG_LENGTHS)
    asked = {
        "exact sets: accuracy": (exact, "accuracy"),
        "one adjacent swap: accuracy": (hard, "accuracy"),
        'one adjacent swap: answered "sorted"': (hard, "share answered sorted"),
    }
    cells = {
        name: rows.groupby("length")[column].agg(lambda v: f"{v.mean():.3f} ({span(v, '.3f')})")
        for name, (rows, column) in asked.items()
    }
    return pd.DataFrame(cells).T


def numbers_by_adder() -> pd.DataFrame:
    """Report B's importance of head numbers in the published adder and in the flawed ones: a row for each number."""
    adder, log = published.published_adder()
    source, target = encode_pairs(split_pairs("test"))
    ours = flawed.rank_by_number(flawed.changes_by_number(adder, source, shift_right(target), target))
    ours = ours.assign(variant="published adder", seed=log["recipe"]["seed"])
    return pd.concat([ours, published.table("flawed_stopped_numbers")], ignore_index=True)


def rankings(numbers: pd.DataFrame) -> pd.DataFrame:
    """A row for each adder of `numbers_by_adder`: its most important head by one sum and by all of them."""
    rows = {}
    for (variant, seed), part in numbers.groupby(["variant", "seed"], sort=False):
        part = part.set_index("number")
        rows[variant, seed] = {
            "first on 663 + 497": part["on the first sum"].idxmax(),
            "first on average": part["mean"].idxmax(),
            **{f"H{head} first on": f"{share:.0%}".replace("%", " %") for head, share in part["first on"].items()},
            "different rankings": part["rankings"].iloc[0],
            "ranked as on average": f"{part['ranked as by the mean'].iloc[0]:.0%}".replace("%", " %"),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["adder", "seed"])
