"""What `pip install .` puts elsewhere works there without this folder: all modules, and the published weights."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"problem1": "problem1", "problem2": "problem2", "course": "notebooks/course"}  # name -> folder
MADE = shutil.ignore_patterns("results", "results-quick", "__pycache__")
OFFLINE = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]

# The editable install of this folder would step in for whatever is missing.
ALONE = "import sys; sys.meta_path = [finder for finder in sys.meta_path if 'editable' not in str(finder).lower()]; "


def files_of(folder):
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {path for path in files if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy without results: a build leaves files behind where it runs."""
    folder = tmp_path_factory.mktemp("install") / "source"
    for place in PACKAGES.values():
        shutil.copytree(ROOT / place, folder / place, ignore=MADE)
    for name in ("pyproject.toml", "requirements.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def site(source):
    """The folder into which the wheel was installed."""
    pip, folder = [sys.executable, "-m", "pip"], source.parent
    wheel = [*pip, "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run(wheel, check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", *OFFLINE, "--target", str(folder / "site"), str(wheel)], check=True)
    return folder / "site"


def run_there(site, code):
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-c", ALONE + code]
    done = subprocess.run(command, cwd=site.parent, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_is_installed(site, source, package):
    assert files_of(site / package) == files_of(source / PACKAGES[package])


def test_the_installed_adder_adds(site):
    code = "import problem1.published as p; print(p.__file__, p.published_adder()[0].add('663+497'))"
    assert run_there(site, code) == [str(site / "problem1" / "published" / "__init__.py"), "1160"]


def test_all_packages_can_be_imported(site):
    code = "import course.reports as c, problem2.published as p; print(c.__file__, p.__file__)"
    expected = [site / "course" / "reports.py", site / "problem2" / "published" / "__init__.py"]
    assert run_there(site, code) == list(map(str, expected))
