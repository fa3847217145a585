"""Do notebooks print the same on other machines? `python notebooks/tools/nbval_matrix.py [notebook ...]`.

The check of `make nbval` in the surroundings below, one after the other, each with a copy of the project in which
nothing has been trained yet. All are tried; the exit status says whether all were fine.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from pdf import NOTEBOOKS, ROOT, find_notebook

from problem1.shared.commands import Parser, one_sentence

OTHER_CPU = {"ATEN_CPU_CAPABILITY": "default"}  # as on a CPU without this one's vector instructions
SURROUNDINGS: tuple[tuple[str, int, dict[str, str], bool], ...] = (
    # name, cores, environment, with the trained models of the one before?
    ("one core", 1, {}, False),
    ("two cores", 2, {}, False),
    ("two cores, again", 2, {}, True),  # now trainings are loaded
    ("another CPU's arithmetic", 2, OTHER_CPU, False),
)
NBVAL = "-m pytest --nbval --nbval-current-env --nbval-cell-timeout=1800 -p no:xdist"  # as `make nbval` has it


def copy_project(folder: Path, notebooks: Iterable[Path]) -> None:
    """The packages and the notebooks, without results."""
    made = shutil.ignore_patterns("results", "results-quick", "__pycache__", ".ipynb_checkpoints")
    for name in ("problem1", "problem2", "notebooks"):
        shutil.copytree(ROOT / name, folder / name, ignore=made)
    for path in notebooks:
        shutil.copy(path, folder / "notebooks")


def check(
    folder: Path, notebooks: Iterable[Path], cores: int, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run nbval as on a machine with so many cores: both the scheduler and the libraries are told."""
    threads = {name: str(cores) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    packages = os.pathsep.join(map(str, (folder, folder / "notebooks")))  # installed ones have results beside them
    command = [sys.executable, *NBVAL.split(), *(f"notebooks/{path.name}" for path in notebooks)]
    if shutil.which("taskset"):
        available = sorted(os.sched_getaffinity(0))[:cores]
        command = ["taskset", "--cpu-list", ",".join(map(str, available)), *command]
    own = os.environ | threads | {"PYTHONPATH": packages} | environment
    return subprocess.run(command, cwd=folder, env=own, text=True, capture_output=True)


def main() -> None:
    parser = Parser(prog="nbval_matrix.py", description="Check the notebooks as on other machines; this takes long.")
    parser.add_argument("notebooks", nargs="*", default=NOTEBOOKS, help="paths or names; by default all")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        notebooks = [find_notebook(name) for name in arguments.notebooks]
    red = False
    for name, cores, environment, trained in SURROUNDINGS:
        started = time.time()
        if not trained:
            scratch = tempfile.TemporaryDirectory()
            copy_project(Path(scratch.name), notebooks)
        print(f"{name:26}", end="", flush=True)
        done = check(Path(scratch.name), notebooks, cores, environment)
        summary = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1].strip("= ")
        minutes = f"{(time.time() - started) / 60:.1f} min"
        print(f"{'RED' if done.returncode else 'fine':6}{minutes:>9}   {summary}", flush=True)
        if done.returncode:
            red = True
            print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    sys.exit(red)


if __name__ == "__main__":
    main()
