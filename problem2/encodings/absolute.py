"""Absolute encodings: a row for each position is added to the embeddings.

Axes:  B batch   M model width
"""

from typing import Any

import torch
from torch import Tensor, nn

from problem1.shared.attention import sinusoids
from problem1.shared.errors import UserError
from problem2.encodings.base import Policies, check_pairs


class Absolute(Policies):
    """Adds a row per position to the embeddings, of sines and cosines unless a class has its own."""

    def positions_of(self, x: Tensor) -> Tensor:
        """The positions of the tokens of x (B, length, M): (length,) or (B, length)."""
        return self.token_positions(x.shape[-2])

    def relation(self, length: int) -> Tensor:
        positions = self.positions_of(torch.empty(1, length, 0)).round().long()
        return positions[:, None] * 10_000 + positions  # both of them

    def rows(self, positions: Tensor) -> Tensor:
        """What to add at these positions: (..., M)."""
        return sinusoids(positions, self.d_model)

    def embed(self, x: Tensor) -> Tensor:
        return x + self.rows(self.positions_of(x))


class Sinusoidal(Absolute, name="sinusoidal"):
    """The assignment's table (Vaswani et al., 2017), as problem 1 has it. With `shift` training moves each sequence as
    a whole by a random number of positions below it: it then sees every position up to there, but no greater distance.
    """

    policies = ("extend", "clamp", "interpolate", "moved")

    def __init__(self, d_model: int, n_heads: int, beyond: str = "extend", shift: int = 0, **rest: Any) -> None:
        super().__init__(d_model, n_heads, beyond, **rest)
        check_pairs(d_model)
        self.shift = shift

    def positions_of(self, x: Tensor) -> Tensor:
        positions = super().positions_of(x)
        if self.training and self.shift:
            positions = positions + torch.randint(self.shift, (len(x), 1))
        return positions


class Learned(Absolute, name="learned"):
    """A table with a free row for each position, of which training reaches the first `trained`. Beyond training:

    clamp         the last trained row serves all further positions (the assignment's policy)
    untrained     the further rows are used as they were initialised
    interpolate   a position between two rows gets a mixture of both; so does one that is `moved`
    """

    policies = ("clamp", "untrained", "interpolate", "moved")

    def __init__(self, d_model: int, n_heads: int, beyond: str = "clamp", table_rows: int = 256, **rest: Any) -> None:
        super().__init__(d_model, n_heads, beyond, **rest)
        if table_rows < self.trained:
            raise UserError(f"table_rows is {table_rows}; training alone fills {self.trained}.")
        self.table = nn.Parameter(torch.randn(table_rows, d_model))

    def positions_of(self, x: Tensor) -> Tensor:
        positions = super().positions_of(x)
        if len(positions) > len(self.table) and self.beyond in ("untrained", "moved"):
            raise UserError(f"the learned table has {len(self.table)} rows, too few for length {len(positions)}.")
        return positions

    def rows(self, positions: Tensor) -> Tensor:
        if not positions.is_floating_point():
            return self.table[positions]
        last = self.trained if self.beyond == "interpolate" else len(self.table)
        before = positions.long().clamp(max=last - 2)
        return torch.lerp(self.table[before], self.table[before + 1], (positions - before)[..., None])


class Randomized(Absolute, name="randomized", label="randomized sinusoidal"):
    """Sinusoidal at random positions (Ruoss et al., 2023), of which only the order means something. While training each
    sequence gets sorted positions drawn from 0..span - 1 without repetition, afterwards their means: evenly spaced.
    """

    policies = ("spread",)

    def __init__(self, d_model: int, n_heads: int, span: int = 2_048, **rest: Any) -> None:
        super().__init__(d_model, n_heads, "spread", **rest)
        check_pairs(d_model)
        self.span = span

    def positions_of(self, x: Tensor) -> Tensor:
        batch, length = x.shape[:2]
        if not self.training:  # the mean of the t-th of n sorted draws
            return torch.arange(1, length + 1) * ((self.span + 1) / (length + 1)) - 1
        if length > self.span:
            raise UserError(f"length {length} does not fit into {self.span} random positions; choose a larger span.")
        return torch.rand(batch, self.span).topk(length, sorted=False).indices.sort().values

    def relation(self, length: int) -> Tensor:  # no single position matters: in which of `trained` parts of the range
        positions = (self.positions_of(torch.empty(1, length, 0)) * self.trained / self.span).long()
        return positions[:, None] * 10_000 + positions
