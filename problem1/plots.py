"""Tables and weights -> figures. Whatever draws one returns it; nothing is shown or written here.

`claim` is the title of a figure: what it shows, in a sentence with a number.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from torch import Tensor

from problem1.ablation import TOLERANCE
from problem1.dataset import BOS, TOKENS, column_names, encode_pairs
from problem1.model import KIND_NAMES, Adder, Head
from problem1.shared.pictures import LETTERS, TITLE, WIDTH
from problem1.specialization import record_pairs, uniform_attention

KIND_COLOURS = {"Encoder": "#0173b2", "Decoder Self": "#027a59", "Decoder Cross": "#c04a00"}
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
    axes.set_xticks(range(len(keys)), keys)
    axes.set_yticks(range(len(queries)), queries)
    axes.tick_params(length=0, pad=1, labelsize=LETTERS)
    return image


def attention_maps(model: Adder, pair: np.ndarray, claim: str = "") -> Figure:
    """All heads on one pair: a row for each kind of attention, a column for each layer and head."""
    digits, n_heads = model.shape["digits"], model.shape["n_heads"]
    columns = model.shape["n_layers"] * n_heads
    record, target = record_pairs(model, pair[None])
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.04, wspace=0.03)
    rows = {"height_ratios": [7, 5, 5]}
    figure, grid = plt.subplots(3, columns, figsize=(WIDTH, 5.4), layout=layout, gridspec_kw=rows)
    for block, weights in zip(model.blocks, record.attention, strict=True):
        row = list(KIND_NAMES).index(block.kind)
        for head in range(n_heads):
            axes = grid[row, block.layer * n_heads + head]
            image = draw_map(axes, weights[0, head].numpy(), block.kind, pair, digits)
            axes.set_title(f"L{block.layer} H{head}", fontsize=LETTERS, pad=3)
            axes.set_aspect("auto")
            if axes is not grid[row, 0]:  # they are those of the first
                axes.set_yticks([])
            if block.kind == "self":
                axes.set_xticks(axes.get_xticks(), ["B", *(label.get_text() for label in axes.get_xticklabels()[1:])])
        grid[row, 0].set_ylabel(KIND_NAMES[block.kind], fontsize=LETTERS)
    answer = "".join(map(str, target[0].tolist()))
    figure.suptitle(claim or f"Attention while adding {pair[0]} + {pair[1]} = {answer}", fontsize=TITLE)
    colour_bar(figure, image, grid)
    return figure


def colour_bar(figure: Figure, image: AxesImage, grid: np.ndarray) -> None:
    bar = figure.colorbar(image, ax=grid, shrink=0.6, aspect=30, pad=0.01)
    bar.set_label("attention", fontsize=LETTERS)
    bar.ax.tick_params(labelsize=LETTERS)


def head_across_examples(model: Adder, pairs: np.ndarray, name: Head, claim: str = "") -> Figure:
    """One head on a dozen pairs."""
    site, head = model.site_of(name)
    kind, digits = model.blocks[site].kind, model.shape["digits"]
    record, target = record_pairs(model, pairs)
    figure, grid = plt.subplots(2, -(-len(pairs) // 2), figsize=(WIDTH, 4.2), layout="constrained")
    for axes, pair, weights, answer in zip(grid.flat, pairs, record.attention[site][:, head], target, strict=True):
        image = draw_map(axes, weights.numpy(), kind, pair, digits)
        axes.set_title(f"{pair[0]}+{pair[1]}\n={''.join(map(str, answer.tolist()))}", fontsize=LETTERS)
    figure.suptitle(claim or f"{name} on {len(pairs)} sums", fontsize=TITLE)
    colour_bar(figure, image, grid)
    return figure


def specialization(table: pd.DataFrame, claim: str = "") -> Figure:
    """What heads attend to: a point for each head and measure, the uniform head's value as a dotted line."""
    figure, panels = plt.subplots(1, 3, figsize=(WIDTH, 4.3), layout="constrained")
    colours = dict(zip(CLASSES, sns.color_palette("colorblind"), strict=False))
    for axes, kind in zip(panels, KIND_NAMES, strict=True):
        rows = table[table["kind"] == kind]
        heads, baseline = list(dict.fromkeys(rows["head"])), uniform_attention(kind)
        for offset, (measure, colour) in enumerate(colours.items()):
            shares = rows[rows["measure"] == measure]
            if shares.empty:
                continue
            y = np.array([heads.index(head) for head in shares["head"]]) + (offset % 3 - 1) * 0.18
            axes.plot(shares["mean"], y, "osD^v"[offset], ms=4.5, color=colour, label=measure)
            axes.axvline(baseline[measure], color=colour, ls=":", lw=1)
        axes.set_yticks(range(len(heads)), [head.removeprefix(kind_of(head)) for head in heads])
        axes.set(xlim=(-0.03, 1.03), ylim=(len(heads) - 0.5, -0.5))
        axes.set_xlabel("share of attention", fontsize=LETTERS)
        axes.set_title(KIND_NAMES[kind], fontsize=LETTERS + 1)
        axes.tick_params(labelsize=LETTERS)
        axes.grid(axis="y", alpha=0.3)
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=LETTERS
    )
    figure.suptitle(claim, fontsize=TITLE)
    return figure


# --- removing heads --------------------------------------------------------------------------------------------------


def head_importance(ranked: pd.DataFrame, claim: str = "") -> Figure:
    """Drop in accuracy without each head, zero and mean ablation, the most important on top."""
    figure, axes = plt.subplots(figsize=(WIDTH, 7.5), layout="constrained")
    y = np.arange(len(ranked))
    for shift, method in [(-0.2, "zero"), (0.2, "mean")]:
        drop = ranked[f"{method} drop"]
        errors = [(drop - ranked[f"{method} low"]).clip(0), (ranked[f"{method} high"] - drop).clip(0)]
        style: dict[str, Any] = {"color": METHOD_COLOURS[method], "height": 0.4, "label": f"{method} ablation"}
        axes.barh(y + shift, drop, xerr=errors, error_kw={"lw": 1}, **style)
    axes.axvline(TOLERANCE, color="crimson", ls="--", lw=1, label=f"drop {TOLERANCE}")
    axes.set_yticks(y, ranked["head"])
    colour_by_kind(axes.get_yticklabels())
    axes.set(ylim=(len(y) - 0.5, -0.5))
    axes.set_xlabel("drop in exact-match accuracy, free-running (95 % intervals)", fontsize=LETTERS)
    axes.set_title(claim or "Accuracy lost without each head", fontsize=TITLE)
    axes.tick_params(labelsize=LETTERS)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower right", fontsize=LETTERS)
    return figure


def colour_by_kind(labels: Iterable[Text]) -> None:
    for label in labels:
        label.set_color(KIND_COLOURS.get(kind_of(label.get_text()), "black"))


def pruning(greedy: pd.DataFrame, random: pd.DataFrame, joint: tuple[int, float], claim: str = "") -> Figure:
    """Accuracy against the number of removed heads: greedy, random orders, and all singly prunable heads at once."""
    figure, axes = plt.subplots(figsize=(WIDTH, 4.3), layout="constrained")
    axes.plot(greedy["removed"], greedy["accuracy"], "o-", ms=4, label="one after the other, the cheapest first")
    axes.fill_between(greedy["removed"], greedy["low"], greedy["high"], alpha=0.25)
    spread = random.groupby("removed")["accuracy"].quantile([0.1, 0.5, 0.9]).unstack()
    axes.plot(spread.index, spread[0.5], color="grey", label="in random order: median, 10-90 % band")
    axes.fill_between(spread.index, spread[0.1], spread[0.9], color="grey", alpha=0.25)
    count, accuracy = joint
    axes.plot(count, accuracy, "X", ms=9, color="crimson", label=f"all {count} singly prunable heads at once")
    axes.axhline(1 - TOLERANCE, color="crimson", ls="--", lw=1)
    axes.set(ylim=(-0.02, 1.04))
    axes.set_xlabel("heads removed (zeros in their place)", fontsize=LETTERS)
    axes.set_ylabel("exact-match accuracy", fontsize=LETTERS)
    axes.set_title(claim, fontsize=TITLE)
    axes.set_xticks(range(0, greedy["removed"].max() + 1, 2))
    axes.tick_params(labelsize=LETTERS)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", bbox_to_anchor=(1, 0.93), fontsize=LETTERS)
    return figure


def agreement(correlation: pd.DataFrame, claim: str = "") -> Figure:
    """Spearman correlations between rankings."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    style: dict[str, Any] = {"vmin": 0, "vmax": 1, "cmap": "Blues", "annot_kws": {"size": LETTERS}}
    sns.heatmap(correlation, annot=True, fmt=".2f", ax=axes, **style)
    axes.set(xlabel="", ylabel="")
    axes.set_title(claim, fontsize=TITLE)
    axes.tick_params(labelsize=LETTERS)
    axes.tick_params(axis="y", rotation=0)
    small_colour_bar(axes)
    return figure


def small_colour_bar(axes: Axes) -> None:
    bar = axes.collections[0].colorbar
    if bar is not None:
        bar.ax.tick_params(labelsize=LETTERS)


def summed_up(wide: pd.DataFrame, least: float = 0.05) -> pd.DataFrame:
    """The rows in which something reaches `least`; all others as one row, with the highest number of each column."""
    loud = wide.max(axis=1) >= least
    quiet = wide[~loud].max().rename(f"{(~loud).sum()} others, highest")
    return pd.concat([wide[loud], quiet.to_frame().T]) if not loud.all() else wide


# --- carry -----------------------------------------------------------------------------------------------------------


def carry_errors(errors: pd.DataFrame) -> Figure:
    """Error of each digit without each head: sums where a carry arrives in that digit beside sums where none does."""
    rows = errors.set_index(["head", "method", "digit"])[["with carry", "without carry"]]
    wide = rows.unstack(["method", "digit"]).reorder_levels([1, 2, 0], axis=1)
    digits, cases = column_names()[:-1], ("with carry", "without carry")
    wide = wide[[(method, digit, case) for method in METHOD_COLOURS for digit in digits for case in cases]]
    wide = summed_up(wide.reindex(by_kind(wide.index)))
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 0.4 * len(wide) + 1.8), layout="constrained", sharey=True)
    for axes, method in zip(panels, METHOD_COLOURS, strict=True):
        labels = [f"{digit}\n{case.removesuffix(' carry')}" for digit in digits for case in cases]
        draw_rates(axes, wide[method], labels, "Reds")
        axes.set_title(f"{method} ablation", fontsize=LETTERS + 1)
        axes.tick_params(axis="x", rotation=90)
        for x in (2, 4):
            axes.axvline(x, color="black", lw=1)
    figure.suptitle("Share of digits wrong without a head, with and without a carry arriving there", fontsize=TITLE)
    return figure


def draw_rates(axes: Axes, wide: pd.DataFrame, labels: Sequence[str], colours: str, bar: bool = False) -> None:
    """A heatmap of shares with its numbers."""
    style: dict[str, Any] = {"vmin": 0, "vmax": 1, "cmap": colours, "annot": True, "fmt": ".2f", "linewidths": 0.4}
    sns.heatmap(wide, ax=axes, xticklabels=labels, cbar=bar, annot_kws={"size": LETTERS}, **style)
    axes.set(xlabel="", ylabel="")
    axes.tick_params(labelsize=LETTERS, axis="both", rotation=0)
    colour_by_kind(axes.get_yticklabels())


def patching(table: pd.DataFrame, claim: str = "") -> Figure:
    """How often patching a head flips each digit and, below the line, patching a group of heads."""
    wide = table.pivot(index="patched", columns=["carry from", "digit"], values="flip rate")
    order = [(carry, digit) for carry in ("next column", "through a 9") for digit in column_names()[:-1]]
    wide = wide[[column for column in order if column in wide.columns]]
    groups = [name for name in dict.fromkeys(table["patched"]) if name.startswith("all ")]
    heads = summed_up(wide.reindex(by_kind(set(wide.index) - set(groups))))
    figure, axes = plt.subplots(figsize=(WIDTH, 0.31 * (len(heads) + len(groups)) + 1.5), layout="constrained")
    labels = [f"{digit},\n{carry}" for carry, digit in wide.columns]
    draw_rates(axes, pd.concat([heads, wide.loc[groups]]), labels, "Greens")
    axes.axhline(len(heads), color="black", lw=1.5)
    axes.set_xlabel("digit that a carry enters, and where the carry comes from", fontsize=LETTERS)
    axes.set_title(claim or "Flip rate: share of digits that become those of the other sum", fontsize=TITLE)
    return figure


def attention_by_sum(table: pd.DataFrame, name: str) -> Figure:
    """What a carry head attends to while it writes a digit, against the digit sum of the column to its right."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.9), layout="constrained")
    colours = sns.color_palette("colorblind")
    for (key, rows), colour in zip(table.groupby("attends to", sort=False), colours, strict=False):
        arms = error_bars(rows, "mean")
        axes.errorbar(rows["digit sum"], rows["mean"], yerr=arms, fmt="o-", ms=4, label=key, color=colour)
    axes.axvspan(8.5, 9.5, color="grey", alpha=0.2, lw=0)
    axes.text(9, 1.01, "9: passes a carry on", ha="center", va="bottom", fontsize=LETTERS)
    axes.set(ylim=(-0.02, 1.12))
    axes.set_xlabel("digit sum of the next lower column", fontsize=LETTERS)
    axes.set_ylabel("share of attention", fontsize=LETTERS)
    axes.set_title(name, fontsize=TITLE)
    axes.set_xticks(range(19))
    axes.tick_params(labelsize=LETTERS)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=LETTERS)
    return figure


def probes(table: pd.DataFrame) -> Figure:
    """Accuracy of linear probes along the streams; `table` has a column 'model' that tells trained from untrained."""
    digits = list(dict.fromkeys(table["digit"]))
    figure, panels = plt.subplots(1, len(digits), figsize=(WIDTH, 4.3), layout="constrained", sharey=True)
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
        axes.set_xticks(range(len(labels)), [label.split(", ")[1] for label in labels], rotation=50, ha="right")
        axes.tick_params(labelsize=LETTERS)
        axes.set(ylim=(0.42, 1.03))
        axes.set_title(f"carry into the {digit}", fontsize=LETTERS + 1)
        axes.grid(alpha=0.3)
        axes.text(1, 0.43, "source", ha="center", fontsize=LETTERS)
        axes.text(4.5, 0.43, "answer", ha="center", fontsize=LETTERS)
    panels[0].set_ylabel("accuracy on test sums", fontsize=LETTERS)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=LETTERS)
    return figure


def pruning_by_seed(greedy: pd.DataFrame, claim: str = "") -> Figure:
    """Accuracy while heads are removed greedily: a thin line for each seed, and their mean."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.9), layout="constrained")
    for _, rows in greedy.groupby("seed"):
        axes.plot(rows["removed"], rows["accuracy"], color="grey", lw=0.7, alpha=0.7)
    greedy.groupby("removed")["accuracy"].mean().plot(ax=axes, color="#2f5597", lw=2, label="mean over seeds")
    axes.axhline(1 - TOLERANCE, color="crimson", ls="--", lw=1)
    axes.set_xlabel("heads removed one after the other; thin: each seed", fontsize=LETTERS)
    axes.set_ylabel("exact-match accuracy", fontsize=LETTERS)
    axes.set_title(claim, fontsize=TITLE)
    axes.set_xticks(range(0, greedy["removed"].max() + 1, 2))
    axes.tick_params(labelsize=LETTERS)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=LETTERS)
    return figure
