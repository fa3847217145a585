"""Tables and weights -> figures. Every function returns its figure; none shows or writes anything."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.patches import Rectangle

from problem2.dataset import TRAINING_LENGTHS
from problem2.encodings import ENCODINGS, Absolute
from problem2.mathematics import position_logits


def colour_of(name):
    palette = "tab10" if len(ENCODINGS) <= 10 else "husl"
    return sns.color_palette(palette, len(ENCODINGS))[list(ENCODINGS).index(name)]


def length_axis(axes, lengths):
    """Lengths on a logarithmic axis, the training range shaded."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, lengths)
    axes.minorticks_off()
    axes.axvspan(*TRAINING_LENGTHS, color="grey", alpha=0.18, lw=0)
    axes.set(xlabel="length")
    axes.grid(alpha=0.3)


def draw_curve(axes, rows, style, band=("min", "max")):
    """Mean over seeds with a band, by default lowest to highest; hollow where every seed answers one class only."""
    line = axes.plot(rows["length"], rows["mean"], **style)[0]
    axes.fill_between(rows["length"], *(rows[end] for end in band), color=line.get_color(), alpha=0.18, lw=0)
    constant = rows[rows["one class"] == rows["seeds"]]
    axes.plot(constant["length"], constant["mean"], "o", color=line.get_color(), mfc="white", zorder=3)


# --- accuracy against length -----------------------------------------------------------------------------------------


def class_shares(rows):
    """{length: share of sorted items} of the sets in these rows."""
    return rows.groupby("length")["share sorted"].first().to_dict()


def curves(table, names, shares):
    """The assignment's figure: accuracy against length, training range shaded; grey, what a constant answer gets."""
    figure, axes = plt.subplots(figsize=(9, 4.4), layout="constrained")
    for sign, share in (("sorted", shares), ("unsorted", {length: 1 - s for length, s in shares.items()})):
        style = {"color": "grey", "lw": 1, "ls": "--" if sign == "sorted" else ":"}
        axes.plot(share.keys(), share.values(), label=f'always answers "{sign}"', **style)
    for name in names:
        style = {"color": colour_of(name), "marker": "o", "label": ENCODINGS[name].label}
        draw_curve(axes, table[table["name"] == name], style)
    length_axis(axes, list(shares))
    axes.axvline(TRAINING_LENGTHS[1], color="grey", lw=0.8)
    axes.text(np.prod(TRAINING_LENGTHS) ** 0.5, 1.025, "trained", ha="center", fontsize=9, color="dimgrey")
    axes.set(ylabel="accuracy", ylim=(0.35, 1.08), title="Accuracy against length, the assignment's sets")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return figure


def panels(tables, columns=5, band=("min", "max")):
    """One panel for each encoding, one curve for each table {label: balanced accuracy over seeds}."""
    names = [name for name in ENCODINGS if name in set(next(iter(tables.values()))["name"])]
    size = {"figsize": (10.4, 2.4 * -(-len(names) // columns)), "layout": "constrained"}
    figure, grid = plt.subplots(-(-len(names) // columns), columns, sharex=True, sharey=True, squeeze=False, **size)
    for axes, name in zip(grid.flat, names, strict=False):
        for (label, table), colour in zip(tables.items(), ("#8aa8d0", "#2f5597", "#c44e52"), strict=False):
            style = {"color": colour, "marker": "o", "ms": 4, "label": label}
            draw_curve(axes, table[table["name"] == name], style, band)
        length_axis(axes, [length for length in sorted(set(table["length"])) if length != 12])  # too near to 16
        axes.set(title=ENCODINGS[name].label, ylim=(0.4, 1.04), xlabel="")
        axes.tick_params(axis="x", labelsize=8, rotation=45)
    for axes in grid.flat[len(names) :]:
        axes.axis("off")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(tables), fontsize=9)
    figure.supxlabel("length (training range shaded; hollow: every seed answers one class only)", fontsize=10)
    figure.supylabel("balanced accuracy", fontsize=10)
    return figure


def controls(table):
    """What each judge really learned: balanced accuracy by kind of unsorted item and length; 0.5 is chance."""
    wide = table.pivot(index="name", columns=["kind", "length"], values="mean")
    one_class = table.assign(share=table["one class"] / table["seeds"]).pivot(
        index="name", columns=["kind", "length"], values="share"
    )
    order, kinds = [name for name in ENCODINGS if name in wide.index], list(dict.fromkeys(table["kind"]))
    lengths = sorted(set(table["length"]))
    columns = pd.MultiIndex.from_product([kinds, lengths])
    wide, one_class = wide.loc[order, columns], one_class.loc[order, columns]
    text = wide.map("{:.2f}".format) + one_class.ge(0.5).replace({True: "¹", False: ""})
    figure, axes = plt.subplots(figsize=(10.4, 4.4), layout="constrained")
    style = {"vmin": 0, "vmax": 1, "center": 0.5, "cmap": "RdBu", "linewidths": 0.4, "annot_kws": {"size": 8}}
    sns.heatmap(wide, ax=axes, annot=text, fmt="", cbar_kws={"label": "balanced accuracy"}, **style)
    axes.set_xticklabels([length for _, length in columns], rotation=0)
    axes.set_yticklabels([ENCODINGS[name].label for name in order], rotation=0)
    for number, kind in enumerate(kinds):
        axes.text((number + 0.5) * len(lengths), -0.25, kind, ha="center", va="bottom")
        axes.axvline(number * len(lengths), color="black", lw=1.2)
    axes.set(xlabel="length;   ¹ at least half of the seeds answer one class only", ylabel="")
    return figure


def differences(tables, level=0.05):
    """A panel for each {title: paired comparisons}: by how much the judge of a row is better than that of a column.
    What chance explains (q above `level`) is left white, its number grey."""
    figure, grid = plt.subplots(1, len(tables), figsize=(10.4, 4.6), sharey=True, layout="constrained")
    for axes, (title, table) in zip(np.atleast_1d(grid), tables.items(), strict=True):
        names = [name for name in ENCODINGS if name in {*table["first"], *table["second"]}]
        back = table.rename(columns={"first": "second", "second": "first"}).assign(difference=-table["difference"])
        both = pd.concat([table, back])
        wide = {value: both.pivot(index="first", columns="second", values=value) for value in ("difference", "q")}
        better, q = (table.loc[names, names] for table in wide.values())
        style = {"vmin": -0.5, "vmax": 0.5, "cmap": "RdBu", "cbar": False, "linewidths": 0.4, "linecolor": "lightgrey"}
        sns.heatmap(better.where(q <= level, 0), ax=axes, **style)
        for (row, column), value in np.ndenumerate(better):
            if row != column:
                known = q.iloc[row, column] <= level
                colour = "lightslategrey" if not known else "white" if abs(value) > 0.3 else "black"
                text = f"{value:+.2f}".replace("0.", ".", 1) if abs(value) >= 0.005 else "0"
                axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7, color=colour)
        labels = [ENCODINGS[name].label for name in names]
        axes.set_xticklabels(labels, rotation=45, ha="right", fontsize=8)
        axes.set_yticklabels(labels, rotation=0, fontsize=8)
        axes.set(title=title, xlabel="", ylabel="")
    return figure


def factors(easy, hard, lengths):
    """A row for each judge of a study: balanced accuracy at some lengths, assignment's sets left, hard test right."""
    names = list(dict.fromkeys(easy["name"]))
    figure, sides = plt.subplots(1, 2, figsize=(10.4, 1.4 + 0.36 * len(names)), sharey=True, layout="constrained")
    shades = dict(zip(lengths, sns.color_palette("viridis_r", len(lengths)), strict=True))
    for axes, table, title in zip(sides, (easy, hard), ("assignment's sets", "hard test"), strict=True):
        for shift, (length, colour) in enumerate(shades.items()):
            rows = table[table["length"] == length].set_index("name").loc[names]
            y = np.arange(len(names)) + (shift - (len(lengths) - 1) / 2) * 0.18
            arms = [rows["mean"] - rows["min"], rows["max"] - rows["mean"]]
            axes.errorbar(rows["mean"], y, xerr=arms, fmt="o", ms=5, color=colour, label=length)
        axes.set_yticks(range(len(names)), names)
        axes.axvline(0.5, color="grey", lw=0.8, ls="--")
        axes.set(xlim=(0.35, 1.03), ylim=(len(names) - 0.5, -0.5), xlabel="balanced accuracy", title=title)
        axes.grid(alpha=0.3)
    figure.legend(*sides[1].get_legend_handles_labels(), title="length", fontsize=9, loc="outside right upper")
    return figure


def mix(table):
    """Balanced accuracy against how far the mix of what attention is told has moved: a point for each judge, way of
    asking and length, mean over seeds. `table` has the columns of `over_seeds`, and name, label, other mix.
    """
    figure, axes = plt.subplots(figsize=(9.5, 4.6), layout="constrained")
    markers = "os^vDPX*<>"
    for label, rows in table.groupby("label", sort=False):
        name = rows["name"].iloc[0]
        number = list(dict.fromkeys(table.loc[table["name"] == name, "label"])).index(label)
        style = {"color": colour_of(name), "marker": markers[number % len(markers)], "label": label}
        axes.plot(rows["other mix"], rows["mean"], ls="-", lw=0.6, ms=6, alpha=0.85, **style)
    axes.axhline(0.5, color="grey", lw=0.8, ls="--")
    axes.set(xlabel="how far the mix of what attention is told has moved since length 16", ylabel="balanced accuracy")
    axes.set(xlim=(-0.03, 1.03), ylim=(0.42, 1.04))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


# --- encodings as pictures -------------------------------------------------------------------------------------------


@torch.inference_mode()
def seen_by_attention(encoding, length):
    """(length, length): what positions alone do to the logits, mean over heads, while all tokens hold the same value;
    that value is zero where positions have rows of their own.
    """
    torch.manual_seed(0)
    x = encoding.embed(torch.zeros(1, length, encoding.width))
    x = x if isinstance(encoding, Absolute) else x + torch.randn(encoding.width)
    q = k = x.unflatten(-1, (encoding.heads, -1)).transpose(1, 2)
    q, k = encoding.rotate(q, k)
    logits, bias = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, encoding.scores(q, k)
    logits = (logits if bias is None else logits + bias)[0].mean(0)
    future = torch.ones(length, length, dtype=torch.bool).triu(1) & encoding.causal
    return logits.masked_fill(future, torch.nan).numpy()


def encoding_pictures(judges, length=48):
    """Above: what the assigned encodings add to the embeddings. Below: what attention sees of positions, for all."""
    columns = 5
    figure = plt.figure(figsize=(10.4, 8.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1, 2])
    zeros = np.zeros((length, next(iter(judges.values())).shape["width"]))
    tables = {name: judges[name].positions for name in ("sinusoidal", "learned", "none")}
    for axes, (name, encoding) in zip(top.subplots(1, 3), tables.items(), strict=True):
        rows = encoding.rows(torch.arange(length)).detach() if hasattr(encoding, "rows") else zeros
        image = axes.imshow(np.asarray(rows), cmap="RdBu_r", vmin=-2.5, vmax=2.5, aspect="auto")
        axes.axhline(encoding.trained - 0.5, color="black", lw=1)
        axes.set(title=f"{ENCODINGS[name].label}: added to the embedding", xlabel="dimension", ylabel="position")
    top.colorbar(image, ax=axes, label="added")
    grid = bottom.subplots(-(-len(judges) // columns), columns)
    for axes, (name, judge) in zip(grid.flat, judges.items(), strict=False):
        logits = seen_by_attention(judge.positions, length)
        constant = np.nanmax(logits) - np.nanmin(logits) < 1e-5
        limits = (logits[0, 0] - 1, logits[0, 0] + 1) if constant else (np.nanmin(logits), np.nanmax(logits))
        axes.imshow(logits, cmap="viridis", vmin=limits[0], vmax=limits[1])
        axes.set_facecolor("#f2f2f2")
        axes.set_title(ENCODINGS[name].label, fontsize=10)
        axes.add_patch(Rectangle((-0.5, -0.5), judge.positions.trained, judge.positions.trained, fill=False, ec="red"))
        axes.set(xlabel="key position", ylabel="query position")
        axes.tick_params(labelsize=8)
    for axes in grid.flat[len(judges) :]:
        axes.axis("off")
    bottom.suptitle("What attention sees of positions when all values are the same (mean over heads; red: trained)")
    return figure


def learned_table(before, after, trained):
    """The learned table before and after training, what training added, and how far each row moved."""
    figure, panels_ = plt.subplots(1, 4, figsize=(10.4, 4.4), layout="constrained", sharey=True)
    moved = (after - before).norm(dim=1) / before.norm(dim=1)
    pictures = {"as initialised": (before, 3), "after training": (after, 3), "difference": (after - before, 0.3)}
    for axes, (title, (table, limit)) in zip(panels_, pictures.items(), strict=False):
        style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "aspect": "auto", "interpolation": "nearest"}
        image = axes.imshow(table.numpy(), **style)
        axes.set(xlabel="dimension", title=title)
        figure.colorbar(image, ax=axes, location="bottom", shrink=0.8).ax.tick_params(labelsize=8)
    panels_[3].plot(moved.numpy(), np.arange(len(moved)), ".", color=colour_of("learned"))
    panels_[3].set(xlim=(0, None), xlabel="change of a row / its norm", title="how far each row moved")
    panels_[3].grid(alpha=0.3)
    for axes in panels_:
        axes.axhline(trained - 0.5, color="black", lw=1)
    panels_[0].set(ylim=(len(moved) - 0.5, -0.5), ylabel=f"position (above the line: trained, 0..{trained - 1})")
    return figure


def position_terms(judge, size=64):
    """P_t P_s^T beside P_t W P_s^T of each head of the first layer; the red square is the training range."""
    positions = torch.arange(size)
    rows = judge.positions.rows(positions)
    terms = {"$P_t P_s^T$": rows @ rows.T}
    terms |= {f"$P_t W P_s^T$, head {head}": term for head, term in enumerate(position_logits(judge, positions))}
    figure, panels_ = plt.subplots(1, len(terms), figsize=(10.4, 2.6), layout="constrained")
    for axes, (title, term) in zip(panels_, terms.items(), strict=True):
        image = axes.imshow(term.numpy(), cmap="viridis")
        axes.add_patch(Rectangle((-0.5, -0.5), judge.positions.trained, judge.positions.trained, fill=False, ec="red"))
        axes.set_title(title, fontsize=10)
        axes.set(xlabel="key position s")
        axes.tick_params(labelsize=8)
        figure.colorbar(image, ax=axes, shrink=0.7).ax.tick_params(labelsize=7)
    panels_[0].set(ylabel="query position t")
    return figure


def bias_by_distance(judge, farthest=40):
    """The learned bias of T5's buckets against the distance; grey, the distances that training showed."""
    encoding = judge.positions
    distance = torch.arange(-farthest, farthest + 1)
    figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
    for head, bias in enumerate(encoding.bias[:, encoding.bucket(distance)].detach()):
        axes.step(distance.numpy(), bias.numpy(), where="mid", label=f"head {head}")
    axes.axvspan(0.5 - encoding.trained, encoding.trained - 0.5, color="grey", alpha=0.18, lw=0)
    axes.set(xlabel="distance key - query (grey: shown in training)", ylabel="bias added to the logit")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=4)
    return figure


def by_difference(table, title):
    """Attention to a key against its value minus the query's: a panel for each head, a line for each length."""
    heads = sorted(set(table["head"]))
    figure, panels_ = plt.subplots(1, len(heads), figsize=(10.4, 2.9), sharey=True, layout="constrained")
    for axes, head in zip(panels_, heads, strict=True):
        for length, rows in table[table["head"] == head].groupby("length"):
            axes.plot(rows["difference"], rows["attention"], "o-", ms=3, label=length)
        axes.axvline(0, color="grey", lw=0.8)
        axes.axhline(1, color="grey", lw=0.8, ls="--")
        axes.set(title=f"head {head}")
        axes.grid(alpha=0.3)
    panels_[0].set(ylabel="attention\n(1: like any other key)")
    figure.supxlabel("value of the key - value of the query", fontsize=10)
    panels_[-1].legend(title="length", fontsize=8)
    figure.suptitle(title)
    return figure


# --- single sequences, cost, the certificate -------------------------------------------------------------------------


def sequences(cases, title):
    """Sequences as rows of cells, shaded by value; red frames mark neighbours that are out of order."""
    length = max(map(len, cases["sequence"]))
    figure, axes = plt.subplots(figsize=(min(10.4, 2 + 0.3 * length), 0.7 + 0.4 * len(cases)), layout="constrained")
    values = np.full((len(cases), length), np.nan)
    for y, sequence in enumerate(cases["sequence"]):
        values[y, : len(sequence)] = sequence
        for x, value in enumerate(sequence):
            axes.text(x, y, value, ha="center", va="center", fontsize=8, color="white" if value > 60 else "black")
        for x in np.flatnonzero(np.diff(sequence) < 0):
            axes.add_patch(Rectangle((x - 0.46, y - 0.44), 1.92, 0.88, fill=False, ec="red", lw=1.8))
    axes.imshow(values, cmap="Greys", vmin=0, vmax=130, aspect="auto")
    truth = np.where(cases["is sorted"], "sorted", "unsorted")
    axes.set_yticks(range(len(cases)), [f"{t}, logit {x:+.1f}" for t, x in zip(truth, cases["logit"], strict=True)])
    axes.set(xticks=[])
    axes.set_title(title, fontsize=10)
    return figure


def cost(table):
    """CPU time of judging one sequence against its length, beside the growth that counting operations predicts."""
    figure, axes = plt.subplots(figsize=(8.5, 4), layout="constrained")
    groups = table.groupby("attention", sort=False)
    for (attention, rows), colour in zip(groups, sns.color_palette("tab10"), strict=False):
        axes.plot(rows["length"], rows["ms per sequence"], "o-", color=colour, label=f"{attention}, measured")
        expected = rows["operations"] / rows["operations"].iloc[0] * rows["ms per sequence"].iloc[0]
        axes.plot(rows["length"], expected, ":", color=colour, label=f"{attention}, expected growth")
    length_axis(axes, sorted(set(table["length"])))
    axes.set(yscale="log", ylabel="CPU milliseconds per sequence")
    axes.legend(fontsize=9)
    return figure


def verdicts(tables):
    """All that tokens can say: the first token, the last one, and slices of what those between can say."""
    pictures = {
        "first token": (tables.first, "its value", "right neighbour"),
        "last token": (tables.last, "left neighbour", "its value"),
        "middle token,\nthe left value being 50": (tables.middle[50], "its value", "right neighbour"),
        "middle token,\nthe right value being 50": (tables.middle[:, :, 50], "left neighbour", "its value"),
    }
    figure, panels_ = plt.subplots(1, len(pictures), figsize=(10.4, 3.1), layout="constrained")
    limit = max(abs(picture).max() for picture, _, _ in pictures.values())
    for axes, (title, (picture, down, across)) in zip(panels_, pictures.items(), strict=True):
        image = axes.imshow(picture, cmap="RdBu", vmin=-limit, vmax=limit)
        axes.set_title(title, fontsize=9)
        axes.set(ylabel=down, xlabel=across)
        axes.tick_params(labelsize=8)
    figure.colorbar(image, ax=panels_, shrink=0.8, label="verdict (blue: silent)")
    return figure
