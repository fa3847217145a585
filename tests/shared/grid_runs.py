"""Runs for the tests of grids, in a module that workers import quickly."""

import os
import sys
from pathlib import Path

from tests.shared.processes import kill_me, start_script, until


def square(number, folder, wait=0.0, deaths=0):
    """A run that leaves a trace of every call, and dies of its first ones if it is told to."""
    with open(Path(folder) / "calls", "a") as trace:
        trace.write(f"{number} {os.getpid()}\n")
    if number < 0:
        raise ValueError(f"{number} is below zero")
    if calls(folder).count(number) <= deaths:
        kill_me()
    until(lambda: not wait or (Path(folder) / "go on").exists(), wait)
    return {"square": number * number, "threads": sys.modules["torch"].get_num_threads(), **draw(number)}


def draw(seed):
    """A run whose result is what chance gives it."""
    torch = sys.modules["torch"]
    torch.manual_seed(seed)
    return {"drawn": (torch.randn(50, 50) @ torch.randn(50, 50)).sum().item()}


def traces(folder):
    """(number, process) of each call."""
    file = Path(folder) / "calls"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [(int(number), int(process)) for number, process in lines]


def calls(folder):
    return sorted(number for number, _ in traces(folder))


def of(folder, *numbers, **fields):
    return [{"number": n, "folder": str(folder), **fields} for n in numbers]


def start_grid(folder, configurations, **options):
    """run_grid in a process of its own."""
    code = f"""
from problem1.shared.commands import one_sentence
from problem1.shared.grid import run_grid
from tests.shared.grid_runs import square
if __name__ == "__main__":
    with one_sentence("sweep"):
        run_grid(square, {configurations}, {str(folder)!r}, progress=False, **{options})
"""
    return start_script(Path(folder) / "script.py", code)
