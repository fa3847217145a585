"""The architecture as a picture: every head in it, every letter legible."""

import matplotlib.pyplot as plt
import pytest

from problem1.program.lines import idle_heads
from problem1.program.picture import IDLE, SAYS, draw_program, in_box


@pytest.fixture(scope="module")
def figure(program):
    figure = draw_program(program)
    figure.canvas.draw()
    yield figure
    plt.close(figure)


def test_every_head_has_a_box_and_every_box_its_words(figure, program):
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert sum(text.split("\n")[0] in {"H0", "H1", "H2", "H3"} for text in texts) == 24
    for words in ("Encoder L0", "Decoder Self L1", "Decoder Cross L1", "6 6 3 + 4 9 7", "1 1 6 0", "BOS 1 1 6"):
        assert words in texts
    silent = sum(text in {"H0", "H1", "H2", "H3"} for text in texts)
    assert silent == len(idle_heads(program))


def test_letters_are_legible_and_none_leaves_its_box(figure):
    axes, renderer = figure.axes[0], figure.canvas.get_renderer()
    assert min(text.get_fontsize() for text in axes.texts) >= 7
    boxes = [patch.get_window_extent(renderer) for patch in axes.patches]
    whole = figure.get_window_extent(renderer)
    for text in axes.texts:
        extent = text.get_window_extent(renderer)
        assert whole.x0 <= extent.x0 and extent.x1 <= whole.x1 and whole.y0 <= extent.y0 and extent.y1 <= whole.y1
        if text.get_text().startswith("H"):
            assert any(
                b.x0 <= extent.x0 and extent.x1 <= b.x1 and b.y0 <= extent.y0 and extent.y1 <= b.y1 for b in boxes
            )


def test_a_box_says_what_the_head_says(program):
    words, colour = in_box(program, "Decoder Cross L0 H2")
    assert "carry" in words and colour in {c for _, c in SAYS.values()} and colour != IDLE[1]
