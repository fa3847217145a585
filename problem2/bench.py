"""What classifying costs against the length, with and without a window: `python -m problem2.bench`."""

import itertools
from functools import partial

import pandas as pd
import torch

from problem1.shared.commands import Parser, one_sentence
from problem1.shared.errors import UserError
from problem1.shared.publishing import staged
from problem1.shared.settings import QUICK, quick
from problem1.shared.timing import interleaved
from problem1.shared.training import one_thread
from problem2 import published
from problem2.model import SHAPES
from problem2.train import ClassifierRecipe, make_classifier

LENGTHS = (16, 32, 64, 128, 256, 512, 1_024)
ROUNDS = quick(9, 2)
WINDOWS = {"full attention": None, "window 8": 8, "window 1": 1}


def operations(length: int, window: int | None, n_layers: int, n_heads: int, d_model: int, d_ff: int) -> int:
    """Multiplications and additions of the matrix products for one sequence (heads share d_model between them)."""
    keys = length if window is None else 2 * window + 1
    return n_layers * length * (8 * d_model**2 + 4 * d_model * d_ff + 4 * keys * d_model)


@torch.inference_mode()
def measure(rounds: int = ROUNDS, tokens: int = 8_192) -> pd.DataFrame:
    """Median CPU time per sequence of the small shape; in every round each classifier runs once at each length."""
    recipes = {name: ClassifierRecipe(encoding="clipped", window=window or 0) for name, window in WINDOWS.items()}
    classifiers = {name: make_classifier(recipe).eval() for name, recipe in recipes.items()}
    batches = {length: torch.randint(100, (max(1, tokens // length), length)) for length in LENGTHS}
    pairs = {f"{name}, {length}": (name, length) for name, length in itertools.product(WINDOWS, LENGTHS)}
    with one_thread():
        seconds = interleaved(
            {task: partial(classifiers[name], batches[n]) for task, (name, n) in pairs.items()}, rounds
        )
    return pd.DataFrame(
        [
            {
                "attention": name,
                "length": length,
                "ms per sequence": 1_000 * seconds[task] / len(batches[length]),
                "operations": operations(length, WINDOWS[name], **SHAPES["small"]),
            }
            for task, (name, length) in pairs.items()
        ]
    )


def growth(table: pd.DataFrame) -> pd.DataFrame:
    """How many times a sequence of each length costs what one of 16 costs: measured, and by counting operations."""
    table = table.set_index(["attention", "length"])
    first = table.groupby("attention").transform("first")
    return (table / first).rename(columns={"ms per sequence": "measured", "operations": "expected"})


def main() -> None:
    parser = Parser(prog="python -m problem2.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--publish", action="store_true", help="write the table to problem2/published")
    publish = parser.parse_args().publish
    with one_sentence(parser.prog):
        if publish and QUICK:
            raise UserError("a quick look is not published; run without QUICK.")
        table = measure()
        print("Cost of classifying a sequence, in multiples of one of length 16")
        print(growth(table).unstack("attention").round(1).to_string())
        taken = table.pivot(index="length", columns="attention", values="ms per sequence")
        print("\nCost of classifying with a window, as a ratio to full attention")
        print(taken.drop(columns="full attention").div(taken["full attention"], axis=0).round(2).to_string())
        if publish:
            with staged(published.FOLDER) as stage:
                published.write_tables({published.COST: table}, stage)


if __name__ == "__main__":
    main()
