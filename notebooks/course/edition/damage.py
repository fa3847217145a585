"""Damage notebooks at random and grade them all: `python -m course.edition.damage [--count 100] [--seed 0]`.

Each is a solved notebook with one to three damages, in a zip of its own. In spite of them every task gets its mark.
"""

import copy
import importlib
import json
import random
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from course.edition.grade import Course, grade, the_course
from problem1.shared.commands import Parser, one_sentence, parse_count, parse_int

Cells = list[Any]
HUGE = 3_000_000  # characters of an output


def few(cells: Cells, draw: random.Random) -> Cells:
    return draw.sample(cells, draw.randint(1, min(4, len(cells) - 1)))


def delete(cells: Cells, draw: random.Random) -> None:
    for cell in few(cells, draw):
        cells.remove(cell)


def duplicate(cells: Cells, draw: random.Random) -> None:
    for cell in few(cells, draw):
        cells.insert(draw.randrange(len(cells)), copy.deepcopy(cell))


def reorder(cells: Cells, draw: random.Random) -> None:
    draw.shuffle(cells)


def double_ids(cells: Cells, draw: random.Random) -> None:
    for cell in cells:
        cell["id"] = draw.choice(["same", "", None, 3])


def huge_outputs(cells: Cells, draw: random.Random) -> None:
    for cell in few(cells, draw):
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * draw.randrange(HUGE)}]


def lose_keys(cells: Cells, draw: random.Random) -> None:
    for cell in few(cells, draw):
        cell.pop(draw.choice(list(cell)), None)


def wrong_types(cells: Cells, draw: random.Random) -> None:
    for cell in few(cells, draw):
        cell[draw.choice(list(cell))] = draw.choice([None, 3, {}, [3, None], "\0", [["def f():"]], True])
    cells.append(draw.choice([None, 3, "cell", []]))


def cut_sources(cells: Cells, draw: random.Random) -> None:
    for cell in few(cells, draw):
        source = "".join(cell["source"])
        cell["source"] = source[: draw.randrange(len(source) + 1)]


def garble_sources(cells: Cells, draw: random.Random) -> None:
    for cell in few(cells, draw):
        source = "".join(cell["source"])
        place = draw.randrange(len(source) + 1)
        cell["source"] = (
            source[:place] + draw.choice(["(", "\0", "\ud800", "\n%%x\n", "\t", "'''", "é ", "\n  "]) + source[place:]
        )


def join_cells(cells: Cells, draw: random.Random) -> None:
    place = draw.randrange(len(cells) - 1)
    cells[place]["source"] = "".join(cells[place]["source"]) + "".join(cells.pop(place + 1)["source"])


OF_CELLS = (  # in this order, since the first ones need cells that are whole
    *(cut_sources, garble_sources, join_cells, delete, duplicate, reorder),
    *(double_ids, huge_outputs, lose_keys, wrong_types),
)


def cut_file(text: bytes, draw: random.Random) -> bytes:
    return text[: draw.randrange(len(text))]


def garble_file(text: bytes, draw: random.Random) -> bytes:
    data = bytearray(text)
    for _ in range(draw.randint(1, 5)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def other_layout(text: bytes, draw: random.Random) -> bytes:
    cells = json.loads(text)["cells"]
    other: list[Any] = [{"worksheets": [{"cells": cells}]}, cells, {"cells": {"0": cells}}, {"cells": None}, "", 0]
    return json.dumps(draw.choice(other)).encode()


OF_FILES = (cut_file, garble_file, other_layout)


def damaged(notebook: str, draw: random.Random) -> tuple[bytes, list[str]]:
    """A notebook with one to three damages, and their names. In one of five the file itself is damaged as well."""
    content = json.loads(notebook)
    kinds: list[Callable[[Any, random.Random], Any]] = draw.sample(OF_CELLS, draw.randint(1, 3))
    for kind in sorted(kinds, key=OF_CELLS.index):
        kind(content["cells"], draw)
    text = json.dumps(content).encode()
    if draw.random() < 0.2:
        last = draw.choice(OF_FILES)
        kinds.append(last)
        text = last(text, draw)
    return text, [kind.__name__.replace("_", " ") for kind in kinds]


def grade_damaged(notebooks: Sequence[str], course: Course, count: int, seed: int) -> pd.DataFrame:
    """One row for each damage: how many notebooks had it, how many were marked in every task, and their points."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = {}
        for number in range(count):
            problem = number % len(notebooks) + 1
            text, kinds[f"{number:04}"] = damaged(notebooks[problem - 1], draw)
            with zipfile.ZipFile(folder / f"{number:04}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(f"problem{problem}.ipynb", text)
        rows = grade(folder, folder / "grades", course)
    rows["marked"] = (rows.points.notna() & ((rows.points > 0) | (rows.sentence != ""))) | rows.sentence.str.startswith(
        "To be"
    )
    rows["own"] = rows.problem == rows.student.astype(int) % len(notebooks) + 1
    own = rows[rows.own].groupby("student").agg(points=("points", "sum"), of=("of", "sum"))
    own["marked"] = rows.groupby("student").marked.sum() == len(course.tasks)
    own["share"] = own.points / own.of
    own["damage"] = own.index.map(kinds)
    each = (
        own.explode("damage")
        .groupby("damage")
        .agg(notebooks=("marked", "size"), marked=("marked", "sum"), points=("share", "mean"))
    )
    each.loc["all"] = [len(own), own.marked.sum(), own.share.mean()]
    return each


def solved_notebooks() -> list[str]:
    """The teacher's, from the handout."""
    handout = importlib.import_module("course.edition.handout")
    return [json.dumps(handout.notebook(f"problem{problem}", teacher=True)) for problem in (1, 2)]


def main() -> None:
    parser = Parser(prog="damage", description="Damage notebooks at random and grade them.")
    parser.add_argument("--count", type=parse_count, default=100, help="how many notebooks (default 100)")
    parser.add_argument("--seed", type=parse_int, default=0, help="of the damages (default 0)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with one_sentence(parser.prog):
        table = grade_damaged(solved_notebooks(), the_course(), arguments.count, arguments.seed)
    print(
        table.to_string(formatters={"notebooks": "{:.0f}".format, "marked": "{:.0f}".format, "points": "{:.0%}".format})
    )


if __name__ == "__main__":
    main()
