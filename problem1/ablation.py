"""What happens when heads are removed: one at a time, in pairs, one after the other, and what gradients say.

Answers are scored free-running. Single heads, pairs and greedy steps do not repeat the work before them: a recorded run
is resumed right after the first removed head. A removed head gives zeros, or, with `patches`, its mean output.
"""

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1.dataset import encode_pairs, shift_right
from problem1.model import Activations, Adder, Head
from problem1.shared.parallel import parallel_map
from problem1.shared.progress import progress_bar
from problem1.shared.statistics import mean_interval
from problem1.specialization import record_pairs
from problem1.train import answers_right, digit_loss

NAMES = ("rank", "head")  # of a ranking, what is no number
TOLERANCE = 0.01  # the assignment's: a head is prunable if accuracy drops by at most this much


def mean_heads(model: Adder, pairs: np.ndarray) -> list[Tensor]:
    """Each head's mean output over these pairs, position by position: patches for mean ablation."""
    record, _ = record_pairs(model, pairs)
    return [heads.mean(0, keepdim=True) for heads in record.head_outputs]


def run_without(
    model: Adder, record: Activations, removed: Sequence[Head], added: Head, patches: Sequence[Tensor] | None = None
) -> Tensor:
    """Logits of a run recorded without the heads `removed` when the head `added` goes as well."""
    return model.resume(record, model.site_of(added)[0], model.gates(*removed, added), patches)


def right_without(
    model: Adder,
    record: Activations,
    target: Tensor,
    removed: Sequence[Head],
    added: Head,
    patches: Sequence[Tensor] | None = None,
) -> Tensor:
    return answers_right(run_without(model, record, removed, added, patches), target)


@torch.inference_mode()
def record_without(
    model: Adder, pairs: np.ndarray, removed: Sequence[Head], patches: Sequence[Tensor] | None = None
) -> tuple[Activations, Tensor]:
    source, target = encode_pairs(pairs, model.shape["digits"])
    return model.record(source, shift_right(target), model.gates(*removed), patches), target


# --- one head at a time ----------------------------------------------------------------------------------------------


def ablate_heads(model: Adder, pairs: np.ndarray, reference: np.ndarray) -> pd.DataFrame:
    """Accuracy without each head, zero and mean ablation, with the paired 95 % interval of the drop.

    `reference` are the pairs over which mean outputs are taken."""
    record, target = record_pairs(model, pairs)
    base = answers_right(record.logits, target)
    rows = []
    for method, patches in {"zero": None, "mean": mean_heads(model, reference)}.items():
        heads = range(len(model.head_names))

        def without(head: int, patches: list[Tensor] | None = patches) -> Tensor:
            return right_without(model, record, target, (), head, patches)

        right = parallel_map(without, heads)
        lost = base.double().numpy() - torch.stack(right).double().numpy()  # heads items
        interval = mean_interval(lost)
        for head, name in enumerate(model.head_names):
            rows.append(
                {
                    "head": name,
                    "method": method,
                    "items": len(pairs),
                    "accuracy": right[head].double().mean().item(),
                    "drop": interval["mean"][head],
                    "low": interval["low"][head],
                    "high": interval["high"][head],
                }
            )
    return pd.DataFrame(rows)


def ranked(ablation: pd.DataFrame) -> pd.DataFrame:
    """One row per head, both methods side by side, the most important first (by zero ablation, then by mean)."""
    table = ablation.pivot(index="head", columns="method", values=["accuracy", "drop", "low", "high"])
    table.columns = [f"{method} {value}" for value, method in table.columns]
    table = table.sort_values(["zero drop", "mean drop", "head"], ascending=[False, False, True]).reset_index()
    table.insert(0, "rank", range(1, len(table) + 1))
    return table


def shortened(ranking: pd.DataFrame) -> pd.DataFrame:
    """The ranking without the heads that can go by either method: one row for all of them, with the highest of each
    number, and the lowest accuracy."""
    goes = ranking[["zero drop", "mean drop"]].max(axis=1) <= TOLERANCE + 1e-12
    if not goes.any():
        return ranking
    others = ranking[goes].agg({name: "min" if "accuracy" in name else "max" for name in ranking if name not in NAMES})
    others["rank"], others["head"] = "", f"{goes.sum()} others, at most"
    return pd.concat([ranking[~goes], others.to_frame().T], ignore_index=True)


def singly_prunable(ablation: pd.DataFrame, method: str = "zero") -> list[str]:
    """Names of the heads that can each be removed at a drop of at most `TOLERANCE`."""
    rows = ablation[ablation["method"] == method]
    return rows.loc[rows["drop"] <= TOLERANCE + 1e-12, "head"].tolist()


def accuracy_without(
    model: Adder, pairs: np.ndarray, removed: Sequence[Head], patches: Sequence[Tensor] | None = None
) -> dict[str, float]:
    """Accuracy with all these heads removed at once, with its 95 % interval."""
    record, target = record_without(model, pairs, removed, patches)
    return {key: float(value) for key, value in mean_interval(answers_right(record.logits, target)).items()}


def prunable_summary(
    model: Adder, ablation: pd.DataFrame, test: np.ndarray, validation: np.ndarray
) -> dict[str, dict[str, Any]]:
    """For zero and mean ablation: which heads are singly prunable, and what is left when all of them go at once."""
    summary = {}
    for method, patches in {"zero": None, "mean": mean_heads(model, validation)}.items():
        names = singly_prunable(ablation, method)
        summary[method] = {
            "heads": names,
            "count": len(names),
            "share": len(names) / len(model.head_names),
            "accuracy without all of them": accuracy_without(model, test, names, patches),
        }
    return summary


def renumber_heads(model: Adder, site: int, order: Sequence[int]) -> Adder:
    """Give the heads of a site other numbers, in place: head i becomes what head order[i] was."""
    attention = model.blocks[site].attention
    with torch.no_grad():
        for linear in (attention.query, attention.key, attention.value):
            for part in (linear.weight, linear.bias):
                part.copy_(part.unflatten(0, (attention.n_heads, -1))[order].flatten(0, 1))
        weight = attention.output.weight  # its columns belong to the heads
        weight.copy_(weight.unflatten(1, (attention.n_heads, -1))[:, order].flatten(1))
    return model


# --- several heads ---------------------------------------------------------------------------------------------------


def greedy_pruning(
    model: Adder, choose_on: np.ndarray, read_on: np.ndarray, progress: str | None = "greedy pruning"
) -> pd.DataFrame:
    """Remove, again and again, the head whose removal costs least on `choose_on`; accuracy is read on `read_on`.

    Least is the highest accuracy and, where several heads leave the same, the lowest loss."""

    def score(head: int) -> tuple[float, float]:
        logits = run_without(model, record, removed, head)
        return answers_right(logits, target).double().mean().item(), -digit_loss(logits, target).item()

    removed: list[int] = []
    rows: list[dict[str, Any]] = []
    counts = range(len(model.head_names) + 1)
    for count in progress_bar(counts, desc=progress, show=progress is not None, leave=False):
        names = [model.head_names[head] for head in removed]
        record, target = record_without(model, choose_on, removed)
        chosen_on = answers_right(record.logits, target).double().mean().item()
        rows.append({"removed": count, "head": names[-1] if names else "none", "accuracy where chosen": chosen_on})
        rows[-1] |= accuracy_without(model, read_on, names)
        left = [head for head in range(len(model.head_names)) if head not in removed]
        if left:
            removed.append(left[max(enumerate(parallel_map(score, left)), key=lambda pair: pair[1])[0]])
    return pd.DataFrame(rows).rename(columns={"mean": "accuracy"})


def random_pruning(
    model: Adder, pairs: np.ndarray, orders: int = 20, seed: int = 0, progress: str | None = "random orders"
) -> pd.DataFrame:
    """Accuracy while heads go in random order: one row per order and number of removed heads."""
    draw = np.random.default_rng(seed)
    drawn = [draw.permutation(len(model.head_names)) for _ in range(orders)]
    source, target = encode_pairs(pairs, model.shape["digits"])
    decoder_input = shift_right(target)

    def accuracy_of(task: tuple[int, int]) -> dict[str, float]:
        order, count = task
        logits = model(source, decoder_input, model.gates(*drawn[order][:count]))
        return {"order": order, "removed": count, "accuracy": answers_right(logits, target).double().mean().item()}

    tasks = [(order, count) for order in range(orders) for count in range(len(model.head_names) + 1)]
    return pd.DataFrame(parallel_map(accuracy_of, tasks, progress, len(tasks)))


def ablate_pairs(model: Adder, pairs: np.ndarray, progress: str | None = "pairs of heads") -> pd.DataFrame:
    """Drop without each two heads, beside the drops without only one of them. 'extra' is what only the pair costs."""
    record, target = record_pairs(model, pairs)
    base = answers_right(record.logits, target).double().mean().item()
    heads = range(len(model.head_names))
    single = parallel_map(lambda head: right_without(model, record, target, (), head).double().mean().item(), heads)

    def second_heads(first: int) -> list[float]:
        without, _ = record_without(model, pairs, [first])
        later = range(first + 1, len(model.head_names))
        return [right_without(model, without, target, (first,), head).double().mean().item() for head in later]

    kept = chain.from_iterable(parallel_map(second_heads, heads, progress, len(heads)))
    rows = [
        {
            "first": model.head_names[a],
            "second": model.head_names[b],
            "first only": base - single[a],
            "second only": base - single[b],
            "both": base - joint,
        }
        for (a, b), joint in zip(combinations(heads, 2), kept, strict=True)
    ]
    table = pd.DataFrame(rows)
    table["extra"] = table["both"] - table["first only"] - table["second only"]
    return table.sort_values("extra", ascending=False, ignore_index=True)


# --- gradients -------------------------------------------------------------------------------------------------------


def gate_gradients(model: Adder, pairs: np.ndarray) -> pd.DataFrame:
    """Mean |d loss / d gate| and mean |d margin / d gate| of every head, gates open, with 95 % intervals.

    The margin is the logit of the right digit minus the best other one, summed over the answer. The loss of a model
    that makes no mistakes is flat, its margin is not."""
    source, target = encode_pairs(pairs, model.shape["digits"])
    decoder_input, rows = shift_right(target), []
    for quantity in ("loss", "margin"):
        gradients = []
        for s, d, t in zip(source.split(500), decoder_input.split(500), target.split(500), strict=True):
            gates = model.gates().expand(len(s), -1, -1).clone().requires_grad_()
            logits = model(s, d, gates)
            if quantity == "loss":
                value = digit_loss(logits, t) * t.numel()
            else:
                right = logits.gather(-1, t[..., None])
                others = logits.scatter(-1, t[..., None], -torch.inf).amax(-1, keepdim=True)
                value = (right - others).sum()
            gradients.append(torch.autograd.grad(value, gates)[0].flatten(1).abs())
        interval = mean_interval(torch.cat(gradients).T)
        for head, name in enumerate(model.head_names):
            numbers = {key: float(value[head]) for key, value in interval.items()}
            rows.append({"head": name, "quantity": quantity, **numbers})
    return pd.DataFrame(rows)


def importance_scores(model: Adder, ranking: pd.DataFrame, pairs: np.ndarray) -> pd.DataFrame:
    """Four measures of every head's importance: its two drops, and two gradients."""
    gradients = gate_gradients(model, pairs).pivot(index="head", columns="quantity", values="mean")
    return ranking.set_index("head")[["zero drop", "mean drop"]].join(gradients.add_prefix("gradient of "))


def rank_agreement(scores: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rank correlation between the columns of a table (one row per head)."""
    return scores.corr(method="spearman")
