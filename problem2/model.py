"""The classifier: a Transformer encoder that says of a sequence of integers whether it is sorted.

    values -> embed -> block -> ... -> block -> norm -> pool -> head -> one logit, positive for sorted

Pooling "min" gives each token a logit of its own; the lowest is that of the sequence.
All sequences of a batch have one length: there is no padding, and no mask but the causal one.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from problem1.shared.attention import Attention, HeadActivations, feed_forward
from problem1.shared.errors import UserError
from problem1.shared.storage import load_model, save_model
from problem2.dataset import TRAINING_LENGTHS, VOCABULARY, check_tokens, encode
from problem2.encodings import Encoding, make_encoding, own_options

SHAPES = {
    "assignment": {"n_layers": 4, "n_heads": 4, "d_model": 128, "d_ff": 512},
    "small": {"n_layers": 2, "n_heads": 4, "d_model": 64, "d_ff": 128},
    "single": {"n_layers": 1, "n_heads": 4, "d_model": 64, "d_ff": 256},  # can be certified
}
POOLINGS = ("mean", "max", "cls", "min")
MOST = 100_000  # of any size


class Block(nn.Module):
    """One residual step, pre-norm: x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, positions: Encoding) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.attention = Attention(d_model, n_heads, positions)
        self.feed_forward = feed_forward(d_model, d_ff)

    def forward(
        self, x: Tensor, causal: bool = False, return_attention: bool = False
    ) -> tuple[Tensor, HeadActivations | None]:
        found, activations = self.attention(self.norm(x), causal=causal, return_attention=return_attention)
        x = x + found
        return x + self.feed_forward(x), activations


def logit_head(d_model: int) -> nn.Sequential:
    linears = nn.Linear(d_model, d_model // 2), nn.Linear(d_model // 2, 1)
    for linear in linears:
        nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(linear.bias)
    return nn.Sequential(linears[0], nn.ReLU(), linears[1])


def smooth_values(vocabulary: int, d_model: int) -> Tensor:
    """(vocabulary, M) of variance 1 in which near values have near rows: each coordinate is a wave over the values,
    from half a wave in all to one wave in eight, and starts at a random phase.
    """
    slow, fast = math.pi / vocabulary, 2 * math.pi / 8
    frequency = torch.logspace(math.log10(slow), math.log10(fast), d_model)
    phase = 2 * math.pi * torch.rand(d_model)
    return 2**0.5 * (torch.arange(vocabulary)[:, None] * frequency + phase).cos()


LEAST = {"n_layers": 1, "n_heads": 1, "d_model": 1, "d_ff": 0, "longest": 1, "vocabulary": 2}


def check_shape(shape: Mapping[str, Any]) -> None:
    """Refuse what is not of the type that a shape has: it may come from the header of a file."""
    for name, least in LEAST.items():
        if type(shape[name]) is not int or not least <= shape[name] <= MOST:
            raise UserError(f"{name} is {shape[name]!r}; it must be a whole number from {least} to {MOST:,}.")
    for name, types in {"encoding": str, "pooling": str, "smooth": bool, "options": Mapping}.items():
        if not isinstance(shape[name], types):
            raise UserError(f"{name} is {shape[name]!r}, which is not of type {types.__name__}.")
    if shape["window"] is not None and type(shape["window"]) is not int:
        raise UserError(f"window is {shape['window']!r}; it must be a whole number, or None for full attention.")


@dataclass
class Prediction:
    """What the classifier says of a batch."""

    logits: Tensor  # B, positive for sorted
    token_logits: Tensor | None  # B length, each token's own (pooling "min")
    attention: list[Tensor] | None  # if asked for, per layer B H Q K, with a window B H Q 2w+1; CLS is a position, too


class Classifier(nn.Module):
    """`options` are those of the encoding, `longest` is the longest sequence of the training, `smooth` gives
    neighbouring values similar embeddings to start with.
    """

    def __init__(
        self,
        encoding: str = "sinusoidal",
        n_layers: int = 4,
        n_heads: int = 4,
        d_model: int = 128,
        d_ff: int = 512,
        pooling: str = "mean",
        window: int | None = None,
        smooth: bool = False,
        longest: int = TRAINING_LENGTHS[1],
        vocabulary: int = VOCABULARY,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.shape: dict[str, Any] = {
            "encoding": encoding,
            "n_layers": n_layers,
            "n_heads": n_heads,
            "d_model": d_model,
            "d_ff": d_ff,
            "pooling": pooling,
            "window": window,
            "smooth": smooth,
            "longest": longest,
            "vocabulary": vocabulary,
            "options": options or {},
        }
        check_shape(self.shape)
        if pooling not in POOLINGS:
            known = "it is now called 'min'" if pooling == "worst" else f"it must be {', '.join(POOLINGS)}"
            raise UserError(f"pooling is {pooling!r}; {known}.")
        if pooling == "cls" and window is not None:
            raise UserError(f"pooling cls with window {window}: a CLS token would see its neighbours only.")
        self.shape["options"] = own_options(encoding, options or {})
        self.pooling = pooling

        trained = longest + (pooling == "cls")  # CLS takes a position too
        arguments = (encoding, d_model, n_heads, window, trained)
        encodings = [make_encoding(*arguments, **self.shape["options"])]
        for _ in range(1, n_layers):
            own = encodings[0].per_layer
            encodings.append(make_encoding(*arguments, **self.shape["options"]) if own else encodings[0])

        values = smooth_values(vocabulary, d_model) if smooth else torch.randn(vocabulary, d_model)
        self.embedding = nn.Embedding.from_pretrained(values, freeze=False)
        self.cls = nn.Parameter(torch.randn(d_model)) if pooling == "cls" else None
        self.positions = encodings[0]
        self.blocks = nn.ModuleList(Block(d_model, n_heads, d_ff, positions) for positions in encodings)
        self.norm = nn.LayerNorm(d_model)
        self.head = logit_head(d_model)

    def embed(self, tokens: Tensor) -> Tensor:
        """(B, length) -> (B, length, M); with CLS length + 1, first, or last where only the last token sees all."""
        x = self.embedding(tokens)
        if self.cls is not None:
            cls = self.cls.expand(len(x), 1, -1)
            x = torch.cat([x, cls] if self.positions.causal else [cls, x], dim=1)
        return self.positions.embed(x)

    def pool(self, x: Tensor) -> Tensor:
        """(B, length, M) -> (B, M)."""
        if self.pooling == "cls":
            return x[:, -1 if self.positions.causal else 0]
        return x.mean(1) if self.pooling == "mean" else x.amax(1)

    def forward(self, tokens: Tensor, return_attention: bool = False) -> Prediction:
        """The Prediction on tokens (B, length)."""
        check_tokens(tokens, self.shape["vocabulary"])
        x, weights = self.embed(tokens), []
        for block in self.blocks:
            x, activations = block(x, self.positions.causal, return_attention)
            if return_attention:
                weights.append(activations.weights)
        x, attention = self.norm(x), weights if return_attention else None
        if self.pooling == "min":
            token_logits = self.head(x).squeeze(-1)
            return Prediction(token_logits.amin(1), token_logits, attention)
        return Prediction(self.head(self.pool(x)).squeeze(-1), None, attention)

    @torch.inference_mode()
    def says_sorted(self, sequence: str | Iterable[Any]) -> bool:
        """'3 5 5 9' or [3, 5, 5, 9] -> True or False, as the model has it."""
        return bool(self(encode(sequence, self.shape["vocabulary"])).logits > 0)


# --- nothing but the weights is its own ------------------------------------------------------------------------------


def check_untouched(model: Classifier) -> None:
    """Refuse a model that differs from a new Classifier of its shape in more than the numbers of its parameters: in a
    class, a hook, an attribute (so it has no method of its own), the order or sharing of its parts, the type or shape
    of a parameter; and refuse NaN.
    """
    with torch.random.fork_rng(devices=[]):
        new = Classifier(**model.shape)
    found, expected = (dict(each.named_modules(remove_duplicate=False)) for each in (model, new))
    for name in [*expected, *found]:
        part, classes = name or "the classifier", [type(modules.get(name)) for modules in (found, expected)]
        if classes[0] is not classes[1]:
            raise UserError(f"{part} is a {classes[0].__name__}; in a Classifier it is a {classes[1].__name__}.")
        if attribute := difference(attributes(found[name]), attributes(expected[name])):
            raise UserError(f"{part} has {attribute!r} of its own; it must be as in every Classifier of this shape.")
    if first_names(found) != first_names(expected):
        raise UserError(
            "parts of the classifier stand in another order, or for each other; they must be as in a new one."
        )
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise UserError("some weights of the classifier are not finite numbers.")


def first_names(modules: Mapping[str, nn.Module]) -> list[str]:
    """For each name, in their order, the first one under which the same module is known."""
    known: dict[int, str] = {}
    return [known.setdefault(id(module), name) for name, module in modules.items()]


def attributes(module: nn.Module) -> dict[str, Any]:
    """All but submodules, which are compared on their own, and `training`: nothing is drawn at random. Of parameters
    all but the numbers. What holds them must be plain dictionaries: others may find something else than they list.
    """
    kept = {name: value for name, value in vars(module).items() if name not in ("training", "_modules", "_parameters")}
    known = {
        f"parameter {name}": p if p is None else (type(p), p.dtype, p.device, p.layout, p.shape, dict(vars(p)))
        for name, p in module._parameters.items()
    }
    holders = {"types of dictionaries": [type(each) for each in (vars(module), module._modules, module._parameters)]}
    return kept | known | holders


def difference(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """A name whose value is missing, additional, or of another type or value."""
    for name in sorted(found.keys() | expected.keys()):
        values = [each.get(name, ...) for each in (found, expected)]
        if type(values[0]) is not type(values[1]) or values[0] != values[1]:
            return name
    return None


# --- files -----------------------------------------------------------------------------------------------------------


def save_classifier(model: Classifier, path: str | Path, **about: Any) -> None:
    save_model(model, path, **about)


def load_classifier(path: str | Path) -> Classifier:
    return load_model(path, Classifier, needs="encoding")
