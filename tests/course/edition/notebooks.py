"""Notebooks, zips and the stand-in course, for tests of hand-ins and grades."""

import contextlib
import importlib.util
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

from course.edition.grade import HERE as EDITION
from course.edition.grade import Course
from course.edition.handin import submission

STANDIN = Path(__file__).parent / "standin"
MARK = f"97{os.getpid()}"  # in the commands of processes that a test of this run starts
TEXT = ("discussion", "Heads carry.")
ADD, SCALED = "def add(a, b):\n    return a + b", "def scaled(a, b):\n    return a * b"


def standin():
    """The course of standin/: two functions and a text."""
    spec = importlib.util.spec_from_file_location("standin_checks", STANDIN / "checks.py")
    checks = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(STANDIN))
    try:
        spec.loader.exec_module(checks)
    finally:
        sys.path.remove(str(STANDIN))
        sys.modules.pop("given", None)
    return Course(checks.TASKS, checks.calls, checks.sentence, STANDIN)


def notebook(*sources, text=TEXT):
    """Code cells, and one text as (task, words)."""
    code = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for source in sources
    ]
    words = {"cell_type": "markdown", "source": [text[1]], "metadata": {"task": text[0]}}
    return json.dumps({"cells": [*code, words], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


def write_zip(path, **files):
    """`problem1=..., problem2=...`; dots in other names are written as they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.ipynb" if name.startswith("problem") else name, content)
    return path


def handed_in(path, add=ADD, scaled=SCALED):
    return write_zip(path, problem1=notebook(add), problem2=notebook(scaled))


def student_folder(folder):
    """As the handout makes it, with the stand-in's checks."""
    shutil.copytree(STANDIN, folder)
    shutil.copytree(EDITION / "handin", folder / "handin")
    shutil.copy(EDITION / "submit.py", folder)
    return folder


def with_output(text):
    """The notebook, as if it had been run and saved."""
    content = json.loads(text)
    output = {"output_type": "stream", "name": "stdout", "text": "1"}
    content["cells"][0] |= {"outputs": [output], "execution_count": 1}
    return json.dumps(content)


def write_results(folder):
    for pattern, count in submission.FILES.items():
        for number in range(count):
            path = folder / pattern.replace("*", str(number))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")


def processes_with(words):
    """Which processes have these words in their command."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words in path.read_text(errors="replace"):
                found.append(int(path.parent.name))
    return found
