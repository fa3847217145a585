"""How good is a judge? One row for each set of sequences, in which a constant answer cannot hide.

    development   lengths that the assignment does not ask about: what is chosen is chosen on these, or on validation
    exact         the assignment's test items of lengths 8, 12, 16 and its long sets; read when everything is chosen
    fresh         new sets of the same lengths, unsorted in any way ("adjacent" is the hard test), and of 512 and 1,024
    pieces        16 neighbouring values cut out of longer sequences: as dense as those, but nothing else is new
    narrow        length 16, all values from a narrow window: how fine are the differences that a judge can see?

A trained judge can also be asked in another way about what is longer than its training (`asked`).
"""

import contextlib
import functools
import math
from typing import NamedTuple

import torch
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from problem1.settings import quick
from problem2.dataset import (
    LONG_LENGTHS,
    TRAINING_LENGTHS,
    VOCABULARY,
    Group,
    by_length,
    is_sorted,
    long_items,
    make_items,
    split_items,
)
from problem2.encodings import Policies
from problem2.train import run_groups

DEVELOPMENT_LENGTHS = (24, 48, 96)
LENGTHS = (8, 12, 16, *LONG_LENGTHS)
CONTROLS = ("swaps", "adjacent", "reversed", "half-rotated")
LONGEST_TRAINED = TRAINING_LENGTHS[1]
FAR_LENGTHS = (512, 1_024)  # farther than the assignment asks
SIZE = quick(500, 60)  # of a development or fresh set
FAR_SIZE = quick(100, 20)  # one of 1,024 takes as long as a whole set of length 8
DEVELOPMENT_SEED, FRESH_SEED = 7, 2_026


class Examination(NamedTuple):
    """A set of items of one length, and what it is called."""

    name: str
    kind: str  # of its unsorted items
    length: int
    group: Group


# --- the sets --------------------------------------------------------------------------------------------------------


@functools.cache
def fresh_group(kind, length, size=SIZE, seed=FRESH_SEED, values=(0, VOCABULARY - 1)):
    return by_length(make_items(size, length, kind, values, seed))[length]


def development_sets():
    return [
        Examination("development", kind, length, fresh_group(kind, length, seed=DEVELOPMENT_SEED))
        for kind in CONTROLS
        for length in DEVELOPMENT_LENGTHS
    ]


@functools.cache
def grouped_test_items():
    """{length: Group} of the assignment's test items."""
    return by_length(split_items("test"))


@functools.cache
def exact_sets():
    inside = grouped_test_items()
    groups = inside | {length: by_length(long_items(length))[length] for length in LONG_LENGTHS}
    return [Examination("exact", "swaps", length, groups[length]) for length in LENGTHS]


def fresh_sets(kinds=CONTROLS, lengths=LENGTHS, size=SIZE):
    return [Examination("fresh", kind, length, fresh_group(kind, length, size)) for kind in kinds for length in lengths]


def far_sets():
    return fresh_sets(("swaps", "adjacent"), FAR_LENGTHS, FAR_SIZE)


def piece_sets():
    """`length` is that of the sequences out of whose middle the pieces are cut."""
    sets = []
    for length in LONG_LENGTHS:
        start = (length - LONGEST_TRAINED) // 2
        pieces = fresh_group("swaps", length).tokens[:, start : start + LONGEST_TRAINED]
        sets.append(Examination("pieces", "swaps", length, Group(pieces, is_sorted(pieces))))
    return sets


def narrow_sets():
    """`length` is the length at which as many items share a value of 0..99 as do here."""
    widths = {length: VOCABULARY * LONGEST_TRAINED // length for length in LONG_LENGTHS}
    return [
        Examination("narrow", "swaps", length, fresh_group("swaps", LONGEST_TRAINED, values=(50, 49 + width)))
        for length, width in widths.items()
    ]


def all_sets():
    """What every judge of a study is examined on."""
    return exact_sets() + fresh_sets() + piece_sets() + narrow_sets()


# --- scores ----------------------------------------------------------------------------------------------------------


def scores(logits, labels):
    """What there is to say of these answers; `one class` marks a judge that answers the same whatever it is asked.

    low and high are the 95 % Wilson interval of the accuracy.
    """
    says, right = logits > 0, (logits > 0) == labels
    interval = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return {
        "items": len(labels),
        "share sorted": labels.double().mean().item(),
        "accuracy": right.double().mean().item(),
        "low": interval.low,
        "high": interval.high,
        "balanced accuracy": (right[labels].double().mean().item() + right[~labels].double().mean().item()) / 2,
        "AUROC": float(roc_auc_score(labels.numpy(), logits.double().numpy())),
        "share answered sorted": says.double().mean().item(),
        "one class": bool(says.all() or not says.any()),
    }


def examine(model, groups):
    """The scores of a judge on groups of any lengths, taken together."""
    parts = run_groups(model, groups)
    return scores(torch.cat([verdict.logits for verdict, _ in parts]), torch.cat([labels for _, labels in parts]))


def evaluate(model, sets):
    """One row for each set."""
    return [
        {"set": name, "kind": kind, "length": length, **examine(model, [group])} for name, kind, length, group in sets
    ]


# --- asking a trained judge in another way ---------------------------------------------------------------------------

SHARPENED = "sharpened"


def ways(model):
    """The ways in which this judge can be asked about sequences longer than it was trained on, its own first."""
    policies = model.positions.policies if isinstance(model.positions, Policies) else ()
    own = model.positions.beyond if policies else "as trained"
    return [own, *(policy for policy in policies if policy != own), SHARPENED]


@contextlib.contextmanager
def asked(model, way):
    """While this lasts, `model` deals with long sequences in this way: by another policy of its encoding, or with its
    queries made longer by log(length) / log(trained), so that more keys dilute less what attention finds (a bias that
    an encoding adds to the logits stays as it is).
    """
    own, *others = ways(model)
    if way not in (own, *others):
        raise ValueError(f"way is {way!r}; this judge can be asked {', '.join([own, *others])}.")
    trained = model.positions.trained

    def sharpen(linear, inputs, queries):
        return queries * max(1, math.log(queries.shape[-2]) / math.log(trained))

    hooks = [block.attention.query.register_forward_hook(sharpen) for block in model.blocks if way == SHARPENED]
    policy = way in others and way != SHARPENED
    if policy:
        model.positions.beyond = way
    try:
        yield model
    finally:
        for hook in hooks:
            hook.remove()
        if policy:
            model.positions.beyond = own
