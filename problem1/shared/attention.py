"""Multi-head attention whose heads can be recorded and switched off, and the hooks through which positions enter it.

Axes:  B batch   H head   Q query   K key   D width of a head   M d_model
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from problem1.shared.errors import UserError


class Positions(nn.Module):
    """No positions at all. An encoding overrides the hooks it needs; nothing else changes.

    With `window = w` a query sees only the keys at distance -w..w, and only those 2w + 1 scores are computed.
    With `scalable = n` softmax is scalable: see `Attention.scale`.
    """

    window: int | None = None
    scalable: int | None = None
    adds_values = False  # is the hook `values` in use? It needs all weights, which the fused kernel does not give

    def embed(self, x: Tensor) -> Tensor:
        """Change the token embeddings: (B, length, M) -> the same shape."""
        return x

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Change queries and keys: (B, H, Q, D), (B, H, K, D) -> the same shapes."""
        return q, k

    def bias(self, q: Tensor, k: Tensor) -> Tensor | None:
        """What to add to the logits, or None; broadcasts to (B, H, Q, K), with a window to (B, H, Q, 2w + 1)."""
        return None

    def values(self, weights: Tensor) -> Tensor:
        """What to add to the outputs of the heads, given weights (B, H, Q, K), with a window (B, H, Q, 2w + 1):
        (B, H, Q, D).
        """
        raise NotImplementedError("an encoding with adds_values has a method for it")

    def distances(self, q: Tensor, k: Tensor) -> Tensor:
        """Key position minus query position: (Q, K), with a window (1, 2w + 1)."""
        if self.window is not None:
            return torch.arange(-self.window, self.window + 1)[None]
        return torch.arange(k.shape[-2])[None] - torch.arange(q.shape[-2])[:, None]


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """(..., d_model) for positions (...): P[t, 2i] = sin(t / 10000^(2i/d_model)), P[t, 2i + 1] = cos of the same."""
    angle = positions[..., None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class Sinusoidal(Positions):
    """Adds a fixed row of sines and cosines to each embedding."""

    def embed(self, x: Tensor) -> Tensor:
        return x + sinusoids(torch.arange(x.shape[-2]), x.shape[-1])


@dataclass
class HeadActivations:
    """What the heads of one attention layer did."""

    weights: Tensor  # B H Q K, rows sum to 1
    outputs: Tensor  # B H Q D, before W_O mixes the heads


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(D)) V for several heads side by side, then W_O.

    `gate` is (H,) or (B, H): 1 keeps a head, 0 removes it. A removed head gives zeros, or what `patch` (broadcasts to
    B H Q D) holds for it: its mean output, its output in another run. Both act before W_O mixes the heads.
    """

    def __init__(self, d_model: int, n_heads: int, positions: Positions | None = None) -> None:
        super().__init__()
        if min(d_model, n_heads) < 1 or d_model % n_heads:
            raise UserError(f"d_model is {d_model} and n_heads {n_heads}; d_model must be a multiple of n_heads.")
        self.n_heads = n_heads
        self.positions = positions or Positions()
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model) for _ in range(4))
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.log_factor: nn.Parameter | None = None
        if self.positions.scalable is not None:
            self.log_factor = nn.Parameter(torch.full((n_heads,), 1 / math.log(max(2, self.positions.scalable))))

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        causal: bool = False,
        gate: Tensor | None = None,
        patch: Tensor | None = None,
        return_attention: bool = False,
    ) -> tuple[Tensor, HeadActivations | None]:
        """x (B, Q, M) reads memory (B, K, M), by default itself. Returns (B, Q, M), and the activations if asked."""
        memory = x if memory is None else memory
        q, k, v = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        q, k = self.positions.rotate(q, k)
        bias = self.positions.bias(q, k)
        scale = self.scale(q, k, causal)
        if scale is not None:
            q, bias = q * scale, bias if bias is None else bias * scale

        if self.positions.window is not None:
            weights, outputs = attend_to_neighbours(q, k, v, bias, self.positions.window, causal)
        elif return_attention or gate is not None or self.positions.adds_values:
            weights, outputs = attend(q, k, v, bias, causal)
        else:  # only the result counts: the fused kernel does the same work
            return self.mix(fused_attention(q, k, v, bias, causal)), None

        if self.positions.adds_values:
            outputs = outputs + self.positions.values(weights)
        activations = HeadActivations(weights, outputs) if return_attention else None
        return self.mix(outputs, gate, patch), activations

    def scale(self, q: Tensor, k: Tensor, causal: bool) -> Tensor | None:
        """What to multiply all logits by, (H, Q, 1), or None: s log n, n being the number of keys that a query sees and
        s a number that each head learns. At first s = 1 / log(scalable), so `scalable` keys leave the logits as they
        are. Scalable softmax: Nakanishi, 2025.
        """
        if self.log_factor is None:
            return None
        seen = keys_seen(q.shape[-2], k.shape[-2], self.positions.window, causal)
        return self.log_factor[:, None, None] * seen.to(q.dtype).log()[:, None]

    def mix(self, outputs: Tensor, gate: Tensor | None = None, patch: Tensor | None = None) -> Tensor:
        """Close the gates, then let W_O mix the heads: (B, H, Q, D) -> (B, Q, M)."""
        if gate is not None:
            gate = gate[..., None, None]
            length = outputs.shape[-2]  # an answer half written uses the first positions of the patch
            outputs = outputs * gate if patch is None else outputs * gate + patch[..., :length, :] * (1 - gate)
        return self.output(outputs.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # B H length D


def feed_forward(d_model: int, d_ff: int) -> nn.Sequential:
    """The second half of a block, with its norm: (..., M) -> the same shape."""
    first, second = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
    for linear in (first, second):
        nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(linear.bias)
    return nn.Sequential(nn.LayerNorm(d_model), first, nn.ReLU(), second)


def causal_mask(queries: int, keys: int) -> Tensor:
    """True where a query may attend: at its own position and earlier ones."""
    return torch.ones(queries, keys, dtype=torch.bool).tril()


def keys_seen(queries: int, keys: int, window: int | None, causal: bool) -> Tensor:
    """(Q,): how many keys each query sees."""
    query = torch.arange(queries)
    reach = queries + keys if window is None else window
    first, last = (query - reach).clamp(min=0), (query + reach).clamp(max=keys - 1)
    return (torch.minimum(last, query) if causal else last) - first + 1


def products(q: Tensor, k: Tensor, window: int | None = None) -> Tensor:
    """q . k / sqrt(D) of the keys that a query may see: (B, H, Q, K), with a window (B, H, Q, 2w + 1)."""
    if window is None:
        return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return torch.einsum("bhqd,bhqdw->bhqw", q, neighbours(k, window)) / q.shape[-1] ** 0.5


def neighbours(x: Tensor, window: int) -> Tensor:
    """(B, H, length, D) -> (B, H, length, D, 2w + 1), a view: what stands at distance -w..w, zeros beyond the ends."""
    return F.pad(x, (0, 0, window, window)).unfold(-2, 2 * window + 1, 1)


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    scores = products(q, k)
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(~causal_mask(*scores.shape[-2:]), -torch.inf)
    weights = scores.softmax(-1)
    return weights, weights @ v


def fused_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
    if bias is not None and causal:
        bias = torch.where(causal_mask(q.shape[-2], k.shape[-2]), bias, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal and bias is None)


def attend_to_neighbours(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, window: int, causal: bool
) -> tuple[Tensor, Tensor]:
    """The same over the 2w + 1 nearest keys only: cost grows with the length, not with its square."""
    length = k.shape[-2]
    scores = products(q, k, window)
    if bias is not None:
        scores = scores + bias
    distance = torch.arange(-window, window + 1)
    key = torch.arange(length)[:, None] + distance  # Q 2w+1
    outside = (key < 0) | (key >= length) | (causal & (distance > 0))
    weights = scores.masked_fill(outside, -torch.inf).softmax(-1)
    return weights, torch.einsum("bhqw,bhqdw->bhqd", weights, neighbours(v, window))
