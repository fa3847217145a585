"""An encoding whose positions depend on what the tokens hold.

Axes:  B batch   H head   Q query   K key   D head width
"""

from typing import Any

import torch
from torch import Tensor, nn

from problem1.shared.attention import products
from problem2.encodings.base import Encoding


class Cope(Encoding, name="cope", label="CoPE, causal"):
    """q . (k + e[p]) / sqrt(D): the position p of a key is how many tokens from it to the query count for the query,
    p_ij = g_ij + ... + g_ii, where g_ij = sigmoid(q_i . k_j / sqrt(D)) says how much token j counts. Between two whole
    numbers e[p] is a mixture of their rows (Golovneva et al., 2024; the paper writes both products without the root,
    the authors' code divides both by it).

    More than `longest` counts as `longest`: 16, since no token of the training sees more. e is shared by the heads of a
    layer and starts at zero, as in the authors' code.
    Positions alone say nothing of p, so `relation` is the same everywhere.
    """

    causal = True
    per_layer = True

    def __init__(self, d_model: int, n_heads: int, longest: int = 16, **rest: Any) -> None:
        super().__init__(d_model, n_heads, **rest)
        self.longest = longest
        self.table = nn.Parameter(torch.zeros(longest + 1, d_model // n_heads))

    def counted(self, q: Tensor, k: Tensor) -> Tensor:
        """p: (B, H, Q, K), with a window (B, H, Q, 2w + 1); 0 behind the mask."""
        gates = products(q, k, self.window).sigmoid() * (self.distances(q, k) <= 0)
        return gates.flip(-1).cumsum(-1).flip(-1).clamp(max=self.longest)

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        at_each_count = q @ self.table.T / q.shape[-1] ** 0.5  # B H Q longest+1
        count = self.counted(q, k)
        below = count.detach().long().clamp(max=self.longest - 1)
        return torch.lerp(at_each_count.gather(-1, below), at_each_count.gather(-1, below + 1), count - below)
