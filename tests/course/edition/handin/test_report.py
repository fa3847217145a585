"""Saved notebooks become a PDF that holds their words, formulas, code, outputs and figures."""

import base64
import json

import pymupdf
import pytest
from course.edition.handin.report import NoReport, write_pdf

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def notebook(path, *cells):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def words(source):
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source, *outputs):
    return {"cell_type": "code", "metadata": {}, "source": source, "execution_count": 1, "outputs": outputs}


def test_all_of_a_notebook_is_in_it(tmp_path):
    (tmp_path / "nb").mkdir()
    (tmp_path / "nb" / "local.png").write_bytes(base64.b64decode(PIXEL))
    figure = {"output_type": "display_data", "metadata": {}, "data": {"image/png": PIXEL, "text/plain": "<Figure>"}}
    printed = {"output_type": "stream", "name": "stdout", "text": ["printed # $ [words\n"]}
    one = notebook(
        tmp_path / "nb" / "problem1.ipynb",
        words("# Carries\nWhere $x^2 + \\frac{1}{2}$, | is no table. ![a picture](local.png)"),
        code("def f(): return '#1 $y$ ['", printed, figure),
    )
    two = notebook(tmp_path / "nb" / "problem2.ipynb", words("# Lengths"))
    write_pdf([one, two], tmp_path / "out.pdf")
    with pymupdf.open(tmp_path / "out.pdf") as pdf:
        text = "\n".join(page.get_text() for page in pdf)
        assert sum(len(page.get_image_info()) for page in pdf) == 2
        assert len(pdf) == 2 and "Lengths" in pdf[1].get_text()
    for part in ("Carries", "def f(): return '#1 $y$ ['", "printed # $ [words", "is no table"):
        assert part in text
    assert sorted(path.name for path in (tmp_path / "nb").iterdir()) == [
        "local.png",
        "problem1.ipynb",
        "problem2.ipynb",
    ]


def test_what_cannot_be_set_is_one_sentence(tmp_path):
    bad = tmp_path / "problem1.ipynb"
    bad.write_text("{")
    with pytest.raises(NoReport, match=r"^problem1.ipynb cannot be read by pandoc: [^\n]*\.$"):
        write_pdf([bad], tmp_path / "out.pdf")
    assert not (tmp_path / "out.pdf").exists()
