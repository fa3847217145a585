"""Every positional encoding, one small class each. A class with a name enters ENCODINGS, and every table, by itself.

    absolute   change the embeddings by where a token stands: sinusoidal, learned, randomized
    relative   change the logits of attention by how far a key is from its query: rope, alibi, t5, clipped, shaw
    neither    none, and causal, where only the mask tells earlier from later

Axes:  B batch   H head   Q query   K key   D head width   M model width
"""

import inspect
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from problem1.shared.attention import Positions, sinusoids
from problem1.shared.errors import UserError

ENCODINGS: dict[str, type["Encoding"]] = {}
ASSIGNED = ("sinusoidal", "learned", "none")  # the assignment's
LOWEST, HIGHEST = {"clip": 1, "buckets": 4, "span": 17}, 10_000  # of options: nothing can fill the memory
WIDEST = 64  # a window: every query then holds 129 keys
RENAMED = {"rescale": "it is now called 'interpolate'"}


class Encoding(Positions):
    """What all encodings share. Layers share one object, unless `per_layer` gives each layer its own. `trained` is how
    many positions a sequence has at most while training: 16, and one more with a CLS token.
    """

    name = label = ""  # as typed, as shown
    causal = False  # may a token attend to earlier tokens and itself only?
    per_layer = False

    def __init_subclass__(cls, name: str = "", label: str = "", **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if name:
            cls.name, cls.label = name, label or name
            ENCODINGS[name] = cls

    def __init__(self, d_model: int, n_heads: int, window: int | None = None, trained: int = 16) -> None:
        super().__init__()
        if window is not None and not 1 <= window <= WIDEST:
            raise UserError(f"window is {window}; it must lie between 1 and {WIDEST}, or be None for full attention.")
        self.d_model, self.n_heads, self.window, self.trained = d_model, n_heads, window, trained

    def relation(self, length: int) -> Tensor:
        """(length, length) integers: what attention knows of the positions of a query and a key, as one number."""
        return torch.zeros(length, length, dtype=torch.int64)


def relative_positions(positions: Tensor) -> Tensor:
    """(length, length): position of the key minus position of the query."""
    return positions - positions[:, None]


def make_encoding(
    name: str, d_model: int, n_heads: int, window: int | None = None, trained: int = 16, **options: Any
) -> Encoding:
    """The encoding of this name; `options` are the arguments that its own class adds."""
    options = own_options(name, options)
    return ENCODINGS[name](d_model, n_heads, window=window, trained=trained, **options)


def encoding_options(name: str) -> dict[str, int | str]:
    """{option: default} of the arguments that this encoding adds to those of all."""
    if name not in ENCODINGS:
        raise UserError(f"encoding is {name!r}; the known ones are {', '.join(ENCODINGS)}.")
    own = inspect.signature(ENCODINGS[name].__init__).parameters
    shared = inspect.signature(Encoding.__init__).parameters
    return {key: p.default for key, p in own.items() if key not in shared and p.default is not p.empty}


def own_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that differ from their defaults, in alphabetical order: one encoding, one dictionary.

    An option is of the kind of its default: a whole number within limits, or a word, which its class checks.
    """
    defaults = encoding_options(name)
    for option, value in options.items():
        if option not in defaults:
            has = f"it has {', '.join(defaults)}" if defaults else "it has none"
            raise UserError(f"encoding {name} has no option {option!r}; {has}.")
        low = LOWEST.get(option, 0)
        if isinstance(defaults[option], int) and not (type(value) is int and low <= value <= HIGHEST):
            raise UserError(f"{option} is {value!r}; it must be a whole number between {low} and {HIGHEST}.")
    return {option: options[option] for option in sorted(options) if options[option] != defaults[option]}


class Policies(Encoding):
    """What happens when a sequence is longer than `trained` is a policy, `beyond`. It may be changed at any time, so
    that a trained model can be tested under another one. What several have in common:

    extend        the formula goes on
    interpolate   positions are squeezed into 0..trained - 1 (Chen et al., 2023)
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
        if self.beyond == "interpolate" and length > self.trained:
            return torch.arange(length) * ((self.trained - 1) / (length - 1))
        return torch.arange(length)


class NoEncoding(Encoding, name="none"):
    """Nothing: a full-attention model is then the same for every order of its input."""


class Causal(Encoding, name="causal", label="NoPE, causal"):
    """Nothing but a causal mask: how many tokens a token sees tells its position (Kazemnejad et al., 2023)."""

    causal = True


# --- absolute --------------------------------------------------------------------------------------------------------


class Absolute(Policies):
    """Adds a row per position to the embeddings, of sines and cosines unless a class has its own."""

    def positions_of(self, x: Tensor) -> Tensor:
        """The positions of the tokens of x (B, length, M): (length,) or (B, length)."""
        return self.token_positions(x.shape[-2])

    def relation(self, length: int) -> Tensor:
        positions = self.positions_of(torch.empty(1, length, 0)).round().long()
        return positions[:, None] * 10_000 + positions  # both of them

    def rows(self, positions: Tensor) -> Tensor:
        """What to add at these positions: (..., M)."""
        return sinusoids(positions, self.d_model)

    def embed(self, x: Tensor) -> Tensor:
        return x + self.rows(self.positions_of(x))


class Sinusoidal(Absolute, name="sinusoidal"):
    """The assignment's table (Vaswani et al., 2017), as problem 1 has it. With `shift` training moves each sequence as
    a whole by a random number of positions below it: it then sees every position up to there, but no greater distance.
    """

    policies = ("extend", "interpolate")

    def __init__(self, d_model: int, n_heads: int, beyond: str = "extend", shift: int = 0, **rest: Any) -> None:
        super().__init__(d_model, n_heads, beyond, **rest)
        if d_model % 2:
            raise UserError(f"d_model is {d_model}; sines and cosines come in pairs, so it must be even.")
        self.shift = shift

    def positions_of(self, x: Tensor) -> Tensor:
        positions = super().positions_of(x)
        if self.training and self.shift:
            positions = positions + torch.randint(self.shift, (len(x), 1))
        return positions


class Learned(Absolute, name="learned"):
    """A table with a free row for each position, of which training reaches the first `trained`. Beyond training:

    clamp         the last trained row serves all further positions (the assignment's policy)
    untrained     the further rows are used as they were initialised
    interpolate   a position between two rows gets a mixture of both
    """

    policies = ("clamp", "untrained", "interpolate")

    def __init__(self, d_model: int, n_heads: int, beyond: str = "clamp", table_rows: int = 256, **rest: Any) -> None:
        super().__init__(d_model, n_heads, beyond, **rest)
        if table_rows < self.trained:
            raise UserError(f"table_rows is {table_rows}; training alone fills {self.trained}.")
        self.table = nn.Parameter(torch.randn(table_rows, d_model))

    def positions_of(self, x: Tensor) -> Tensor:
        positions = super().positions_of(x)
        if self.beyond == "clamp":
            return positions.clamp(max=self.trained - 1)
        if len(positions) > len(self.table) and self.beyond == "untrained":
            raise UserError(f"the learned table has {len(self.table)} rows, too few for length {len(positions)}.")
        return positions

    def rows(self, positions: Tensor) -> Tensor:
        if not positions.is_floating_point():
            return self.table[positions]
        before = positions.long().clamp(max=self.trained - 2)
        return torch.lerp(self.table[before], self.table[before + 1], (positions - before)[..., None])


class Randomized(Absolute, name="randomized", label="randomized sinusoidal"):
    """Sinusoidal at random positions (Ruoss et al., 2023), of which only the order means something. While training each
    sequence gets sorted positions drawn from 0..span - 1 without repetition, afterwards their means: evenly spaced.
    """

    policies = ("spread",)

    def __init__(self, d_model: int, n_heads: int, span: int = 2_048, **rest: Any) -> None:
        super().__init__(d_model, n_heads, "spread", **rest)
        self.span = span

    def positions_of(self, x: Tensor) -> Tensor:
        batch, length = x.shape[:2]
        if not self.training:  # the mean of the t-th of n sorted draws
            return torch.arange(1, length + 1) * ((self.span + 1) / (length + 1)) - 1
        if length > self.span:
            raise UserError(f"length {length} does not fit into {self.span} random positions; choose a larger span.")
        return torch.rand(batch, self.span).topk(length, sorted=False).indices.sort().values

    def relation(self, length: int) -> Tensor:  # no single position matters: in which of `trained` parts of the range
        positions = (self.positions_of(torch.empty(1, length, 0)) * self.trained / self.span).long()
        return positions[:, None] * 10_000 + positions


# --- relative --------------------------------------------------------------------------------------------------------


class Rope(Policies, name="rope", label="RoPE"):
    """Turns pairs of coordinates of q and k by t / 10000^(2i/D): q . k depends on t - s only (Su et al., 2021)."""

    policies = ("extend", "interpolate")

    def __init__(self, d_model: int, n_heads: int, beyond: str = "extend", **rest: Any) -> None:
        super().__init__(d_model, n_heads, beyond, **rest)
        if d_model // n_heads % 2:
            raise UserError(f"heads of width {d_model // n_heads} cannot be turned in pairs; it must be even.")

    def relation(self, length: int) -> Tensor:
        return relative_positions(self.token_positions(length)).round().long()

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q), self.turn(k)

    def turn(self, x: Tensor) -> Tensor:
        sin, cos = sinusoids(self.token_positions(x.shape[-2]), x.shape[-1]).unflatten(-1, (-1, 2)).unbind(-1)
        even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class Alibi(Encoding, name="alibi", label="ALiBi (symmetric)"):
    """Minus distance times a fixed slope per head, 2^(-8h/H) for h = 1..H, on both sides (Press et al., 2022: left)."""

    def relation(self, length: int) -> Tensor:
        return relative_positions(torch.arange(length)).abs()

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        slopes = 2.0 ** (-8 * torch.arange(1, self.n_heads + 1) / self.n_heads)
        return -slopes[None, :, None, None] * self.distances(q, k).abs()


class T5(Policies, name="t5", label="T5 buckets"):
    """A learned bias per head and bucket of distances. Half of the buckets are for keys to the right; in each half the
    first half holds one distance each, the rest widen logarithmically up to `farthest`, and the last takes all beyond
    (Raffel et al., 2020). Beyond training:

    untrained     buckets that training never reached are used as they were initialised
    clamp         distances beyond trained - 1 count as the nearest of these
    interpolate   distances are squeezed into the trained ones, rounded towards zero
    """

    policies = ("untrained", "clamp", "interpolate")

    def __init__(
        self, d_model: int, n_heads: int, beyond: str = "untrained", buckets: int = 32, farthest: int = 128, **rest: Any
    ) -> None:
        super().__init__(d_model, n_heads, beyond, **rest)
        if buckets % 4:
            raise UserError(f"buckets is {buckets}; it must be a multiple of 4.")
        if farthest <= buckets // 4:
            raise UserError(f"farthest is {farthest}; with {buckets} buckets it must be above {buckets // 4}.")
        self.buckets, self.farthest = buckets, farthest
        self.bias_table = nn.Parameter(torch.randn(n_heads, buckets))

    def bucket(self, distance: Tensor) -> Tensor:
        half, exact = self.buckets // 2, self.buckets // 4
        far = distance.abs().clamp(min=exact).double() / exact  # double: 16, 32 and 64 lie exactly on a border
        widening = exact + (far.log() / math.log(self.farthest / exact) * (half - exact)).long()
        bucket = torch.where(distance.abs() < exact, distance.abs(), widening.clamp(max=half - 1))
        return bucket + half * (distance > 0)

    def counted(self, distances: Tensor, length: int) -> Tensor:
        """The distances as the policy has them."""
        if self.beyond == "clamp":
            return distances.clamp(1 - self.trained, self.trained - 1)
        if self.beyond == "interpolate" and length > self.trained:
            return (distances * ((self.trained - 1) / (length - 1))).trunc().long()
        return distances

    def relation(self, length: int) -> Tensor:
        return self.bucket(self.counted(relative_positions(torch.arange(length)), length))

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        return self.bias_table[:, self.bucket(self.counted(self.distances(q, k), k.shape[-2]))][None]


class Relative(Encoding):
    """Distances beyond -clip..clip count as the nearest of these."""

    def __init__(self, d_model: int, n_heads: int, clip: int, **rest: Any) -> None:
        super().__init__(d_model, n_heads, **rest)
        self.clip = clip

    def relation(self, length: int) -> Tensor:
        return relative_positions(torch.arange(length)).clamp(-self.clip, self.clip)

    def index(self, q: Tensor, k: Tensor) -> Tensor:
        """0..2 clip: 0 for far left, `clip` for the token itself."""
        return self.distances(q, k).clamp(-self.clip, self.clip) + self.clip


class ClippedBias(Relative, name="clipped", label="relative bias (clipped)"):
    """A learned bias per head and clipped distance."""

    def __init__(self, d_model: int, n_heads: int, clip: int = 2, **rest: Any) -> None:
        super().__init__(d_model, n_heads, clip, **rest)
        self.bias_table = nn.Parameter(torch.randn(n_heads, 2 * clip + 1))

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        return self.bias_table[:, self.index(q, k)][None]


class Shaw(Relative, name="shaw", label="Shaw (clipped)"):
    """A learned key per head and clipped distance, in every layer its own: q . (k + a) / sqrt(D). Shaw et al., 2018."""

    per_layer = True

    def __init__(self, d_model: int, n_heads: int, clip: int = 2, **rest: Any) -> None:
        super().__init__(d_model, n_heads, clip, **rest)
        self.keys = nn.Parameter(torch.randn(n_heads, 2 * clip + 1, d_model // n_heads))

    def bias(self, q: Tensor, k: Tensor) -> Tensor:
        at_each_distance = q @ self.keys.transpose(-2, -1) / q.shape[-1] ** 0.5  # B H Q 2clip+1
        return at_each_distance.gather(-1, self.index(q, k).expand(*q.shape[:-1], -1))
