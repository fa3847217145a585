"""Tables and weights -> figures. Whatever draws one returns it; nothing is shown or written here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle
from torch import Tensor

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


def curves(table: pd.DataFrame, names: Iterable[str], shares: Mapping[int, float]) -> Figure:
    """The assignment's figure: accuracy against length, training range shaded; grey, what a constant answer gets."""
    names = list(names)
    few = len(names) <= 10
    figure, axes = plt.subplots(figsize=(9, 4.4 if few else 5.4), layout="constrained")
    lengths, always = list(shares), np.array(list(shares.values()))
    axes.plot(lengths, always, color="grey", lw=1, ls="--", label='always answers "sorted"')
    axes.plot(lengths, 1 - always, color="grey", lw=1, ls=":", label='always answers "unsorted"')
    for name in names:
        draw_curve(axes, table[table["name"] == name], {**line_of(name), "label": ENCODINGS[name].label})
    length_axis(axes, lengths)
    axes.text(np.prod(TRAINING_LENGTHS) ** 0.5, 1.025, "trained", ha="center", fontsize=9, color="dimgrey")
    axes.set(ylabel="accuracy", ylim=(0.35, 1.08), title="Accuracy against length, the assignment's sets")
    legend: dict[str, Any] = {"loc": "outside lower center", "ncols": 5 if few else 4, "fontsize": 9 if few else 8}
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, **legend)
    return figure


def panels(tables: Mapping[str, pd.DataFrame], band: Band = ("min", "max")) -> Figure:
    """One panel for each encoding, one curve for each table {label: balanced accuracy over seeds}."""
    names = [name for name in ENCODINGS if name in set(next(iter(tables.values()))["name"])]
    columns = 5 if len(names) <= 10 else 4
    lengths = sorted({length for table in tables.values() for length in table["length"]} - {12})  # too near to 16
    size: dict[str, Any] = {"figsize": (10.4, 2.4 * -(-len(names) // columns)), "layout": "constrained"}
    figure, grid = plt.subplots(-(-len(names) // columns), columns, sharex=True, sharey=True, squeeze=False, **size)
    for axes, name in zip(grid.flat, names, strict=False):
        for (label, table), colour in zip(tables.items(), ("#8aa8d0", "#2f5597", "#c44e52"), strict=False):
            rows = table[table["name"] == name]
            draw_curve(axes, rows, {"color": colour, "marker": "o", "ms": 4, "label": label}, band)
        length_axis(axes, lengths)
        axes.set(title=ENCODINGS[name].label, ylim=(0.4, 1.04), xlabel="")
        axes.tick_params(axis="x", labelsize=8, rotation=45)
    for axes in grid.flat[len(names) :]:
        axes.axis("off")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(tables), fontsize=9)
    figure.supxlabel("length (training range shaded; hollow: constant prediction in every seed)", fontsize=10)
    figure.supylabel("balanced accuracy", fontsize=10)
    return figure


def controls(table: pd.DataFrame, group: str = "corruption") -> Figure:
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
    figure, axes = plt.subplots(figsize=(10.4, 1.4 + 0.3 * len(order)), layout="constrained")
    style = {"vmin": 0, "vmax": 1, "center": 0.5, "cmap": "RdBu", "linewidths": 0.4, "annot_kws": {"size": 8}}
    sns.heatmap(means, ax=axes, annot=text, fmt="", cbar_kws={"label": "balanced accuracy"}, **style)
    axes.set_xticks(np.arange(len(columns)) + 0.5, [str(length) for _, length in columns], rotation=0)
    axes.set_yticks(np.arange(len(order)) + 0.5, list(map(label_of, order)), rotation=0)
    for number, title in enumerate(groups):
        axes.text((number + 0.5) * len(lengths), -0.25, title, ha="center", va="bottom")
        axes.axvline(number * len(lengths), color="black", lw=1.2)
    axes.set(xlabel="length;   ¹ constant prediction in at least half of the seeds", ylabel="")
    return figure


def draw_comparisons(axes: Axes, difference: pd.DataFrame, q: pd.DataFrame, level: float) -> None:
    style = {"vmin": -0.5, "vmax": 0.5, "cmap": "RdBu", "cbar": False, "linewidths": 0.4, "linecolor": "lightgrey"}
    sns.heatmap(difference.where(q <= level, 0), ax=axes, **style)
    for (row, column), value in np.ndenumerate(difference.to_numpy()):
        if row != column:
            known = q.iloc[row, column] <= level
            colour = "lightslategrey" if not known else "white" if abs(value) > 0.3 else "black"
            text = f"{value:+.2f}".replace("0.", ".", 1) if abs(value) >= 0.005 else "0"
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7, color=colour)


def comparison_matrix(tables: Mapping[str, pd.DataFrame], level: float = 0.05) -> Figure:
    """A panel for each {title: paired comparisons}: by how much the encoding of a row is better than that of a column.
    What chance explains (q above `level`) is left white, its number grey."""
    compared = {*pd.concat([table[side] for table in tables.values() for side in ("first", "second")])}
    names = [name for name in ENCODINGS if name in compared]
    size: dict[str, Any] = {"figsize": (10.4, 1.8 + 0.28 * len(names)), "layout": "constrained"}
    figure, grid = plt.subplots(1, len(tables), sharey=True, squeeze=False, **size)
    for axes, (title, table) in zip(grid[0], tables.items(), strict=True):
        back = table.rename(columns={"first": "second", "second": "first"}).assign(difference=-table["difference"])
        wide = pd.concat([table, back]).pivot(index="first", columns="second", values=["difference", "q"])
        draw_comparisons(axes, wide["difference"].loc[names, names], wide["q"].loc[names, names], level)
        labels = [ENCODINGS[name].label for name in names]
        axes.set_xticks(np.arange(len(names)) + 0.5, labels, rotation=45, ha="right", fontsize=8)
        axes.set_yticks(np.arange(len(names)) + 0.5, labels, rotation=0, fontsize=8)
        axes.set(title=title, xlabel="", ylabel="")
    return figure


def factors(tables: Mapping[str, pd.DataFrame], lengths: Sequence[int]) -> Figure:
    """A row for each classifier of a study: balanced accuracy at some lengths, a panel for each {title: table}."""
    names = list(dict.fromkeys(next(iter(tables.values()))["name"]))
    size: dict[str, Any] = {"figsize": (10.4, 1.4 + 0.36 * len(names)), "layout": "constrained"}
    figure, sides = plt.subplots(1, len(tables), sharey=True, **size)
    shades = dict(zip(lengths, sns.color_palette("viridis_r", len(lengths)), strict=True))
    for axes, (title, table) in zip(sides, tables.items(), strict=True):
        for shift, (length, colour) in enumerate(shades.items()):
            rows = table[table["length"] == length].set_index("name").loc[names]
            y = np.arange(len(names)) + (shift - (len(lengths) - 1) / 2) * 0.18
            arms = [rows["mean"] - rows["min"], rows["max"] - rows["mean"]]
            axes.errorbar(rows["mean"], y, xerr=arms, fmt="o", ms=5, color=colour, label=str(length))
        axes.set_yticks(range(len(names)), names)
        axes.axvline(0.5, color="grey", lw=0.8, ls="--")
        axes.set(xlim=(0.35, 1.03), ylim=(len(names) - 0.5, -0.5), xlabel="balanced accuracy", title=title)
        axes.grid(alpha=0.3)
    figure.legend(*sides[1].get_legend_handles_labels(), title="length", fontsize=9, loc="outside right upper")
    return figure


def accuracy_by_shift(table: pd.DataFrame) -> Figure:
    """Balanced accuracy against the shift of the position distribution: a point for each classifier, policy and length,
    mean over seeds. `table` has the columns of `over_seeds`, and name, label, shift."""
    figure, axes = plt.subplots(figsize=(9.5, max(4.6, 0.21 * table["label"].nunique())), layout="constrained")
    for label, rows in table.groupby("label", sort=False):
        name = rows["name"].iloc[0]
        number = list(dict.fromkeys(table.loc[table["name"] == name, "label"])).index(label)
        style = {**line_of(name), "marker": "os^vDPX*<>"[number % 10], "label": label}
        axes.plot(rows["shift"], rows["mean"], lw=0.6, ms=6, alpha=0.85, **style)
    axes.axhline(0.5, color="grey", lw=0.8, ls="--")
    axes.set(xlabel="shift of the position distribution since length 16 (total variation)", ylabel="balanced accuracy")
    axes.set(xlim=(-0.03, 1.03), ylim=(0.42, 1.04))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


# --- encodings as pictures -------------------------------------------------------------------------------------------


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


def draw_seen(axes: Axes, name: str, encoding: Encoding, length: int, size: float) -> None:
    logits = seen_by_attention(encoding, length)
    low, high = np.nanmin(logits), np.nanmax(logits)
    around = 1 if high - low < 1e-5 else 0  # all alike: one colour
    axes.imshow(logits, cmap="viridis", vmin=low - around, vmax=high + around)
    axes.set_title(ENCODINGS[name].label, fontsize=size)
    axes.add_patch(Rectangle((-0.5, -0.5), encoding.trained, encoding.trained, fill=False, ec="red"))
    axes.set(xlabel="key position", ylabel="query position", facecolor="#f2f2f2")
    axes.tick_params(labelsize=8)


def encoding_pictures(classifiers: Mapping[str, Classifier], length: int = 48) -> Figure:
    """Above: what the assigned encodings add to the embeddings. Below: what attention sees of positions, for all."""
    columns, title_size = (5, 10.0) if len(classifiers) <= 10 else (6, 8.0)
    rows_below = -(-len(classifiers) // columns)
    heights = [2.9, 2.85 * rows_below] if columns == 5 else [2.9, 2.2 * rows_below]
    figure = plt.figure(figsize=(10.4, sum(heights)), layout="constrained")
    top, bottom = cast(list[SubFigure], figure.subfigures(2, 1, height_ratios=heights))
    for axes, name in zip(top.subplots(1, len(ASSIGNED)), ASSIGNED, strict=True):
        encoding, at = classifiers[name].positions, torch.arange(length)
        rows = encoding.rows(at).detach() if isinstance(encoding, Absolute) else torch.zeros(length, encoding.d_model)
        image = axes.imshow(rows.numpy(), cmap="RdBu_r", vmin=-2.5, vmax=2.5, aspect="auto")
        axes.axhline(encoding.trained - 0.5, color="black", lw=1)
        axes.set(title=f"{ENCODINGS[name].label}: added to the embedding", xlabel="dimension", ylabel="position")
    top.colorbar(image, ax=axes, label="added")
    grid = bottom.subplots(rows_below, columns, squeeze=False)
    for axes, (name, classifier) in zip(grid.flat, classifiers.items(), strict=False):
        draw_seen(axes, name, classifier.positions, length, title_size)
    for axes in grid.flat[len(classifiers) :]:
        axes.axis("off")
    bottom.suptitle("What attention sees of positions when all values are the same (mean over heads; red: trained)")
    return figure


def learned_table(before: Tensor, after: Tensor, trained: int) -> Figure:
    """The learned table before and after training, what training added, and how far each row moved."""
    figure, grid = plt.subplots(1, 4, figsize=(10.4, 4.4), layout="constrained", sharey=True)
    moved = (after - before).norm(dim=1) / before.norm(dim=1)
    pictures = {"as initialised": (before, 3), "after training": (after, 3), "difference": (after - before, 0.3)}
    for axes, (title, (table, limit)) in zip(grid, pictures.items(), strict=False):
        image = axes.imshow(table.numpy(), "RdBu_r", aspect="auto", interpolation="nearest", vmin=-limit, vmax=limit)
        axes.set(xlabel="dimension", title=title)
        figure.colorbar(image, ax=axes, location="bottom", shrink=0.8).ax.tick_params(labelsize=8)
    grid[3].plot(moved.numpy(), np.arange(len(moved)), ".", color=colour_of("learned"))
    grid[3].set(xlim=(0, None), xlabel="change of a row / its norm", title="how far each row moved")
    grid[3].grid(alpha=0.3)
    for axes in grid:
        axes.axhline(trained - 0.5, color="black", lw=1)
    grid[0].set(ylim=(len(moved) - 0.5, -0.5), ylabel=f"position (above the line: trained, 0..{trained - 1})")
    return figure


def position_terms(classifier: Classifier, size: int = 64) -> Figure:
    """P_t P_s^T beside P_t W P_s^T of each head of the first layer; the red square is the training range."""
    positions, encoding = torch.arange(size), cast(Absolute, classifier.positions)
    rows = encoding.rows(positions).detach()
    terms = {"$P_t P_s^T$": rows @ rows.T}
    terms |= {f"$P_t W P_s^T$, head {head}": term for head, term in enumerate(position_logits(classifier, positions))}
    figure, grid = plt.subplots(1, len(terms), figsize=(10.4, 2.6), layout="constrained")
    for axes, (title, term) in zip(grid, terms.items(), strict=True):
        image = axes.imshow(term.numpy(), cmap="viridis")
        axes.add_patch(Rectangle((-0.5, -0.5), encoding.trained, encoding.trained, fill=False, ec="red"))
        axes.set_title(title, fontsize=10)
        axes.set(xlabel="key position s")
        axes.tick_params(labelsize=8)
        figure.colorbar(image, ax=axes, shrink=0.7).ax.tick_params(labelsize=7)
    grid[0].set(ylabel="query position t")
    return figure


def bias_by_distance(classifier: Classifier, farthest: int = 40) -> Figure:
    """The learned bias of T5's buckets against the distance; grey, the distances that training showed."""
    encoding = cast(T5, classifier.positions)
    distance = torch.arange(-farthest, farthest + 1)
    figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
    for head, bias in enumerate(encoding.bias_table[:, encoding.bucket(distance)].detach()):
        axes.step(distance.numpy(), bias.numpy(), where="mid", label=f"head {head}")
    axes.axvspan(0.5 - encoding.trained, encoding.trained - 0.5, color="grey", alpha=0.18, lw=0)
    axes.set(xlabel="distance key - query (grey: shown in training)", ylabel="bias added to the logit")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=4)
    return figure


def by_difference(table: pd.DataFrame, title: str) -> Figure:
    """Attention to a key against its value minus the query's: a panel for each head, a line for each length."""
    heads = sorted(set(table["head"]))
    figure, grid = plt.subplots(1, len(heads), figsize=(10.4, 2.9), sharey=True, layout="constrained", squeeze=False)
    for axes, head in zip(grid[0], heads, strict=True):
        for length, rows in table[table["head"] == head].groupby("length"):
            axes.plot(rows["difference"], rows["attention"], "o-", ms=3, label=str(length))
        axes.axvline(0, color="grey", lw=0.8)
        axes.axhline(1, color="grey", lw=0.8, ls="--")
        axes.set(title=f"head {head}")
        axes.grid(alpha=0.3)
    grid[0, 0].set(ylabel="attention\n(1: like any other key)")
    figure.supxlabel("value of the key - value of the query", fontsize=10)
    grid[0, -1].legend(title="length", fontsize=8)
    figure.suptitle(title)
    return figure


# --- single sequences, cost, the certificate -------------------------------------------------------------------------


def sequences(cases: pd.DataFrame, title: str) -> Figure:
    """Sequences as rows of cells, shaded by value; red frames mark neighbours that are out of order."""
    length = max(map(len, cases["sequence"]))
    figure, axes = plt.subplots(figsize=(min(10.4, 2 + 0.3 * length), 0.7 + 0.4 * len(cases)), layout="constrained")
    values = np.full((len(cases), length), np.nan)
    for y, sequence in enumerate(cases["sequence"]):
        values[y, : len(sequence)] = sequence
        for x, value in enumerate(sequence):
            axes.text(x, y, str(value), ha="center", va="center", fontsize=8, color="white" if value > 60 else "black")
        for x in np.flatnonzero(np.diff(sequence) < 0).tolist():
            axes.add_patch(Rectangle((x - 0.46, y - 0.44), 1.92, 0.88, fill=False, ec="red", lw=1.8))
    axes.imshow(values, cmap="Greys", vmin=0, vmax=130, aspect="auto")
    truth = np.where(cases["is sorted"], "sorted", "unsorted")
    axes.set_yticks(range(len(cases)), [f"{t}, logit {x:+.1f}" for t, x in zip(truth, cases["logit"], strict=True)])
    axes.set(xticks=[])
    axes.set_title(title, fontsize=10)
    return figure


def cost(table: pd.DataFrame) -> Figure:
    """CPU time of classifying one sequence against its length, beside the growth that counting operations predicts."""
    figure, axes = plt.subplots(figsize=(8.5, 4), layout="constrained")
    for (attention, rows), colour in zip(table.groupby("attention", sort=False), COLOURS[2:], strict=False):
        axes.plot(rows["length"], rows["ms per sequence"], "o-", color=colour, label=f"{attention}, measured")
        expected = rows["operations"] / rows["operations"].iloc[0] * rows["ms per sequence"].iloc[0]
        axes.plot(rows["length"], expected, ":", color=colour, label=f"{attention}, expected growth")
    length_axis(axes, sorted(set(table["length"])))
    axes.set(yscale="log", ylabel="CPU milliseconds per sequence")
    axes.legend(fontsize=9)
    return figure


def token_logits(tables: Tables) -> Figure:
    """All that tokens can say: the first token, the last one, and slices of what those between can say."""
    pictures = {
        "first token": (tables.first, "its value", "right neighbour"),
        "last token": (tables.last, "left neighbour", "its value"),
        "middle token,\nthe left value being 50": (tables.middle[50], "its value", "right neighbour"),
        "middle token,\nthe right value being 50": (tables.middle[:, :, 50], "left neighbour", "its value"),
    }
    figure, grid = plt.subplots(1, len(pictures), figsize=(10.4, 3.1), layout="constrained")
    limit = max(abs(picture).max() for picture, _, _ in pictures.values())
    for axes, (title, (picture, down, across)) in zip(grid, pictures.items(), strict=True):
        image = axes.imshow(picture, cmap="RdBu", vmin=-limit, vmax=limit)
        axes.set_title(title, fontsize=9)
        axes.set(ylabel=down, xlabel=across)
        axes.tick_params(labelsize=8)
    figure.colorbar(image, ax=grid, shrink=0.8, label="logit (red: rejects, blue: accepts)")
    return figure
