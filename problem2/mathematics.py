"""What the first layer's attention makes of positions alone, computed.

With rows P_t added to the embeddings, the logit of query t and key s holds the term P_t W P_s^T, W = W_Q W_K^T. For
sines and cosines P_t P_s^T is a function of t - s; P_t W P_s^T is one only if W lies in a small subspace: a multiple of
a rotation in each plane of one frequency, and nothing between two frequencies.
"""

import numpy as np
import torch

from problem1.attention import sinusoids
from problem2.encodings import Absolute, Learned


def invariant_part(matrix):
    """The projection of (M, M) matrices onto those W for which P_t W P_s^T depends on t - s only.

    In the plane (sin, cos) of a frequency these are [[a, b], [-b, a]], since
    P_t W P_s^T = a cos(t - s) + b sin(t - s) summed over the frequencies.
    """
    kept = torch.zeros_like(matrix)
    even = torch.arange(0, matrix.shape[-1], 2)
    odd = even + 1
    same = (matrix[..., even, even] + matrix[..., odd, odd]) / 2
    across = (matrix[..., even, odd] - matrix[..., odd, even]) / 2
    kept[..., even, even], kept[..., odd, odd] = same, same
    kept[..., even, odd], kept[..., odd, even] = across, -across
    return kept


def invariant_share(matrix):
    """Share of the squared norm that lies in the translation-invariant subspace: 1/M for random entries."""
    return (invariant_part(matrix).square().sum((-2, -1)) / matrix.square().sum((-2, -1))).numpy()


def share_of_distance(logits):
    """Share of the variance of (T, T) logits that a function of s - t explains: 1 if they depend on nothing else."""
    logits = np.asarray(logits, dtype=float)
    size = logits.shape[-1]
    diagonals = [np.diagonal(logits, offset) for offset in range(1 - size, size)]
    within = sum(((diagonal - diagonal.mean()) ** 2).sum() for diagonal in diagonals)
    return float(1 - within / ((logits - logits.mean()) ** 2).sum())


@torch.inference_mode()
def position_matrices(model):
    """(H, M, M): W_Q W_K^T / sqrt(D) of each head of the first layer, with the LayerNorm before it: its gain, and the
    mean that it takes away. Its division by the standard deviation depends on the values too and is left out.
    """
    block, width = model.blocks[0], model.shape["width"]
    centre = torch.eye(width) - 1 / width
    scale = block.norm.weight[:, None] * centre  # M M: (P - mean) * gain = P @ scale.T
    query, key = (
        (linear.weight @ scale).unflatten(0, (block.attention.heads, -1))  # H D M
        for linear in (block.attention.query, block.attention.key)
    )
    return query.transpose(-2, -1) @ key / query.shape[-2] ** 0.5


@torch.inference_mode()
def position_logits(model, positions):
    """(H, T, T): the term P_t W P_s^T of each head of the first layer at these positions."""
    encoding = model.positions
    rows = encoding.rows(positions) if isinstance(encoding, Learned) else sinusoids(positions, model.shape["width"])
    return rows @ position_matrices(model) @ rows.T


def position_facts(model):
    """How much of the position term of a judge with sinusoidal rows depends on the distance only, at three lengths."""
    if not isinstance(model.positions, Absolute) or isinstance(model.positions, Learned):
        return {}
    facts = {"share of W in the invariant subspace": float(invariant_share(position_matrices(model)).mean())}
    for length in (16, 64, 256):
        positions = model.positions.positions_of(torch.empty(1, length, 0))
        heads = [share_of_distance(logits) for logits in position_logits(model, positions)]
        facts[f"logits explained by distance, length {length}"] = float(np.mean(heads))
    return facts


def news(encoding, length):
    """How new a sequence of this length is to attention, measured against the longest trained one.

    never told    share of the query-key pairs of which attention is told something that it was never told in training
    other mix     half of the summed differences between the shares of all that it is told (total variation): 0 if it is
                  told the same things equally often, 1 if nothing is the same
    """
    values, counts = zip(
        *(encoding.told(n).unique(return_counts=True) for n in (encoding.trained, length)), strict=True
    )
    before, now = (
        dict(zip(value.tolist(), (count / count.sum()).tolist(), strict=True))
        for value, count in zip(values, counts, strict=True)
    )
    return {
        "never told": sum(share for value, share in now.items() if value not in before),
        "other mix": sum(abs(now.get(value, 0) - before.get(value, 0)) for value in before | now) / 2,
    }
