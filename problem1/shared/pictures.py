"""Figures, tables and captions in a notebook; a figure has words for those who cannot see it."""

import pandas as pd
from IPython.core.getipython import get_ipython
from IPython.display import HTML, Markdown, publish_display_data
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.text import Text

WIDTH = 10.4  # inches; on paper a figure shrinks to six tenths, and letters of 12 points to 7
LETTERS, TITLE = 12, 14  # points


def legible(figure: Figure, claim: str = "") -> Figure:
    """The same figure with its claim for a title, and no letters smaller than LETTERS."""
    for axes in figure.axes:
        axes.tick_params(labelsize=LETTERS)  # of ticks that are not there yet, too
    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_fontsize(max(LETTERS, text.get_fontsize()))
    if claim:
        figure.suptitle(claim, fontsize=TITLE)
    return figure


def claim_of(figure: Figure) -> str:
    """What the figure says of itself: its title, else those of its axes."""
    titles = [figure.get_suptitle()] if figure.get_suptitle() else [axes.get_title() for axes in figure.axes]
    return "; ".join(" ".join(title.split()) for title in titles if title)


def show(figure: Figure, words: str) -> None:
    """Display a figure and close it. Its alternative text is its claim and `words`, which say what is drawn: it stands
    where text stands for the picture (the PDF takes it from there) and in the picture's metadata (nbconvert does).
    """
    shell = get_ipython()
    formatter = shell.display_formatter if shell else None
    text = f"{claim_of(figure)}. {words}".removeprefix(". ")
    if formatter is not None:
        data, metadata = formatter.format(figure)
        described = {kind: {**metadata.get(kind, {}), "alt": text} for kind in data if kind != "text/plain"}
        publish_display_data({**data, "text/plain": text}, described)
    plt.close(figure)


def caption(label: str, words: str) -> Markdown:
    """('Figure 1', 'What it shows.') as a caption that the PDF knows for one."""
    return Markdown(f"**{label}.** {words}")


def table(rows: pd.DataFrame, index: bool = True) -> HTML:
    """A table whose long cells are not cut off."""
    with pd.option_context("display.max_colwidth", None):
        return HTML(rows.to_html(index=index))
