"""What happens when heads are removed: one at a time, in pairs, one after the other, and what gradients say.

Answers are judged free-running. Removing heads never repeats the work before them: a traced run is resumed right after
the first removed head. A removed head gives zeros, or, with `patches`, its mean output.
"""

from itertools import chain, combinations

import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm

from problem1.dataset import decoder_input, encode_pairs
from problem1.intervals import mean_interval
from problem1.parallel import parallel_map
from problem1.specialization import trace_pairs
from problem1.train import answers_right, digit_loss

TOLERANCE = 0.01  # the assignment's: a head is prunable if accuracy drops by at most this much


def mean_heads(model, pairs):
    """Each head's mean output over these pairs, position by position: patches for mean ablation."""
    trace, _ = trace_pairs(model, pairs)
    return [heads.mean(0, keepdim=True) for heads in trace.heads]


def run_without(model, trace, removed, added, patches=None):
    """Logits of a run traced without the heads `removed` when the head `added` goes as well; heads are numbers."""
    return model.resume(trace, added // model.shape["heads"], model.gates(*removed, added), patches)


def right_without(model, trace, target, removed, added, patches=None):
    return answers_right(run_without(model, trace, removed, added, patches), target)


@torch.inference_mode()
def trace_without(model, pairs, removed, patches=None):
    source, target = encode_pairs(pairs, model.shape["digits"])
    return model.trace(source, decoder_input(target), model.gates(*removed), patches), target


# --- one head at a time ----------------------------------------------------------------------------------------------


def ablate_heads(model, pairs, reference):
    """Accuracy without each head, zero and mean ablation, with the paired 95 % interval of the drop.

    `reference` are the pairs over which mean outputs are taken."""
    trace, target = trace_pairs(model, pairs)
    base = answers_right(trace.logits, target)
    rows = []
    for method, patches in {"zero": None, "mean": mean_heads(model, reference)}.items():
        heads = range(len(model.head_names))
        right = parallel_map(lambda head, p=patches: right_without(model, trace, target, (), head, p), heads)
        lost = base.double().numpy() - torch.stack(right).double().numpy()  # heads items
        interval = mean_interval(lost)
        for head, name in enumerate(model.head_names):
            rows.append(
                {
                    "head": name,
                    "method": method,
                    "accuracy": right[head].double().mean().item(),
                    "drop": interval["mean"][head],
                    "low": interval["low"][head],
                    "high": interval["high"][head],
                }
            )
    return pd.DataFrame(rows)


def ranked(ablation):
    """One row per head, both methods side by side, the most important first (by zero ablation, then by mean)."""
    table = ablation.pivot(index="head", columns="method", values=["accuracy", "drop", "low", "high"])
    table.columns = [f"{method} {value}" for value, method in table.columns]
    table = table.sort_values(["zero drop", "mean drop", "head"], ascending=[False, False, True]).reset_index()
    table.insert(0, "rank", range(1, len(table) + 1))
    return table


def prunable_alone(ablation, method="zero"):
    """Names of the heads that can each be removed at a drop of at most `TOLERANCE`."""
    rows = ablation[ablation["method"] == method]
    return rows.loc[rows["drop"] <= TOLERANCE + 1e-12, "head"].tolist()


def accuracy_without(model, pairs, names, patches=None):
    """Accuracy with all these heads removed at once, with its 95 % interval."""
    removed = [model.head_names.index(name) for name in names]
    trace, target = trace_without(model, pairs, removed, patches)
    return {key: float(value) for key, value in mean_interval(answers_right(trace.logits, target)).items()}


def renumber_heads(model, site, order):
    """Give the heads of a site other numbers, in place: head i becomes what head order[i] was."""
    attention = model.blocks[site].attention
    with torch.no_grad():
        for linear in (attention.query, attention.key, attention.value):
            for part in (linear.weight, linear.bias):
                part.copy_(part.unflatten(0, (attention.heads, -1))[order].flatten(0, 1))
        weight = attention.output.weight  # its columns belong to the heads
        weight.copy_(weight.unflatten(1, (attention.heads, -1))[:, order].flatten(1))
    return model


# --- several heads ---------------------------------------------------------------------------------------------------


def greedy_pruning(model, choose_on, read_on, progress="greedy pruning"):
    """Remove, again and again, the head whose removal costs least on `choose_on`; accuracy is read on `read_on`.

    Least is the highest accuracy and, where several heads leave the same, the lowest loss."""

    def score(head):
        logits = run_without(model, trace, removed, head)
        return answers_right(logits, target).double().mean().item(), -digit_loss(logits, target).item()

    removed, rows = [], []
    for count in tqdm(range(len(model.head_names) + 1), desc=progress, disable=progress is None, leave=False):
        names = [model.head_names[head] for head in removed]
        trace, target = trace_without(model, choose_on, removed)
        chosen_on = answers_right(trace.logits, target).double().mean().item()
        rows.append({"removed": count, "head": names[-1] if names else "none", "accuracy where chosen": chosen_on})
        rows[-1] |= accuracy_without(model, read_on, names)
        left = [head for head in range(len(model.head_names)) if head not in removed]
        if left:
            removed.append(left[max(enumerate(parallel_map(score, left)), key=lambda pair: pair[1])[0]])
    return pd.DataFrame(rows).rename(columns={"mean": "accuracy"})


def random_pruning(model, pairs, orders=20, seed=0, progress="random orders"):
    """Accuracy while heads go in random order: one row per order and number of removed heads."""
    draw = np.random.default_rng(seed)
    orders = [draw.permutation(len(model.head_names)) for _ in range(orders)]
    source, target = encode_pairs(pairs, model.shape["digits"])
    written = decoder_input(target)

    def accuracy_of(task):
        order, count = task
        logits = model(source, written, model.gates(*orders[order][:count]))
        return {"order": order, "removed": count, "accuracy": answers_right(logits, target).double().mean().item()}

    tasks = [(order, count) for order in range(len(orders)) for count in range(len(model.head_names) + 1)]
    return pd.DataFrame(parallel_map(accuracy_of, tasks, progress, len(tasks)))


def ablate_pairs(model, pairs, progress="pairs of heads"):
    """Drop without each pair of heads beside the drops without each alone. 'extra' is what only the pair costs."""
    trace, target = trace_pairs(model, pairs)
    base = answers_right(trace.logits, target).double().mean().item()
    heads = range(len(model.head_names))
    alone = parallel_map(lambda head: right_without(model, trace, target, (), head).double().mean().item(), heads)

    def second_heads(first):
        without, _ = trace_without(model, pairs, [first])
        later = range(first + 1, len(model.head_names))
        return [right_without(model, without, target, (first,), head).double().mean().item() for head in later]

    kept = chain.from_iterable(parallel_map(second_heads, heads, progress, len(heads)))
    rows = [
        {
            "first": model.head_names[a],
            "second": model.head_names[b],
            "first alone": base - alone[a],
            "second alone": base - alone[b],
            "together": base - both,
        }
        for (a, b), both in zip(combinations(heads, 2), kept, strict=True)
    ]
    table = pd.DataFrame(rows)
    table["extra"] = table["together"] - table["first alone"] - table["second alone"]
    return table.sort_values("extra", ascending=False, ignore_index=True)


# --- gradients -------------------------------------------------------------------------------------------------------


def gate_gradients(model, pairs):
    """Mean |d loss / d gate| and mean |d margin / d gate| of every head, gates open, with 95 % intervals.

    The margin is the logit of the right digit minus the best other one, summed over the answer. The loss of a model
    that makes no mistakes is flat, its margin is not."""
    source, target = encode_pairs(pairs, model.shape["digits"])
    written, rows = decoder_input(target), []
    for quantity in ("loss", "margin"):
        gradients = []
        for s, w, t in zip(source.split(500), written.split(500), target.split(500), strict=True):
            gates = model.gates().expand(len(s), -1, -1).clone().requires_grad_()
            logits = model(s, w, gates)
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


def rank_agreement(scores):
    """Spearman's rank correlation between the columns of a table (one row per head)."""
    return scores.corr(method="spearman")
