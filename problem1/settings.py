"""Where results go, and the quick look: `QUICK=1` in the environment, read here and nowhere else."""

import os
from pathlib import Path

QUICK = os.environ.get("QUICK", "0") not in ("", "0")


def results_folder(package_file):
    """The results folder beside `package_file`; a quick look has its own, so it spoils nothing."""
    return Path(package_file).resolve().parent / ("results-quick" if QUICK else "results")


def quick(full, short):
    """`full`, or `short` in a quick look."""
    return short if QUICK else full


def banner():
    """A sentence that nobody can miss when numbers are not the real ones."""
    return "QUICK LOOK: short trainings and small samples, so the numbers below are NOT the results." if QUICK else ""
