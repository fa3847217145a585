"""Tables and weights -> figures. Whatever draws one returns it; nothing is shown or written here.

`claim` is the title of a figure: what it shows, in a sentence with a number.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from problem1.shared.pictures import LETTERS, WIDTH, legible
from problem2.certificate import Tables
from problem2.dataset import TRAINING_LENGTHS
from problem2.encodings import ASSIGNED, ENCODINGS, T5, Absolute, Encoding
from problem2.mathematics import position_logits
from problem2.model import Classifier

# In the order of ENCODINGS. Two palettes of Paul Tol, each of which colour-blind readers can tell apart: "muted" (with
# a brown) for solid lines and dots, "vibrant" for dashed lines and squares.
MUTED = ["#cc6677", "#882255", "#332288", "#117733", "#88ccee", "#44aa99", "#999933", "#ddcc77", "#661100", "#aa4499"]
VIBRANT = ["#ee7733", "#0077bb", "#33bbee", "#ee3377", "#cc3311", "#009988"]
COLOURS = [*MUTED, *VIBRANT]
SETS = ("#8aa8d0", "#1f4788", "#c44e52")  # up to three curves for each encoding
STUDIES = {"plain": ("#0077bb", "o"), "augmented": ("#ee7733", "D")}
Band = tuple[str, str]  # two columns


def colour_of(name: str) -> str | tuple[float, float, float]:
    number = list(ENCODINGS).index(name)
    return COLOURS[number] if len(ENCODINGS) <= len(COLOURS) else sns.color_palette("husl", len(ENCODINGS))[number]


def label_of(name: str) -> str:
    """The label of an encoding; variants of it have theirs behind it."""
    known = max((each for each in ENCODINGS if name == each or name.startswith(f"{each} ")), key=len, default="")
    return ENCODINGS[known].label + name.removeprefix(known) if known else name


def line_of(name: str) -> dict[str, Any]:
    """How the line of an encoding is drawn: no two look the same."""
    solid = list(ENCODINGS).index(name) < len(MUTED)
    return {"color": colour_of(name), "marker": "o" if solid else "s", "ls": "-" if solid else "--"}


def length_axis(axes: Axes, lengths: Sequence[int]) -> None:
    """Lengths on a logarithmic axis, the training range shaded."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, list(map(str, lengths)))
    axes.minorticks_off()
    axes.axvspan(*TRAINING_LENGTHS, color="grey", alpha=0.18, lw=0)
    axes.set(xlabel="length")
    axes.grid(alpha=0.3)


def draw_curve(axes: Axes, rows: pd.DataFrame, style: Mapping[str, Any], band: Band = ("min", "max")) -> None:
    """Mean over seeds with a band, by default lowest to highest; hollow where every seed has a constant prediction."""
    line = axes.plot(rows["length"], rows["mean"], **style)[0]
    axes.fill_between(rows["length"], *(rows[end] for end in band), color=line.get_color(), alpha=0.18, lw=0)
    constant = rows[rows["constant prediction"] == rows["seeds"]]
    hollow: dict[str, Any] = {"marker": line.get_marker(), "mfc": "white", "ls": "", "zorder": 3}
    axes.plot(constant["length"], constant["mean"], color=line.get_color(), **hollow)


# --- accuracy against length -----------------------------------------------------------------------------------------


def class_shares(rows: pd.DataFrame) -> dict[int, float]:
    """{length: share of sorted items} of the sets in these rows."""
    return rows.groupby("length")["share sorted"].first().to_dict()


def curves(table: pd.DataFrame, names: Iterable[str], shares: Mapping[int, float], claim: str = "") -> Figure:
    """The assignment's figure: accuracy against length, training range shaded; grey, what a constant answer gets."""
    figure, axes = plt.subplots(figsize=(WIDTH, 4.4), layout="constrained")
    lengths, always = list(shares), np.array(list(shares.values()))
    axes.plot(lengths, always, color="grey", lw=1, ls="--", label='always answers "sorted"')
    axes.plot(lengths, 1 - always, color="grey", lw=1, ls=":", label='always answers "unsorted"')
    for name in names:
        draw_curve(axes, table[table["name"] == name], {**line_of(name), "label": ENCODINGS[name].label})
    length_axis(axes, lengths)
    axes.text(np.prod(TRAINING_LENGTHS) ** 0.5, 1.025, "trained", ha="center", color="dimgrey")
    axes.set(ylabel="accuracy", ylim=(0.35, 1.08))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return legible(figure, claim)


def lowest_by_seed(rows: pd.DataFrame, least: float, claim: str = "") -> Figure:
    """A point for each classifier: its lowest accuracy over the lengths in these rows. The line is at `least`."""
    lowest = rows.groupby(["study", "name", "seed"], as_index=False)["accuracy"].min()
    order = [name for name in ENCODINGS if name in set(lowest["name"])]
    order.sort(key=lowest.groupby("name")["accuracy"].mean().__getitem__, reverse=True)
    figure, axes = plt.subplots(figsize=(WIDTH, 1.2 + 0.36 * len(order)), layout="constrained")
    for shift, (study, (colour, marker)) in zip((-0.2, 0.2), STUDIES.items(), strict=True):
        part = lowest[lowest["study"] == study]
        y = part["name"].map(order.index) + shift
        style: dict[str, Any] = {"color": colour, "alpha": 0.55, "ls": "", "ms": 7}
        axes.plot(part["accuracy"], y, marker, label=f"{study}, a point for each seed", **style)
    axes.axvline(least, color="black", lw=0.8, ls="--")
    axes.set_yticks(range(len(order)), [ENCODINGS[name].label for name in order])
    axes.set(xlim=(0.4, 1.02), ylim=(len(order) - 0.4, -0.6), xlabel="lowest accuracy at 32, 64, 128 and 256")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    return legible(figure, claim)


def panels(tables: Mapping[str, pd.DataFrame], band: Band = ("min", "max"), claim: str = "") -> Figure:
    """One panel for each encoding, one curve for each table {label: balanced accuracy over seeds}."""
    names = [name for name in ENCODINGS if name in set(next(iter(tables.values()))["name"])]
    lengths = sorted({length for table in tables.values() for length in table["length"]})
    size: dict[str, Any] = {"figsize": (WIDTH, 2.5 * -(-len(names) // 4) + 1), "layout": "constrained"}
    figure, grid = plt.subplots(-(-len(names) // 4), 4, sharex=True, sharey=True, squeeze=False, **size)
    for axes, name in zip(grid.flat, names, strict=False):
        for (label, table), colour in zip(tables.items(), SETS, strict=False):
            rows = table[table["name"] == name]
            draw_curve(axes, rows, {"color": colour, "marker": "o", "ms": 4, "label": label}, band)
        length_axis(axes, lengths[::3])
        axes.set(title=ENCODINGS[name].label, ylim=(0.4, 1.04))
        axes.label_outer()
    for axes in grid.flat[len(names) :]:
        axes.axis("off")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(tables))
    figure.supylabel("balanced accuracy")
    return legible(figure, claim)


def controls(table: pd.DataFrame, group: str = "corruption", claim: str = "") -> Figure:
    """What each classifier really learned: balanced accuracy by corruption (or another `group`) and length; 0.5 is
    chance."""
    lengths, groups = sorted(set(table["length"])), list(dict.fromkeys(table[group]))
    order = list(dict.fromkeys(table["name"]))
    columns = pd.MultiIndex.from_product([groups, lengths])
    table = table.assign(share=table["constant prediction"] / table["seeds"])
    means, constant = (
        table.pivot(index="name", columns=[group, "length"], values=value).loc[order, columns]
        for value in ("mean", "share")
    )
    text = means.map("{:.2f}".format) + constant.ge(0.5).replace({True: "¹", False: ""})
    figure, axes = plt.subplots(figsize=(WIDTH, 1.8 + 0.33 * len(order)), layout="constrained")
    style = {"vmin": 0, "vmax": 1, "center": 0.5, "cmap": "RdBu", "linewidths": 0.4}
    sns.heatmap(means, ax=axes, annot=text, fmt="", cbar_kws={"label": "balanced accuracy"}, **style)
    axes.set_xticks(np.arange(len(columns)) + 0.5, [str(length) for _, length in columns], rotation=0)
    axes.set_yticks(np.arange(len(order)) + 0.5, list(map(label_of, order)), rotation=0)
    for number, title in enumerate(groups):
        axes.text((number + 0.5) * len(lengths), -0.25, title, ha="center", va="bottom")
        axes.axvline(number * len(lengths), color="black", lw=1.2)
    axes.set(xlabel="length;   ¹ constant prediction in at least half of the seeds", ylabel="")
    return legible(figure, claim)


def factors(tables: Mapping[str, pd.DataFrame], lengths: Sequence[int], claim: str = "") -> Figure:
    """A row for each classifier of a study: balanced accuracy at some lengths, a panel for each {title: table}."""
    names = list(dict.fromkeys(next(iter(tables.values()))["name"]))
    labels = [textwrap.fill(name, 30) for name in names]
    height = 1.4 + 0.42 * len(names) + 0.12 * sum("\n" in label for label in labels)
    size: dict[str, Any] = {"figsize": (WIDTH, height), "layout": "constrained"}
    figure, sides = plt.subplots(1, len(tables), sharey=True, squeeze=False, **size)
    shades = dict(zip(lengths, sns.color_palette("viridis_r", len(lengths)), strict=True))
    for axes, (title, table) in zip(sides[0], tables.items(), strict=True):
        for shift, (length, colour) in enumerate(shades.items()):
            rows = table[table["length"] == length].set_index("name").loc[names]
            y = np.arange(len(names)) + (shift - (len(lengths) - 1) / 2) * 0.18
            arms = [rows["mean"] - rows["min"], rows["max"] - rows["mean"]]
            axes.errorbar(rows["mean"], y, xerr=arms, fmt="o^sD"[shift], ms=6, color=colour, label=str(length))
        axes.set_yticks(range(len(names)), labels)
        axes.axvline(0.5, color="grey", lw=0.8, ls="--")
        axes.set(xlim=(0.35, 1.03), ylim=(len(names) - 0.5, -0.5), xlabel="balanced accuracy", title=title)
        axes.grid(alpha=0.3)
    handles, texts = sides[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, [f"length {text}" for text in texts], loc="outside lower center", ncols=len(texts), frameon=False
    )
    return legible(figure, claim)


def accuracy_by_shift(table: pd.DataFrame, claim: str = "") -> Figure:
    """Balanced accuracy against the shift of the position distribution: a point for each classifier, policy and length,
    mean over seeds. `table` has the columns of `over_seeds`, and name, label, shift."""
    figure, axes = plt.subplots(figsize=(WIDTH, max(5, 0.27 * table["label"].nunique())), layout="constrained")
    for label, rows in table.groupby("label", sort=False):
        name = rows["name"].iloc[0]
        number = list(dict.fromkeys(table.loc[table["name"] == name, "label"])).index(label)
        style = {**line_of(name), "marker": "os^vDPX*<>"[number % 10], "label": label}
        axes.plot(rows["shift"], rows["mean"], lw=0.6, ms=7, alpha=0.85, **style)
    axes.axhline(0.5, color="grey", lw=0.8, ls="--")
    axes.set(xlabel="shift of the position distribution since length 16", ylabel="balanced accuracy")
    axes.set(xlim=(-0.03, 1.03), ylim=(0.42, 1.04))
    axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False, labelspacing=0.25)
    return legible(figure, claim)


# --- encodings as pictures -------------------------------------------------------------------------------------------


def encoding_pictures(classifiers: Mapping[str, Classifier], length: int = 48, claim: str = "") -> Figure:
    """What the assigned encodings add to the embeddings; below the line, positions that training never reached."""
    figure, grid = plt.subplots(1, len(ASSIGNED), figsize=(WIDTH, 4.4), layout="constrained", sharey=True)
    for axes, name in zip(grid, ASSIGNED, strict=True):
        encoding = classifiers[name].positions
        axes.set(title=ENCODINGS[name].label, xlabel="dimension")
        if isinstance(encoding, Absolute):
            rows = encoding.rows(torch.arange(length)).detach()
            image = axes.imshow(rows.numpy(), cmap="RdBu_r", vmin=-2.5, vmax=2.5, aspect="auto")
            axes.axhline(encoding.trained - 0.5, color="black", lw=1.5)
        else:
            axes.text(encoding.d_model / 2, length / 2, "nothing is added", ha="center", va="center")
            axes.set(xlim=(-0.5, encoding.d_model - 0.5))
    grid[0].set(ylabel="position")
    legible(figure, claim)
    bar = figure.colorbar(image, ax=grid, label="added to the embedding", pad=0.01)
    bar.ax.tick_params(labelsize=LETTERS)
    bar.ax.yaxis.label.set_fontsize(LETTERS)
    return figure


@torch.inference_mode()
def seen_by_attention(encoding: Encoding, length: int) -> np.ndarray:
    """(length, length): what positions alone do to the logits, mean over heads, while all tokens hold the same value:
    zero where positions have rows of their own, random numbers elsewhere."""
    torch.manual_seed(0)
    x = encoding.embed(torch.zeros(1, length, encoding.d_model))
    x = x if isinstance(encoding, Absolute) else x + torch.randn(encoding.d_model)
    heads = x.unflatten(-1, (encoding.n_heads, -1)).transpose(1, 2)
    q, k = encoding.rotate(heads, heads)
    logits, bias = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, encoding.bias(q, k)
    logits = (logits if bias is None else logits + bias)[0].mean(0)
    future = torch.ones(length, length, dtype=torch.bool).triu(1) & encoding.causal
    return logits.masked_fill(future, torch.nan).numpy()


def draw_seen(axes: Axes, name: str, encoding: Encoding, length: int) -> None:
    logits = seen_by_attention(encoding, length)
    low, high = np.nanmin(logits), np.nanmax(logits)
    around = 1 if high - low < 1e-5 else 0  # all alike: one colour
    axes.imshow(logits, cmap="viridis", interpolation="nearest", vmin=low - around, vmax=high + around)
    axes.set_title(textwrap.fill(ENCODINGS[name].label, 16), fontsize=LETTERS)
    axes.add_patch(Rectangle((-0.5, -0.5), encoding.trained, encoding.trained, fill=False, ec="red", lw=1.5))
    axes.set(facecolor="#f2f2f2", xticks=[0, 16, 32], yticks=[0, 16, 32])


def attention_pictures(classifiers: Mapping[str, Classifier], length: int = 48, claim: str = "") -> Figure:
    """What attention sees of positions, for every encoding; red, what training reached."""
    rows = -(-len(classifiers) // 6)
    figure, grid = plt.subplots(rows, 6, figsize=(WIDTH, 2.1 * rows + 0.8), layout="constrained", squeeze=False)
    for axes, (name, classifier) in zip(grid.flat, classifiers.items(), strict=False):
        draw_seen(axes, name, classifier.positions, length)
    for axes in grid.flat[len(classifiers) :]:
        axes.axis("off")
    figure.supxlabel("key position")
    figure.supylabel("query position")
    return legible(figure, claim)


def learned_table(before: Tensor, after: Tensor, trained: int, claim: str = "", rows: int | None = None) -> Figure:
    """The learned table before and after training, what training added, and how far each row moved: all rows, or so
    many."""
    before, after = before[:rows], after[:rows]
    figure, grid = plt.subplots(1, 4, figsize=(WIDTH, 5), layout="constrained", sharey=True)
    moved = (after - before).norm(dim=1) / before.norm(dim=1)
    pictures = {"as initialised": (before, 3), "after training": (after, 3), "difference": (after - before, 0.3)}
    for axes, (title, (table, limit)) in zip(grid, pictures.items(), strict=False):
        image = axes.imshow(table.numpy(), "RdBu_r", aspect="auto", interpolation="nearest", vmin=-limit, vmax=limit)
        axes.set(xlabel="dimension", title=title)
        figure.colorbar(image, ax=axes, location="bottom", shrink=0.8)
    grid[3].plot(moved.numpy(), np.arange(len(moved)), ".", color=colour_of("learned"))
    grid[3].set(xlim=(0, None), xlabel="change of a row / its norm", title="how far it moved")
    grid[3].grid(alpha=0.3)
    for axes in grid:
        axes.axhline(trained - 0.5, color="black", lw=1.5)
    grid[0].set(ylim=(len(moved) - 0.5, -0.5), ylabel=f"position (above the line: trained, 0..{trained - 1})")
    return legible(figure, claim)


def position_terms(classifier: Classifier, size: int = 64, claim: str = "") -> Figure:
    """P_t P_s^T beside P_t W P_s^T of each head of the first layer; the red square is the training range."""
    positions, encoding = torch.arange(size), cast(Absolute, classifier.positions)
    rows = encoding.rows(positions).detach()
    terms = {"$P_t P_s^T$": rows @ rows.T}
    terms |= {f"$P_t W P_s^T$, head {head}": term for head, term in enumerate(position_logits(classifier, positions))}
    figure, grid = plt.subplots(1, len(terms), figsize=(WIDTH, 3.4), layout="constrained", sharey=True)
    for axes, (title, term) in zip(grid, terms.items(), strict=True):
        image = axes.imshow(term.numpy(), cmap="viridis", interpolation="nearest")
        axes.add_patch(Rectangle((-0.5, -0.5), encoding.trained, encoding.trained, fill=False, ec="red", lw=1.5))
        axes.set_title(title)
        axes.set(xlabel="key position s", xticks=[0, 16, 32, 48])
        figure.colorbar(image, ax=axes, location="bottom", shrink=0.9).ax.locator_params(nbins=3)
    grid[0].set(ylabel="query position t", yticks=[0, 16, 32, 48])
    for axes in grid:
        axes.title.set_fontsize(LETTERS)
    return legible(figure, claim)


def bias_by_distance(classifier: Classifier, farthest: int = 40, claim: str = "") -> Figure:
    """The learned bias of T5's buckets against the distance; grey, the distances that training showed."""
    encoding = cast(T5, classifier.positions)
    distance = torch.arange(-farthest, farthest + 1)
    figure, axes = plt.subplots(figsize=(WIDTH, 4), layout="constrained")
    lines = zip(
        encoding.bias_table[:, encoding.bucket(distance)].detach(), VIBRANT, ("-", "--", ":", "-."), strict=False
    )
    for head, (bias, colour, line) in enumerate(lines):
        axes.step(distance.numpy(), bias.numpy(), line, where="mid", label=f"head {head}", color=colour, lw=1.8)
    axes.axvspan(0.5 - encoding.trained, encoding.trained - 0.5, color="grey", alpha=0.18, lw=0)
    axes.set(xlabel="distance key - query (grey: shown in training)", ylabel="bias added to the logit")
    axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return legible(figure, claim)


def by_difference(table: pd.DataFrame, claim: str = "") -> Figure:
    """Attention to a key against its value minus the query's: a panel for each head, a line for each length."""
    heads = sorted(set(table["head"]))
    figure, grid = plt.subplots(1, len(heads), figsize=(WIDTH, 3.9), sharey=True, layout="constrained", squeeze=False)
    for axes, head in zip(grid[0], heads, strict=True):
        lines = table[table["head"] == head].groupby("length")
        for (length, rows), colour, marker in zip(lines, VIBRANT, "os^D", strict=False):
            axes.plot(rows["difference"], rows["attention"], marker + "-", ms=4, label=f"length {length}", color=colour)
        axes.axvline(0, color="grey", lw=0.8)
        axes.axhline(1, color="grey", lw=0.8, ls="--")
        axes.set_title(f"head {head}")
        axes.set(xticks=[-50, 0, 50], xlabel="key's value - query's")
        axes.grid(alpha=0.3)
    grid[0, 0].set(ylabel="attention\n(1: like any other key)")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return legible(figure, claim)


# --- single sequences, cost, the certificate -------------------------------------------------------------------------


def failures(cases: Mapping[str, pd.DataFrame], claim: str = "") -> Figure:
    """Sequences as rows of cells, shaded by value, a panel for each {title: mistakes}; red frames mark neighbours that
    are out of order."""
    heights = [len(rows) + 1 for rows in cases.values()]
    size: dict[str, Any] = {"figsize": (WIDTH, 0.6 + 0.37 * sum(heights)), "layout": "constrained"}
    figure, grid = plt.subplots(len(cases), 1, height_ratios=heights, squeeze=False, **size)
    longest = max(len(sequence) for rows in cases.values() for sequence in rows["sequence"])
    for axes, (title, rows) in zip(grid[:, 0], cases.items(), strict=True):
        draw_sequences(axes, rows, longest)
        axes.set_title(title, fontsize=LETTERS, loc="left")
    return legible(figure, claim)


def draw_sequences(axes: Axes, cases: pd.DataFrame, longest: int) -> None:
    values = np.full((len(cases), longest), np.nan)
    for y, sequence in enumerate(cases["sequence"]):
        values[y, : len(sequence)] = sequence
        for x, value in enumerate(sequence):
            axes.text(x, y, str(value), ha="center", va="center", color="white" if value > 60 else "black")
        for x in np.flatnonzero(np.diff(sequence) < 0).tolist():
            axes.add_patch(Rectangle((x - 0.46, y - 0.44), 1.92, 0.88, fill=False, ec="red", lw=2))
    axes.imshow(values, cmap="Greys", vmin=0, vmax=130, aspect="auto")
    axes.set_yticks(range(len(cases)), [f"logit {logit:+.1f}" for logit in cases["logit"]])
    axes.set(xticks=[])
    axes.spines[:].set_visible(False)


def cost(table: pd.DataFrame, claim: str = "") -> Figure:
    """CPU time of classifying one sequence against its length, beside the growth that counting operations predicts."""
    figure, axes = plt.subplots(figsize=(WIDTH, 4.6), layout="constrained")
    for (attention, rows), colour, marker in zip(
        table.groupby("attention", sort=False), COLOURS[1:], "os^D", strict=False
    ):
        axes.plot(rows["length"], rows["ms per sequence"], marker + "-", color=colour, label=f"{attention}, measured")
        expected = rows["operations"] / rows["operations"].iloc[0] * rows["ms per sequence"].iloc[0]
        axes.plot(rows["length"], expected, ":", color=colour, label=f"{attention}, expected growth")
    length_axis(axes, sorted(set(table["length"])))
    axes.set(yscale="log", ylabel="CPU milliseconds per sequence")
    axes.legend()
    return legible(figure, claim)


def token_logits(tables: Tables, claim: str = "") -> Figure:
    """All that tokens can say: the first token, the last one, and slices of what those between can say."""
    pictures = {
        "first token": (tables.first, "its value", "right neighbour"),
        "last token": (tables.last, "left neighbour", "its value"),
        "middle, left value 50": (tables.middle[50], "its value", "right neighbour"),
        "middle, right value 50": (tables.middle[:, :, 50], "left neighbour", "its value"),
    }
    figure, grid = plt.subplots(1, len(pictures), figsize=(WIDTH, 3.7), layout="constrained")
    limit = max(abs(picture).max() for picture, _, _ in pictures.values())
    for axes, (title, (picture, down, across)) in zip(grid, pictures.items(), strict=True):
        image = axes.imshow(picture, cmap="RdBu", interpolation="nearest", vmin=-limit, vmax=limit)
        axes.set_title(title, fontsize=LETTERS)
        axes.set(ylabel=down, xlabel=across, xticks=[0, 50, 99], yticks=[0, 50, 99])
    bar: dict[str, Any] = {"location": "bottom", "shrink": 0.5, "aspect": 40}
    figure.colorbar(image, ax=grid, label="logit (red: rejects, blue: accepts)", **bar)
    return legible(figure, claim)
