"""The same grid on a Dask cluster: a scheduler and two workers, processes of their own in folders of their own."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from problem1.bench import bare_run
from problem1.grid import RunsFailed, row_file, run_grid
from tests.grid_runs import ROOT, calls, of, square, start_grid, traces, until


@contextlib.contextmanager
def cluster(folder, **environment):
    """The address of a scheduler with two workers; all of them end with the block."""
    processes = []

    def start(name, command, *options):
        where = folder / name
        where.mkdir()
        line = [sys.executable, "-m", "dask", command, *options]
        with open(where / "log", "w") as log:
            processes.append(
                subprocess.Popen(line, cwd=where, stdout=log, stderr=log, env={**os.environ, **environment})
            )

    address_file = folder / "scheduler.json"
    try:
        start(
            "scheduler",
            "scheduler",
            "--host=127.0.0.1",
            "--port=0",
            "--dashboard-address=127.0.0.1:0",
            f"--scheduler-file={address_file}",
        )
        until(address_file.exists)
        address = json.loads(address_file.read_text())["address"]
        for number in (1, 2):
            start(f"worker{number}", "worker", address, "--nthreads=1", "--no-nanny", "--host=127.0.0.1")
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_worker_needs_only_the_installed_project(tmp_path, capsys):
    """Rows come back through the scheduler and are written here; a worker writes nothing that the grid needs."""
    configurations = [{"seed": seed, "steps": 1} for seed in (0, 1)]
    with cluster(tmp_path) as address:
        table = run_grid(bare_run, configurations, tmp_path / "grid", scheduler=address)
        (tmp_path / "grid").rename(tmp_path / "done")
    told = capsys.readouterr()
    assert table["loss"].tolist() == [bare_run(**c)["loss"] for c in configurations]
    assert "Dask dashboard: http://127.0.0.1:" in told.out and "2/2" in told.err
    for configuration in configurations:
        row = json.loads(row_file(bare_run, configuration, tmp_path / "done").read_text())
        assert row["configuration"] == configuration and row["cpu seconds"] > 0 and row["code"] and row["machine"]


def test_killed_workers_and_killed_sweeps_cost_their_runs_only(tmp_path):
    first, held = of(tmp_path, 1) + of(tmp_path, 7, wait=50.0)
    with cluster(tmp_path, PYTHONPATH=str(ROOT)) as address:
        sweep = start_grid(tmp_path, [first, held], scheduler=address)
        until(lambda: calls(tmp_path) == [1, 7] and row_file(square, first, tmp_path).exists())
        assert {where for _, _, where in traces(tmp_path)} <= {str(tmp_path / "worker1"), str(tmp_path / "worker2")}
        sweep.kill()
        sweep.wait()
        again = start_grid(tmp_path, [first, held], scheduler=address)
        until(lambda: again.poll() is not None, 3)  # time to ask for it again
        os.kill(next(process for number, process, _ in traces(tmp_path) if number == 7), signal.SIGKILL)
        until(lambda: calls(tmp_path) == [1, 7, 7])
        (tmp_path / "go on").touch()
        assert again.wait(60) == 0
        with pytest.raises(RunsFailed, match="1 of 3 runs failed"):
            run_grid(square, [*of(tmp_path, -1, 2), held], tmp_path, progress=False, scheduler=address)
    table = run_grid(square, [*of(tmp_path, 1, 2), held], tmp_path)  # read: there is no scheduler any more
    assert table["square"].tolist() == [1, 4, 49] and set(table["threads"]) == {1}
    assert calls(tmp_path) == [-1, 1, 2, 7, 7]
