"""The sortedness task: the assignment's exact sets, the same task at any length, and the batches of a training.

One sequence of length 8, and what each corruption makes of it:

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
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from problem1.shared.errors import UserError

VOCABULARY = 100  # the values 0..99 are their own token ids
ALL_VALUES = (0, VOCABULARY - 1)
SHORTEST, LONGEST = 2, 4_096
TRAINING_LENGTHS = (8, 16)
LONG_LENGTHS = (32, 64, 128, 256)

SPLIT_SEEDS = {"train": 641, "validation": 642, "test": 643}
SPLIT_SIZES = {"train": 10_000, "validation": 2_000, "test": 2_000}
LONG_SEED, LONG_SIZE = 1_641, 500  # the seed of a long set is LONG_SEED + length

AUGMENTATIONS = ("none", "shift", "squeeze")

Item = tuple[list[int], bool]
Range = tuple[int, int]  # lowest, highest


class Group(NamedTuple):
    """Items of one length."""

    tokens: Tensor  # N length, integers
    is_sorted: Tensor  # N, booleans


# --- what is not in order --------------------------------------------------------------------------------------------


def descents(tokens: Tensor) -> Tensor:
    """(..., length - 1) booleans: is this value greater than the next one?"""
    return tokens[..., :-1] > tokens[..., 1:]


def is_sorted(tokens: Tensor) -> Tensor:
    """(...,) booleans for tokens (..., length); equal neighbours are in order."""
    return ~descents(tokens).any(-1)


def in_order(sequence: Sequence[int]) -> bool:
    return all(left <= right for left, right in itertools.pairwise(sequence))


# --- corruptions: each changes a sorted list whose values are not all equal, so that it is sorted no more ------------

Corruption = Callable[[list[int], random.Random], list[int]]
CORRUPTIONS: dict[str, Corruption] = {}


def register(corruption: str) -> Callable[[Corruption], Corruption]:
    def keep(function: Corruption) -> Corruption:
        CORRUPTIONS[corruption] = function
        return function

    return keep


def swap(sequence: list[int], i: int, j: int) -> None:
    sequence[i], sequence[j] = sequence[j], sequence[i]


@register("swaps")
def some_swaps(sequence: list[int], draw: random.Random) -> list[int]:
    for _ in range(max(2, len(sequence) // 3)):
        i, j = draw.sample(range(len(sequence)), 2)
        swap(sequence, i, j)
    if in_order(sequence):
        swap(sequence, 0, -1)
    return sequence


@register("adjacent")
def adjacent_swap(sequence: list[int], draw: random.Random) -> list[int]:
    steps = [i for i in range(len(sequence) - 1) if sequence[i] < sequence[i + 1]]
    i = draw.choice(steps)
    swap(sequence, i, i + 1)
    return sequence


@register("reversed")
def reverse(sequence: list[int], draw: random.Random) -> list[int]:
    return sequence[::-1]


@register("half-rotated")
def rotate_by_half(sequence: list[int], draw: random.Random) -> list[int]:
    half = len(sequence) // 2
    return sequence[half:] + sequence[:half]


@register("shuffle")
def full_shuffle(sequence: list[int], draw: random.Random) -> list[int]:
    while in_order(sequence):
        draw.shuffle(sequence)
    return sequence


# --- items -----------------------------------------------------------------------------------------------------------


def draw_sequence(
    draw: random.Random, length: int, sorted_item: bool, corruption: str = "swaps", values: Range = ALL_VALUES
) -> list[int]:
    """One sequence from a `random.Random`; the arguments are those that `check_task` accepts."""
    low, high = values
    while True:
        sequence = sorted(draw.randint(low, high) for _ in range(length))
        if sorted_item:
            return sequence
        if sequence[0] < sequence[-1]:  # equal values are sorted in any order
            return CORRUPTIONS[corruption](sequence, draw)


def assignment_items(seed: int, size: int, lengths: Range) -> list[Item]:
    draw, items = random.Random(seed), []
    for _ in range(size):
        length, sorted_item = draw.randint(*lengths), draw.random() < 0.5
        items.append((draw_sequence(draw, length, sorted_item), sorted_item))
    return items


def split_items(split: str) -> list[Item]:
    """The assignment's items of lengths 8 to 16, in its order; about half are sorted."""
    if split not in SPLIT_SEEDS:
        raise UserError(f"split is {split!r}; the splits are {', '.join(SPLIT_SEEDS)}.")
    return assignment_items(SPLIT_SEEDS[split], SPLIT_SIZES[split], TRAINING_LENGTHS)


def long_items(length: int) -> list[Item]:
    """The assignment's 500 items of one length beyond training, in its order; about half are sorted."""
    if length not in LONG_LENGTHS:
        known = ", ".join(map(str, LONG_LENGTHS))
        raise UserError(f"length is {length}; the assignment's long sets have length {known}. make_items has any.")
    return assignment_items(LONG_SEED + length, LONG_SIZE, (length, length))


def make_items(
    size: int,
    lengths: int | Range = TRAINING_LENGTHS,
    corruption: str = "swaps",
    values: Range = ALL_VALUES,
    seed: int = 0,
) -> list[Item]:
    """The same task anew: every other item is sorted, the rest have this corruption.

    `lengths` is one length or (shortest, longest), `values` is (lowest, highest). Sets that differ in any argument but
    the size are drawn independently, also under the same seed.
    """
    shortest, longest = lengths if isinstance(lengths, Sequence) else (lengths, lengths)
    low, high = values
    check_task(size, (shortest, longest), corruption, values)
    draw, items = random.Random(f"{seed} {corruption} {shortest}-{longest} {low}-{high}"), []
    for number in range(size):
        sorted_item = number % 2 == 0
        length = draw.randint(shortest, longest)
        items.append((draw_sequence(draw, length, sorted_item, corruption, values), sorted_item))
    return items


def crowded_items(size: int, length: int, seed: int = 0) -> list[Item]:
    """Items of which every other one is sorted, the rest swapped, and whose values fit clamped positions: the first 15
    are those of a sorted sequence of 16, and all others lie where its last one does, between the 15th and the highest.
    """
    trained, highest = TRAINING_LENGTHS[1], ALL_VALUES[1]
    check_task(size, (trained, length), "swaps", ALL_VALUES)
    draw, items = random.Random(f"{seed} crowded {length}"), []
    for number in range(size):
        first = draw_sequence(draw, trained, sorted_item=True)[:-1]
        last = sorted(draw.randint(first[-1], highest) for _ in range(length - len(first)))
        sorted_item = number % 2 == 0
        items.append((first + last if sorted_item else some_swaps(first + last, draw), sorted_item))
    return items


def check_task(size: int, lengths: Range, corruption: str, values: Range) -> None:
    if size < 2 or size % 2:
        raise UserError(f"size is {size}; half of a set is sorted, so it must be even and at least 2.")
    shortest, longest = lengths
    if not SHORTEST <= shortest <= longest <= LONGEST:
        limits = f"they must rise and lie between {SHORTEST} and {LONGEST:,}"
        raise UserError(f"lengths are {shortest} to {longest}; {limits}.")
    if corruption not in CORRUPTIONS:
        raise UserError(f"corruption is {corruption!r}; the known ones are {', '.join(CORRUPTIONS)}.")
    low, high = values
    if not 0 <= low < high:
        raise UserError(f"values are {low} to {high}; there must be at least two, and none below 0.")


# --- tensors ---------------------------------------------------------------------------------------------------------


def group_by_length(items: Iterable[Item]) -> dict[int, Group]:
    """{length: Group}, shortest first; inside a group the items keep their order."""
    groups: dict[int, list[Item]] = {}
    for item in items:
        groups.setdefault(len(item[0]), []).append(item)
    return {
        length: Group(torch.tensor([sequence for sequence, _ in group]), torch.tensor([label for _, label in group]))
        for length, group in sorted(groups.items())
    }


def encode(sequence: str | Iterable[Any], vocabulary: int = VOCABULARY) -> Tensor:
    """One sequence as a batch of one, from numbers or from text: '3 5 5 9' -> tensor([[3, 5, 5, 9]])."""
    parts = sequence.replace(",", " ").split() if isinstance(sequence, str) else list(sequence)
    try:
        numbers = [int(part) for part in parts]
        whole = all(isinstance(part, str) or part == number for part, number in zip(parts, numbers, strict=True))
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise UserError(f"{sequence!r} is not a sequence of whole numbers; write it like '3 5 5 9'.")
    if numbers:
        check_values(min(numbers), max(numbers), vocabulary)
    tokens = torch.tensor([numbers], dtype=torch.int64)
    check_tokens(tokens, vocabulary)
    return tokens


def check_tokens(tokens: Tensor, vocabulary: int = VOCABULARY) -> None:
    """Say in one sentence why `tokens` is not a batch of sequences of one length."""
    shape = tuple(tokens.shape)
    if tokens.ndim != 2 or tokens.dtype not in (torch.int32, torch.int64):
        number = str(tokens.dtype).removeprefix("torch.")
        raise UserError(f"sequences are {shape} of {number}; they must be int64 or int32 of shape (batch, length).")
    if not tokens.numel():
        raise UserError(f"sequences of shape {shape} are empty; there is nothing to classify.")
    if shape[1] < SHORTEST:
        raise UserError(f"a sequence of length {shape[1]} has no neighbours; the shortest length is {SHORTEST}.")
    check_values(int(tokens.min()), int(tokens.max()), vocabulary)


def check_values(lowest: int, highest: int, vocabulary: int) -> None:
    if lowest < 0 or highest >= vocabulary:
        wrong = lowest if lowest < 0 else highest
        raise UserError(f"value {wrong} is outside the vocabulary 0..{vocabulary - 1}.")


# --- batches ---------------------------------------------------------------------------------------------------------


def augment_values(tokens: np.ndarray, draw: np.random.Generator, squeeze: bool) -> np.ndarray:
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


def online_tokens(
    draw: np.random.Generator, size: int, length: int, narrow: float, adjacent: float, vocabulary: int = VOCABULARY
) -> np.ndarray:
    """(size, length): half sorted; the others are changed by the assignment's swaps or by one adjacent swap.

    Values come from 0..99, or, for a share `narrow` of the items, from a window of 2 to 99 values, its width
    log-uniform. Swaps can cancel and narrow items can be all equal, so labels are read off the result.
    """
    width = np.exp(draw.uniform(np.log(2), np.log(vocabulary), (size, 1))).astype(int)
    width = np.where(draw.random((size, 1)) < narrow, width, vocabulary)
    lowest = draw.integers(vocabulary - width + 1)
    tokens = np.sort(lowest + draw.integers(width, size=(size, length)), axis=1)
    chance = draw.random(size)
    swap_neighbours(tokens, draw, np.flatnonzero(chance < adjacent / 2))
    swap_anywhere(tokens, draw, np.flatnonzero((adjacent / 2 <= chance) & (chance < 0.5)))
    return tokens


def swap_neighbours(tokens: np.ndarray, draw: np.random.Generator, rows: np.ndarray) -> None:
    """In each of these rows one uniformly chosen pair of different neighbours changes places."""
    rises = np.diff(tokens[rows]) > 0
    left = np.where(rises, draw.random(rises.shape), -1).argmax(1)
    tokens[rows, left], tokens[rows, left + 1] = tokens[rows, left + 1], tokens[rows, left]


def swap_anywhere(tokens: np.ndarray, draw: np.random.Generator, rows: np.ndarray) -> None:
    """max(2, length // 3) swaps of two random positions in each of these rows."""
    length = tokens.shape[1]
    for _ in range(max(2, length // 3)):
        i = draw.integers(length, size=len(rows))
        j = (i + draw.integers(1, length, size=len(rows))) % length
        tokens[rows, i], tokens[rows, j] = tokens[rows, j], tokens[rows, i]


class Batches:
    """Groups of one length; the group of a step depends on the seed and the step only."""

    def __init__(self, seed: int, batch_size: int, augment: str = "none") -> None:
        self.seed, self.batch_size, self.augment = seed, batch_size, augment

    def tokens_of(self, step: int) -> np.ndarray:
        raise NotImplementedError

    def __call__(self, step: int) -> Group:
        tokens = self.tokens_of(step)
        if self.augment != "none":
            draw = np.random.default_rng([self.seed, 2, step])
            tokens = augment_values(tokens, draw, squeeze=self.augment == "squeeze")
        batch = torch.from_numpy(tokens)
        return Group(batch, is_sorted(batch))


class ExactBatches(Batches):
    """The given items. In every epoch each length is shuffled and dealt into batches of nearly equal size, at most
    `batch_size`, and the batches of all lengths come in a random order: every item is shown once.
    """

    def __init__(self, items: Iterable[Item], seed: int, batch_size: int, augment: str = "none") -> None:
        super().__init__(seed, batch_size, augment)
        self.groups = [group.tokens.numpy() for group in group_by_length(items).values()]
        self.deals = [-(-len(group) // batch_size) for group in self.groups]
        self.epoch, self.batches = -1, list[np.ndarray]()

    def tokens_of(self, step: int) -> np.ndarray:
        epoch, position = divmod(step, sum(self.deals))
        if epoch != self.epoch:
            draw = np.random.default_rng([self.seed, 0, epoch])
            dealt = zip(self.groups, self.deals, strict=True)
            batches = [part for group, deal in dealt for part in np.array_split(draw.permutation(group), deal)]
            self.epoch, self.batches = epoch, [batches[i] for i in draw.permutation(len(batches))]
        return self.batches[position]


class OnlineBatches(Batches):
    """New items in every step, of a length drawn from 8..16."""

    def __init__(self, seed: int, batch_size: int, augment: str = "none", narrow: float = 0.5, adjacent: float = 0.5):
        super().__init__(seed, batch_size, augment)
        self.narrow, self.adjacent = narrow, adjacent

    def tokens_of(self, step: int) -> np.ndarray:
        draw = np.random.default_rng([self.seed, 1, step])
        shortest, longest = TRAINING_LENGTHS
        length = int(draw.integers(shortest, longest + 1))
        return online_tokens(draw, self.batch_size, length, self.narrow, self.adjacent)
