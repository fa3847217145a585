"""Proof by enumeration that a classifier is right on every sequence of every length: `python -m problem2.certificate`.

One layer, attention to the two neighbours, no absolute position, a logit per token, the lowest of which is that of the
sequence. Then the logit of a token depends on at most three values, and all logits that tokens can ever have fit into
three tables. A token rejects when its logit is not positive, else it accepts.

    (a) no token rejects in a sorted triple, or at a sorted end
    (b) no walk along accepting tokens leads over a descent to an accepting last token

A sorted sequence shows its tokens only sorted triples and ends, and every sorted triple and end occurs in one: (a) says
that all sorted sequences are accepted. An unsorted sequence is accepted exactly when all its tokens accept, which makes
it a walk of (b): from its first pair of neighbours to its last, each step one accepting middle token. So (a) and (b)
together are necessary and sufficient.

The tables hold an interval for each logit (see rounding.py), in which lie the exact value and that of any evaluation in
float64. (a) is shown for the lower ends and (b) for the upper ends: a proof for real numbers. In float32 the forward
pass is run on every pair and triple as well, and must stay far from the margin; on longer sequences, where sums may be
taken in another order, it is sampled.

What is certified is a file of weights, read by the code as it is written, in a process of its own: that is what the
command does. In a process that somebody has tampered with, `check_form` refuses what it can see; what was replaced
before this module was imported, or inside torch, it cannot see.
"""

import copy
import itertools
import sys
import time
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from problem1.shared import attention
from problem1.shared.attention import Attention, Positions
from problem1.shared.commands import Parser, one_sentence, parse_path
from problem1.shared.errors import UserError
from problem1.shared.training import one_thread
from problem2 import dataset as dataset_module
from problem2 import model as model_module
from problem2.dataset import in_order
from problem2.encodings import ClippedBias, Encoding, NoEncoding, Shaw
from problem2.model import Block, Classifier, check_untouched, load_classifier
from problem2.published import CERTIFIED
from problem2.rounding import bounded_tables

CERTIFIABLE = (Shaw, ClippedBias, NoEncoding)
MODULES = (Classifier, nn.Embedding, nn.ModuleList, Block, nn.LayerNorm, Attention, nn.Linear, nn.Sequential, nn.ReLU)
CHECKED_LENGTHS = (*range(2, 18), 32, 64, 128, 256, 512, 1_024)
SHOWN = 10  # counterexamples
UNREACHED, BEGIN = -1, -2  # of a node: no walk leads to it; a walk begins with it
SAFETY = 100  # the margin must be this many times the largest sampled difference of float32


# --- the form that the argument needs --------------------------------------------------------------------------------


def check_form(model: Classifier) -> None:
    """Refuse in one sentence every classifier for which the argument is not known to hold.

    It holds for what Classifier(**shape) makes with one layer, window 1, pooling min and one of three encodings,
    whatever the weights: `check_untouched` sees to it that nothing but these is the model's own.
    """
    if type(model) is not Classifier or type(vars(model).get("shape")) is not dict:
        raise UserError(f"the model is a {type(model).__name__}; a certificate allows a Classifier with a shape only.")
    if code_changed() or _has_any_global_hook():
        raise UserError(
            "a function that the model calls has been replaced; a certificate needs all as they are written."
        )
    for name, needed, reason in (
        ("pooling", "min", "a logit per token, of which the lowest counts"),
        ("n_layers", 1, "with more a token sees beyond its neighbours"),
        ("window", 1, "attention to the two neighbours"),
    ):
        if model.shape.get(name) != needed:
            raise UserError(f"{name} is {model.shape.get(name)!r}; a certificate needs {needed!r}: {reason}.")
    if not isinstance(model._modules.get("positions"), Encoding):
        raise UserError("the classifier has no encoding; a certificate needs one.")
    if type(model.positions) not in CERTIFIABLE:
        allowed = " or ".join(encoding.name for encoding in CERTIFIABLE)
        raise UserError(f"encoding {model.positions.name} {why_not(model.positions)}; a certificate allows {allowed}.")
    options = model.shape.get("options")
    if type(options) is not dict or options.keys() - {"clip"}:
        raise UserError(f"options are {options!r}; a certificate allows clip only: others change what a token reads.")
    try:
        check_untouched(model)
    except TypeError:
        raise UserError(f"no Classifier has the shape {model.shape}; a certificate needs one of known shape.") from None
    if any(parameter.dtype is not torch.float32 for parameter in model.parameters()):
        raise UserError("some weights of the classifier are not float32; the bound on rounding needs them to be.")


def why_not(positions: Encoding) -> str:
    encoding = type(positions)
    if encoding.causal:
        return "hides the right neighbour"
    if encoding.embed is not Positions.embed:
        return "adds absolute positions to the embeddings"
    if encoding.rotate is not Positions.rotate:
        return "turns queries and keys by their positions"
    return "is none of those of which it is known that a logit depends on three values only"


def fingerprint(value: Any) -> tuple[Any, ...]:
    """What must stay the very same object; of a function also what it is made of."""
    function = isinstance(value, types.FunctionType)
    return (value, value.__code__, value.__defaults__, value.__kwdefaults__) if function else (value,)


def code_now() -> dict[tuple[Any, str], tuple[Any, ...]]:
    """What the forward pass may call or read, by owner and name, as it stands at this moment."""
    owners = {base for known in (*MODULES, *CERTIFIABLE) for base in known.__mro__}
    passing = ("__slotnames__", "__dict__", "__weakref__", "__annot")  # such names come and go by themselves
    found: dict[tuple[Any, str], tuple[Any, ...]] = {}
    for owner in owners:
        found |= {
            (owner, name): fingerprint(value) for name, value in vars(owner).items() if not name.startswith(passing)
        }
    encodings = [module for name, module in sys.modules.items() if name.startswith("problem2.encodings")]
    for module in (attention, model_module, dataset_module, *encodings):
        own = {name: value for name, value in vars(module).items() if not name.startswith("__")}
        found |= {(module, name): fingerprint(value) for name, value in own.items()}
    return found


def code_changed() -> bool:
    now = code_now()
    if now.keys() != CODE.keys():
        return True
    return any(a is not b for key, parts in now.items() for a, b in zip(parts, CODE[key], strict=False))


CODE = code_now()


# --- every logit there can be ----------------------------------------------------------------------------------------


@dataclass
class Tables:
    """The logit of a token, by the values that it sees. V is the size of the vocabulary."""

    first: np.ndarray  # V V: its own value, the right one
    middle: np.ndarray  # V V V: the left value, its own, the right one
    last: np.ndarray  # V V: the left value, its own

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.first, self.middle, self.last))

    @property
    def lowest(self) -> float:
        return float(min(table.min() for table in self))

    @property
    def highest(self) -> float:
        return float(max(table.max() for table in self))

    def of(self, tokens: np.ndarray) -> np.ndarray:
        """The logits of tokens (N, length), read from the tables."""
        return np.concatenate(
            [
                self.first[tokens[:, 0], tokens[:, 1]][:, None],
                self.middle[tokens[:, :-2], tokens[:, 1:-1], tokens[:, 2:]],
                self.last[tokens[:, -2], tokens[:, -1]][:, None],
            ],
            axis=1,
        )

    def logit(self, sequence: list[int]) -> float:
        """The lowest logit in one sequence, read from the tables."""
        return float(self.of(np.array([sequence])).min())

    def sorted_entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Masks over first, middle and last: the entries that a sorted sequence can show."""
        pair = np.triu(np.ones_like(self.first, dtype=bool))
        return pair, pair[:, :, None] & pair[None], pair


def every_triple(size: int) -> np.ndarray:
    """A sequence of size^3 + 2 values below `size` in which each triple of neighbours comes exactly once: a de Bruijn
    sequence, made of the Lyndon words of length 1 and 3 in alphabetical order."""
    words = np.indices((size,) * 3).reshape(3, -1)  # a b c, in alphabetical order
    numbers = [np.ravel_multi_index(np.roll(words, shift, axis=0), (size,) * 3) for shift in range(3)]
    words = words[:, (numbers[0] < numbers[1]) & (numbers[0] < numbers[2])]  # smaller than their rotations
    cycle = np.concatenate([[a, *words[:, words[0] == a].T.ravel()] for a in range(size)]).astype(int)
    return np.concatenate([cycle, cycle[:2]])


@torch.inference_mode()
def tabulate(model: Classifier, length: int = 1_000) -> Tables:
    """The model's own forward pass in float32: no proof. Ends are read from all pairs, the middle from pieces of a
    sequence that shows every triple once."""
    size = model.shape["vocabulary"]
    values, sequence = torch.arange(size), torch.from_numpy(every_triple(size))
    pairs = torch.cartesian_prod(values, values)
    ends = torch.cat([token_logits(model, batch) for batch in pairs.split(length)])
    pieces = [sequence[start : start + length + 2][None] for start in range(0, len(sequence) - 2, length)]
    inner = torch.cat([token_logits(model, piece)[0, 1:-1] for piece in pieces])
    if not (ends.isfinite().all() and inner.isfinite().all()):
        raise UserError("some logits of the classifier are not finite numbers; its weights are spoiled.")
    middle = torch.empty(size, size, size)
    middle[sequence[:-2], sequence[1:-1], sequence[2:]] = inner
    return Tables(ends[:, 0].view(size, size).numpy(), middle.numpy(), ends[:, 1].view(size, size).numpy())


def token_logits(model: Classifier, tokens: Tensor) -> Tensor:
    logits = model(tokens).token_logits
    assert logits is not None, "pooling is min"
    return logits


@torch.inference_mode()
def sampled_differences(model: Classifier, tables: Tables, tokens_per_length: int = 8_192) -> tuple[float, float]:
    """Largest difference of a run in float32, and of one in float64, from the tables, over every token of random
    sequences of 2 to 1,024 values, half of them sorted.
    """
    precise, draw, found = copy.deepcopy(model).double(), np.random.default_rng([0, 3]), []
    for length in CHECKED_LENGTHS:
        tokens = draw.integers(len(tables.first), size=(max(2, tokens_per_length // length), length))
        tokens[::2].sort(axis=1)
        runs = (token_logits(each, torch.from_numpy(tokens)).double().numpy() for each in (model, precise))
        found.append([abs(run - tables.of(tokens)).max() for run in runs])
    single, double = np.max(found, axis=0)
    return float(single), float(double)


# --- (a) and (b) -----------------------------------------------------------------------------------------------------


def rejected_sequences(tables: Tables, threshold: float = 0.0) -> list[list[int]]:
    """(a): every sorted pair and triple with a token whose logit is not above the threshold, pairs first."""
    first, middle, last = tables.sorted_entries()
    pairs = ((tables.first <= threshold) & first) | ((tables.last <= threshold) & last)
    return [*np.argwhere(pairs).tolist(), *np.argwhere((tables.middle <= threshold) & middle).tolist()]


def accepted_sequence(tables: Tables, threshold: float = 0.0) -> list[int] | None:
    """(b): a shortest unsorted sequence whose tokens are all above the threshold, or None if there is none.

    Breadth first over the nodes (descent seen?, left, own), a whole layer at a time.
    """
    size = len(tables.first)
    nodes = (2, size, size)
    came_from = np.full((*nodes, 2), UNREACHED)  # the node before: its descent seen?, its left value
    left, own = np.nonzero(tables.first > threshold)
    seen = (left > own).astype(int)
    came_from[seen, left, own] = BEGIN
    while len(left):
        ends = np.flatnonzero((seen == 1) & (tables.last[left, own] > threshold))
        if len(ends):
            return walk_back(came_from, seen[ends[0]], left[ends[0]], own[ends[0]])
        node, right = np.nonzero(tables.middle[left, own] > threshold)
        reached = np.ravel_multi_index((seen[node] | (own[node] > right), own[node], right), nodes)
        layer, one = np.unique(reached, return_index=True)  # one of the walks to each node is enough
        new = came_from.reshape(-1, 2)[layer, 0] == UNREACHED
        layer, before = layer[new], node[one[new]]
        came_from.reshape(-1, 2)[layer] = np.stack([seen[before], left[before]], axis=1)
        seen, left, own = np.unravel_index(layer, nodes)
    return None


def walk_back(came_from: np.ndarray, seen: int, left: int, own: int) -> list[int]:
    """The values on the way to a node, from the first to the last."""
    sequence = [own, left]
    while came_from[seen, left, own, 0] != BEGIN:
        (seen, left), own = came_from[seen, left, own], left
        sequence.append(left)
    return [int(value) for value in reversed(sequence)]


def lowest_sorted_logit(tables: Tables) -> float:
    """The lowest logit that a sorted sequence of any length can get."""
    entries = zip(tables, tables.sorted_entries(), strict=True)
    return float(min(table[mask].min() for table, mask in entries))


def highest_unsorted_logit(tables: Tables) -> tuple[float, list[int]]:
    """The highest logit that an unsorted sequence of any length can get, and a sequence that gets it."""
    low, high, best = tables.lowest - 1, tables.highest, list[int]()
    for _ in range(20):  # halve the interval, then climb the last steps
        between = (low + high) / 2
        if sequence := accepted_sequence(tables, between):
            low, best = tables.logit(sequence), sequence
        else:
            high = between
    while sequence := accepted_sequence(tables, low):
        low, best = tables.logit(sequence), sequence
    return low, best


# --- the certificate -------------------------------------------------------------------------------------------------


@dataclass
class Certificate:
    """What the enumeration has found; `certified`: the classifier is right on every sequence of every length."""

    lowest_sorted: float  # no sorted sequence of any length has a lower logit, in exact arithmetic or in float64
    highest_unsorted: float  # no unsorted sequence of any length has a higher one
    hardest: list[int]  # an unsorted sequence that has it
    bound: float  # on rounding: the largest radius of an interval
    float_difference: float  # largest, a run in float32 from the tables, which are float64
    table_difference: float  # largest sampled, a run in float64 from the tables
    rejected: int  # sorted pairs and triples that may be rejected
    counterexamples: list[list[int]]  # wrong in a full run, shortest first; an accepted one comes first
    cpu_seconds: float
    tables: Tables | None = field(default=None, repr=False, compare=False)  # the midpoints

    @property
    def facts(self) -> dict[str, Any]:
        """All of it but the tables."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "tables"}

    @property
    def margin(self) -> float:
        """How far the logit of any sequence is on the right side of zero, at least; below 0 one may be wrong."""
        return min(self.lowest_sorted, -self.highest_unsorted)

    @property
    def ratio(self) -> float:
        """Of the margin to the bound on rounding."""
        return self.margin / self.bound

    @property
    def certified(self) -> bool:
        """Proved; and what is sampled agrees: float64 stays within the bound, float32 far below the margin."""
        return self.margin > 0 and self.table_difference <= self.bound and self.margin >= SAFETY * self.float_difference

    @property
    def conclusion(self) -> str:
        if self.certified:
            return "This holds in exact arithmetic, and for any evaluation of these formulas in float64."
        if self.margin <= 0:
            maybe = "No sequence is wrong, but rounding may make one so."
            return "Sequences are wrong." if self.counterexamples else maybe
        if self.table_difference > self.bound:
            return "A run in float64 leaves the bound: the model does not compute what the tables say."
        return f"No sequence is wrong, but the margin is not {SAFETY} times what float32 differs by."

    def __str__(self) -> str:
        rows = {
            "margin": f"{self.margin:.4f}",
            "bound on rounding in float64": f"{self.bound:.1e}",
            "margin / bound": f"{self.ratio:,.0f}",
            "lowest logit of a sorted sequence": f"{self.lowest_sorted:.4f}",
            "highest logit of an unsorted sequence": f"{self.highest_unsorted:.4f}",
            "sorted pairs and triples rejected": f"{self.rejected}",
            "CPU seconds": f"{self.cpu_seconds:.0f}",
        }
        lines = ["CERTIFIED: right on every sequence of every length from 2 on" if self.certified else "NOT CERTIFIED"]
        lines += [f"{name:40} {value}" for name, value in rows.items()]
        for sequence in self.counterexamples:
            wrongly = "rejected" if in_order(sequence) else "accepted"
            lines.append(f"{f'wrongly {wrongly}':40} {' '.join(map(str, sequence))}")
        run = f"Run, not proved: float32, on every pair and triple, is {self.float_difference:.1e} from the tables;"
        sampled = f"float64, on samples up to length {CHECKED_LENGTHS[-1]:,}, {self.table_difference:.1e}."
        return "\n".join([*lines, self.conclusion, f"{run} {sampled}"])


def certify(model: Classifier, shown: int = SHOWN) -> Certificate:
    """The Certificate, with up to `shown` counterexamples; a form for which there is no argument is a UserError."""
    check_form(model)
    started = time.process_time()
    middles, radii = bounded_tables(model)
    tables = Tables(*middles)
    lower, upper = (Tables(*map(end, middles, radii)) for end in (np.subtract, np.add))
    highest_unsorted, hardest = highest_unsorted_logit(upper)
    accepted = accepted_sequence(tables)
    suspects: Iterable[list[int]] = itertools.chain([accepted] if accepted else [], rejected_sequences(tables))
    with one_thread():
        single = tabulate(model)
        suspects = itertools.chain(suspects, rejected_sequences(single))
        float_difference, table_difference = sampled_differences(model, tables)
        apart = (float(abs(a - b).max()) for a, b in zip(single, tables, strict=True))
        float_difference = max(float_difference, *apart)
        wrong = (sequence for sequence in suspects if model.says_sorted(sequence) != in_order(sequence))
        counterexamples = list(itertools.islice(wrong, shown))
    return Certificate(
        lowest_sorted=lowest_sorted_logit(lower),
        highest_unsorted=highest_unsorted,
        hardest=hardest,
        bound=Tables(*radii).highest,
        float_difference=float_difference,
        table_difference=table_difference,
        rejected=len(rejected_sequences(lower)),
        counterexamples=counterexamples,
        cpu_seconds=round(time.process_time() - started, 2),
        tables=tables,
    )


def main() -> None:
    parser = Parser(
        prog="python -m problem2.certificate",
        description="Prove that a classifier is right on every sequence, or show where not.",
    )
    parser.add_argument(
        "weights", type=parse_path, nargs="?", default=CERTIFIED, help="a safetensors file (default: the published one)"
    )
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        certificate = certify(load_classifier(arguments.weights))
    print(certificate)
    sys.exit(not certificate.certified)


if __name__ == "__main__":
    main()
