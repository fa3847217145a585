"""Wrong answers, made on purpose: the mistakes of public hand-ins and their relatives.

Each says which words the check's sentence must hold, so that it is named and not only noticed.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

BOS, PLUS, PAD = 11, 10, 12


class Mistake(NamedTuple):
    name: str
    task: str
    words: str  # of the sentence that names it
    function: Callable[..., Any]


MISTAKES: list[Mistake] = []


def mistake(task: str, words: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        made = (lambda **arguments: function(**arguments, **settings)) if settings else function
        name = ", ".join(
            [function.__name__, *(f"{key}={value}" for key, value in settings.items() if not callable(value))]
        )
        number = sum(each.name.split(" #")[0] == name for each in MISTAKES)
        MISTAKES.append(Mistake(f"{name} #{number + 1}" if number else name, task, words, made))
        return function

    return keep


# --- tokens ----------------------------------------------------------------------------------------------------------


@mistake("tokens", "with + and not with BOS", begin=PLUS)
@mistake("tokens", "with PAD and not with BOS", begin=PAD)
@mistake("tokens", "with the digit 0 and not with BOS", begin=0)
@mistake("tokens", "0, which is a digit", fill=0)
@mistake("tokens", "zero", leading=True)
@mistake("tokens", "PAD stands in front", left=True)
@mistake("tokens", "wrong way round", turned="target")
@mistake("tokens", "wrong way round", turned="source")
@mistake("tokens", "reads its own last digit", shifted=False)
@mistake("tokens", "with the digit 1 and not with BOS", drop_bos=True)
@mistake("tokens", "has become PAD", zero_is_pad=True)
@mistake("tokens", "answers have leading zeros", pad_answer=True)
def tokens_otherwise(
    pairs, begin=BOS, fill=PAD, leading=False, left=False, turned="", shifted=True, drop_bos=False, zero_is_pad=False,
    pad_answer=False,
):  # fmt: skip
    source, reads, target = [], [], []
    for a, b in pairs:
        text = f"{a:03d}+{b:03d}" if leading else f"{a}+{b}"
        row = [PLUS if sign == "+" else int(sign) for sign in text]
        row = row[::-1] if turned == "source" else row
        if zero_is_pad:
            row = [PAD if token == 0 else token for token in row]
        filling = [fill] * (7 - len(row))
        source.append(filling + row if left else row + filling)
        goal = [int(digit) for digit in f"{a + b:04d}"]
        if pad_answer:
            goal = [int(digit) for digit in str(a + b)]
            goal = [PAD] * (4 - len(goal)) + goal
        goal = goal[::-1] if turned == "target" else goal
        target.append(goal)
        reads.append(goal if drop_bos else [begin, *(goal[:-1] if shifted else goal)])
    return source, reads, target


# --- attention -------------------------------------------------------------------------------------------------------


@mistake("attention", "square root", scale=lambda d: 1)
@mistake("attention", "by what are they divided", scale=lambda d: d)
@mistake("attention", "by what are they divided", scale=lambda d: 1 / d**0.5)
@mistake("attention", "wrong axis", axis=-2)
@mistake("attention", "wrong axis", axis=0)
@mistake("attention", "shifted by one", shift=1)
@mistake("attention", "shifted by one", shift=-1)
@mistake("attention", "mask is transposed", transposed=True)
@mistake("attention", "after the softmax", late=True)
@mistake("attention", "the wrong way round", inverted=True)
@mistake("attention", "the mask is not used", ignored=True)
@mistake("attention", "changes scores by too little", hidden=0.0)
@mistake("attention", "is there a softmax", raw=True)
@mistake("attention", "the weights are right but the outputs", twice=True)
@mistake("attention", "changed places", swapped=True)
def attention_otherwise(
    q, k, v, mask, scale=lambda d: d**0.5, axis=-1, shift=0, transposed=False, late=False, inverted=False,
    ignored=False, hidden=-1e9, raw=False, twice=False, swapped=False,
):  # fmt: skip
    scores = torch.einsum("bqd,bkd->bqk", q, k) / scale(q.shape[-1])
    if shift and not mask.all():
        mask = torch.ones_like(mask).tril(shift)
    if transposed and mask.shape[0] == mask.shape[1]:
        mask = mask.T
    if inverted and not mask.all():
        mask = ~mask
    if not ignored and not late:
        scores = torch.where(mask, scores, torch.full_like(scores, hidden))
    weights = scores if raw else torch.softmax(scores, axis)
    if late:
        weights = weights * mask
    outputs = weights @ v
    if twice:
        outputs = weights @ outputs if weights.shape[1] == weights.shape[2] else outputs * 2
    return (outputs, weights) if swapped else (weights, outputs)


# --- several heads ---------------------------------------------------------------------------------------------------


@mistake("multi_head", "square root", power=0)
@mistake("multi_head", "each head has a width of its own", whole=True)
@mistake("multi_head", "not by its root", power=1)
@mistake("multi_head", "split or joined without transposing", split="view")
@mistake("multi_head", "split or joined without transposing", join="view")
@mistake("multi_head", "after W_O", gate_after=True)
@mistake("multi_head", "the gate is not used", no_gate=True)
@mistake("multi_head", "the mask is not used", no_mask=True)
@mistake("multi_head", "changed places", exchanged=True)
@mistake("multi_head", "used transposed", transposed=True)
def multi_head_otherwise(
    x, memory, w_q, w_k, w_v, w_o, n_heads, gate, mask, power=0.5, whole=False, split="", join="", gate_after=False,
    no_gate=False, no_mask=False, exchanged=False, transposed=False,
):  # fmt: skip
    batch, queries, width = x.shape
    keys, size = memory.shape[1], width // n_heads
    w_q, w_k = (w_k, w_q) if exchanged else (w_q, w_k)
    if transposed:
        w_q, w_k, w_v, w_o = w_q.T, w_k.T, w_v.T, w_o.T

    def parted(y, length):
        if split == "view":
            return y.reshape(batch, n_heads, length, size)
        return y.reshape(batch, length, n_heads, size).permute(0, 2, 1, 3)

    q, k, v = parted(x @ w_q, queries), parted(memory @ w_k, keys), parted(memory @ w_v, keys)
    scores = q @ k.mT / (width if whole else size) ** power
    if not no_mask:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1)
    heads = weights @ v
    if not gate_after and not no_gate:
        heads = heads * gate[:, None, None]
    heads = heads if join == "view" else heads.permute(0, 2, 1, 3)
    out = heads.reshape(batch, queries, width) @ w_o
    return out * gate.repeat_interleave(size) if gate_after else out, weights


# --- positions -------------------------------------------------------------------------------------------------------


def waves(length, d_model, start=0, layout="turns", base=10_000.0, exponent=lambda i, d: 2 * (i // 2) / d):
    table = np.zeros((length, d_model))
    for t, i in itertools.product(range(length), range(d_model)):
        angle = (t + start) / base ** exponent(i, d_model)
        table[t, i] = (math.sin, math.cos)[(i + (layout == "cosines first")) % 2](angle)
    if layout == "blocks":
        table = np.hstack([table[:, ::2], table[:, 1::2]])
    return table.T if layout == "transposed" else table


@mistake("positions", "begin with 1", start=1)
@mistake("positions", "two blocks", layout="blocks")
@mistake("positions", "two blocks", layout="blocks", start=1)
@mistake("positions", "changed places", layout="cosines first")
@mistake("positions", "transposed", layout="transposed")
@mistake("positions", "frequencies are off", exponent=lambda i, d: i / d)
@mistake("positions", "frequencies are off", exponent=lambda i, d: 4 * (i // 2) / d)
@mistake("positions", "frequencies are off", exponent=lambda i, d: (i // 2) / d)
@mistake("positions", "frequencies are off", exponent=lambda i, d: -2 * (i // 2) / d)
@mistake("positions", "frequencies are off", base=1_000.0)
def positions_otherwise(length, d_model, **settings):
    return waves(length, d_model, **settings)


# --- decoding and accuracy -------------------------------------------------------------------------------------------


def written(model, source, start, steps, gates=None, last_only=False):
    rows = torch.as_tensor(start).expand(len(source)).reshape(-1, 1)
    for _ in range(steps):
        logits = model(source, rows[:, -1:] if last_only else rows, gates)
        rows = torch.cat([rows, logits[:, -1].argmax(-1, keepdim=True)], 1)
    return rows


def truth(source):
    numbers = source[:, :3] @ torch.tensor([100, 10, 1]) + source[:, 4:] @ torch.tensor([100, 10, 1])
    return numbers[:, None] // torch.tensor([1000, 100, 10, 1]) % 10


@mistake("greedy", "begins with the digit 0", start=0)
@mistake("greedy", "begins with the digit 0", start=0, kept=False)
@mistake("greedy", "begins with +", start=PLUS, kept=False)
@mistake("greedy", "begins with PAD", start=PAD, kept=False)
@mistake("greedy", "the true first digit", start="true")
@mistake("greedy", "the most common first digit", start="common")
def greedy_started_wrong(model, source, start, kept=True):
    first = truth(source)[:, 0]
    start = {"true": first, "common": first.mode().values}.get(start, start)
    return written(model, source, start, 3)[:, :4] if kept else written(model, source, start, 4)[:, 1:]


@mistake("greedy", "digit written last")
def greedy_reads_one_token(model, source):
    return written(model, source, BOS, 4, last_only=True)[:, 1:]


@mistake("greedy", "BOS is part of the answer")
def greedy_with_bos(model, source):
    return written(model, source, BOS, 4)


@mistake("greedy", "it writes 3 digits")
def greedy_too_short(model, source):
    return written(model, source, BOS, 3)[:, 1:]


@mistake("greedy", "does the model read the digits it has written itself")
def greedy_teacher_forced(model, source):
    return model(source, torch.cat([torch.full((len(source), 1), BOS), truth(source)[:, :3]], 1)).argmax(-1)


@mistake("greedy", "every digit of an answer is the same")
def greedy_first_position(model, source):
    rows = torch.full((len(source), 1), BOS)
    for _ in range(4):
        rows = torch.cat([rows, model(source, rows)[:, 0].argmax(-1, keepdim=True)], 1)
    return rows[:, 1:]


@mistake("greedy", "not what the model writes")
def greedy_adds_itself(model, source):
    return truth(source)


def forced_right(model, source, target):
    return model(source, torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], 1)).argmax(-1) == target


@mistake("free_running_accuracy", "batches of unequal size")
def accuracy_of_batch_means(model, batches):
    return np.mean([(written(model, s, BOS, 4)[:, 1:] == t).all(1).float().mean().item() for s, t in batches])


@mistake("free_running_accuracy", "teacher forcing")
def accuracy_teacher_forced(model, batches):
    return torch.cat([forced_right(model, s, t).flatten() for s, t in batches]).float().mean()


@mistake("free_running_accuracy", "teacher forcing")
def accuracy_teacher_forced_batch_means(model, batches):
    means = [forced_right(model, s, t)[:, 1:].float().mean() for s, t in batches]
    return torch.cat([m.repeat(len(t)) for m, (_, t) in zip(means, batches, strict=True)]).mean()


@mistake("free_running_accuracy", "zeros are not counted")
def accuracy_without_zeros(model, batches):
    hits = [((written(model, s, BOS, 4)[:, 1:] == t) | (t == 0)).all(1) for s, t in batches]
    return torch.cat([h.float() for h in hits]).mean().item()


@mistake("free_running_accuracy", "zeros are not counted")
def accuracy_per_digit_without_zeros(model, batches):
    hits = [forced_right(model, s, t)[t != 0] for s, t in batches]
    return torch.cat(hits).float().mean().item()


@mistake("free_running_accuracy", "begins with the true first digit", start="true")
@mistake("free_running_accuracy", "begins with the most common first digit", start="common")
@mistake("free_running_accuracy", "begins with the digit 0", start=0)
def accuracy_started_wrong(model, batches, start):
    hits = []
    for source, target in batches:
        first = {"true": target[:, 0], "common": target[:, 0].mode().values}.get(start, start)
        hits.append((written(model, source, first, 3) == target).all(1))
    return torch.cat(hits).float().mean()


@mistake("free_running_accuracy", "share of wrong answers")
def accuracy_inverted(model, batches):
    return 1 - torch.cat([(written(model, s, BOS, 4)[:, 1:] == t).all(1) for s, t in batches]).float().mean()


@mistake("free_running_accuracy", "only the first batch")
def accuracy_first_batch(model, batches):
    for source, target in batches:
        return (written(model, source, BOS, 4)[:, 1:] == target).all(1).float().mean()


@mistake("free_running_accuracy", "single digits are counted")
def accuracy_of_digits(model, batches):
    return torch.cat([(written(model, s, BOS, 4)[:, 1:] == t).flatten() for s, t in batches]).float().mean()


# --- training --------------------------------------------------------------------------------------------------------


@mistake("unseen", "leak")
def unseen_in_this_order_only(train, test):
    return [pair for pair in test if pair not in train]


@mistake("unseen", "leak")
def unseen_not_looked_at(train, test):
    return test


@mistake("unseen", "left out")
def unseen_by_number(train, test):
    known = {number for pair in train for number in pair}
    return [pair for pair in test if not known & set(pair)]


@mistake("train", "dead", dead="no step")
@mistake("train", "dead", dead="other model")
@mistake("train", "gradients add up", dead="gradients kept")
@mistake("train", "own label", labels_of="shuffled")
@mistake("train", "own label", labels_of="first")
@mistake("train", "constant prediction", nothing_read=True)
@mistake("train", "all weights take part", only="2.bias")
@mistake("train", "uphill", sign=-1)
@mistake("train", "softmax applied twice", double=True)
@mistake("train", "two lists", form="losses only")
@mistake("train", "in its order", form="reversed")
@mistake("train", "no means", form="sums")
def train_otherwise(
    model, inputs, labels, epochs, batch_size, learning_rate, dead="", labels_of="", only="", sign=1, double=False,
    form="", nothing_read=False,
):  # fmt: skip
    inputs = inputs * 0 if nothing_read else inputs
    chosen = [p for name, p in model.named_parameters() if only in name]
    if dead == "other model":
        chosen = [torch.nn.Parameter(p.clone()) for p in chosen]
    optimizer, losses = torch.optim.Adam(chosen, lr=learning_rate), []
    for _ in range(epochs):
        order, seen = torch.randperm(len(inputs)), []
        for start in range(0, len(inputs), batch_size):
            part = order[start : start + batch_size]
            goal = labels[torch.randperm(len(inputs))[: len(part)]] if labels_of == "shuffled" else labels[part]
            goal = labels[start : start + batch_size] if labels_of == "first" else goal
            logits = model(inputs[part])
            loss = F.cross_entropy(logits.softmax(-1) if double else logits, goal)
            if dead != "gradients kept":
                optimizer.zero_grad()
            (sign * loss).backward()
            if dead != "no step":
                optimizer.step()
            seen.append(loss.item() * len(part))
        losses.append(sum(seen) / (1 if form == "sums" else len(inputs)))
    if form == "losses only":
        return losses
    return losses[::-1] if form == "reversed" else losses, model(inputs).argmax(-1)


@mistake("choose_checkpoint", "chosen on the test set", name="test accuracy")
@mistake("choose_checkpoint", "chosen on the training set", name="training accuracy")
def checkpoint_chosen_on(history, name):
    return sorted(history, key=lambda row: row[name])[-1]["step"]


@mistake("choose_checkpoint", "last checkpoint")
def checkpoint_last(history):
    return history[-1]["step"]


@mistake("choose_checkpoint", "worst")
def checkpoint_as_if_a_loss(history):
    return min(history, key=lambda row: row["validation accuracy"])["step"]


# --- heads -----------------------------------------------------------------------------------------------------------


@mistake("head_drops", "all layers", what="tied")
@mistake("head_drops", "stay closed", what="sticky")
@mistake("head_drops", "on one item", what="one item")
@mistake("head_drops", "accuracies, not drops", what="accuracy")
@mistake("head_drops", "sign", what="sign")
@mistake("head_drops", "true first digit", what="handed")
@mistake("head_drops", "at what is counted", what="digits")
@mistake("head_drops", "nothing ever drops", what="open")
def head_drops_otherwise(model, source, target, what):
    if what == "one item":
        source, target = source[:1], target[:1]

    def accuracy(gates):
        if what == "handed":
            return (written(model, source, target[:, 0], 3, gates) == target).all(1).float().mean().item()
        right = written(model, source, BOS, 4, gates)[:, 1:] == target
        return (right if what == "digits" else right.all(1)).float().mean().item()

    gates, base, table = torch.ones(6, 4), accuracy(torch.ones(6, 4)), np.zeros((6, 4))
    for layer, head in itertools.product(range(6), range(4)):
        if what != "sticky":
            gates = torch.ones(6, 4)
        gates[slice(None) if what == "tied" else layer, head] = 1 if what == "open" else 0
        left = accuracy(gates)
        table[layer, head] = {"accuracy": left, "sign": left - base}.get(what, base - left)
    return table


@mistake("singly_prunable", "equals the tolerance", keep=lambda drop, tolerance: drop < tolerance)
@mistake("singly_prunable", "accuracy rises", keep=lambda drop, tolerance: abs(drop) <= tolerance)
@mistake("singly_prunable", "heads that are needed", keep=lambda drop, tolerance: drop > tolerance)
@mistake("singly_prunable", "above the tolerance", keep=lambda drop, tolerance: drop <= 10 * tolerance)
def singly_otherwise(drops, tolerance, keep):
    return [name for name in drops if keep(drops[name], tolerance)]


@mistake("jointly_prunable", "removed at once")
def jointly_all_single(accuracy_without, heads, tolerance):
    return [head for head in heads if accuracy_without([]) - accuracy_without([head]) <= tolerance]


@mistake("jointly_prunable", "the step before")
def jointly_step_by_step(accuracy_without, heads, tolerance):
    gone, left, now = [], list(heads), accuracy_without([])
    while left:
        scored = [accuracy_without([*gone, head]) for head in left]
        if now - max(scored) > tolerance:
            return gone
        now = max(scored)
        gone.append(left.pop(scored.index(now)))
    return gone


@mistake("jointly_prunable", "tried again")
def jointly_in_single_order(accuracy_without, heads, tolerance):
    gone = []
    for head in sorted(heads, key=lambda name: -accuracy_without([name])):
        if accuracy_without([]) - accuracy_without([*gone, head]) > tolerance:
            return gone
        gone.append(head)
    return gone


def heads_replaced(model, source, other, layer, head):
    outputs, patch = model.head_outputs(source).clone(), model.head_outputs(other)
    outputs[:, layer, head] = patch[:, layer, head]
    return model.write(source, outputs)


@mistake("flip_rate", "all heads of the layer", heads="layer")
@mistake("flip_rate", "both layers", heads="number")
@mistake("flip_rate", "every changed digit", count="changed")
@mistake("flip_rate", "does not flip", count="kept")
@mistake("flip_rate", "changed places", turned=True)
@mistake("flip_rate", "nothing ever flips", heads="none")
@mistake("flip_rate", "everything flips", heads="all")
def flip_rate_otherwise(model, source, other, layer, head, column, heads="", count="", turned=False):
    source, other = (other, source) if turned else (source, other)
    layer = slice(None) if heads in ("number", "all") else layer
    head = slice(None) if heads in ("layer", "all") else head
    if heads == "none":
        source, layer = source, slice(0, 0)
    own = model.write(source, model.head_outputs(source))[:, column]
    goal = model.write(other, model.head_outputs(other))[:, column]
    now = heads_replaced(model, source, other, layer, head)[:, column]
    if heads == "all":
        now = goal
    flips = {"changed": now != own, "kept": now != goal}.get(count, now == goal)
    return flips.float().mean().item()


# --- problem 2 -------------------------------------------------------------------------------------------------------


@mistake("add_positions", "begin with 1", start=1)
@mistake("add_positions", "two blocks", layout="blocks")
@mistake("add_positions", "frequencies are off", exponent=lambda i, d: i / d)
@mistake("add_positions", "beyond its last row", beyond="error")
@mistake("add_positions", "begins again", beyond="modulo")
@mistake("add_positions", "get nothing", beyond="zeros")
@mistake("add_positions", "must stay as they are", none="sinusoidal")
@mistake("add_positions", "must stay as they are", scale=True)
@mistake("add_positions", "begin with 1", learned_start=1)
def add_positions_otherwise(
    x, encoding, table, beyond="clamp", none="", scale=False, learned_start=0, start=0, layout="turns", exponent=None
):
    length, width = x.shape[1:]
    x = x * width**0.5 if scale else x
    encoding = (none or encoding) if encoding == "none" else encoding
    if encoding == "none":
        return x
    if encoding == "sinusoidal":
        more = {"exponent": exponent} if exponent else {}
        return x + torch.from_numpy(waves(length, width, start=start, layout=layout, **more))
    t = torch.arange(length) + learned_start
    if beyond == "error":
        return x + table[t]
    if beyond == "modulo":
        return x + table[t % len(table)]
    if beyond == "zeros":
        return x + torch.cat([table, torch.zeros(length, width)])[:length]
    return x + table[t.clamp(max=len(table) - 1)]


@mistake("relative_bias", "changed places", distance=lambda q, k: q - k)
@mistake("relative_bias", "has a sign", distance=lambda q, k: abs(q - k))
@mistake("relative_bias", "beyond its rows", clip=False)
@mistake("relative_bias", "wrong entries", shift=1)
@mistake("relative_bias", "end of the table", shift=-9)
def relative_bias_otherwise(table, length, distance=lambda q, k: k - q, clip=True, shift=0):
    most = (table.shape[1] - 1) // 2
    out = torch.zeros(len(table), length, length)
    for q, k in itertools.product(range(length), range(length)):
        d = distance(q, k)
        d = max(-most, min(most, d)) if clip else d
        place = d if shift == -9 else min(d + most + shift, 2 * most) if clip else d + most
        out[:, q, k] = table[:, place]
    return out


@mistake("mean_pool", "padding is inside the mean", how=lambda x, real: x.mean(1))
@mistake("mean_pool", "divided by the padded length", how=lambda x, real: (x * real[..., None]).mean(1))
@mistake("mean_pool", "this is the sum", how=lambda x, real: (x * real[..., None]).sum(1))
@mistake("mean_pool", "wrong axis", how=lambda x, real: (x * real[..., None]).mean(2))
@mistake("mean_pool", "maximum", how=lambda x, real: x.masked_fill(~real[..., None], -torch.inf).amax(1))
@mistake("mean_pool", "same number", how=lambda x, real: (x * real[..., None]).sum(1) / real.sum(1).float().mean())
@mistake("mean_pool", "padding is inside the mean", how=lambda x, real: x.sum(1) / real.sum(1, keepdim=True))
def mean_pool_otherwise(x, real, how):
    return how(x, real)


def scored(says, labels):
    says, labels = np.asarray(says), np.asarray(labels)
    return {
        "accuracy": (says == labels).mean(),
        "share sorted": labels.mean(),
        "share answered sorted": says.mean(),
        "constant prediction": len(set(says.tolist())) == 1,
    }


@mistake("score", "above 0.5", says=lambda logits: logits > 0.5)
@mistake("score", "wrong way round", says=lambda logits: logits < 0)
@mistake("score", "are no logits", says=lambda logits: torch.sigmoid(logits) > 0)
@mistake("score", "batches of unequal size", means=True)
@mistake("score", "not noticed", constant=lambda row: False)
@mistake("score", "no proof", constant=lambda row: row["accuracy"] in (row["share sorted"], 1 - row["share sorted"]))
@mistake("score", "changed places", swapped=True)
@mistake("score", "can hide", hides=True)
@mistake("score", "is missing", short=True)
def score_otherwise(
    batches, says=lambda logits: logits > 0, means=False, constant=None, swapped=False, hides=False, short=False
):
    rows = [scored(says(logits), labels) for logits, labels in batches]
    row = scored(torch.cat([says(logits) for logits, _ in batches]), torch.cat([labels for _, labels in batches]))
    if means:
        row |= {name: np.mean([each[name] for each in rows]) for name in list(row)[:3]}
    if constant:
        row["constant prediction"] = constant(row)
    if swapped or hides:
        shares = row["share answered sorted"], row["share sorted"]
        row |= {"share answered sorted": shares[1], "share sorted": shares[0] if swapped else shares[1]}
    return {"accuracy": row["accuracy"]} if short else row


@mistake("hard_negative", "no neighbours", how="any two")
@mistake("hard_negative", "still sorted", how="equal")
@mistake("hard_negative", "more than one pair", how="three")
@mistake("hard_negative", "same place", how="first")
@mistake("hard_negative", "values are changed", how="value")
@mistake("hard_negative", "more than one pair", how="shuffle")
def hard_negative_otherwise(sequence, draw, how):
    row = list(sequence)
    unequal = [i for i in range(len(row) - 1) if row[i] != row[i + 1]]
    i = draw.randrange(len(row) - 1) if how == "equal" else unequal[0] if how == "first" else draw.choice(unequal)
    if how == "any two":
        j = draw.choice([j for j in range(len(row)) if row[j] != row[i]])
        row[i], row[j] = row[j], row[i]
    elif how == "value":
        row[i] = row[i + 1] + 1
    elif how == "shuffle":
        draw.shuffle(row)
    elif how == "three":
        row = row[::-1]
    else:
        row[i], row[i + 1] = row[i + 1], row[i]
    return row


@mistake("extrapolation", "is missing", skip=True)
@mistake("extrapolation", "cut to 16", cut=16)
@mistake("extrapolation", "on one item", items=1)
@mistake("extrapolation", "constant predictions show", plain=True)
@mistake("extrapolation", "same accuracy", pooled=True)
def extrapolation_otherwise(model, sets, skip=False, cut=None, items=None, plain=False, pooled=False):
    rows = {}
    for length, each in sets.items():
        tokens, labels = each["tokens"][:items, :cut], each["labels"][:items]
        rows[length] = scored(model(tokens) > 0, labels)
    if plain:
        return {length: row["accuracy"] for length, row in rows.items()}
    if pooled:
        mean = np.mean([row["accuracy"] for row in rows.values()])
        return {length: {**row, "accuracy": mean} for length, row in rows.items()}
    if skip:
        del rows[next(length for length in sets if int(length) > 16)]
    return rows


@mistake("interpolated", "last trained one", how=lambda n, m: np.arange(n) * m / n if n > m else np.arange(n))
@mistake("interpolated", "short sequences are stretched", how=lambda n, m: np.linspace(0, m - 1, n))
@mistake("interpolated", "clamped", how=lambda n, m: np.minimum(np.arange(n), m - 1))
@mistake("interpolated", "keep their positions", how=lambda n, m: np.arange(n))
@mistake("interpolated", "rounded", how=lambda n, m: np.arange(n) * (m - 1) // max(1, n - 1) if n > m else np.arange(n))
@mistake("interpolated", "begin with 1", how=lambda n, m: np.linspace(1, m, n) if n > m else np.arange(1, n + 1))
@mistake("interpolated", "last trained one", how=lambda n, m: np.linspace(0, m, n) if n > m else np.arange(n))
@mistake("interpolated", "begin again", how=lambda n, m: np.arange(n) % m)
def interpolated_otherwise(length, trained, how):
    return how(length, trained)


@mistake("rejected_sorted", "equal neighbours", order=lambda a, b: a < b)
@mistake("rejected_sorted", "exactly 0", limit=-1e-9)
@mistake("rejected_sorted", "no triple", triples=False)
@mistake("rejected_sorted", "no pair", pairs=False)
@mistake("rejected_sorted", "not sorted", order=lambda a, b: True)
@mistake("rejected_sorted", "last tokens", ends=(True, False))
@mistake("rejected_sorted", "first tokens", ends=(False, True))
def rejected_otherwise(
    first, middle, last, order=lambda a, b: a <= b, limit=0.0, triples=True, pairs=True, ends=(True, True)
):
    size, found = len(first), []
    for a, b in itertools.product(range(size), repeat=2):
        rejects = (ends[0] and first[a, b] <= limit) or (ends[1] and last[a, b] <= limit)
        if pairs and order(a, b) and rejects:
            found.append([a, b])
        for c in range(size):
            if triples and order(a, b) and order(b, c) and middle[a, b, c] <= limit:
                found.append([a, b, c])
    return found
