"""`python submit.py [NAME]`: check what there is, say what is missing, make the PDF, write NAME.zip.

An earlier zip stays as it is until the new one is complete.
"""

import argparse
import importlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .cells import NotThere, cells
from .runner import Failed, Runner, command
from .unpack import FILE_BYTES, Refused, unpack

HERE = Path(__file__).resolve().parents[1]  # the student's folder
NOTEBOOKS = ("problem1.ipynb", "problem2.ipynb")
REPORT = "report.pdf"
SECONDS = 120  # for one task, on a slow machine
RESULTS = ("problem1/results", "problem2/results")
OURS = {"checks.py", "given.py", "submit.py"}
FILES = {  # what the assignment asks for, and how many
    "problem1/results/training_log.json": 1,
    "problem1/results/attention_patterns/example_*.png": 12,
    "problem1/results/head_analysis/ablation_results.json": 1,
    "problem1/results/head_analysis/head_specialization.json": 1,
    "problem1/results/head_analysis/head_importance.png": 1,
    "problem2/results/sinusoidal/training_log.json": 1,
    "problem2/results/sinusoidal/training_curves.png": 1,
    "problem2/results/learned/training_log.json": 1,
    "problem2/results/learned/training_curves.png": 1,
    "problem2/results/none/training_log.json": 1,
    "problem2/results/none/training_curves.png": 1,
    "problem2/results/extrapolation/extrapolation_results.json": 1,
    "problem2/results/extrapolation/extrapolation_curves.png": 1,
    "problem2/results/extrapolation/encoding_comparison.png": 1,
    "problem2/results/extrapolation/learned_position_embeddings.png": 1,
}


class Stopped(Exception):
    """Its sentence says why there is no new zip."""


# --- what is missing -------------------------------------------------------------------------------------------------


def unfinished_tasks(folder: Path, checks: Any) -> Iterator[tuple[str, str]]:
    """(task, "" or a sentence). The functions are called in a process of their own, as the grader does it."""
    process = Runner(command(folder), folder)
    try:
        for name, task in checks.TASKS.items():
            question = {"notebook": f"problem{task.problem}.ipynb", "task": name}
            try:
                if getattr(task, "text", False):
                    process.ask(question | {"text": True}, SECONDS)
                    yield name, ""
                else:
                    calls = checks.calls(name)
                    yield name, checks.sentence(name, calls, process.ask(question | {"calls": calls}, SECONDS))
            except Failed as failed:
                yield name, str(failed)
    finally:
        process.stop()


def missing_files(folder: Path) -> Iterator[str]:
    for pattern, count in FILES.items():
        found = len(list(folder.glob(pattern)))
        if found < count:
            yield f"{pattern} is missing." if count == 1 else f"{pattern}: {found} of {count} files."


def unrun_notebooks(folder: Path) -> Iterator[str]:
    """A notebook is handed in as it is saved."""
    for name in NOTEBOOKS:
        try:
            if cells(folder / name, "code") and '"output_type"' not in (folder / name).read_text(encoding="utf-8"):
                yield f"{name} holds no outputs: run all of its cells and save it."
        except NotThere as error:
            yield str(error)


def audit(folder: Path, handed_in: Path) -> str:
    """What the audit says about the results. It is a folder beside this one, and need not be there."""
    if not (folder / "audit").is_dir():
        return ""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    words = [sys.executable, "-m", "audit", "."]
    try:
        done = subprocess.run(
            words,
            cwd=handed_in,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"The audit did not end ({type(error).__name__})."
    return (done.stdout or done.stderr).strip()


# --- the zip ---------------------------------------------------------------------------------------------------------


def files_of(folder: Path, with_report: bool) -> list[Path]:
    """Notebooks, the PDF, modules that a student has added, and the results; no links, nothing hidden."""
    names = [folder / name for name in (*NOTEBOOKS, *[REPORT] * with_report)]
    names += sorted(path for path in folder.glob("*.py") if path.name not in OURS)
    names += [path for results in RESULTS for path in sorted((folder / results).rglob("*"))]
    hidden = [path for path in names if any(part.startswith(".") for part in path.relative_to(folder).parts)]
    return [path for path in names if path.is_file() and not path.is_symlink() and path not in hidden]


def write_zip(folder: Path, name: str, trial: Path, with_report: bool) -> list[str]:
    """Which files are too large for it. Before it counts it is unpacked in `trial`, as the grader does it."""
    temporary = folder / f".{name}.zip"
    files = files_of(folder, with_report)
    too_large = [file for file in files if file.stat().st_size > FILE_BYTES]
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                if file not in too_large:
                    archive.write(file, file.relative_to(folder).as_posix())
        unpack(temporary, trial)
        os.replace(temporary, folder / f"{name}.zip")
    finally:
        temporary.unlink(missing_ok=True)
    return [f"{file.relative_to(folder).as_posix()} is too large and is left out." for file in too_large]


def submit(folder: Path, name: str) -> int:
    """How many things are missing; the zip is written all the same, and says so."""
    if not any((folder / notebook).is_file() for notebook in NOTEBOOKS):
        raise Stopped(f"{folder} holds neither {' nor '.join(NOTEBOOKS)}; there is nothing to hand in.")
    sys.path.insert(0, str(folder))
    try:
        checks = importlib.import_module("checks")
    except Exception as error:
        raise Stopped(f"checks.py cannot be used ({error!r}); take it from the handout again.") from None
    print("The tasks:")
    missing = 0
    for task, sentence in unfinished_tasks(folder, checks):
        print(f"  {'-' if sentence else 'x'} {task}: {sentence or 'right'}", flush=True)
        missing += bool(sentence)
    no_report = pdf_gaps(folder)
    with tempfile.TemporaryDirectory() as trial:
        too_large = write_zip(folder, name, Path(trial), with_report=not no_report)
        findings = audit(folder, Path(trial))
    gaps = [*unrun_notebooks(folder), *missing_files(folder), *no_report, *too_large]
    if findings:
        print(f"\nWhat the audit says about the results:\n{findings}")
    if gaps:
        print("\n".join(["\nWhat is missing:", *(f"  - {gap}" for gap in gaps)]))
    print(f"\n{name}.zip is written" + (", though something is missing." if missing or gaps else ": complete."))
    return missing + len(gaps)


def pdf_gaps(folder: Path) -> list[str]:
    """Make the PDF of the notebooks that are there. Where that fails, an old one stays, but is not handed in."""
    notebooks = [folder / name for name in NOTEBOOKS if (folder / name).is_file()]
    temporary = folder / f".{REPORT}"
    try:
        from .report import NoReport, write_pdf
    except ImportError as error:
        return [f"{REPORT}: {error.name} is not installed (see requirements.txt)."]
    try:
        write_pdf(notebooks, temporary)
        os.replace(temporary, folder / REPORT)
    except NoReport as error:
        return [f"{REPORT} could not be made. {error}"]
    finally:
        temporary.unlink(missing_ok=True)
    return []


def main() -> None:
    parser = argparse.ArgumentParser(prog="submit.py", description="Check what there is and write one zip.")
    parser.add_argument("name", nargs="?", default="hand-in", help="of the zip (default hand-in)")
    name = parser.parse_args().name
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # sentences may hold any character
    if not re.fullmatch(r"\w[\w .-]{0,60}", name):
        sys.exit(f"submit.py: {name!r} is not a name for a file; use letters and digits.")
    try:
        sys.exit(min(submit(HERE, name.removesuffix(".zip")), 1))
    except (Stopped, Refused) as error:
        sys.exit(f"submit.py: {error} No zip is written; an earlier one is as it was.")
    except OSError as error:
        sys.exit(f"submit.py: {error.filename}: {error.strerror}. No zip is written; an earlier one is as it was.")
    except KeyboardInterrupt:
        sys.exit("submit.py: stopped. No zip is written; an earlier one is as it was.")


if __name__ == "__main__":
    main()
