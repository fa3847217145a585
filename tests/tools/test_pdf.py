"""The PDF, read back: it holds what the stored notebooks hold, and nothing is cut."""

import re
import subprocess
from itertools import pairwise

import nbformat
import pandas as pd
import pdf
import pymupdf
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from report_text import NOTEBOOKS, numbered

CENTIMETRE = 72 / 2.54


def squeezed(text):
    """Without white space and what cannot be seen, and with straight quotes."""
    text = text.translate(str.maketrans("‘’“”", "''\"\""))  # noqa: RUF001
    return "".join(c for c in text if c.isprintable() and c != " ")


def unhyphenated(text):
    """Also without hyphens, some of which come from a broken line; before a number they have become a minus sign."""
    return re.sub("[‐−-]", "", squeezed(text))  # noqa: RUF001


def inside_of(page):
    """The page without its header and its number, which stand in the margins."""
    return pymupdf.Rect(0, 2.2 * CENTIMETRE, page.rect.width, page.rect.height - 2.1 * CENTIMETRE)


def text_of(document, pages=None):
    return "\n".join(page.get_text(clip=inside_of(page)) for page in pages or document)


def cells(path):
    return nbformat.read(path, as_version=4).cells


def outputs(path, mime_type):
    return [
        output["data"][mime_type]
        for cell in cells(path)
        for output in cell.get("outputs", [])
        if mime_type in output.get("data", {})
    ]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    output = tmp_path_factory.mktemp("pdf") / "book.pdf"
    pdf.write_pdf(NOTEBOOKS, output)
    return pymupdf.open(output)


@pytest.fixture(scope="module")
def book_with_code(tmp_path_factory):
    output = tmp_path_factory.mktemp("pdf") / "book.pdf"
    pdf.write_pdf(NOTEBOOKS, output, code=True)
    return pymupdf.open(output)


@pytest.fixture(scope="module")
def words(book):
    return squeezed(text_of(book))


def small_pdf(folder, *notebook_cells, **options):
    """A PDF of one small notebook."""
    nbformat.write(new_notebook(cells=list(notebook_cells)), folder / "small.ipynb")
    pdf.write_pdf([folder / "small.ipynb"], folder / "small.pdf", **options)
    return pymupdf.open(folder / "small.pdf")


def result(**data):
    return new_output("display_data", data={name.replace("_", "/"): content for name, content in data.items()})


def test_title_page_and_contents(book):
    front = book[0].get_text()
    assert " ".join(front.split()).startswith(pdf.TITLE)
    assert re.search(r"\d{1,2} \w+ 20\d\d", front)
    contents = {(level, squeezed(title)): page for level, title, page in book.get_toc()}
    for number, path in enumerate(NOTEBOOKS, 1):
        title = re.search(r"^# (.*)", cells(path)[0].source)[1]
        page = contents[1, squeezed(title)]
        assert squeezed(title) in squeezed(text_of(book, [book[page - 1]]))
        assert re.search(rf"{re.escape(squeezed(title))}\.*{page}", squeezed(text_of(book, book.pages(1, 3))))
        sections = [re.match(r"## (\d+)\. (.*)", cell.source) for cell in cells(path) if cell.cell_type == "markdown"]
        assert all((2, squeezed(f"{number}.{found[1]} {found[2]}")) in contents for found in sections if found)
    assert 5 * len(NOTEBOOKS) < len(book) < 30 * len(NOTEBOOKS)


def test_the_first_page_has_the_answers_and_a_figure_of_each_problem(book):
    front = squeezed(book[0].get_text())
    for chapter, path in enumerate(NOTEBOOKS[:2], 1):
        short = [cell for cell in cells(path) if "summary" in cell.metadata.get("tags", [])]
        texts = [out.data["text/markdown"] for cell in short for out in cell.outputs if "text/markdown" in out.data]
        answers = [row.split("|")[2] for text in texts for row in text.splitlines() if row.startswith("|")]
        assert len(answers) > 5
        for answer in answers[2:]:
            assert squeezed(re.sub(r"\*", "", numbered(answer, chapter))) in front
    assert len(book[0].get_images()) == 2


def test_appendices_stand_after_a_main_text_of_at_most_26_pages(book):
    chapters = [(title, page) for level, title, page in book.get_toc() if level == 1]
    appendices = [page for title, page in chapters if title.startswith("Appendix: ")]
    assert len(appendices) == len(NOTEBOOKS) and len(chapters) == 2 * len(NOTEBOOKS)
    assert all(page < min(appendices) for title, page in chapters[: len(NOTEBOOKS)])
    assert min(appendices) - 1 <= 26


def test_figures_and_tables_are_numbered_by_chapter_without_gaps(book, words):
    for chapter, path in enumerate(NOTEBOOKS, 1):
        found = {"Figure": [], "Table": []}
        for caption in outputs(path, "text/markdown"):
            if label := re.match(r"\*\*((?:Figure|Table).*?)\.\*\*", caption):
                assert squeezed(f"{numbered(label[1], chapter)}.") in words
                for word, numbers in re.findall(
                    r"(Figure|Table)s? ((?:\d+|, (?=\d)| and (?=\d)| to (?=\d))+)", label[1]
                ):
                    found[word] += map(int, re.findall(r"\d+", numbers))
        for word, numbers in found.items():
            assert numbers == list(range(1, len(numbers) + 1)), (path.name, word)


def test_every_caption_and_every_text_is_there(words):
    words = unhyphenated(words)
    for chapter, path in enumerate(NOTEBOOKS, 1):
        texts = outputs(path, "text/markdown") + [cell.source for cell in cells(path) if cell.cell_type == "markdown"]
        for paragraph in re.split(r"\n\s*\n", "\n\n".join(texts)):
            if not re.search(r"[$`\[|]|^\s*([-\d#])", paragraph):
                plain = re.sub(r"\*+", "", numbered(paragraph, chapter))
                assert unhyphenated(plain) in words, paragraph


def test_every_table_has_the_numbers_of_the_notebook(words):
    for chapter, path in enumerate(NOTEBOOKS, 1):
        tables = [html for html in outputs(path, "text/html") if "<table" in html]
        assert tables
        for html in tables:
            for row in BeautifulSoup(html, "html.parser").select("tbody tr"):
                tall, flat = (row.find_all(["th", "td"], rowspan=spans) for spans in (True, False))
                line = "".join(numbered(cell.get_text(), chapter) for cell in flat)
                assert squeezed(line) in words, line
                assert all(squeezed(cell.get_text()) in words for cell in tall)  # typst draws these when a row is done


def test_a_figure_stands_on_the_page_of_its_caption(book):
    figures = [
        page for page in book if re.search(r"^(Table.*, |Table.* and )?Figures? \d+\.\d+", page.get_text(), re.M)
    ]
    assert len(figures) > 10
    for page in figures:
        for block in page.get_text("blocks"):
            if re.match(r"(Table [\d.]+(,| and) )?Figures? \d+\.\d+.*?\.\s", block[4]) and block[0] > 2.2 * CENTIMETRE:
                assert page.get_image_info(), block[4][:60]


def test_nothing_is_cut(book, book_with_code):
    for document in (book, book_with_code):
        for page in document.pages(2):
            for left, _, right, bottom, word, *_ in page.get_text("words"):
                assert left / CENTIMETRE > 1.9 and right / CENTIMETRE < 19.1, (page.number, word)
                assert bottom / CENTIMETRE < 28.9, (page.number, word)


def test_no_heading_stands_alone_at_the_end_of_a_page(book, book_with_code, tmp_path):
    many = small_pdf(tmp_path, *(new_markdown_cell(f"## Heading\n\n{'A few words. ' * (9 + n)}") for n in range(60)))
    for page in [*book.pages(2), *book_with_code.pages(2), *many.pages(3)]:
        blocks = page.get_text("dict", clip=inside_of(page))["blocks"]
        spans = [span for block in blocks for line in block.get("lines", []) for span in line["spans"]]
        lowest = max(spans, key=lambda span: span["bbox"][3])
        assert not (lowest["size"] > 11 and "Bold" in lowest["font"]), (page.number, lowest["text"])


def test_all_characters_have_a_glyph(book):
    characters = {c for page in book for span in page.get_texttrace() for c, glyph, *_ in span["chars"] if glyph == 0}
    assert not characters
    assert set("±×¹–≤") & set(text_of(book)) >= set("±¹")  # noqa: RUF001


def test_mathematics_is_typeset(words, book_with_code):
    for raw in ("\\mathrm", "\\frac", "\\sum", "\\begin", "$$", "_{", "^{"):
        assert raw not in words, raw
    assert "softmax" in words and "attention" in words


def test_code_is_hidden_unless_asked_for(words, book_with_code):
    shown = squeezed(text_of(book_with_code))
    for path in NOTEBOOKS:
        for cell in cells(path):
            if cell.cell_type == "code" and "explorer" not in cell.metadata.get("tags", []):
                first, last = squeezed(cell.source)[:40], squeezed(cell.source)[-40:]
                assert first in shown and last in shown, cell.source
    set_up = "adder,log=published.published_adder()"
    assert set_up in shown and set_up not in words


def test_explorers_and_progress_bars_are_left_out(tmp_path):
    widget = new_output("display_data", data={pdf.WIDGET: {}, "text/plain": "a slider"})
    cells = [
        new_code_cell("turn()", metadata={"tags": ["explorer"]}, outputs=[result(text_plain="a turning wheel")]),
        new_code_cell("run()", outputs=[widget, new_output("stream", text="10%\r50%\rdone\n")]),
    ]
    text = text_of(small_pdf(tmp_path, *cells, code=True))
    assert "turn" not in text and "wheel" not in text and "slider" not in text and "%" not in text
    assert "run()" in text and "done" in text


def test_a_wide_table_fits_and_a_long_one_repeats_its_header(tmp_path):
    wide = pd.DataFrame([[f"0.{row}{column:03} (constant prediction)" for column in range(16)] for row in range(120)])
    wide.columns = [f"quantity number {column}" for column in range(16)]
    document = small_pdf(tmp_path, new_code_cell("wide", outputs=[result(text_html=wide.to_html())]))
    pages = [page for page in document.pages(2) if page.get_text().strip()]
    assert len(pages) > 1 and all("quantity" in page.get_text() for page in pages)
    assert squeezed("".join(map(str, wide.loc[77]))) in squeezed(text_of(document))
    for page in pages:
        words = sorted(page.get_text("words"), key=lambda word: (round(word[3]), word[0]))
        assert min(word[0] for word in words) > 1.9 * CENTIMETRE and max(word[2] for word in words) < 19.1 * CENTIMETRE
        for word, following in pairwise(words):
            assert round(word[3]) < round(following[3]) or word[2] < following[0] + 0.5, (word, following)


def test_a_link_to_a_missing_picture_or_place_does_not_stop_the_press(tmp_path):
    text = "![a lost picture](nowhere.png) and [a place](#nowhere), [a file](../nowhere.py) and `$x` #hash @name"
    found = text_of(small_pdf(tmp_path, new_markdown_cell(text)))
    assert "a lost picture and a place, a file and $x #hash @name" in " ".join(found.split())


def test_a_notebook_that_is_missing_or_none_is_named_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "none.ipynb").write_text("{}")
    for name, reason in (
        ("nosuch.ipynb", "does not exist; the notebooks are"),
        (tmp_path / "none.ipynb", "is not a note"),
    ):
        monkeypatch.setattr("sys.argv", ["pdf.py", str(name)])
        with pytest.raises(SystemExit, match=rf"^pdf.py: '?{re.escape(str(name))}'? {reason}[^\n]*\.$"):
            pdf.main()


def test_a_choice_of_notebooks_does_not_take_the_place_of_the_report():
    assert pdf.default_output(NOTEBOOKS).name == "report.pdf"
    assert pdf.default_output(NOTEBOOKS[:1]) == pdf.REPORT / f"{NOTEBOOKS[0].stem}.pdf"
    assert pdf.find_notebook("problem1") == pdf.find_notebook("problem1.ipynb") == NOTEBOOKS[0]


def test_the_title_page_names_the_commit_and_local_changes_but_nothing_outside_of_git(tmp_path, monkeypatch):
    monkeypatch.setattr(pdf, "ROOT", tmp_path)
    assert pdf.state_of_the_code() == []
    git = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "empty"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    assert re.fullmatch(r"commit [0-9a-f]{7,}", *pdf.state_of_the_code())
    (tmp_path / "new").touch()
    assert re.fullmatch(r"commit [0-9a-f]{7,}, with local changes", *pdf.state_of_the_code())
    monkeypatch.setattr(pdf, "ROOT", tmp_path / "unpacked")  # in a folder of somebody else's repository
    pdf.ROOT.mkdir()
    assert pdf.state_of_the_code() == []
