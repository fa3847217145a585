"""Tables of the reports -> figures. Whatever draws one returns it; `claim` is its title, a sentence with a number."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from problem1.plots import LETTERS, TITLE, WIDTH

SCORES = {  # column: words, colour and mark (Okabe and Ito's palette, safe for the colour-blind)
    "teacher-forced answers, 0 skipped": ("teacher-forced, 0 not counted", "#cc79a7", "P"),
    "teacher-forced answers": ("teacher-forced", "#009e73", "s"),
    "free-running from the true one": ("free-running from the true digit", "#e69f00", "^"),
    "free-running from most common of 64": ("free-running from the most common digit", "#0072b2", "D"),
    "free-running from 0": ("free-running from 0", "#d55e00", "o"),
}


def decoding_scores(flawed: pd.DataFrame, reported: Mapping[str, float], claim: str = "") -> Figure:
    """One mark per seed, one row per training, one colour per way to score the same answers. `reported` is
    {words: value}: a dashed line each."""
    variants = list(dict.fromkeys(flawed["variant"]))
    figure, axes = plt.subplots(figsize=(WIDTH, 0.9 * len(variants) + 2.6), layout="constrained")
    for number, (column, (words, colour, mark)) in enumerate(SCORES.items()):
        for row, variant in enumerate(variants):
            values = flawed.loc[flawed["variant"] == variant, column]
            height = np.full(len(values), row + 0.15 * (number - (len(SCORES) - 1) / 2))
            axes.plot(values, height, mark, ms=7, alpha=0.8, color=colour, label=words if row == 0 else None)
    for words, value in reported.items():
        axes.axvline(value, color="black", lw=0.8, ls="--", zorder=0)
        left = value > 0.9  # no room on the right
        axes.text(value, -0.58, words, fontsize=LETTERS, ha="right" if left else "left", va="bottom", rotation=25)
    axes.set_yticks(range(len(variants)), variants)
    axes.set(xlim=(0.3, 1.02), ylim=(len(variants) - 0.5, -0.55))
    axes.set_xlabel("accuracy on the 2,000 test sums", fontsize=LETTERS)
    axes.tick_params(labelsize=LETTERS)
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize=LETTERS, frameon=False)
    figure.suptitle(claim, fontsize=TITLE)
    return figure


def ranked_values(
    panels: Sequence[tuple[str, Mapping[str, Sequence[Sequence[float]]], Sequence[float]]], claim: str = ""
) -> Figure:
    """What is left, or lost, without each head, from the largest to the smallest: a line per seed, grey lines for
    reported values. `panels` is [(title, {label: [values of one seed, ...]}, reported values)]."""
    figure, grid = plt.subplots(1, len(panels), figsize=(WIDTH, 5), layout="constrained", squeeze=False)
    for axes, (title, lines, reported) in zip(grid[0], panels, strict=True):
        for colour, (label, seeds_of_it) in zip(["#0072b2", "#d55e00", "#009e73"], lines.items(), strict=False):
            for number, values in enumerate(seeds_of_it):
                ordered = sorted(values, reverse=True)
                ranks = range(1, len(ordered) + 1)
                axes.plot(ranks, ordered, ".-", lw=1, ms=5, color=colour, label=label if number == 0 else None)
        for number, value in enumerate(reported):
            axes.axhline(value, color="#999999", lw=0.8, zorder=0, label="reported" if number == 0 else None)
        axes.set_title(title, fontsize=LETTERS)
        axes.set_xlabel("rank of the head", fontsize=LETTERS)
        axes.set_ylim(-0.02, None)
        axes.tick_params(labelsize=LETTERS)
        axes.grid(alpha=0.2)
        axes.legend(fontsize=LETTERS, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    figure.suptitle(claim, fontsize=TITLE)
    return figure


def losses(epochs: pd.DataFrame, claim: str = "") -> Figure:
    """Training loss against the epoch, a line per seed: on the left as handed in, on the right with one change."""
    handed_in = epochs["variant"].str.startswith("as handed in")
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 5), layout="constrained", sharey=True)
    for axes, part, title in (
        (panels[0], epochs[handed_in], "as handed in"),
        (panels[1], epochs[~handed_in], "one change at a time, sinusoidal"),
    ):
        variants = list(dict.fromkeys(part["variant"]))
        for number, variant in enumerate(variants):
            words = variant.removeprefix("as handed in, ").removesuffix(", sinusoidal")
            colour, style = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555"][number], "-"
            for count, (_, run) in enumerate(part[part["variant"] == variant].groupby("seed")):
                epoch = np.arange(1, len(run) + 1)
                label = words if count == 0 else None
                axes.plot(epoch, run["training loss"], style, marker="osD^vP"[number], ms=4, color=colour, label=label)
        axes.axhline(math.log(2), color="black", ls="--", lw=1)
        axes.text(axes.get_xlim()[1], math.log(2) + 0.012, "ln 2", ha="right", fontsize=LETTERS)
        axes.set_title(title, fontsize=LETTERS)
        axes.set_xlabel("epoch", fontsize=LETTERS)
        axes.tick_params(labelsize=LETTERS)
        axes.grid(alpha=0.2)
        axes.legend(fontsize=LETTERS, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    panels[0].set_ylabel("training loss (nats)", fontsize=LETTERS)
    figure.suptitle(claim, fontsize=TITLE)
    return figure
