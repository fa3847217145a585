"""Multi-head attention that can be looked into, and the interface through which positions enter it.

Axes:  B batch   H head   Q query   K key   D head width   M model width
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class Positions(nn.Module):
    """No positions at all. An encoding overrides the hooks it needs; nothing else changes.

    With `window = w` a query sees only the keys at distance -w..w, and only those 2w + 1 scores are computed.
    """

    window = None

    def embed(self, x):
        """Change the token embeddings: (B, length, M) -> the same shape."""
        return x

    def rotate(self, q, k):
        """Change queries and keys: (B, H, Q, D), (B, H, K, D) -> the same shapes."""
        return q, k

    def scores(self, q, k):
        """What to add to the logits, or None; broadcasts to (B, H, Q, K), with a window to (B, H, Q, 2w + 1)."""
        return None

    def distances(self, q, k):
        """Key position minus query position: (Q, K), with a window (1, 2w + 1)."""
        if self.window is not None:
            return torch.arange(-self.window, self.window + 1)[None]
        return torch.arange(k.shape[-2])[None] - torch.arange(q.shape[-2])[:, None]


def sinusoids(positions, width):
    """(..., width) for positions (...): P[t, 2i] = sin(t / 10000^(2i/width)), P[t, 2i + 1] = cos of the same angle."""
    angle = positions[..., None] / 10_000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class Sinusoidal(Positions):
    """Adds a fixed row of sines and cosines to each embedding."""

    def embed(self, x):
        return x + sinusoids(torch.arange(x.shape[-2]), x.shape[-1])


@dataclass
class Look:
    """What one attention layer did."""

    weights: torch.Tensor  # B H Q K, rows sum to 1
    heads: torch.Tensor  # B H Q D, each head's output before W_O mixes the heads


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(D)) V for several heads side by side, then W_O.

    `gate` is (H,) or (B, H): 1 keeps a head, 0 removes it. A removed head gives zeros, or what `patch` (broadcasts to
    B H Q D) holds for it: its mean output, its output in another run. Both act before W_O mixes the heads.
    """

    def __init__(self, width, heads, positions=None):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} cannot be shared by {heads} heads; it must be a multiple of the heads.")
        self.heads = heads
        self.positions = positions or Positions()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x, memory=None, causal=False, gate=None, patch=None, look=False):
        """x (B, Q, M) reads memory (B, K, M), by default itself. Returns (B, Q, M) and a Look, or None unless asked."""
        memory = x if memory is None else memory
        q, k, v = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        q, k = self.positions.rotate(q, k)
        bias = self.positions.scores(q, k)

        if self.positions.window is not None:
            weights, heads = attend_to_neighbours(q, k, v, bias, self.positions.window, causal)
        elif look or gate is not None:
            weights, heads = attend(q, k, v, bias, causal)
        else:  # nobody looks: the fused kernel does the same work
            weights, heads = None, fused_attention(q, k, v, bias, causal)

        seen = Look(weights, heads) if look else None
        return self.mix(heads, gate, patch), seen

    def mix(self, heads, gate=None, patch=None):
        """Close the gates, then let W_O mix the heads: (B, H, Q, D) -> (B, Q, M)."""
        if gate is not None:
            gate = gate[..., None, None]
            length = heads.shape[-2]  # an answer half written uses the first positions of the patch
            heads = heads * gate if patch is None else heads * gate + patch[..., :length, :] * (1 - gate)
        return self.output(heads.transpose(1, 2).flatten(2))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # B H length D


def causal_mask(queries, keys):
    """True where a query may look: at its own position and earlier ones."""
    return torch.ones(queries, keys, dtype=torch.bool).tril()


def attend(q, k, v, bias, causal):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # B H Q K
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(~causal_mask(*scores.shape[-2:]), -torch.inf)
    weights = scores.softmax(-1)
    return weights, weights @ v


def fused_attention(q, k, v, bias, causal):
    if bias is not None and causal:
        bias = torch.where(causal_mask(q.shape[-2], k.shape[-2]), bias, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal and bias is None)


def attend_to_neighbours(q, k, v, bias, window, causal):
    """The same over the 2w + 1 nearest keys only: cost grows with the length, not with its square."""
    length = k.shape[-2]
    k, v = (F.pad(x, (0, 0, window, window)).unfold(-2, 2 * window + 1, 1) for x in (k, v))  # B H Q D 2w+1, a view
    scores = torch.einsum("bhqd,bhqdw->bhqw", q, k) / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias
    distance = torch.arange(-window, window + 1)
    key = torch.arange(length)[:, None] + distance  # Q 2w+1
    outside = (key < 0) | (key >= length) | (causal & (distance > 0))
    weights = scores.masked_fill(outside, -torch.inf).softmax(-1)
    return weights, torch.einsum("bhqw,bhqdw->bhqd", weights, v)
