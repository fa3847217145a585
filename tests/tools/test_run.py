"""The runner, on notebooks of two cells: what it says, what it keeps, and what it gives back."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pymupdf
import pytest
import run
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.shared.processes import is_gone, until

MAKEFILE = Path(run.__file__).parents[2] / "Makefile"
FIGURE = """%matplotlib inline
import matplotlib.pyplot as plt
plt.figure(figsize=(13, 4))
plt.imshow([[0, 1], [1, 0]])
plt.show()"""
CAPTION = "from IPython.display import Markdown\nMarkdown('**Figure 1.** Four squares.')"
SLOW = """import os, subprocess, time
child = subprocess.Popen(['sleep', '120'])
open('processes of ' + name, 'w').write(f'{os.getpid()} {child.pid}')
time.sleep(120)"""
PATIENT = """import time
end = time.time() + 300
while '"I was run' not in (file.read_text() if file.exists() else ''):
    assert time.time() < end
    time.sleep(0.1)"""
COPIED, STORED = (f"from pathlib import Path\nfile = Path('{name}')" for name in ("report/fine.ipynb", "fine.ipynb"))


@pytest.fixture
def folder(tmp_path):
    """What a notebook may do: be fine, fail, lose its kernel, take a minute, or wait until the fine one is written."""
    notebooks = {
        "fine": [
            new_markdown_cell("# Fine"),
            new_code_cell(f"{FIGURE}\nprint('I was', 'run')"),
            new_code_cell(CAPTION),
        ],
        "failing": [new_code_cell("nothing = 0"), new_code_cell("1 / nothing")],
        "dying": [new_code_cell("import os"), new_code_cell("os.kill(os.getpid(), 9)")],
        "slow": [new_code_cell("name = 'slow'"), new_code_cell(SLOW)],
        "slower": [new_code_cell("name = 'slower'"), new_code_cell(SLOW)],
        "patient": [new_markdown_cell("# Patient"), new_code_cell(COPIED), new_code_cell(PATIENT)],
        "patient-in-place": [new_code_cell(STORED), new_code_cell(PATIENT)],
    }
    for name, cells in notebooks.items():
        nbformat.write(new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    return tmp_path


def start(folder, *arguments):
    """A run of its own, two notebooks at a time, that keeps its copies in `folder`; it hears Ctrl-C even if the tests
    run in the background."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import run; run.cores = lambda: 2; "
    )
    code += "run.REPORT = run.Path('report'); run.TIMINGS = run.Path('report/timings.json'); run.main()"
    environment = os.environ | {"PYTHONPATH": str(Path(run.__file__).parent)}
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)


def test_a_failure_is_shown_and_what_is_fine_is_kept(folder):
    names = [f"{name}.ipynb" for name in ("failing", "patient", "dying", "fine")]
    process = start(folder, *names, "--output", "some.pdf")
    printed, complaint = process.communicate()
    assert process.returncode == 1
    assert "failing.ipynb failed in cell 2" in complaint and "1 / nothing" in complaint
    assert "ZeroDivisionError: division by zero" in complaint and "\x1b" not in complaint
    assert "dying.ipynb failed in cell 2.\nos.kill(os.getpid(), 9)\n\nThe kernel died" in complaint
    assert complaint.rstrip().endswith("Failed: failing.ipynb, dying.ipynb.")
    assert "0.0 min, first run, so no estimate  failing cell 1 of 2  patient cell 1 of 3\n" in printed
    assert "The report is some.pdf" in printed
    assert kept_in(folder) == ["fine.ipynb", "patient.ipynb", "timings.json"]
    pages = [" ".join(page.get_text().split()) for page in pymupdf.open(folder / "some.pdf")]
    assert "because a cell failed: failing.ipynb, dying.ipynb" in pages[0]
    assert "".join(pages).rindex("Patient") < "".join(pages).rindex("Fine")  # although it was done later
    figures = [image for page in pymupdf.open(folder / "some.pdf") for image in page.get_image_info()]
    assert figures and all(dots_per_inch(image) >= 200 for image in figures)
    stored = nbformat.read(folder / "fine.ipynb", as_version=4)
    assert not stored.cells[1].outputs  # only the copy was run


def kept_in(folder):
    return sorted(path.name for path in (folder / "report").iterdir())


def dots_per_inch(image):
    left, _, right, _ = image["bbox"]
    return image["width"] / (right - left) * 72


def test_ctrl_c_stops_all_kernels_and_leaves_what_was_finished(folder):
    process = start(folder, "fine.ipynb", "slow.ipynb", "slower.ipynb", "failing.ipynb")
    notes = [folder / f"processes of {name}" for name in ("slow", "slower")]
    timings = folder / "report" / "timings.json"
    until(lambda: timings.exists() and all(note.exists() and note.read_text() for note in notes), seconds=100)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=40)
    assert process.returncode == 1
    assert complaint == "Stopped in cell 2 of slow.ipynb and cell 2 of slower.ipynb. Finished: 1 of 4.\n"
    for number in [int(number) for note in notes for number in note.read_text().split()]:
        until(lambda number=number: is_gone(number), seconds=5)
        assert is_gone(number)
    assert kept_in(folder) == ["fine.ipynb", "timings.json"]
    nbformat.read(folder / "report" / "fine.ipynb", as_version=4)
    assert run.digest(CAPTION) in json.loads(timings.read_text())


def test_ctrl_c_while_kernels_start_and_once_more_out_of_impatience(folder):
    process = start(folder, "slow.ipynb", "slower.ipynb", "failing.ipynb")
    process.stdout.readline()
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        until(lambda: process.poll() is not None, seconds=0.3)
    _, complaint = process.communicate(timeout=40)
    assert complaint == "Stopped in cell 1 of slow.ipynb and cell 1 of slower.ipynb. Finished: 0 of 3.\n"
    assert not list(folder.glob("processes of *"))


@pytest.fixture
def run_here(folder, monkeypatch):
    """Run notebooks of `folder` in this process; returns also for how long it waited before it said something new."""
    pauses = set()

    def wait(futures, seconds, until, original=run.wait):
        pauses.add(seconds)
        return original(futures, seconds, until)

    def run_here(names, in_place, cores):
        monkeypatch.setattr(run, "cores", lambda: cores)
        return *run.run_all([folder / f"{name}.ipynb" for name in names], in_place), pauses

    monkeypatch.setattr(run, "REPORT", folder / "report")
    monkeypatch.setattr(run, "TIMINGS", folder / "report" / "timings.json")
    monkeypatch.setattr(run, "wait", wait)
    return run_here


def test_in_a_terminal_a_line_is_written_over_every_second(folder, run_here, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "62")
    written, failed, pauses = run_here(["patient", "failing", "fine"], in_place=False, cores=2)
    assert written == [folder / "report" / "patient.ipynb", folder / "report" / "fine.ipynb"]  # the second was first
    assert failed == ["failing.ipynb"] and pauses == {1}
    first, *others = capsys.readouterr().out.split("\r")[1:]
    assert first.rstrip() == "0.0 min, first run, so no estimate  patient 1/3  failing 1/2"
    assert all(len(line.rstrip("\n")) == 61 for line in [first, *others])


def test_in_place_and_in_a_log(folder, run_here, capsys):
    written, failed, pauses = run_here(["patient-in-place", "fine"], in_place=True, cores=2)
    assert written == [folder / "patient-in-place.ipynb", folder / "fine.ipynb"]
    assert not failed and pauses == {60} and kept_in(folder) == ["timings.json"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0.0 min, first run, so no estimate  patient-in-place cell 1 of 2  fine cell 1 of 3"
    done = [line for line in lines if "done" in line]
    assert re.fullmatch(r"fine.ipynb  3 cells, done after \d.\d min", done[0])
    assert re.fullmatch(r"patient-in-place.ipynb  2 cells, done after \d.\d min", done[1])


def test_one_core_runs_one_after_the_other(folder, run_here, capsys):
    for name, source in (("early", "time.sleep(2)\nPath('over').touch()"), ("later", "assert Path('over').exists()")):
        cell = new_code_cell(f"import time\nfrom pathlib import Path\n{source}")
        nbformat.write(new_notebook(cells=[cell]), folder / f"{name}.ipynb")
    written, failed, _ = run_here(["early", "later"], in_place=False, cores=1)
    assert written == [folder / "report" / "early.ipynb", folder / "report" / "later.ipynb"] and not failed
    assert not [line for line in capsys.readouterr().out.splitlines() if "early" in line and "later" in line]


def test_a_kernel_that_does_not_start_is_a_failure(run_here, monkeypatch, capsys):
    monkeypatch.setattr(run, "SHARP", ["--IPKernelApp.transport=pigeons"])
    assert run_here(["fine"], in_place=False, cores=2)[:2] == ([], ["fine.ipynb"])
    assert "fine.ipynb failed in cell 1.\nKernel died" in capsys.readouterr().err


def test_a_path_that_does_not_exist_is_named_in_one_sentence(monkeypatch):
    monkeypatch.setattr("sys.argv", ["run.py", "nosuch.ipynb"])
    with pytest.raises(SystemExit, match=r"^run.py: 'nosuch.ipynb' does not exist; the notebooks are [^\n]*\.$"):
        run.main()


def progress_of(folder, names, timings, at_once):
    paths = [folder / f"{name}.ipynb" for name in names]
    return paths, run.Progress({path: run.read_notebook(path) for path in paths}, timings, at_once)


def test_what_is_left_comes_from_the_last_run(folder, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(run.time, "time", lambda: now)
    paths, progress = progress_of(folder, ["slow", "failing"], {}, at_once=1)
    progress.start_cell(paths[0], 0)
    assert "first run" in progress.line(80)
    progress.timings = {run.digest("name = 'slow'"): 6, run.digest(SLOW): 60, run.digest("nothing = 0"): 30}
    assert progress.minutes_left() == "at least 1.6 min left"  # one cell has never been run
    progress.timings[run.digest("1 / nothing")] = 12
    progress.start_cell(paths[0], 1)
    now += 30
    assert progress.line(80) == "0.5 min, about 1.2 min left  slow cell 2 of 2"
    now += 300  # it takes longer than last time
    assert progress.minutes_left() == "about 0.7 min left"
    progress.end_cell(paths[0])
    assert progress.timings[run.digest(SLOW)] == 330


@pytest.mark.parametrize(("at_once", "minutes"), [(1, 3.4), (2, 2.3), (3, 1.6), (4, 1.6)])
def test_what_is_left_is_that_of_the_schedule(folder, at_once, minutes):
    seconds = {"name = 'slow'": 6, SLOW: 60, "nothing = 0": 30, "1 / nothing": 12, COPIED: 90, PATIENT: 6}
    timings = {run.digest(source): second for source, second in seconds.items()}
    paths, progress = progress_of(folder, ["slow", "failing", "patient"], timings, at_once)
    assert progress.minutes_left() == f"about {minutes} min left"  # 66 s, 42 s and 96 s
    assert progress.running() == paths[:at_once]
    progress.end_notebook(paths[1])
    assert progress.minutes_left() == f"about {2.7 if at_once == 1 else 1.6} min left"
    assert progress.running() == [paths[0], paths[2]][:at_once]


def test_a_line_fits_the_terminal(folder):
    paths, progress = progress_of(folder, ["slow", "slower", "fine"], {run.digest("name = 'slow'"): 6}, at_once=3)
    progress.start_cell(paths[1], 1)
    line = "0.0 min, at least 0.1 min left  slow cell 1 of 2  slower cell 2 of 2  fine cell 1 of 3"
    assert progress.line(len(line)) == line
    assert progress.line(len(line) - 1) == "0.0 min, at least 0.1 min left  slow 1/2  slower 2/2  fine 1/3"


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
