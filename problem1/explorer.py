"""Ask the adder yourself: type a sum, switch heads off, see its answer and what a head attends to.

The picture is a function of what was asked (`answer`, `picture`); the widgets around it are the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import ipywidgets as widgets
import numpy as np
import torch
from torch import Tensor

from problem1.dataset import column_names, decode, encode_pairs, parse, shift_right
from problem1.model import KIND_NAMES, Adder, Head
from problem1.plots import map_labels
from problem1.shared.canvas import BAD, FAINT, GOOD, PALE, Canvas, ink_on
from problem1.shared.explorer import Explorer
from problem1.shared.words import listing

# --- what the adder says ---------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """One sum, as an adder without some of its heads has it."""

    source: Tensor  # tokens of the sum
    written: Tensor  # digits that the adder writes, reading its own digits
    target: Tensor  # digits that are right
    probabilities: np.ndarray  # answer digits, 10
    weights: list[Tensor]  # of each site: H Q K
    removed: list[str]  # names of the heads that are off

    def __str__(self) -> str:
        how = "right" if self.written.equal(self.target) else f"wrong, {decode(self.target)} is right"
        off = self.removed if len(self.removed) <= 3 else [f"{len(self.removed)} heads"]
        without = f", without {listing(off)}" if off else ""
        return f"{decode(self.source)} = {decode(self.written)} ({how}){without}"


@torch.inference_mode()
def answer(adder: Adder, text: str, removed: Sequence[Head] = ()) -> Answer:
    """What the adder makes of '663+497' without these heads, given by name or number."""
    digits = adder.shape["digits"]
    source, target = encode_pairs(parse(text, digits), digits)
    gates, names = adder.gates(*removed), [adder.head_names[adder.head_number(head)] for head in removed]
    written = adder.generate(source, gates)
    record = adder.record(source, shift_right(written), gates)
    probabilities = record.logits[0].softmax(-1).numpy()
    return Answer(source[0], written[0], target[0], probabilities, [w[0] for w in record.attention], names)


def picture(adder: Adder, answer: Answer, head: Head) -> Canvas:
    """The answer digit by digit with the probability of each digit, and the map of a head."""
    canvas = Canvas(900, 352, str(answer))
    canvas.text(12, 14, answer, 14, GOOD if answer.written.equal(answer.target) else BAD, "lm", bold=True)
    draw_digits(canvas, answer, left=30, top=84)
    draw_head(canvas, adder, answer, adder.head_names[adder.head_number(head)], left=510, top=84)
    return canvas


def draw_digits(canvas: Canvas, answer: Answer, left: int, top: int, height: int = 25) -> None:
    names = column_names(len(answer.target) - 1)
    width = 352 // len(names)
    canvas.heat(left, top, width * len(names), height * 10, answer.probabilities.T, "Blues")
    for digit in range(10):
        canvas.text(left - 12, top + height * (digit + 0.5), digit)
    for column, (name, shares) in enumerate(zip(names, answer.probabilities, strict=True)):
        x, wrote = left + width * (column + 0.5), answer.written[column]
        canvas.box(left + width * column, top, width, height * 10, outline=PALE, line=0.5)
        canvas.text(x, top - 32, int(wrote), 24, GOOD if wrote == answer.target[column] else BAD, bold=True)
        canvas.text(x, top - 9, name, 11, FAINT)
        for digit in np.flatnonzero(shares >= 0.005).tolist():
            canvas.text(x, top + height * (digit + 0.5), f"{shares[digit]:.2f}", 12, ink_on(shares[digit]))


def draw_head(canvas: Canvas, adder: Adder, answer: Answer, head: str, left: int, top: int) -> None:
    site, number = adder.site_of(head)
    kind, weights = adder.blocks[site].kind, answer.weights[site][number].numpy()
    queries, keys = map_labels(kind, answer.source, answer.written)
    hidden = np.triu(np.ones_like(weights, dtype=bool), 1) if kind == "self" else np.zeros_like(weights, dtype=bool)
    width, height = min(50, 350 // len(keys)), min(50, 250 // len(queries))
    off = " (off: its output is removed)" if head in answer.removed else ""
    canvas.text(left, top - 32, head + off, 13, anchor="lm")
    canvas.heat(left, top, width * len(keys), height * len(queries), weights, hidden=hidden)
    for q, query in enumerate(queries):
        canvas.text(left - 18, top + height * (q + 0.5), query)
        for k in np.flatnonzero(~hidden[q] & (weights[q] >= 0.05)).tolist():
            place = left + width * (k + 0.5), top + height * (q + 0.5)
            canvas.text(*place, f"{weights[q, k]:.2f}", 12, ink_on(weights[q, k]))
    for k, key in enumerate(keys):
        canvas.text(left + width * (k + 0.5), top - 9, key)
    query = "token" if kind == "encoder" else "digit being written"
    canvas.text(left, top + height * len(queries) + 12, f"rows: {query}; columns: token read", 11, FAINT, "lm")


# --- widgets ---------------------------------------------------------------------------------------------------------


class AdderExplorer(Explorer):
    def __init__(self, adder: Adder, text: str = "663+497", head: str | None = None):
        super().__init__()
        self.adder = adder
        self.text = widgets.Text(text, description="sum", layout={"width": "220px"})
        self.head = widgets.Dropdown(
            options=adder.head_names,
            value=head or adder.head_names[0],
            description="attention of",
            layout={"width": "290px"},
        )
        self.boxes = {name: switch(name) for name in adder.head_names}
        self.on, self.off = widgets.Button(description="all on"), widgets.Button(description="all off")
        self.on.on_click(lambda button: self.set(self.boxes.values(), True))
        self.off.on_click(lambda button: self.set(self.boxes.values(), False))
        self.follow(self.text, self.head, *self.boxes.values())
        top = widgets.HBox([self.text, self.head, self.on, self.off])
        self.widget = widgets.VBox([top, self.trouble, self.switches(), self.canvas])
        self.refresh()

    def switches(self) -> widgets.GridBox:
        """A row for each layer, a column for each kind of attention."""
        n_heads, groups = self.adder.shape["n_heads"], {}
        for site, block in enumerate(self.adder.blocks):
            boxes = list(self.boxes.values())[site * n_heads :][:n_heads]
            label = widgets.HTML(f"<b>{KIND_NAMES[block.kind]} L{block.layer}</b>")
            groups[block.layer, list(KIND_NAMES).index(block.kind)] = widgets.VBox([label, widgets.HBox(boxes)])
        return widgets.GridBox(
            [groups[place] for place in sorted(groups)], layout={"grid_template_columns": "repeat(3, 285px)"}
        )

    def ask(self) -> Answer:
        return answer(self.adder, self.text.value, [name for name, box in self.boxes.items() if not box.value])

    def picture(self, shown: Answer) -> Canvas:
        return picture(self.adder, shown, self.head.value)


def switch(name: str) -> widgets.Checkbox:
    return widgets.Checkbox(True, description=name.split()[-1], indent=False, layout={"width": "60px"})
