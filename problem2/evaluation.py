"""How good is a classifier? One row for each set of sequences, in which a constant prediction cannot hide.

    development   lengths that the assignment does not ask about: what is chosen is chosen on these, or on validation
    exact         the assignment's test items of lengths 8, 12, 16 and its long sets; read when everything is chosen
    new           sets of the same lengths, and of 512 and 1,024, under any corruption ("adjacent" is the hard test)
    pieces        16 neighbouring values cut out of longer sequences: as dense as those, but no position is new
    narrow        length 16, all values from a narrow window: how fine are the differences that a classifier can see?
    crowded       long sequences whose values fit clamped positions: most of them lie near the end of the range

A trained classifier can also be tested under another policy for what is longer than its training (`with_policy`).
"""

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from problem1.shared.errors import UserError
from problem1.shared.settings import quick
from problem1.shared.statistics import wilson
from problem2.dataset import (
    ALL_VALUES,
    LONG_LENGTHS,
    TRAINING_LENGTHS,
    VOCABULARY,
    Group,
    Range,
    crowded_items,
    group_by_length,
    is_sorted,
    long_items,
    make_items,
    split_items,
)
from problem2.encodings import Policies
from problem2.model import Block, Classifier
from problem2.train import run_groups

DEVELOPMENT_LENGTHS = (24, 48, 96)
LENGTHS = (8, 12, 16, *LONG_LENGTHS)
CONTROLS = ("swaps", "adjacent", "reversed", "half-rotated")
LONGEST_TRAINED = TRAINING_LENGTHS[1]
FAR_LENGTHS = (512, 1_024)  # farther than the assignment asks
SIZE = quick(500, 60)  # of a development or new set
FAR_SIZE = quick(100, 20)  # one of 1,024 takes as long as a whole set of length 8
HARD_SIZE = quick(200, 20)  # of the far sets of the hard test
DEVELOPMENT_SEED, NEW_SEED = 7, 2_026
AS_TRAINED, LOG_LENGTH = "as trained", "log-length scaling"


class Examination(NamedTuple):
    """A set of items of one length, and what it is called."""

    name: str
    corruption: str  # of its unsorted items
    length: int
    group: Group


# --- the sets --------------------------------------------------------------------------------------------------------


@functools.cache
def new_group(
    corruption: str, length: int, size: int = SIZE, seed: int = NEW_SEED, values: Range = ALL_VALUES
) -> Group:
    return group_by_length(make_items(size, length, corruption, values, seed))[length]


def development_sets() -> list[Examination]:
    return [
        Examination("development", corruption, length, new_group(corruption, length, seed=DEVELOPMENT_SEED))
        for corruption in CONTROLS
        for length in DEVELOPMENT_LENGTHS
    ]


@functools.cache
def grouped_test_items() -> dict[int, Group]:
    """{length: Group} of the assignment's test items."""
    return group_by_length(split_items("test"))


@functools.cache
def exact_sets() -> list[Examination]:
    groups = grouped_test_items() | {length: group_by_length(long_items(length))[length] for length in LONG_LENGTHS}
    return [Examination("exact", "swaps", length, groups[length]) for length in LENGTHS]


def new_sets(
    corruptions: Sequence[str] = CONTROLS, lengths: Sequence[int] = LENGTHS, size: int = SIZE
) -> list[Examination]:
    return [
        Examination("new", corruption, length, new_group(corruption, length, size))
        for corruption in corruptions
        for length in lengths
    ]


def far_sets() -> list[Examination]:
    return new_sets(("swaps", "adjacent"), FAR_LENGTHS, FAR_SIZE)


def hard_sets() -> list[Examination]:
    """Single adjacent swaps only, at every length; of the far ones enough that 99.5 % means something."""
    development = [part for part in development_sets() if part.corruption == "adjacent"]
    return development + new_sets(("adjacent",)) + new_sets(("adjacent",), FAR_LENGTHS, HARD_SIZE)


@functools.cache
def crowded_sets() -> list[Examination]:
    sets = []
    for length in LONG_LENGTHS:
        group = group_by_length(crowded_items(SIZE, length, NEW_SEED))[length]
        sets.append(Examination("crowded", "swaps", length, group))
    return sets


def piece_sets() -> list[Examination]:
    """`length` is that of the sequences out of whose middle the pieces are cut."""
    sets = []
    for length in LONG_LENGTHS:
        start = (length - LONGEST_TRAINED) // 2
        pieces = new_group("swaps", length).tokens[:, start : start + LONGEST_TRAINED]
        sets.append(Examination("pieces", "swaps", length, Group(pieces, is_sorted(pieces))))
    return sets


def narrow_sets() -> list[Examination]:
    """`length` is the length at which as many items share a value of 0..99 as do here."""
    widths = {length: VOCABULARY * LONGEST_TRAINED // length for length in LONG_LENGTHS}
    return [
        Examination("narrow", "swaps", length, new_group("swaps", LONGEST_TRAINED, values=(50, 49 + width)))
        for length, width in widths.items()
    ]


def all_sets() -> list[Examination]:
    """What every classifier of a study is examined on."""
    return exact_sets() + new_sets() + piece_sets() + narrow_sets()


# --- scores ----------------------------------------------------------------------------------------------------------


def scores(logits: Tensor, labels: Tensor) -> dict[str, Any]:
    """What there is to say of these logits (N,) on items of these labels (N,). `constant prediction` marks a classifier
    that answers the same whatever it reads; low and high are the 95 % Wilson interval of the accuracy.
    """
    says, right = logits > 0, (logits > 0) == labels
    low, high = wilson(int(right.sum()), len(right))
    return {
        "items": len(labels),
        "share sorted": labels.double().mean().item(),
        "accuracy": right.double().mean().item(),
        "low": float(low),
        "high": float(high),
        "balanced accuracy": (right[labels].double().mean().item() + right[~labels].double().mean().item()) / 2,
        "AUROC": float(roc_auc_score(labels.numpy(), logits.double().numpy())),
        "share answered sorted": says.double().mean().item(),
        "constant prediction": bool(says.all() or not says.any()),
    }


def examine(model: Classifier, groups: Iterable[Group]) -> dict[str, Any]:
    """The scores of a classifier on groups of any lengths, taken together."""
    parts = run_groups(model, groups)
    return scores(torch.cat([prediction.logits for prediction, _ in parts]), torch.cat([labels for _, labels in parts]))


def evaluate(model: Classifier, sets: Iterable[Examination]) -> list[dict[str, Any]]:
    """One row for each set."""
    return [
        {"set": name, "corruption": corruption, "length": length, **examine(model, [group])}
        for name, corruption, length, group in sets
    ]


def split_rows(table: pd.DataFrame, keys: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table whose column `rows` holds such lists -> the table without it, and all rows under the keys of theirs."""
    parts = [
        pd.DataFrame(rows).assign(**{key: row[key] for key in keys})
        for (_, row), rows in zip(table.iterrows(), table["rows"], strict=True)
    ]
    rows = pd.concat(parts, ignore_index=True)
    return table.drop(columns="rows"), rows[[*keys, *(column for column in rows if column not in keys)]]


# --- policies at test time -------------------------------------------------------------------------------------------


def policies_for(model: Classifier) -> list[str]:
    """The policies for long sequences under which this classifier can be tested, its own first. With scalable softmax
    logits grow with the logarithm of the length anyway."""
    positions = model.positions
    scaling = [LOG_LENGTH] if positions.scalable is None else []
    if not isinstance(positions, Policies):
        return [AS_TRAINED, *scaling]
    return [positions.beyond, *(policy for policy in positions.policies if policy != positions.beyond), *scaling]


@contextlib.contextmanager
def with_policy(model: Classifier, policy: str) -> Iterator[Classifier]:
    """While this lasts, `model` deals with long sequences by this policy: its own, another one of its encoding, or
    log-length scaling, which makes queries longer by log(length) / log(trained), so that more keys dilute less what
    attention finds (a bias that an encoding adds to the logits stays as it is).
    """
    known = policies_for(model)
    if policy not in known:
        raise UserError(f"policy is {policy!r}; this classifier can be tested under {', '.join(known)}.")
    positions = model.positions
    with contextlib.ExitStack() as undo:
        if policy == LOG_LENGTH:
            for block in model.blocks:
                query = cast(Block, block).attention.query
                undo.callback(query.register_forward_hook(functools.partial(lengthen, positions.trained)).remove)
        elif isinstance(positions, Policies):
            undo.callback(setattr, positions, "beyond", positions.beyond)
            positions.beyond = policy
        yield model


def lengthen(trained: int, linear: nn.Module, inputs: tuple[Tensor, ...], queries: Tensor) -> Tensor:
    """A forward hook: queries (B, length, M), scaled if there are more of them than training had."""
    return queries * max(1, math.log(queries.shape[-2]) / math.log(trained))
