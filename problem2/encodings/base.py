"""What all encodings share: registry, options, policies for long sequences; and those that encode nothing."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from problem1.shared.attention import Positions
from problem1.shared.errors import UserError

ENCODINGS: dict[str, type["Encoding"]] = {}
ASSIGNED = ("sinusoidal", "learned", "none")  # the assignment's
HIGHEST = 10_000  # of an option: nothing can fill the memory
LIMITS = {
    "clip": (1, HIGHEST),
    "buckets": (4, HIGHEST),
    "span": (17, HIGHEST),
    "longest": (1, HIGHEST),
    "values": (0, 1),
    "ssmax": (0, 1),
}
WIDEST = 64  # a window: every query then holds 129 keys
RENAMED = {"rescale": "it is now called 'interpolate'"}


class Encoding(Positions):
    """What all encodings share. Layers share one object, unless `per_layer` gives each layer its own. `trained` is how
    many positions a sequence has at most while training: 16, and one more with a CLS token.

    With `ssmax` softmax is scalable (Nakanishi, 2025): every layer multiplies its logits by s log n, n being the number
    of keys that a query sees and s learned per head. It starts at 1 / log(trained), where `trained` keys leave the
    logits as they are.
    """

    name = label = ""  # as typed, as shown
    causal = False  # may a token attend to earlier tokens and itself only?
    per_layer = False

    def __init_subclass__(cls, name: str = "", label: str = "", **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if name:
            cls.name, cls.label = name, label or name
            ENCODINGS[name] = cls

    def __init__(
        self, d_model: int, n_heads: int, window: int | None = None, trained: int = 16, ssmax: int = 0
    ) -> None:
        super().__init__()
        if window is not None and not 1 <= window <= WIDEST:
            raise UserError(f"window is {window}; it must lie between 1 and {WIDEST}, or be None for full attention.")
        self.d_model, self.n_heads, self.window, self.trained = d_model, n_heads, window, trained
        self.scalable = trained if ssmax else None

    def relation(self, length: int) -> Tensor:
        """(length, length) integers: what attention knows of the positions of a query and a key, as one number."""
        return torch.zeros(length, length, dtype=torch.int64)


def relative_positions(positions: Tensor) -> Tensor:
    """(length, length): position of the key minus position of the query."""
    return positions - positions[:, None]


def check_pairs(d_model: int) -> None:
    """Sinusoidal rows of an odd width do not exist."""
    if d_model % 2:
        raise UserError(f"d_model is {d_model}; sines and cosines come in pairs, so it must be even.")


def make_encoding(
    name: str, d_model: int, n_heads: int, window: int | None = None, trained: int = 16, **options: Any
) -> Encoding:
    """The encoding of this name; `options` are those of `encoding_options`."""
    options = own_options(name, options)
    return ENCODINGS[name](d_model, n_heads, window=window, trained=trained, **options)


def encoding_options(name: str) -> dict[str, int | str]:
    """{option: default}: the arguments that this encoding adds to those of all, and `ssmax`."""
    if name not in ENCODINGS:
        raise UserError(f"encoding is {name!r}; the known ones are {', '.join(ENCODINGS)}.")
    own = inspect.signature(ENCODINGS[name].__init__).parameters
    shared = inspect.signature(Encoding.__init__).parameters
    options = {key: p.default for key, p in own.items() if key not in shared and p.default is not p.empty}
    return {**options, "ssmax": shared["ssmax"].default}


def own_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that differ from their defaults, in alphabetical order: one encoding, one dictionary.

    An option is of the kind of its default: a whole number within limits, or a word, which its class checks.
    """
    defaults = encoding_options(name)
    for option, value in options.items():
        if option not in defaults:
            raise UserError(f"encoding {name} has no option {option!r}; it has {', '.join(defaults)}.")
        low, high = LIMITS.get(option, (0, HIGHEST))
        if isinstance(defaults[option], int) and not (type(value) is int and low <= value <= high):
            raise UserError(f"{option} is {value!r}; it must be a whole number between {low} and {high}.")
    return {option: options[option] for option in sorted(options) if options[option] != defaults[option]}


class Policies(Encoding):
    """What happens when a sequence is longer than `trained` is a policy, `beyond`. It may be changed at any time, so
    that a trained model can be tested under another one. What several have in common:

    extend        the formula goes on
    clamp         further positions count as the last trained one
    interpolate   positions are squeezed into 0..trained - 1 (Chen et al., 2023)
    moved         squeezed like these, then moved as a whole to the last `trained` positions of the long sequence: they
                  are interpolated but for one thing, that training never reached them
    """

    policies: tuple[str, ...] = ()

    def __init__(self, d_model: int, n_heads: int, beyond: str, **rest: Any) -> None:
        super().__init__(d_model, n_heads, **rest)
        self.beyond = beyond

    @property
    def beyond(self) -> str:
        return self._beyond

    @beyond.setter
    def beyond(self, policy: str) -> None:
        if policy not in self.policies:
            known = f"encoding {self.name} knows {', '.join(self.policies)}"
            raise UserError(f"beyond is {policy!r}; {RENAMED.get(policy, known)}.")
        self._beyond = policy

    def token_positions(self, length: int) -> Tensor:
        """The positions of the tokens of a sequence: (length,)."""
        positions = torch.arange(length)
        if length <= self.trained:
            return positions
        if self.beyond == "clamp":
            return positions.clamp(max=self.trained - 1)
        if self.beyond in ("interpolate", "moved"):
            positions = positions * ((self.trained - 1) / (length - 1))
        return positions + (length - self.trained) if self.beyond == "moved" else positions


class NoEncoding(Encoding, name="none"):
    """Nothing: a full-attention model is then the same for every order of its input."""


class Causal(Encoding, name="causal", label="NoPE, causal"):
    """Nothing but a causal mask: how many tokens a token sees tells its position (Kazemnejad et al., 2023)."""

    causal = True
