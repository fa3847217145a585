"""The judge: a Transformer encoder that says of a sequence of integers whether it is sorted.

    values -> embed -> block -> ... -> block -> norm -> pool -> head -> one logit, positive for sorted

Pooling "worst" judges each token on its own and lets the most negative verdict stand for the sequence.
All sequences of a batch have one length: there is no padding, and no mask but the causal one.
"""

import json
import math
from dataclasses import dataclass

import torch
from torch import nn

from problem1.attention import Attention
from problem1.model import feed_forward
from problem1.storage import load_into, load_tensors, save_tensors
from problem2.dataset import TRAINING_LENGTHS, VOCABULARY, check_tokens, encode
from problem2.encodings import make_encoding

SHAPES = {
    "assignment": {"layers": 4, "heads": 4, "width": 128, "hidden": 512},
    "small": {"layers": 2, "heads": 4, "width": 64, "hidden": 128},
    "single": {"layers": 1, "heads": 4, "width": 64, "hidden": 256},  # can be certified
}
POOLINGS = ("mean", "max", "cls", "worst")


class Block(nn.Module):
    """One residual step, pre-norm: x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, width, heads, hidden, positions):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, positions)
        self.feed_forward = feed_forward(width, hidden)

    def forward(self, x, causal=False, look=False):
        found, seen = self.attention(self.norm(x), causal=causal, look=look)
        x = x + found
        return x + self.feed_forward(x), seen


def verdict_head(width):
    head = nn.Sequential(nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, 1))
    for linear in (head[0], head[2]):
        nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(linear.bias)
    return head


def smooth_values(vocabulary, width):
    """(vocabulary, width) of variance 1 in which near values have near rows: each coordinate is a wave over the values,
    from half a wave in all to one wave in eight, and starts at a random phase.
    """
    slow, fast = math.pi / vocabulary, 2 * math.pi / 8
    frequency = torch.logspace(math.log10(slow), math.log10(fast), width)
    phase = 2 * math.pi * torch.rand(width)
    return 2**0.5 * (torch.arange(vocabulary)[:, None] * frequency + phase).cos()


@dataclass
class Verdict:
    """What the judge says of a batch."""

    logits: torch.Tensor  # B, positive for sorted
    per_token: torch.Tensor | None  # B length, each token's own verdict (pooling "worst")
    weights: list | None  # when looking: per layer B H Q K, with a window B H Q 2w+1; a CLS token counts as a position


class Judge(nn.Module):
    """`options` are those of the encoding, `longest` is the longest sequence of the training, `smooth` gives
    neighbouring values similar embeddings to start with.
    """

    def __init__(
        self,
        encoding="sinusoidal",
        layers=4,
        heads=4,
        width=128,
        hidden=512,
        pooling="mean",
        window=None,
        smooth=False,
        longest=TRAINING_LENGTHS[1],
        vocabulary=VOCABULARY,
        options=None,
    ):
        super().__init__()
        options = options or {}
        self.shape = {
            "encoding": encoding,
            "layers": layers,
            "heads": heads,
            "width": width,
            "hidden": hidden,
            "pooling": pooling,
            "window": window,
            "smooth": smooth,
            "longest": longest,
            "vocabulary": vocabulary,
            "options": options,
        }
        if pooling not in POOLINGS:
            raise ValueError(f"pooling is {pooling!r}; it must be {', '.join(POOLINGS)}.")
        if pooling == "cls" and window is not None:
            raise ValueError(f"pooling cls with window {window}: a CLS token would see its neighbours only.")
        if layers < 1:
            raise ValueError(f"layers is {layers}; it must be at least 1.")
        self.pooling = pooling

        trained = longest + (pooling == "cls")  # CLS takes a position too
        encodings = [make_encoding(encoding, width, heads, window, trained, **options)]
        for _ in range(1, layers):
            own = encodings[0].per_layer
            encodings.append(make_encoding(encoding, width, heads, window, trained, **options) if own else encodings[0])

        values = smooth_values(vocabulary, width) if smooth else torch.randn(vocabulary, width)
        self.embedding = nn.Embedding.from_pretrained(values, freeze=False)
        self.cls = nn.Parameter(torch.randn(width)) if pooling == "cls" else None
        self.positions = encodings[0]
        self.blocks = nn.ModuleList(Block(width, heads, hidden, positions) for positions in encodings)
        self.norm = nn.LayerNorm(width)
        self.head = verdict_head(width)

    def embed(self, tokens):
        """(B, length) -> (B, length, M); with CLS length + 1, first, or last where only the last token sees all."""
        x = self.embedding(tokens)
        if self.cls is not None:
            cls = self.cls.expand(len(x), 1, -1)
            x = torch.cat([x, cls] if self.positions.causal else [cls, x], dim=1)
        return self.positions.embed(x)

    def pool(self, x):
        """(B, length, M) -> (B, M)."""
        if self.pooling == "cls":
            return x[:, -1 if self.positions.causal else 0]
        return x.mean(1) if self.pooling == "mean" else x.amax(1)

    def forward(self, tokens, look=False):
        """The Verdict on tokens (B, length)."""
        check_tokens(tokens, self.shape["vocabulary"])
        x, weights = self.embed(tokens), []
        for block in self.blocks:
            x, seen = block(x, self.positions.causal, look)
            if look:
                weights.append(seen.weights)
        x, weights = self.norm(x), weights if look else None
        if self.pooling == "worst":
            per_token = self.head(x).squeeze(-1)
            return Verdict(per_token.amin(1), per_token, weights)
        return Verdict(self.head(self.pool(x)).squeeze(-1), None, weights)

    @torch.inference_mode()
    def says_sorted(self, sequence):
        """'3 5 5 9' or [3, 5, 5, 9] -> True or False, as the model has it."""
        return bool(self(encode(sequence, self.shape["vocabulary"])).logits > 0)


def save_judge(model, path, **about):
    """A parameter that several layers share is one entry of the file, under its first name."""
    save_tensors(path, dict(model.named_parameters()), {"shape": model.shape, **about})


def load_judge(path):
    tensors, about = load_tensors(path)
    if "encoding" not in (about.get("shape") or {}):
        raise ValueError(f"{path} holds no judge: its header names no encoding (it says {json.dumps(about)}).")
    return load_into(Judge(**about["shape"]), tensors, path).eval()
