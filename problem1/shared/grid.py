"""Many runs side by side on the cores of this machine; what is done is never done again.

A run that is done is a file <function>-<key>.json, one that failed <function>-<key>.failed.json. The key is made of
module, function and configuration, so a row is used again exactly if nothing of these has changed. A row holds:

    configuration     the arguments of the run; its seed is one of them
    result            what the function returned; a run that failed has `error` and `traceback` instead
    code              a hash of the sources that the run imports
    machine           where it ran: the last digits of a training are the same only on processors of the same kind
    cpu seconds       of this run, in its worker

Several machines can share a sweep: each does its part, into one shared folder, or into folders of its own whose files
are then copied together. Rows that are published are packed into one file, with which another clone can begin.
"""

import hashlib
import importlib
import json
import platform
import sys
import time
import traceback
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from problem1.shared.progress import progress_bar
from problem1.shared.settings import cores
from problem1.shared.sources import code_of
from problem1.shared.storage import atomic_path, one_process_at_a_time, write_json
from problem1.shared.workers import Workers, check_started_by_script

Run = Callable[..., dict[str, Any]]
Configuration = dict[str, Any]
Grid = tuple[Run, Sequence[Configuration]]


class RunsFailed(RuntimeError):
    """Some runs of a grid have failed; the others are done."""


class PartDone(Exception):
    """All runs of this machine's part are done; those of other machines are not here yet."""


def run_grid(
    function: Run,
    configurations: Iterable[Configuration],
    folder: str | Path,
    progress: bool = True,
    workers: int | None = None,
    part: tuple[int, int] = (1, 1),
) -> pd.DataFrame:
    """Call function(**configuration) for every configuration; returns a DataFrame, one row each, in their order: the
    arguments of the run, its result, and the `code` that ran.

    `function` is defined in a module and returns a dictionary that JSON can hold. Each result is written to `folder`
    the moment it is there, so a grid that is interrupted goes on where it stopped. A run that fails does not stop the
    others; RunsFailed is raised when they are done, and the next call tries it again.

    Runs take one process per core (or `workers`). `part` (k, n) does every n-th run only, from the k-th on.
    """
    check_started_by_script()
    folder, rows = Path(folder), {}
    for configuration in configurations:
        file = row_file(function, configuration, Path(folder))
        if file in rows:
            raise ValueError(f"a grid has the configuration {json.dumps(configuration)} twice.")
        rows[file] = configuration
    ours = list(rows)[part[0] - 1 :: part[1]]
    missing = [file for file in ours if read_row(file) is None]
    errors = do_runs(function, {file: rows[file] for file in missing}, len(ours), progress, workers or cores())
    for file, error in errors.items():
        print(f"{function.__name__} failed for {json.dumps(rows[file])}: {error}", file=sys.stderr)
    if errors:
        raise RunsFailed(
            f"{len(errors)} of {len(ours)} runs failed; the others, and the errors, are in {folder}. The same call "
            "tries the failed ones again."
        )
    done = [(configuration, read_row(file)) for file, configuration in rows.items()]
    table = [{**c, **row["result"], "code": row.get("code")} for c, row in done if row is not None]
    if len(table) < len(rows):
        raise PartDone(f"part {part[0]}/{part[1]} is done; {len(rows) - len(table)} runs of other parts are missing.")
    return pd.DataFrame(table)


def do_runs(
    function: Run, missing: dict[Path, Configuration], total: int, progress: bool, workers: int
) -> dict[Path, str]:
    """Do the runs of these files; returns the errors of those that failed."""
    if not missing:
        return {}
    pool, errors = Workers(), {}
    threads = ThreadPoolExecutor(min(len(missing), workers))
    bar = progress_bar(total=total, initial=total - len(missing), desc=function.__name__, show=progress)
    try:
        futures = {threads.submit(fill_row, pool, function, c, file): file for file, c in missing.items()}
        for future in as_completed(futures):
            bar.update()
            row = future.result()
            if "error" in row:
                errors[futures[future]] = row["error"]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        pool.close()
        threads.shutdown()
        bar.close()
    return errors


def run_grids(grids: Iterable[Grid], folder: str | Path, part: tuple[int, int] = (1, 1)) -> list[pd.DataFrame]:
    """[run_grid(...)] of each (function, configurations). What is wrong with one of them is said after the last."""
    tables, failures, missing = [], [], []
    for function, configurations in grids:
        try:
            tables.append(run_grid(function, configurations, folder, part=part))
        except RunsFailed as failure:
            failures.append(f"{function.__name__}: {failure}")
        except PartDone as done:
            missing.append(f"{function.__name__}: {done}")
    if failures:
        raise RunsFailed(" ".join(failures))
    if missing:
        raise PartDone(" ".join(missing))
    return tables


# --- a row and its file ----------------------------------------------------------------------------------------------


def module_name(function: Run) -> str:
    spec = sys.modules[function.__module__].__spec__  # its name is the same for `python -m` and for an import
    return spec.name if spec else function.__module__


def row_file(function: Run, configuration: Configuration, folder: Path) -> Path:
    key = json.dumps([module_name(function), function.__name__, configuration], sort_keys=True)
    return folder / f"{function.__name__}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


def failed_file(file: Path) -> Path:
    return file.with_suffix(".failed.json")


def read_row(file: Path) -> dict[str, Any] | None:
    """The row of a run that is done, or None."""
    try:
        row = json.loads(file.read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):  # no power may leave half a file
        return None
    return row if "result" in row else None


def fill_row(pool: Workers, function: Run, configuration: Configuration, file: Path) -> dict[str, Any]:
    """Have the run done, and write its row."""
    with one_process_at_a_time(file.with_suffix(".lock")):  # another sweep may be in the middle of it
        row = read_row(file)
        if row is not None:
            return row
        try:
            row = pool.call(run_row, module_name(function), function.__name__, configuration)
        except Exception as error:  # of the worker, not of the run
            if pool.closed:
                raise  # stopped, not failed
            row = {"configuration": configuration, "error": f"{type(error).__name__}: {error}"}
        if "error" in row:
            write_json(failed_file(file), row)
        else:
            write_json(file, row)
            failed_file(file).unlink(missing_ok=True)
        return row


def pack_rows(grids: Iterable[Grid], folder: Path, archive: Path) -> None:
    """The rows of these grids, each (function, configurations), in one zip file that is the same for the same rows."""
    files = [row_file(function, c, folder) for function, configurations in grids for c in configurations]
    with atomic_path(archive) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as rows:
        for file in sorted(files):
            rows.writestr(zipfile.ZipInfo(file.name), file.read_bytes(), zipfile.ZIP_DEFLATED)


def unpack_rows(archive: Path, folder: Path) -> None:
    """Put the rows of a zip file into `folder`, but for those that it has."""
    with zipfile.ZipFile(archive) as rows:
        for name in rows.namelist():
            if read_row(folder / name) is None:
                write_json(folder / name, json.loads(rows.read(name)))


# --- one run, in a worker --------------------------------------------------------------------------------------------


def run_row(module: str, name: str, configuration: Configuration) -> dict[str, Any]:
    """The row of one run. The function comes by name, so a worker imports its module and not the grid's script."""
    torch.set_num_threads(1)
    code, started = None, time.process_time()
    try:
        code = code_of(module)
        function = getattr(importlib.import_module(module), name)
        started = time.process_time()  # imports are not part of the run
        outcome = {"result": json.loads(json.dumps(function(**configuration)))}
    except Exception as error:
        outcome = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    spent = round(time.process_time() - started, 3)
    about = {"code": code, "machine": platform.node(), "cpu seconds": spent}
    return {"configuration": configuration, **outcome, **about}
