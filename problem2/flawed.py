"""The mistakes of the published reports, made on purpose: `python -m problem2.flawed` trains them, three seeds each.

    frozen      a learned table of positions that training never touches
    homework    the assignment's shape, with post-norm, dropout and optimizer as the homework's starter code has them

Only the notebook on the reports needs this module. With `--publish` the tables go to problem2/published.
"""

import argparse
from dataclasses import dataclass

import pandas as pd
import torch
from torch import nn

from problem1.commands import one_sentence
from problem1.flawed import PostNorm, configurations, homework, train_as_homework
from problem1.grid import run_grid
from problem1.loop import option, train
from problem2.certificate import PUBLISHED
from problem2.dataset import split_items
from problem2.evaluation import evaluate, exact_sets, examine, grouped_test_items
from problem2.model import Block
from problem2.sweep import split_rows, write_table
from problem2.train import RESULTS, JudgeRecipe, judge_loss, make_batches, make_judge, validate_on


@dataclass(frozen=True)
class FlawedRecipe(JudgeRecipe):
    frozen: bool = option(False, "the table of positions stays as it was drawn")
    homework: bool = option(False, "post-norm, dropout and optimizer of the homework's starter code")

    @property
    def name(self):
        return f"flawed-{self.encoding}-seed{self.seed}-{self.key}"


HOMEWORK = homework(epochs=30, shape="assignment")
VARIANTS = {
    "frozen, learned": {"encoding": "learned", "frozen": True},
    **{f"homework, {encoding}": {**HOMEWORK, "encoding": encoding} for encoding in ("sinusoidal", "learned")},
}


class PostNormBlock(PostNorm, Block):
    def forward(self, x, causal=False, look=False):
        found, seen = self.attention(x, causal=causal, look=look)
        return self.finish(x + self.drop(found)), seen


def make_flawed(recipe):
    """The judge of a recipe, untrained."""
    model = make_judge(recipe)
    if recipe.homework:
        shape = {name: model.shape[name] for name in ("width", "heads", "hidden")}
        positions = [block.attention.positions for block in model.blocks]
        model.blocks = nn.ModuleList(PostNormBlock(**shape, positions=each) for each in positions)
        model.norm = nn.Identity()  # each block ends with one
    if recipe.frozen:
        model.positions.table.requires_grad_(False)
    return model


def train_flawed(recipe, folder=None, progress=True):
    """The trained model. A finished run of the same recipe is loaded."""
    folder = folder or RESULTS / "runs" / recipe.name
    torch.manual_seed(recipe.seed)
    model = make_flawed(recipe)
    parts = make_batches(recipe), judge_loss, validate_on(split_items("validation"))
    if recipe.homework:
        return train_as_homework(model, recipe, *parts, folder, progress)
    train(model, recipe, *parts, folder, progress=progress)
    return model


def train_and_examine(variant, **fields):
    """One row: train a flawed judge; its scores on the test items, and on the exact sets of every length."""
    model = train_flawed(FlawedRecipe(**fields), progress=False)
    inside = examine(model, grouped_test_items().values())
    return {**{f"test {name}": value for name, value in inside.items()}, "rows": evaluate(model, exact_sets())}


def main():
    parser = argparse.ArgumentParser(prog="python -m problem2.flawed", description=__doc__.splitlines()[0])
    parser.add_argument("--publish", action="store_true", help="write to problem2/published what the notebook reads")
    folder = PUBLISHED if parser.parse_args().publish else RESULTS / "sweep"
    with one_sentence(parser.prog):
        table = run_grid(train_and_examine, configurations(FlawedRecipe, VARIANTS), RESULTS / "grid")
    trainings, rows = split_rows(table, ["variant", "seed"])
    write_table(trainings, folder / "flawed.csv")
    write_table(rows, folder / "flawed_evaluated.csv")
    shown = rows.pivot(index=["variant", "seed"], columns="length", values="accuracy")
    print(pd.concat([trainings.set_index(["variant", "seed"])["test accuracy"], shown], axis=1).to_string())
    print(f"tables in {folder}")


if __name__ == "__main__":
    main()
