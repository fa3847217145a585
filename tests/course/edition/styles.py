"""Right answers in other styles than the project's: loops, lists, NumPy, one-liners. A check must call none of them
wrong."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

STYLES: list[tuple[str, Callable[..., Any]]] = []
BOS, PLUS, PAD = 11, 10, 12


def style(task: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        STYLES.append((task, function))
        return function

    return keep


@style("tokens")
def tokens_as_text(pairs):
    ids = {**{str(i): i for i in range(10)}, "+": PLUS, ".": PAD}
    source = [[ids[sign] for sign in f"{a}+{b}".ljust(7, ".")] for a, b in pairs]
    target = [[ids[sign] for sign in str(a + b).zfill(4)] for a, b in pairs]
    return source, [[BOS, *row[:-1]] for row in target], target


@style("tokens")
def tokens_as_arrays(pairs):
    source, target = np.full((len(pairs), 7), PAD), np.zeros((len(pairs), 4), dtype=int)
    for row, (a, b) in enumerate(pairs):
        left, right = [int(digit) for digit in str(a)], [int(digit) for digit in str(b)]
        line = [*left, PLUS, *right]
        source[row, : len(line)] = line
        for place in range(4):
            target[row, place] = (a + b) // 10 ** (3 - place) % 10
    reads = np.roll(target, 1, axis=1)
    reads[:, 0] = BOS
    return source, reads, target


@style("tokens")
def tokens_in_a_dict_of_tensors(pairs):
    source, reads, target = tokens_as_text(pairs)
    return torch.tensor(source), torch.tensor(reads).float(), torch.tensor(target, dtype=torch.int32)


@style("attention")
def attention_numpy(q, k, v, mask):
    q, k, v, mask = (part.numpy() for part in (q, k, v, mask))
    scores = np.where(mask, q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2]), -1e9)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights, weights @ v


@style("attention")
def attention_loops(q, k, v, mask):
    batch, queries, width = q.shape
    weights = torch.zeros(batch, queries, k.shape[1])
    for b, i in itertools.product(range(batch), range(queries)):
        total = 0.0
        for j in range(k.shape[1]):
            if mask[i, j]:
                weights[b, i, j] = math.exp(float(q[b, i] @ k[b, j]) / math.sqrt(width))
                total += float(weights[b, i, j])
        weights[b, i] /= total
    return [weights.tolist(), torch.bmm(weights, v).tolist()]


@style("attention")
def attention_fused(q, k, v, mask):
    outputs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    eye = torch.eye(k.shape[1]).expand(len(q), -1, -1)
    return F.scaled_dot_product_attention(q, k, eye, attn_mask=mask), outputs


@style("multi_head")
def multi_head_one_head_after_the_other(x, memory, w_q, w_k, w_v, w_o, n_heads, gate, mask):
    size, out, maps = x.shape[-1] // n_heads, 0, []
    for h in range(n_heads):
        part = slice(h * size, (h + 1) * size)
        q, k, v = x @ w_q[:, part], memory @ w_k[:, part], memory @ w_v[:, part]
        weights, found = attention_fused(q, k, v, mask)
        out = out + gate[h] * (found @ w_o[part])
        maps.append(weights)
    return out, torch.stack(maps, dim=1)


@style("multi_head")
def multi_head_einsum(x, memory, w_q, w_k, w_v, w_o, n_heads, gate, mask):
    q, k, v = (
        (y.double() @ w.double()).view(*y.shape[:2], n_heads, -1) for y, w in ((x, w_q), (memory, w_k), (memory, w_v))
    )
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
    weights = (scores + torch.where(mask, 0.0, -1e30)).softmax(-1)
    heads = torch.einsum("bhij,bjhd,h->bihd", weights, v, gate.double())
    return heads.flatten(2) @ w_o.double(), weights


@style("positions")
def positions_loops(length, d_model):
    rows = []
    for t in range(length):
        row = []
        for i in range(0, d_model, 2):
            row += [math.sin(t / 10_000 ** (i / d_model)), math.cos(t / 10_000 ** (i / d_model))]
        rows.append(row)
    return rows


@style("positions")
def positions_by_exponentials(length, d_model):
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
    table = torch.zeros(length, d_model)
    table[:, 0::2] = torch.sin(torch.arange(length).unsqueeze(1) * rate)
    table[:, 1::2] = torch.cos(torch.arange(length).unsqueeze(1) * rate)
    return table.unsqueeze(0)


@style("positions")
def positions_complex(length, d_model):
    turns = np.exp(1j * np.outer(np.arange(length), 10_000.0 ** (-np.arange(0, d_model, 2) / d_model)))
    return np.dstack([turns.imag, turns.real]).reshape(length, d_model)


@style("greedy")
def greedy_list_by_list(model, source):
    answers = []
    for row in source:
        reads = [BOS]
        while len(reads) < 5:
            reads.append(int(model(row[None], torch.tensor([reads]))[0, -1].argmax()))
        answers.append(reads[1:])
    return answers


@style("greedy")
def greedy_in_a_table(model, source):
    reads = torch.full((len(source), 5), PAD)
    reads[:, 0] = BOS
    for place in range(4):
        reads[:, place + 1] = model(source, reads[:, : place + 1])[:, place].max(-1).indices
    return reads[:, 1:].numpy()


@style("free_running_accuracy")
def free_running_counting(model, batches):
    right = total = 0
    for source, target in batches:
        for said, wanted in zip(greedy_in_a_table(model, source).tolist(), target.tolist(), strict=True):
            right, total = right + (said == wanted), total + 1
    return right / total


@style("free_running_accuracy")
def free_running_by_teacher_forcing_whole_answers(model, batches):
    """Up to its first wrong digit a model reads the same either way, so whole answers are right in the same cases."""
    hits = []
    for source, target in batches:
        reads = torch.cat([torch.full((len(target), 1), BOS), target[:, :-1]], dim=1)
        hits.append((model(source, reads).argmax(-1) == target).all(-1))
    return torch.cat(hits).float().mean()


@style("free_running_accuracy")
def free_running_weighted(model, batches):
    shares = [np.mean((greedy_in_a_table(model, s) == t.numpy()).all(1)) for s, t in batches]
    return np.average(shares, weights=[len(t) for _, t in batches])


@style("unseen")
def unseen_sets(train, test):
    known = {frozenset(pair) for pair in train}
    return [tuple(pair) for pair in test if frozenset(pair) not in known]


@style("unseen")
def unseen_arrays(train, test):
    known, test = np.sort(np.array(train), 1), np.array(test)
    seen = (np.sort(test, 1)[:, None] == known[None]).all(-1).any(1)
    return test[~seen]


def trained(model, inputs, labels, epochs, batch_size, optimizer, loss_of=F.cross_entropy, drop=False):
    losses = []
    for _ in range(epochs):
        order, seen = torch.randperm(len(inputs)), []
        for chosen in order.split(batch_size):
            optimizer.zero_grad()
            loss = loss_of(model(inputs[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
            seen.append(loss.detach())
        losses.append(torch.stack(seen).mean())
    with torch.no_grad():
        return torch.stack(losses), model(inputs).argmax(-1)


@style("train")
def train_with_sgd(model, inputs, labels, epochs, batch_size, learning_rate):
    return trained(model, inputs, labels, epochs, batch_size, torch.optim.SGD(model.parameters(), learning_rate, 0.9))


@style("train")
def train_with_plain_sgd(model, inputs, labels, epochs, batch_size, learning_rate):
    return trained(model, inputs, labels, epochs, batch_size, torch.optim.SGD(model.parameters(), learning_rate))


@style("train")
def train_with_adamw(model, inputs, labels, epochs, batch_size, learning_rate):
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, weight_decay=0.1)
    return trained(model, inputs, labels, epochs, batch_size, optimizer, lambda x, y: F.nll_loss(x.log_softmax(-1), y))


@style("train")
def train_with_a_loader(model, inputs, labels, epochs, batch_size, learning_rate):
    dataset = torch.utils.data.TensorDataset(inputs, labels)
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.98)), []
    for _ in range(epochs):
        total = 0.0
        for x, y in loader:
            loss = torch.nn.CrossEntropyLoss()(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(x)
        losses.append(total / len(inputs))
    return losses, [int(row.argmax()) for row in model(inputs)]


@style("train")
def train_by_hand(model, inputs, labels, epochs, batch_size, learning_rate):
    losses = []
    for _ in range(epochs):
        seen = []
        for start in range(0, len(inputs), batch_size):  # not shuffled
            loss = F.cross_entropy(model(inputs[start : start + batch_size]), labels[start : start + batch_size])
            model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= learning_rate * p.grad
            seen.append(float(loss.detach()))
        losses.append(np.mean(seen))
    return np.array(losses), model(inputs).detach().numpy().argmax(1)


@style("choose_checkpoint")
def checkpoint_loop(history):
    best, step = -1.0, None
    for row in history:
        if row["validation accuracy"] > best:
            best, step = row["validation accuracy"], row["step"]
    return step


@style("choose_checkpoint")
def checkpoint_arrays(history):
    return np.array([row["step"] for row in history])[np.argmax([row["validation accuracy"] for row in history])]


@style("head_drops")
def head_drops_dict_of_lists(model, source, target):
    def share(gates):
        reads = torch.full((len(source), 1), BOS)
        for _ in range(4):
            reads = torch.cat([reads, model(source, reads, gates)[:, -1:].argmax(-1)], 1)
        return sum(a == b for a, b in zip(reads[:, 1:].tolist(), target.tolist(), strict=True)) / len(target)

    base = share(None)
    return [
        [base - share(torch.ones(24).index_fill(0, torch.tensor(4 * n + h), 0).view(6, 4)) for h in range(4)]
        for n in range(6)
    ]


@style("head_drops")
def head_drops_forced(model, source, target):
    reads = torch.cat([torch.full((len(target), 1), BOS), target[:, :3]], 1)
    table = np.zeros((6, 4))
    for layer, head in np.ndindex(6, 4):
        gates = torch.ones(6, 4)
        right = [(model(source, reads, gates).argmax(-1) == target).all(1).double().mean()]
        gates[layer][head] = 0
        right.append((model(source, reads, gates).argmax(-1) == target).all(1).double().mean())
        table[layer, head] = right[0] - right[1]
    return table


@style("singly_prunable")
def singly_filter(drops, tolerance):
    return set(filter(lambda head: not drops[head] > tolerance, drops))


@style("singly_prunable")
def singly_sorted(drops, tolerance):
    names = []
    for name in sorted(drops, key=drops.get):
        if drops[name] <= tolerance:
            names.append(name)
    return tuple(names)


@style("jointly_prunable")
def jointly_recursive(accuracy_without, heads, tolerance):
    def further(gone):
        left = {head: accuracy_without([*gone, head]) for head in heads if head not in gone}
        if not left or max(left.values()) < accuracy_without([]) - tolerance:
            return gone
        return further([*gone, max(left, key=left.get)])

    return further([])


@style("jointly_prunable")
def jointly_with_a_set(accuracy_without, heads, tolerance):
    base, gone, left = accuracy_without(()), set(), set(heads)
    while left:
        costs = sorted((base - accuracy_without(gone | {head}), head) for head in left)
        cost, head = costs[0]
        if cost > tolerance:
            break
        gone.add(head)
        left.remove(head)
    return gone


@style("flip_rate")
def flip_loop(model, source, other, layer, head, column):
    flips = []
    for one, two in zip(source, other, strict=True):
        outputs = model.head_outputs(one[None]).clone()
        outputs[0, layer, head] = model.head_outputs(two[None])[0, layer, head]
        wanted = model.write(two[None], model.head_outputs(two[None]))
        flips.append(bool(model.write(one[None], outputs)[0, column] == wanted[0, column]))
    return sum(flips) / len(flips)


@style("flip_rate")
def flip_with_a_gate(model, source, other, layer, head, column):
    gate = np.zeros((1, 2, 3, 1))
    gate[0, layer, head] = 1
    own, patch = model.head_outputs(source).numpy(), model.head_outputs(other).numpy()
    digits = model.write(source, own * (1 - gate) + patch * gate).numpy()
    goal = (other[:, :3] @ torch.tensor([100, 10, 1]) + other[:, 4:] @ torch.tensor([100, 10, 1])).numpy()
    return np.mean(digits[:, column] == goal // 10 ** (3 - column) % 10)


@style("add_positions")
def add_positions_numpy(x, encoding, table):
    x, table, length = x.numpy().copy(), table.numpy(), x.shape[1]
    if encoding == "learned":
        x += table[[min(t, len(table) - 1) for t in range(length)]]
    if encoding == "sinusoidal":
        x += np.array(positions_loops(length, x.shape[2]))
    return x


@style("add_positions")
def add_positions_embedding(x, encoding, table):
    length = x.size(1)
    if encoding == "none":
        return x.clone()
    if encoding == "sinusoidal":
        return x + positions_by_exponentials(length, x.size(2))
    last = table[-1:].expand(max(0, length - len(table)), -1)
    return x + torch.cat([table[:length], last])


@style("relative_bias")
def relative_loops(table, length):
    clip = (table.shape[1] - 1) // 2
    return [
        [[float(row[max(-clip, min(clip, key - query)) + clip]) for key in range(length)] for query in range(length)]
        for row in table
    ]


@style("relative_bias")
def relative_gather(table, length):
    clip = table.size(1) // 2
    t = np.arange(length)
    return table.numpy()[:, np.clip(t[None, :] - t[:, None], -clip, clip) + clip]


@style("mean_pool")
def mean_pool_loop(x, real):
    return torch.stack([row[keep].mean(0) for row, keep in zip(x, real, strict=True)])


@style("mean_pool")
def mean_pool_numpy(x, real):
    hidden = np.broadcast_to(~real.numpy()[..., None], x.shape)
    return np.ma.masked_array(x.numpy(), hidden).mean(1).filled(0)


@style("mean_pool")
def mean_pool_product(x, real):
    weights = real.float() / real.float().sum(1, keepdim=True)
    return torch.einsum("bt,btm->bm", weights, x)


@style("score")
def score_counting(batches):
    said, wanted = [], []
    for logits, labels in batches:
        said += [float(logit) > 0 for logit in logits]
        wanted += [bool(label) for label in labels]
    return {
        "items": len(said),
        "accuracy": sum(a == b for a, b in zip(said, wanted, strict=True)) / len(said),
        "share sorted": sum(wanted) / len(wanted),
        "share answered sorted": sum(said) / len(said),
        "constant prediction": len(set(said)) < 2,
    }


@style("score")
def score_probabilities(batches):
    chance = np.concatenate([torch.sigmoid(logits).numpy() for logits, _ in batches])
    labels = np.concatenate([labels.numpy() for _, labels in batches])
    says = chance > 0.5
    return {
        "constant prediction": np.ptp(says.astype(int)) == 0,
        "share answered sorted": says.mean(),
        "share sorted": labels.mean(),
        "accuracy": 1 - (says != labels).mean(),
    }


@style("hard_negative")
def hard_negative_new_list(sequence, draw):
    while True:
        i = draw.randrange(len(sequence) - 1)
        if sequence[i] != sequence[i + 1]:
            return [*sequence[:i], sequence[i + 1], sequence[i], *sequence[i + 2 :]]


@style("hard_negative")
def hard_negative_array(sequence, draw):
    row = np.array(sequence)
    i = int(draw.random() * (np.diff(row) > 0).sum())
    left = np.flatnonzero(np.diff(row) > 0)[i]
    row[[left, left + 1]] = row[[left + 1, left]]
    return row


@style("extrapolation")
def extrapolation_loop(model, sets):
    table = {}
    for length in sorted(sets, key=int):
        logits = torch.cat([model(row[None]) for row in sets[length]["tokens"]])
        table[int(length)] = score_counting([(logits, sets[length]["labels"])])
    return table


@style("extrapolation")
def extrapolation_comprehension(model, sets):
    return {n: score_probabilities([[model(part["tokens"]), part["labels"]]]) for n, part in sets.items()}


@style("interpolated")
def interpolated_linspace(length, trained):
    return np.linspace(0, min(length, trained) - 1, length)


@style("interpolated")
def interpolated_list(length, trained):
    factor = 1 if length <= trained else (trained - 1) / (length - 1)
    return [t * factor for t in range(length)]


@style("rejected_sorted")
def rejected_combinations(first, middle, last):
    values = range(len(first))
    pairs = itertools.combinations_with_replacement(values, 2)
    triples = itertools.combinations_with_replacement(values, 3)
    found = [pair for pair in pairs if not (first[pair] > 0 and last[pair] > 0)]
    return found + [triple for triple in triples if middle[triple] <= 0]


@style("rejected_sorted")
def rejected_numpy(first, middle, last):
    found = []
    for table in (first, last, middle):
        places = np.argwhere(table.numpy() <= 0)
        found += places[(np.diff(places, axis=1) >= 0).all(1)].tolist()
    return found
