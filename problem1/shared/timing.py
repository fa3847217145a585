"""Comparing costs on a noisy machine: ratios of CPU time, measured in turns."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from problem1.shared.progress import progress_bar


def interleaved(tasks: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each task, taken in turns so that other work disturbs all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in progress_bar(range(rounds), desc=" / ".join(tasks)[:60], leave=False):
        for name, task in tasks.items():
            started = time.process_time()
            task()
            seconds[name].append(time.process_time() - started)
    return {name: statistics.median(times[1:] or times) for name, times in seconds.items()}  # the first round warms up
