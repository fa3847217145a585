"""Grade a folder of zips: `python -m course.edition.grade FOLDER [--output grades]`.

The functions of a hand-in are called in a process that can do no harm (contain.py); it is given the arguments and gives
back values. What these are worth is decided here, and the expected ones never leave this process.
"""

import contextlib
import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from course.edition import contain
from course.edition.handin import runner, unpack
from problem1.shared.commands import Parser, one_sentence, parse_count, parse_path
from problem1.shared.errors import UserError
from problem1.shared.settings import cores
from problem1.shared.storage import atomic_path, write_table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SECONDS = 60  # for one task
TASKS_WORTH = 5  # a hand-in has the time of this many tasks, which is plenty if none of them hangs
LATE = r"longer than \d+ s:|s of this hand-in were over"  # sentences of those whose time was up
MEMORY = 4 << 30
PROCESSES = 32
DISK = unpack.ZIP_BYTES + unpack.BYTES + (50 << 20)
LIMITS = {
    "AS": MEMORY,
    "CORE": 0,
    "CPU": 3_600,  # seconds, if ever the clock should not end it
    "FSIZE": unpack.FILE_BYTES,
    "NOFILE": 128,
    "NPROC": PROCESSES,
}
SHOWN = 400  # characters of a sentence
ONE_AT_A_TIME = threading.Lock()  # right answers may depend on seeds, which are global


class Course(NamedTuple):
    """What is asked and how it is judged; `folder` holds checks.py and given.py."""

    tasks: Mapping[str, Any]  # checks.TASKS
    calls: Callable[[str], list[dict[str, Any]]]
    sentence: Callable[[str, list[dict[str, Any]], list[Any]], str]
    folder: Path


class Mark(NamedTuple):
    student: str
    problem: int
    task: str
    points: int | None  # None: to be read
    of: int
    sentence: str


def the_course() -> Course:
    hidden = importlib.import_module("course.edition.hidden")
    checks = importlib.import_module("course.edition.checks")
    return Course(checks.TASKS, functools.cache(hidden.calls), hidden.sentence, HERE)


# --- one hand-in -----------------------------------------------------------------------------------------------------


def readable() -> list[str]:
    """What a contained process may read: Python, and what it is linked to. A folder inside of another is left out."""
    places = ["/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache"]
    for place in (sys.prefix, sys.base_prefix):
        places += [os.path.abspath(place), os.path.realpath(place)]
    places = sorted(set(places))
    return [a for a in places if not any(a.startswith(f"{b}/") and not os.path.islink(b) for b in places)]


def hidden(private: Sequence[Path], places: list[str]) -> list[str]:
    """The folders inside of what is readable that are nobody's business: the project, wherever it is installed."""
    packages = [Path(sysconfig.get_path("purelib")) / name for name in ("problem1", "problem2", "course")]
    found = []
    for folder in {path.resolve() for path in [*private, *packages, ROOT]}:
        for place in places:
            real = Path(place).resolve()
            if folder.is_relative_to(real):
                found.append(str(place / folder.relative_to(real)))
    return found


def job_for(folder: Path, command: list[str], private: Sequence[Path], is_contained: bool) -> dict[str, Any]:
    """What contain.py is told."""
    work = f"{contain.INSIDE if is_contained else folder}/work"
    environment = {"HOME": work, "TMPDIR": "/tmp" if is_contained else work, "PATH": "/usr/bin:/bin"}
    environment |= {"LANG": "C.UTF-8", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    places = readable()
    return {
        "folder": str(folder),
        "command": command,
        "environment": environment,
        "contained": is_contained,
        "readable": places,
        "hidden": hidden(private, places),
        "limits": {key: value for key, value in LIMITS.items() if is_contained or key != "NPROC"},
        "memory": MEMORY,
        "processes": PROCESSES + 4,  # the kernel refuses at NPROC; uncontained, these are too many
        "disk": DISK,
    }


@contextlib.contextmanager
def process_for(
    zip_file: Path | None, course: Path, private: Sequence[Path], is_contained: bool
) -> Iterator[list[str]]:
    """The command of a runner with a copy of the hand-in, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        shutil.copytree(HERE / "handin", folder / "code" / "handin", ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("checks.py", "given.py"):
            shutil.copyfile(course / file, folder / "code" / file)
        if zip_file:
            shutil.copyfile(zip_file, folder / "code" / "hand-in.zip")
        code = (Path(contain.INSIDE) if is_contained else folder) / "code"
        command = runner.command(code, *([str(code / "hand-in.zip")] if zip_file else []))
        yield contain_command(job_for(folder, command, private, is_contained))


def contain_command(job: dict[str, Any]) -> list[str]:
    return [sys.executable, "-I", contain.__file__, json.dumps(job)]


def check_containment(course: Path, private: Sequence[Path], is_contained: bool) -> None:
    """Refuse to begin where the process that calls the functions cannot be contained, or does not start."""
    with process_for(None, course, private, is_contained) as command:
        done = subprocess.run(
            command, input="", capture_output=True, text=True, timeout=runner.SECONDS_TO_START, env={}
        )
    reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    if done.returncode and is_contained:
        raise UserError(
            f"hand-ins cannot be contained on this system ({reason}). That takes Linux 5.14 or newer with "
            "namespaces of users, mounts, processes and networks. --uncontained grades with limits only: use it in a "
            "container that is thrown away."
        )
    if done.returncode:
        raise UserError(f"the process that calls the functions does not start ({reason}).")


def marks_of(
    zip_file: Path,
    course: Course,
    private: Sequence[Path],
    is_contained: bool,
    seconds: float,
    stopped: threading.Event,
) -> list[Mark]:
    """Whatever a hand-in does, it has a mark for each task, unless all of this is stopped."""
    found: dict[str, list[Any] | str] = {}
    try:
        with process_for(zip_file, course.folder, private, is_contained) as command:
            process = runner.Runner(command, environment={})
            until = time.monotonic() + TASKS_WORTH * seconds
            try:
                for name in course.tasks:
                    if stopped.is_set():
                        return []
                    left = until - time.monotonic()
                    over = f"The {TASKS_WORTH * seconds:.0f} s of this hand-in were over before this task."
                    found[name] = returned(process, course, name, min(seconds, left)) if left > 0 else over
            finally:
                process.stop()
    except OSError as error:
        words = f"The hand-in cannot be read: {error.strerror or error}."
        found = {name: found.get(name, words) for name in course.tasks}
    marks = []
    for name, task in course.tasks.items():
        points, sentence = judged(course, name, found[name])
        marks.append(Mark(plain(zip_file.stem), task.problem, name, points, task.points, plain(sentence)))
    return marks


def returned(process: runner.Runner, course: Course, name: str, seconds: float) -> list[Any] | str:
    """What the calls of a task gave, or a sentence why there is nothing."""
    task = course.tasks[name]
    asked = {"text": True} if task.text else {"calls": course.calls(name)}
    try:
        return process.ask({"notebook": f"problem{task.problem}.ipynb", "task": name, **asked}, seconds)
    except runner.Failed as failed:
        return str(failed)


def judged(course: Course, name: str, results: list[Any] | str) -> tuple[int | None, str]:
    """Points and a sentence, which is empty if all is right. Without points it is a text, to be read by a person."""
    if isinstance(results, str):
        return 0, results
    if course.tasks[name].text:
        return None, f"To be read: {len(str(results[0]).split())} words."
    try:
        with ONE_AT_A_TIME:
            sentence = course.sentence(name, course.calls(name), results)
    except Exception as error:  # the values are somebody else's
        sentence = f"The check cannot take these values ({type(error).__name__}): look at them yourself."
    return (0 if sentence else course.tasks[name].points), sentence


def plain(text: str) -> str:
    """Words of others, for a terminal, a table and a spreadsheet: printable, short, no formula, no markup."""
    text = "".join(sign if sign.isprintable() else " " for sign in text)[:SHOWN].strip()
    text = text.translate(str.maketrans("|<>`", "/()'"))
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


# --- all of them -----------------------------------------------------------------------------------------------------


def zips_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; name the one that holds the zips.")
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".zip")
    if not found:
        raise UserError(f"{folder} holds no zip.")
    return found


def grade(
    folder: Path,
    output: Path,
    course: Course,
    is_contained: bool = True,
    seconds: float = SECONDS,
    tell: Callable[[str], None] = lambda words: None,
) -> pd.DataFrame:
    """One row for each hand-in and task, also written to `output`."""
    zips = zips_in(folder)
    private = [folder, output, course.folder]
    check_containment(course.folder, private, is_contained)
    stopped = threading.Event()

    def marks(zip_file: Path) -> list[Mark]:
        found = marks_of(zip_file, course, private, is_contained, seconds, stopped)
        points, of = sum(mark.points or 0 for mark in found), sum(mark.of for mark in found)
        tell(f"{plain(zip_file.stem)}: {points} of {of} points")
        return found

    with ThreadPoolExecutor(cores()) as pool:
        try:
            rows = pd.DataFrame([mark for found in pool.map(marks, zips) for mark in found], columns=Mark._fields)
        except KeyboardInterrupt:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
    rows["points"] = rows.points.astype("Int64")
    write_table(rows, output / "grades.csv")
    with atomic_path(output / "grades.md") as temporary:
        temporary.write_text(as_markdown(rows), encoding="utf-8")
    return rows


def as_markdown(rows: pd.DataFrame) -> str:
    """Points of all, then each one's sentences."""
    of = rows.drop_duplicates("task").groupby("problem").of.sum()
    head = ["student", *(f"problem {problem} (of {most})" for problem, most in of.items()), f"all (of {of.sum()})"]
    lines = ["# Grades", "", "Texts are to be read and are not in these points.", ""]
    lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for student, own in rows.groupby("student", sort=False):
        points = own.groupby("problem").points.sum()
        lines.append(f"| {' | '.join(map(str, [student, *points, points.sum()]))} |")
    for student, own in rows.groupby("student", sort=False):
        told = [f"- {row.task} (of {row.of}): {row.sentence}" for row in own.itertuples() if row.sentence]
        lines += ["", f"## {student}", "", *(told or ["All right."])]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = Parser(prog="grade", description="Points and sentences for a folder of hand-ins.")
    parser.add_argument("folder", type=parse_path, help="it holds one zip per student, as submit.py writes them")
    parser.add_argument("--output", type=parse_path, default="grades", help="where the tables go (default grades/)")
    parser.add_argument("--seconds", type=parse_count, default=SECONDS, help=f"for one task (default {SECONDS})")
    parser.add_argument("--uncontained", action="store_true", help="limits only; for a container that is thrown away")
    arguments = parser.parse_args()
    folder, output = Path(arguments.folder), Path(arguments.output)
    torch.set_num_threads(1)
    with one_sentence(parser.prog):
        rows = grade(folder, output, the_course(), not arguments.uncontained, arguments.seconds, print)
    late = rows.sentence.str.contains(LATE).sum()
    if late:
        print(f"{late} tasks ran out of time; if this machine had other work to do, grade again with more --seconds.")
    print(f"{rows.student.nunique()} hand-ins: {output / 'grades.md'}, {output / 'grades.csv'}")


if __name__ == "__main__":
    main()
