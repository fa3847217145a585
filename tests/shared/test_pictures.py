"""A figure in a notebook says what it shows."""

import matplotlib.pyplot as plt
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from problem1.shared import pictures


def example():
    figure, sides = plt.subplots(1, 2)
    for axes, title in zip(sides, ("left\nhalf", ""), strict=True):
        axes.set_title(title)
    return figure


def test_a_figure_claims_what_its_title_says():
    figure = example()
    assert pictures.claim_of(figure) == "left half"
    figure.suptitle("Both: 0.5")
    assert pictures.claim_of(figure) == "Both: 0.5"
    plt.close(figure)


def test_the_claim_and_the_words_stand_where_text_stands_for_the_picture(monkeypatch):
    shell = InteractiveShell.instance()
    shell.display_formatter.formatters["image/png"].for_type(plt.Figure, lambda figure: b"picture")
    monkeypatch.setattr(pictures, "get_ipython", lambda: shell)
    shell.display_formatter.active_types = ["text/plain", "image/png"]
    with capture_output() as caught:
        pictures.show(example(), "Two empty axes.")
    (output,) = caught.outputs
    assert output.data == {"text/plain": "left half. Two empty axes.", "image/png": b"picture"}
    assert output.metadata["image/png"]["alt"] == "left half. Two empty axes."
    InteractiveShell.clear_instance()


def test_a_figure_that_was_shown_is_closed_outside_of_notebooks_too():
    before = plt.get_fignums()
    pictures.show(example(), "Two empty axes.")
    assert plt.get_fignums() == before


def test_no_letters_are_smaller_than_those_that_paper_needs():
    """Of ticks that come later and annotations, too; larger ones stay, and the claim is the title."""
    figure, axes = plt.subplots()
    axes.set_xlabel("x", fontsize=5)
    axes.set_title("large", fontsize=20)
    axes.text(0.5, 0.5, "tiny", fontsize=4)
    assert pictures.legible(figure, "One claim: 0.5") is figure
    axes.set_xticks([0, 1], ["left", "right"])
    figure.canvas.draw()
    sizes = {text.get_text(): text.get_fontsize() for text in figure.findobj(plt.Text) if text.get_text()}
    assert min(sizes.values()) == pictures.LETTERS == sizes["left"] == sizes["tiny"] == sizes["x"]
    assert sizes["large"] == 20 and sizes["One claim: 0.5"] == pictures.TITLE
    plt.close(figure)
