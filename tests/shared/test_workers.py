"""The pool, with functions that need no import of ours: its processes start within a moment."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from problem1.shared.workers import Workers
from tests.shared.processes import group_is_gone, is_gone, kill_me, start_script, until


@pytest.fixture
def pool():
    pool = Workers()
    yield pool
    pool.close()


def test_a_process_takes_one_run_after_the_other(pool):
    first = pool.call(os.getpid)
    assert first != os.getpid() and pool.call(os.getpid) == first and pool.call(max, 3, 5) == 5
    assert len(pool.all) == 1


def test_as_many_processes_as_threads_that_ask(pool):
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: pool.call(time.sleep, 0.5), range(4)))
    assert len(pool.all) == 2


def test_a_killed_process_costs_its_run_only(pool):
    """The run is tried once more, the other processes go on, and a new one takes the next run."""
    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(pool.call, time.sleep, 2)
        until(lambda: pool.all)
        with pytest.raises(RuntimeError, match=r"its worker died 2 times \(exit code -9\)"):
            pool.call(kill_me)
        assert long.result(timeout=60) is None
    assert pool.call(max, 3, 5) == 5


def test_a_run_whose_process_was_killed_once_is_done(pool):
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(pool.call, time.sleep, 0.7)
        until(lambda: pool.all)
        pool.all[0].process.kill()
        assert answer.result(timeout=60) is None
    assert len(pool.all) == 2


def test_closing_ends_all_processes_and_nothing_can_be_asked_afterwards(pool):
    threads = ThreadPoolExecutor(1)
    long = threads.submit(pool.call, time.sleep, 60)
    until(lambda: pool.all)
    idle, began = pool.call(os.getpid), time.monotonic()
    pool.close()
    assert time.monotonic() - began < 10
    with pytest.raises(RuntimeError, match="the grid was stopped"):
        long.result(timeout=10)
    assert is_gone(idle) and not any(worker.process.is_alive() for worker in pool.all)
    with pytest.raises(RuntimeError, match="the grid was stopped"):
        pool.call(max, 3, 5)


SLOW_IMPORT = """
import contextlib, os, sys, threading, time
from pathlib import Path
if __name__ != "__main__":  # a worker, which imports this script first
    (Path(__file__).parent / str(os.getpid())).touch()
    time.sleep(3)
from problem1.shared.workers import Workers
if __name__ == "__main__":
    pool = Workers()
    def ask():
        with contextlib.suppress(RuntimeError):
            pool.call(time.sleep, 60)
    for _ in range(2):
        threading.Thread(target=ask, daemon=True).start()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pool.close()
        sys.exit("stopped")
"""


def started_workers(folder):
    return [int(file.name) for file in folder.iterdir() if file.name.isdecimal()]


def test_ctrl_c_while_workers_import_prints_no_traceback_of_theirs(tmp_path):
    """It goes to the whole group, also to the first worker, with which a helper of multiprocessing is started."""
    script = start_script(tmp_path / "script.py", SLOW_IMPORT)
    until(lambda: len(started_workers(tmp_path)) == 2)
    os.killpg(script.pid, signal.SIGINT)
    _, errors = script.communicate(timeout=30)
    assert script.returncode == 1 and errors == "stopped\n"
    until(lambda: group_is_gone(script.pid), 10)
    assert group_is_gone(script.pid)


def test_workers_whose_parent_was_killed_leave(tmp_path):
    script = start_script(tmp_path / "script.py", SLOW_IMPORT)
    until(lambda: len(started_workers(tmp_path)) == 2)
    workers = started_workers(tmp_path)
    script.kill()
    script.communicate(timeout=30)
    until(lambda: all(map(is_gone, workers)), 20)
    assert all(map(is_gone, workers))
