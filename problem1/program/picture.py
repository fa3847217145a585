"""The architecture as a picture, with what each head of a program says in its box."""

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from problem1.dataset import BOS, TOKENS, encode_pairs, parse, shift_right
from problem1.model import KIND_NAMES
from problem1.program.lines import NOTHING, SAME, claims_of, idle_heads
from problem1.program.tables import Program, kind_of
from problem1.shared.pictures import LETTERS, TITLE, WIDTH

SAYS = {  # claim -> its words in a box, its colour; a head that has several is coloured by the first
    "far below": ("carry, from\ntwo columns", "#e69f00"),
    "below": ("carry", "#f0c060"),
    "encoder below": ("lower\ncolumns", "#f0c060"),
    "own": ("column sum", "#7cc4f0"),
    "partner": ("other digit\nof column", "#5cc0a0"),
    "written": ("digit before", "#dda8c8"),
}
CONSTANT, IDLE = ("constant", "#bbbbbb"), ("", "#eeeeee")
KEY = {
    "what stands in the box": SAYS["own"][1],
    SAME: CONSTANT[1],
    NOTHING: IDLE[1],
}
LEFT, RIGHT = 0.0, 5.4  # where the two streams begin
BOX, STEP, SITE = 1.08, 1.15, 1.5  # width of a head's box, from head to head, from site to site


def draw_program(program: Program, text: str = "663+497", claim: str = "") -> Figure:
    """Tokens below, the answer above; each stream passes its sites from bottom to top."""
    digits, heads = program.shape["digits"], program.shape["n_heads"]
    source, target = encode_pairs(parse(text, digits), digits)
    figure, axes = plt.subplots(figsize=(WIDTH, 7.4), layout="constrained")
    left, middle = {"encoder": LEFT, "decoder": RIGHT}, (heads * STEP + BOX - STEP) / 2
    top, idle = dict.fromkeys(left, 0.0), idle_heads(program)
    for site, block in enumerate(program.model.blocks):
        stream = "encoder" if block.kind == "encoder" else "decoder"
        top[stream] += SITE
        axes.text(
            left[stream], top[stream] + 0.8, f"{KIND_NAMES[block.kind]} L{block.layer}", fontsize=LETTERS, weight="bold"
        )
        for number, name in enumerate(program.model.head_names[site * heads : (site + 1) * heads]):
            words, colour = IDLE if name in idle else in_box(program, name)
            draw_box(axes, left[stream] + number * STEP, top[stream], f"H{number}\n{words}".strip(), colour)
        if block.kind == "cross":  # the only way from source to answer
            draw_arrow(axes, (LEFT + 2 * middle, top["encoder"] + 0.36), (RIGHT - 0.14, top["decoder"] + 0.36))
    read = {"encoder": (source, "the sum"), "decoder": (shift_right(target), "the digits written before")}
    for stream, (tokens, words) in read.items():
        shown = " ".join("BOS" if token == BOS else TOKENS[token] for token in tokens[0].tolist())
        draw_tokens(axes, left[stream] + middle, 0.75, shown, words)
    written = " ".join(map(str, program.generate(source)[0].tolist()))
    draw_tokens(axes, RIGHT + middle, top["decoder"] + SITE + 0.2, written, "the answer")
    for stream, height in top.items():  # from the tokens through all sites of a stream
        draw_arrow(axes, (left[stream] - 0.12, 1.1), (left[stream] - 0.12, height + 0.9))
    for row, (words, colour) in enumerate(KEY.items()):
        height = top["decoder"] - row * 0.42
        axes.add_patch(
            FancyBboxPatch((LEFT, height), 0.3, 0.26, boxstyle="round,pad=0,rounding_size=0.05", fc=colour, ec="none")
        )
        axes.text(LEFT + 0.42, height + 0.13, words, va="center", fontsize=LETTERS)
    axes.set_title(claim, fontsize=TITLE)
    axes.set(xlim=(LEFT - 0.2, RIGHT + heads * STEP), ylim=(0.2, top["decoder"] + SITE + 0.6))
    axes.axis("off")
    return figure


def in_box(program: Program, head: str) -> tuple[str, str]:
    """Words and colour of a head that is needed."""
    kind, digits = kind_of(head), program.shape["digits"]
    claims = {key for q, variable in enumerate(program.choice[head]) for key in claims_of(variable, kind, q, digits)}
    if not claims:
        return CONSTANT
    found = [SAYS[key] for key in SAYS if key in claims and not (key == "below" and "far below" in claims)]
    return "\n".join(words for words, _ in found), found[0][1]


def draw_box(axes: Axes, left: float, bottom: float, words: str, colour: str) -> None:
    shape = "round,pad=0,rounding_size=0.06"
    axes.add_patch(FancyBboxPatch((left, bottom), BOX, 0.72, boxstyle=shape, fc=colour, ec="none"))
    axes.text(left + BOX / 2, bottom + 0.36, words, ha="center", va="center", fontsize=LETTERS, linespacing=1.0)


def draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=10, color="#555555"))


def draw_tokens(axes: Axes, middle: float, bottom: float, tokens: str, words: str) -> None:
    axes.text(middle, bottom, tokens, ha="center", fontsize=TITLE, family="monospace")
    axes.text(middle, bottom - 0.38, words, ha="center", fontsize=LETTERS)
