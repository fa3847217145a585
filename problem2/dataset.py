"""The sortedness task: the assignment's exact sets, the same task at any length, and unsorted items of any kind.

One sequence of length 8, and what each kind of unsorted item makes of it:

    sorted         3 14 15 15 26 53 58 97      ties count as sorted
    swaps          3 58 15 14 26 53 15 97      max(2, length // 3) random swaps: the assignment's
    adjacent       3 14 15 15 53 26 58 97      one pair of different neighbours changes places: the hard test
    reversed      97 58 53 26 15 15 14  3
    half-rotated  26 53 58 97  3 14 15 15
    shuffle       53 15  3 97 14 58 15 26

An item is a pair (sequence, is it sorted?). The model reads items of one length, a Group of tensors: nothing is padded.
"""

import itertools
import random
from numbers import Integral
from typing import NamedTuple

import torch

VOCABULARY = 100  # the values 0..99 are their own token ids
SHORTEST, LONGEST = 2, 4_096
TRAINING_LENGTHS = (8, 16)
LONG_LENGTHS = (32, 64, 128, 256)

SPLIT_SEEDS = {"train": 641, "validation": 642, "test": 643}
SPLIT_SIZES = {"train": 10_000, "validation": 2_000, "test": 2_000}
LONG_SEED, LONG_SIZE = 1_641, 500  # the seed of a long set is LONG_SEED + length


class Group(NamedTuple):
    """Items of one length."""

    tokens: torch.Tensor  # N length, integers
    is_sorted: torch.Tensor  # N, booleans


# --- what is not in order --------------------------------------------------------------------------------------------


def descents(tokens):
    """(..., length - 1) booleans: is this value greater than the next one?"""
    return tokens[..., :-1] > tokens[..., 1:]


def is_sorted(tokens):
    """(...,) booleans for tokens (..., length); equal neighbours are in order."""
    return ~descents(tokens).any(-1)


def in_order(sequence):
    return all(left <= right for left, right in itertools.pairwise(sequence))


# --- unsorted items: each kind changes a sorted list whose values are not all equal, so that it is sorted no more -----

KINDS = {}


def register(kind):
    def keep(function):
        KINDS[kind] = function
        return function

    return keep


def swap(sequence, i, j):
    sequence[i], sequence[j] = sequence[j], sequence[i]


@register("swaps")
def some_swaps(sequence, draw):
    for _ in range(max(2, len(sequence) // 3)):
        swap(sequence, *draw.sample(range(len(sequence)), 2))
    if in_order(sequence):
        swap(sequence, 0, -1)
    return sequence


@register("adjacent")
def adjacent_swap(sequence, draw):
    steps = [i for i in range(len(sequence) - 1) if sequence[i] < sequence[i + 1]]
    i = draw.choice(steps)
    swap(sequence, i, i + 1)
    return sequence


@register("reversed")
def reverse(sequence, draw):
    return sequence[::-1]


@register("half-rotated")
def rotate_by_half(sequence, draw):
    half = len(sequence) // 2
    return sequence[half:] + sequence[:half]


@register("shuffle")
def full_shuffle(sequence, draw):
    while in_order(sequence):
        draw.shuffle(sequence)
    return sequence


# --- items -----------------------------------------------------------------------------------------------------------


def draw_sequence(draw, length, sorted_item, kind="swaps", values=(0, VOCABULARY - 1)):
    """One sequence from a `random.Random`; the arguments are those that `check_task` accepts."""
    low, high = values
    while True:
        sequence = sorted(draw.randint(low, high) for _ in range(length))
        if sorted_item:
            return sequence
        if sequence[0] < sequence[-1]:  # equal values are sorted in any order
            return KINDS[kind](sequence, draw)


def assignment_items(seed, size, lengths):
    draw, items = random.Random(seed), []
    for _ in range(size):
        length, sorted_item = draw.randint(*lengths), draw.random() < 0.5
        items.append((draw_sequence(draw, length, sorted_item), sorted_item))
    return items


def split_items(split):
    """The assignment's items of lengths 8 to 16, in its order; about half are sorted."""
    if split not in SPLIT_SEEDS:
        raise ValueError(f"split is {split!r}; the splits are {', '.join(SPLIT_SEEDS)}.")
    return assignment_items(SPLIT_SEEDS[split], SPLIT_SIZES[split], TRAINING_LENGTHS)


def long_items(length):
    """The assignment's 500 items of one length beyond training, in its order; about half are sorted."""
    if length not in LONG_LENGTHS:
        known = ", ".join(map(str, LONG_LENGTHS))
        raise ValueError(f"length is {length}; the assignment's long sets have length {known}. make_items has any.")
    return assignment_items(LONG_SEED + length, LONG_SIZE, (length, length))


def make_items(size, lengths=TRAINING_LENGTHS, kind="swaps", values=(0, VOCABULARY - 1), seed=0):
    """The same task anew: every other item is sorted, the rest are unsorted in this way.

    `lengths` is one length or (shortest, longest), `values` is (lowest, highest). Sets that differ in any argument but
    the size are drawn independently, also under the same seed.
    """
    shortest, longest = (lengths, lengths) if isinstance(lengths, Integral) else lengths
    low, high = values
    check_task(size, (shortest, longest), kind, values)
    draw, items = random.Random(f"{seed} {kind} {shortest}-{longest} {low}-{high}"), []
    for number in range(size):
        sorted_item = number % 2 == 0
        length = draw.randint(shortest, longest)
        items.append((draw_sequence(draw, length, sorted_item, kind, values), sorted_item))
    return items


def check_task(size, lengths, kind, values):
    if size < 2 or size % 2:
        raise ValueError(f"size is {size}; half of a set is sorted, so it must be even and at least 2.")
    shortest, longest = lengths
    if not SHORTEST <= shortest <= longest <= LONGEST:
        raise ValueError(
            f"lengths are {shortest} to {longest}; they must rise and lie between {SHORTEST} and {LONGEST:,}."
        )
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; the kinds of unsorted items are {', '.join(KINDS)}.")
    low, high = values
    if not 0 <= low < high:
        raise ValueError(f"values are {low} to {high}; there must be at least two, and none below 0.")


# --- tensors ---------------------------------------------------------------------------------------------------------


def by_length(items):
    """{length: Group}, shortest first; inside a group the items keep their order."""
    lengths = sorted({len(sequence) for sequence, _ in items})
    groups = {length: [item for item in items if len(item[0]) == length] for length in lengths}
    return {
        length: Group(torch.tensor([sequence for sequence, _ in group]), torch.tensor([label for _, label in group]))
        for length, group in groups.items()
    }


def encode(sequence, vocabulary=VOCABULARY):
    """One sequence as a batch of one, from numbers or from text: '3 5 5 9' -> tensor([[3, 5, 5, 9]])."""
    parts = sequence.replace(",", " ").split() if isinstance(sequence, str) else list(sequence)
    try:
        numbers = [int(part) for part in parts]
        whole = all(isinstance(part, str) or part == number for part, number in zip(parts, numbers, strict=True))
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ValueError(f"{sequence!r} is not a sequence of whole numbers; write it like '3 5 5 9'.")
    if numbers:
        check_values(min(numbers), max(numbers), vocabulary)
    tokens = torch.tensor([numbers], dtype=torch.int64)
    check_tokens(tokens, vocabulary)
    return tokens


def check_tokens(tokens, vocabulary=VOCABULARY):
    """Say in one sentence why `tokens` is not a batch of sequences of one length."""
    shape = tuple(tokens.shape)
    if tokens.ndim != 2 or tokens.dtype not in (torch.int32, torch.int64):
        number = str(tokens.dtype).removeprefix("torch.")
        raise ValueError(f"sequences are {shape} of {number}; they must be int64 or int32 of shape (batch, length).")
    if not tokens.numel():
        raise ValueError(f"sequences of shape {shape} are empty; there is nothing to judge.")
    if shape[1] < SHORTEST:
        raise ValueError(f"a sequence of length {shape[1]} has no neighbours; the shortest length is {SHORTEST}.")
    check_values(*(bound.item() for bound in tokens.aminmax()), vocabulary)


def check_values(lowest, highest, vocabulary):
    if lowest < 0 or highest >= vocabulary:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"value {wrong} is outside the vocabulary 0..{vocabulary - 1}.")
