"""Functions that end or hang are told, and a zip that the grader would refuse takes no other's place."""

import sys
import zipfile

import pytest
from course.edition.handin import submission as module

from tests.course.edition.notebooks import ADD, notebook, student_folder, write_results


@pytest.fixture
def folder(tmp_path):
    return student_folder(tmp_path / "student")


@pytest.fixture
def earlier(folder):
    """A zip from yesterday."""
    (folder / "problem1.ipynb").write_text(notebook(ADD))
    (folder / "hand-in.zip").write_text("yesterday's")
    return folder


def names(path):
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_a_function_that_ends_or_hangs_is_told(folder, monkeypatch, capsys):
    (folder / "problem1.ipynb").write_text(notebook("import os\ndef add(a, b):\n    os._exit(0)"))
    (folder / "problem2.ipynb").write_text(notebook("def scaled(a, b):\n    while True: pass"))
    monkeypatch.setattr(module, "SECONDS", 4)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "checks", raising=False)
    module.submit(folder, "ada")
    sys.modules.pop("checks"), sys.modules.pop("given")
    out = capsys.readouterr().out
    assert "- add: It ended the process" in out and "- scaled: It took longer than 4 s" in out
    assert "x discussion: right" in out and (folder / "ada.zip").exists()


def test_a_zip_that_the_grader_would_refuse_is_not_written(earlier, tmp_path, monkeypatch):
    monkeypatch.setattr("course.edition.handin.unpack.FILES", 0)
    with pytest.raises(module.Refused, match="0 are allowed"):
        module.write_zip(earlier, "hand-in", tmp_path, with_report=False)
    assert (earlier / "hand-in.zip").read_text() == "yesterday's" and not list(earlier.glob(".*"))


def test_what_is_too_large_is_left_out_and_told(earlier, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FILE_BYTES", 1_000)
    write_results(earlier)
    (earlier / "problem1" / "results" / "weights.pt").write_bytes(b"0" * 2_000)
    told = module.write_zip(earlier, "hand-in", tmp_path, with_report=False)
    assert told == [
        "problem1/results/weights.pt is too large and is left out."
    ] and "problem1/results/weights.pt" not in names(earlier / "hand-in.zip")
