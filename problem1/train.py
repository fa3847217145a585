"""Train an adder: `python -m problem1.train --seed 0`."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from problem1.commands import add_recipe_options, one_sentence, recipe_from
from problem1.dataset import contains, decoder_input, encode_pairs, operand_range, split_pairs
from problem1.loop import Recipe, option, train
from problem1.model import Adder, load_adder
from problem1.settings import quick, results_folder

RESULTS = results_folder(__file__)
PUBLISHED = Path(__file__).parent / "published"  # weights and tables that the notebooks study


@dataclass(frozen=True)
class AdderRecipe(Recipe):
    """The recipe of the published adder: its defaults are the ones that the notebook studies."""

    digits: int = option(3, "digits of an operand, 2 to 6")
    data: str = option("exact", "the assignment's pairs, or fresh ones in every step", choices=["exact", "stream"])
    train_size: int = option(10_000, "number of training pairs (data exact)")
    swap_operands: bool = option(True, "show a+b as b+a half of the time")
    steps: int = option(quick(4_600, 200), "optimizer steps")
    evaluate_every: int = option(quick(200, 100), "steps between validations")

    def __post_init__(self):
        super().__post_init__()
        operand_range(self.digits)  # says which digits are allowed
        if self.data not in ("exact", "stream"):
            raise ValueError(f"data is {self.data!r}; it must be exact or stream.")

    @property
    def name(self):
        return f"adder-{self.digits}digits-{self.data}-seed{self.seed}-{self.key}"


# --- data ------------------------------------------------------------------------------------------------------------


class Batches:
    """Batches of encoded pairs; the batch of a step depends on the seed and the step only."""

    def __init__(self, recipe):
        self.recipe = recipe

    def pairs_of(self, step):
        raise NotImplementedError

    def __call__(self, step):
        pairs = self.pairs_of(step)
        if self.recipe.swap_operands:  # a + b = b + a
            swap = np.random.default_rng([self.recipe.seed, 2, step]).random(len(pairs)) < 0.5
            pairs = np.where(swap[:, None], pairs[:, ::-1], pairs)
        return encode_pairs(pairs, self.recipe.digits)


class ExactBatches(Batches):
    """The assignment's pairs, shuffled anew in every epoch."""

    def __init__(self, recipe):
        super().__init__(recipe)
        self.pairs = split_pairs("train", recipe.digits, recipe.train_size)
        self.per_epoch = max(1, len(self.pairs) // recipe.batch_size)
        self.epoch = None

    def pairs_of(self, step):
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            draw = np.random.default_rng([self.recipe.seed, 0, epoch])
            self.epoch, self.order = epoch, draw.permutation(len(self.pairs))
        return self.pairs[self.order[position * self.recipe.batch_size :][: self.recipe.batch_size]]


class StreamBatches(Batches):
    """Fresh pairs in every step; validation and test pairs are left out, in either order."""

    def __init__(self, recipe):
        super().__init__(recipe)
        self.held_out = np.concatenate([split_pairs(split, recipe.digits) for split in ("validation", "test")])

    def pairs_of(self, step):
        low, high = operand_range(self.recipe.digits)
        draw = np.random.default_rng([self.recipe.seed, 1, step])
        pairs = draw.integers(low, high + 1, size=(8 * self.recipe.batch_size, 2))  # enough to choose from
        return pairs[~contains(self.held_out, pairs, either_order=True)][: self.recipe.batch_size]


def make_batches(recipe):
    return {"exact": ExactBatches, "stream": StreamBatches}[recipe.data](recipe)


def shown_pairs(recipe):
    """Every pair that the training shows, before any swap of its operands."""
    batches = make_batches(recipe)
    if recipe.data == "exact":
        return batches.pairs
    return np.concatenate([batches.pairs_of(step) for step in range(recipe.steps)])


def never_trained(pairs, recipe):
    """Which pairs the training has not shown; with swapped operands a pair counts as shown in either order."""
    return ~contains(shown_pairs(recipe), pairs, either_order=recipe.swap_operands)


# --- loss and accuracy -----------------------------------------------------------------------------------------------


def digit_loss(logits, target):
    """Mean cross-entropy of the answer's digits, in nats."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def adder_loss(model, batch):
    source, target = batch
    return digit_loss(model(source, decoder_input(target)), target)


def digits_right(logits, target):
    """(N, answer digits): is the most likely digit the right one, given the right digits before it?"""
    return logits.argmax(-1) == target


def answers_right(logits, target):
    """(N,): does greedy decoding write the right answer? It does exactly when every digit is right given the right
    digits before it: up to the first wrong digit both have read the same."""
    return digits_right(logits, target).all(-1)


@torch.inference_mode()
def run_pairs(model, pairs, batch_size=1_000):
    """Teacher-forced logits (N, answer digits, 10) and targets of an array of pairs."""
    source, target = encode_pairs(pairs, model.shape["digits"])
    batches = zip(source.split(batch_size), target.split(batch_size), strict=True)
    return torch.cat([model(s, decoder_input(t)) for s, t in batches]), target


def accuracy(model, pairs):
    """Free-running exact match."""
    return answers_right(*run_pairs(model, pairs)).double().mean().item()


def validate_on(pairs):
    def validate(model):
        logits, target = run_pairs(model, pairs)
        return {
            "loss": digit_loss(logits, target).item(),
            "teacher-forced accuracy": digits_right(logits, target).double().mean().item(),
            "free-running accuracy": answers_right(logits, target).double().mean().item(),
        }

    return validate


# --- training --------------------------------------------------------------------------------------------------------


def train_adder(recipe=None, folder=None, fresh=False, progress=True):
    """The trained model and its log. A finished run of the same recipe is loaded from `folder` unless `fresh`."""
    recipe = recipe or AdderRecipe()
    validation = split_pairs("validation", recipe.digits)
    validation = validation[never_trained(validation, recipe)]
    torch.manual_seed(recipe.seed)
    model = Adder(recipe.digits)
    folder = folder or RESULTS / "runs" / recipe.name
    log = train(model, recipe, make_batches(recipe), adder_loss, validate_on(validation), folder, fresh, progress)
    return model, log


def published_adder():
    """The adder that the notebooks study, and its training log."""
    return load_adder(PUBLISHED / "adder.safetensors"), json.loads((PUBLISHED / "training_log.json").read_text())


def headline_accuracy(model, recipe):
    """Free-running exact match on the assignment's test pairs, with and without those that training has shown."""
    pairs = split_pairs("test", recipe.digits)
    unseen = never_trained(pairs, recipe)
    return {
        "test pairs": len(pairs),
        "test accuracy": accuracy(model, pairs),
        "unseen test pairs": int(unseen.sum()),
        "accuracy on unseen test pairs": accuracy(model, pairs[unseen]),
    }


def main():
    parser = argparse.ArgumentParser(prog="python -m problem1.train", description="Train an adder.")
    add_recipe_options(parser, AdderRecipe)
    parser.add_argument("--folder", help="where to keep the run (default: its own folder in problem1/results/runs)")
    parser.add_argument("--fresh", action="store_true", help="train again even if the run is on disk")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        recipe = recipe_from(arguments, AdderRecipe)
        folder = arguments.folder or RESULTS / "runs" / recipe.name
        model, log = train_adder(recipe, folder, arguments.fresh)
    for name, value in headline_accuracy(model, recipe).items():
        print(f"{name:30} {value:.4f}" if isinstance(value, float) else f"{name:30} {value}")
    print(f"{'CPU seconds':30} {log['cpu seconds']:.0f}\n{'run':30} {folder}")


if __name__ == "__main__":
    main()
