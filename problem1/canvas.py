"""A small picture of coloured cells and words that is ready within milliseconds, for the explorers.

matplotlib takes about 90 ms for such a picture, too slow for something that follows a finger.
"""

import base64
import functools
import html
import io

import matplotlib
import numpy as np
from matplotlib.font_manager import findfont
from PIL import Image, ImageDraw, ImageFont

SHARP = 2  # points of the picture for each point of the page
GOOD, BAD, INK, FAINT, PALE = "#2a7f3f", "#c0282d", "#202020", "#8a8a8a", "#b8b8b8"


@functools.cache
def font(size, bold):
    family = "DejaVu Sans:bold" if bold else "DejaVu Sans"  # that of the other figures; it comes with matplotlib
    return ImageFont.truetype(findfont(family), round(size * SHARP))


def colours(shares, name):
    """Shares in 0..1 -> red, green and blue (..., 3) of a colour map."""
    return matplotlib.colormaps[name](np.asarray(shares, dtype=float), bytes=True)[..., :3]


def ink_on(share):
    return "white" if share > 0.55 else INK


class Canvas:
    """Measures are points of the page, from the top left corner. `says` tells in words what there is to see."""

    def __init__(self, width, height, says):
        self.width, self.height, self.says = width, height, says
        self.image = Image.new("RGB", (width * SHARP, height * SHARP), "white")
        self.draw = ImageDraw.Draw(self.image)

    def text(self, x, y, words, size=12, colour=INK, anchor="mm", bold=False):
        """`anchor` is Pillow's: l, m or r, then t, m or b."""
        self.draw.text((x * SHARP, y * SHARP), str(words), colour, font(size, bold), anchor)

    def box(self, x, y, width, height, fill=None, outline=None, line=1):
        width, height = max(width, 1 / SHARP), max(height, 1 / SHARP)  # a box is never less than a point
        corners = [(x * SHARP, y * SHARP), ((x + width) * SHARP - 1, (y + height) * SHARP - 1)]
        self.draw.rectangle(corners, fill, outline, round(line * SHARP))

    def line(self, x, y, to_x, to_y, colour=INK, line=1):
        self.draw.line([(x * SHARP, y * SHARP), (to_x * SHARP, to_y * SHARP)], colour, round(line * SHARP))

    def dot(self, x, y, radius, colour):
        self.draw.circle((x * SHARP, y * SHARP), radius * SHARP, colour)

    def heat(self, x, y, width, height, shares, name="Greys", hidden=None):
        """A cell for each entry of `shares` (rows, columns) in 0..1; `hidden` ones are pale, as they do not exist."""
        cells = colours(shares, name)
        if hidden is not None:
            cells = np.where(hidden[..., None], np.uint8(242), cells)
        picture = Image.fromarray(cells).resize((width * SHARP, height * SHARP), Image.Resampling.NEAREST)
        self.image.paste(picture, (x * SHARP, y * SHARP))
        self.box(x, y, width, height, outline=PALE, line=0.5)

    def encoded(self, form, **options):
        data = io.BytesIO()
        self.image.save(data, form, **options)
        return data.getvalue()

    def tag(self):
        """The picture as HTML, for a widget; JPEG, which is made in a fifth of the time of a PNG."""
        data = base64.b64encode(self.encoded("JPEG", quality=92, subsampling=0)).decode()
        size = f'width="{self.width}" height="{self.height}" style="max-width: 100%; height: auto"'
        return f'<img alt="{html.escape(self.says)}" {size} src="data:image/jpeg;base64,{data}">'

    def _repr_png_(self):
        return self.encoded("PNG"), {"width": self.width, "height": self.height}

    def __repr__(self):
        return self.says
