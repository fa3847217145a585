"""The student's folder is complete, gives nothing away and runs alone; the teacher's notebooks run top to bottom."""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from course.edition import checks, handout, hidden
from course.edition.checks import TASKS

HASHES = {  # of the assignment's data, as it states them
    "problem1_train": "25d38dcf7bba9b2a",
    "problem1_validation": "c3bfe9078e880005",
    "problem1_test": "b80bf64532333431",
    "problem2_train": "ac1925c58fc20aa9",
    "problem2_validation": "bd8f18e22a516544",
    "problem2_test": "cb40c681b9d78ee9",
    "problem2_length32": "2e4efa802d929510",
    "problem2_length64": "b2ba2f6cbce07693",
    "problem2_length128": "89bdb93c3f2d5c24",
    "problem2_length256": "f63317bbcf9092c4",
}
# Without the project: neither its editable install nor its folder is in reach.
ALONE = """
import sys
from pathlib import Path
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
sys.path = [place for place in sys.path if not (place and Path(place, "problem1", "shared").exists())]
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handout")
    handout.write_handout(folder)
    return folder


@pytest.fixture(scope="module")
def student(folders):
    return folders / "student"


@pytest.fixture(scope="module")
def teacher(folders):
    return folders / "teacher"


@pytest.fixture(scope="module")
def python(student, tmp_path_factory):
    """This Python; with FRESH=1 that of a new environment that holds the student's requirements and nothing else."""
    if os.environ.get("FRESH", "0") != "1":
        return sys.executable
    folder = tmp_path_factory.mktemp("fresh") / "env"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--requirement"]
    subprocess.run([*install, student / "requirements.txt"], check=True)
    return folder / "bin" / "python"


def cells(folder, name):
    return nbformat.read(folder / f"{name}.ipynb", as_version=4).cells


def test_both_folders_hold_what_their_readmes_say(student, teacher):
    for folder in (student, teacher):
        names = {path.name for path in folder.iterdir()}
        assert {"problem1.ipynb", "problem2.ipynb", "checks.py", "given.py", "answers.json", "data"} <= names
        for number in (1, 2):
            nbformat.validate(nbformat.read(folder / f"problem{number}.ipynb", as_version=4))
    readme = (student / "README.md").read_text()
    for name in TASKS:
        assert f"`{name}`" in readme
    assert "hidden.py" not in {path.name for path in student.iterdir()} and (teacher / "hidden.py").exists()
    for text in (readme, (teacher / "README.md").read_text()):
        assert not re.search(r"\{\w+\}", text), "a table is missing"


def test_the_rubric_of_a_text_adds_up(teacher):
    readme = (teacher / "README.md").read_text()
    for name in ("Discussion", "Explanation"):
        paragraph = re.search(rf"\*\*{name} \((\d+) points\)\.\*\*(.*)", readme)
        parts = [int(number) for number in re.findall(r": (\d+)[.;]", paragraph[2])]
        assert sum(parts) == int(paragraph[1]) == TASKS[name.lower()].points


@pytest.mark.parametrize("name", HASHES)
def test_the_data_are_the_assignments(student, name):
    items = json.loads((student / "data" / f"{name}.json").read_text())
    text = json.dumps(items, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == HASHES[name]
    assert {f"{known}.json" for known in HASHES} == {path.name for path in (student / "data").iterdir()}


# --- nothing is given away -------------------------------------------------------------------------------------------


def statements(text):
    """Simple statements inside functions and methods, as plain code; too short ones prove nothing."""
    kinds = (ast.Assign, ast.AugAssign, ast.Return, ast.Expr, ast.AnnAssign)
    found = set()
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            found |= {ast.unparse(node) for node in ast.walk(function) if isinstance(node, kinds) and not is_text(node)}
    return {line for line in found if len(line) > 32}


def is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def texts_of(folder):
    """{file: Python in it}"""
    found = {path.name: path.read_text() for path in folder.rglob("*.py")}
    for path in folder.glob("*.ipynb"):
        code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        found[path.name] = "\n".join(code)
    return found


def given_away(solved, texts):
    """Statements of solutions that a student's file holds."""
    lines = {line for text in solved for line in statements(text)}
    return {(name, line) for name, text in texts.items() for line in lines & statements(text)}


def test_no_line_of_a_solution_is_in_the_students_folder(student):
    solved = [handout.solution(name) for name, task in TASKS.items() if not task.text]
    assert given_away(solved, texts_of(student)) == set()
    assert sum(len(statements(text)) for text in solved) > 100


def test_a_line_that_is_given_away_would_be_found(teacher):
    solved = [handout.solution(name) for name, task in TASKS.items() if not task.text]
    assert len(given_away(solved, texts_of(teacher))) > 40


def test_no_hidden_check_is_in_the_students_folder(student):
    answers = json.loads((student / "answers.json").read_text())
    for name, task in TASKS.items():
        if not task.text:
            for seed in hidden.HIDDEN_SEEDS:
                own = [call for call in checks.calls(name, seed) if call not in checks.calls(name)]
                assert not [call for call in own if checks.key(name, call) in answers], name
    for path in student.rglob("*"):
        if path.suffix in (".py", ".ipynb", ".md"):
            assert "HIDDEN_SEEDS" not in path.read_text() and "solutions import" not in path.read_text()


def test_blanks_hold_nothing_but_their_docstring(student):
    for name in ("problem1", "problem2"):
        for cell in cells(student, name):
            if cell.cell_type == "code" and "task" in cell.metadata:
                (function,) = ast.parse(cell.source).body
                docstring, raises = function.body
                assert is_text(docstring) and isinstance(raises, ast.Raise)


# --- solutions -------------------------------------------------------------------------------------------------------


def test_a_solution_cell_is_the_projects_source():
    cell = handout.solution("positions")
    assert "P[t, 2i] = sin(t / 10000^(2i/d_model))" in cell and cell.index("def sinusoids") < cell.index(
        "def positions"
    )
    assert "problem1" not in cell and cell.startswith("from torch import Tensor\nimport torch\n")


def test_a_method_becomes_a_function_of_another_name():
    cell = handout.solution("greedy")
    assert "def write_answer(self, source" in cell and "def generate" not in cell and "inference_mode" not in cell


def test_arguments_are_not_taken_for_functions():
    assert "def train(" not in handout.solution("unseen")  # it has an argument of this name


# --- they run --------------------------------------------------------------------------------------------------------


def run_alone(python, folder, code):
    done = subprocess.run([python, "-c", ALONE + code], cwd=folder, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_student_without_the_project_reads_a_sentence_for_each_blank(python, student):
    code = """
import json
for name in ("problem1", "problem2"):
    names = {}
    for cell in json.load(open(f"{name}.ipynb"))["cells"]:
        if "task" in cell["metadata"] and cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            names["check"] = __import__("checks").check
            names["check"](names[cell["metadata"]["task"]])
assert "problem1" not in sys.modules and "course" not in sys.modules
"""
    lines = run_alone(python, student, code)
    assert len(lines) == 21 and all(checks.BLANK in line for line in lines)


def test_answers_of_the_student_are_enough_to_name_mistakes(python, student):
    code = """
import checks, torch
def positions(length, d_model):
    return torch.zeros(length, d_model)
def mean_pool(x, real):
    return x.mean(1)
def greedy(model, source):
    reads = torch.zeros(len(source), 1, dtype=torch.long)
    for _ in range(3):
        reads = torch.cat([reads, model(source, reads)[:, -1:].argmax(-1)], 1)
    return reads
for function in (positions, mean_pool, greedy):
    checks.check(function)
"""
    first, second, third = run_alone(python, student, code)
    assert "at position 0 every sine is 0" in first and "padding is inside the mean" in second
    assert "begins with the digit 0, not with BOS" in third


QUICKLY = {
    "steps=2_000": "steps=3",
    "steps = {}, 1_500": "steps = {}, 3",
    "(32, 64, 128, 256)": "(32,)",
    "(16, 64, 256)": "(16, 32)",
    "range(12)": "range(1)",
    "[:500]": "[:8]",
    "[:200]": "[:8]",
    "range(100)": "range(4)",
    "range(200)": "range(8)",
    "(200)": "(8)",
    "< 100": "< 4",
    "alone = singly": "alone = [] and singly",
}


@pytest.mark.parametrize("name", ["problem1", "problem2"])
def test_the_teachers_notebook_runs_in_plain_jupyter_without_the_project(python, teacher, tmp_path, name):
    """From top to bottom, with a training of three steps; all checks say right, and all results are written."""
    folder = tmp_path / "teacher"
    shutil.copytree(teacher, folder)
    notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"{ALONE}\n__import__('torch').set_num_threads(1)"))
    for cell in notebook.cells:
        if cell.cell_type == "code" and "task" not in cell.metadata:
            for slow, quick in QUICKLY.items():
                cell.source = cell.source.replace(slow, quick)
    nbformat.write(notebook, folder / f"{name}.ipynb")
    command = ["jupyter", "nbconvert", "--to", "notebook", "--execute", "--inplace", f"{name}.ipynb"]
    done = subprocess.run([python, "-m", *command], cwd=folder, text=True, capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3_000:]
    executed = nbformat.read(folder / f"{name}.ipynb", as_version=4).cells
    checked = [cell for cell in executed if cell.source.startswith("check(")]
    printed = ["".join(output["text"] for output in cell.outputs).strip() for cell in checked]
    assert printed == ["right"] * sum(task.problem == int(name[-1]) and not task.text for task in TASKS.values())
    promised = re.findall(rf"`({name}/results/[^`]*)`", (handout.MASTERS / "student.md").read_text())
    for path in promised:
        assert list(folder.glob(path.replace("<k>", "0").replace("<encoding>", "*"))), path


def test_the_handout_is_no_part_of_the_project():
    root = handout.HERE.parents[2]
    assert "/handout/\n" in (root / ".gitignore").read_text()
    clean = re.search(r"^clean:.*\n((?:\t.*\n?)+)", (root / "Makefile").read_text(), re.M)
    assert re.search(r"rm -rf .*\bhandout\b", clean[1])


def test_other_things_in_the_folder_stay(tmp_path, monkeypatch):
    (tmp_path / "grades.csv").write_text("kept")
    (tmp_path / "student").mkdir()
    (tmp_path / "student" / "old").write_text("")
    monkeypatch.setattr(handout, "write_shared", lambda folder, teacher: folder.mkdir())
    handout.write_handout(tmp_path)
    assert (tmp_path / "grades.csv").read_text() == "kept" and not (tmp_path / "student" / "old").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"grades.csv", "student", "teacher"}


def test_students_need_nothing_that_their_requirements_do_not_name(student):
    named = {line.split("==")[0] for line in (student / "requirements.txt").read_text().split()}
    named |= {"pypandoc", "nbformat", "nbclient"}  # of pypandoc_binary and jupyter
    local = {path.stem for path in student.iterdir()} | sys.stdlib_module_names
    for name, text in texts_of(student).items():
        for node in ast.walk(ast.parse(text)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [str(node.module)] if isinstance(node, ast.ImportFrom) and not node.level else []
            unknown = {module.split(".")[0] for module in modules} - local - named
            assert unknown <= ({"course"} if name == "checks.py" else set()), (name, unknown)


def test_what_a_student_runs_in_the_end_is_copied(tmp_path, monkeypatch):
    (tmp_path / "handin" / "__pycache__").mkdir(parents=True)
    (tmp_path / "handin" / "cells.py").write_text("")
    (tmp_path / "submit.py").write_text("")
    parts = tmp_path / "submit.py", tmp_path / "handin", tmp_path / "not there"
    monkeypatch.setattr(handout, "HAND_IN", parts)
    monkeypatch.setattr(handout, "write_shared", lambda folder, teacher: folder.mkdir())
    handout.write_student(tmp_path / "student")
    found = {path.relative_to(tmp_path / "student").as_posix() for path in (tmp_path / "student").rglob("*")}
    assert found == {"README.md", "submit.py", "handin", "handin/cells.py"}
