"""The rooms of the project: who may import whom, where a file belongs, and that the README names them all."""

import ast
import graphlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {  # prefix of its modules -> folder, folder of its tests
    "problem1.": ("problem1", "tests/problem1"),
    "problem1.program.": ("problem1/program", "tests/problem1/program"),
    "problem1.shared.": ("problem1/shared", "tests/shared"),
    "problem2.": ("problem2", "tests/problem2"),
    "problem2.certificate.": ("problem2/certificate", "tests/problem2/certificate"),
    "problem2.encodings.": ("problem2/encodings", "tests/problem2/encodings"),
    "course.": ("notebooks/course", "tests/course"),
    "course.audit.": ("notebooks/course/audit", "tests/course/audit"),
    "course.edition.": ("notebooks/course/edition", "tests/course/edition"),
    "course.edition.handin.": ("notebooks/course/edition/handin", "tests/course/edition/handin"),
    "": ("notebooks/tools", "tests/tools"),
}
MADE = {"__pycache__", "results", "results-quick", ".ipynb_checkpoints", ".pytest_cache"}
TESTED_ELSEWHERE = {  # modules without a test of their name, and why
    "errors": "a class without behaviour",
    "browser": "it is a test itself",
    "__main__": "two lines that call a command, whose test runs them",
}
OTHER_TESTS = {  # tests in these rooms that are not of one module
    "test_nbval": "of notebooks/conftest.py",
}


# --- imports ---------------------------------------------------------------------------------------------------------


def module_files():
    """{module: file} of the packages and the tools."""
    folders = {prefix: folder for prefix, (folder, _) in ROOMS.items()}
    folders |= {f"{problem}.published.": f"{problem}/published" for problem in ("problem1", "problem2")}
    return {
        (prefix + file.stem).removesuffix(".__init__"): file
        for prefix, folder in folders.items()
        for file in (ROOT / folder).glob("*.py")
    }


COPIED = ("course.audit", "course.edition.handin")  # into the student's folder, so they import relatively


def imports_in(source, modules, package=""):
    """Which of `modules` a source imports, wherever in it. `from problem1 import model` imports problem1.model."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level or (node.level == 1 and package in COPIED), (
                "a relative import; write the name in full"
            )
            module = ".".join(filter(None, [package, node.module])) if node.level else node.module
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else module for name in names}
    return found & set(modules)


@pytest.fixture(scope="module")
def imports():
    """{module: modules of the project that it imports}"""
    files = module_files()
    packages = {
        module: module if file.stem == "__init__" else module.rpartition(".")[0] for module, file in files.items()
    }
    return {module: imports_in(file.read_text(), files, packages[module]) for module, file in files.items()}


def inside(module, package):
    return module == package or module.startswith(f"{package}.")


def of_addition(module):
    return inside(module, "problem1") and not inside(module, "problem1.shared")


def edges(imports):
    return [(module, imported) for module in imports for imported in imports[module]]


def shared_leaves_its_room(imports):
    shared = "problem1.shared"
    return [edge for edge in edges(imports) if inside(edge[0], shared) and not inside(edge[1], shared)]


def problem2_imports_addition(imports):
    return [edge for edge in edges(imports) if inside(edge[0], "problem2") and of_addition(edge[1])]


def sweep_and_analysis_import_each_other(imports):
    pairs = [{f"{problem}.sweep", f"{problem}.analysis"} for problem in ("problem1", "problem2")]
    return [edge for edge in edges(imports) if set(edge) in pairs]


def both_problems_outside_course(imports):
    """A module outside of `course` that knows both problems, or `course`, which does."""
    broken = []
    for module, imported in imports.items():
        known = {module, *imported}
        both = any(map(of_addition, known)) and any(inside(name, "problem2") for name in known)
        if not inside(module, "course") and (both or any(inside(name, "course") for name in imported)):
            broken.append(module)
    return broken


def copied_package_leaves_its_room(imports):
    """It has to work where the project is not."""
    return [edge for edge in edges(imports) for room in COPIED if inside(edge[0], room) and not inside(edge[1], room)]


def cycles(imports):
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


RULES = {  # rule -> imports that break it
    shared_leaves_its_room: {"problem1.shared.grid": {"problem1.model"}},
    problem2_imports_addition: {"problem2.model": {"problem1.shared.attention", "problem1.dataset"}},
    sweep_and_analysis_import_each_other: {"problem2.sweep": {"problem2.analysis"}},
    both_problems_outside_course: {"pdf": {"problem1.model", "problem2.model"}},
    copied_package_leaves_its_room: {"course.edition.handin.cells": {"problem1.shared.errors"}},
    cycles: {"problem1.model": {"problem1.train"}, "problem1.train": {"problem1.model"}},
}
BROKEN = [
    *RULES.items(),
    (shared_leaves_its_room, {"problem1.shared.grid": {"problem2.model"}}),
    (shared_leaves_its_room, {"problem1.shared.grid": {"problem1"}}),
    (sweep_and_analysis_import_each_other, {"problem1.analysis": {"problem1.sweep"}}),
    (both_problems_outside_course, {"problem1.sweep": {"problem2.sweep"}}),
    (both_problems_outside_course, {"problem1.plots": {"course.reports"}}),
    (cycles, {"a": {"b"}, "b": {"c"}, "c": {"a"}}),
]
FINE = {
    "course.reports": {"problem1.sweep", "problem2.sweep", "course.audit"},
    "problem2.model": {"problem1.shared.attention", "problem2.encodings"},
    "problem1.shared.grid": {"problem1.shared.storage"},
    "problem1.sweep": {"problem1.train", "problem1.published"},
    "run": {"pdf", "problem1.shared.settings"},
}


@pytest.mark.parametrize("rule", RULES)
def test_imports_follow_the_rule(rule, imports):
    assert rule(imports) == []


@pytest.mark.parametrize(("rule", "broken"), BROKEN)
def test_a_rule_can_be_broken(rule, broken):
    assert rule(broken) and rule(FINE) == [] and rule(FINE | broken)


def test_imports_are_read_wherever_they_stand():
    modules = {"problem1", "problem1.model", "problem1.train", "problem2.model", "problem1.shared", "problem1.dataset"}
    source = """
import numpy, problem1.train
from problem1 import model, __doc__
from problem1.shared import nothing
def late():
    import problem2.model as m
    if late:
        from problem1.dataset import decode
"""
    assert imports_in(source, modules) == modules
    relative = "from . import cells\nfrom .unpack import unpack"
    modules = {f"course.edition.handin.{name}" for name in ("cells", "unpack", "runner")}
    assert imports_in(relative, modules, "course.edition.handin") == modules - {"course.edition.handin.runner"}
    with pytest.raises(AssertionError, match="relative"):
        imports_in(relative, modules, "course.edition")


def test_the_audit_stands_on_the_standard_library():
    trees = [ast.parse(file.read_text()) for file in (ROOT / "notebooks/course/audit").glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "numpy"} and "json" in names
    assert not names & {"pickle", "marshal", "shelve", "importlib", "runpy", "subprocess", "ctypes"}


# --- one place for one thing -----------------------------------------------------------------------------------------

ONLY_IN = {  # name in the code -> the one module that may use it
    "to_csv": "problem1.shared.storage",
    "tqdm": "problem1.shared.progress",
    "cpu_count": "problem1.shared.settings",
}


def names_in(source):
    """Names, attributes, and modules that are imported, but no words in texts."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name.split(".")[0]
            case ast.ImportFrom(module=str(name)):
                yield name.split(".")[0]


def builds_path_to_published(source):
    """Is there anything like `folder / "published"`?"""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.BinOp(op=ast.Div(), right=ast.Constant(value=str(value))) if "published" in Path(value).parts:
                return True
    return False


@pytest.mark.parametrize("name", ONLY_IN)
def test_one_module_does_this_for_all(name):
    users = {module for module, file in module_files().items() if name in names_in(file.read_text())}
    assert users == {ONLY_IN[name]}


def test_published_files_are_named_in_one_place():
    assert not [module for module, file in module_files().items() if builds_path_to_published(file.read_text())]


def test_uses_are_seen():
    assert {"to_csv", "tqdm", "cpu_count"} <= set(
        names_in("from tqdm.auto import tqdm\ntable.to_csv()\nimport os\nprint(os.cpu_count())")
    )
    assert builds_path_to_published('x = HERE / "published" / "adder.safetensors"')
    assert not builds_path_to_published('x = rows["published"]')


# --- files -----------------------------------------------------------------------------------------------------------


def visible(folder):
    return {path.name for path in folder.iterdir() if path.name not in MADE}


@pytest.mark.parametrize(
    ("problem", "folders"),
    [("problem1", {"program", "published", "shared"}), ("problem2", {"published", "encodings", "certificate"})],
)
def test_the_modules_of_a_problem_can_be_taken_in_at_a_glance(problem, folders):
    """What the assignment names is there, and whoever looks for a line has few modules to choose from."""
    names = visible(ROOT / problem)
    modules = {name for name in names if name.endswith(".py")}
    assert names - modules == folders | {"README.md"}
    assert {"dataset.py", "model.py", "train.py", "analysis.py"} <= modules and len(modules) <= 16


def test_the_folder_of_notebooks_holds_notebooks():
    names = visible(ROOT / "notebooks")
    assert {name for name in names if not name.endswith(".ipynb")} == {"conftest.py", "tools", "course"}


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_has_a_test_of_its_name_and_every_test_a_module(room):
    folder, tests = (ROOT / place for place in ROOMS[room])
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    tested = {file.stem for file in tests.glob("test_*.py")} - OTHER_TESTS.keys()
    assert {f"test_{module}" for module in modules - TESTED_ELSEWHERE.keys()} == tested


# --- what a room says of its files -----------------------------------------------------------------------------------


def named_in(text):
    """Files and folders that begin a line, or stand in a list that does."""
    name = r"\w+(?:\.py|\.typ|/)"
    lines = re.findall(rf"^ *({name}(?:, {name})*)(?= |$)", text, re.M)
    return {found for line in lines for found in re.findall(name, line)}


def listed_in(folder):
    """In its README, within a block of code; else in the docstring of its package."""
    if (folder / "README.md").exists():
        blocks = re.findall(r"^```\n(.*?)^```", (folder / "README.md").read_text(), re.M | re.S)
        return named_in("\n".join(blocks))
    return named_in(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "")


def found_in(folder):
    paths = [path for path in folder.iterdir() if path.name not in MADE]
    files = {path.name for path in paths if path.suffix in (".py", ".typ")} - {"__init__.py", "__main__.py"}
    return files | {f"{path.name}/" for path in paths if path.is_dir()}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_lists_its_files_and_no_other(room):
    folder = ROOT / ROOMS[room][0]
    assert listed_in(folder) == found_in(folder)


def test_the_readme_lists_the_rooms():
    layout = re.search(r"^## Layout\n.*?^```\w*\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[1]
    rooms = {Path(folder) for folder, _ in ROOMS.values()}  # those further down are listed where they are
    assert {f"{room.name}/" for room in rooms if len(room.parts) <= 2} <= set(re.findall(r"\w+/", layout))
    assert len(layout.splitlines()) <= 12


def test_names_in_a_list_are_read():
    text = """
    dataset.py, model.py  words about other.py
      shared/   grid.py
    tests and/or
    """
    assert named_in(text) == {"dataset.py", "model.py", "shared/"}
