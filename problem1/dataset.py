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


def representative(pairs: np.ndarray, swap: str = "none") -> np.ndarray:
    """(N,): one number for each pair, the same for all pairs that swaps (see SWAPS) make of each other."""
    if swap == "operands":
        pairs = np.sort(pairs, axis=1)
    elif swap == "columns":  # of each column the larger digit above
        above, below = (to_digits(numbers, 6) for numbers in pairs.T)  # operands have at most six digits
        pairs = np.stack([from_digits(np.maximum(above, below)), from_digits(np.minimum(above, below))], axis=1)
    return pairs @ np.array([10**7, 1])


def contains(pool: np.ndarray, pairs: np.ndarray, swap: str = "none") -> np.ndarray:
    """For each row of `pairs`: is it in `pool`, as it stands or after swaps?"""
    return np.isin(representative(pairs, swap), representative(pool, swap))


def overlap_table(digits: int = 3, train_size: int | None = None) -> pd.DataFrame:
    """How many pairs of each split also stand in another one: nothing in the assignment keeps the splits apart."""
    pairs = {name: split_pairs(name, digits, train_size if name == "train" else None) for name in SPLIT_SEEDS}
    rows = [
        {
            "pairs of": left,
            "found in": right,
            "size": len(pairs[left]),
            "same order": int(contains(pairs[right], pairs[left]).sum()),
            "either order": int(contains(pairs[right], pairs[left], "operands").sum()),
            "up to swaps of columns": int(contains(pairs[right], pairs[left], "columns").sum()),
        }
        for left, right in [("test", "train"), ("validation", "train"), ("test", "validation")]
    ]
    return pd.DataFrame(rows)


# --- carries ---------------------------------------------------------------------------------------------------------


def carries_in(pairs: np.ndarray, digits: int = 3) -> np.ndarray:
    """(N, digits + 1) booleans: does a carry arrive in this column of the answer? Most significant column first."""
    place_value = 10 ** np.arange(digits, -1, -1)
    return (pairs[:, :1] % place_value + pairs[:, 1:] % place_value) >= place_value


def column_sums(pairs: np.ndarray, digits: int = 3) -> np.ndarray:
    """(N, digits): the two digits of each column added up, most significant first."""
    return to_digits(pairs[:, 0], digits) + to_digits(pairs[:, 1], digits)


def has_nine(pairs: np.ndarray, digits: int = 3) -> np.ndarray:
    """(N,): does some column add up to 9? Only such a column sends a carry because one arrives."""
    return (column_sums(pairs, digits) == 9).any(1)


def carryless_digits(pairs: np.ndarray, digits: int = 3) -> np.ndarray:
    """(N, digits + 1): the answer of somebody who forgets to carry, each column by itself: 663 + 497 gives 1050. The
    leading 1 is written, not carried: it is there if the first column alone makes it."""
    sums = column_sums(pairs, digits)
    return np.column_stack([sums[:, 0] // 10, sums % 10])


def carry_facts(pairs: np.ndarray, digits: int = 3) -> pd.DataFrame:
    """One row per pair: number of carries, longest run of neighbouring columns that carry, carry passed through a 9.

    A carry passes through a 9 when it arrives in a column whose two digits add up to 9: only because it arrives does
    the column pass one on.
    """
    arrives = carries_in(pairs, digits)
    run, longest = np.zeros(len(pairs), int), np.zeros(len(pairs), int)
    for column in range(digits + 1):
        run = (run + 1) * arrives[:, column]
        longest = np.maximum(longest, run)
    return pd.DataFrame(
        {
            "carries": arrives.sum(1),
            "longest chain": longest,
            "through a 9": (arrives[:, 1:] & (column_sums(pairs, digits) == 9)).any(1),
        }
    )


def carry_table(digits: int = 3) -> pd.DataFrame:
    """All pairs by number of carries: how many there are, how far a carry travels, how often it passes through a 9."""
    facts = pd.concat([carry_facts(pairs, digits) for pairs in every_pair(digits, 90_000)])
    longest, through = ("longest chain", "mean"), ("through a 9", "mean")
    columns = {"pairs": ("carries", "size"), "longest chain, mean": longest, "share through a 9": through}
    return facts.groupby("carries").agg(**columns).round(3)


# --- tokens ----------------------------------------------------------------------------------------------------------


def to_digits(numbers: np.ndarray, count: int) -> np.ndarray:
    """(N,) numbers -> (N, count) digits, most significant first."""
    return numbers[:, None] // 10 ** np.arange(count - 1, -1, -1) % 10


def from_digits(digits: np.ndarray) -> np.ndarray:
    """(N, count) digits -> (N,) numbers."""
    return digits @ 10 ** np.arange(digits.shape[-1] - 1, -1, -1)


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

SWAPS = {  # what may change places while the sum stays the same
    "none": "nothing",
    "operands": "a + b = b + a",
    "columns": "the two digits of a column, each column by itself: 663 + 497 = 693 + 467 = 467 + 693 = ...",
}


def swap_operands(pairs: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Each pair is turned round with probability 1/2."""
    return np.where(draw.random(len(pairs))[:, None] < 0.5, pairs[:, ::-1], pairs)


def swap_columns(pairs: np.ndarray, draw: np.random.Generator, digits: int = 3) -> np.ndarray:
    """The two digits of each column change places with probability 1/2."""
    above, below = (to_digits(numbers, digits) for numbers in pairs.T)
    swapped = draw.random(above.shape) < 0.5
    return np.stack([from_digits(np.where(swapped, below, above)), from_digits(np.where(swapped, above, below))], 1)


class Batches:
    """Batches of encoded pairs; the batch of a step depends on the seed and the step only."""

    def __init__(self, seed: int, batch_size: int, digits: int = 3, swap: str = "none"):
        self.seed, self.batch_size, self.digits, self.swap = seed, batch_size, digits, swap

    def pairs_of(self, step: int) -> np.ndarray:
        """The pairs of this step, before any swap."""
        raise NotImplementedError

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        pairs, draw = self.pairs_of(step), np.random.default_rng([self.seed, 2, step])
        if self.swap == "operands":
            pairs = swap_operands(pairs, draw)
        elif self.swap == "columns":
            pairs = swap_columns(pairs, draw, self.digits)
        return encode_pairs(pairs, self.digits)


class ExactBatches(Batches):
    """The assignment's pairs, shuffled anew in every epoch.

    A share `nines` of each batch are training pairs with a column that adds up to 9, drawn again on top of the epoch:
    nothing new is shown, but what is hard is shown more often. If no training pair has one, nothing is drawn.

    With `full_only` the pairs that fill no batch at the end of an epoch (16 of 10,000 in batches of 64, other ones each
    time) are dropped, and an epoch has 156 steps; otherwise they are a smaller batch, the 157th. Fewer pairs than a
    batch holds are one batch.
    """

    def __init__(
        self,
        seed: int,
        batch_size: int,
        digits: int = 3,
        swap: str = "none",
        train_size: int | None = None,
        nines: float = 0.0,
        full_only: bool = True,
    ):
        super().__init__(seed, batch_size, digits, swap)
        self.pairs = split_pairs("train", digits, train_size)
        self.hard = self.pairs[has_nine(self.pairs, digits)]
        self.drawn_again = min(round(nines * batch_size), batch_size - 1) if len(self.hard) else 0
        self.new = batch_size - self.drawn_again
        full_batches = len(self.pairs) // self.new
        self.per_epoch = max(1, full_batches) if full_only else steps_per_epoch(len(self.pairs), self.new)
        self.epoch = -1

    def pairs_of(self, step: int) -> np.ndarray:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            draw = np.random.default_rng([self.seed, 0, epoch])
            self.epoch, self.order = epoch, draw.permutation(len(self.pairs))
        pairs = self.pairs[self.order[position * self.new :][: self.new]]
        if self.drawn_again:
            again = np.random.default_rng([self.seed, 3, step]).integers(len(self.hard), size=self.drawn_again)
            pairs = np.concatenate([pairs, self.hard[again]])
        return pairs


class OnlineBatches(Batches):
    """New pairs in every step; validation and test pairs are left out, up to the swaps that are shown, and in either
    order anyway."""

    def __init__(self, seed: int, batch_size: int, digits: int = 3, swap: str = "none"):
        super().__init__(seed, batch_size, digits, swap)
        self.held_out = np.concatenate([split_pairs(split, digits) for split in ("validation", "test")])
        self.held_out_up_to = "operands" if swap == "none" else swap

    def pairs_of(self, step: int) -> np.ndarray:
        low, high = operand_range(self.digits)
        draw = np.random.default_rng([self.seed, 1, step])
        kept = np.empty((0, 2), int)
        while len(kept) < self.batch_size:  # of two digits, most pairs are held out
            pairs = draw.integers(low, high + 1, size=(8 * self.batch_size, 2))
            kept = np.concatenate([kept, pairs[~contains(self.held_out, pairs, self.held_out_up_to)]])
        return kept[: self.batch_size]
