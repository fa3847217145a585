"""The mistakes of the published reports, made on purpose: `python -m problem2.flawed` trains them, three seeds each.

    frozen      a learned table of positions that training never touches
    homework    the assignment's shape, with post-norm, dropout and optimizer as the homework's starter code has them

`python -m problem2.flawed dead` trains what died in several hand-ins: their set-up, which their public code shows, and
one change of it at a time. Only the notebook on the reports needs this module. With `--publish` the tables go to
problem2/published.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from problem1.shared.attention import HeadActivations
from problem1.shared.commands import Parser, one_sentence
from problem1.shared.grid import run_grid
from problem1.shared.homework import (
    PostNorm,
    homework_fields,
    recipe_rows,
    train_as_homework,
)
from problem1.shared.publishing import check_publishable, staged
from problem1.shared.settings import QUICK, quick
from problem1.shared.storage import load_tensors, model_hash
from problem1.shared.training import fit, option, steps_per_epoch
from problem2 import published
from problem2.dataset import Group, Item, group_by_length, split_items
from problem2.encodings import ASSIGNED, Encoding, Learned
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


class PreNormBlock(PostNorm, Block):
    """The same dropout, but the norms stand where the project's own blocks have them."""

    feed_forward: nn.Sequential

    def forward(
        self, x: Tensor, causal: bool = False, return_attention: bool = False
    ) -> tuple[Tensor, HeadActivations | None]:
        found, activations = self.attention(self.norm(x), causal=causal, return_attention=return_attention)
        x = x + self.drop(found)
        return x + self.drop(self.feed_forward(x)), activations


def change_blocks(model: Classifier, block_class: "type[PostNormBlock | PreNormBlock]") -> None:
    sizes = {name: model.shape[name] for name in ("d_model", "n_heads", "d_ff")}
    encodings = [cast(Encoding, cast(Block, block).attention.positions) for block in model.blocks]
    model.blocks = nn.ModuleList(block_class(**sizes, positions=encoding) for encoding in encodings)
    if block_class is PostNormBlock:
        model.register_module("norm", nn.Identity())  # each block ends with one


def make_flawed(recipe: FlawedRecipe) -> Classifier:
    """The classifier of a recipe, untrained."""
    model = make_classifier(recipe)
    if recipe.homework:
        change_blocks(model, PostNormBlock)
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
    return examined_row(train_flawed(FlawedRecipe(**fields), progress=False))


def examined_row(model: Classifier) -> dict[str, Any]:
    inside = {f"test {name}": value for name, value in examine(model, grouped_test_items().values()).items()}
    return {**inside, "model": model_hash(model), "rows": evaluate(model, exact_sets())}


def flawed_tables(examined: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables that are published, from the rows of the runs."""
    return dict(zip(published.FLAWED, split_rows(examined, ["variant", "seed"]), strict=True))


def dead_tables(watched: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The same of the trainings that may die: one more table has their epochs."""
    keys = ["variant", "seed"]
    runs, evaluated = split_rows(watched.drop(columns="epochs"), keys)
    _, epochs = split_rows(watched[[*keys, "epochs"]].rename(columns={"epochs": "rows"}), keys)
    return dict(zip(published.DEAD, [runs, evaluated, epochs], strict=True))


# --- trainings that die ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StarterRecipe(FlawedRecipe):
    """The set-up of the hand-ins whose trainings died, and what can be changed of it.

    The rule, the same for all and fixed before they ran: a training ends after six epochs (theirs had thirty, of which
    the loss stood still from the second on), or as soon as its validation accuracy is `until`: then it lives. (One of
    the nine had run for ten epochs before and was dead; time was short, so it became six.)
    """

    norm: str = option("post", "where the norms stand", choices=["post", "pre"])
    drawn: str = option("xavier", "embedding and learned table", choices=["xavier", "deviation 1"])
    mixed: bool = option(True, "a batch holds items of several lengths")
    until: float = option(0.9, "validation accuracy at which a training counts as alive, and ends", low=0, high=1)

    @property
    def name(self) -> str:
        return f"starter-{self.encoding}-seed{self.seed}-{self.key}"


EPOCHS = 6
STARTER = homework_fields(epochs=EPOCHS, shape="assignment")
ONE_LENGTH = {"mixed": False, "steps": quick(EPOCHS, 1) * EPOCH, "evaluate_every": EPOCH}
CHANGES: dict[
    str, dict[str, Any]
] = {  # one at a time; the last two make the homework training above, but for `plateau`
    "rate of 2e-4": {"learning_rate": 2e-4},
    "warm-up over one epoch": {"warmup": 1 / EPOCHS},
    "pre-norm": {"norm": "pre"},
    "embedding of deviation 1": {"drawn": "deviation 1"},
    "batches of one length": ONE_LENGTH,
    "embedding of deviation 1, batches of one length": {"drawn": "deviation 1", **ONE_LENGTH},
}
DEAD: dict[str, dict[str, Any]] = {
    **{f"as handed in, {encoding}": {**STARTER, "encoding": encoding} for encoding in ASSIGNED},
    **{f"{change}, sinusoidal": {**STARTER, **fields} for change, fields in CHANGES.items()},
}
DEAD["as handed in, learned"]["options"] = "table_rows=300"
PLATEAU = {"factor": 0.5, "patience": 2}  # theirs


def make_starter(recipe: StarterRecipe) -> Classifier:
    """The classifier of a recipe, untrained. All its other matrices are drawn by Xavier anyway."""
    model = make_classifier(recipe)
    change_blocks(model, PreNormBlock if recipe.norm == "pre" else PostNormBlock)
    if recipe.drawn == "xavier":
        nn.init.xavier_uniform_(model.embedding.weight)
        if isinstance(model.positions, Learned):
            nn.init.xavier_uniform_(model.positions.table)
    return model


class MixedBatches:
    """Items of all lengths in one batch, given as a Group for each length. Theirs are padded, with a mask: that gives
    the same logits, because the mask lets nothing of the padding through.
    """

    def __init__(self, items: Iterable[Item], seed: int, batch_size: int) -> None:
        self.items, self.seed, self.batch_size = list(items), seed, batch_size

    def __call__(self, step: int) -> list[Group]:
        epoch, position = divmod(step, steps_per_epoch(len(self.items), self.batch_size))
        order = np.random.default_rng([self.seed, 0, epoch]).permutation(len(self.items))
        chosen = order[position * self.batch_size : (position + 1) * self.batch_size]
        return list(group_by_length(self.items[i] for i in chosen).values())


def make_starter_batches(recipe: StarterRecipe) -> Callable[[int], list[Group]]:
    if recipe.mixed:
        return MixedBatches(split_items("train"), recipe.seed, recipe.batch_size)
    batches = make_batches(recipe)
    return lambda step: [batches(step)]


def watched() -> tuple[Callable[[Classifier, list[Group]], Tensor], Callable[[Classifier], dict[str, float]]]:
    """Loss and validation; the latter also tells the loss and accuracy on the batches since the one before."""
    losses: list[Tensor] = []
    right: list[Tensor] = []
    validate = validate_on(split_items("validation"))

    def loss(model: Classifier, groups: list[Group]) -> Tensor:
        logits = torch.cat([model(group.tokens).logits for group in groups])
        labels = torch.cat([group.is_sorted for group in groups])
        right.append((logits > 0) == labels)
        each = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
        losses.append(each.detach())
        return each.mean()

    def told(model: Classifier) -> dict[str, float]:
        row = {"training loss": torch.cat(losses).mean().item(), "training accuracy": share(torch.cat(right))}
        losses.clear()
        right.clear()
        return {**row, **validate(model)}

    return loss, told


def share(right: Tensor) -> float:
    return right.double().mean().item()


def train_starter(recipe: StarterRecipe, folder: Path | None = None, progress: bool = True) -> Classifier:
    """The trained model. A finished run of the same recipe is loaded."""
    folder = folder or RESULTS / "runs" / recipe.name
    torch.manual_seed(recipe.seed)
    model = make_starter(recipe)
    parts = make_starter_batches(recipe), *watched()
    return train_as_homework(model, recipe, *parts, folder, progress, PLATEAU, recipe.until)


def train_and_watch(variant: str, **fields: Any) -> dict[str, Any]:
    """One row: every epoch of a training, the scores of what it keeps on the test items, and on the long sets."""
    recipe = StarterRecipe(**fields)
    row = examined_row(train_starter(recipe, progress=False))
    _, about = load_tensors(RESULTS / "runs" / recipe.name / "model.safetensors")
    last = {name: about["rows"][-1][name] for name in ("training loss", "training accuracy")}
    return {**last, "epochs trained": len(about["rows"]), **row, "epochs": about["rows"]}


def in_short(trained: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracies: a row for each training, a column for the test items and for each length."""
    by_length = rows.pivot(index=["variant", "seed"], columns="length", values="accuracy")
    return pd.concat([trained.set_index(["variant", "seed"])["test accuracy"], by_length], axis=1)


def main() -> None:
    parser = Parser(prog="python -m problem2.flawed", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="?", choices=["mistakes", "dead"], default="mistakes", help="what to train")
    parser.add_argument("--publish", action="store_true", help="write to problem2/published what the notebook reads")
    arguments = parser.parse_args()
    folder = published.FOLDER if arguments.publish else RESULTS / "sweep"
    dead = arguments.runs == "dead"
    with one_sentence(parser.prog):
        rows = recipe_rows(StarterRecipe, DEAD) if dead else recipe_rows(FlawedRecipe, VARIANTS)
        seeds = published.table("flawed")["seed"].nunique()
        if arguments.publish:  # told before the runs rather than after them
            check_publishable(QUICK, pd.DataFrame(rows).assign(code=""), seeds)
        done = run_grid(train_and_watch if dead else train_and_examine, rows, RESULTS / "grid")
        tables = dead_tables(done) if dead else flawed_tables(done)
        if arguments.publish:
            check_publishable(QUICK, done, seeds)
            with staged(folder) as stage:
                published.write_tables(tables, stage)
        else:
            published.write_tables(tables, folder)
    print(in_short(*[*tables.values()][:2]).to_string())
    print(f"tables in {folder}")


if __name__ == "__main__":
    main()
