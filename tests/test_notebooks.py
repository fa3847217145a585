"""What every notebook promises, read from the stored file."""

import ast
import re
import sys
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


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
        caption = "Markdown(" in cell.source and re.search(r"\*\*(Figure|Table)s? \d", cell.source)
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
