"""Train a classifier: `python -m problem2.train --encoding sinusoidal --seed 0`."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from problem1.shared.commands import Parser, add_recipe_options, one_sentence, parse_path, recipe_from
from problem1.shared.errors import UserError
from problem1.shared.settings import quick, results_folder
from problem1.shared.storage import save_figure, write_json
from problem1.shared.training import Log, Recipe, fit, option, plot_log
from problem2.dataset import (
    AUGMENTATIONS,
    Batches,
    ExactBatches,
    Group,
    Item,
    OnlineBatches,
    group_by_length,
    split_items,
)
from problem2.encodings import ENCODINGS, WIDEST, own_options
from problem2.model import POOLINGS, SHAPES, Classifier, Prediction

RESULTS = results_folder(__file__)

LEARNING_RATES = {"assignment": 1e-3}  # the smaller shapes take 2e-3
DATA = ("exact", "online")
AUGMENTED = {"smooth": True, "augment": "shift"}  # a recipe that all encodings get beside the plain one


@dataclass(frozen=True)
class ClassifierRecipe(Recipe):
    """The defaults are the plain task: the small shape, the assignment's 10,000 items, eight epochs."""

    encoding: str = option("sinusoidal", "how positions enter", choices=[*ENCODINGS])
    options: str = option("", "of the encoding, like clip=1 or beyond=interpolate; commas between several")
    shape: str = option("small", "layers, heads and widths", choices=[*SHAPES])
    pooling: str = option("mean", "how the tokens give one logit", choices=[*POOLINGS])
    window: int = option(0, "neighbours that a token sees on each side; 0 for all tokens", low=0, high=WIDEST)
    smooth: bool = option(False, "start with similar embeddings for neighbouring values")
    data: str = option("exact", "the assignment's items, or new ones in every step", choices=[*DATA])
    augment: str = option("none", "shift: reflect and move the values; squeeze: narrow too", choices=[*AUGMENTATIONS])
    narrow: float = option(0.5, "share of online items whose values come from a narrow window", low=0, high=1)
    adjacent: float = option(
        0.5, "share of unsorted online items that are one adjacent swap from sorted", low=0, high=1
    )
    steps: int = option(quick(1_280, 160), "optimizer steps; 160 are an epoch of the exact items", low=1, high=10**7)
    learning_rate: float = option(0.0, "at its highest; 0 means 2e-3, in the assignment's shape 1e-3", low=0, high=1)
    weight_decay: float = option(0.01, "on matrices only", low=0, high=100)
    ema_decay: float = option(
        0.0, "of the weight average that is evaluated and kept; 0 for no average", low=0, high=0.99999
    )
    evaluate_every: int = option(quick(100, 40), "steps between validations", low=1, high=10**7)

    def __post_init__(self) -> None:
        super().__post_init__()
        options = own_options(self.encoding, parse_options(self.options))
        self.change(options=",".join(f"{name}={value}" for name, value in options.items()))
        if self.learning_rate == 0:
            self.change(learning_rate=LEARNING_RATES.get(self.shape, 2e-3))
        with torch.random.fork_rng(devices=[]):
            make_classifier(self)  # says which option, or pooling with a window, cannot be

    @property
    def name(self) -> str:
        return f"classifier-{self.encoding}-{self.shape}-{self.pooling}-{self.data}-seed{self.seed}-{self.key}"


def parse_options(text: str) -> dict[str, int | str]:
    """'clip=1,beyond=interpolate' -> {"clip": 1, "beyond": "interpolate"}"""
    options: dict[str, int | str] = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        name, equals, value = part.partition("=")
        if not (name and equals and value) or name in options:
            raise UserError(f"options are {text!r}; write them like clip=1,beyond=interpolate, each once.")
        options[name] = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
    return options


def make_classifier(recipe: ClassifierRecipe) -> Classifier:
    """The classifier of a recipe, untrained; it draws its weights from torch's generator."""
    return Classifier(
        recipe.encoding,
        **SHAPES[recipe.shape],
        pooling=recipe.pooling,
        window=recipe.window or None,
        smooth=recipe.smooth,
        options=parse_options(recipe.options),
    )


def make_batches(recipe: ClassifierRecipe) -> Batches:
    if recipe.data == "exact":
        return ExactBatches(split_items("train"), recipe.seed, recipe.batch_size, recipe.augment)
    return OnlineBatches(recipe.seed, recipe.batch_size, recipe.augment, recipe.narrow, recipe.adjacent)


# --- loss and accuracy -----------------------------------------------------------------------------------------------


def training_logits(prediction: Prediction) -> Tensor:
    """(B,): what the loss compares with the label.

    Under a hard minimum only the lowest token of a sequence would get a gradient; so training softens the minimum to
    -log sum exp(-logit), which is never above it. Classifying keeps the hard minimum.
    """
    if prediction.token_logits is None:
        return prediction.logits
    return -torch.logsumexp(-prediction.token_logits, dim=1)


def prediction_loss(prediction: Prediction, labels: Tensor) -> Tensor:
    """Mean binary cross-entropy, in nats."""
    logits = training_logits(prediction)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def classifier_loss(model: Classifier, group: Group) -> Tensor:
    return prediction_loss(model(group.tokens), group.is_sorted)


@torch.inference_mode()
def run_groups(
    model: Classifier, groups: Iterable[Group], tokens_at_once: int = 1_024
) -> list[tuple[Prediction, Tensor]]:
    """[(Prediction, labels)] for groups of any lengths, in batches of about `tokens_at_once` tokens."""
    predictions = []
    for group in groups:
        batch_size = max(1, tokens_at_once // group.tokens.shape[1])
        for tokens, labels in zip(*(part.split(batch_size) for part in group), strict=True):
            predictions.append((model(tokens), labels))
    return predictions


def validate_on(items: Iterable[Item]) -> Callable[[Classifier], dict[str, float]]:
    groups = group_by_length(items).values()

    def validate(model: Classifier) -> dict[str, float]:
        parts = run_groups(model, groups)
        loss = sum(prediction_loss(prediction, labels).item() * len(labels) for prediction, labels in parts)
        says = torch.cat([prediction.logits > 0 for prediction, _ in parts])
        labels = torch.cat([labels for _, labels in parts])
        return {
            "loss": loss / len(labels),
            "accuracy": (says == labels).double().mean().item(),
            "share answered sorted": says.double().mean().item(),
        }

    return validate


# --- training --------------------------------------------------------------------------------------------------------


def train_classifier(
    recipe: ClassifierRecipe | None = None,
    folder: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> tuple[Classifier, Log]:
    """The trained model and its log. A finished run of the same recipe is loaded from `folder` unless `overwrite`."""
    recipe = recipe or ClassifierRecipe()
    torch.manual_seed(recipe.seed)
    model = make_classifier(recipe)
    folder = folder or RESULTS / "runs" / recipe.name
    validate = validate_on(split_items("validation"))
    log = fit(model, recipe, make_batches(recipe), classifier_loss, validate, folder, overwrite, progress)
    return model, log


def accuracy(model: Classifier, items: Iterable[Item]) -> float:
    """Share of right answers on items of any lengths."""
    return validate_on(items)(model)["accuracy"]


def write_training(log: Log, folder: Path) -> tuple[Path, Path]:
    """The assignment's files of one encoding. Returns their paths."""
    files = folder / "training_log.json", folder / "training_curves.png"
    write_json(files[0], log)
    save_figure(plot_log(log), files[1])
    return files


def main() -> None:
    parser = Parser(prog="python -m problem2.train", description="Train a classifier of sorted sequences.")
    add_recipe_options(parser, ClassifierRecipe)
    parser.add_argument(
        "--folder", type=parse_path, help="where to keep the run (default: its own folder in problem2/results/runs)"
    )
    parser.add_argument("--overwrite", action="store_true", help="train again even if the run is on disk")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        recipe = recipe_from(arguments, ClassifierRecipe)
        folder = arguments.folder or RESULTS / "runs" / recipe.name
        model, log = train_classifier(recipe, folder, arguments.overwrite)
        if not arguments.folder:
            write_training(log, RESULTS / recipe.encoding)
    print(f"{'test accuracy, lengths 8-16':30} {accuracy(model, split_items('test')):.4f}")
    print(f"{'CPU seconds':30} {log['cpu seconds']:.0f}\n{'run':30} {folder}")


if __name__ == "__main__":
    main()
