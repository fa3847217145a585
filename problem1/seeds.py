"""What holds across seeds: intervals over them, comparisons on the same ones, and whether heads keep their roles.

Percentile intervals of few values are too narrow: of five normal ones they hold the true mean in 84 % of all cases, of
ten in 90 %; where one seed in ten differs from the rest, and is missing among ours, they say nothing of it: see
`shared_by_all`. A sign-flip test of fewer than six seeds never gets below p = 0.05.
"""

import itertools

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.stats import false_discovery_control, permutation_test

from problem1.intervals import mean_interval

ROLES = ("zero drop", "mean drop", "+", "BOS", "earlier outputs", "next lower column", "same column", "carry into")


def seed_intervals(rows, by, value="accuracy"):
    """One row per group of `by`: mean over the seeds with its 95 % bootstrap interval, and how many seeds there are."""
    by = [by] if isinstance(by, str) else list(by)
    return pd.DataFrame(
        [
            {**dict(zip(by, group, strict=True)), "seeds": part["seed"].nunique(), **interval_of(part[value])}
            for group, part in rows.groupby(by, sort=False)
        ]
    )


def interval_of(values):
    return {name: float(value) for name, value in mean_interval(values).items()}


# --- comparisons on the same seeds -----------------------------------------------------------------------------------


def paired_comparisons(rows, value="accuracy", name="name", baseline=None, within=None):
    """One row for each two names (or for each name and the baseline): by how much the first is higher on the same seed,
    on average, with a 95 % bootstrap interval over the seeds.

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
        raise ValueError(f"there is more than one {value} for a {name} and a seed: choose one set, way and length.")
    table = rows.pivot(index="seed", columns=name, values=value)
    names = list(dict.fromkeys(rows[name]))
    if len(names) < 2:
        raise ValueError(f"a comparison needs two values of {name}; there are {len(names)}.")
    if baseline is not None and baseline not in names:
        raise ValueError(f"no {name} is {baseline!r}; there are {', '.join(map(str, names))}.")
    others = [other for other in names if other != baseline]
    pairs = itertools.combinations(names, 2) if baseline is None else [(other, baseline) for other in others]
    return with_q(pd.DataFrame([compare(table, *pair) for pair in pairs]))


def with_q(found):
    tested = found["p"].notna()
    found["q"] = np.nan
    found.loc[tested, "q"] = false_discovery_control(found.loc[tested, "p"])
    return found


def compare(table, first, second):
    both = table[[first, second]].dropna()
    differences = (both[first] - both[second]).to_numpy()
    interval = interval_of(differences)
    about = {"first": first, "second": second, "seeds": len(both), "difference": interval.pop("mean"), **interval}
    return {**about, "p": sign_flip(both[first], both[second]) if len(both) > 1 else np.nan}


def sign_flip(first, second):
    """Exact up to 13 seeds, by 9,999 random flips beyond."""

    def difference(a, b, axis):
        return (a - b).mean(axis)

    samples = first.to_numpy(), second.to_numpy()
    return permutation_test(samples, difference, permutation_type="samples", vectorized=True, rng=0).pvalue


# --- do heads keep their roles? --------------------------------------------------------------------------------------


def head_stability(heads, deals=200):
    """One row for each two seeds and each kind of head: how alike are their heads?

    A head's role is what it looks at, what is lost without it, and which digits follow it: shares from 0 to 1. Two
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


def pair_interval(pairs, value="score", resamples=1_000):
    """Mean over all pairs of seeds, with its 95 % interval by a bootstrap over the *seeds*: the pairs of one seed go up
    and down together, so that a bootstrap over pairs would be too narrow. A seed is never paired with itself.
    """
    seeds = sorted({*pairs["seed"], *pairs["other seed"]})
    table = pairs.pivot(index="seed", columns="other seed", values=value).reindex(index=seeds, columns=seeds).to_numpy()
    draws = np.random.default_rng(0).integers(len(seeds), size=(resamples, len(seeds)))
    draws = draws[np.ptp(draws, axis=1) > 0]  # one seed alone makes no pair
    means = np.nanmean(table[draws[:, :, None], draws[:, None, :]], axis=(1, 2))
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": pairs[value].mean(), "low": low, "high": high}


def shared_by_all(seeds):
    """What holds in all of these seeds holds, with 95 % confidence, in at least this share of all seeds."""
    return 0.05 ** (1 / seeds)


def likeness(ours, theirs):
    """(heads, heads): 1 minus the mean difference of the shares of each two heads."""
    return 1 - np.abs(ours[:, None] - theirs[None]).mean(-1)


def matched(alike):
    """Mean likeness of the best one-to-one matching."""
    return alike[linear_sum_assignment(alike, maximize=True)].mean()
