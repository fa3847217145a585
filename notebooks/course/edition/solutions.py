"""Right answers to every task: the project's own functions, or thin code around them.

`make handout` fills the teacher's notebooks with these functions and with all they use; the checks learn from them what
is right.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from problem1.dataset import PAD, PLUS, contains, shift_right, to_digits
from problem1.model import Adder
from problem1.shared.attention import Attention, attend, sinusoids
from problem2.certificate import Tables
from problem2.certificate.enumeration import rejected_sequences
from problem2.dataset import adjacent_swap
from problem2.encodings.base import Policies, relative_positions

# --- problem 1 -------------------------------------------------------------------------------------------------------

LONGEST = 7  # tokens of a source
write_answer = Adder.generate
split_heads = Attention.split
mix_heads = Attention.mix


def tokens(pairs: Sequence[Sequence[int]]) -> tuple[list[list[int]], Tensor, Tensor]:
    sources = [[*map(int, str(a)), PLUS, *map(int, str(b))] for a, b in pairs]
    target = torch.from_numpy(to_digits(np.array(pairs).sum(1), 4))
    return [source + [PAD] * (LONGEST - len(source)) for source in sources], shift_right(target), target


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    hidden = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    return attend(q, k, v, hidden, causal=False)


def multi_head(
    x: Tensor,
    memory: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    n_heads: int,
    gate: Tensor,
    mask: Tensor,
) -> tuple[Tensor, Tensor]:
    layer: Any = SimpleNamespace(n_heads=n_heads, output=lambda heads: heads @ w_o)
    q, k, v = (split_heads(layer, read @ w) for read, w in ((x, w_q), (memory, w_k), (memory, w_v)))
    weights, outputs = attention(q, k, v, mask)
    return mix_heads(layer, outputs, gate), weights


def positions(length: int, d_model: int) -> Tensor:
    return sinusoids(torch.arange(length), d_model)


def greedy(model: Any, source: Tensor) -> Tensor:
    return write_answer(model, source)


def free_running_accuracy(model: Any, batches: Sequence[tuple[Tensor, Tensor]]) -> float:
    right = torch.cat([(write_answer(model, source) == target).all(1) for source, target in batches])
    return right.double().mean().item()


def unseen(train: Sequence[Sequence[int]], test: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    seen = contains(np.array(train), np.array(test), "operands")
    return [pair for pair, known in zip(test, seen, strict=True) if not known]


def train(
    model: torch.nn.Module, inputs: Tensor, labels: Tensor, epochs: int, batch_size: int, learning_rate: float
) -> tuple[list[float], list[int]]:
    optimizer, losses = torch.optim.Adam(model.parameters(), learning_rate), []
    for _ in range(epochs):
        total = 0.0
        for chosen in torch.randperm(len(inputs)).split(batch_size):
            loss = F.cross_entropy(model(inputs[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen)
        losses.append(total / len(inputs))
    return losses, model(inputs).argmax(1).tolist()


def choose_checkpoint(history: Sequence[Mapping[str, float]]) -> int:
    return int(max(history, key=lambda row: row["validation accuracy"])["step"])


def head_drops(model: Any, source: Tensor, target: Tensor) -> Tensor:
    def accuracy(gates: Tensor) -> Tensor:
        return (write_answer(model, source, gates) == target).all(1).double().mean()

    opened = torch.ones(model.n_layers, model.n_heads)
    drops = torch.zeros_like(opened, dtype=torch.float64)
    for layer in range(model.n_layers):
        for head in range(model.n_heads):
            gates = opened.clone()
            gates[layer, head] = 0
            drops[layer, head] = accuracy(opened) - accuracy(gates)
    return drops


def singly_prunable(drops: Mapping[str, float], tolerance: float) -> list[str]:
    return [head for head, drop in drops.items() if drop <= tolerance]


def jointly_prunable(
    accuracy_without: Callable[[Sequence[str]], float], heads: Sequence[str], tolerance: float
) -> list[str]:
    removed: list[str] = []
    least = accuracy_without([]) - tolerance
    while len(removed) < len(heads):
        left = [head for head in heads if head not in removed]
        best = max(left, key=lambda head: accuracy_without([*removed, head]))
        if accuracy_without([*removed, best]) < least:
            break
        removed.append(best)
    return removed


def flip_rate(model: Any, source: Tensor, other: Tensor, layer: int, head: int, column: int) -> float:
    outputs, patch = model.head_outputs(source).clone(), model.head_outputs(other)
    wanted = model.write(other, patch)[:, column]
    outputs[:, layer, head] = patch[:, layer, head]
    return (model.write(source, outputs)[:, column] == wanted).double().mean().item()


# --- problem 2 -------------------------------------------------------------------------------------------------------

token_positions = Policies.token_positions


def add_positions(x: Tensor, encoding: str, table: Tensor) -> Tensor:
    length, d_model = x.shape[1:]
    if encoding == "none":
        return x
    if encoding == "sinusoidal":
        return x + sinusoids(torch.arange(length), d_model)
    clamped: Any = SimpleNamespace(trained=len(table), beyond="clamp")
    return x + table[token_positions(clamped, length)]


def relative_bias(table: Tensor, length: int) -> Tensor:
    clip = table.shape[1] // 2
    return table[:, relative_positions(torch.arange(length)).clamp(-clip, clip) + clip]


def mean_pool(x: Tensor, real: Tensor) -> Tensor:
    return (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)


def score(batches: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    says, labels = torch.cat([logits for logits, _ in batches]) > 0, torch.cat([labels for _, labels in batches])
    return {
        "accuracy": (says == labels).double().mean().item(),
        "share sorted": labels.double().mean().item(),
        "share answered sorted": says.double().mean().item(),
        "constant prediction": bool(says.all() or not says.any()),
    }


def hard_negative(sequence: Sequence[int], draw: Random) -> list[int]:
    return adjacent_swap(list(sequence), draw)


def extrapolation(model: Callable[[Tensor], Tensor], sets: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Any]:
    return {length: score([(model(items["tokens"]), items["labels"])]) for length, items in sets.items()}


def interpolated(length: int, trained: int) -> Tensor:
    squeezed: Any = SimpleNamespace(trained=trained, beyond="interpolate")
    return token_positions(squeezed, length)


def rejected_sorted(first: Tensor, middle: Tensor, last: Tensor) -> list[list[int]]:
    return rejected_sequences(Tables(first.numpy(), middle.numpy(), last.numpy()))
