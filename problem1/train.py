"""Train an adder: `python -m problem1.train --seed 0`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from problem1 import published
from problem1.dataset import (
    SWAPS,
    Batches,
    ExactBatches,
    OnlineBatches,
    contains,
    encode_pairs,
    operand_range,
    shift_right,
    split_pairs,
)
from problem1.model import Adder, Answers
from problem1.shared.commands import Parser, add_recipe_options, one_sentence, parse_path, recipe_from
from problem1.shared.errors import UserError
from problem1.shared.settings import quick, results_folder
from problem1.shared.storage import load_tensors
from problem1.shared.training import Log, Recipe, fit, option
from problem1.shared.words import listing

RESULTS = results_folder(__file__)


@dataclass(frozen=True)
class AdderRecipe(Recipe):
    """The recipe of the published adder: its defaults are the ones that the notebook studies."""

    digits: int = option(3, "digits of an operand, 2 to 6")
    data: str = option("exact", "the assignment's pairs, or new ones in every step", choices=["exact", "online"])
    train_size: int = option(10_000, "number of training pairs (data exact)", low=1, high=1_000_000)
    swap: str = option("columns", "what changes places at random while the sum stays the same", choices=[*SWAPS])
    nines: float = option(0.5, "share of a batch drawn from pairs with a column of sum 9 (data exact)", low=0, high=1)
    batch_size: int = option(32, "items in a batch", low=1, high=100_000)
    ema_decay: float = option(0.99, "of the weight average that is evaluated and kept; 0 for none", low=0, high=0.99999)
    steps: int = option(quick(4_000, 200), "optimizer steps", low=1, high=10_000_000)
    evaluate_every: int = option(quick(400, 100), "steps between validations", low=1, high=10_000_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        operand_range(self.digits)  # says which digits are allowed

    @property
    def name(self) -> str:
        return f"adder-{self.digits}digits-{self.data}-seed{self.seed}-{self.key}"


# --- data ------------------------------------------------------------------------------------------------------------


def make_batches(recipe: AdderRecipe) -> Batches:
    arguments = recipe.seed, recipe.batch_size, recipe.digits, recipe.swap
    if recipe.data == "online":
        return OnlineBatches(*arguments)
    return ExactBatches(*arguments, recipe.train_size, recipe.nines)


def shown_pairs(recipe: AdderRecipe) -> np.ndarray:
    """Every pair that the training shows, before any swap."""
    batches = make_batches(recipe)
    if isinstance(batches, ExactBatches):
        return batches.pairs
    return np.concatenate([batches.pairs_of(step) for step in range(recipe.steps)])


def never_trained(pairs: np.ndarray, recipe: AdderRecipe) -> np.ndarray:
    """Which pairs the training has not shown; a pair counts as shown if swaps can make a shown one of it."""
    return ~contains(shown_pairs(recipe), pairs, recipe.swap)


def recipe_of(path: str | Path) -> AdderRecipe:
    """The recipe in the header of a file of weights; of a file without one, the published recipe."""
    fields = load_tensors(path)[1].get("recipe")
    try:
        return AdderRecipe(**fields) if fields else AdderRecipe()
    except TypeError:
        raise UserError(f"{path} is of another version: its header has the recipe {fields}.") from None


def unseen_pairs(split: str, recipe: AdderRecipe | None = None) -> np.ndarray:
    """The pairs of a split that training has not shown: what every question about heads is asked on."""
    pairs = split_pairs(split)
    return pairs[never_trained(pairs, recipe or AdderRecipe())][: quick(None, 150)]


# --- loss and accuracy -----------------------------------------------------------------------------------------------


def digit_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Mean cross-entropy of the answer's digits, in nats."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def adder_loss(model: torch.nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    source, target = batch
    return digit_loss(model(source, shift_right(target)), target)


def digits_right(logits: Tensor, target: Tensor) -> Tensor:
    """(N, answer digits): is the most likely digit the right one, given the right digits before it?"""
    return logits.argmax(-1) == target


def answers_right(logits: Tensor, target: Tensor) -> Tensor:
    """(N,): does greedy decoding write the right answer? It does exactly when every digit is right given the right
    digits before it: up to the first wrong digit both have read the same."""
    return digits_right(logits, target).all(-1)


@torch.inference_mode()
def run_pairs(model: Answers, pairs: np.ndarray, batch_size: int = 250) -> tuple[Tensor, Tensor]:
    """Teacher-forced logits (N, answer digits, 10) and targets of an array of pairs."""
    source, target = encode_pairs(pairs, model.shape["digits"])
    batches = zip(source.split(batch_size), target.split(batch_size), strict=True)
    return torch.cat([model(s, shift_right(t)) for s, t in batches]), target


def accuracy(model: Adder, pairs: np.ndarray) -> float:
    """Free-running exact match."""
    return answers_right(*run_pairs(model, pairs)).double().mean().item()


def validate_on(pairs: np.ndarray) -> Callable[[Adder], dict[str, float]]:
    def validate(model: Adder) -> dict[str, float]:
        logits, target = run_pairs(model, pairs)
        return {
            "loss": digit_loss(logits, target).item(),
            "teacher-forced accuracy": digits_right(logits, target).double().mean().item(),
            "free-running accuracy": answers_right(logits, target).double().mean().item(),
        }

    return validate


# --- training --------------------------------------------------------------------------------------------------------


def validation_pairs(recipe: AdderRecipe) -> np.ndarray:
    """The validation pairs that this training does not show."""
    pairs = split_pairs("validation", recipe.digits)
    pairs = pairs[never_trained(pairs, recipe)]
    if not len(pairs):
        raise UserError(
            f"{recipe.train_size:,} training pairs of {recipe.digits} digits leave no validation pair that training "
            "does not show; choose a smaller train_size."
        )
    return pairs


def train_adder(
    recipe: AdderRecipe | None = None,
    folder: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> tuple[Adder, Log]:
    """The trained model and its log. A finished run of the same recipe is loaded from `folder` unless `overwrite`."""
    recipe = recipe or AdderRecipe()
    validate = validate_on(validation_pairs(recipe))
    torch.manual_seed(recipe.seed)
    model = Adder(recipe.digits)
    folder = Path(folder or RESULTS / "runs" / recipe.name)
    return model, fit(model, recipe, make_batches(recipe), adder_loss, validate, folder, overwrite, progress)


def headline_accuracy(model: Adder, recipe: AdderRecipe) -> dict[str, int | float]:
    """Free-running exact match on the assignment's test pairs, with and without those that training has shown."""
    pairs = split_pairs("test", recipe.digits)
    unseen = never_trained(pairs, recipe)
    return {
        "test pairs": len(pairs),
        "test accuracy": accuracy(model, pairs),
        "unseen test pairs": int(unseen.sum()),
        "accuracy on unseen test pairs": accuracy(model, pairs[unseen]),
    }


def digits_reached() -> str:
    """What the published recipe reaches with other digits, for --help."""
    rows = published.table("digits")
    reached = [
        f"{row['digits']} digits {row['accuracy on unseen test pairs']:.1%} ({row['train_size']:,} training pairs)"
        for row in rows.to_dict("records")
    ]
    seeds = listing(map(str, rows["seed"].unique()))
    return f"Right of the test pairs that training does not show, recipe as it is, seed {seeds}: {', '.join(reached)}."


def main() -> None:
    parser = Parser(prog="python -m problem1.train", description="Train an adder.", epilog=digits_reached())
    add_recipe_options(parser, AdderRecipe)
    parser.add_argument(
        "--folder", type=parse_path, help="where to keep the run (default: its own folder in problem1/results/runs)"
    )
    parser.add_argument("--overwrite", action="store_true", help="train again even if the run is on disk")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        recipe = recipe_from(arguments, AdderRecipe)
        folder = arguments.folder or RESULTS / "runs" / recipe.name
        model, log = train_adder(recipe, folder, arguments.overwrite)
        facts = headline_accuracy(model, recipe)
    for name, value in facts.items():
        print(f"{name:30} {value:.4f}" if isinstance(value, float) else f"{name:30} {value}")
    print(f"{'CPU seconds':30} {log['cpu seconds']:.0f}\n{'run':30} {folder}")


if __name__ == "__main__":
    main()
