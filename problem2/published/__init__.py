"""What is published: the one place that names these files, and reads them. README.md says what they are."""

import functools
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from problem1.shared.errors import UserError
from problem1.shared.storage import write_table
from problem2.encodings import ENCODINGS
from problem2.model import Classifier, load_classifier

FOLDER = Path(__file__).parent
RUNS = "runs.zip"
STUDY = (  # tables of `python -m problem2.sweep`
    "candidates",
    "candidates_evaluated",
    "classifiers",
    "classifiers_evaluated",
    "certificates",
    "hard",
    "hard_evaluated",
)
FLAWED = ("flawed", "flawed_evaluated")  # tables of `python -m problem2.flawed`
DEAD = ("flawed_dead", "flawed_dead_evaluated", "flawed_dead_epochs")  # ... of `python -m problem2.flawed dead`
COST = "cost"  # table of `python -m problem2.bench`


def certified_file(folder: Path | None = None) -> Path:
    return (folder or FOLDER) / "certified.safetensors"


def certificate_file(folder: Path | None = None) -> Path:
    return (folder or FOLDER) / "certificate.json"


def classifier_file(encoding: str, folder: Path | None = None) -> Path:
    return (folder or FOLDER) / "classifiers" / f"{encoding}.safetensors"


def table_file(name: str, folder: Path | None = None) -> Path:
    return (folder or FOLDER) / f"{name}.csv"


CERTIFIED, CERTIFICATE = certified_file(), certificate_file()


def table(name: str) -> pd.DataFrame:
    tables = (*STUDY, *FLAWED, *DEAD, COST)
    if name not in tables:
        raise UserError(f"no published table is called {name!r}; there are {', '.join(tables)}.")
    file = table_file(name)
    return read_table(file, file.stat().st_mtime_ns).copy()


@functools.lru_cache(maxsize=16)
def read_table(file: Path, modified: int) -> pd.DataFrame:
    """Some are large and asked for often; one that is written anew is read anew."""
    return pd.read_csv(file)


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path) -> None:
    for name, rows in tables.items():
        write_table(rows, table_file(name, folder))


def published_encodings() -> list[str]:
    """Of which there is a classifier, in the order of ENCODINGS: a new one is not studied yet."""
    return [name for name in ENCODINGS if classifier_file(name).exists()]


def published_classifier(encoding: str) -> Classifier:
    """Seed 0 of the augmented training with this encoding."""
    if encoding not in published_encodings():
        raise UserError(f"no classifier of {encoding!r} is published; there are {', '.join(published_encodings())}.")
    return load_classifier(classifier_file(encoding))


def published_classifiers() -> dict[str, Classifier]:
    """{encoding: classifier} of all that are published."""
    return {name: published_classifier(name) for name in published_encodings()}


def certified_classifier() -> Classifier:
    """The one that is right on every sequence of every length."""
    return load_classifier(certified_file())
