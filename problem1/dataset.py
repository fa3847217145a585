"""The addition task: vocabulary, the assignment's exact splits, every pair there is, carries, and training batches.

One example, 3 digits, most significant digit first:

    663+497   source  6 6 3 + 4 9 7      7 tokens
              target  1 1 6 0            4 digits, zero-padded
              carry   1 1 1 0            does a carry arrive in this column of the answer?

A pair is a row (a, b) of an integer array; arrays of pairs have the shape (N, 2).
"""

import random
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1.shared.errors import UserError
from problem1.shared.training import steps_per_epoch

PLUS, BOS, PAD = 10, 11, 12  # the digits 0..9 are their own ids, so none of these can be taken for one
TOKENS = [*"0123456789", "+", "BOS", "PAD"]

SPLIT_SEEDS = {"train": 641, "validation": 642, "test": 643}
SPLIT_SIZES = {"train": 10_000, "validation": 2_000, "test": 2_000}


def column_names(digits: int = 3) -> list[str]:
    """Names of the answer's columns, most significant first."""
    return ["millions", "hundred thousands", "ten thousands", "thousands", "hundreds", "tens", "ones"][6 - digits :]


# --- pairs -----------------------------------------------------------------------------------------------------------


def operand_range(digits: int) -> tuple[int, int]:
    """The smallest and the largest operand."""
    if digits not in range(2, 7):
        raise UserError(f"digits is {digits}; the task is defined for 2, 3, 4, 5 or 6 digits.")
    return 10 ** (digits - 1), 10**digits - 1


def split_pairs(split: str, digits: int = 3, size: int | None = None) -> np.ndarray:
    """The assignment's pairs: drawn in order from the split's own seed, a pair already drawn is skipped."""
    if split not in SPLIT_SEEDS:
        raise UserError(f"split is {split!r}; the splits are {', '.join(SPLIT_SEEDS)}.")
    low, high = operand_range(digits)
    size = SPLIT_SIZES[split] if size is None else size
    space = (high - low + 1) ** 2
    if not 1 <= size <= space:
        raise UserError(f"a {split} split of {size:,} pairs does not fit: {digits}-digit sums allow 1 to {space:,}.")
    draw = random.Random(SPLIT_SEEDS[split])
    pairs: dict[tuple[int, int], None] = {}  # a dict keeps the order in which pairs were drawn
    while len(pairs) < size:
        pairs[draw.randint(low, high), draw.randint(low, high)] = None
    return np.array(list(pairs))


def pair_count(digits: int = 3) -> int:
    low, high = operand_range(digits)
    return (high - low + 1) ** 2


def every_pair(digits: int = 3, batch_size: int = 9_000) -> Iterator[np.ndarray]:
    """Yield all pairs of the input space, in order, as arrays of at most `batch_size` rows."""
    low, high = operand_range(digits)
    numbers = high - low + 1
    for start in range(0, numbers**2, batch_size):
        index = np.arange(start, min(start + batch_size, numbers**2))
        yield np.stack([low + index // numbers, low + index % numbers], axis=1)


def contains(pool: np.ndarray, pairs: np.ndarray, either_order: bool = False) -> np.ndarray:
    """For each row of `pairs`: is it in `pool`, as it stands or (`either_order`) with its operands swapped too?"""
    if either_order:
        pool = np.concatenate([pool, pool[:, ::-1]])
    one_number = np.array([10**7, 1])  # operands have at most six digits
    return np.isin(pairs @ one_number, pool @ one_number)


def overlap_table(digits: int = 3, train_size: int | None = None) -> pd.DataFrame:
    """How many pairs of each split also stand in another one: nothing in the assignment keeps the splits apart."""
    pairs = {name: split_pairs(name, digits, train_size if name == "train" else None) for name in SPLIT_SEEDS}
    rows = [
        {
            "pairs of": left,
            "found in": right,
            "size": len(pairs[left]),
            "same order": int(contains(pairs[right], pairs[left]).sum()),
            "either order": int(contains(pairs[right], pairs[left], either_order=True).sum()),
        }
        for left, right in [("test", "train"), ("validation", "train"), ("test", "validation")]
    ]
    return pd.DataFrame(rows)


# --- carries ---------------------------------------------------------------------------------------------------------


def carries_in(pairs: np.ndarray, digits: int = 3) -> np.ndarray:
    """(N, digits + 1) booleans: does a carry arrive in this column of the answer? Most significant column first."""
    place_value = 10 ** np.arange(digits, -1, -1)
    return (pairs[:, :1] % place_value + pairs[:, 1:] % place_value) >= place_value


def carry_facts(pairs: np.ndarray, digits: int = 3) -> pd.DataFrame:
    """One row per pair: number of carries, longest run of neighbouring columns that carry, carry passed through a 9.

    A carry passes through a 9 when it arrives in a column whose two digits add up to 9: only because it arrives does
    the column pass one on.
    """
    arrives = carries_in(pairs, digits)
    source, _ = encode_pairs(pairs, digits)
    column_sum = source[:, :digits].numpy() + source[:, digits + 1 :].numpy()
    run, longest = np.zeros(len(pairs), int), np.zeros(len(pairs), int)
    for column in range(digits + 1):
        run = (run + 1) * arrives[:, column]
        longest = np.maximum(longest, run)
    return pd.DataFrame(
        {
            "carries": arrives.sum(1),
            "longest chain": longest,
            "through a 9": (arrives[:, 1:] & (column_sum == 9)).any(1),
        }
    )


# --- tokens ----------------------------------------------------------------------------------------------------------


def to_digits(numbers: np.ndarray, count: int) -> np.ndarray:
    """(N,) numbers -> (N, count) digits, most significant first."""
    return numbers[:, None] // 10 ** np.arange(count - 1, -1, -1) % 10


def encode_pairs(pairs: np.ndarray, digits: int = 3) -> tuple[Tensor, Tensor]:
    """Source (N, 2 * digits + 1) and target (N, digits + 1) token ids of an array of pairs."""
    plus = np.full((len(pairs), 1), PLUS)
    source = np.hstack([to_digits(pairs[:, 0], digits), plus, to_digits(pairs[:, 1], digits)])
    return torch.from_numpy(source), torch.from_numpy(to_digits(pairs.sum(1), digits + 1))


def parse(text: str, digits: int = 3) -> np.ndarray:
    """'663+497' -> array([[663, 497]])."""
    low, high = operand_range(digits)
    number = f"([1-9][0-9]{{{digits - 1}}})"
    match = re.fullmatch(rf"\s*{number}\s*\+\s*{number}\s*", text)
    if not match:
        raise UserError(f"{text!r} is not a sum of two {digits}-digit numbers; write it like {low + 23}+{high - 2}.")
    return np.array([[int(number) for number in match.groups()]])


def decode(tokens: Iterable[int | Tensor]) -> str:
    """Token ids -> text: [6, 6, 3, 10, 4, 9, 7] -> '663+497'."""
    return "".join(TOKENS[int(token)] for token in tokens)


def shift_right(target: Tensor) -> Tensor:
    """What the decoder reads while it writes `target`: BOS, then every digit but the last."""
    return torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)


# --- training batches ------------------------------------------------------------------------------------------------


def swap_operands(pairs: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """a + b = b + a: each pair is turned round with probability 1/2."""
    return np.where(draw.random(len(pairs))[:, None] < 0.5, pairs[:, ::-1], pairs)


class Batches:
    """Batches of encoded pairs; the batch of a step depends on the seed and the step only."""

    def __init__(self, seed: int, batch_size: int, digits: int = 3, swap: bool = False):
        self.seed, self.batch_size, self.digits, self.swap = seed, batch_size, digits, swap

    def pairs_of(self, step: int) -> np.ndarray:
        """The pairs of this step, before any swap."""
        raise NotImplementedError

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        pairs = self.pairs_of(step)
        if self.swap:
            pairs = swap_operands(pairs, np.random.default_rng([self.seed, 2, step]))
        return encode_pairs(pairs, self.digits)


class ExactBatches(Batches):
    """The assignment's pairs, shuffled anew in every epoch.

    With `full_only` the pairs that fill no batch at the end of an epoch (16 of 10,000, other ones each time) are
    dropped, and an epoch has 156 steps of 64; otherwise they are a smaller batch, the 157th. Fewer pairs than a batch
    holds are one batch.
    """

    def __init__(
        self,
        seed: int,
        batch_size: int,
        digits: int = 3,
        swap: bool = False,
        train_size: int | None = None,
        full_only: bool = True,
    ):
        super().__init__(seed, batch_size, digits, swap)
        self.pairs = split_pairs("train", digits, train_size)
        full_batches = len(self.pairs) // batch_size
        self.per_epoch = max(1, full_batches) if full_only else steps_per_epoch(len(self.pairs), batch_size)
        self.epoch = -1

    def pairs_of(self, step: int) -> np.ndarray:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            draw = np.random.default_rng([self.seed, 0, epoch])
            self.epoch, self.order = epoch, draw.permutation(len(self.pairs))
        return self.pairs[self.order[position * self.batch_size :][: self.batch_size]]


class OnlineBatches(Batches):
    """New pairs in every step; validation and test pairs are left out, in either order."""

    def __init__(self, seed: int, batch_size: int, digits: int = 3, swap: bool = False):
        super().__init__(seed, batch_size, digits, swap)
        self.held_out = np.concatenate([split_pairs(split, digits) for split in ("validation", "test")])

    def pairs_of(self, step: int) -> np.ndarray:
        low, high = operand_range(self.digits)
        draw = np.random.default_rng([self.seed, 1, step])
        pairs = draw.integers(low, high + 1, size=(8 * self.batch_size, 2))  # enough to choose from
        return pairs[~contains(self.held_out, pairs, either_order=True)][: self.batch_size]
