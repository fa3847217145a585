"""Make one PDF of notebooks that have been run: `python notebooks/tools/pdf.py [notebook ...] [--code]`.

A notebook becomes Markdown with pieces of Typst in between, pandoc makes Typst of the Markdown, and typst the PDF; both
come with pip. What it looks like is written in report.typ. Figures are as sharp as the notebook holds them: the copies
that run.py makes hold vectors.
"""

import base64
import datetime
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat
import typst
from bs4 import BeautifulSoup
from nbformat import NotebookNode
from report_tables import table
from report_text import NOTEBOOKS, chapter_of, markdown, raw, string, to_typst

from problem1.shared.commands import Parser, one_sentence, parse_path
from problem1.shared.errors import UserError
from problem1.shared.settings import banner, quick
from problem1.shared.storage import atomic_path, check_file_path

TOOLS = Path(__file__).resolve().parent
FOLDER = TOOLS.parent  # of the notebooks
ROOT = FOLDER.parent
REPORT = ROOT / quick("report", "report-quick")  # executed copies
TITLE = "Small Transformers, understood to the last input"
SHARPEST_FIRST = {"application/pdf": ".pdf", "image/svg+xml": ".svg", "image/png": ".png", "image/jpeg": ".jpg"}
WIDGET = "application/vnd.jupyter.widget-view+json"
APPENDIX = re.compile(r"^#+ Appendix\b.*", re.MULTILINE)
WIDTHS = re.compile(r"columns: (3|\([^)]*\))")  # of a table of three columns, as pandoc guesses them
CAPTION = re.compile(r"\s*\*\*(Figure|Table)s? \d")


# --- from a name to a notebook ---------------------------------------------------------------------------------------


def find_notebook(name: str | Path) -> Path:
    """`notebooks/problem1.ipynb`, `problem1.ipynb` and `problem1` mean the same."""
    for path in (Path(name), FOLDER / name, FOLDER / f"{name}.ipynb"):
        if path.is_file():
            return path.resolve()
    raise UserError(f"{str(name)!r} does not exist; the notebooks are {', '.join(path.name for path in NOTEBOOKS)}.")


def read_notebook(path: Path) -> NotebookNode:
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError):
        raise UserError(f"{path} is not a notebook that can be read.") from None


def default_output(paths: Iterable[Path]) -> Path:
    """All notebooks: report.pdf. A choice of them does not take its place: it goes to the folder of executed copies."""
    if {path.stem for path in paths} >= {path.stem for path in NOTEBOOKS}:
        return REPORT.with_name(f"{REPORT.name}.pdf")
    return REPORT / ("-".join(path.stem for path in paths) + ".pdf")


# --- from cells to pieces of Typst ------------------------------------------------------------------------------------


def printed(text: str) -> str:
    """What a cell printed; of a progress bar, its last state."""
    lines = [line.split("\r")[-1] for line in text.rstrip().split("\n")]
    return f"printed({string(chr(10).join(lines))})"


def picture(data: bytes, suffix: str, folder: Path, description: str) -> str:
    file = folder / f"{len(list(folder.iterdir()))}{suffix}"
    file.write_bytes(data)
    return f'picture.with("{file.name}", {string(description)})'


def pieces_of(output: NotebookNode, folder: Path, chapter: int | None) -> list[tuple[bool, str]]:
    """An output as (is it text that may be a caption?, the text as Markdown or a piece of Typst), ..."""
    data = output.get("data", {})
    if output.output_type == "stream":
        return [(False, printed(output.text))] if output.text.strip() else []
    if output.output_type == "error":
        return [(False, printed(f"{output.ename}: {output.evalue}"))]
    if WIDGET in data:
        return []
    for mime_type, suffix in SHARPEST_FIRST.items():
        if mime_type in data:
            content = data[mime_type].encode() if suffix == ".svg" else base64.b64decode(data[mime_type])
            return [(False, picture(content, suffix, folder, data.get("text/plain", "")))]
    if "text/html" in data:
        html = BeautifulSoup(data["text/html"], "html.parser")
        tables = [(False, table(each, chapter)) for each in html.find_all("table")]
        for tag in html(["style", "script", "img"]):
            tag.decompose()
        return tables or [(True, raw(to_typst(str(html), "html")))]
    for mime_type in {"text/markdown", "text/latex"} & data.keys():
        return [(True, markdown(re.sub(r"^# (.*)", r"**\1**", data[mime_type]), chapter))]  # an output opens no chapter
    return [(False, printed(data["text/plain"]))] if "text/plain" in data else []


def with_pictures(cell: NotebookNode, folder: Path) -> str:
    """The text of a Markdown cell, its pictures copied to `folder`; instead of one that is not there, its words."""

    def copied(match: re.Match[str]) -> str:
        words, name = match.groups()
        attached = cell.get("attachments", {}).get(name.removeprefix("attachment:"), {})
        file = FOLDER / name
        if attached:
            mime_type, data = next(iter(attached.items()))
            return f"\n\n{raw(f'#{picture(base64.b64decode(data), SHARPEST_FIRST[mime_type], folder, words)}()')}\n\n"
        if file.is_file():
            return f"\n\n{raw(f'#{picture(file.read_bytes(), file.suffix, folder, words)}()')}\n\n"
        return words

    return re.sub(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)", copied, cell.source)


# --- from pieces to chapters ------------------------------------------------------------------------------------------


class Chapter:
    """Markdown in the making. Pieces wait for a caption: with it they become one figure that stays together."""

    def __init__(self, number: int | None, kind: str = "Chapter") -> None:
        self.number = number
        self.parts = [raw(f"#chapter({number or 'none'}, {string(kind)})")]
        self.waiting: list[str] = []

    def add_piece(self, piece: str) -> None:
        self.waiting.append(piece)

    def add_text(self, text: str) -> None:
        if CAPTION.match(text) and self.waiting:
            pictures = [place for place, piece in enumerate(self.waiting) if piece.startswith("picture")]
            stays_from = pictures[0] if pictures else len(self.waiting) - 1
            self.parts += [raw(f"#captioned(({', '.join(self.waiting)},), {stays_from})["), text, raw("]")]
            self.waiting = []
        else:
            self.add_waiting()
            self.parts.append(text)

    def add_waiting(self) -> None:
        self.parts += [raw(f"#alone({piece})") for piece in self.waiting]
        self.waiting = []

    def add_code(self, source: str, of_caption: bool) -> None:
        if not of_caption:  # the code of a caption stands above what the caption is about
            self.add_waiting()
        self.parts.append(raw(f'#raw(block: true, lang: "python", {string(source)})'))

    def __str__(self) -> str:
        self.add_waiting()
        return "\n\n".join(self.parts)


def main_and_appendix(notebook: NotebookNode) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """The cells before the heading "Appendix", and all from it on."""
    cells = notebook.cells
    begins = (place for place, cell in enumerate(cells) if cell.cell_type == "markdown" and APPENDIX.match(cell.source))
    end = next(begins, len(cells))
    return cells[:end], cells[end:]


def title_of(notebook: NotebookNode, otherwise: str) -> str:
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    titles = (title[1] for text in texts if (title := re.match("# (.*)", text)))
    return next(titles, otherwise)


def in_short(cells: Iterable[NotebookNode], number: int | None, folder: Path) -> str:
    """What the cells tagged "summary" show, for the first page."""
    found = []
    for cell in cells:
        if "summary" in cell.metadata.get("tags", []):
            pieces = [piece for output in cell.get("outputs", []) for piece in pieces_of(output, folder, number)]
            found += [piece if is_text else raw(f"#alone({piece})") for is_text, piece in pieces]
    return "\n\n".join(found)


def chapter_from(cells: Sequence[NotebookNode], title: str, chapter: Chapter, folder: Path, code: bool) -> str:
    """Cells as Markdown with pieces of Typst; files of their figures go to `folder`."""
    number = chapter.number
    if not any(re.match("# ", cell.source) for cell in cells if cell.cell_type == "markdown"):
        chapter.add_text(f"# {title}")
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if "explorer" in tags:  # there is nothing to turn on paper
            continue
        if cell.cell_type == "markdown":
            chapter.add_text(markdown(with_pictures(cell, folder), number))
        if cell.cell_type == "code" and code and cell.source.strip():
            chapter.add_code(cell.source, of_caption="caption" in tags)
        for output in cell.get("outputs", []):
            for is_text, piece in pieces_of(output, folder, number):
                (chapter.add_text if is_text else chapter.add_piece)(piece)
    return str(chapter)


# --- from chapters to the PDF ----------------------------------------------------------------------------------------


def state_of_the_code() -> list[str]:
    """The commit, and whether anything has changed since; nothing outside of git."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return []
        changed = git("status", "--porcelain")
        return [f"commit {git('rev-parse', '--short', 'HEAD')}" + (", with local changes" if changed else "")]
    except (OSError, subprocess.CalledProcessError):
        return []


def write_pdf(paths: Sequence[Path], output: Path, code: bool = False, left_out: Sequence[str] = ()) -> None:
    """The notebooks at `paths` as chapters of one PDF; `left_out` names those that should have been in it."""
    today = datetime.date.today()
    facts = [f"{today.day} {today:%B %Y}", *state_of_the_code()]
    facts += [f"Not in here, because a cell failed: {', '.join(left_out)}"] if left_out else []
    with tempfile.TemporaryDirectory() as temporary_folder:
        folder = Path(temporary_folder)
        shutil.copy(TOOLS / "report.typ", folder)
        summaries, chapters, appendices = list[str](), list[str](), list[str]()
        for place, path in enumerate(paths, 1):
            number = chapter_of(path.stem, len(NOTEBOOKS) + place) if len(paths) > 1 else None
            notebook = read_notebook(path)
            title, (cells, further) = title_of(notebook, path.stem), main_and_appendix(notebook)
            if short := in_short(cells, number, folder):
                summaries.append(re.sub(WIDTHS, "columns: (29%, 1fr, auto)", to_typst(f"**{title}**\n\n{short}")))
            chapters.append(to_typst(chapter_from(cells, title, Chapter(number), folder, code)))
            if further:
                appendix = chapter_from(further, "Appendix", Chapter(number, "Appendix to chapter"), folder, code)
                appendices.append(to_typst(APPENDIX.sub(f"# Appendix: {title}", appendix, count=1)))
        strings = "".join(f"{string(fact)}, " for fact in facts)
        told = f"title: {string(TITLE)}, facts: ({strings}), warning: {string(banner())}, summary: summary"
        book = folder / "book.typ"
        summary = "\n\n".join(["#let summary = [", *summaries, "]"] if summaries else ["#let summary = none"])
        show = f"#show: report.with({told})"
        book.write_text("\n\n".join(['#import "report.typ": *', summary, show, *chapters, *appendices]))
        try:
            with atomic_path(output) as temporary:
                typst.compile(str(book), str(temporary), root=str(folder), ignore_system_fonts=True)
        except typst.TypstError as error:
            raise UserError(f"{', '.join(path.name for path in paths)} cannot be typeset: {error}.") from None


def main() -> None:
    parser = Parser(prog="pdf.py", description="Make one PDF of notebooks that have been run.")
    parser.add_argument("notebooks", nargs="*", default=NOTEBOOKS, help="paths or names; by default all, as stored")
    parser.add_argument(
        "--output", type=parse_path, help="the PDF; by default report.pdf, a choice of notebooks in report/"
    )
    parser.add_argument("--code", action="store_true", help="show the code too")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        paths = [find_notebook(name) for name in arguments.notebooks]
        output = Path(arguments.output or default_output(paths))
        check_file_path(output)
        write_pdf(paths, output, arguments.code)
    print(output)


if __name__ == "__main__":
    main()
