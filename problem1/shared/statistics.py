"""95 % intervals and comparisons: Wilson's for shares of items, Student's t for means over seeds.

Both hold what they promise for few values, where percentiles of a bootstrap do not: of ten seeds these hold the true
mean in 90 % of all cases, and of a sample without a mistake they have no width at all. Where one seed in ten differs
from the rest, and is missing among ours, no interval tells: see `shared_by_all`. A sign-flip test of fewer than six
seeds never gets below p = 0.05.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control, norm, permutation_test, t

CONFIDENCE = 0.95
Z = float(norm.ppf(0.5 + CONFIDENCE / 2))


def mean_interval(values: ArrayLike) -> dict[str, Any]:
    """Mean over the last axis with its 95 % interval: {"mean", "low", "high"}, arrays or numbers.

    Wilson's interval where all values are 0 or 1, Student's t elsewhere; of one value the latter is nan.
    """
    values = np.asarray(values, dtype=float)
    mean, count, half = values.mean(-1), values.shape[-1], half_width(values, values.shape[-1])
    is_share = np.isin(values, (0, 1)).all(-1)
    low, high = wilson(np.where(is_share, values.sum(-1), 0), count)
    return {"mean": mean, "low": np.where(is_share, low, mean - half), "high": np.where(is_share, high, mean + half)}


def half_width(values: np.ndarray, count: int) -> np.ndarray:
    """Of Student's t interval for the mean over the last axis."""
    if count < 2:
        return np.full(values.shape[:-1], np.nan)
    return t.ppf(0.5 + CONFIDENCE / 2, count - 1) * values.std(-1, ddof=1) / np.sqrt(count)


def wilson(right: ArrayLike, items: int) -> tuple[Any, Any]:
    """Lower and upper end of Wilson's interval for a share: `right` of `items`. No items say nothing: nan."""
    if items == 0:
        return np.full(np.shape(right), np.nan), np.full(np.shape(right), np.nan)
    share, squared = np.asarray(right) / items, Z**2 / items
    center = (share + squared / 2) / (1 + squared)
    half = Z * np.sqrt(share * (1 - share) / items + squared / items / 4) / (1 + squared)
    return np.where(share == 0, 0.0, center - half), np.where(share == 1, 1.0, center + half)


def difference_interval(first: ArrayLike, second: ArrayLike) -> dict[str, float]:
    """Difference of two shares (two independent samples of 0 and 1) with its 95 % interval.

    Newcombe's: from each share to the nearer, or farther, end of its own Wilson interval, added as squares.
    """
    a, b = mean_interval(first), mean_interval(second)
    difference = a["mean"] - b["mean"]
    below = np.hypot(a["mean"] - a["low"], b["high"] - b["mean"])
    above = np.hypot(a["high"] - a["mean"], b["mean"] - b["low"])
    return {"difference": float(difference), "low": float(difference - below), "high": float(difference + above)}


# --- over seeds ------------------------------------------------------------------------------------------------------


def interval_of(values: ArrayLike) -> dict[str, float]:
    """Mean over seeds with its t interval, as numbers; accuracies of ten seeds may all be 1 and are no shares."""
    values = np.asarray(values, dtype=float)
    mean, half = float(values.mean()), float(half_width(values, len(values)))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def seed_intervals(rows: pd.DataFrame, by: str | Iterable[str], value: str = "accuracy") -> pd.DataFrame:
    """One row per group of `by`: mean over the seeds with its 95 % t interval, and how many seeds there are."""
    by = [by] if isinstance(by, str) else list(by)
    return pd.DataFrame(
        [
            {**dict(zip(by, group, strict=True)), "seeds": part["seed"].nunique(), **interval_of(part[value])}
            for group, part in rows.groupby(by, sort=False)
        ]
    )


def shared_by_all(seeds: int) -> float:
    """What holds in all of these seeds holds, with 95 % confidence, in at least this share of all seeds."""
    return (1 - CONFIDENCE) ** (1 / seeds)


def pair_interval(pairs: pd.DataFrame, value: str = "score") -> dict[str, float]:
    """Mean over all pairs of seeds, with its 95 % interval by a jackknife over the *seeds* and Student's t.

    The pairs of one seed go up and down together, so an interval over pairs would be too narrow; leaving out one seed
    leaves out all of its pairs.
    """
    seeds = sorted({*pairs["seed"], *pairs["other seed"]})
    mean, count = float(pairs[value].mean()), len(seeds)
    if count < 3:  # without one of two seeds there is no pair
        return {"mean": mean, "low": np.nan, "high": np.nan}
    without = [pairs.loc[(pairs["seed"] != seed) & (pairs["other seed"] != seed), value].mean() for seed in seeds]
    error = np.sqrt((count - 1) / count * np.sum((without - np.mean(without)) ** 2))
    half = float(t.ppf(0.5 + CONFIDENCE / 2, count - 1) * error)
    return {"mean": mean, "low": mean - half, "high": mean + half}


# --- comparisons on the same seeds -----------------------------------------------------------------------------------


def paired_comparisons(
    rows: pd.DataFrame,
    value: str = "accuracy",
    name: str = "name",
    baseline: str | None = None,
    within: str | None = None,
) -> pd.DataFrame:
    """One row for each two names (or for each name and the baseline): by how much the first is higher on the same seed,
    on average, with a 95 % t interval over the seeds.

    'p' is that of a sign-flip permutation test: how often the mean difference is at least as far from zero when each
    seed's two values are exchanged at random. 'q' is p after Benjamini and Hochberg, for that many comparisons. With
    `within` only rows that agree in this column are compared with each other.
    """
    if within is not None:
        parts = [
            paired_comparisons(part, value, name, baseline).assign(**{within: group})
            for group, part in rows.groupby(within, sort=False)
        ]
        return with_q(pd.concat(parts, ignore_index=True))
    if rows.duplicated([name, "seed"]).any():
        raise ValueError(f"there is more than one {value} for a {name} and a seed: choose one set, policy and length.")
    table = rows.pivot(index="seed", columns=name, values=value)
    names = list(dict.fromkeys(rows[name]))
    if len(names) < 2:
        raise ValueError(f"a comparison needs two values of {name}; there are {len(names)}.")
    if baseline is not None and baseline not in names:
        raise ValueError(f"no {name} is {baseline!r}; there are {', '.join(map(str, names))}.")
    others = [other for other in names if other != baseline]
    pairs = itertools.combinations(names, 2) if baseline is None else [(other, baseline) for other in others]
    return with_q(pd.DataFrame([compare(table, *pair) for pair in pairs]))


def with_q(found: pd.DataFrame) -> pd.DataFrame:
    tested = found["p"].notna()
    found["q"] = np.nan
    found.loc[tested, "q"] = false_discovery_control(found.loc[tested, "p"])
    return found


def compare(table: pd.DataFrame, first: str, second: str) -> dict[str, Any]:
    both = table[[first, second]].dropna()
    interval = interval_of(both[first] - both[second])
    about = {"first": first, "second": second, "seeds": len(both), "difference": interval.pop("mean"), **interval}
    return {**about, "p": sign_flip(both[first], both[second]) if len(both) > 1 else np.nan}


def sign_flip(first: pd.Series, second: pd.Series) -> float:
    """Exact up to 13 seeds, by 9,999 random flips beyond."""

    def difference(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
        return (a - b).mean(axis)

    samples = first.to_numpy(), second.to_numpy()
    return permutation_test(samples, difference, permutation_type="samples", vectorized=True, rng=0).pvalue
