"""Figures of problem 2: drawn from published tables and classifiers, and readable."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.legend import Legend
from matplotlib.text import Text

from problem1.shared.pictures import LETTERS, WIDTH
from problem2 import analysis, comparisons, plots, published
from problem2.analysis import evaluated, over_seeds, with_intervals
from problem2.certificate import Tables
from problem2.encodings import ASSIGNED, ENCODINGS, Absolute, make_encoding
from problem2.evaluation import new_group
from problem2.model import Classifier

LABELS = {ENCODINGS[name].label for name in published.published_encodings()}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def classifiers():
    return {name: published.published_classifier(name) for name in published.published_encodings()}


# --- every figure ----------------------------------------------------------------------------------------------------


def exact():
    return evaluated("augmented", set="exact")


def draw_curves(classifiers):
    return plots.curves(over_seeds(exact(), ["name", "length"]), ASSIGNED, plots.class_shares(exact()))


def draw_panels(classifiers):
    rows = {study: evaluated(study, set="exact") for study in ("plain", "augmented")}
    tables = {study: with_intervals(part, ["name", "length"], "balanced accuracy") for study, part in rows.items()}
    return plots.panels(tables, band=("low", "high"))


def draw_controls(classifiers):
    rows = evaluated("augmented", set="new", length=[8, 16, 32, 256])
    return plots.controls(over_seeds(rows, ["name", "corruption", "length"], "balanced accuracy"))


def draw_lowest_by_seed(classifiers):
    return plots.lowest_by_seed(comparisons.long_sets(), comparisons.EXTRAPOLATES, "five of sixteen")


def draw_factors(classifiers):
    tables = {
        title: over_seeds(
            evaluated("augmented", set="new", corruption=corruption), ["name", "length"], "balanced accuracy"
        )
        for title, corruption in (("assignment's sets", "swaps"), ("hard test", "adjacent"))
    }
    return plots.factors(tables, [16, 64, 256])


def draw_accuracy_by_shift(classifiers):
    rows = evaluated("augmented", None, set="exact", name=["learned", "rope"], length=[32, 256])
    rows = analysis.with_position_shift(rows)
    table = over_seeds(rows, ["name", "policy", "length", "shift"], "balanced accuracy")
    return plots.accuracy_by_shift(table.assign(label=table["name"] + ", " + table["policy"]))


def draw_learned_table(classifiers):
    before, after = analysis.rows_before_and_after(analysis.live_recipe("learned"), classifiers["learned"])
    return plots.learned_table(before, after, 16)


def draw_failures(classifiers):
    cases = analysis.mistakes(classifiers["sinusoidal"], new_group("swaps", 32), 3)
    return plots.failures({"Sinusoidal, length 32": cases, "again": cases})


def draw_token_logits(classifiers):
    generator = np.random.default_rng(0)
    return plots.token_logits(Tables(*(generator.normal(size=(100,) * axes) for axes in (2, 3, 2))))


def draw_by_difference(classifiers):
    table = analysis.attention_by_difference(classifiers["causal"], [16, 32], sequences=5)
    return plots.by_difference(table, "NoPE, causal: first layer")


FIGURES = {  # figure: what can be read in it
    draw_curves: {"length", "accuracy", "trained", 'always answers "sorted"', "sinusoidal", "learned", "none"},
    draw_panels: {"balanced accuracy", "plain", "augmented", *LABELS},
    draw_controls: {"balanced accuracy", "swaps", "adjacent", "half-rotated", *LABELS},
    draw_lowest_by_seed: {"five of sixteen", "plain, a point for each seed", *LABELS},
    draw_factors: {"balanced accuracy", "assignment's sets", "hard test", "causal", "length 256"},
    draw_accuracy_by_shift: {"balanced accuracy", "learned, clamp", "rope, interpolate", "rope, log-length scaling"},
    lambda classifiers: plots.encoding_pictures(classifiers): {
        "position",
        "nothing is added",
        "added to the embedding",
    },
    lambda classifiers: plots.attention_pictures(classifiers): {"key position", "query position", "RoPE"},
    draw_learned_table: {"as initialised", "after training", "how far it moved"},
    lambda classifiers: plots.position_terms(classifiers["sinusoidal"]): {"query position t", "key position s"},
    lambda classifiers: plots.bias_by_distance(classifiers["t5"]): {"bias added to the logit", "head 3"},
    draw_by_difference: {"head 0", "head 3", "length 16", "length 32", "NoPE, causal: first layer"},
    draw_failures: {"Sinusoidal, length 32", "again"},
    lambda classifiers: plots.cost(published.table("cost")): {"length", "window 1, measured", "1024"},
    draw_token_logits: {"first token", "last token", "logit (red: rejects, blue: accepts)"},
}


def shown(figure):
    """The texts that are seen; tick labels outside of the axes are not."""
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def overlapping_ticks(figure):
    """Pairs of neighbouring tick labels that run into each other; turned ones are left out: their boxes say little."""
    found = []
    for axes in figure.findobj(plt.Axes):
        if not axes.axison:
            continue
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = sorted(limits)
            labels = [t.label1 for t in axis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_visible()]
            labels = [label for label in labels if label.get_text() and not label.get_rotation()]
            boxes = [label.get_window_extent() for label in labels]
            pairs = itertools.pairwise(zip(labels, boxes, strict=True))
            found += [(a.get_text(), b.get_text()) for (a, one), (b, other) in pairs if one.overlaps(other)]
    return found


def test_variants_are_labelled_by_their_encoding_and_what_is_none_by_its_own_name():
    assert (
        plots.label_of("shaw") == "Shaw (clipped)"
        and plots.label_of("shaw with values") == "Shaw (clipped) with values"
    )
    assert plots.label_of("shawl") == "shawl" and plots.label_of("t5 wide") == "T5 buckets wide"


@pytest.mark.parametrize(("draw", "words"), FIGURES.items())
def test_a_figure_is_labelled_and_can_be_read(draw, words, classifiers):
    figure = draw(classifiers)
    figure.canvas.draw()
    texts = shown(figure)
    assert words <= {text.get_text() for text in texts}
    assert min(text.get_fontsize() for text in texts) >= LETTERS and figure.get_figwidth() == WIDTH
    assert overlapping_ticks(figure) == []


def test_every_figure_is_drawn_here():
    figures = {
        name
        for name, value in vars(plots).items()
        if getattr(value, "__module__", "") == plots.__name__ and value.__annotations__.get("return") is plots.Figure
    }
    drawn = {name for draw in FIGURES for name in draw.__code__.co_names}
    assert figures == drawn & figures and len(figures) == len(FIGURES)


def test_ticks_that_run_into_each_other_are_found():
    figure, axes = plt.subplots(figsize=(2, 2))
    axes.set_xticks([0, 0.1, 1], ["a long label", "another one", "far"])
    figure.canvas.draw()
    assert overlapping_ticks(figure) == [("a long label", "another one")]


# --- single figures --------------------------------------------------------------------------------------------------


def example_table():
    rows = {
        "name": ["learned"] * 4 + ["none"] * 4,
        "seed": [0, 0, 1, 1] * 2,
        "length": [32, 64] * 4,
        "accuracy": [0.9, 1.0, 0.7, 1.0, 0.454, 0.514, 0.454, 0.6],
        "constant prediction": [False] * 4 + [True, True, True, False],
    }
    return over_seeds(pd.DataFrame(rows), ["name", "length"])


def test_encodings_have_colours_of_their_own():
    assert len({plots.colour_of(name) for name in ENCODINGS}) == len(ENCODINGS)


# What eyes make of linear RGB: with all cones, without those for red, without those for green (Viénot et al., 1999).
SIGHTS = (
    np.eye(3),
    np.array([[0.113, 0.887, 0], [0.113, 0.887, 0], [0.004, -0.004, 1]]),
    np.array([[0.293, 0.707, 0], [0.293, 0.707, 0], [-0.022, 0.022, 1]]),
)


def distance(*colours):
    """Of two colours, to those who can tell them apart least."""
    linear = [np.array(to_rgb(colour)) ** 2.2 for colour in colours]
    seen = [[(sight @ rgb).clip(0) ** (1 / 2.2) for rgb in linear] for sight in SIGHTS]
    return min(np.linalg.norm(one - other) for one, other in seen)


def test_lines_can_be_told_apart_by_colour_or_by_dashes_and_markers():
    lines = {name: plots.line_of(name) for name in ENCODINGS}
    for one, other in itertools.combinations(lines.values(), 2):
        alike = [one[key] == other[key] for key in ("ls", "marker")]
        assert alike in ([True, True], [False, False])
        assert not alike[0] or distance(one["color"], other["color"]) > 0.1


# --- every encoding, studied or not ----------------------------------------------------------------------------------


def every_row():
    """As if all had been studied: balanced accuracy by name, seed, corruption and length."""
    draw = np.random.default_rng(0)
    rows = itertools.product(
        ENCODINGS, range(6), ("swaps", "adjacent", "reversed", "half-rotated"), (8, 16, 32, 64, 256)
    )
    table = pd.DataFrame(rows, columns=["name", "seed", "corruption", "length"])
    columns = {"accuracy": draw.uniform(0.3, 1, len(table)), "constant prediction": False}
    return table.assign(**columns, **{"balanced accuracy": columns["accuracy"]})


def every_panel():
    rows = every_row().query("corruption == 'swaps'")
    return plots.panels({study: over_seeds(rows, ["name", "length"]) for study in ("plain", "augmented")})


def every_control():
    rows = every_row().query("length in (16, 256)")
    return plots.controls(over_seeds(rows, ["name", "corruption", "length"]), claim="no encoding")


def every_point():
    rows = every_row().query("corruption == 'swaps'")
    return plots.lowest_by_seed(pd.concat([rows.assign(study=study) for study in plots.STUDIES]), 0.9)


def every_picture():
    shape = {"n_layers": 1, "n_heads": 4, "d_model": 64, "d_ff": 8}
    return plots.attention_pictures({name: Classifier(name, **shape).eval() for name in ENCODINGS})


def every_curve():
    rows = every_row().query("corruption == 'swaps'")
    return plots.curves(over_seeds(rows, ["name", "length"]), ENCODINGS, {8: 0.5, 16: 0.5, 32: 0.45, 64: 0.5, 256: 0.5})


def every_shift():
    table = over_seeds(every_row().query("corruption == 'swaps'"), ["name", "length"])
    labels = table["name"].map({name: cls.label for name, cls in ENCODINGS.items()})
    return plots.accuracy_by_shift(table.assign(label=labels, shift=np.linspace(0, 1, len(table))))


@pytest.mark.parametrize("draw", [every_panel, every_control, every_point, every_picture, every_curve, every_shift])
def test_a_figure_has_room_for_every_encoding(draw):
    figure = draw()
    figure.canvas.draw()
    texts, (width, height) = shown(figure), figure.get_size_inches()
    assert {cls.label for cls in ENCODINGS.values()} <= {" ".join(text.get_text().split()) for text in texts}
    assert min(text.get_fontsize() for text in texts) >= LETTERS and width == WIDTH and height <= 11
    assert overlapping_ticks(figure) == []
    titles = [axes.title for axes in figure.findobj(plt.Axes) if axes.title.get_text()]
    cells = [text for axes in figure.findobj(plt.Axes) for text in axes.texts]
    keys = [text for legend in figure.findobj(Legend) for text in legend.get_texts()]
    for kind in (titles, cells, keys):
        boxes = [text.get_window_extent() for text in kind]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))


def test_hollow_markers_stand_where_every_seed_has_a_constant_prediction():
    axes = plots.curves(example_table(), ["learned", "none"], {32: 0.454, 64: 0.514}).axes[0]
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [line.get_xdata().tolist() for line in hollow] == [[32]]


def test_descents_are_framed():
    cases = pd.DataFrame(
        {"sequence": [[1, 5, 3, 4, 2], [1, 2, 3, 4, 5]], "is sorted": [False, True], "logit": [1.0, -2]}
    )
    axes = plots.failures({"two": cases}).axes[0]
    assert [(round(p.get_x() + 0.46), round(p.get_y() + 0.44)) for p in axes.patches] == [(1, 0), (3, 0)]


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_attention_sees_depends_on_the_distance_for_relative_encodings(name):
    encoding = make_encoding(name, 16, 2).eval()
    seen = plots.seen_by_attention(encoding, 20)
    assert seen.shape == (20, 20) and np.isnan(seen[0, 1]) == encoding.causal
    if not isinstance(encoding, Absolute) and name != "fire":
        assert np.allclose(seen[1:, 1:], seen[:-1, :-1], atol=1e-4, equal_nan=True)


def test_the_slices_of_the_token_logits_are_those_of_the_tables():
    values = np.arange(100)
    middle = values[:, None, None] + 100.0 * values[:, None] + 10_000 * values
    panels = plots.token_logits(Tables(np.zeros((100, 100)), middle, np.ones((100, 100)))).axes
    assert (panels[2].images[0].get_array() == middle[50]).all()
    assert (panels[3].images[0].get_array() == middle[:, :, 50]).all()


def test_a_band_shows_what_it_is_asked_to_show():
    table = example_table().assign(low=0.2, high=0.3)
    for band, ends in ((("min", "max"), (0.7, 1.0)), (("low", "high"), (0.2, 0.3))):
        (learned,) = (a for a in plots.panels({"all": table}, band=band).axes if a.get_title() == "learned")
        heights = learned.collections[0].get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == pytest.approx(ends)


def test_a_point_is_the_lowest_accuracy_of_a_seed_and_the_best_encoding_stands_on_top():
    rows = pd.DataFrame(
        [
            {"study": study, "name": name, "seed": seed, "accuracy": accuracy}
            for study in plots.STUDIES
            for name, low in (("none", 0.5), ("causal", 0.9))
            for seed in (0, 1)
            for accuracy in (low + 0.05 * seed, 1.0)
        ]
    )
    axes = plots.lowest_by_seed(rows, 0.9).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["NoPE, causal", "none"]
    for line, shift in zip(axes.lines, (-0.2, 0.2), strict=False):
        points = {(round(y - shift), round(x, 2)) for x, y in line.get_xydata()}
        assert points == {(0, 0.9), (0, 0.95), (1, 0.5), (1, 0.55)}


def test_no_positions_are_no_field_of_zeros(classifiers):
    """What adds nothing says so in words; the line between trained and new positions is where training ends."""
    sinusoidal, learned, none = plots.encoding_pictures(classifiers, length=20).axes[:3]
    assert not none.images and [text.get_text() for text in none.texts] == ["nothing is added"]
    for axes in (sinusoidal, learned):
        assert axes.images[0].get_array().shape == (20, 64) and axes.lines[0].get_ydata()[0] == 15.5


def test_the_learned_table_shows_as_many_rows_as_asked_for():
    table = torch.randn(256, 64)
    for rows, shown_rows in ((None, 256), (64, 64)):
        axes = plots.learned_table(table, table + 1, 16, rows=rows).axes[0]
        assert axes.images[0].get_array().shape == (shown_rows, 64)


def test_the_picture_of_a_bias_is_that_of_its_buckets(classifiers):
    axes = plots.bias_by_distance(classifiers["t5"], farthest=20).axes[0]
    encoding = classifiers["t5"].positions
    for line, bias in zip(axes.lines, encoding.bias_table.detach(), strict=True):
        expected = bias[encoding.bucket(torch.arange(-20, 21))]
        assert np.allclose(line.get_ydata(), expected.numpy())
