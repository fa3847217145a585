"""What the assignment's data alone say: its sets, drawn from their seeds, and the shares that one answer for all gets.

An addition item is (a, b); an item of the other problem is (sequence, is it sorted?).
"""

import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

SEEDS = {"train": 641, "validation": 642, "test": 643}
SIZES = {"train": 10_000, "validation": 2_000, "test": 2_000}
TRAINED, LONG = (8, 12, 16), (32, 64, 128, 256)  # lengths at which the assignment evaluates
LONG_SEED, LONG_SIZE = 1_641, 500  # the seed of a long set is LONG_SEED + length
HEADS = {"encoder": 8, "decoder self": 8, "decoder cross": 8}
LN2 = math.log(2)


@dataclass(frozen=True)
class Share:
    """`count` of `size` items are `of`."""

    count: int
    size: int
    of: str

    @property
    def value(self) -> float:
        return self.count / self.size


# --- addition --------------------------------------------------------------------------------------------------------


@cache
def pairs(split: str) -> tuple[tuple[int, int], ...]:
    draw, drawn = random.Random(SEEDS[split]), dict[tuple[int, int], None]()
    while len(drawn) < SIZES[split]:
        drawn[draw.randint(100, 999), draw.randint(100, 999)] = None
    return tuple(drawn)


def digits(number: int, count: int) -> list[int]:
    return [int(digit) for digit in f"{number:0{count}}"]


@cache
def sum_shares(split: str) -> list[Share]:
    """What a decoder can get right that cannot write the first digit: the answers whose first digit is the one with
    which decoding was started, and of these the ones without a further 0, when digit 0 was taken for PAD."""
    answers = [digits(a + b, 4) for a, b in pairs(split)]
    started = {"sums below 1000": [answer[0] == 0 for answer in answers]}
    started["sums of 1000 and more"] = [not small for small in started["sums below 1000"]]
    for batch in (16, 32, 64, 128, 256):
        right = []
        for first in range(0, len(answers), batch):
            starts = [answer[0] for answer in answers[first : first + batch]]
            common = Counter(sorted(starts)).most_common(1)[0][0]  # of two equally common ones the smaller
            right += [start == common for start in starts]
        started[f"sums whose first digit is the most common one of their batch of {batch}"] = right
    shares = []
    for name, right in started.items():
        rest = [begun and 0 not in answer[1:] for begun, answer in zip(right, answers, strict=True)]
        shares += [Share(sum(right), len(right), name), Share(sum(rest), len(rest), f"{name} without a further 0")]
    return shares


# --- sorted or not ---------------------------------------------------------------------------------------------------


def drawn_items(seed: int, size: int, shortest: int, longest: int) -> tuple[tuple[list[int], bool], ...]:
    draw, items = random.Random(seed), []
    for _ in range(size):
        length, in_order = draw.randint(shortest, longest), draw.random() < 0.5
        sequence = sorted(draw.randint(0, 99) for _ in range(length))
        if not in_order:
            ordered = list(sequence)
            for _ in range(max(2, length // 3)):
                i, j = draw.sample(range(length), 2)
                sequence[j], sequence[i] = sequence[i], sequence[j]
            if sequence == ordered:
                sequence[0], sequence[-1] = sequence[-1], sequence[0]
        items.append((sequence, in_order))
    return tuple(items)


@cache
def sequences(name: str | int) -> tuple[tuple[list[int], bool], ...]:
    """The items of a split, or of a length beyond training."""
    if isinstance(name, int):
        return drawn_items(LONG_SEED + name, LONG_SIZE, name, name)
    return drawn_items(SEEDS[name], SIZES[name], 8, 16)


@cache
def class_shares(name: str | int) -> tuple[Share, Share]:
    """What a model gets right that answers the same to every item of this set: always sorted, always unsorted."""
    items = sequences(name)
    count = sum(in_order for _, in_order in items)
    return Share(count, len(items), "sorted items"), Share(len(items) - count, len(items), "unsorted items")


# --- are these the assignment's items? -------------------------------------------------------------------------------


def items_hash(items: Sequence[Any]) -> str:
    text = json.dumps(items, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pair_items(split: str) -> list[dict[str, Any]]:
    plus = [10]
    return [{"input": digits(a, 3) + plus + digits(b, 3), "target": digits(a + b, 4)} for a, b in pairs(split)]


def sequence_items(name: str | int) -> list[dict[str, Any]]:
    return [
        {"sequence": sequence, "is_sorted": int(in_order), "length": len(sequence)}
        for sequence, in_order in sequences(name)
    ]


@cache
def hashes(problem: int) -> dict[str, str]:
    """{hash: name of the set} of one problem."""
    if problem == 1:
        return {items_hash(pair_items(split)): split for split in SEEDS}
    names: list[str | int] = [*SEEDS, *LONG]
    return {items_hash(sequence_items(name)): str(name) for name in names}
