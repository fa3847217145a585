"""How a study is published: staged beside the old one, checked, and swapped in as a whole or not at all."""

import contextlib
import ctypes
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from problem1.shared.errors import UserError
from problem1.shared.storage import one_process_at_a_time


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Yield a copy of `folder` to write to; it takes the folder's place when the block ends without an error.

    A process that is killed in between leaves the old folder or the new one, whole; see `exchange`.
    """
    stage = beside(folder, "stage")
    with one_process_at_a_time(beside(folder, "lock")):
        recover(folder)
        shutil.copytree(folder, stage)
        try:
            yield stage
            exchange(folder, stage)
        finally:
            recover(folder)


def beside(folder: Path, role: str) -> Path:
    return folder.with_name(f".{folder.name}.{role}")


def exchange(folder: Path, stage: Path) -> None:
    """The two change places: in one step where the system can, so that there is always a folder of this name; else in
    two, and `recover` undoes the first of them if the second never comes."""
    if not exchange_at_once(folder, stage):
        os.rename(folder, beside(folder, "old"))
        os.rename(stage, folder)


def exchange_at_once(folder: Path, stage: Path) -> bool:
    """Linux can, on most file systems; Python has no name for it."""
    if sys.platform != "linux":
        return False
    here, both_stay = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    return renameat2 is not None and renameat2(here, bytes(folder), here, bytes(stage), both_stay) == 0


def recover(folder: Path) -> None:
    """Put back what a process that was killed has moved away, and clear what it left."""
    if not folder.exists() and beside(folder, "old").exists():
        os.rename(beside(folder, "old"), folder)
    for role in ("stage", "old"):
        shutil.rmtree(beside(folder, role), ignore_errors=True)


def check_publishable(quick: bool, rows: pd.DataFrame, published_seeds: int) -> None:
    """Refuse what would replace a study by less: a quick look, fewer seeds, rows that different code has made."""
    if quick:
        raise UserError("a quick look is not published; run without QUICK.")
    seeds = rows["seed"].nunique()
    if seeds < published_seeds:
        raise UserError(f"{seeds} seeds are fewer than the {published_seeds} that are published; run at least as many.")
    if rows["code"].isna().any():
        raise UserError("some of these rows do not say which code has made them; remove them and run again.")
    codes = sorted(rows["code"].unique())
    if len(codes) > 1:
        raise UserError(
            f"these rows were made by different code ({', '.join(codes)}); remove the older ones from the results "
            "folder and run again."
        )


def same_models(tables: Mapping[str, pd.DataFrame], by: str = "seed") -> None:
    """Refuse tables (columns `by` and `model`) of which two name different models for the same seed."""
    seen: dict[object, tuple[str, str]] = {}
    for name, table in tables.items():
        for key, model in zip(table[by], table["model"], strict=True):
            first, known = seen.setdefault(key, (name, model))
            if known != model:
                raise UserError(
                    f"{first} and {name} are of different models for {by} {key} ({known} and {model}): run both again "
                    "on one machine."
                )
