"""The code of a run: it changes with each source that the run stands on, and with no other."""

from pathlib import Path

import pytest

from problem1.shared import sources
from problem1.shared.sources import file_of, project_imports

TREE = {
    "animals/__init__.py": "",
    "animals/cat.py": "import json\nfrom animals.tools.teeth import bite\n",
    "animals/tools/__init__.py": "LENGTH = 3\n",
    "animals/tools/teeth.py": "def bite():\n    from animals import bone\n",
    "animals/tools/claws.py": "",
    "animals/bone.py": "import animals.cat as cat\nraise RuntimeError('it is read, not run')\n",
    "animals/dog.py": "from animals import cat\n",
}
UNDER_CAT = {"animals/__init__.py", "animals/cat.py", "animals/tools/__init__.py", "animals/tools/teeth.py"}
UNDER_CAT |= {"animals/bone.py"}


def write_tree(folder):
    for name, text in TREE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A project of one package, in place of ours."""
    write_tree(tmp_path)
    monkeypatch.setattr(sources, "PACKAGES", ("animals",))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def code_of(module):
    return sources.code_of.__wrapped__(module)


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("animals", "animals/__init__.py"),
        ("animals.cat", "animals/cat.py"),
        ("animals.tools", "animals/tools/__init__.py"),
        ("animals.tools.teeth", "animals/tools/teeth.py"),
        ("animals.cat.bite", None),
        ("animals.unicorn", None),
        ("json", None),
        ("json.decoder", None),
        ("", None),
    ],
)
def test_a_module_of_the_project_has_a_file_and_nothing_else_has(tree, module, file):
    assert file_of(module) == (file and tree / file)


def test_every_package_of_this_project_is_found():
    assert file_of("problem1.shared.sources") == Path(sources.__file__)
    for package in sources.PACKAGES:
        assert file_of(package).name == "__init__.py"


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import animals.cat", {"animals", "animals.cat"}),
        ("import animals.tools.teeth as jaw", {"animals", "animals.tools", "animals.tools.teeth"}),
        ("from animals import cat, dog", {"animals", "animals.cat", "animals.dog"}),
        ("from animals.cat import bite", {"animals", "animals.cat"}),
        ("from animals import *", {"animals"}),
        ("def eat():\n    from animals import dog", {"animals", "animals.dog"}),
        ("try:\n    import animals\nexcept ImportError:\n    raise", {"animals"}),
        ("import json, os.path\nfrom numpy import linalg\n'import animals'", set()),
    ],
)
def test_imports_are_read_wherever_they_stand_and_whichever_way_they_are_written(tree, source, modules):
    (tree / "script.py").write_text(source)
    assert project_imports(tree / "script.py") == modules


@pytest.mark.parametrize("file", TREE)
def test_the_code_of_a_module_changes_with_every_source_below_it_and_with_no_other(tree, file):
    before = code_of("animals.cat")
    assert len(bytes.fromhex(before)) == 6 and code_of("animals.cat") == before
    (tree / file).write_text(f"{TREE[file]}\nLEGS = 4\n")
    assert (code_of("animals.cat") != before) is (file in UNDER_CAT)


def test_the_code_is_the_same_wherever_the_project_lies(tree, monkeypatch):
    before = code_of("animals.cat")
    write_tree(tree / "elsewhere")
    monkeypatch.syspath_prepend(tree / "elsewhere")
    assert file_of("animals.cat") == tree / "elsewhere/animals/cat.py" and code_of("animals.cat") == before


def test_modules_that_stand_on_the_same_sources_have_the_same_code_and_others_another(tree):
    assert code_of("animals.cat") == code_of("animals.bone") != code_of("animals.dog")


@pytest.mark.parametrize("module", ["json", "animals.unicorn"])
def test_what_is_no_module_of_the_project_has_no_code(tree, module):
    with pytest.raises(ValueError, match=f"^{module} is no module of this project$"):
        code_of(module)
