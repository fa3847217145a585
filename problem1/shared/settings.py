"""Where results go, how many cores there are, and the quick look: `QUICK=1` in the environment, read here only."""

import os
from pathlib import Path
from typing import TypeVar

import joblib

T = TypeVar("T")
S = TypeVar("S")

QUICK = os.environ.get("QUICK", "0") not in ("", "0")


def results_folder(package_file: str) -> Path:
    """The results folder beside `package_file`; a quick look has its own, so it spoils nothing."""
    return Path(package_file).resolve().parent / ("results-quick" if QUICK else "results")


def quick(full: T, short: S) -> T | S:
    """`full`, or `short` in a quick look."""
    return short if QUICK else full


def banner() -> str:
    """A sentence that nobody can miss when numbers are not the real ones."""
    return "QUICK LOOK: short trainings and small samples, so the numbers below are NOT the results." if QUICK else ""


def cores() -> int:
    """How many this process may use: `taskset`, cgroups and containers are respected, unlike by os.cpu_count()."""
    return joblib.cpu_count()
