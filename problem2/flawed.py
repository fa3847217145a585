"""The mistakes of the published reports, made on purpose: `python -m problem2.flawed` trains them, three seeds each.

    frozen      a learned table of positions that training never touches
    homework    the assignment's shape, with post-norm, dropout and optimizer as the homework's starter code has them

Only the notebook on the reports needs this module. With `--publish` the tables go to problem2/published.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd
import torch
from torch import Tensor, nn

from problem1.shared.attention import HeadActivations
from problem1.shared.commands import Parser, one_sentence
from problem1.shared.grid import run_grid
from problem1.shared.homework import PostNorm, homework_fields, recipe_rows, train_as_homework
from problem1.shared.publishing import check_publishable, staged
from problem1.shared.settings import QUICK, quick
from problem1.shared.storage import model_hash
from problem1.shared.training import fit, option
from problem2 import published
from problem2.dataset import split_items
from problem2.encodings import Encoding, Learned
from problem2.evaluation import evaluate, exact_sets, examine, grouped_test_items, split_rows
from problem2.model import Block, Classifier
from problem2.train import RESULTS, ClassifierRecipe, classifier_loss, make_batches, make_classifier, validate_on

EPOCH = 160  # batches in which every item comes once: each length has its own, so there are a few more than 157


@dataclass(frozen=True)
class FlawedRecipe(ClassifierRecipe):
    frozen: bool = option(False, "the table of positions stays as it was drawn")
    homework: bool = option(False, "post-norm, dropout and optimizer of the homework's starter code")

    @property
    def name(self) -> str:
        return f"flawed-{self.encoding}-seed{self.seed}-{self.key}"


HOMEWORK = homework_fields(epochs=30, shape="assignment", steps=quick(30, 1) * EPOCH, evaluate_every=EPOCH)
VARIANTS: dict[str, dict[str, Any]] = {
    "frozen, learned": {"encoding": "learned", "frozen": True},
    **{f"homework, {encoding}": {**HOMEWORK, "encoding": encoding} for encoding in ("sinusoidal", "learned")},
}


class PostNormBlock(PostNorm, Block):
    feed_forward: nn.Sequential

    def forward(
        self, x: Tensor, causal: bool = False, return_attention: bool = False
    ) -> tuple[Tensor, HeadActivations | None]:
        found, activations = self.attention(x, causal=causal, return_attention=return_attention)
        return self.finish(x + self.drop(found)), activations


def make_flawed(recipe: FlawedRecipe) -> Classifier:
    """The classifier of a recipe, untrained."""
    model = make_classifier(recipe)
    if recipe.homework:
        sizes = {name: model.shape[name] for name in ("d_model", "n_heads", "d_ff")}
        encodings = [cast(Encoding, cast(Block, block).attention.positions) for block in model.blocks]
        model.blocks = nn.ModuleList(PostNormBlock(**sizes, positions=encoding) for encoding in encodings)
        model.register_module("norm", nn.Identity())  # each block ends with one
    if recipe.frozen:
        cast(Learned, model.positions).table.requires_grad_(False)
    return model


def train_flawed(recipe: FlawedRecipe, folder: Path | None = None, progress: bool = True) -> Classifier:
    """The trained model. A finished run of the same recipe is loaded."""
    folder = folder or RESULTS / "runs" / recipe.name
    torch.manual_seed(recipe.seed)
    model = make_flawed(recipe)
    parts = make_batches(recipe), classifier_loss, validate_on(split_items("validation"))
    if recipe.homework:
        return train_as_homework(model, recipe, *parts, folder, progress)
    fit(model, recipe, *parts, folder, progress=progress)
    return model


def train_and_examine(variant: str, **fields: Any) -> dict[str, Any]:
    """One row: train a flawed classifier; its scores on the test items, and on the exact sets of every length."""
    model = train_flawed(FlawedRecipe(**fields), progress=False)
    inside = {f"test {name}": value for name, value in examine(model, grouped_test_items().values()).items()}
    return {**inside, "model": model_hash(model), "rows": evaluate(model, exact_sets())}


def flawed_tables(examined: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables that are published, from the rows of the runs."""
    return dict(zip(published.FLAWED, split_rows(examined, ["variant", "seed"]), strict=True))


def in_short(trained: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracies: a row for each training, a column for the test items and for each length."""
    by_length = rows.pivot(index=["variant", "seed"], columns="length", values="accuracy")
    return pd.concat([trained.set_index(["variant", "seed"])["test accuracy"], by_length], axis=1)


def main() -> None:
    parser = Parser(prog="python -m problem2.flawed", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--publish", action="store_true", help="write to problem2/published what the notebook reads")
    publish = parser.parse_args().publish
    folder = published.FOLDER if publish else RESULTS / "sweep"
    with one_sentence(parser.prog):
        rows, seeds = recipe_rows(FlawedRecipe, VARIANTS), published.table("flawed")["seed"].nunique()
        if publish:  # told before the runs rather than after them
            check_publishable(QUICK, pd.DataFrame(rows).assign(code=""), seeds)
        examined = run_grid(train_and_examine, rows, RESULTS / "grid")
        tables = flawed_tables(examined)
        if publish:
            check_publishable(QUICK, examined, seeds)
            with staged(folder) as stage:
                published.write_tables(tables, stage)
        else:
            published.write_tables(tables, folder)
    print(in_short(*tables.values()).to_string())
    print(f"tables in {folder}")


if __name__ == "__main__":
    main()
