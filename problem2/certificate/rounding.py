"""A bound on rounding: every logit of a certificate's tables as a ball, a midpoint and a radius in float64.

One statement is kept from operation to operation: take any real numbers inside the balls of the inputs; then the exact
result lies in the ball of the result, and so does every float64 evaluation of the same formula, whatever the order of
its sums, with or without fused multiply-add. The midpoint is one such evaluation, at the midpoints of the inputs.
Hence each radius is the reach of the exact result plus *twice* the rounding error: that of the midpoint, that of the
other evaluation.

Assumed: float64 rounds +, -, *, / and roots as IEEE 754 says, so that a sum of n products errs by at most
gamma(n) = n U / (1 - n U) of the sum of their sizes (Higham, Accuracy and Stability of Numerical Algorithms, 2002); and
exp, of which IEEE 754 says nothing, errs by at most 4 units in the last place, where libraries promise about one.
Weights, and the epsilon of the norms, are what is stored: exact in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from problem1.shared.attention import Positions
from problem1.shared.errors import UserError
from problem1.shared.training import one_thread
from problem2.encodings import ClippedBias, NoEncoding, Shaw
from problem2.model import Block, Classifier

U = 2.0**-53  # half the distance from 1 to the next float64
# A radius is made of fewer than a million roundings, and of terms that are not negative: nothing cancels, so it comes
# out too small by less than a factor of 1 + 2^-30. Where something underflows, or is flushed to zero, less than 2^-1022
# is lost at a time.
OUTWARD, TINY = 1 + 2.0**-30, 2.0**-900
EXP = 8 * U  # the assumed error of exp: 4 units in the last place, each of at most 2 U

Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # first (V, V), middle (V, V, V), last (V, V)
Layers = tuple[nn.LayerNorm, nn.Linear, nn.ReLU, nn.Linear]  # what the two nn.Sequential hold
Head = tuple[nn.Linear, nn.ReLU, nn.Linear]


def gamma(n: int) -> float:
    return n * U / (1 - n * U)


def outward(rad: Tensor) -> Tensor:
    """A radius that is no smaller than the real number it stands for; changes its argument."""
    return rad.mul_(OUTWARD).add_(TINY)


@dataclass
class Ball:
    """All real numbers in [mid - rad, mid + rad], element by element."""

    mid: Tensor
    rad: Tensor

    @property
    def size(self) -> Tensor:
        """No number in the ball is larger, up to what `outward` makes good."""
        return self.mid.abs() + self.rad

    def __getitem__(self, index: Any) -> "Ball":
        return Ball(self.mid[index], self.rad[index])

    def __add__(self, other: "Ball") -> "Ball":
        mid, rad = self.mid + other.mid, self.rad + other.rad
        return Ball(mid, outward(rad + 2 * U * (mid.abs() + rad)))


def exact(x: Tensor) -> Ball:
    x = x.double()
    return Ball(x, torch.zeros_like(x))


# --- what the network is made of -------------------------------------------------------------------------------------


def dot(a: Ball, b: Ball, dim: int) -> Ball:
    """The sum of a * b over one dimension."""
    products = a.mid * b.mid
    rounding = 2 * gamma(products.shape[dim]) * a.size
    return Ball(products.sum(dim), outward((a.mid.abs() * b.rad + (a.rad + rounding) * b.size).sum(dim)))


def linear(x: Ball, layer: nn.Linear) -> Ball:
    """The same with exact weights, and a bias as one more term."""
    weight, bias = layer.weight.double(), layer.bias.double()
    rounding = 2 * gamma(layer.in_features + 1)
    reach = torch.add(x.rad, x.size, alpha=rounding)
    return Ball(F.linear(x.mid, weight, bias), outward(F.linear(reach, weight.abs(), rounding * bias.abs())))


def over_root(x: Ball, number: int) -> Ball:
    """x / sqrt(number): the root errs by at most one unit in the last place, the division rounds once."""
    root = number**0.5
    return Ball(x.mid / root, outward((x.rad + 8 * U * x.size) / root))


def relu(x: Ball) -> Ball:
    """A ball of positive numbers stays, one of negative numbers shrinks to zero, another keeps its positive part."""
    return Ball(x.mid.relu(), outward(torch.minimum(x.rad, (x.mid + x.rad).relu_())))


def layer_norm(x: Ball, layer: nn.LayerNorm) -> Ball:
    """(x - mean) / sqrt(variance + epsilon) * gain + bias.

    Moving each x by at most its radius r moves the variance by at most mean((2 |x - mean| + r) r). A float64 mean errs
    by less than 2 (n + 8) U mean|x| and a float64 variance by less than 8 (n + 8) U mean(x^2), in two passes, as
    mean(x^2) - mean(x)^2, or updated value by value, as torch does: there the k-th mean errs by (k + 6 + 3 log k) U
    mean|x| at most, and by Cauchy and Schwarz the sum of squares by about 3 n U sum(x^2). No 1 / sqrt(variance +
    epsilon) is above `inverse`, and so none is steeper than inverse^3 / 2. The other constants count roundings,
    generously.
    """
    gain, bias, n = layer.weight.double(), layer.bias.double(), x.mid.shape[-1]
    size = x.size
    mean_size = size.mean(-1, keepdim=True)
    centred = x.mid - x.mid.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    distance = centred.abs()

    moved = x.rad + x.rad.mean(-1, keepdim=True) + 16 * U * size + (4 * (n + 8) + 16) * U * mean_size
    spread = ((2 * distance + x.rad) * x.rad).mean(-1, keepdim=True)
    spread = outward(spread + 16 * (n + 8) * U * size.square().mean(-1, keepdim=True) + 4 * U * layer.eps)
    lowest = (variance + layer.eps - spread) / OUTWARD
    if not (lowest > 0).all():
        raise UserError("no bound on rounding: float64 cannot tell a variance in a norm from zero.")
    inverse = OUTWARD * lowest.rsqrt()

    normal = centred / (variance + layer.eps).sqrt()
    rad = inverse * (moved + distance * (inverse.square() * spread / 2 + 8 * U))
    rad = gain.abs() * (rad + 8 * U * (normal.abs() + rad)) + 8 * U * bias.abs()
    return Ball(normal * gain + bias, outward(rad))


def softmax(x: Ball, dim: int) -> Ball:
    """exp(x) / sum of exp(x), evaluated after a shift by the largest x.

    If no x moves by more than r, a weight w moves by at most w (1 - w) (e^2r - 1): it is 1 / (1 + z), and z moves by at
    most a factor of e^2r. Evaluated, each shifted x errs by U times its size, which is at most the range of the x; exp,
    sum and division err by 2 EXP + 4 U at most. Where this is too much, a weight is still between 0 and 1.
    """
    top = x.mid.amax(dim, keepdim=True)
    weights = (x.mid - top).exp()
    weights = weights / weights.sum(dim, keepdim=True)
    r = x.rad.amax(dim, keepdim=True) * OUTWARD
    rounding = 2 * U * (top - x.mid.amin(dim, keepdim=True) + 2 * r) + 2 * EXP + 8 * U
    rad = weights * ((1 - weights + 2 * rounding) * torch.expm1(2 * r) + 2 * rounding)
    return Ball(weights, outward(torch.where((r < 1) & (rounding < 2.0**-32), rad, 1.0)))


# --- the network -----------------------------------------------------------------------------------------------------


def position_bias(q: Ball, positions: Positions) -> Ball:
    """What the encoding adds to the scores of a query (V, H, D) at distance -1, 0 and 1: broadcasts to (V, 3, H)."""
    if type(positions) is NoEncoding:
        return exact(torch.zeros(1, 3, q.mid.shape[-2]))
    if type(positions) is ClippedBias:
        return exact(positions.bias_table[:, positions.clip - 1 : positions.clip + 2].T)[None]
    if type(positions) is Shaw:
        keys = exact(positions.keys[:, positions.clip - 1 : positions.clip + 2].transpose(0, 1))  # 3 H D
        return over_root(dot(q[:, None], keys[None], -1), q.mid.shape[-1])
    name = type(positions).__name__
    raise UserError(f"no bound on rounding: the encoding is {name}; it must be Shaw, ClippedBias or NoEncoding.")


class BoundedLogits:
    """The logit of a token as a ball. What depends on one or two values is computed once: stream, values, scores."""

    def __init__(self, model: Classifier) -> None:
        if (len(model.blocks), model.positions.window, model.pooling) != (1, 1, "min"):
            raise UserError("no bound on rounding: the model must have one layer, window 1 and pooling min.")
        self.model, self.block = model, cast(Block, model.blocks[0])
        attention = self.block.attention
        if attention.log_factor is not None or attention.positions.adds_values:
            raise UserError("no bound on rounding: scalable softmax and values of distances are not in its formulas.")
        self.stream = exact(model.embedding.weight)  # V M
        normal = layer_norm(self.stream, self.block.norm)
        q, k, self.values = (self.split(linear(normal, x)) for x in (attention.query, attention.key, attention.value))
        scores = over_root(dot(q[:, None], k[None], -1), q.mid.shape[-1])  # own, other, H
        self.scores = scores[:, :, None] + position_bias(q, attention.positions)[:, None]  # own, other, distance + 1, H

    def split(self, x: Ball) -> Ball:
        heads = (self.block.attention.n_heads, -1)
        return Ball(x.mid.unflatten(-1, heads), x.rad.unflatten(-1, heads))  # V H D

    def __call__(self, tokens: Tensor, distances: Sequence[int]) -> Ball:
        """(B,) logits of the tokens at distance 0 in (B, K) neighbours, of which the K-th is at the K-th distance."""
        own = tokens[:, distances.index(0)]
        scores = self.scores[own[:, None], tokens, torch.tensor(distances) + 1]  # B K H
        heads = dot(softmax(scores, 1)[..., None], self.values[tokens], 1)  # B H D
        x = self.stream[own] + linear(Ball(heads.mid.flatten(1), heads.rad.flatten(1)), self.block.attention.output)
        norm, widen, _, narrow = cast(Layers, self.block.feed_forward)
        x = x + linear(relu(linear(layer_norm(x, norm), widen)), narrow)
        first, _, second = cast(Head, self.model.head)
        x = linear(relu(linear(layer_norm(x, self.model.norm), first)), second)[:, 0]
        return Ball(x.mid, outward(x.rad + 4 * U * x.mid.abs()))  # so that mid - rad and mid + rad may be rounded, too


@torch.inference_mode()
def bounded_tables(model: Classifier, batch_size: int = 1_000) -> tuple[Table, Table]:
    """Midpoints and radii of the logits in a certificate's three tables, for a model that `check_form` accepts."""
    if not torch.tensor(1e-40).double() > 0:  # a float32 denormal, which may be a weight
        raise UserError("no bound on rounding: this process flushes denormals to zero (torch.set_flush_denormal).")
    values, mid, rad = torch.arange(model.shape["vocabulary"]), [], []
    with one_thread():
        logits = BoundedLogits(model)
        for distances in ((0, 1), (-1, 0, 1), (-1, 0)):
            tokens, shape = torch.cartesian_prod(*[values] * len(distances)), [len(values)] * len(distances)
            balls = [logits(batch, distances) for batch in tokens.split(batch_size)]
            mid.append(torch.cat([ball.mid for ball in balls]).view(shape).numpy())
            rad.append(torch.cat([ball.rad for ball in balls]).view(shape).numpy())
    if not all(np.isfinite(table).all() for table in (*mid, *rad)):
        raise UserError("no bound on rounding: some logits or their radii are not finite numbers.")
    return (mid[0], mid[1], mid[2]), (rad[0], rad[1], rad[2])
