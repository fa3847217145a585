"""Runs for the tests of grids, in a module that workers import quickly."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def square(number, folder, wait=0.0, deaths=0):
    """A run that leaves a trace of every call, and dies of its first ones if it is told to."""
    with open(Path(folder) / "calls", "a") as trace:
        trace.write(f"{number} {os.getpid()} {os.getcwd()}\n")
    if number < 0:
        raise ValueError(f"{number} is below zero")
    if calls(folder).count(number) <= deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    until(lambda: not wait or (Path(folder) / "go on").exists(), wait)
    return {"square": number * number, "threads": sys.modules["torch"].get_num_threads()}


def alone(folder):
    """A run that looks whether another one is under way."""
    busy = Path(folder) / "busy"
    alone = not busy.exists()
    busy.touch()
    time.sleep(0.3)
    busy.unlink(missing_ok=True)
    return {"alone": alone}


def traces(folder):
    """(number, process, its working folder) of each call."""
    file = Path(folder) / "calls"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [(int(number), int(process), where) for number, process, where in lines]


def calls(folder):
    return sorted(number for number, _, _ in traces(folder))


def until(condition, seconds=60):
    """Wait for it, but not for ever."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def of(folder, *numbers, **fields):
    return [{"number": n, "folder": str(folder), **fields} for n in numbers]


def start_grid(folder, configurations, **options):
    """run_grid in a process of its own, which hears Ctrl-C even if these tests are a shell's background job."""
    arguments = f"square, {configurations}, {str(folder)!r}, progress=False, **{options}"
    code = f"from problem1.grid import run_grid; from tests.grid_runs import square; run_grid({arguments})"
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {code}"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL)
