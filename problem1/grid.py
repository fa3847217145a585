"""Many runs side by side, on the cores of this machine or on a Dask cluster; what is done is never done again.

A run that is done is a file <function>-<key>.json, one that failed <function>-<key>.failed.json. The key is made of
module, function and configuration, so a row is used again exactly if nothing of these has changed. A row holds:

    configuration     the arguments of the run; its seed is one of them
    result            what the function returned; a run that failed has `error` and `traceback` instead
    code              the commit that ran, with -dirty if files differed from it; outside git the package's version
    machine           where it ran: the last digits of a training are the same only on processors of the same kind
    cpu seconds       of this run, in its worker

Rows of the time before the last three were kept are as good. What else a run leaves, such as trained weights, stays on
the disk of its worker. Rows that are published are packed into one file, with which another clone can begin.
"""

import functools
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from asyncio import CancelledError
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pandas as pd
import torch
from tqdm.auto import tqdm

from problem1.storage import atomic_path, one_process_at_a_time, write_json
from problem1.workers import start_workers


class RunsFailed(RuntimeError):
    """Some runs of a grid have failed; the others are done."""


def run_grid(function, configurations, folder, progress=True, scheduler=None, workers=None):
    """Call function(**configuration) for every configuration; returns a DataFrame, one row each, in their order: what
    it was asked, what came out, and the `code` that ran.

    `function` is defined in a module and returns a dictionary that JSON can hold. Each result is written to `folder`
    the moment it is there, so a grid that is interrupted goes on where it stopped. A run that fails does not stop the
    others; RunsFailed is raised when they are done, and the next call tries it again.

    Runs take one process per core (or `workers`), or the Dask cluster at the address `scheduler`.
    """
    folder = Path(folder)
    rows = {row_file(function, configuration, folder): configuration for configuration in configurations}
    missing = {file: configuration for file, configuration in rows.items() if read_row(file) is None}
    errors, versions = {}, set()
    if missing:
        place = start_workers(scheduler, min(len(missing), workers or os.cpu_count()))
        threads = ThreadPoolExecutor(min(len(missing), place.at_once))
        bar = tqdm(total=len(rows), initial=len(rows) - len(missing), desc=function.__name__, disable=not progress)
        try:
            futures = {threads.submit(fill_row, place, function, c, file): file for file, c in missing.items()}
            for future in as_completed(futures):
                bar.update()
                row = future.result()
                versions.add(row.get("code", code_version()))
                if "error" in row:
                    errors[futures[future]] = row["error"]
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            place.close()
            threads.shutdown()
            bar.close()
    if versions - {code_version()}:
        print(f"Some runs were done by other code than {code_version()}: {sorted(versions)}", file=sys.stderr)
    for file, error in errors.items():
        print(f"{function.__name__} failed for {json.dumps(rows[file])}: {error}", file=sys.stderr)
    if errors:
        raise RunsFailed(
            f"{len(errors)} of {len(rows)} runs failed; the others, and the errors, are in {folder}. The same call "
            "tries the failed ones again."
        )
    done = [(c, read_row(file)) for file, c in rows.items()]
    return pd.DataFrame([{**c, **row["result"], "code": row.get("code")} for c, row in done])


def run_grids(grids, folder, scheduler=None):
    """[run_grid(...)] of each (function, configurations); a failure in one is told only after the last of them."""
    tables, failures = [], []
    for function, configurations in grids:
        try:
            tables.append(run_grid(function, configurations, folder, scheduler=scheduler))
        except RunsFailed as failure:
            failures.append(f"{function.__name__}: {failure}")
    if failures:
        raise RunsFailed(" ".join(failures))
    return tables


# --- a row and its file ----------------------------------------------------------------------------------------------


def module_name(function):
    spec = sys.modules[function.__module__].__spec__  # its name is the same for `python -m` and for an import
    return spec.name if spec else function.__module__


def row_file(function, configuration, folder):
    key = json.dumps([module_name(function), function.__name__, configuration], sort_keys=True)
    return folder / f"{function.__name__}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


def failed_file(file):
    return file.with_suffix(".failed.json")


def read_row(file):
    """The row of a run that is done, or None."""
    try:
        row = json.loads(file.read_text())
    except (FileNotFoundError, json.JSONDecodeError):  # a machine that lost its power may leave half a file
        return None
    return row if "result" in row else None


def fill_row(place, function, configuration, file):
    """Have the run done and write its row. Workers of a cluster have other disks, so it is written here."""
    with one_process_at_a_time(file.with_suffix(".lock")):  # another sweep may be in the middle of it
        row = read_row(file)
        if row is not None:
            return row
        try:
            row = place.call(file.stem, run_row, module_name(function), function.__name__, configuration)
        except (Exception, CancelledError) as error:  # of the worker, not of the run
            if place.closed:
                raise  # stopped, not failed
            row = {"configuration": configuration, "error": f"{type(error).__name__}: {error}"}
        if "error" in row:
            write_json(failed_file(file), row)
        else:
            write_json(file, row)
            failed_file(file).unlink(missing_ok=True)
        return row


def pack_rows(grids, folder, archive):
    """The rows of these grids, each (function, configurations), in one zip file that is the same for the same rows."""
    files = [row_file(function, c, folder) for function, configurations in grids for c in configurations]
    with atomic_path(archive) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as rows:
        for file in sorted(files):
            rows.writestr(zipfile.ZipInfo(file.name), file.read_bytes(), zipfile.ZIP_DEFLATED)


def unpack_rows(archive, folder):
    """Put the rows of a zip file into `folder`, but for those that it has."""
    with zipfile.ZipFile(archive) as rows:
        for name in rows.namelist():
            if read_row(folder / name) is None:
                write_json(folder / name, json.loads(rows.read(name)))


# --- one run, in a worker --------------------------------------------------------------------------------------------

one_run_at_a_time = threading.Lock()  # a Dask worker may have several threads, but there is one random generator


def run_row(module, name, configuration):
    """The row of one run. The function comes by name: a worker of a cluster has nothing but the installed project."""
    with one_run_at_a_time:
        torch.set_num_threads(1)
        code, started = code_version(), time.process_time()
        try:
            function = getattr(importlib.import_module(module), name)
            started = time.process_time()  # imports are not part of the run
            outcome = {"result": json.loads(json.dumps(function(**configuration)))}
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        spent = round(time.process_time() - started, 3)
        about = {"code": code, "machine": platform.node(), "cpu seconds": spent}
        return {"configuration": configuration, **outcome, **about}


@functools.cache
def code_version():
    """The commit of this file's repository, marked if anything has changed since; outside git the package's version."""
    here = Path(__file__).resolve()
    try:
        for command in (["ls-files", "--error-unmatch", here.name], ["describe", "--always", "--dirty", "--exclude=*"]):
            done = subprocess.run(["git", *command], cwd=here.parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # no git, or a file that it does not know
        return importlib.metadata.version("small-transformers")
