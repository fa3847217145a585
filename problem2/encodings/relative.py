"""Relative encodings: the logits of attention change with how far a key is from its query.

Axes:  B batch   H head   Q query   K key   D head width
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from problem1.shared.attention import sinusoids
from problem1.shared.errors import UserError
from problem2.encodings.base import Encoding, Policies, relative_positions


class Rope(Policies, name="rope", label="RoPE"):
    """Turns pairs of coordinates of q and k by t / 10000^(2i/D): q . k depends on t - s only (Su et al., 2021)."""

    policies = ("extend", "interpolate")

    def __init__(self, d_model: int, n_heads: int, beyond: str = "extend", **rest: Any) -> None:
        super().__init__(d_model, n_heads, beyond, **rest)
        if d_model // n_heads % 2:
            raise UserError(f"heads of width {d_model // n_heads} cannot be turned in pairs; it must be even.")

    def relation(self, length: int) -> Tensor:
        return relative_positions(self.token_positions(length)).round().long()

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q), self.turn(k)

    def turn(self, x: Tensor) -> Tensor:
        sin, cos = sinusoids(self.token_positions(x.shape[-2]), x.shape[-1]).unflatten(-1, (-1, 2)).unbind(-1)
        even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class Alibi(Encoding, name="alibi", label="ALiBi (symmetric)"):
    """Minus distance times a fixed slope per head, 2^(-8h/H) for h = 1..H, on both sides (Press et al., 2022: left)."""

    def relation(self, length: int) -> Tensor:
        return relative_positions(torch.arange(length)).abs()

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        slopes = 2.0 ** (-8 * torch.arange(1, self.n_heads + 1) / self.n_heads)
        return -slopes[None, :, None, None] * self.distances(q, k).abs()


class T5(Policies, name="t5", label="T5 buckets"):
    """A learned bias per head and bucket of distances. Half of the buckets are for keys to the right; in each half the
    first half holds one distance each, the rest widen logarithmically up to `farthest`, and the last takes all beyond
    (Raffel et al., 2020). Beyond training:

    untrained     buckets that training never reached are used as they were initialised
    clamp         distances beyond trained - 1 count as the nearest of these
    interpolate   distances are squeezed into the trained ones, rounded towards zero
    """

    policies = ("untrained", "clamp", "interpolate")

    def __init__(
        self, d_model: int, n_heads: int, beyond: str = "untrained", buckets: int = 32, farthest: int = 128, **rest: Any
    ) -> None:
        super().__init__(d_model, n_heads, beyond, **rest)
        if buckets % 4:
            raise UserError(f"buckets is {buckets}; it must be a multiple of 4.")
        if farthest <= buckets // 4:
            raise UserError(f"farthest is {farthest}; with {buckets} buckets it must be above {buckets // 4}.")
        self.buckets, self.farthest = buckets, farthest
        self.bias_table = nn.Parameter(torch.randn(n_heads, buckets))

    def bucket(self, distance: Tensor) -> Tensor:
        half, exact = self.buckets // 2, self.buckets // 4
        far = distance.abs().clamp(min=exact).double() / exact  # double: 16, 32 and 64 lie exactly on a border
        widening = exact + (far.log() / math.log(self.farthest / exact) * (half - exact)).long()
        bucket = torch.where(distance.abs() < exact, distance.abs(), widening.clamp(max=half - 1))
        return bucket + half * (distance > 0)

    def counted(self, distances: Tensor, length: int) -> Tensor:
        """The distances as the policy has them."""
        if self.beyond == "clamp":
            return distances.clamp(1 - self.trained, self.trained - 1)
        if self.beyond == "interpolate" and length > self.trained:
            return (distances * ((self.trained - 1) / (length - 1))).trunc().long()
        return distances

    def relation(self, length: int) -> Tensor:
        return self.bucket(self.counted(relative_positions(torch.arange(length)), length))

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        return self.bias_table[:, self.bucket(self.counted(self.distances(q, k), k.shape[-2]))][None]


class Relative(Encoding):
    """Distances beyond -clip..clip count as the nearest of these."""

    def __init__(self, d_model: int, n_heads: int, clip: int, **rest: Any) -> None:
        super().__init__(d_model, n_heads, **rest)
        self.clip = clip

    def relation(self, length: int) -> Tensor:
        return relative_positions(torch.arange(length)).clamp(-self.clip, self.clip)

    def index(self, q: Tensor, k: Tensor) -> Tensor:
        """0..2 clip: 0 for far left, `clip` for the token itself."""
        return self.distances(q, k).clamp(-self.clip, self.clip) + self.clip


class ClippedBias(Relative, name="clipped", label="relative bias (clipped)"):
    """A learned bias per head and clipped distance."""

    def __init__(self, d_model: int, n_heads: int, clip: int = 2, **rest: Any) -> None:
        super().__init__(d_model, n_heads, clip, **rest)
        self.bias_table = nn.Parameter(torch.randn(n_heads, 2 * clip + 1))

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        return self.bias_table[:, self.index(q, k)][None]


class Shaw(Relative, name="shaw", label="Shaw (clipped)"):
    """A learned key per head and clipped distance, in every layer its own: q . (k + a) / sqrt(D). Shaw et al., 2018.
    With `values` there is a learned value, too: the output of a head is the sum of weight * (v + b).
    """

    per_layer = True

    def __init__(self, d_model: int, n_heads: int, clip: int = 2, values: int = 0, **rest: Any) -> None:
        super().__init__(d_model, n_heads, clip, **rest)
        self.adds_values = bool(values)
        self.keys = nn.Parameter(torch.randn(n_heads, 2 * clip + 1, d_model // n_heads))
        if values:
            self.value_table = nn.Parameter(torch.randn(n_heads, 2 * clip + 1, d_model // n_heads))

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        at_each_distance = q @ self.keys.transpose(-2, -1) / q.shape[-1] ** 0.5  # B H Q 2clip+1
        return at_each_distance.gather(-1, self.index(q, k).expand(*q.shape[:-1], -1))

    def values(self, weights: Tensor) -> Tensor:
        at_each_distance = weights.new_zeros(*weights.shape[:-1], 2 * self.clip + 1)
        index = self.index(weights, weights.transpose(-2, -1)).expand_as(weights)
        return at_each_distance.scatter_add(-1, index, weights) @ self.value_table  # B H Q D
