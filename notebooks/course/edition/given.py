"""What the tasks hand to your functions: small stand-ins for trained models, so that nothing has to be trained first.

    ToyAdder         writes sums digit by digit, right on most; its 24 heads can be closed by gates
    ToyPruning       the accuracy that is left without some heads
    ToyPatching      an adder whose head outputs can be taken out and put back
    ToyClassifier    says of sequences whether they are sorted
    SmallNet         a network with random weights, to be trained

They are deterministic. The keywords after `seed` make them behave as if something were done wrong; the checks use them
to find out which mistake an answer looks like.
"""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PLUS, BOS, PAD = 10, 11, 12  # ids of the tokens that are no digits; the digits 0..9 are their own ids


def scramble(*parts: Any) -> np.ndarray:
    """Whole numbers that look random and depend on nothing but `parts` (numbers or arrays of them)."""
    mixed: Any = np.int64(1)
    for part in parts:
        mixed = ((mixed ^ np.asarray(part, dtype=np.int64)) * np.int64(1_000_003) + np.int64(12_345)) % np.int64(2**31)
        mixed = mixed ^ (mixed >> np.int64(11))
    return mixed


def operands(source: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Source tokens (N, 7) -> the numbers a and b, (N,) each."""
    tokens = np.asarray(source, dtype=np.int64).reshape(-1, 7)
    weights = np.array([100, 10, 1])
    return tokens[:, :3] @ weights, tokens[:, 4:] @ weights


def written_out(numbers: np.ndarray, count: int = 4) -> np.ndarray:
    return np.array([[int(digit) for digit in f"{number:0{count}d}"] for number in numbers]).reshape(-1, count)


class ToyAdder:
    """Like a trained adder: `model(source, decoder_input, gates)` gives logits (N, length of decoder_input, 10).

    source          (N, 7), as in 6 6 3 + 4 9 7
    decoder_input   (N, length): BOS, then the digits written so far
    gates           (6, 4) or None: one number for each head of each attention layer, 1 keeps it, 0 removes it
    """

    n_layers, n_heads = 6, 4

    def __init__(
        self, seed: int = 0, start: int | str = BOS, keeps_start: bool = False, forgets: bool = False, gates: str = ""
    ) -> None:
        self.shape = {"digits": 3}
        self.seed, self.start, self.keeps_start, self.forgets, self.quirk = seed, start, keeps_start, forgets, gates

    def encode(self, source: Tensor, gates: Tensor | None = None, patches: None = None) -> Tensor:
        return source

    def decode(
        self, decoder_input: Tensor, memory: Tensor, gates: Tensor | None = None, patches: None = None
    ) -> Tensor:
        return self(memory, decoder_input, gates)

    def __call__(self, source: Tensor, decoder_input: Tensor, gates: Tensor | None = None) -> Tensor:
        a, b = operands(source)
        answers, read = written_out(a + b).tolist(), np.asarray(decoder_input, dtype=np.int64).tolist()
        first, lucks = self.first_token(answers), scramble(self.seed, a, b).tolist()
        items = zip(read, answers, first, lucks, self.broken(a, b, gates).tolist(), strict=True)
        digits = [
            [self.next_digit(self.seen(row[: n + 1], begin), answer, luck, spoiled) for n in range(len(row))]
            for row, answer, begin, luck, spoiled in items
        ]
        noise = scramble(self.seed + 1, a[:, None, None], b[:, None, None], np.arange(10)) % 1_000 / 1_000
        return torch.from_numpy(4.0 * np.eye(10)[digits] + noise).float()

    def first_token(self, answers: list[list[int]]) -> list[int]:
        """What stands for BOS, for each item."""
        true = [answer[0] for answer in answers]
        if isinstance(self.start, str):
            return true if self.start == "true" else [max(sorted({*true}), key=true.count)] * len(true)
        return [self.start] * len(true)

    def seen(self, prefix: list[int], first: int) -> list[int]:
        """What the model takes the decoder's input for."""
        if self.forgets:
            return prefix[-1:]
        if first == BOS or prefix[0] != BOS:
            return prefix
        if self.keeps_start:
            return prefix[1:] or [-1, first]
        return [first, *prefix[1:]]

    @staticmethod
    def next_digit(prefix: list[int], answer: list[int], luck: int, spoiled: list[int]) -> int:
        """After BOS the next digit; without it the model answers like one that was trained without BOS."""
        if prefix[0] == -1:
            return prefix[1]
        written = prefix[1:] if prefix[0] == BOS else prefix
        column = min(len(written), 3)
        digit = answer[column] + 5 * spoiled[column]
        if luck % 4 == 0 and column == luck // 4 % 4:  # a sum that this adder gets wrong
            digit += 1
        if luck % 2 and column and answer[column] == 0:  # and it is bad at zeros
            digit += 1
        if answer[: len(written)] != written[:4]:  # it never learned to go on from a wrong digit
            digit += 2
        if prefix[0] in (PLUS, PAD):
            digit += prefix[0] - 7
        return digit % 10

    def broken(self, a: np.ndarray, b: np.ndarray, gates: Tensor | None) -> np.ndarray:
        """(N, 4): which digits are spoiled because heads are closed."""
        spoiled = np.zeros((len(a), 4), dtype=np.int64)
        if gates is None:
            return spoiled
        closed = np.asarray(gates.detach() if isinstance(gates, Tensor) else gates, dtype=float).reshape(6, 4) < 0.5
        if self.quirk == "tied":
            closed = closed | closed.any(0)
        if self.quirk == "sticky":
            closed = np.cumsum(closed[::-1, ::-1].ravel()).reshape(6, 4)[::-1, ::-1] > 0
        for head in np.flatnonzero(closed):
            needed = int(scramble(self.seed + 2, head)) % 14 - 5  # of 16 sums so many need this head, many heads none
            needs = scramble(self.seed + 3, a, b, head) % 16 < needed
            spoiled[needs, int(head) % 4] = 1
        return spoiled


class ToyPruning:
    """`accuracy_without(removed)`: the accuracy of an adder without these heads, a list of names."""

    def __init__(self, seed: int = 0) -> None:
        names = [
            f"{kind} L{layer} H{head}" for kind in ("Encoder", "Decoder Cross") for layer in (0, 1) for head in range(3)
        ]
        order = np.random.default_rng([seed, 5]).permutation(len(names))
        self.heads = [names[i] for i in sorted(order[:10])]
        roles = [self.heads[i] for i in np.random.default_rng([seed, 6]).permutation(10)]
        costs = (-0.0012, 0.0004, 0.0006, 0.0021, 0.0033, 0.0052, 0.0068, 0.0301, 0.2204, 0.4006)
        self.cost = dict(zip(roles, costs, strict=True))
        self.pair = {roles[1], roles[2]}  # each stands in for the other
        self.baseline = 0.9805 - int(scramble(seed)) % 7 / 1_000

    def __call__(self, removed: Sequence[str] = ()) -> float:
        gone = set(removed)
        unknown = gone - set(self.cost)
        if unknown:
            raise ValueError(f"there is no head {sorted(map(str, unknown))[0]!r}")
        lost = sum(self.cost[head] for head in gone) + 0.15 * (self.pair <= gone)
        return round(max(0.0, self.baseline - lost), 6)


class ToyPatching:
    """An adder in two steps, between which the outputs of its heads can be changed.

    head_outputs(source)      (N, 2 layers, 3 heads, 4): what each head says
    write(source, outputs)    (N, 4): the digits that the model writes when its heads say `outputs`
    """

    def __init__(self, seed: int = 0, patches: str = "", third: bool = True) -> None:
        self.seed, self.patches, self.third = seed, patches, third

    def head_outputs(self, source: Tensor) -> Tensor:
        a, b = operands(source)
        carries = np.stack([(a % m + b % m) >= m for m in (1_000, 100, 10, 1)], axis=1)
        strength = 1 + np.arange(6).reshape(2, 3)
        return torch.from_numpy((2.0 * carries - 1)[:, None, None, :] * strength[None, :, :, None]).float()

    def write(self, source: Tensor, outputs: Tensor) -> Tensor:
        a, b = operands(source)
        own = np.asarray(self.head_outputs(source)) > 0  # N layers heads columns
        said = np.asarray(outputs.detach() if isinstance(outputs, Tensor) else outputs, dtype=float) > 0
        other = said != own
        if self.patches == "layer":
            other = other | other.any(2, keepdims=True)
        if self.patches == "number":
            other = other | other.any(1, keepdims=True)
        luck = scramble(self.seed, a, b)[:, None]
        flips = other[:, 1, 1] & (luck % 8 != 0) | other[:, 0, 2] & (luck % 3 == 0) | other[:, 1, 2] & (luck % 5 < 2)
        spoils = other[:, 1, 2] & (luck % 5 == 4) | other[:, 0, 0] & (luck % 7 == 3) | other[:, 1, 1] & (luck % 8 == 0)
        if not self.third:
            flips, spoils = flips | spoils, spoils & False
        carries = own[:, 0, 0] ^ flips
        columns = np.column_stack([np.zeros(len(a), int), written_out(a, 3) + written_out(b, 3)])
        return torch.from_numpy((columns + carries + 5 * spoils) % 10)


class ToyClassifier:
    """`model(tokens)`: tokens (N, length) -> logits (N,), positive for "sorted". It was trained on lengths up to 16."""

    def __init__(self, seed: int = 0, reads: int = 10**9) -> None:
        self.seed, self.reads = seed, reads

    def __call__(self, tokens: Tensor) -> Tensor:
        values = np.asarray(tokens, dtype=np.int64)
        length = min(values.shape[1], self.reads)
        values = values[:, :length]
        right = (values[:, :-1] <= values[:, 1:]).all(1)
        luck = scramble(self.seed, length, values @ (1 + np.arange(length))) % 100
        wrong = luck < min(45, 2 + length // 2)
        says = np.where(length >= 64, True, right ^ wrong)
        return torch.from_numpy(np.where(says, 1.0, -1.0) * (0.2 + luck / 50)).float()


class SmallNet(nn.Sequential):
    """Two layers with random weights: inputs (N, 6) -> logits (N, 4).

    It complains when a gradient is added to one with which a step has been made already.
    """

    def __init__(self, seed: int = 0) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            super().__init__(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        self.last: Any = [self[2]]  # in a list it is no second part
        self.weights_then: Tensor | None = None
        self.last[0].weight.register_hook(self.watch)

    def watch(self, gradient: Tensor) -> None:
        weights = self.last[0].weight
        stepped = self.weights_then is not None and not torch.equal(self.weights_then, weights.detach())
        if stepped and weights.grad is not None and weights.grad.any():
            raise RuntimeError("gradients add up")
        self.weights_then = weights.detach().clone()


GIVEN: dict[str, Callable[..., Any]] = {
    "adder": ToyAdder,
    "pruning": ToyPruning,
    "patching": ToyPatching,
    "classifier": ToyClassifier,
    "net": SmallNet,
    "random": random.Random,
}


# --- your own models: the parts around your functions ----------------------------------------------------------------


class Adder(nn.Module):
    """An encoder-decoder Transformer around your `multi_head` and `positions`: 2 + 2 layers, 24 heads in 6 attentions.

    Its attentions in their order: Encoder L0, Encoder L1, Decoder Self L0, Decoder Cross L0, Decoder Self L1, Decoder
    Cross L1. `adder(source, decoder_input, gates)` is called like the toy; `adder.maps` then holds the attention
    weights of that call, one tensor (N, heads, queries, keys) for each attention.
    """

    n_layers, kinds = 6, ("encoder", "encoder", "self", "cross", "self", "cross")
    table: Tensor

    def __init__(
        self, multi_head: Callable[..., Any], positions: Callable[..., Any], width: int = 128, n_heads: int = 4
    ):
        super().__init__()
        self.multi_head, self.n_heads, self.shape = multi_head, n_heads, {"digits": 3}
        table = positions(7, width)
        self.register_buffer("table", torch.as_tensor(np.asarray(table), dtype=torch.float32).reshape(7, width))
        self.embedding = nn.Embedding(13, width)
        self.matrices = nn.ParameterList(
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, width))) for _ in range(24)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(14))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(6))
        self.narrow = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(6))
        self.readout = nn.Linear(width, 10)
        self.maps: list[Tensor] = []
        nn.init.xavier_uniform_(self.embedding.weight)

    @property
    def head_names(self) -> list[str]:
        names = (
            "Encoder L0",
            "Encoder L1",
            "Decoder Self L0",
            "Decoder Cross L0",
            "Decoder Self L1",
            "Decoder Cross L1",
        )
        return [f"{name} H{head}" for name in names for head in range(self.n_heads)]

    def without(self, names: Sequence[str]) -> "Pruned":
        """The same adder with these heads removed."""
        gates = torch.ones(24)
        gates[[self.head_names.index(name) for name in names]] = 0
        return Pruned(self, gates.reshape(6, 4))

    def embed(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) * self.table.shape[1] ** 0.5 + self.table[: tokens.shape[1]]

    def found(self, number: int, x: Tensor, memory: Tensor | None, gate: Tensor) -> Tensor:
        """What an attention adds to its stream."""
        reads = self.norms[2 * number](x)
        other = memory if memory is not None and self.kinds[number] == "cross" else reads
        mask = torch.ones(x.shape[1], other.shape[1], dtype=torch.bool)
        mask = mask.tril() if self.kinds[number] == "self" else mask
        matrices = self.matrices[4 * number : 4 * number + 4]
        output, weights = self.multi_head(reads, other, *matrices, self.n_heads, gate, mask)
        self.maps.append(weights)
        return output

    def finish(self, number: int, x: Tensor) -> Tensor:
        """The feed-forward part behind an attention; there is none behind the decoder's self-attention."""
        if self.kinds[number] == "self":
            return x
        return x + self.narrow[number](torch.relu(self.wide[number](self.norms[2 * number + 1](x))))

    def layer(self, number: int, x: Tensor, memory: Tensor | None, gates: Tensor | None) -> Tensor:
        gate = torch.ones(self.n_heads) if gates is None else gates[number]
        return self.finish(number, x + self.found(number, x, memory, gate))

    def patched(self, source: Tensor, other: Tensor, decoder_input: Tensor, layer: int, head: int) -> Tensor:
        """Logits for `source` when one head says what it says for `other`; both decoders read `decoder_input`."""
        one = nn.functional.one_hot(torch.tensor(head), self.n_heads).float()
        streams, memories = [self.embed(source), self.embed(other)], [None, None]
        for number in range(self.n_layers):
            if number == 2:
                memories = [self.norms[12](x) for x in streams]
                streams = [self.embed(decoder_input)] * 2
            gates = [1 - one if number == layer else torch.ones(self.n_heads), torch.ones(self.n_heads)]
            added = [self.found(number, *each) for each in zip(streams, memories, gates, strict=True)]
            if number == layer:
                added[0] = added[0] + self.found(number, streams[1], memories[1], one)
            streams = [self.finish(number, x + each) for x, each in zip(streams, added, strict=True)]
        return self.readout(self.norms[13](streams[0]))

    def encode(self, source: Tensor, gates: Tensor | None = None, patches: None = None) -> Tensor:
        self.maps, x = [], self.embed(source)
        for number in (0, 1):
            x = self.layer(number, x, None, gates)
        return self.norms[12](x)

    def decode(
        self, decoder_input: Tensor, memory: Tensor, gates: Tensor | None = None, patches: None = None
    ) -> Tensor:
        self.maps, x = self.maps[:2], self.embed(decoder_input)
        for number in (2, 3, 4, 5):
            x = self.layer(number, x, memory, gates)
        return self.readout(self.norms[13](x))

    def forward(self, source: Tensor, decoder_input: Tensor, gates: Tensor | None = None) -> Tensor:
        return self.decode(decoder_input, self.encode(source, gates), gates)


class Pruned:
    """An adder some of whose gates are closed for good; it is called like the adder."""

    def __init__(self, adder: Adder, gates: Tensor) -> None:
        self.adder, self.gates, self.shape = adder, gates, adder.shape

    def encode(self, source: Tensor, gates: Tensor | None = None, patches: None = None) -> Tensor:
        return self.adder.encode(source, self.gates)

    def decode(
        self, decoder_input: Tensor, memory: Tensor, gates: Tensor | None = None, patches: None = None
    ) -> Tensor:
        return self.adder.decode(decoder_input, memory, self.gates)

    def __call__(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        return self.adder(source, decoder_input, self.gates)


class Classifier(nn.Module):
    """A small Transformer encoder around your `add_positions` and `mean_pool`: tokens (N, length) -> logits (N,)."""

    def __init__(
        self,
        add_positions: Callable[..., Any],
        mean_pool: Callable[..., Any],
        encoding: str = "sinusoidal",
        width: int = 64,
        trained: int = 16,
    ):
        super().__init__()
        self.add_positions, self.mean_pool, self.encoding = add_positions, mean_pool, encoding
        self.embedding, self.table = nn.Embedding(100, width), nn.Parameter(torch.randn(trained, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, 1)
        )

    def from_embeddings(self, x: Tensor) -> Tensor:
        """The logits of embeddings (N, length, width) that know their positions."""
        return self.head(self.mean_pool(self.blocks(x), torch.ones(x.shape[:2], dtype=torch.bool)))[:, 0]

    def forward(self, tokens: Tensor) -> Tensor:
        return self.from_embeddings(self.add_positions(self.embedding(tokens), self.encoding, self.table))


def fit(
    model: nn.Module,
    batch: Callable[[np.random.Generator], tuple[tuple[Tensor, ...], Tensor]],
    steps: int,
    seed: int = 0,
    learning_rate: float = 1e-3,
) -> list[dict[str, float]]:
    """Train with a warm-up and a falling learning rate. `batch(draw)` gives (arguments of the model, labels); the log
    has a row for each 100 steps."""
    draw, log, since = np.random.default_rng(seed), [], 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.1)
    shape = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps, pct_start=0.1)
    for step in range(1, steps + 1):
        arguments, labels = batch(draw)
        logits = model(*arguments)
        if logits.ndim == 1:
            value = nn.functional.binary_cross_entropy_with_logits(logits, labels.float())
        else:
            value = nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
        model.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in (optimizer, shape):
            each.step()
        since += float(value.detach())
        if step % 100 == 0 or step == steps:
            log.append({"step": step, "training loss": since / (step % 100 or 100)})
            since = 0.0
    return log


# --- questions about heads -------------------------------------------------------------------------------------------


def key_classes(kind: str) -> dict[str, np.ndarray]:
    """{class: (queries, keys)}: which keys count as what for a head of this kind, "encoder", "self" or "cross".

    Columns are those of the answer; a query of the decoder belongs to the column of the digit that it predicts.
    """
    columns = np.array([1, 2, 3, -9, 1, 2, 3])  # of the source's tokens; -9 is the +
    queries = columns if kind == "encoder" else np.arange(4)
    if kind == "self":
        return {"earlier outputs": np.tri(4, 4, dtype=bool) & (np.arange(4) > 0)}
    return {
        "same column": (columns == queries[:, None]) & (queries[:, None] > 0),
        "next lower column": columns == queries[:, None] + 1,
        "+": np.broadcast_to(columns == -9, (len(queries), 7)),
    }


def minimal_pairs(column: int, count: int = 200, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Two lists of sums that differ in one digit, so that a carry arrives in `column` (1 to 2) of one and not of the
    other. The digits in front of it are the same in both answers."""
    draw, place = np.random.default_rng([seed, column]), 10 ** (2 - column)
    a, b = draw.integers(100, 1_000, size=(2, 100 * count))
    lower, own = a // place % 10 + b // place % 10, a // (10 * place) % 10 + b // (10 * place) % 10
    rest = a % place + b % place
    chosen = np.flatnonzero((lower <= 8) & (a // place % 10 > 0) & (own != 9) & (rest < place))[:count]
    with_carry = b + (10 - lower) * place
    return np.stack([a, b], 1)[chosen].tolist(), np.stack([a, with_carry], 1)[chosen].tolist()


# --- data and results ------------------------------------------------------------------------------------------------


def load(name: str) -> Any:
    """The assignment's data: `load("problem1_train")`."""
    return json.loads((Path("data") / f"{name}.json").read_text())


def save(value: Any, path: str) -> None:
    """Write a result as JSON; folders are made."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(value, indent=1) + "\n")
