"""Relative encodings of causal language models: a token attends to earlier tokens and itself only.

A distance is how far a key lies before its query; what the mask hides anyway counts as distance 0.

Axes:  B batch   H head   Q query   K key   D head width   M model width
"""

from typing import Any

import torch
from torch import Tensor, nn

from problem1.shared.attention import sinusoids
from problem1.shared.errors import UserError
from problem2.encodings.base import Encoding, check_pairs, relative_positions


class Backward(Encoding):
    """What these encodings share."""

    causal = True

    def relation(self, length: int) -> Tensor:
        return relative_positions(torch.arange(length))

    def back(self, q: Tensor, k: Tensor) -> Tensor:
        """How far each key lies before its query: (Q, K), with a window (1, 2w + 1)."""
        return -self.distances(q, k).clamp(max=0)


class TransformerXL(Backward, name="transformer_xl", label="Transformer-XL, causal"):
    """((q + u) . k + (q + v) . W R_d) / sqrt(D) at distance d, R being the sinusoidal table (Dai et al., 2019). u and v
    are learned per head, W turns rows into keys; in every layer they are its own.
    """

    per_layer = True

    def __init__(self, d_model: int, n_heads: int, **rest: Any) -> None:
        super().__init__(d_model, n_heads, **rest)
        check_pairs(d_model)
        self.u, self.v = (nn.Parameter(torch.zeros(n_heads, 1, d_model // n_heads)) for _ in range(2))
        self.row_key = nn.Linear(d_model, d_model, bias=False)
        nn.init.xavier_uniform_(self.row_key.weight)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q + self.u, k

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        """`q` comes from `rotate`: it holds u already."""
        back = self.back(q, k)
        rows = sinusoids(torch.arange(int(back.max()) + 1), self.d_model).to(q.dtype)
        keys = self.row_key(rows).unflatten(-1, (self.n_heads, -1)).transpose(0, 1)  # H distance D
        at_each_distance = (q - self.u + self.v) @ keys.transpose(-2, -1) / q.shape[-1] ** 0.5  # B H Q distance
        return at_each_distance.gather(-1, back.expand(*q.shape[:-1], -1))


class Fire(Backward, name="fire", label="FIRE, causal"):
    """f(psi(d) / psi(max(L, i))) at distance d from the query at position i, psi(x) = log(c x + 1): f is a network with
    one hidden layer of 32 and an output per head, c and the threshold L are learned (Li et al., 2024). Whatever the
    length, what f reads lies between 0 and 1.

    In every layer its own. c starts at 1, so that psi bends within 16 positions (the paper's 0.1 is
    for hundreds), L at half of `trained`: 8, the shortest length of the training.
    """

    per_layer = True

    def __init__(self, d_model: int, n_heads: int, **rest: Any) -> None:
        super().__init__(d_model, n_heads, **rest)
        self.log_c = nn.Parameter(torch.zeros(()))  # as logarithms they stay positive
        self.log_threshold = nn.Parameter(torch.tensor(self.trained / 2).log())
        self.network = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, n_heads))

    def psi(self, x: Tensor) -> Tensor:
        return torch.log1p(self.log_c.exp() * x)

    def normalised(self, back: Tensor, length: int) -> Tensor:
        """What f reads for the queries of a sequence: (Q, K), with a window (Q, 2w + 1)."""
        position = torch.arange(length)[:, None]
        return self.psi(back) / self.psi(torch.maximum(position, self.log_threshold.exp()))

    @torch.no_grad()
    def relation(self, length: int) -> Tensor:  # in which of `trained` parts of 0..1, c and L being what they are now
        back = -super().relation(length).clamp(max=0)
        return (self.normalised(back, length) * self.trained).long()

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        return self.network(self.normalised(self.back(q, k), q.shape[-2])[..., None]).permute(2, 0, 1)[None]


class Kerple(Backward, name="kerple", label="KERPLE (log), causal"):
    """-r1 log(1 + r2 d) at distance d, r1 and r2 > 0 learned per head (Chi et al., 2022). As in the authors' code, they
    start at random between 0 and 2, 0 and 1, and layers share them.
    """

    def __init__(self, d_model: int, n_heads: int, **rest: Any) -> None:
        super().__init__(d_model, n_heads, **rest)
        start = torch.rand(2, n_heads).clamp(min=0.01) * torch.tensor([[2.0], [1.0]])
        self.log_r1, self.log_r2 = (nn.Parameter(row) for row in start.log())  # as logarithms they stay positive

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        r1, r2 = (row.exp()[:, None, None] for row in (self.log_r1, self.log_r2))
        return -(r1 * torch.log1p(r2 * self.back(q, k)))[None]


class Nape(Backward, name="nape", label="NAPE, causal"):
    """NoPE and ALiBi side by side: the first half of the heads gets minus distance times a slope of 1/h, h = 1..H/2,
    the other half nothing (Vasylenko, Treviso & Martins, 2025; the slopes are those of their code).
    """

    def __init__(self, d_model: int, n_heads: int, **rest: Any) -> None:
        super().__init__(d_model, n_heads, **rest)
        if n_heads % 2:
            raise UserError(f"n_heads is {n_heads}; half of the heads of nape have a bias, so it must be even.")

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        half = self.n_heads // 2
        slopes = torch.cat([1 / torch.arange(1, half + 1), torch.zeros(half)])
        return -slopes[None, :, None, None] * self.back(q, k)
