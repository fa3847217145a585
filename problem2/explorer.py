"""Ask the judges yourself: edit a sequence, pick an encoding and a length, see the verdict and where attention looks.

The picture is a function of what was asked (`opinion`, `picture`); the widgets around it are the rest.
"""

import random
from dataclasses import dataclass

import ipywidgets as widgets
import torch

from problem1.canvas import BAD, FAINT, GOOD, INK, PALE, Canvas
from problem1.explorer import Explorer
from problem1.words import number
from problem2.dataset import KINDS, VOCABULARY, descents, draw_sequence, encode, is_sorted
from problem2.encodings import ENCODINGS, differences
from problem2.evaluation import asked, ways

LENGTHS = (8, 12, 16, 24, 32, 48, 64, 128, 256)
SORTED, MEAN = "sorted", "mean of all heads"

# --- what a judge says -----------------------------------------------------------------------------------------------


@dataclass
class Opinion:
    """What a judge says of one sequence."""

    tokens: torch.Tensor  # length
    is_sorted: bool
    logit: float  # positive for sorted
    objects: torch.Tensor  # length, booleans: which tokens say unsorted (pooling "worst"; else none)
    weights: torch.Tensor  # layers H Q K
    visible: torch.Tensor  # Q K, booleans: may this query look at this key?

    @property
    def says_sorted(self):
        return self.logit > 0

    @property
    def is_right(self):
        return self.says_sorted == self.is_sorted

    def __str__(self):
        words = {True: "sorted", False: "unsorted"}
        verdict = "right" if self.is_right else f"wrong, it is {words[self.is_sorted]}"
        return f"{words[self.says_sorted]} ({verdict}), logit {number(self.logit, '+.2f')}, length {len(self.tokens)}"


@torch.inference_mode()
def opinion(judge, sequence, way=None):
    """What the judge says of '3 5 5 9', if need be asked in another way about what is longer than its training."""
    tokens = encode(sequence, judge.shape["vocabulary"])
    if tokens.shape[1] > LENGTHS[-1]:
        raise ValueError(
            f"a sequence of length {tokens.shape[1]} is too long to be drawn; the longest is {LENGTHS[-1]}."
        )
    with asked(judge, way or ways(judge)[0]):
        verdict = judge(tokens, look=True)
    objects = torch.zeros_like(tokens[0], dtype=torch.bool) if verdict.per_token is None else verdict.per_token[0] <= 0
    weights = torch.cat([over_all_keys(weights, judge.positions.window) for weights in verdict.weights])
    visible = visible_keys(tokens.shape[1], judge.positions)
    return Opinion(tokens[0], bool(is_sorted(tokens)[0]), verdict.logits.item(), objects, weights, visible)


def visible_keys(length, positions):
    distance = differences(torch.arange(length))
    near = (
        torch.ones_like(distance, dtype=torch.bool) if positions.window is None else distance.abs() <= positions.window
    )
    return near & (distance <= 0) if positions.causal else near


def over_all_keys(weights, window):
    """(..., Q, 2w + 1) weights of a window -> (..., Q, K), zero where the window does not reach."""
    if window is None:
        return weights
    length = weights.shape[-2]
    key = torch.arange(length)[:, None] + torch.arange(2 * window + 1)  # moved by w, so that none is below 0
    everywhere = weights.new_zeros(*weights.shape[:-1], length + 2 * window)
    return everywhere.scatter(-1, key.expand_as(weights), weights)[..., window : window + length]


# --- its picture -----------------------------------------------------------------------------------------------------


def head_names(judge):
    return [MEAN, *(f"L{layer} H{head}" for layer in range(len(judge.blocks)) for head in range(judge.shape["heads"]))]


def picture(judge, name, opinion, head=MEAN):
    """The sequence with its descents and the attention that each token receives, and a map of who looks where."""
    index, heads = head_names(judge).index(head) - 1, opinion.weights.flatten(0, 1)  # layers * H, Q, K
    weights = (heads.mean(0) if head == MEAN else heads[index]).numpy()
    canvas = Canvas(900, 440, f"{name}: {opinion}")
    canvas.text(12, 14, canvas.says, 14, GOOD if opinion.is_right else BAD, "lm", bold=True)
    draw_values(canvas, opinion, left=40, top=62, width=420, height=240)
    draw_received(canvas, weights.mean(0), left=40, top=338, width=420, height=80)
    draw_attention(canvas, opinion, weights, head, left=530, top=73, size=345)
    return canvas


def draw_values(canvas, opinion, left, top, width, height):
    """A dot for each value, red if its token objects; a red line for each descent."""
    values, length = opinion.tokens.tolist(), len(opinion.tokens)
    step, radius = width / length, max(1.5, min(4, 90 / length))
    places = [
        (left + step * (i + 0.5), top + height * (1 - value / (VOCABULARY - 1))) for i, value in enumerate(values)
    ]
    canvas.box(left - 1, top - 8, width + 2, height + 16, outline=PALE, line=0.5)
    for value in (0, 50, 99):
        canvas.text(left - 8, top + height * (1 - value / (VOCABULARY - 1)), value, 10, FAINT, "rm")
    for i, falls in enumerate(descents(opinion.tokens).tolist()):
        canvas.line(*places[i], *places[i + 1], BAD if falls else PALE, 2 if falls else 1)
    for place, objects in zip(places, opinion.objects.tolist(), strict=True):
        canvas.dot(*place, radius, BAD if objects else INK)
    red = "red lines: descents" + ("; red dots: tokens that object" if opinion.objects.any() else "")
    canvas.text(left, top - 18, f"values in order; {red}", 11, FAINT, "lm")


def draw_received(canvas, received, left, top, width, height):
    step = width / len(received)
    canvas.text(
        left, top - 12, f"attention that each token receives (highest bar: {received.max():.2f})", 11, FAINT, "lm"
    )
    for i, share in enumerate(received / received.max()):
        gap = min(2, step / 4)
        canvas.box(left + step * i + gap / 2, top + height * (1 - share), step - gap, height * share, "#4c72b0")
    canvas.line(left, top + height, left + width, top + height, PALE)


def draw_attention(canvas, opinion, weights, head, left, top, size):
    values, highest = opinion.tokens.tolist(), weights.max()
    step = size / len(values)
    canvas.text(left, top - 34, head, 13, anchor="lm")
    canvas.heat(left, top, size, size, weights / highest, hidden=~opinion.visible.numpy())
    every = next(every for every in (1, 2, 4, 8, 16) if step * every >= 15)
    for i in range(0, len(values), every):
        canvas.text(left + step * (i + 0.5), top - 9, values[i], 9)
        canvas.text(left - 6, top + step * (i + 0.5), values[i], 9, anchor="rm")
    words = f"rows: token that looks; columns: token read; white 0, black {highest:.2f}"
    canvas.text(left, top + size + 12, words, 11, FAINT, "lm")


# --- widgets ---------------------------------------------------------------------------------------------------------


class JudgeExplorer(Explorer):
    """`judges` is {name: Judge}; the name of an encoding is shown by its label."""

    def __init__(self, judges, name=None, length=16, kind=SORTED):
        super().__init__()
        self.judges, self.labels, self.drawn = judges, {n: label_of(n) for n in judges}, 0
        name = name or next(iter(judges))
        wide, narrow = {"width": "330px"}, {"width": "250px"}
        labels = [(label, n) for n, label in self.labels.items()]
        self.name = widgets.Dropdown(options=labels, value=name, description="judge", layout=wide)
        self.way = widgets.Dropdown(options=ways(judges[name]), description="asked", layout=narrow)
        self.head = widgets.Dropdown(options=head_names(judges[name]), description="look at", layout=narrow)
        self.length = widgets.SelectionSlider(options=LENGTHS, value=length, description="length", layout=wide)
        self.kind = widgets.Dropdown(options=[SORTED, *KINDS], value=kind, description="draw", layout=narrow)
        self.another = widgets.Button(description="draw another")
        self.text = widgets.Textarea(description="sequence", rows=2, layout={"width": "855px"})
        self.draw()

        self.follow(self.text, self.way, self.head)
        self.name.observe(self.pick, "value")
        self.length.observe(self.draw, "value")
        self.kind.observe(self.draw, "value")
        self.another.on_click(self.draw)
        rows = [self.name, self.way, self.head], [self.length, self.kind, self.another], [self.text]
        self.widget = widgets.VBox([*map(widgets.HBox, rows), self.trouble, self.canvas])
        self.refresh()

    def pick(self, change):
        """Another judge can be asked in other ways, and has other heads."""
        self.paused = True
        for control, options in ((self.way, ways(self.judge)), (self.head, head_names(self.judge))):
            before = control.value
            control.options = options
            control.value = before if before in options else options[0]
        self.paused = False
        self.refresh()

    def draw(self, change=None):
        """Write another sequence of this length and kind into the text field."""
        self.drawn += 1
        kind = self.kind.value
        sequence = draw_sequence(random.Random(self.drawn), self.length.value, kind == SORTED, kind)
        self.text.value = " ".join(map(str, sequence))

    @property
    def judge(self):
        return self.judges[self.name.value]

    def ask(self):
        return opinion(self.judge, self.text.value, self.way.value)

    def picture(self, shown):
        own, name = ways(self.judge)[0], self.labels[self.name.value]
        return picture(
            self.judge, name if self.way.value == own else f"{name}, {self.way.value}", shown, self.head.value
        )


def label_of(name):
    return ENCODINGS[name].label if name in ENCODINGS else name
