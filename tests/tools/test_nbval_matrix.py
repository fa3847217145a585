"""The check on other machines: a copy of the project that is complete, and in which nothing has been trained."""

from subprocess import CompletedProcess

import nbformat
import nbval_matrix
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

WHERE = """import os
from pathlib import Path
import course, problem1, problem2
here = Path.cwd()
packages = [Path(package.__file__).parent for package in (course, problem1, problem2)]
print(packages == [here / "course", here.parent / "problem1", here.parent / "problem2"])
print(list(here.parent.glob("problem*/results*")), os.environ["OMP_NUM_THREADS"])"""


def notebook_that_printed(path, text):
    cell = new_code_cell(WHERE, execution_count=1, outputs=[new_output("stream", text=text)])
    nbformat.write(new_notebook(cells=[cell]), path)
    return path


@pytest.mark.parametrize(("printed", "is_fine"), [("True\n[] 1\n", True), ("True\n[] 2\n", False)])
def test_a_copy_uses_its_own_packages_without_results_and_its_own_conftest(tmp_path, printed, is_fine):
    """Without conftest.py the line that begins with a dot would be compared."""
    notebook = notebook_that_printed(tmp_path / "small.ipynb", f"· trained in 9 s\n{printed}")
    project = tmp_path / "project"
    nbval_matrix.copy_project(project, [notebook])
    assert (project / "notebooks" / "conftest.py").exists()
    done = nbval_matrix.check(project, [notebook], 1, {})
    assert (done.returncode == 0) == is_fine, done.stdout
    assert "1 passed" in done.stdout or not is_fine


def test_every_surrounding_is_tried_and_a_red_one_is_told(monkeypatch, capsys):
    tried = []

    def check(folder, notebooks, cores, environment):
        tried.append((folder, cores, environment))
        return CompletedProcess([], returncode=int(cores == 1), stdout="== 3 passed ==", stderr="")

    monkeypatch.setattr(nbval_matrix, "check", check)
    monkeypatch.setattr(nbval_matrix, "copy_project", lambda folder, notebooks: None)
    monkeypatch.setattr("sys.argv", ["nbval_matrix.py", "problem1"])
    with pytest.raises(SystemExit) as stopped:
        nbval_matrix.main()
    assert stopped.value.code and [cores for _, cores, _ in tried] == [1, 2, 2, 2]
    assert tried[1][0] == tried[2][0] != tried[3][0]  # one goes on with what the one before has trained
    printed = capsys.readouterr().out.splitlines()
    assert ["RED" in line for line in printed] == [True, False, False, False]


def test_a_notebook_that_does_not_exist_is_named_in_one_sentence(monkeypatch):
    monkeypatch.setattr("sys.argv", ["nbval_matrix.py", "nosuch"])
    with pytest.raises(SystemExit, match=r"^nbval_matrix.py: 'nosuch' does not exist; the notebooks are [^\n]*\.$"):
        nbval_matrix.main()
