"""95 % intervals: bootstrap over items, by scipy."""

import numpy as np
from scipy.stats import bootstrap

RESAMPLES = 1_000


def mean_interval(values):
    """Mean over the last axis with its 95 % bootstrap interval: {"mean", "low", "high"}, arrays or numbers."""
    values = np.asarray(values, dtype=float)
    low, high = _bootstrap((values,), np.mean)
    return {"mean": values.mean(-1), "low": low, "high": high}


def difference_interval(first, second):
    """Difference of the means of two independent samples with its 95 % bootstrap interval."""
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    low, high = _bootstrap((first, second), lambda a, b, axis: a.mean(axis) - b.mean(axis))
    return {"difference": first.mean() - second.mean(), "low": low, "high": high}


def _bootstrap(samples, statistic):
    if min(sample.shape[-1] for sample in samples) < 2:  # one item has no spread, and none has no mean
        nothing = np.full(samples[0].shape[:-1], np.nan)
        return nothing, nothing
    result = bootstrap(samples, statistic, n_resamples=RESAMPLES, batch=50, axis=-1, method="percentile", rng=0)
    return result.confidence_interval  # a pair: low, high
