"""Every logit that a token can have, in three tables, and the model's own forward pass, which must agree with them."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from problem1.shared.errors import UserError
from problem2.model import Classifier

CHECKED_LENGTHS = (*range(2, 18), 32, 64, 128, 256, 512, 1_024)


@dataclass
class Tables:
    """The logit of a token, by the values that it sees. V is the size of the vocabulary."""

    first: np.ndarray  # V V: its own value, the right one
    middle: np.ndarray  # V V V: the left value, its own, the right one
    last: np.ndarray  # V V: the left value, its own

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.first, self.middle, self.last))

    @property
    def lowest(self) -> float:
        return float(min(table.min() for table in self))

    @property
    def highest(self) -> float:
        return float(max(table.max() for table in self))

    def of(self, tokens: np.ndarray) -> np.ndarray:
        """The logits of tokens (N, length), read from the tables."""
        return np.concatenate(
            [
                self.first[tokens[:, 0], tokens[:, 1]][:, None],
                self.middle[tokens[:, :-2], tokens[:, 1:-1], tokens[:, 2:]],
                self.last[tokens[:, -2], tokens[:, -1]][:, None],
            ],
            axis=1,
        )

    def logit(self, sequence: list[int]) -> float:
        """The lowest logit in one sequence, read from the tables."""
        return float(self.of(np.array([sequence])).min())

    def sorted_entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Masks over first, middle and last: the entries that a sorted sequence can show."""
        pair = np.triu(np.ones_like(self.first, dtype=bool))
        return pair, pair[:, :, None] & pair[None], pair


def every_triple(size: int) -> np.ndarray:
    """A sequence of size^3 + 2 values below `size` in which each triple of neighbours comes exactly once: a de Bruijn
    sequence, made of the Lyndon words of length 1 and 3 in alphabetical order."""
    words = np.indices((size,) * 3).reshape(3, -1)  # a b c, in alphabetical order
    numbers = [np.ravel_multi_index(np.roll(words, shift, axis=0), (size,) * 3) for shift in range(3)]
    words = words[:, (numbers[0] < numbers[1]) & (numbers[0] < numbers[2])]  # smaller than their rotations
    cycle = np.concatenate([[a, *words[:, words[0] == a].T.ravel()] for a in range(size)]).astype(int)
    return np.concatenate([cycle, cycle[:2]])


@torch.inference_mode()
def tabulate(model: Classifier, length: int = 1_000) -> Tables:
    """The model's own forward pass in float32: no proof. Ends are read from all pairs, the middle from pieces of a
    sequence that shows every triple once."""
    size = model.shape["vocabulary"]
    values, sequence = torch.arange(size), torch.from_numpy(every_triple(size))
    pairs = torch.cartesian_prod(values, values)
    ends = torch.cat([token_logits(model, batch) for batch in pairs.split(length)])
    pieces = [sequence[start : start + length + 2][None] for start in range(0, len(sequence) - 2, length)]
    inner = torch.cat([token_logits(model, piece)[0, 1:-1] for piece in pieces])
    if not (ends.isfinite().all() and inner.isfinite().all()):
        raise UserError("some logits of the classifier are not finite numbers; its weights are spoiled.")
    middle = torch.empty(size, size, size)
    middle[sequence[:-2], sequence[1:-1], sequence[2:]] = inner
    return Tables(ends[:, 0].view(size, size).numpy(), middle.numpy(), ends[:, 1].view(size, size).numpy())


def token_logits(model: Classifier, tokens: Tensor) -> Tensor:
    logits = model(tokens).token_logits
    assert logits is not None, "pooling is min"
    return logits


@torch.inference_mode()
def sampled_differences(model: Classifier, tables: Tables, tokens_per_length: int = 8_192) -> tuple[float, float]:
    """Largest difference of a run in float32, and of one in float64, from the tables, over every token of random
    sequences of 2 to 1,024 values, half of them sorted.
    """
    precise, draw, found = copy.deepcopy(model).double(), np.random.default_rng([0, 3]), []
    for length in CHECKED_LENGTHS:
        tokens = draw.integers(len(tables.first), size=(max(2, tokens_per_length // length), length))
        tokens[::2].sort(axis=1)
        runs = (token_logits(each, torch.from_numpy(tokens)).double().numpy() for each in (model, precise))
        found.append([abs(run - tables.of(tokens)).max() for run in runs])
    single, double = np.max(found, axis=0)
    return float(single), float(double)
