"""What is published: the one place that names these files, and reads them. README.md says what they are."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from problem1.model import Adder, load_adder
from problem1.shared.errors import UserError
from problem1.shared.storage import write_table
from problem1.shared.training import Log

FOLDER = Path(__file__).parent
ADDER, LOG, RUNS = "adder.safetensors", "training_log.json", "runs.zip"
STUDY = ("candidates", "seeds", "digits", "adders", "heads", "groups", "greedy")  # tables of `python -m problem1.sweep`
PROGRAM, PROGRAM_RUNS = "program.safetensors", "program_runs.zip"
PROGRAMS = ("programs", *(f"program_{name}" for name in ("shares", "heads", "stages", "controls", "prefixes", "due")))
FLAWED = ("flawed", "flawed_heads")  # tables of `python -m problem1.flawed`
STOPPED = (
    "flawed_stopped",
    "flawed_stopped_heads",
    "flawed_stopped_numbers",
)  # ... of `python -m problem1.flawed stopped`


def table_file(name: str, folder: Path | None = None) -> Path:
    return (folder or FOLDER) / f"{name}.csv"


def check_file(model: str, folder: Path | None = None) -> Path:
    """Where the wrong answers on every pair are kept, by the hash of the model."""
    return (folder or FOLDER) / "every_pair" / f"{model}.json"


def table(name: str) -> pd.DataFrame:
    tables = STUDY + PROGRAMS + FLAWED + STOPPED
    if name not in tables:
        raise UserError(f"no published table is called {name!r}; there are {', '.join(tables)}.")
    return pd.read_csv(table_file(name))


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    for name, rows in tables.items():
        write_table(rows, table_file(name, folder))


def published_log() -> Log:
    return json.loads((FOLDER / LOG).read_text())


def published_adder() -> tuple[Adder, Log]:
    """The adder that the notebooks study, and its training log."""
    return load_adder(FOLDER / ADDER), published_log()
