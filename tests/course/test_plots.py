"""Figures of the reports show what they are given, in letters that can be read."""

import math

import pandas as pd
from course import plots


def runs():
    return pd.DataFrame({"variant": ["a", "a", "b"], **{column: [0.4, 0.5, 0.9] for column in plots.SCORES}})


def epochs():
    rows = [
        {"variant": variant, "seed": seed, "training loss": loss}
        for variant in ("as handed in, none", "pre-norm, sinusoidal")
        for seed in (0, 1)
        for loss in (0.7, 0.69)
    ]
    return pd.DataFrame(rows)


def smallest_letters(figure):
    figure.canvas.draw()
    return min(
        text.get_fontsize() for text in figure.findobj(lambda each: hasattr(each, "get_fontsize")) if text.get_text()
    )


def test_every_score_has_its_mark_and_every_reported_number_its_line():
    figure = plots.decoding_scores(runs(), {"A 41.20 %": 0.412}, "A claim")
    axes = figure.axes[0]
    assert len(axes.lines) == 2 * len(plots.SCORES) + 1 and figure.get_suptitle() == "A claim"
    assert sum(list(line.get_xdata()) == [0.412, 0.412] for line in axes.lines) == 1
    assert len({(colour, mark) for _, colour, mark in plots.SCORES.values()}) == len(plots.SCORES)


def test_heads_are_ranked_from_the_largest():
    figure = plots.ranked_values([("A", {"no BOS": [[0.1, 0.3, 0.2]]}, [0.25])])
    assert list(figure.axes[0].lines[0].get_ydata()) == [0.3, 0.2, 0.1]
    assert list(figure.axes[0].lines[1].get_ydata()) == [0.25, 0.25]


def test_losses_are_drawn_beside_that_of_guessing():
    left, right = plots.losses(epochs()).axes
    for axes in (left, right):
        assert len(axes.lines) == 3 and list(axes.lines[-1].get_ydata()) == [math.log(2)] * 2
    assert left.get_legend().get_texts()[0].get_text() == "none"
    assert right.get_legend().get_texts()[0].get_text() == "pre-norm"


def test_letters_can_be_read_on_paper():
    """Ten inches wide, a figure shrinks to six tenths there."""
    drawn = [
        plots.decoding_scores(runs(), {"A": 0.4}),
        plots.losses(epochs()),
        plots.ranked_values([("A", {"x": [[1, 2]]}, [])]),
    ]
    assert all(smallest_letters(figure) >= 12 and figure.get_figwidth() >= 10 for figure in drawn)
