"""One command: what is right, what is missing, the PDF, and one zip that the grader takes. Nothing is lost."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from course.edition.handin import submit as module
from course.edition.handin.unpack import unpack

from tests.course.edition.notebooks import ADD, SCALED, STANDIN, notebook

SUBMIT = "from handin.submit import main\nif __name__ == '__main__':\n    main()\n"


def student_folder(folder):
    """As the handout makes it, with the stand-in's checks."""
    shutil.copytree(STANDIN, folder)
    shutil.copytree(Path(module.__file__).parent, folder / "handin")
    (folder / "submit.py").write_text(SUBMIT)
    return folder


def with_output(text):
    """The notebook, as if it had been run and saved."""
    content = json.loads(text)
    output = {"output_type": "stream", "name": "stdout", "text": "1"}
    content["cells"][0] |= {"outputs": [output], "execution_count": 1}
    return json.dumps(content)


def write_results(folder):
    for pattern, count in module.FILES.items():
        for number in range(count):
            path = folder / pattern.replace("*", str(number))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")


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
    (folder / "results" / ".DS_Store").write_text("")
    (folder / "results" / "link").symlink_to("/etc/passwd")
    (folder / "audit").mkdir()
    (folder / "audit" / "__init__.py").write_text("")
    (folder / "audit" / "__main__.py").write_text("import sys\nprint('a finding about', sys.argv[1])")
    done = submit(folder, "ada")
    assert done.returncode == 0, done
    for line in ("x add: right", "x scaled: right", "x discussion: right", "- a finding about results"):
        assert line in done.stdout
    assert "What is missing" not in done.stdout and done.stdout.endswith("ada.zip is written: complete.\n")
    expected = {"problem1.ipynb", "problem2.ipynb", "report.pdf", "my_helper.py"}
    found = names(folder / "ada.zip")
    assert expected < found and all(name.startswith("results/") for name in found - expected)
    assert len(found) == 4 + sum(module.FILES.values())
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
        "- results/problem1/training_log.json is missing.",
        "- results/problem1/attention_patterns/example_*.png: 0 of 12 files.",
        "hand-in.zip is written, though something is missing.",
    ):
        assert line in done.stdout, done.stdout
    assert names(folder / "hand-in.zip") == {"problem1.ipynb", "report.pdf"}


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


def test_a_zip_that_the_grader_would_refuse_is_not_written(earlier, monkeypatch):
    monkeypatch.setattr("course.edition.handin.unpack.FILES", 0)
    with pytest.raises(module.Refused, match="0 are allowed"):
        module.write_zip(earlier, "hand-in", with_report=False)
    assert (earlier / "hand-in.zip").read_text() == "yesterday's" and not list(earlier.glob(".*"))


def test_what_is_too_large_is_left_out_and_told(earlier, monkeypatch):
    monkeypatch.setattr(module, "FILE_BYTES", 1_000)
    write_results(earlier)
    (earlier / "results" / "weights.pt").write_bytes(b"0" * 2_000)
    path, told = module.write_zip(earlier, "hand-in", with_report=False)
    assert told == ["results/weights.pt is too large and is left out."] and "results/weights.pt" not in names(path)


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a/b"])
def test_a_name_is_a_name(earlier, name):
    done = submit(earlier, name)
    assert done.returncode == 1 and "is not a name for a file" in done.stderr
