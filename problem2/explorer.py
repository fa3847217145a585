"""Ask the classifiers yourself: edit a sequence, pick an encoding and a length, see the logit and where heads attend.

The picture is a function of what was asked (`answer`, `picture`); the widgets around it are the rest.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import ipywidgets as widgets
import numpy as np
import torch
from torch import Tensor

from problem1.shared.canvas import BAD, FAINT, GOOD, INK, PALE, Canvas
from problem1.shared.errors import UserError
from problem1.shared.explorer import Explorer
from problem1.shared.words import number
from problem2.dataset import CORRUPTIONS, VOCABULARY, descents, draw_sequence, encode, is_sorted
from problem2.encodings import ENCODINGS, Encoding, relative_positions
from problem2.evaluation import policies_for, with_policy
from problem2.model import Classifier

LENGTHS = (8, 12, 16, 24, 32, 48, 64, 128, 256)
SORTED, MEAN = "sorted", "mean of all heads"

# --- what a classifier says ------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """One sequence, as a classifier has it."""

    tokens: Tensor  # length
    is_sorted: bool
    logit: float  # positive for sorted
    rejects: Tensor  # length, booleans: tokens whose own logit says unsorted (pooling "min"; else none)
    weights: Tensor  # layers H Q K
    visible: Tensor  # Q K, booleans: may this query attend to this key?

    @property
    def says_sorted(self) -> bool:
        return self.logit > 0

    @property
    def is_right(self) -> bool:
        return self.says_sorted == self.is_sorted

    def __str__(self) -> str:
        words = {True: "sorted", False: "unsorted"}
        how = "right" if self.is_right else f"wrong, it is {words[self.is_sorted]}"
        return f"{words[self.says_sorted]} ({how}), logit {number(self.logit, '+.2f')}, length {len(self.tokens)}"


@torch.inference_mode()
def answer(classifier: Classifier, sequence: str | Iterable[int], policy: str | None = None) -> Answer:
    """What the classifier says of '3 5 5 9'; `policy` is one of `policies_for`, by default its own."""
    tokens, positions = encode(sequence, classifier.shape["vocabulary"]), classifier.positions
    length = tokens.shape[1]
    if length > LENGTHS[-1]:
        raise UserError(f"a sequence of length {length} is too long to be drawn; the longest is {LENGTHS[-1]}.")
    if classifier.pooling == "cls":
        raise UserError("a classifier with a CLS token cannot be drawn: its maps have a row more than the sequence.")
    with with_policy(classifier, policy or policies_for(classifier)[0]):
        prediction = classifier(tokens, return_attention=True)
    rejects = torch.zeros(length, dtype=torch.bool)
    if prediction.token_logits is not None:
        rejects = prediction.token_logits[0] <= 0
    attention = cast(list[Tensor], prediction.attention)
    weights = torch.cat([over_all_keys(layer, positions.window) for layer in attention])
    visible = visible_keys(length, positions)
    return Answer(tokens[0], bool(is_sorted(tokens)[0]), prediction.logits.item(), rejects, weights, visible)


def visible_keys(length: int, positions: Encoding) -> Tensor:
    """(Q, K) booleans: inside the window, if there is one, and not in the future of a causal mask."""
    distance = relative_positions(torch.arange(length))
    near = distance.abs() <= (length if positions.window is None else positions.window)
    return near & (distance <= 0) if positions.causal else near


def over_all_keys(weights: Tensor, window: int | None) -> Tensor:
    """(..., Q, 2w + 1) weights of a window -> (..., Q, K), zero where the window does not reach."""
    if window is None:
        return weights
    length = weights.shape[-2]
    key = torch.arange(length)[:, None] + torch.arange(2 * window + 1)  # moved by w, so that none is below 0
    everywhere = weights.new_zeros(*weights.shape[:-1], length + 2 * window)
    return everywhere.scatter(-1, key.expand_as(weights), weights)[..., window : window + length]


# --- its picture -----------------------------------------------------------------------------------------------------


def head_names(classifier: Classifier) -> list[str]:
    n_layers, n_heads = classifier.shape["n_layers"], classifier.shape["n_heads"]
    return [MEAN, *(f"L{layer} H{head}" for layer in range(n_layers) for head in range(n_heads))]


def picture(classifier: Classifier, name: str, answer: Answer, head: str = MEAN) -> Canvas:
    """The sequence with its descents and the attention that each token receives, and a map of who attends to whom."""
    names, heads = head_names(classifier), answer.weights.flatten(0, 1)  # layers * H, Q, K
    if head not in names:
        raise UserError(f"{head!r} is no head of this classifier; there are {', '.join(names)}.")
    weights = (heads.mean(0) if head == MEAN else heads[names.index(head) - 1]).numpy()
    canvas = Canvas(900, 440, f"{name}: {answer}")
    canvas.text(12, 14, canvas.says, 14, GOOD if answer.is_right else BAD, "lm", bold=True)
    draw_values(canvas, answer, left=40, top=62, width=420, height=240)
    draw_received(canvas, weights.mean(0), left=40, top=338, width=420, height=80)
    draw_attention(canvas, answer, weights, head, left=530, top=73, size=345)
    return canvas


def draw_values(canvas: Canvas, answer: Answer, left: int, top: int, width: int, height: int) -> None:
    """A dot for each value, red if its token rejects; a red line for each descent."""
    values, length = answer.tokens.tolist(), len(answer.tokens)
    step, radius = width / length, max(1.5, min(4, 90 / length))

    def high(value: int) -> float:
        return top + height * (1 - value / (VOCABULARY - 1))

    dots = [(left + step * (i + 0.5), high(value)) for i, value in enumerate(values)]
    canvas.box(left - 1, top - 8, width + 2, height + 16, outline=PALE, line=0.5)
    for value in (0, 50, 99):
        canvas.text(left - 8, high(value), value, 10, FAINT, "rm")
    for i, falls in enumerate(descents(answer.tokens).tolist()):
        canvas.line(*dots[i], *dots[i + 1], BAD if falls else PALE, 2 if falls else 1)
    for dot, rejects in zip(dots, answer.rejects.tolist(), strict=True):
        canvas.dot(*dot, radius, BAD if rejects else INK)
    red = "red lines: descents" + ("; red dots: tokens that reject" if answer.rejects.any() else "")
    canvas.text(left, top - 18, f"values in order; {red}", 11, FAINT, "lm")


def draw_received(canvas: Canvas, received: np.ndarray, left: int, top: int, width: int, height: int) -> None:
    step, highest = width / len(received), received.max()
    words = f"attention that each token receives (highest bar: {highest:.2f})"
    canvas.text(left, top - 12, words, 11, FAINT, "lm")
    for i, share in enumerate((received / highest).tolist()):
        gap = min(2, step / 4)
        canvas.box(left + step * i + gap / 2, top + height * (1 - share), step - gap, height * share, "#4c72b0")
    canvas.line(left, top + height, left + width, top + height, PALE)


def draw_attention(
    canvas: Canvas, answer: Answer, weights: np.ndarray, head: str, left: int, top: int, size: int
) -> None:
    values, highest = answer.tokens.tolist(), weights.max()
    step = size / len(values)
    canvas.text(left, top - 34, head, 13, anchor="lm")
    canvas.heat(left, top, size, size, weights / highest, hidden=~answer.visible.numpy())
    every = next(every for every in (1, 2, 4, 8, 16) if step * every >= 15)
    for i in range(0, len(values), every):
        canvas.text(left + step * (i + 0.5), top - 9, values[i], 9)
        canvas.text(left - 6, top + step * (i + 0.5), values[i], 9, anchor="rm")
    words = f"rows: query token; columns: token read; white 0, black {highest:.2f}"
    canvas.text(left, top + size + 12, words, 11, FAINT, "lm")


# --- widgets ---------------------------------------------------------------------------------------------------------


class ClassifierExplorer(Explorer):
    """`classifiers` is {name: Classifier}; the name of an encoding is shown by its label."""

    def __init__(
        self,
        classifiers: Mapping[str, Classifier],
        name: str | None = None,
        length: int = 16,
        corruption: str = SORTED,
    ) -> None:
        super().__init__()
        self.classifiers, self.labels, self.drawn = classifiers, {n: label_of(n) for n in classifiers}, 0
        name = name or next(iter(classifiers))
        policies, heads = policies_for(classifiers[name]), head_names(classifiers[name])
        labels = [(label, n) for n, label in self.labels.items()]
        wide, narrow = {"width": "330px"}, {"width": "250px"}
        self.name = widgets.Dropdown(options=labels, value=name, description="classifier", layout=wide)
        self.policy = widgets.Dropdown(options=policies, description="policy", layout=narrow)
        self.head = widgets.Dropdown(options=heads, description="attention of", layout=narrow)
        self.length = widgets.SelectionSlider(options=LENGTHS, value=length, description="length", layout=wide)
        draws = [SORTED, *CORRUPTIONS]
        self.corruption = widgets.Dropdown(options=draws, value=corruption, description="draw", layout=narrow)
        self.another = widgets.Button(description="draw another")
        self.text = widgets.Textarea(description="sequence", rows=2, layout={"width": "855px"})
        self.draw()

        self.follow(self.text, self.policy, self.head)
        self.name.observe(self.pick, "value")
        self.length.observe(self.draw, "value")
        self.corruption.observe(self.draw, "value")
        self.another.on_click(self.draw)
        rows = [self.name, self.policy, self.head], [self.length, self.corruption, self.another], [self.text]
        self.widget = widgets.VBox([*map(widgets.HBox, rows), self.trouble, self.canvas])
        self.refresh()

    def pick(self, change: Any) -> None:
        """Another classifier can be tested under other policies, and has other heads."""
        self.paused = True
        choices = (self.policy, policies_for(self.classifier)), (self.head, head_names(self.classifier))
        for control, options in choices:
            before = control.value
            control.options = options
            control.value = before if before in options else options[0]
        self.paused = False
        self.refresh()

    def draw(self, change: Any = None) -> None:
        """Write another sequence of this length and corruption into the text field."""
        self.drawn += 1
        corruption = self.corruption.value
        sequence = draw_sequence(random.Random(self.drawn), self.length.value, corruption == SORTED, corruption)
        self.text.value = " ".join(map(str, sequence))

    @property
    def classifier(self) -> Classifier:
        return self.classifiers[self.name.value]

    def ask(self) -> Answer:
        return answer(self.classifier, self.text.value, self.policy.value)

    def picture(self, shown: Answer) -> Canvas:
        name, policy = self.labels[self.name.value], self.policy.value
        if policy != policies_for(self.classifier)[0]:
            name = f"{name}, {policy}"
        return picture(self.classifier, name, shown, self.head.value)


def label_of(name: str) -> str:
    return ENCODINGS[name].label if name in ENCODINGS else name
