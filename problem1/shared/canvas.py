"""A small picture of coloured cells and words that is ready within milliseconds, for the explorers.

matplotlib takes about 90 ms for such a picture, too slow for something that follows a finger.
"""

import base64
import functools
import html
import io
from typing import Any

import matplotlib
import numpy as np
from matplotlib.font_manager import findfont
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw, ImageFont

SHARP = 2  # points of the picture for each point of the page
GOOD, BAD, INK, FAINT, PALE = "#2a7f3f", "#c0282d", "#202020", "#8a8a8a", "#b8b8b8"


@functools.cache
def font(size: float, bold: bool) -> ImageFont.FreeTypeFont:
    family = "DejaVu Sans:bold" if bold else "DejaVu Sans"  # that of the other figures; it comes with matplotlib
    return ImageFont.truetype(findfont(family), round(size * SHARP))


def colours(shares: ArrayLike, name: str) -> np.ndarray:
    """Shares in 0..1 -> red, green and blue (..., 3) of a colour map."""
    return matplotlib.colormaps[name](np.asarray(shares, dtype=float), bytes=True)[..., :3]


def ink_on(share: float) -> str:
    return "white" if share > 0.55 else INK


class Canvas:
    """Measures are points of the page, from the top left corner. `says` tells in words what there is to see."""

    def __init__(self, width: int, height: int, says: str) -> None:
        self.width, self.height, self.says = width, height, says
        self.image = Image.new("RGB", (width * SHARP, height * SHARP), "white")
        self.draw = ImageDraw.Draw(self.image)

    def text(
        self,
        x: float,
        y: float,
        words: object,
        size: float = 12,
        colour: str = INK,
        anchor: str = "mm",
        bold: bool = False,
    ) -> None:
        """`anchor` is Pillow's: l, m or r, then t, m or b."""
        self.draw.text((x * SHARP, y * SHARP), str(words), colour, font(size, bold), anchor)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str | None = None,
        outline: str | None = None,
        line: float = 1,
    ) -> None:
        width, height = max(width, 1 / SHARP), max(height, 1 / SHARP)  # a box is never less than a point
        corners = [(x * SHARP, y * SHARP), ((x + width) * SHARP - 1, (y + height) * SHARP - 1)]
        self.draw.rectangle(corners, fill, outline, round(line * SHARP))

    def line(self, x: float, y: float, to_x: float, to_y: float, colour: str = INK, line: float = 1) -> None:
        self.draw.line([(x * SHARP, y * SHARP), (to_x * SHARP, to_y * SHARP)], colour, round(line * SHARP))

    def dot(self, x: float, y: float, radius: float, colour: str) -> None:
        self.draw.circle((x * SHARP, y * SHARP), radius * SHARP, colour)

    def heat(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        shares: ArrayLike,
        name: str = "Greys",
        hidden: np.ndarray | None = None,
    ) -> None:
        """A cell for each entry of `shares` (rows, columns) in 0..1; `hidden` ones are pale, as they do not exist."""
        cells = colours(shares, name)
        if hidden is not None:
            cells = np.where(hidden[..., None], np.uint8(242), cells)
        picture = Image.fromarray(cells).resize((width * SHARP, height * SHARP), Image.Resampling.NEAREST)
        self.image.paste(picture, (x * SHARP, y * SHARP))
        self.box(x, y, width, height, outline=PALE, line=0.5)

    def encoded(self, form: str, **options: Any) -> bytes:
        data = io.BytesIO()
        self.image.save(data, form, **options)
        return data.getvalue()

    def tag(self) -> str:
        """The picture as HTML, for a widget; JPEG, which is made in a fifth of the time of a PNG."""
        data = base64.b64encode(self.encoded("JPEG", quality=92, subsampling=0)).decode()
        size = f'width="{self.width}" height="{self.height}" style="max-width: 100%; height: auto"'
        return f'<img alt="{html.escape(self.says)}" {size} src="data:image/jpeg;base64,{data}">'

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return self.encoded("PNG"), {"width": self.width, "height": self.height}

    def __repr__(self) -> str:
        return self.says
