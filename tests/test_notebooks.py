"""What every notebook promises, read from the stored file."""

import ast
import re
import sys
from pathlib import Path

import nbformat
import pytest
from pdf import CAPTION
from readers import counts_of, markdown_outputs

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
WRITTEN = ("problem1", "problem2", "reports")  # the limits below are theirs
WORDS = {"problem1": 2_000, "problem2": 2_300, "reports": 1_200}  # of the main text, at most


def python_of(source):
    return "\n".join(line for line in source.split("\n") if not line.startswith(("%", "!")))


def code_cells(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_is_stored_as_run_from_top_to_bottom(path):
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
    assert path.stat().st_size < 3e6


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_defines_nothing_that_belongs_in_a_module(path):
    source = "\n".join(python_of(cell.source) for cell in code_cells(path))
    assert not [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_without_the_install_the_first_cell_says_what_to_run(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "problem1", None)  # as if it were not installed
    with pytest.raises(ModuleNotFoundError, match="Run `make setup`"):
        exec(python_of(code_cells(path)[0].source), {})


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_code_of_a_caption_is_collapsed(path):
    """And whatever makes a caption is marked as one."""
    for cell in code_cells(path):
        caption = any(map(CAPTION.match, markdown_outputs(cell)))
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        assert not caption or "caption" in cell.metadata.get("tags", []), cell.source
        assert hidden == ("caption" in cell.metadata.get("tags", [])), cell.source


def test_no_number_stands_in_the_text_that_is_not_computed():
    """Decimal fractions belong to results, and results are printed by cells."""
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                words = cell.source.replace("0.01", "")  # the tolerance that the assignment sets
                assert not re.search(r"\d\.\d", words), cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_an_explorer_is_stored_without_its_widgets_and_not_compared(path):
    for cell in code_cells(path):
        tags = cell.metadata.get("tags", [])
        assert ("explorer" in tags) == ("nbval-skip" in tags) == ("Explorer(" in cell.source), cell.source
        assert "explorer" not in tags or cell.outputs == []


# --- written for their readers ---------------------------------------------------------------------------------------


@pytest.fixture(params=WRITTEN)
def written(request):
    (path,) = (path for path in NOTEBOOKS if path.stem == request.param)
    return nbformat.read(path, as_version=4)


@pytest.fixture
def counted(written):
    return counts_of(written)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_main_text_is_no_longer_than_a_reader_has_patience(name):
    (path,) = (path for path in NOTEBOOKS if path.stem == name)
    found = counts_of(nbformat.read(path, as_version=4))
    assert 0 < found.words <= WORDS[name] and found.words_of_appendix > 0


def test_the_reading_time_is_that_of_its_words(written, counted):
    assert f"Reading takes {counted.minutes} minutes" in written.cells[0].source


def test_captions_and_paragraphs_are_short(counted):
    assert 0 < counted.longest_caption <= 40 and counted.longest_paragraph <= 90


def test_code_is_short_and_the_set_up_five_lines(counted):
    assert counted.median_lines <= 5 and counted.most_lines <= 20 and counted.set_up_lines <= 5


def test_captions_are_collapsed_and_every_picture_has_words(counted):
    assert counted.captions > 0 and counted.captions_open == 0
    assert counted.pictures > 0 and counted.pictures_without_words == 0


def test_the_set_up_imports_modules_not_names(written):
    source = next(c.source for c in written.cells if c.cell_type == "code" and not c.metadata.get("jupyter"))
    imports = [node for node in ast.walk(ast.parse(python_of(source))) if isinstance(node, ast.ImportFrom)]
    assert {node.module for node in imports} <= {
        "problem1",
        "problem1.shared",
        "problem2",
        "course",
        "problem1.program",
    }


def test_links_within_a_notebook_lead_to_headings(written):
    """JupyterLab's address of a heading is its text with hyphens for spaces."""
    texts = [text for cell in written.cells for text in [cell.source, *markdown_outputs(cell)]]
    headings = {
        heading.strip().replace(" ", "-")
        for cell in written.cells
        if cell.cell_type == "markdown"
        for heading in re.findall(r"^#+ (.*)$", cell.source, re.M)
    }
    linked = {target for text in texts for target in re.findall(r"\]\(#([^)]*)\)", text)}
    assert linked and linked <= headings, linked - headings


def test_figures_and_tables_are_numbered_in_their_order_and_mentioned_ones_exist(written):
    texts = [
        text for cell in written.cells for text in [*markdown_outputs(cell), cell.source * (cell.cell_type != "code")]
    ]
    for kind in ("Figure", "Table"):
        own = [int(n) for text in texts for n in re.findall(rf"^\*\*{kind} (\d+)\.\*\*", text)]
        assert own == list(range(1, len(own) + 1)) and own
        mentioned = {int(n) for text in texts for n in re.findall(rf"\b{kind}s? (\d+)", text)}
        assert mentioned <= set(own), mentioned - set(own)
