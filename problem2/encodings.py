"""Every positional encoding, one small class each. A class with a name enters ENCODINGS by itself, and with it every
table, curve, command and test.

    absolute   change the embeddings by where a token stands: sinusoidal, learned, randomized
    relative   change the logits of attention by how far a key is from its query: rope, alibi, t5, clipped, shaw
    neither    none, and causal, where only the mask tells earlier from later

Axes:  B batch   H head   Q query   K key   D head width   M model width
"""

import inspect
import math

import torch
from torch import nn

from problem1.attention import Positions, sinusoids

ENCODINGS = {}


class Encoding(Positions):
    """What all encodings share. Layers share one object, unless `per_layer` gives each layer its own.

    `trained` is how many positions a sequence has at most while training: 16, and one more with a CLS token.
    """

    name = label = None  # as typed, as shown
    causal = False  # may a token look at earlier tokens and itself only?
    per_layer = False

    def __init_subclass__(cls, name=None, label=None, **arguments):
        super().__init_subclass__(**arguments)
        if name:
            cls.name, cls.label = name, label or name
            ENCODINGS[name] = cls

    def __init__(self, width, heads, window=None, trained=16):
        super().__init__()
        if window is not None and window < 1:
            raise ValueError(f"window is {window}; it must be at least 1, or None for full attention.")
        if trained < 2:
            raise ValueError(f"trained is {trained}; the shortest sequence has 2 positions.")
        self.width, self.heads, self.window, self.trained = width, heads, window, trained

    def told(self, length):
        """(length, length) integers: what attention is told of a query's and a key's place, as one number."""
        return torch.zeros(length, length, dtype=torch.int64)


def differences(places):
    """(length, length): place of the key minus place of the query."""
    return places - places[:, None]


def make_encoding(name, width, heads, window=None, trained=16, **options):
    """The encoding of this name; `options` are the arguments that its own class adds."""
    if name not in ENCODINGS:
        raise ValueError(f"encoding is {name!r}; the known ones are {', '.join(ENCODINGS)}.")
    known = encoding_options(name)
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"encoding {name} has no option {option!r}; {has}.")
    return ENCODINGS[name](width, heads, window=window, trained=trained, **options)


def encoding_options(name):
    """{option: default} of the arguments that this encoding adds to those of all."""
    own = inspect.signature(ENCODINGS[name].__init__).parameters
    shared = inspect.signature(Encoding.__init__).parameters
    return {key: p.default for key, p in own.items() if key not in shared and p.default is not p.empty}


class Policies(Encoding):
    """What happens when a sequence is longer than `trained` is a policy, `beyond`. It may be changed at any time, so
    that a trained model can be asked again under another one.
    """

    policies = ()

    def __init__(self, width, heads, beyond, **shared):
        super().__init__(width, heads, **shared)
        self.beyond = beyond

    @property
    def beyond(self):
        return self._beyond

    @beyond.setter
    def beyond(self, policy):
        if policy not in self.policies:
            raise ValueError(f"beyond is {policy!r}; encoding {self.name} knows {', '.join(self.policies)}.")
        self._beyond = policy

    def places(self, length):
        """Where the tokens of a sequence stand: (length,)."""
        if self.beyond == "rescale" and length > self.trained:
            return torch.arange(length) * ((self.trained - 1) / (length - 1))
        return torch.arange(length)


# --- neither ---------------------------------------------------------------------------------------------------------


class NoEncoding(Encoding, name="none"):
    """Nothing: a full-attention model is then the same for every order of its input."""


class Causal(Encoding, name="causal", label="none + causal mask"):
    """Nothing but a causal mask: a token sees a set of earlier tokens, and the size of that set tells where it is."""

    causal = True


# --- absolute --------------------------------------------------------------------------------------------------------


class Absolute(Policies):
    """Adds a row per position to the embeddings."""

    def positions_of(self, x):
        """Where the tokens of x (B, length, M) stand: (length,) or (B, length)."""
        return self.places(x.shape[-2])

    def told(self, length):
        places = self.positions_of(torch.empty(1, length, 0)).round().long()
        return places[:, None] * 10_000 + places  # both of them

    def rows(self, positions):
        """What to add at these positions: (..., M)."""
        raise NotImplementedError

    def embed(self, x):
        return x + self.rows(self.positions_of(x))


class Sinusoidal(Absolute, name="sinusoidal"):
    """The assignment's table, as problem 1 has it. Beyond training:

    extend    the formula goes on
    rescale   positions are squeezed into 0..trained - 1

    With `shift` training moves each sequence as a whole by a random number of positions below it: every position up to
    there is then seen, but no distance greater than trained - 1.
    """

    policies = ("extend", "rescale")

    def __init__(self, width, heads, beyond="extend", shift=0, **shared):
        super().__init__(width, heads, beyond, **shared)
        if width % 2:
            raise ValueError(f"width is {width}; sines and cosines come in pairs, so it must be even.")
        if shift < 0:
            raise ValueError(f"shift is {shift}; it must be 0 or more.")
        self.shift = shift

    def positions_of(self, x):
        positions = super().positions_of(x)
        if self.training and self.shift:
            positions = positions + torch.randint(self.shift, (len(x), 1))
        return positions

    def rows(self, positions):
        return sinusoids(positions, self.width)


class Learned(Absolute, name="learned"):
    """A table with a free row for each position, of which training reaches the first `trained`. Beyond training:

    clamp       the last trained row serves all further positions (the assignment's policy)
    untrained   the further rows are used as they were initialised
    rescale     positions are squeezed into 0..trained - 1, and rows between two positions are interpolated
    """

    policies = ("clamp", "untrained", "rescale")

    def __init__(self, width, heads, beyond="clamp", table_rows=256, **shared):
        super().__init__(width, heads, beyond, **shared)
        if table_rows < self.trained:
            raise ValueError(f"table_rows is {table_rows}; training alone fills {self.trained}.")
        self.table = nn.Parameter(torch.randn(table_rows, width))

    def positions_of(self, x):
        positions = super().positions_of(x)
        if self.beyond == "clamp":
            return positions.clamp(max=self.trained - 1)
        if len(positions) > len(self.table) and self.beyond == "untrained":
            raise ValueError(f"the learned table has {len(self.table)} rows, too few for length {len(positions)}.")
        return positions

    def rows(self, positions):
        if not positions.is_floating_point():
            return self.table[positions]
        before = positions.long().clamp(max=self.trained - 2)
        return torch.lerp(self.table[before], self.table[before + 1], (positions - before)[..., None])


class Randomized(Absolute, name="randomized", label="randomized sinusoidal"):
    """Sinusoidal at random positions: training shows only their order, so a longer sequence holds nothing new.

    While training every sequence gets sorted positions drawn from 0..span - 1 without repetition (torch's generator);
    afterwards each token stands where it stood on average, evenly spaced.
    """

    policies = ("spread",)

    def __init__(self, width, heads, span=2_048, **shared):
        super().__init__(width, heads, "spread", **shared)
        self.span = span

    def positions_of(self, x):
        batch, length = x.shape[:2]
        if not self.training:  # the mean of the t-th of n sorted draws
            return torch.arange(1, length + 1) * ((self.span + 1) / (length + 1)) - 1
        if length > self.span:
            raise ValueError(f"length {length} does not fit into {self.span} random positions; choose a larger span.")
        return torch.rand(batch, self.span).topk(length, sorted=False).indices.sort().values

    def told(self, length):  # no single position matters: in which of `trained` parts of the range
        places = (self.positions_of(torch.empty(1, length, 0)) * self.trained / self.span).long()
        return places[:, None] * 10_000 + places

    def rows(self, positions):
        return sinusoids(positions, self.width)


# --- relative --------------------------------------------------------------------------------------------------------


class Rope(Policies, name="rope", label="RoPE"):
    """Turns each pair of coordinates of q and k by the angle t / 10000^(2i/D); q . k then depends on t - s only.
    Beyond training:

    extend    the angles go on
    rescale   positions are squeezed into 0..trained - 1
    """

    policies = ("extend", "rescale")

    def __init__(self, width, heads, beyond="extend", **shared):
        super().__init__(width, heads, beyond, **shared)
        if width // heads % 2:
            raise ValueError(f"heads of width {width // heads} cannot be turned in pairs; it must be even.")

    def told(self, length):
        return differences(self.places(length)).round().long()

    def rotate(self, q, k):
        return self.turn(q), self.turn(k)

    def turn(self, x):
        sin, cos = sinusoids(self.places(x.shape[-2]), x.shape[-1]).unflatten(-1, (-1, 2)).unbind(-1)  # length D/2
        even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class Alibi(Encoding, name="alibi", label="ALiBi (symmetric)"):
    """Minus distance times a fixed slope per head, 2^(-8h/H) for h = 1..H, the same to the left and to the right."""

    def told(self, length):
        return differences(torch.arange(length)).abs()

    def scores(self, q, k):
        slopes = 2.0 ** (-8 * torch.arange(1, self.heads + 1) / self.heads)
        return -slopes[None, :, None, None] * self.distances(q, k).abs()


class T5(Policies, name="t5", label="T5 buckets"):
    """A learned bias per head and bucket of distances. Half of the buckets are for keys to the right; in each half the
    first half holds one distance each, the rest widen logarithmically up to `farthest`, and the last takes all beyond.
    Beyond training:

    untrained   buckets that training never reached are used as they were initialised
    clamp       distances beyond trained - 1 count as the nearest of these
    rescale     distances are squeezed into the trained ones, rounded towards zero
    """

    policies = ("untrained", "clamp", "rescale")

    def __init__(self, width, heads, beyond="untrained", buckets=32, farthest=128, **shared):
        super().__init__(width, heads, beyond, **shared)
        if buckets < 4 or buckets % 4:
            raise ValueError(f"buckets is {buckets}; it must be a multiple of 4.")
        if farthest <= buckets // 4:
            raise ValueError(f"farthest is {farthest}; with {buckets} buckets it must be above {buckets // 4}.")
        self.buckets, self.farthest = buckets, farthest
        self.bias = nn.Parameter(torch.randn(heads, buckets))

    def bucket(self, distance):
        half, exact = self.buckets // 2, self.buckets // 4
        far = distance.abs().clamp(min=exact).double() / exact  # double: 16, 32 and 64 lie exactly on a border
        widening = exact + (far.log() / math.log(self.farthest / exact) * (half - exact)).long()
        bucket = torch.where(distance.abs() < exact, distance.abs(), widening.clamp(max=half - 1))
        return bucket + half * (distance > 0)

    def counted(self, distances, length):
        """The distances as the policy has them."""
        if self.beyond == "clamp":
            return distances.clamp(1 - self.trained, self.trained - 1)
        if self.beyond == "rescale" and length > self.trained:
            return (distances * ((self.trained - 1) / (length - 1))).trunc().long()
        return distances

    def told(self, length):
        return self.bucket(self.counted(differences(torch.arange(length)), length))

    def scores(self, q, k):
        return self.bias[:, self.bucket(self.counted(self.distances(q, k), k.shape[-2]))][None]


class Relative(Encoding):
    """Distances beyond -clip..clip count as the nearest of these."""

    def __init__(self, width, heads, clip, **shared):
        super().__init__(width, heads, **shared)
        if clip < 1:
            raise ValueError(f"clip is {clip}; it must be at least 1, to tell left from right.")
        self.clip = clip

    def told(self, length):
        return differences(torch.arange(length)).clamp(-self.clip, self.clip)

    def index(self, q, k):
        """0..2 clip: 0 for far left, `clip` for the token itself."""
        return self.distances(q, k).clamp(-self.clip, self.clip) + self.clip


class ClippedBias(Relative, name="clipped", label="relative bias (clipped)"):
    """A learned bias per head and clipped distance."""

    def __init__(self, width, heads, clip=2, **shared):
        super().__init__(width, heads, clip, **shared)
        self.bias = nn.Parameter(torch.randn(heads, 2 * clip + 1))

    def scores(self, q, k):
        return self.bias[:, self.index(q, k)][None]


class Shaw(Relative, name="shaw", label="Shaw (clipped)"):
    """A learned key per head and clipped distance, in every layer its own: q . (k + a) / sqrt(D)."""

    per_layer = True

    def __init__(self, width, heads, clip=2, **shared):
        super().__init__(width, heads, clip, **shared)
        self.keys = nn.Parameter(torch.randn(heads, 2 * clip + 1, width // heads))

    def scores(self, q, k):
        at_each_distance = q @ self.keys.transpose(-2, -1) / q.shape[-1] ** 0.5  # B H Q 2clip+1
        return at_each_distance.gather(-1, self.index(q, k).expand(*q.shape[:-1], -1))
