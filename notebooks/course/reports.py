"""What four published reports on this homework say, and what follows from the data alone.

REPORTED and REPORTED_LENGTHS are typed in, digit for digit as the reports print them, and CLAIMS in our own words.
All else is computed.
"""

import numpy as np
import pandas as pd

from problem1.dataset import SPLIT_SIZES, split_pairs, to_digits
from problem2.dataset import LONG_LENGTHS, LONG_SIZE, long_items

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


# --- beside our own trainings of the same mistakes -------------------------------------------------------------------

RETRAINED = [  # report, what, which, variants that make its mistakes, what to read off them
    ("A", "accuracy", "none removed", "no BOS", "free-running from 0"),
    ("D", "accuracy", "none removed", "no BOS, 0 is PAD", "free-running from 0"),
    ("D", "test accuracy", "none removed", "no BOS, 0 is PAD", "teacher-forced answers, 0 skipped"),
    ("C", "accuracy", "none removed", "no BOS", "free-running from most common of 64"),
    ("A", "prunable", "14 of 24", "no BOS", "share singly prunable"),
    ("D", "prunable", "17 of 24", "no BOS, 0 is PAD", "share singly prunable"),
    ("A", "drop without", "Decoder Self L1 H3", "no BOS", "largest drop"),
    ("C", "accuracy without", "Encoder L0 H3", "no BOS", "lowest without an encoder head, from most common of 64"),
    ("D", "accuracy without", "Decoder Self L0 H1", "no BOS, 0 is PAD", "lowest without a head"),
    ("D", "column alignment", "a cross head", "no BOS, 0 is PAD", "lowest share on the column of the digit read"),
]


def retrained_facts(flawed: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """`flawed` with further columns: the share of heads that are prunable, and extremes over the heads."""
    by = ["variant", "seed"]
    encoder, groups = heads[heads["head"].str.startswith("Encoder")].groupby(by), heads.groupby(by)
    facts = flawed.set_index(by)
    return facts.assign(
        **{
            "share singly prunable": facts["singly prunable"] / heads["head"].nunique(),
            "largest drop": facts["free-running from 0"] - groups["accuracy from 0"].min(),
            "lowest without a head": groups["accuracy from 0"].min(),
            "lowest without an encoder head, from most common of 64": encoder["accuracy from most common of 64"].min(),
            "lowest share on the column of the digit read": groups["on the column of the digit read"].min(),
        }
    )


def beside_retrained(facts: pd.DataFrame) -> pd.DataFrame:
    """Each reported number beside the lowest and highest of our seeds, trained our way and as the homework suggests."""
    printed, rows = reported().set_index(["report", "what", "which"])["printed"], []
    for report, what, which, variant, column in RETRAINED:
        text = printed[report, what, which]
        for training, name in {"ours": variant, "homework": f"homework, {variant}"}.items():
            low, high = facts.loc[name, column].min(), facts.loc[name, column].max()
            rows.append(
                {
                    "report": report,
                    "reported": text,
                    "read off": column,
                    "training": training,
                    "lowest": low,
                    "highest": high,
                    "inside": low - rounding(text) <= value_of(text) <= high + rounding(text),
                }
            )
    return pd.DataFrame(rows)


def rounding(printed: str) -> float:
    """Half a unit of the last digit: '54.95 %' -> 0.00005"""
    digits, _, exponent = printed.rstrip("% ").partition("e")
    return 0.5 * 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]) - 2 * printed.endswith("%"))
