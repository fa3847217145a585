"""Train a judge: `python -m problem2.train --encoding sinusoidal --seed 0`."""

import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from problem1.commands import add_recipe_options, one_sentence, recipe_from
from problem1.loop import Recipe, option, plot_log, train
from problem1.settings import quick, results_folder
from problem1.storage import save_figure, write_json
from problem2.dataset import TRAINING_LENGTHS, VOCABULARY, Group, by_length, is_sorted, split_items
from problem2.encodings import ENCODINGS
from problem2.model import POOLINGS, SHAPES, Judge

RESULTS = results_folder(__file__)

LEARNING_RATES = {"assignment": 1e-3}  # the smaller shapes take 2e-3
DATA = ("exact", "fresh")
AUGMENTATIONS = ("none", "shift", "squeeze")


@dataclass(frozen=True)
class JudgeRecipe(Recipe):
    """The defaults are the plain task: the small shape, the assignment's 10,000 items, eight epochs."""

    encoding: str = option("sinusoidal", "how positions enter", choices=[*ENCODINGS])
    options: str = option("", "of the encoding, like clip=1 or beyond=rescale; commas between several")
    shape: str = option("small", "layers, heads and widths", choices=[*SHAPES])
    pooling: str = option("mean", "how tokens become one verdict", choices=[*POOLINGS])
    window: int = option(0, "neighbours that a token sees on each side; 0 for all tokens")
    smooth: bool = option(False, "start with similar embeddings for neighbouring values")
    data: str = option("exact", "the assignment's items, or fresh ones in every step", choices=[*DATA])
    augment: str = option("none", "shift: reflect and move the values; squeeze: narrow too", choices=[*AUGMENTATIONS])
    narrow: float = option(0.5, "share of fresh items whose values come from a narrow window")
    adjacent: float = option(0.5, "share of unsorted fresh items that are one adjacent swap away from sorted")
    steps: int = option(quick(1_280, 160), "optimizer steps; 160 are an epoch of the exact items")
    learning_rate: float = option(0.0, "at its highest; 0 means 2e-3, in the assignment's shape 1e-3")
    weight_decay: float = option(0.01, "on matrices only")
    average: float = option(0.0, "decay of the weight average that is evaluated and kept; 0 for no average")
    evaluate_every: int = option(quick(100, 40), "steps between validations")

    def __post_init__(self):
        for name, known in (("shape", SHAPES), ("data", DATA), ("augment", AUGMENTATIONS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be {' or '.join(known)}.")
        if self.learning_rate == 0:  # frozen, so that nobody but this line changes it
            object.__setattr__(self, "learning_rate", LEARNING_RATES.get(self.shape, 2e-3))
        super().__post_init__()
        for name in ("narrow", "adjacent"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a share, so it must lie between 0 and 1.")
        if self.window < 0:
            raise ValueError(f"window is {self.window}; it must be at least 1, or 0 for all tokens.")
        with torch.random.fork_rng(devices=[]):
            make_judge(self)  # says which encoding, option or pooling cannot be

    @property
    def name(self):
        return f"judge-{self.encoding}-{self.shape}-{self.pooling}-{self.data}-seed{self.seed}-{self.key}"


def parse_options(text):
    """'clip=1,beyond=rescale' -> {"clip": 1, "beyond": "rescale"}"""
    options = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise ValueError(f"options are {text!r}; write them like clip=1,beyond=rescale.")
        options[name] = int(value) if value.isdigit() else value
    return options


def make_judge(recipe):
    """The judge of a recipe, untrained; it draws its weights from torch's generator."""
    return Judge(
        recipe.encoding,
        **SHAPES[recipe.shape],
        pooling=recipe.pooling,
        window=recipe.window or None,
        smooth=recipe.smooth,
        options=parse_options(recipe.options),
    )


# --- data ------------------------------------------------------------------------------------------------------------


def augment_values(tokens, draw, squeeze):
    """The same items with other values; (N, length) in and out. What was sorted stays sorted.

    Half are reflected: 99 - x, read from the end. With `squeeze` half become floor((x - lowest) s), s log-uniform in
    [.01, 1]; that makes ties, so an unsorted item may become sorted. In the end all are moved by a random offset.
    """
    rows = len(tokens)
    reflected = draw.random((rows, 1)) < 0.5
    tokens = np.where(reflected, VOCABULARY - 1 - tokens[:, ::-1], tokens)
    tokens = tokens - tokens.min(1, keepdims=True)
    if squeeze:
        factor = np.where(draw.random((rows, 1)) < 0.5, 10 ** draw.uniform(-2, 0, (rows, 1)), 1)
        tokens = np.floor(tokens * factor).astype(int)
    return tokens + draw.integers(VOCABULARY - tokens.max(1, keepdims=True))


def fresh_tokens(draw, size, length, narrow, adjacent, vocabulary=VOCABULARY):
    """(size, length): half sorted; the others are changed by the assignment's swaps or by one adjacent swap.

    Values come from 0..99, or, for a share `narrow` of the items, from a window of 2 to 99 values, its width
    log-uniform. Swaps can cancel and narrow items can be all equal, so labels are read off the result.
    """
    width = np.exp(draw.uniform(np.log(2), np.log(vocabulary), (size, 1))).astype(int)
    width = np.where(draw.random((size, 1)) < narrow, width, vocabulary)
    lowest = draw.integers(vocabulary - width + 1)
    tokens = np.sort(lowest + draw.integers(width, size=(size, length)), axis=1)
    kind = draw.random(size)
    one_swap(tokens, draw, np.flatnonzero(kind < adjacent / 2))
    some_swaps(tokens, draw, np.flatnonzero((adjacent / 2 <= kind) & (kind < 0.5)))
    return tokens


def one_swap(tokens, draw, rows):
    """In each of these rows one uniformly chosen pair of different neighbours changes places."""
    rises = np.diff(tokens[rows]) > 0
    left = np.where(rises, draw.random(rises.shape), -1).argmax(1)
    tokens[rows, left], tokens[rows, left + 1] = tokens[rows, left + 1], tokens[rows, left]


def some_swaps(tokens, draw, rows):
    """max(2, length // 3) swaps of two random places in each of these rows."""
    length = tokens.shape[1]
    for _ in range(max(2, length // 3)):
        i = draw.integers(length, size=len(rows))
        j = (i + draw.integers(1, length, size=len(rows))) % length
        tokens[rows, i], tokens[rows, j] = tokens[rows, j], tokens[rows, i]


class Batches:
    """Groups of one length; the group of a step depends on the seed and the step only."""

    def __init__(self, recipe):
        self.recipe = recipe

    def tokens_of(self, step):
        raise NotImplementedError

    def __call__(self, step):
        tokens = self.tokens_of(step)
        if self.recipe.augment != "none":
            draw = np.random.default_rng([self.recipe.seed, 2, step])
            tokens = augment_values(tokens, draw, squeeze=self.recipe.augment == "squeeze")
        tokens = torch.from_numpy(tokens)
        return Group(tokens, is_sorted(tokens))


class ExactBatches(Batches):
    """The assignment's items. In every epoch each length is shuffled and dealt into batches of nearly equal size, at
    most `batch_size`, and the batches of all lengths come in a random order: every item is shown once.
    """

    def __init__(self, recipe):
        super().__init__(recipe)
        self.groups = [group.tokens.numpy() for group in by_length(split_items("train")).values()]
        self.deals = [-(-len(group) // recipe.batch_size) for group in self.groups]
        self.epoch = None

    def tokens_of(self, step):
        epoch, position = divmod(step, sum(self.deals))
        if epoch != self.epoch:
            draw = np.random.default_rng([self.recipe.seed, 0, epoch])
            dealt = zip(self.groups, self.deals, strict=True)
            batches = [part for group, deal in dealt for part in np.array_split(draw.permutation(group), deal)]
            self.epoch, self.batches = epoch, [batches[i] for i in draw.permutation(len(batches))]
        return self.batches[position]


class FreshBatches(Batches):
    """New items in every step, of a length drawn from 8..16."""

    def tokens_of(self, step):
        draw = np.random.default_rng([self.recipe.seed, 1, step])
        shortest, longest = TRAINING_LENGTHS
        length = draw.integers(shortest, longest + 1)
        return fresh_tokens(draw, self.recipe.batch_size, length, self.recipe.narrow, self.recipe.adjacent)


def make_batches(recipe):
    return {"exact": ExactBatches, "fresh": FreshBatches}[recipe.data](recipe)


# --- loss and accuracy -----------------------------------------------------------------------------------------------


def training_logits(verdict):
    """(B,): what the loss compares with the label.

    Under a hard minimum only the worst token of a sequence would get a gradient; so training softens the minimum to
    -log sum exp(-verdict), which is never above it. Judging keeps the hard minimum.
    """
    return verdict.logits if verdict.per_token is None else -torch.logsumexp(-verdict.per_token, dim=1)


def verdict_loss(verdict, labels):
    """Mean binary cross-entropy, in nats."""
    logits = training_logits(verdict)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def judge_loss(model, group):
    return verdict_loss(model(group.tokens), group.is_sorted)


@torch.inference_mode()
def run_groups(model, groups, tokens_at_once=8_192):
    """[(Verdict, labels)] for groups of any lengths, in batches of about `tokens_at_once` tokens."""
    verdicts = []
    for group in groups:
        batch_size = max(1, tokens_at_once // group.tokens.shape[1])
        for tokens, labels in zip(*(part.split(batch_size) for part in group), strict=True):
            verdicts.append((model(tokens), labels))
    return verdicts


def validate_on(items):
    groups = by_length(items).values()

    def validate(model):
        parts = run_groups(model, groups)
        loss = sum(verdict_loss(verdict, labels).item() * len(labels) for verdict, labels in parts)
        says = torch.cat([verdict.logits > 0 for verdict, _ in parts])
        labels = torch.cat([labels for _, labels in parts])
        return {
            "loss": loss / len(labels),
            "accuracy": (says == labels).double().mean().item(),
            "share answered sorted": says.double().mean().item(),
        }

    return validate


# --- training --------------------------------------------------------------------------------------------------------


def train_judge(recipe=None, folder=None, fresh=False, progress=True):
    """The trained model and its log. A finished run of the same recipe is loaded from `folder` unless `fresh`."""
    recipe = recipe or JudgeRecipe()
    torch.manual_seed(recipe.seed)
    model = make_judge(recipe)
    folder = folder or RESULTS / "runs" / recipe.name
    validate = validate_on(split_items("validation"))
    log = train(model, recipe, make_batches(recipe), judge_loss, validate, folder, fresh, progress)
    return model, log


def accuracy(model, items):
    """Share of right answers on items of any lengths."""
    return validate_on(items)(model)["accuracy"]


def write_training(log, folder):
    """The assignment's files of one encoding. Returns their paths."""
    files = folder / "training_log.json", folder / "training_curves.png"
    write_json(files[0], log)
    save_figure(plot_log(log), files[1])
    return files


def main():
    parser = argparse.ArgumentParser(prog="python -m problem2.train", description="Train a judge of sorted sequences.")
    add_recipe_options(parser, JudgeRecipe)
    parser.add_argument("--folder", help="where to keep the run (default: its own folder in problem2/results/runs)")
    parser.add_argument("--fresh", action="store_true", help="train again even if the run is on disk")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        recipe = recipe_from(arguments, JudgeRecipe)
        folder = arguments.folder or RESULTS / "runs" / recipe.name
        model, log = train_judge(recipe, folder, arguments.fresh)
        if not arguments.folder:
            write_training(log, RESULTS / recipe.encoding)
    print(f"{'test accuracy, lengths 8-16':30} {accuracy(model, split_items('test')):.4f}")
    print(f"{'CPU seconds':30} {log['cpu seconds']:.0f}\n{'run':30} {folder}")


if __name__ == "__main__":
    main()
