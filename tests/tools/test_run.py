"""The runner, on notebooks of two cells: what it says, what it keeps, and what it gives back."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pymupdf
import pytest
import run
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

MAKEFILE = Path(run.__file__).parents[2] / "Makefile"
FIGURE = """%matplotlib inline
import matplotlib.pyplot as plt
plt.figure(figsize=(13, 4))
plt.imshow([[0, 1], [1, 0]])
plt.show()"""
SLOW = "open('kernel', 'w').write(str(os.getpid()))\ntime.sleep(60)"
CAPTION = "from IPython.display import Markdown\nMarkdown('**Figure 1.** Four squares.')"


@pytest.fixture
def folder(tmp_path):
    """A fine notebook, one that fails in its second cell, one that takes a minute."""
    notebooks = {
        "fine": [new_markdown_cell("# Fine"), new_code_cell(FIGURE), new_code_cell(CAPTION)],
        "failing": [new_code_cell("nothing = 0"), new_code_cell("1 / nothing")],
        "slow": [new_code_cell("import os, time"), new_code_cell(SLOW)],
    }
    for name, cells in notebooks.items():
        nbformat.write(new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    return tmp_path


def start(folder, *arguments):
    """A run of its own that keeps its copies in `folder`; it hears Ctrl-C even if the tests run in the background."""
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "import run; run.REPORT = run.Path('report'); run.TIMINGS = run.Path('report/timings.json'); run.main()"
    environment = os.environ | {"PYTHONPATH": str(Path(run.__file__).parent)}
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)


def test_a_failure_is_shown_and_what_is_fine_is_kept(folder):
    process = start(folder, "failing.ipynb", "fine.ipynb", "--output", "some.pdf")
    printed, complaint = process.communicate()
    assert process.returncode == 1
    assert "failing.ipynb failed in cell 2" in complaint and "1 / nothing" in complaint
    assert "ZeroDivisionError: division by zero" in complaint and "\x1b" not in complaint
    assert complaint.rstrip().endswith("Failed: failing.ipynb.")
    assert "fine.ipynb (2 of 2)  cell 1 of 3  0." in printed and "first run" in printed
    assert "The report is some.pdf" in printed
    assert sorted(path.name for path in (folder / "report").iterdir()) == ["fine.ipynb", "timings.json"]
    assert "because a cell failed: failing.ipynb" in " ".join(pymupdf.open(folder / "some.pdf")[0].get_text().split())
    figures = [image for page in pymupdf.open(folder / "some.pdf") for image in page.get_image_info()]
    assert figures and all(dots_per_inch(image) >= 200 for image in figures)
    stored = nbformat.read(folder / "fine.ipynb", as_version=4)
    assert not stored.cells[1].outputs  # only the copy was run


def dots_per_inch(image):
    left, _, right, _ = image["bbox"]
    return image["width"] / (right - left) * 72


def test_ctrl_c_stops_the_kernel_and_leaves_what_was_finished(folder):
    process = start(folder, "fine.ipynb", "slow.ipynb")
    while process.poll() is None and not ((folder / "kernel").exists() and (folder / "kernel").read_text()):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=40)
    assert process.returncode == 1
    assert complaint == "Stopped in slow.ipynb, cell 2. Finished: 1 of 2.\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "kernel").read_text()), 0)  # is it still there?
    nbformat.read(folder / "report" / "fine.ipynb", as_version=4)
    json.loads((folder / "report" / "timings.json").read_text())


def test_a_path_that_does_not_exist_is_named_in_one_sentence(monkeypatch):
    monkeypatch.setattr("sys.argv", ["run.py", "nosuch.ipynb"])
    with pytest.raises(SystemExit, match=r"^run.py: 'nosuch.ipynb' does not exist; the notebooks are [^\n]*\.$"):
        run.main()


def test_what_is_left_comes_from_the_last_run(folder, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(run.time, "time", lambda: now)
    paths = [folder / "slow.ipynb", folder / "failing.ipynb"]
    progress = run.Progress(paths, {})
    progress.start_cell(paths[0], 0)
    assert "first run" in str(progress)
    progress.timings = {run.digest("import os, time"): 6, run.digest(SLOW): 60, run.digest("nothing = 0"): 30}
    assert progress.minutes_left() == "at least 1.6 min left"  # one cell has never been run
    progress.timings[run.digest("1 / nothing")] = 12
    progress.start_cell(paths[0], 1)
    now += 30
    assert str(progress) == "slow.ipynb (1 of 2)  cell 2 of 2  0.5 min, about 1.2 min left"
    now += 300  # it takes longer than last time
    assert progress.minutes_left() == "about 0.7 min left"
    progress.end_cell()
    assert progress.timings[run.digest(SLOW)] == 330


def make(folder, *arguments):
    command = ["make", "--no-print-directory", "-f", str(MAKEFILE), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_make_passes_on_what_it_is_asked_for(tmp_path):
    (tmp_path / ".venv").mkdir()
    asked = make(tmp_path, "--dry-run", "--assume-old=.venv/.ready", "report", "CODE=1", "NOTEBOOKS=problem1 problem2")
    assert "notebooks/tools/run.py problem1 problem2 --code" in asked
    assert "--code" not in make(tmp_path, "--dry-run", "--assume-old=.venv/.ready", "report", "CODE=0")
    assert make(tmp_path, "--eval=show: ; @echo quick: $$QUICK", "show", "QUICK=1") == "quick: 1\n"


def test_make_clean_removes_what_was_made_and_nothing_that_was_written(tmp_path):
    made = "report/a.ipynb report-quick/a.ipynb report.pdf report-quick.pdf problem1/results/x problem2/results-quick/x"
    made += " .mypy_cache/x build/lib/x a.egg-info/x tests/__pycache__/x notebooks/.ipynb_checkpoints/a.ipynb"
    written = "notebooks/a.ipynb report-of-mine.pdf problem1/published/x problem1/results.py"
    for name in (made + " " + written).split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    make(tmp_path, "clean")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == sorted(
        written.split()
    )


def test_make_help_has_a_line_for_every_target(tmp_path):
    (phony,) = re.findall(r"^\.PHONY: (.*)", MAKEFILE.read_text(), re.M)
    lines = make(tmp_path, "help").splitlines()
    assert sorted(line.split()[1] for line in lines) == sorted(phony.split())
    assert all(re.match(r"make [a-z-]+ +\w.{10}", line) for line in lines)


def test_make_test_runs_every_check(tmp_path):
    (tmp_path / ".venv").mkdir()
    commands = make(tmp_path, "--dry-run", "--assume-old=.venv/.ready", "test")
    for command in ("ruff check .", "ruff format --check .", "/mypy\n", " tests notebooks"):
        assert command in commands
    for option in ("-n 2", "--dist loadfile", "--nbval "):
        assert option in commands
