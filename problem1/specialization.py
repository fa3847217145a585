"""What each head attends to: attention by column, entropy, and how much the map of a head changes from item to item."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1.dataset import carry_facts, encode_pairs, shift_right, split_pairs
from problem1.model import Activations, Adder
from problem1.shared.statistics import mean_interval


@torch.inference_mode()
def record_pairs(model: Adder, pairs: np.ndarray) -> tuple[Activations, Tensor]:
    """A recorded run over an array of pairs, the decoder reading the right digits, and the targets."""
    source, target = encode_pairs(pairs, model.shape["digits"])
    return model.record(source, shift_right(target)), target


def key_classes(kind: str, digits: int) -> dict[str, np.ndarray]:
    """{class: (Q, K) booleans}: which keys count as what, for each query of a head of this kind.

    Columns are those of the answer: 0 is the most significant one, and a query of the decoder belongs to the column
    that it predicts. In self-attention key 0 is BOS and key j the digit written in column j - 1.
    """
    source = np.array([*range(1, digits + 1), -9, *range(1, digits + 1)])  # column of each source token; -9 is the +
    answer = np.arange(digits + 1)
    if kind == "self":
        seen = np.tril(np.ones((digits + 1, digits + 1), bool))
        bos = (answer == 0)[None] & seen
        return {"BOS": bos, "earlier outputs": seen & ~bos}
    query = source if kind == "encoder" else answer
    return {
        "same column": (source[None] == query[:, None]) & (query[:, None] >= 0),
        "next lower column": source[None] == query[:, None] + 1,
        "+": np.broadcast_to(source == -9, (len(query), len(source))),
    }


def counted_queries(kind: str, digits: int) -> np.ndarray:
    """Queries with a choice: not the + of the source, not the first step of the decoder's self-attention (one key)."""
    counted = np.ones(2 * digits + 1 if kind == "encoder" else digits + 1, bool)
    if kind == "encoder":
        counted[digits] = False
    if kind == "self":
        counted[0] = False
    return counted


def head_specialization(model: Adder, pairs: np.ndarray) -> pd.DataFrame:
    """Tidy table: head x measure with mean and 95 % interval over the pairs.

    Shares of attention are averaged over the queries for which the class exists (the ones have no lower column).
    'stability' is 1 minus the total-variation distance between an item's map and the mean map: 1 = always the same.
    """
    record, _ = record_pairs(model, pairs)
    rows = []
    for site, (block, attention) in enumerate(zip(model.blocks, record.attention, strict=True)):
        counted = counted_queries(block.kind, model.shape["digits"])
        weights = attention.double().numpy()  # items H Q K
        chosen = weights[:, :, counted]
        measures = {}
        for name, keys in key_classes(block.kind, model.shape["digits"]).items():
            exists = keys.any(1) & counted
            measures[name] = (weights * keys).sum(-1)[:, :, exists].mean(-1)
        surprise = -np.log2(chosen, where=chosen > 0, out=np.zeros_like(chosen))
        measures["entropy (bits)"] = (chosen * surprise).sum(-1).mean(-1)
        measures["stability"] = 1 - 0.5 * np.abs(chosen - chosen.mean(0)).sum(-1).mean(-1)
        for measure, values in measures.items():  # items H
            interval = mean_interval(values.T)
            for i, head in enumerate(model.head_names[site * values.shape[1] :][: values.shape[1]]):
                numbers = {key: float(value[i]) for key, value in interval.items()}
                rows.append({"head": head, "kind": block.kind, "measure": measure, **numbers})
    return pd.DataFrame(rows)


def as_table(special: pd.DataFrame) -> pd.DataFrame:
    """The means, a row for each head; what a head cannot attend to is left blank."""
    wide = special.pivot(index="head", columns="measure", values="mean").loc[special["head"].unique()]
    columns = ["same column", "next lower column", "+", "BOS", "earlier outputs", "entropy (bits)", "stability"]
    return wide[columns].map("{:.3f}".format, na_action="ignore").fillna("")


def uniform_attention(kind: str, digits: int = 3) -> dict[str, float]:
    """What a head of this kind would show if it attended to all keys alike: the baseline for `head_specialization`."""
    counted = counted_queries(kind, digits)
    allowed = np.tril(np.ones((digits + 1, digits + 1))) if kind == "self" else np.ones((len(counted), 2 * digits + 1))
    weights = allowed / allowed.sum(1, keepdims=True)
    shares = {}
    for name, keys in key_classes(kind, digits).items():
        exists = keys.any(1) & counted
        shares[name] = float((weights * keys).sum(1)[exists].mean())
    shares["entropy (bits)"] = float(np.log2(allowed.sum(1))[counted].mean())
    return shares


def example_pairs(digits: int = 3) -> np.ndarray:
    """A dozen test pairs: three each with 0 to 3 carries, one of them with a carry through a 9 where there is any."""
    pairs = split_pairs("test", digits)
    facts = carry_facts(pairs, digits)
    chosen: list[int] = []
    for carries in range(4):
        plain = facts.index[(facts["carries"] == carries) & ~facts["through a 9"]]
        through = facts.index[(facts["carries"] == carries) & facts["through a 9"]]
        chosen += [*plain[: 3 - min(1, len(through))], *through[:1]]
    return pairs[chosen]
