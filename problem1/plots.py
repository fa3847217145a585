"""Tables and weights -> figures. Whatever draws one returns it; nothing is shown or written here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.text import Text
from torch import Tensor

from problem1.ablation import TOLERANCE
from problem1.dataset import BOS, TOKENS, column_names, encode_pairs
from problem1.model import KIND_NAMES, Adder, Head
from problem1.specialization import record_pairs, uniform_attention

KIND_COLOURS = {"Encoder": "#4c72b0", "Decoder Self": "#55a868", "Decoder Cross": "#c44e52"}
CLASSES = ["same column", "next lower column", "+", "BOS", "earlier outputs"]
METHOD_COLOURS = {"zero": "#444444", "mean": "#e0a030"}


def kind_of(head: str) -> str:
    return head.rsplit(" L", 1)[0]


def error_bars(table: pd.DataFrame, value: str) -> list[pd.Series]:
    """Lengths of the two arms of an interval, as matplotlib wants them."""
    return [(table[value] - table["low"]).clip(0), (table["high"] - table[value]).clip(0)]


def by_kind(heads: Iterable[str]) -> list[str]:
    """Head names with the encoder's first, then decoder self, then decoder cross."""
    return sorted(heads, key=lambda head: (list(KIND_COLOURS).index(kind_of(head)), head))


# --- attention maps --------------------------------------------------------------------------------------------------


def map_labels(kind: str, source: Tensor, answer: Tensor) -> tuple[list[str], list[str]]:
    """Labels of the queries (rows) and keys (columns) of a map: a decoder's query is named by the digit it predicts."""
    tokens, digits = ([TOKENS[token] for token in ids.tolist()] for ids in (source, answer))
    if kind == "encoder":
        return tokens, tokens
    return [f"→{digit}" for digit in digits], [TOKENS[BOS], *digits[:-1]] if kind == "self" else tokens


def draw_map(axes: Axes, weights: np.ndarray, kind: str, pair: np.ndarray, digits: int) -> AxesImage:
    if kind == "self":  # what lies in the future is not a zero: it is not there
        weights = np.ma.masked_where(np.triu(np.ones_like(weights), 1) > 0, weights)
        axes.set_facecolor("#f2f2f2")
    image = axes.imshow(weights, cmap="Greys", vmin=0, vmax=1, aspect="equal")
    queries, keys = map_labels(kind, *(tokens[0] for tokens in encode_pairs(pair[None], digits)))
    axes.set_xticks(range(len(keys)), keys, fontsize=8)
    axes.set_yticks(range(len(queries)), queries, fontsize=8)
    axes.tick_params(length=0)
    return image


def attention_maps(model: Adder, pair: np.ndarray) -> Figure:
    """All heads on one pair: a row for each kind of attention, a column for each layer and head."""
    digits, n_heads = model.shape["digits"], model.shape["n_heads"]
    columns = model.shape["n_layers"] * n_heads
    record, target = record_pairs(model, pair[None])
    figure, grid = plt.subplots(3, columns, figsize=(1.32 * columns, 5.6), layout="constrained")
    for block, weights in zip(model.blocks, record.attention, strict=True):
        row = list(KIND_NAMES).index(block.kind)
        for head in range(n_heads):
            axes = grid[row, block.layer * n_heads + head]
            image = draw_map(axes, weights[0, head].numpy(), block.kind, pair, digits)
            axes.set_title(f"{KIND_NAMES[block.kind]}\nL{block.layer} H{head}", fontsize=8)
        grid[row, 0].set_ylabel("query: " + ("token" if row == 0 else "digit predicted"), fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("key: token read", fontsize=8)
    answer = "".join(map(str, target[0].tolist()))
    figure.suptitle(f"Attention while adding {pair[0]} + {pair[1]} = {answer}   (rows: queries, each sums to 1)")
    figure.colorbar(image, ax=grid, shrink=0.5, label="attention weight")
    return figure


def head_across_examples(model: Adder, pairs: np.ndarray, name: Head) -> Figure:
    """One head on a dozen pairs."""
    site, head = model.site_of(name)
    kind, digits = model.blocks[site].kind, model.shape["digits"]
    record, target = record_pairs(model, pairs)
    height = 4.6 if kind == "encoder" else 3.6
    figure, grid = plt.subplots(2, -(-len(pairs) // 2), figsize=(10.4, height), layout="constrained")
    for axes, pair, weights, answer in zip(grid.flat, pairs, record.attention[site][:, head], target, strict=True):
        image = draw_map(axes, weights.numpy(), kind, pair, digits)
        axes.set_title(f"{pair[0]}+{pair[1]}={''.join(map(str, answer.tolist()))}", fontsize=8)
    figure.supxlabel("key: token read", fontsize=9)
    figure.supylabel("query: " + ("token" if kind == "encoder" else "digit predicted"), fontsize=9)
    figure.suptitle(f"{name} on {len(pairs)} sums")
    figure.colorbar(image, ax=grid, shrink=0.7, label="attention weight")
    return figure


def specialization(table: pd.DataFrame) -> Figure:
    """What heads attend to: a point for each head and measure, the uniform head's value as a dotted line."""
    figure, panels = plt.subplots(1, 3, figsize=(10.4, 3.9), layout="constrained")
    colours = dict(zip(CLASSES, sns.color_palette(), strict=False))
    for axes, kind in zip(panels, KIND_NAMES, strict=True):
        rows = table[table["kind"] == kind]
        heads, baseline = list(dict.fromkeys(rows["head"])), uniform_attention(kind)
        for offset, (measure, colour) in enumerate(colours.items()):
            shares = rows[rows["measure"] == measure]
            if shares.empty:
                continue
            y = np.array([heads.index(head) for head in shares["head"]]) + (offset % 3 - 1) * 0.18
            axes.errorbar(
                shares["mean"], y, xerr=error_bars(shares, "mean"), fmt="o", ms=5, color=colour, label=measure
            )
            axes.axvline(baseline[measure], color=colour, ls=":", lw=1)
        axes.set_yticks(range(len(heads)), heads, fontsize=8)
        axes.set(xlim=(-0.03, 1.03), ylim=(len(heads) - 0.5, -0.5), xlabel="share of attention", title=KIND_NAMES[kind])
        axes.grid(axis="y", alpha=0.3)
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
    return figure


def stability(table: pd.DataFrame) -> Figure:
    """How much a head's map stays the same from sum to sum, and how widely it spreads its attention."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 5), layout="constrained", sharey=True)
    heads = by_kind(set(table["head"]))
    for axes, measure in zip(panels, ["stability", "entropy (bits)"], strict=True):
        rows = table[table["measure"] == measure].set_index("head").loc[heads]
        for y, (head, row) in enumerate(rows.iterrows()):
            arms = [[max(0, row["mean"] - row["low"])], [max(0, row["high"] - row["mean"])]]
            axes.errorbar(row["mean"], y, xerr=arms, fmt="o", ms=5, color=KIND_COLOURS[kind_of(head)])
        axes.set_yticks(range(len(heads)), heads, fontsize=8)
        axes.set(xlabel=measure, ylim=(len(heads) - 0.5, -0.5))
        axes.grid(alpha=0.3)
        colour_by_kind(axes.get_yticklabels())
    panels[0].set(xlim=(None, 1.02), title="1 = the same map for every sum")
    panels[1].set(xlim=(0, None), title="0 = one key only")
    return figure


# --- removing heads --------------------------------------------------------------------------------------------------


def head_importance(ranked: pd.DataFrame) -> Figure:
    """Drop in accuracy without each head, zero and mean ablation, the most important on top."""
    figure, axes = plt.subplots(figsize=(8.5, 7.5), layout="constrained")
    y = np.arange(len(ranked))
    for shift, method in [(-0.2, "zero"), (0.2, "mean")]:
        drop = ranked[f"{method} drop"]
        errors = [(drop - ranked[f"{method} low"]).clip(0), (ranked[f"{method} high"] - drop).clip(0)]
        style: dict[str, Any] = {"color": METHOD_COLOURS[method], "height": 0.4, "label": f"{method} ablation"}
        axes.barh(y + shift, drop, xerr=errors, error_kw={"lw": 1}, **style)
    axes.axvline(TOLERANCE, color="crimson", ls="--", lw=1, label=f"drop {TOLERANCE}")
    axes.set_yticks(y, ranked["head"], fontsize=9)
    colour_by_kind(axes.get_yticklabels())
    axes.set(xlabel="drop in exact-match accuracy, free-running", ylim=(len(y) - 0.5, -0.5))
    axes.set_title("Accuracy lost without each head (bars: 95 % paired intervals)", fontsize=11)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower right")
    return figure


def colour_by_kind(labels: Iterable[Text]) -> None:
    for label in labels:
        label.set_color(KIND_COLOURS.get(kind_of(label.get_text()), "black"))


def pruning(greedy: pd.DataFrame, random: pd.DataFrame, joint: tuple[int, float]) -> Figure:
    """Accuracy against the number of removed heads: greedy, random orders, and all singly prunable heads at once."""
    figure, axes = plt.subplots(figsize=(8.5, 4), layout="constrained")
    axes.plot(greedy["removed"], greedy["accuracy"], "o-", ms=4, label="greedy, chosen on validation, read on test")
    axes.fill_between(greedy["removed"], greedy["low"], greedy["high"], alpha=0.25)
    spread = random.groupby("removed")["accuracy"].quantile([0.1, 0.5, 0.9]).unstack()
    axes.plot(spread.index, spread[0.5], color="grey", label="random orders: median and 10-90 % band")
    axes.fill_between(spread.index, spread[0.1], spread[0.9], color="grey", alpha=0.25)
    count, accuracy = joint
    axes.plot(count, accuracy, "X", ms=10, color="crimson", label=f"all {count} singly prunable heads at once")
    axes.axhline(1 - TOLERANCE, color="crimson", ls="--", lw=1)
    axes.set(xlabel="heads removed (zero ablation)", ylabel="exact-match accuracy", ylim=(-0.02, 1.04))
    axes.set_xticks(range(0, greedy["removed"].max() + 1, 2))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", bbox_to_anchor=(1, 0.93), fontsize=9)
    return figure


def pair_matrix(pairs: pd.DataFrame) -> Figure:
    """What only the pair costs: drop without both heads minus the drops without one of them."""
    heads = by_kind({*pairs["first"], *pairs["second"]})
    matrix = pairs.pivot(index="first", columns="second", values="extra").reindex(index=heads, columns=heads)
    matrix = matrix.fillna(matrix.T)
    figure, axes = plt.subplots(figsize=(9, 7.6), layout="constrained")
    style = {"cmap": "RdBu_r", "center": 0, "vmin": -1, "vmax": 1, "square": True, "linewidths": 0.4}
    sns.heatmap(matrix, ax=axes, cbar_kws={"label": "extra drop of the pair", "shrink": 0.7}, **style)
    axes.set(xlabel="", ylabel="", title="Heads that back each other up (red) or fail on the same sums (blue)")
    axes.tick_params(labelsize=8)
    colour_by_kind([*axes.get_xticklabels(), *axes.get_yticklabels()])
    return figure


def agreement(correlation: pd.DataFrame) -> Figure:
    """Spearman correlations between rankings."""
    figure, axes = plt.subplots(figsize=(5, 3.8), layout="constrained")
    sns.heatmap(correlation, annot=True, fmt=".2f", vmin=0, vmax=1, cmap="Blues", square=True, ax=axes)
    axes.set(xlabel="", ylabel="", title="Rank agreement (Spearman)")
    axes.set_xticks(axes.get_xticks(), correlation.columns, rotation=25, ha="right")
    axes.tick_params(axis="y", rotation=0)
    return figure


# --- carry -----------------------------------------------------------------------------------------------------------


def carry_errors(errors: pd.DataFrame) -> Figure:
    """Error of each digit without each head: sums where a carry arrives in that digit beside sums where none does."""
    figure, panels = plt.subplots(1, 2, figsize=(10.4, 7), layout="constrained", sharey=True)
    heads = by_kind(set(errors["head"]))
    for axes, method in zip(panels, ["zero", "mean"], strict=True):
        rows = errors[errors["method"] == method].set_index(["head", "digit"])[["with carry", "without carry"]]
        table = rows.unstack("digit").swaplevel(axis=1).reindex(heads)
        digits = column_names()[:-1]
        table = table[[(digit, given) for digit in digits for given in ("with carry", "without carry")]]
        labels = [f"{digit}\n{given.removesuffix(' carry')}" for digit, given in table.columns]
        style = {"vmin": 0, "vmax": 1, "cmap": "Reds", "annot": True, "fmt": ".2f", "annot_kws": {"size": 8}}
        sns.heatmap(table, ax=axes, xticklabels=labels, cbar=False, linewidths=0.4, **style)
        axes.set(xlabel="digit, with or without a carry arriving in it", ylabel="", title=f"{method} ablation")
        axes.tick_params(labelsize=8, axis="both", rotation=0)
        for x in (2, 4):
            axes.axvline(x, color="black", lw=1)
        colour_by_kind(axes.get_yticklabels())
    figure.suptitle("Share of digits wrong without a head")
    return figure


def patching(table: pd.DataFrame) -> Figure:
    """How often patching a head flips each digit and, below the line, patching a group of heads."""
    wide = table.pivot(index="patched", columns=["carry from", "digit"], values="flip rate")
    order = [(carry, digit) for carry in ("next column", "through a 9") for digit in column_names()[:-1]]
    wide = wide[[column for column in order if column in wide.columns]]
    groups = [name for name in dict.fromkeys(table["patched"]) if name.startswith("all ")]
    heads = by_kind(set(wide.index) - set(groups))
    figure, axes = plt.subplots(figsize=(8.5, 7.6), layout="constrained")
    style = {"vmin": 0, "vmax": 1, "cmap": "Greens", "annot": True, "fmt": ".2f", "annot_kws": {"size": 8}}
    labels = [f"{digit}\n{carry}" for carry, digit in wide.columns]
    sns.heatmap(wide.reindex([*heads, *groups]), ax=axes, xticklabels=labels, linewidths=0.4, **style)
    axes.axhline(len(heads), color="black", lw=1.5)
    axes.set(xlabel="digit that a carry enters, and where the carry comes from", ylabel="")
    axes.set_title("Flip rate: share of digits that become those of the other sum", fontsize=11)
    axes.tick_params(labelsize=8, axis="both", rotation=0)
    colour_by_kind(axes.get_yticklabels())
    return figure


def attention_by_sum(table: pd.DataFrame, name: str) -> Figure:
    """What a carry head attends to while it writes a digit, against the digit sum of the column to its right."""
    figure, axes = plt.subplots(figsize=(8.5, 3.6), layout="constrained")
    for key, rows in table.groupby("attends to", sort=False):
        axes.errorbar(rows["digit sum"], rows["mean"], yerr=error_bars(rows, "mean"), fmt="o-", ms=4, label=key)
    axes.axvspan(8.5, 9.5, color="grey", alpha=0.2, lw=0)
    axes.text(9, 1.01, "9: passes a carry on", ha="center", va="bottom", fontsize=8)
    axes.set(xlabel="digit sum of the next lower column", ylabel="share of attention", ylim=(-0.02, 1.1), title=name)
    axes.set_xticks(range(19))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def probes(table: pd.DataFrame) -> Figure:
    """Accuracy of linear probes along the streams; `table` has a column 'model' that tells trained from untrained."""
    digits = list(dict.fromkeys(table["digit"]))
    figure, panels = plt.subplots(1, len(digits), figsize=(10.4, 3.6), layout="constrained", sharey=True)
    for axes, digit in zip(panels, digits, strict=True):
        rows = table[table["digit"] == digit]
        labels = list(dict.fromkeys(rows["read at"] + ", " + rows["point"]))
        for (model, part), colour in zip(rows.groupby("model", sort=False), ["#c44e52", "#888888"], strict=True):
            for _, stream in part.groupby("read at", sort=False):
                x = [labels.index(label) for label in stream["read at"] + ", " + stream["point"]]
                name = model if x[0] == 0 else None
                axes.errorbar(
                    x, stream["accuracy"], yerr=error_bars(stream, "accuracy"), fmt="o-", ms=4, color=colour, label=name
                )
        axes.axhline(rows["constant"].iloc[0], ls=":", color="black", lw=1, label="constant guess")
        axes.axvline(2.5, color="black", lw=0.6)
        axes.set_xticks(range(len(labels)), [label.split(", ")[1] for label in labels], rotation=40, ha="right")
        axes.tick_params(labelsize=8)
        axes.set(title=f"carry into the {digit}", ylim=(0.45, 1.03))
        axes.grid(alpha=0.3)
        axes.text(1, 0.46, "source token", ha="center", fontsize=8)
        axes.text(4.5, 0.46, "answer position", ha="center", fontsize=8)
    panels[0].set_ylabel("probe accuracy on test sums")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=8)
    return figure


def seeds(heads: pd.DataFrame, value: str, title: str, colours: str = "Reds") -> Figure:
    """One number for every head and seed: is a role bound to a head's place, or an accident of a seed?"""
    wide = heads.pivot(index="head", columns="seed", values=value)
    figure, axes = plt.subplots(figsize=(6.4, 6.6), layout="constrained")
    style = {"vmin": 0, "vmax": 1, "cmap": colours, "annot": True, "fmt": ".2f", "annot_kws": {"size": 8}}
    sns.heatmap(wide.reindex(by_kind(wide.index)), ax=axes, linewidths=0.4, **style)
    axes.set(xlabel="seed", ylabel="", title=title)
    axes.tick_params(labelsize=8, axis="both", rotation=0)
    colour_by_kind(axes.get_yticklabels())
    return figure


def pruning_by_seed(greedy: pd.DataFrame, intervals: pd.DataFrame) -> Figure:
    """Accuracy while heads are removed greedily: a thin line for each seed, their mean with its interval as a band."""
    figure, axes = plt.subplots(figsize=(8.5, 3.6), layout="constrained")
    for _, rows in greedy.groupby("seed"):
        axes.plot(rows["removed"], rows["accuracy"], color="grey", lw=0.7, alpha=0.7)
    line = axes.plot(intervals["removed"], intervals["mean"], color="#2f5597", lw=2, label="mean over seeds")[0]
    band: dict[str, Any] = {"color": line.get_color(), "alpha": 0.25, "lw": 0, "label": "95 % interval over seeds"}
    axes.fill_between(intervals["removed"], intervals["low"], intervals["high"], **band)
    axes.axhline(1 - TOLERANCE, color="crimson", ls="--", lw=1)
    axes.set(xlabel="heads removed (zero ablation), greedily; thin: each seed", ylabel="exact-match accuracy")
    axes.set_xticks(range(0, greedy["removed"].max() + 1, 2))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    return figure


# --- the mistakes of the reports -------------------------------------------------------------------------------------


def decoding_scores(
    flawed: pd.DataFrame, scores: Mapping[str, tuple[str, str]], reported: Mapping[str, float]
) -> Figure:
    """One dot per seed, one row per training, one colour per way to score the same answers.

    `scores` is {column: (words, colour)}, `reported` is {words: value}: a line each."""
    variants = list(dict.fromkeys(flawed["variant"]))
    figure, axes = plt.subplots(figsize=(10, 0.75 * len(variants) + 1.9), layout="constrained")
    for number, (column, (words, colour)) in enumerate(scores.items()):
        for row, variant in enumerate(variants):
            values = flawed.loc[flawed["variant"] == variant, column]
            height = row + 0.13 * (number - (len(scores) - 1) / 2)
            axes.plot(
                values, [height] * len(values), "o", ms=6, alpha=0.7, color=colour, label=words if row == 0 else None
            )
    for words, value in reported.items():
        axes.axvline(value, color="black", lw=0.8, ls="--", zorder=0)
        axes.text(value, -0.62, words, rotation=40, fontsize=8, ha="left", va="bottom")
    axes.set_yticks(range(len(variants)), variants)
    axes.set(xlim=(-0.02, 1.02), ylim=(len(variants) - 0.5, -0.6), xlabel="accuracy on the 2,000 test pairs")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8, frameon=False)
    axes.grid(axis="x", alpha=0.3)
    return figure


def ranked_values(panels: Sequence[tuple[str, Mapping[str, Sequence[Sequence[float]]], Sequence[float]]]) -> Figure:
    """What is left, or lost, without each head, from the largest to the smallest: a line per seed, grey lines for
    reported values. `panels` is [(title, {label: [values of one seed, ...]}, reported values)]."""
    figure, grid = plt.subplots(1, len(panels), figsize=(3.3 * len(panels), 3.2), layout="constrained", squeeze=False)
    for axes, (title, lines, reported) in zip(grid[0], panels, strict=True):
        for colour, (label, seeds_of_it) in zip(["#4c72b0", "#c44e52"], lines.items(), strict=False):
            for number, values in enumerate(seeds_of_it):
                ordered = sorted(values, reverse=True)
                ranks = range(1, len(ordered) + 1)
                axes.plot(ranks, ordered, ".-", lw=1, ms=4, color=colour, label=label if number == 0 else None)
        for number, value in enumerate(reported):
            axes.axhline(value, color="#999999", lw=0.8, zorder=0, label="reported" if number == 0 else None)
        axes.set(title=title, xlabel="heads, ordered by this number", ylim=(-0.02, None))
        axes.title.set_fontsize(10)
        axes.grid(alpha=0.2)
        axes.legend(fontsize=8)
    return figure
