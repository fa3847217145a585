"""What the first layer's attention makes of positions alone, computed.

With rows P_t added to the embeddings, the logit of query t and key s holds the term P_t W P_s^T, W = W_Q W_K^T. For
sines and cosines P_t P_s^T is a function of t - s; P_t W P_s^T is one only if W lies in a small subspace: a multiple of
a rotation in each plane of one frequency, and nothing between two frequencies.
"""

from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from problem1.shared.attention import causal_mask
from problem1.shared.errors import UserError
from problem2.encodings import Absolute, Encoding, Learned
from problem2.model import Block, Classifier


def invariant_part(matrix: Tensor) -> Tensor:
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


def invariant_share(matrix: Tensor) -> np.ndarray:
    """Share of the squared norm that lies in the translation-invariant subspace: 1/M for random entries."""
    return (invariant_part(matrix).square().sum((-2, -1)) / matrix.square().sum((-2, -1))).numpy()


def share_of_distance(logits: npt.ArrayLike) -> float:
    """Share of the variance of (T, T) logits that a function of s - t explains: 1 if they depend on nothing else."""
    values = np.asarray(logits, dtype=float)
    size = values.shape[-1]
    diagonals = [np.diagonal(values, offset) for offset in range(1 - size, size)]
    within = sum(((diagonal - diagonal.mean()) ** 2).sum() for diagonal in diagonals)
    return float(1 - within / ((values - values.mean()) ** 2).sum())


@torch.inference_mode()
def position_matrices(model: Classifier) -> Tensor:
    """(H, M, M): W_Q W_K^T / sqrt(D) of each head of the first layer, with the LayerNorm before it: its gain, and the
    mean that it takes away. Its division by the standard deviation depends on the values too and is left out.
    """
    block, d_model = cast(Block, model.blocks[0]), model.shape["d_model"]
    centre = torch.eye(d_model) - 1 / d_model
    scale = block.norm.weight[:, None] * centre  # M M: (P - mean) * gain = P @ scale.T
    query, key = (
        (linear.weight @ scale).unflatten(0, (block.attention.n_heads, -1))  # H D M
        for linear in (block.attention.query, block.attention.key)
    )
    return query.transpose(-2, -1) @ key / query.shape[-2] ** 0.5


@torch.inference_mode()
def position_logits(model: Classifier, positions: Tensor) -> Tensor:
    """(H, T, T): the term P_t W P_s^T of each head of the first layer at these positions; `model` adds rows."""
    encoding = model.positions
    if not isinstance(encoding, Absolute):
        raise UserError(f"encoding {encoding.name} adds no rows to the embeddings: it has no position term.")
    rows = encoding.rows(positions)
    return rows @ position_matrices(model) @ rows.T


def position_facts(model: Classifier) -> dict[str, float]:
    """How much of the position term depends on the distance only, at three lengths; {} without sinusoidal rows."""
    if not isinstance(model.positions, Absolute) or isinstance(model.positions, Learned):
        return {}
    facts = {"share of W in the invariant subspace": float(invariant_share(position_matrices(model)).mean())}
    for length in (16, 64, 256):
        positions = model.positions.positions_of(torch.empty(1, length, 0))
        heads = [share_of_distance(logits) for logits in position_logits(model, positions)]
        facts[f"logits explained by distance, length {length}"] = float(np.mean(heads))
    return facts


def position_shift(encoding: Encoding, length: int) -> dict[str, float]:
    """How the relations between positions (`encoding.relation`) at this length differ from those at the longest trained
    one: the shift of the position distribution.

    unseen    share of the query-key pairs whose relation did not occur in training
    shift     total variation: half of the summed differences between the shares of all relations, 0 if all occur
              equally often, 1 if none is the same
    """
    before, now = (relation_shares(encoding, n) for n in (encoding.trained, length))
    return {
        "unseen": sum(share for relation, share in now.items() if relation not in before),
        "shift": sum(abs(now.get(relation, 0) - before.get(relation, 0)) for relation in before | now) / 2,
    }


def relation_shares(encoding: Encoding, length: int) -> dict[int, float]:
    """{relation: share of the query-key pairs of a sequence of this length, without those that the mask hides}"""
    relation = encoding.relation(length)
    visible = relation[causal_mask(length, length)] if encoding.causal else relation
    relations, counts = visible.unique(return_counts=True)
    return dict(zip(relations.tolist(), (counts / counts.sum()).tolist(), strict=True))
