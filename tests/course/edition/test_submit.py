"""One command: what is right, what is missing, the PDF, and one zip that the grader takes. Nothing is lost."""

import subprocess
import sys
import zipfile

import pytest
from course.edition.handin.submission import FILES
from course.edition.handin.unpack import unpack

from tests.course.edition.notebooks import ADD, SCALED, notebook, student_folder, with_output, write_results


def submit(folder, *words):
    return subprocess.run(
        [sys.executable, "submit.py", *words], cwd=folder, capture_output=True, text=True, timeout=120
    )


def names(path):
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


@pytest.fixture
def folder(tmp_path):
    return student_folder(tmp_path / "student")


def test_a_complete_hand_in(folder, tmp_path):
    (folder / "problem1.ipynb").write_text(with_output(notebook(ADD)))
    (folder / "problem2.ipynb").write_text(with_output(notebook(SCALED)))
    (folder / "my_helper.py").write_text("")
    write_results(folder)
    (folder / "problem1" / "results" / ".DS_Store").write_text("")
    (folder / "problem1" / "results" / "link").symlink_to("/etc/passwd")
    (folder / "audit").mkdir()
    (folder / "audit" / "__init__.py").write_text("")
    (folder / "audit" / "__main__.py").write_text("import os\nprint('Found in', len(os.listdir('problem1/results')))")
    done = submit(folder, "ada")
    assert done.returncode == 0, done
    for line in ("x add: right", "x scaled: right", "x discussion: right", "\nFound in 3\n"):
        assert line in done.stdout
    assert "What is missing" not in done.stdout and done.stdout.endswith("ada.zip is written: complete.\n")
    expected = {"problem1.ipynb", "problem2.ipynb", "report.pdf", "my_helper.py"}
    found = names(folder / "ada.zip")
    assert expected < found and all("/results/" in name for name in found - expected)
    assert len(found) == 4 + sum(FILES.values())
    unpack(folder / "ada.zip", tmp_path)
    assert (tmp_path / "problem1.ipynb").read_bytes() == (folder / "problem1.ipynb").read_bytes()
    assert not list(folder.glob(".*"))


def test_what_is_missing_is_told_in_a_list_and_the_zip_is_written(folder):
    (folder / "problem1.ipynb").write_text(
        notebook("def add(a, b):\n    return a - b", text=("discussion", "*Write here.*"))
    )
    done = submit(folder)
    assert done.returncode == 1
    for line in (
        "- add: add(1, 2) gives {'value': -1}.",
        "- scaled: problem2.ipynb is missing.",
        "- discussion: The text discussion in problem1.ipynb is not written yet.",
        "- problem1.ipynb holds no outputs: run all of its cells and save it.",
        "- problem2.ipynb is missing.",
        "- problem1/results/training_log.json is missing.",
        "- problem1/results/attention_patterns/example_*.png: 0 of 12 files.",
        "hand-in.zip is written, though something is missing.",
    ):
        assert line in done.stdout, done.stdout
    assert names(folder / "hand-in.zip") == {"problem1.ipynb", "report.pdf"}


@pytest.fixture
def earlier(folder):
    """A zip from yesterday."""
    (folder / "problem1.ipynb").write_text(notebook(ADD))
    (folder / "hand-in.zip").write_text("yesterday's")
    (folder / "report.pdf").write_text("yesterday's")
    return folder


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "problem1.ipynb").unlink(), "there is nothing to hand in"),
        (lambda folder: (folder / "checks.py").write_text("x ="), "checks.py cannot be used (SyntaxError("),
        (lambda folder: (folder / "checks.py").unlink(), "checks.py cannot be used (ModuleNotFoundError("),
        (lambda folder: (folder / ".hand-in.zip").mkdir(), "Is a directory"),
    ],
)
def test_in_a_bad_state_there_is_a_sentence_and_an_earlier_zip_stays(earlier, spoil, words):
    spoil(earlier)
    done = submit(earlier)
    assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert "No zip is written; an earlier one is as it was." in done.stderr
    assert (earlier / "hand-in.zip").read_text() == "yesterday's"


def test_a_pdf_that_fails_is_missing_and_an_old_one_is_not_handed_in(earlier):
    (earlier / "problem1.ipynb").write_text("{")
    done = submit(earlier)
    assert "- report.pdf could not be made. problem1.ipynb cannot be read" in done.stdout
    assert names(earlier / "hand-in.zip") == {"problem1.ipynb"}
    assert (earlier / "report.pdf").read_text() == "yesterday's"


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a/b"])
def test_a_name_is_a_name(earlier, name):
    done = submit(earlier, name)
    assert done.returncode == 1 and "is not a name for a file" in done.stderr
