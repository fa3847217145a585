"""Many runs side by side: one process per core, one thread each, one file per finished run; what is done is skipped."""

import hashlib
import json
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from pathlib import Path

import pandas as pd
import torch
from tqdm.auto import tqdm

from problem1.storage import write_json


def run_grid(function, configurations, folder, progress=True):
    """Call function(**configuration) for every configuration; returns a DataFrame, one row each, in their order.

    `function` is defined in a module and returns a dictionary that JSON can hold. Each result is written to `folder`
    the moment it is there, so an interrupted grid goes on where it stopped. A run that fails does not stop the others.
    """
    folder = Path(folder)
    rows = {row_file(function, configuration, folder): configuration for configuration in configurations}
    missing = {file: configuration for file, configuration in rows.items() if not file.exists()}
    failures = {}
    if missing:
        workers = min(len(missing), os.cpu_count())
        pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker)
        bar = tqdm(total=len(rows), initial=len(rows) - len(missing), desc=function.__name__, disable=not progress)
        try:
            futures = {pool.submit(run_row, function, c, file): c for file, c in missing.items()}
            for future in as_completed(futures):
                bar.update()
                if future.exception():
                    failures[json.dumps(futures[future])] = future.exception()
        finally:
            pool.shutdown(cancel_futures=True)
            bar.close()
    for configuration, error in failures.items():
        print(f"{function.__name__} failed for {configuration}: {error}", file=sys.stderr)
    if failures:
        raise RuntimeError(f"{len(failures)} of {len(rows)} runs failed; the others are in {folder}.")
    return pd.DataFrame([{**c, **json.loads(file.read_text())["result"]} for file, c in rows.items()])


def start_worker():
    torch.set_num_threads(1)
    threading.Thread(target=leave_with_parent, daemon=True).start()


def leave_with_parent():
    """A worker whose parent was killed has nobody to work for."""
    parent_process().join()
    os._exit(1)


def row_file(function, configuration, folder):
    spec = sys.modules[function.__module__].__spec__  # its name is the same for `python -m` and for an import
    key = json.dumps([spec.name if spec else function.__module__, function.__name__, configuration], sort_keys=True)
    return folder / f"{function.__name__}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


def run_row(function, configuration, file):
    """One run, in a worker: it writes its own row, so a result survives whatever happens to the others."""
    write_json(file, {"configuration": configuration, "result": function(**configuration)})
