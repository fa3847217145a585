"""Two questions settled by the way: do the digits written before matter, and what says which digit is due?"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1.ablation import mean_heads
from problem1.dataset import BOS, column_names, encode_pairs
from problem1.model import Adder
from problem1.shared.parallel import parallel_results
from problem1.specialization import record_pairs

PREFIX_SEED = 4


def after_random_prefixes(
    model: Adder, batches: Iterable[np.ndarray], first: int = 10, progress: str | None = None
) -> pd.DataFrame:
    """A row for each digit: in how many of these sums it is wrong when the digits before it are drawn at random, the
    first of them below `first`: a sum begins with 0 or 1, and the model has never read anything else there."""
    digits = model.shape["digits"]
    draw = torch.Generator().manual_seed(PREFIX_SEED)

    def prefixed() -> Iterable[tuple[np.ndarray, Tensor]]:
        for pairs in batches:
            prefix = torch.randint(10, (len(pairs), digits + 1), generator=draw)
            prefix[:, 0], prefix[:, 1] = BOS, prefix[:, 1] % first
            yield pairs, prefix

    def count(batch: tuple[np.ndarray, Tensor]) -> tuple[int, Tensor]:
        source, target = encode_pairs(batch[0], digits)
        parts = zip(source.split(250), batch[1].split(250), strict=True)
        written = torch.cat([model(*part).argmax(-1) for part in parts])
        return len(target), (written != target).sum(0)

    sums, wrong = 0, torch.zeros(digits + 1, dtype=torch.int64)
    for size, changed in parallel_results(count, prefixed(), progress):
        sums, wrong = sums + size, wrong + changed
    return pd.DataFrame({"digit": column_names(digits), "sums": sums, "wrong": wrong.tolist()})


def which_digit_is_due(model: Adder, pairs: np.ndarray, reference: np.ndarray) -> pd.DataFrame:
    """What is written without each head of the decoder's first self-attention, given the right digits before: a row for
    each head and digit, the share of sums in which it is right and in which it is the right digit of another column
    instead. `mean drop` is what the head costs when its mean output, the same in every sum, stays."""
    record, target = record_pairs(model, pairs)
    means = mean_heads(model, reference)
    rows = []
    for head in [name for name in model.head_names if name.startswith("Decoder Self L0")]:
        site, _ = model.site_of(head)
        with torch.inference_mode():
            zero = model.resume(record, site, model.gates(head)).argmax(-1)
            mean = model.resume(record, site, model.gates(head), means).argmax(-1)
        drops = {
            "zero drop": float((zero != target).any(1).double().mean()),
            "mean drop": float((mean != target).any(1).double().mean()),
        }
        for column, digit in enumerate(column_names(model.shape["digits"])):
            shares = (zero[:, column, None] == target).double().mean(0)
            instead = int(torch.where(torch.arange(len(shares)) == column, -1.0, shares).argmax())
            right = float(shares[column])
            row = {"head": head, **drops, "digit": digit, "right": right}
            rows.append(
                row | {"instead": column_names(model.shape["digits"])[instead], "share": float(shares[instead])}
            )
    return pd.DataFrame(rows)
