"""The small picture: what is drawn is where it was asked for, in both forms, in words too, and within milliseconds."""

import base64
import io
import re
import statistics
import time

import matplotlib
import numpy as np
import pytest
from PIL import Image, ImageColor

from problem1.shared.canvas import BAD, INK, PALE, SHARP, Canvas, colours, font, ink_on

RED = (255, 0, 0)


def pixels(canvas):
    return np.asarray(canvas.image)


def drawn(draw, width=20, height=20):
    """Of a white canvas on which `draw` has drawn: which points are no longer white."""
    canvas = Canvas(width, height, "a picture")
    draw(canvas)
    return (pixels(canvas) != 255).any(-1)


def edges(mask):
    """Left, top, right and bottom of what is drawn, in points of the page."""
    rows, columns = np.nonzero(mask)
    return [columns.min() / SHARP, rows.min() / SHARP, (columns.max() + 1) / SHARP, (rows.max() + 1) / SHARP]


def busy():
    """As much as an explorer draws."""
    canvas = Canvas(900, 440, "a busy picture")
    canvas.heat(30, 80, 400, 250, np.random.default_rng(0).uniform(size=(10, 10)), "Blues")
    for cell in range(100):
        canvas.text(50 + 40 * (cell % 10), 92 + 25 * (cell // 10), "0.12")
    return canvas


def seconds(function):
    """CPU time, so that it does not depend on who else uses the machine."""
    found = []
    for _ in range(9):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return statistics.median(found)


# --- as a whole ------------------------------------------------------------------------------------------------------


def test_a_notebook_and_a_widget_get_the_same_picture_sharper_than_the_page():
    canvas = busy()
    data, size = canvas._repr_png_()
    png = Image.open(io.BytesIO(data))
    assert size == {"width": 900, "height": 440} and png.size == (900 * SHARP, 440 * SHARP) and SHARP >= 2
    assert np.array_equal(np.asarray(png), pixels(canvas))
    tag = canvas.tag()
    jpeg = Image.open(io.BytesIO(base64.b64decode(re.search('src="data:image/jpeg;base64,([^"]*)"', tag)[1])))
    assert 'width="900" height="440"' in tag and jpeg.format == "JPEG" and jpeg.size == png.size
    assert np.abs(np.asarray(jpeg).astype(int) - pixels(canvas)).mean() < 1


def test_a_picture_can_be_read_aloud_and_its_words_are_no_html():
    canvas = Canvas(30, 20, '1 < 2 & "so" <b>on</b>')
    assert repr(canvas) == canvas.says == '1 < 2 & "so" <b>on</b>'
    assert 'alt="1 &lt; 2 &amp; &quot;so&quot; &lt;b&gt;on&lt;/b&gt;"' in canvas.tag()


def test_a_picture_fits_into_a_narrow_page():
    assert 'style="max-width: 100%; height: auto"' in Canvas(900, 440, "wide").tag()


def test_a_picture_is_ready_in_half_the_time_of_matplotlib_and_a_jpeg_sooner_than_a_png():
    canvas = busy()
    assert seconds(lambda: busy().tag()) < 0.045
    assert seconds(canvas.tag) < seconds(canvas._repr_png_) / 2


# --- its parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [(2, 3, 4, 5), (0, 0, 20, 20), (2.5, 3.5, 4, 1)])
def test_a_box_covers_what_it_says_and_nothing_else(place):
    x, y, width, height = place
    mask = drawn(lambda canvas: canvas.box(x, y, width, height, fill="#ff0000"))
    assert edges(mask) == [x, y, x + width, y + height] and mask.sum() == width * height * SHARP**2


@pytest.mark.parametrize("size", [(0, 4), (4, 0), (0, 0), (0.01, 4)])
def test_a_box_is_never_less_than_a_point(size):
    """The bar of a share that is almost nothing can still be seen."""
    width, height = (max(1, side * SHARP) for side in size)
    assert drawn(lambda canvas: canvas.box(3, 3, *size, fill="#ff0000")).sum() == int(width) * int(height)


def test_an_outline_is_inside_of_its_box_and_leaves_the_rest():
    mask = drawn(lambda canvas: canvas.box(2, 2, 10, 6, outline="#ff0000", line=1))
    assert edges(mask) == [2, 2, 12, 8] and not mask[3 * SHARP : 7 * SHARP, 3 * SHARP : 11 * SHARP].any()
    assert mask.sum() == (10 * 6 - 8 * 4) * SHARP**2


def test_lines_and_dots_go_where_they_are_told_to_in_their_colour():
    canvas = Canvas(20, 20, "a line and a dot")
    canvas.line(2, 5, 18, 5, BAD, 2)
    canvas.dot(10, 14, 3, "#ff0000")
    line, dot = ((pixels(canvas) == colour).all(-1) for colour in (ImageColor.getrgb(BAD), RED))
    assert edges(line) == pytest.approx([2, 4, 18, 6], abs=0.5) and edges(dot) == pytest.approx([7, 11, 13, 17], abs=1)
    assert dot.sum() == pytest.approx(np.pi * 9 * SHARP**2, rel=0.2)


@pytest.mark.parametrize(("anchor", "side"), [("lm", 0), ("rm", 2), ("mt", 1), ("mb", 3)])
def test_words_are_anchored_at_their_place(anchor, side):
    mask = drawn(lambda canvas: canvas.text(30, 30, "HHHH", 10, anchor=anchor), 60, 60)
    assert edges(mask)[side] == pytest.approx(30, abs=3)


def test_words_may_be_anything_that_has_words_in_a_size_colour_and_weight():
    plain = drawn(lambda canvas: canvas.text(30, 30, "12"), 60, 60)
    left, top, right, bottom = edges(plain)
    assert (left + right) / 2 == pytest.approx(30, abs=1) and (top + bottom) / 2 == pytest.approx(30, abs=2)
    assert np.array_equal(plain, drawn(lambda canvas: canvas.text(30, 30, 12), 60, 60))
    assert drawn(lambda canvas: canvas.text(30, 30, "12", 24), 60, 60).sum() > 2 * plain.sum()
    assert drawn(lambda canvas: canvas.text(30, 30, "12", bold=True), 60, 60).sum() > 1.1 * plain.sum()
    canvas = Canvas(60, 60, "red words")
    canvas.text(30, 30, "12", colour="#ff0000")
    assert (pixels(canvas) == RED).all(-1).any() and (pixels(canvas)[..., 0] == 255).all()


def test_the_font_is_that_of_the_other_figures():
    assert font(12, False).getname() == ("DejaVu Sans", "Book") and font(12, True).getname() == ("DejaVu Sans", "Bold")
    assert font(12, False).size == 12 * SHARP and font(12, False) is font(12, False)


# --- heat maps -------------------------------------------------------------------------------------------------------


def test_each_cell_of_a_heat_map_has_its_colour_at_its_place_and_those_that_do_not_exist_are_pale():
    shares = np.array([[0.0, 0.3, 1.0], [0.8, 0.5, 0.1]])
    hidden = np.array([[False, False, True], [False, False, False]])
    canvas = Canvas(40, 30, "a heat map")
    canvas.heat(4, 5, 30, 20, shares, "Blues", hidden)
    middles = pixels(canvas)[(10 * SHARP, 20 * SHARP), :][:, (9 * SHARP, 19 * SHARP, 29 * SHARP)]
    expected = np.round(255 * matplotlib.colormaps["Blues"](shares)[..., :3])
    expected[hidden] = 242
    assert np.abs(middles - expected).max() <= 1
    mask = (pixels(canvas) != 255).any(-1)
    assert edges(mask) == [4, 5, 34, 25]
    for corner in ((5, 4), (5, 33.5), (24.5, 4), (24.5, 33.5)):
        row, column = (int(part * SHARP) for part in corner)
        assert tuple(pixels(canvas)[row, column]) == ImageColor.getrgb(PALE)


def test_shares_have_the_colours_of_the_map_also_if_they_are_whole_numbers():
    """matplotlib takes whole numbers for entries of its table, so that 1 would be the second palest."""
    assert colours([0, 1], "Greys").tolist() == [[255] * 3, [0] * 3] == colours([0.0, 1.0], "Greys").tolist()
    assert colours(np.zeros((2, 5)), "Blues").shape == (2, 5, 3) and colours([0.5], "Blues").dtype == np.uint8


def brightness(colour):
    """The relative luminance of WCAG."""
    parts = np.asarray(colour) / 255
    return np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("name", ["Greys", "Blues"])
def test_words_on_a_cell_stand_out_whatever_its_share(name):
    assert ink_on(0) == INK and ink_on(1) == "white"
    for share in np.linspace(0, 1, 101):
        pair = brightness(colours([share], name)[0]), brightness(ImageColor.getrgb(ink_on(share)))
        assert (max(pair) + 0.05) / (min(pair) + 0.05) > 2.8
