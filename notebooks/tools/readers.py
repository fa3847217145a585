"""Can a notebook be read? Counts what a reader gets through: `python notebooks/tools/readers.py [notebook ...]`.

Words are those of Markdown cells and Markdown outputs; a formula counts as one. The main text ends at a heading with
"Appendix". Reading time is that of the main text at 200 words a minute, figures, tables and code not counted.
"""

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from nbformat import NotebookNode
from pdf import APPENDIX, CAPTION, NOTEBOOKS, find_notebook, read_notebook

from problem1.shared.commands import Parser, one_sentence

WORDS_PER_MINUTE = 200
PICTURES = ("image/png", "image/svg+xml", "image/jpeg", "application/pdf")


@dataclass
class Counts:
    """Of one notebook. `field.name` with spaces is what the table says."""

    words: int  # of the main text
    minutes: int  # to read them
    words_of_appendix: int
    longest_caption: int
    longest_paragraph: int
    median_lines: float  # of the code cells that are shown
    most_lines: int  # of any code cell
    set_up_lines: int  # of the first code cell that is shown
    captions: int
    captions_open: int  # whose code is not collapsed
    pictures: int
    pictures_without_words: int  # without alternative text


# --- words -----------------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Markdown without what is not read: addresses of links, tags, the frames of tables."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\$\$.+?\$\$|(?<![\\$])\$[^$]+\$", " formula ", text, flags=re.S)
    return re.sub(r"<[^>]+>|\|", " ", text)


def count_words(text: str) -> int:
    return len(re.findall(r"\S*\w\S*", plain(text)))


def paragraphs(text: str) -> Iterator[str]:
    """Its paragraphs; items of a list are paragraphs, headings, code, formulas and tables are none."""
    text = re.sub(r"^```.*?^```|^\$\$.*?\$\$$", "\n\n", text, flags=re.M | re.S)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        if block.strip() and not re.match(r"\s*(#|\|)", block):
            yield block


# --- cells -----------------------------------------------------------------------------------------------------------


def markdown_outputs(cell: NotebookNode) -> list[str]:
    datas = [output.get("data", {}) for output in cell.get("outputs", [])]
    return [data["text/markdown"] for data in datas if "text/markdown" in data]


def texts_of(cell: NotebookNode) -> list[str]:
    return [cell.source] if cell.cell_type == "markdown" else markdown_outputs(cell)


def lines_of(cell: NotebookNode) -> int:
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def is_shown(cell: NotebookNode) -> bool:
    return not cell.metadata.get("jupyter", {}).get("source_hidden", False)


def main_and_appendix(texts: Sequence[str]) -> tuple[str, str]:
    """All text before the heading, and all from it on."""
    whole = "\n\n".join(texts)
    heading = APPENDIX.search(whole)
    end = heading.start() if heading else len(whole)
    return whole[:end], whole[end:]


def descriptions(cell: NotebookNode) -> Iterator[str]:
    """What those who cannot see its pictures are told: the words that stand in for a picture where it cannot be shown,
    which pdf.py hands on. `<Figure size ...>` tells nothing."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if any(kind in data for kind in PICTURES):
            words = data.get("text/plain", "")
            yield "" if words.startswith("<") else words
    if cell.cell_type == "markdown":
        yield from re.findall(r"!\[([^\]]*)\]\(", cell.source)


def counts_of(notebook: NotebookNode) -> Counts:
    cells = notebook.cells
    texts = [text for cell in cells for text in texts_of(cell)]
    main, appendix = map(count_words, main_and_appendix(texts))
    code = [cell for cell in cells if cell.cell_type == "code"]
    captioned = [cell for cell in code if any(map(CAPTION.match, markdown_outputs(cell)))]
    captions = [text for cell in captioned for text in markdown_outputs(cell)]
    shown = [lines_of(cell) for cell in code if is_shown(cell)]
    words_of_pictures = [words for cell in cells for words in descriptions(cell)]
    return Counts(
        words=main,
        minutes=round(main / WORDS_PER_MINUTE),
        words_of_appendix=appendix,
        longest_caption=max(map(count_words, captions), default=0),
        longest_paragraph=max((count_words(part) for text in texts for part in paragraphs(text)), default=0),
        median_lines=statistics.median(shown or [0]),
        most_lines=max(map(lines_of, code), default=0),
        set_up_lines=shown[0] if shown else 0,
        captions=len(captions),
        captions_open=sum(map(is_shown, captioned)),
        pictures=len(words_of_pictures),
        pictures_without_words=sum(not words.strip() for words in words_of_pictures),
    )


# --- the command -----------------------------------------------------------------------------------------------------


def table(paths: Sequence[Path]) -> str:
    """A row for each count, a column for each notebook."""
    found = [counts_of(read_notebook(path)) for path in paths]
    rows = [("", *(path.stem for path in paths))]
    rows += [
        (field.name.replace("_", " "), *(f"{getattr(c, field.name):,g}" for c in found)) for field in fields(Counts)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))])
        for first, *rest in rows
    )


def main() -> None:
    parser = Parser(prog="readers.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", default=NOTEBOOKS, help="paths or names; by default all, as stored")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        print(table([find_notebook(name) for name in arguments.notebooks]))


if __name__ == "__main__":
    main()
