"""The addition task: vocabulary, the assignment's exact splits, every pair there is, and the carries of a pair.

One example, 3 digits, most significant digit first:

    663+497   source  6 6 3 + 4 9 7      7 tokens
              target  1 1 6 0            4 digits, zero-padded
              carry   1 1 1 0            does a carry arrive in this column of the answer?

A pair is a row (a, b) of an integer array; arrays of pairs have the shape (N, 2).
"""

import random
import re

import numpy as np
import pandas as pd
import torch

PLUS, BOS, PAD = 10, 11, 12  # the digits 0..9 are their own ids, so none of these can be taken for one
TOKENS = [*"0123456789", "+", "BOS", "PAD"]

SPLIT_SEEDS = {"train": 641, "validation": 642, "test": 643}
SPLIT_SIZES = {"train": 10_000, "validation": 2_000, "test": 2_000}


def column_names(digits=3):
    """Names of the answer's columns, most significant first."""
    return ["millions", "hundred thousands", "ten thousands", "thousands", "hundreds", "tens", "ones"][6 - digits :]


# --- pairs -----------------------------------------------------------------------------------------------------------


def operand_range(digits):
    if digits not in range(2, 7):
        raise ValueError(f"digits is {digits}; the task is defined for 2, 3, 4, 5 or 6 digits.")
    return 10 ** (digits - 1), 10**digits - 1


def split_pairs(split, digits=3, size=None):
    """The assignment's pairs: drawn in order from the split's own seed, a pair already drawn is skipped."""
    if split not in SPLIT_SEEDS:
        raise ValueError(f"split is {split!r}; the splits are {', '.join(SPLIT_SEEDS)}.")
    low, high = operand_range(digits)
    size = SPLIT_SIZES[split] if size is None else size
    space = (high - low + 1) ** 2
    if not 1 <= size <= space:
        raise ValueError(f"a {split} split of {size:,} pairs does not fit: {digits}-digit sums allow 1 to {space:,}.")
    draw = random.Random(SPLIT_SEEDS[split])
    pairs = {}  # a dict keeps the order in which pairs were drawn
    while len(pairs) < size:
        pairs[draw.randint(low, high), draw.randint(low, high)] = None
    return np.array(list(pairs))


def pair_count(digits=3):
    low, high = operand_range(digits)
    return (high - low + 1) ** 2


def every_pair(digits=3, batch_size=9_000):
    """Yield all pairs of the input space, in order, as arrays of at most `batch_size` rows."""
    low, high = operand_range(digits)
    numbers = high - low + 1
    for start in range(0, numbers**2, batch_size):
        index = np.arange(start, min(start + batch_size, numbers**2))
        yield np.stack([low + index // numbers, low + index % numbers], axis=1)


def contains(pool, pairs, either_order=False):
    """For each row of `pairs`: is it in `pool`, as it stands or (`either_order`) with its operands swapped too?"""
    if either_order:
        pool = np.concatenate([pool, pool[:, ::-1]])
    one_number = np.array([10**7, 1])  # operands have at most six digits
    return np.isin(pairs @ one_number, pool @ one_number)


def overlap_table(digits=3, train_size=None):
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


def carries_in(pairs, digits=3):
    """(N, digits + 1) booleans: does a carry arrive in this column of the answer? Most significant column first."""
    place = 10 ** np.arange(digits, -1, -1)  # what a 1 is worth in each column
    return (pairs[:, :1] % place + pairs[:, 1:] % place) >= place


def carry_facts(pairs, digits=3):
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


def to_digits(numbers, width):
    return numbers[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10


def encode_pairs(pairs, digits=3):
    """Source (N, 2 * digits + 1) and target (N, digits + 1) token ids of an array of pairs."""
    plus = np.full((len(pairs), 1), PLUS)
    source = np.hstack([to_digits(pairs[:, 0], digits), plus, to_digits(pairs[:, 1], digits)])
    return torch.from_numpy(source), torch.from_numpy(to_digits(pairs.sum(1), digits + 1))


def parse(text, digits=3):
    """'663+497' -> array([[663, 497]])."""
    low, high = operand_range(digits)
    number = f"([1-9][0-9]{{{digits - 1}}})"
    match = re.fullmatch(rf"\s*{number}\s*\+\s*{number}\s*", text)
    if not match:
        raise ValueError(f"{text!r} is not a sum of two {digits}-digit numbers; write it like {low + 23}+{high - 2}.")
    return np.array([[int(number) for number in match.groups()]])


def decode(tokens):
    """Token ids -> text: [6, 6, 3, 10, 4, 9, 7] -> '663+497'."""
    return "".join(TOKENS[int(token)] for token in tokens)


def decoder_input(target):
    """What the decoder reads while it writes `target`: BOS, then every digit but the last."""
    return torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
