"""An absolute encoding whose positions span the same range at every length."""

from typing import Any

import torch
from torch import Tensor

from problem2.encodings.absolute import Absolute
from problem2.encodings.base import check_pairs


class Stretched(Absolute, name="stretched", label="stretched sinusoidal"):
    """Sinusoidal at the positions t * span / length, while training and afterwards: no position lies beyond those of
    training, but the distance between neighbours shrinks as sequences grow. One of the reports did so by accident.
    """

    policies = ("stretch",)

    def __init__(self, d_model: int, n_heads: int, span: int = 512, **rest: Any) -> None:
        super().__init__(d_model, n_heads, "stretch", **rest)
        check_pairs(d_model)
        self.span = span

    def token_positions(self, length: int) -> Tensor:
        return torch.arange(length) * (self.span / length)
