"""What judging costs against the length, with and without a window: `python -m problem2.bench`."""

import argparse
import statistics
import time

import pandas as pd
import torch

from problem1.loop import one_thread
from problem1.settings import quick
from problem2.certificate import PUBLISHED
from problem2.model import SHAPES, Judge
from problem2.sweep import write_table

LENGTHS = (16, 32, 64, 128, 256, 512, 1_024)
ROUNDS = quick(9, 2)
WINDOWS = {"full attention": None, "window 8": 8, "window 1": 1}


def operations(length, window, layers, heads, width, hidden):
    """Multiplications and additions of the matrix products for one sequence (heads share the width between them)."""
    keys = length if window is None else 2 * window + 1
    return layers * length * (8 * width**2 + 4 * width * hidden + 4 * keys * width)


@torch.inference_mode()
def measure(rounds=ROUNDS, tokens=8_192):
    """Median CPU time per sequence of the small shape; in every round each judge runs once at each length."""
    judges = {name: Judge("clipped", **SHAPES["small"], window=window).eval() for name, window in WINDOWS.items()}
    batches = {length: torch.randint(100, (max(1, tokens // length), length)) for length in LENGTHS}
    seconds = {(name, length): [] for name in judges for length in LENGTHS}
    with one_thread():
        for _ in range(rounds):
            for name, length in seconds:
                started = time.process_time()
                judges[name](batches[length])
                seconds[name, length].append((time.process_time() - started) / len(batches[length]))
    return pd.DataFrame(
        [
            {
                "attention": name,
                "length": length,
                "ms per sequence": 1_000 * statistics.median(taken),
                "operations": operations(length, WINDOWS[name], **SHAPES["small"]),
            }
            for (name, length), taken in seconds.items()
        ]
    )


def growth(table):
    """How many times a sequence of each length costs what one of 16 costs: measured, and by counting operations."""
    table = table.set_index(["attention", "length"])
    first = table.groupby("attention").transform("first")
    return (table / first).rename(columns={"ms per sequence": "measured", "operations": "expected"})


def main():
    parser = argparse.ArgumentParser(prog="python -m problem2.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--publish", action="store_true", help="write the table to problem2/published")
    publish = parser.parse_args().publish
    table = measure()
    print("Cost of judging a sequence, in multiples of one of length 16")
    print(growth(table).unstack("attention").round(1).to_string())
    taken = table.pivot(index="length", columns="attention", values="ms per sequence")
    print("\nCost of judging with a window, as a ratio to full attention")
    print(taken.drop(columns="full attention").div(taken["full attention"], axis=0).round(2).to_string())
    if publish:
        write_table(table, PUBLISHED / "cost.csv")


if __name__ == "__main__":
    main()
