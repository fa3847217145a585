"""Notebooks, as they are saved, -> one PDF. pandoc reads them, typst sets them; both come with pip."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pypandoc
import typst


class NoReport(Exception):
    """Its sentence says why."""


def write_pdf(notebooks: Sequence[Path], output: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chapters: list[str] = []
        for notebook in notebooks:
            try:
                chapters.append(to_typst(notebook, folder, is_first=not chapters))
            except (RuntimeError, OSError) as error:
                raise NoReport(f"{notebook.name} cannot be read by pandoc: {first_line(error)}.") from None
        book = folder / "book.typ"
        book.write_text("\n\n#pagebreak()\n\n".join(chapters), encoding="utf-8")
        try:
            typst.compile(str(book), str(output), root=str(folder), ignore_system_fonts=True)
        except (typst.TypstError, OSError) as error:
            raise NoReport(f"The notebooks cannot be typeset: {first_line(error)}. Look at the formulas.") from None


def to_typst(notebook: Path, folder: Path, is_first: bool) -> str:
    """Figures go to `folder`; the first chapter brings the looks of all."""
    options = ["--extract-media=.", f"--resource-path={notebook.parent.resolve()}", "--quiet"]
    options += ["--standalone", "--variable=papersize:a4"] if is_first else []
    return str(pypandoc.convert_file(notebook.resolve(), "typst", "ipynb", options, cworkdir=str(folder)))


def first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".")
