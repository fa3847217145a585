"""Proof by enumeration that a judge is right on every sequence of every length: `python -m problem2.certificate`.

One layer, attention to the two neighbours, no absolute position, a verdict per token, the worst verdict stands for the
sequence. Then what a token says depends on at most three values, and everything that tokens can ever say fits into
three tables, which the model fills itself. A token objects when its verdict is not positive, else it is silent.

    (a) no token objects in a sorted triple, or at a sorted end
    (b) no walk along silent tokens leads over a descent to a silent last token

A sorted sequence shows its tokens only sorted triples and ends, and every sorted triple and end occurs in one: (a) says
that all sorted sequences are accepted. An unsorted sequence is accepted exactly when all its tokens are silent, which
makes it a walk of (b): from its first pair of neighbours to its last, each step one silent middle token. So (a) and (b)
together are necessary and sufficient.
"""

import argparse
import copy
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from problem1.attention import Attention, Positions
from problem1.commands import one_sentence
from problem1.loop import one_thread
from problem2.dataset import in_order
from problem2.model import Block, Judge, load_judge

PUBLISHED = Path(__file__).parent / "published"
PARTS = (Judge, Block, Attention, nn.Embedding, nn.Linear, nn.ReLU, nn.Sequential, nn.ModuleList)
CHECKED_LENGTHS = (2, 3, 4, 5, 8, 13, 16, 32, 64, 128, 256, 512, 1_024)
SHOWN = 10  # counterexamples
UNREACHED, BEGIN = -1, -2  # of a node: no walk leads to it; a walk begins with it
SAFETY = 100  # the margin must be this many times the largest numerical difference


# --- the form that the argument needs --------------------------------------------------------------------------------


def check_form(model):
    """Say in one sentence why the verdicts of this judge are not functions of three neighbouring values."""
    positions = model.blocks[0].attention.positions
    encoding, hooks = model.shape["encoding"], type(positions)
    if model.pooling != "worst":
        raise ValueError(f"pooling is {model.pooling!r}; a certificate needs one verdict per token: worst.")
    if len(model.blocks) != 1:
        raise ValueError(
            f"the judge has {len(model.blocks)} layers; with more than 1 a token sees beyond its neighbours."
        )
    if positions.window != 1:
        raise ValueError(f"window is {positions.window}; a certificate needs attention to the two neighbours: 1.")
    if positions.causal:
        raise ValueError(f"encoding {encoding} hides the right neighbour; a certificate needs both.")
    if hooks.embed is not Positions.embed or hooks.rotate is not Positions.rotate:
        raise ValueError(f"encoding {encoding} uses absolute positions; a certificate needs none.")
    for name, module in model.named_modules():
        per_token = isinstance(module, nn.LayerNorm) and module.normalized_shape == (model.shape["width"],)
        if not (per_token or type(module) in PARTS or isinstance(module, Positions)):
            raise ValueError(
                f"{name or 'the judge'} is a {type(module).__name__}, which may mix tokens; a certificate allows none."
            )


# --- every verdict there can be --------------------------------------------------------------------------------------


@dataclass
class Tables:
    """What a token says, by the values that it sees. V is the size of the vocabulary."""

    first: np.ndarray  # V V: its own value, the right one
    middle: np.ndarray  # V V V: the left value, its own, the right one
    last: np.ndarray  # V V: the left value, its own

    def of(self, tokens):
        """(N, length) of verdicts, read from the tables."""
        return np.concatenate(
            [
                self.first[tokens[:, 0], tokens[:, 1]][:, None],
                self.middle[tokens[:, :-2], tokens[:, 1:-1], tokens[:, 2:]],
                self.last[tokens[:, -2], tokens[:, -1]][:, None],
            ],
            axis=1,
        )

    def logit(self, sequence):
        """The worst verdict in one sequence, read from the tables."""
        return float(self.of(np.array([sequence])).min())

    def sorted_entries(self):
        """Masks over first, middle and last: the entries that a sorted sequence can show."""
        pair = np.triu(np.ones_like(self.first, dtype=bool))
        return pair, pair[:, :, None] & pair[None], pair


@torch.inference_mode()
def tabulate(model, batch_size=1_000):
    """The model's own forward pass on all sequences of length 2 and 3."""
    values = torch.arange(model.shape["vocabulary"])
    pairs, triples = torch.cartesian_prod(values, values), torch.cartesian_prod(values, values, values)
    ends = torch.cat([model(batch).per_token for batch in pairs.split(batch_size)])
    middle = torch.cat([model(batch).per_token[:, 1] for batch in triples.split(batch_size)])
    if not (ends.isfinite().all() and middle.isfinite().all()):
        raise ValueError("some verdicts of the judge are not finite numbers; its weights are spoiled.")
    size = (len(values),) * 3
    return Tables(ends[:, 0].view(size[:2]).numpy(), middle.view(size).numpy(), ends[:, 1].view(size[:2]).numpy())


@torch.inference_mode()
def numerical_differences(model, tables, tokens_per_length=8_192, seed=0):
    """(largest difference of float32 from float64, of a full run from the tables), over every token of random
    sequences of 2 to 1,024 values, half of them sorted.
    """
    precise, draw, differences = copy.deepcopy(model).double(), np.random.default_rng([seed, 3]), []
    for length in CHECKED_LENGTHS:
        tokens = draw.integers(len(tables.first), size=(max(2, tokens_per_length // length), length))
        tokens[::2].sort(axis=1)
        verdict = model(torch.from_numpy(tokens))
        if not torch.equal(verdict.logits, verdict.per_token.amin(1)):
            raise ValueError("the judge does not answer with its worst token; a certificate needs the hard minimum.")
        full = verdict.per_token.double().numpy()
        exact = precise(torch.from_numpy(tokens)).per_token.numpy()
        differences.append((abs(full - exact).max(), abs(full - tables.of(tokens)).max()))
    return tuple(float(largest) for largest in np.max(differences, axis=0))


# --- (a) and (b) -----------------------------------------------------------------------------------------------------


def rejected_sequences(tables, threshold=0.0):
    """(a): every sorted pair and triple with a token whose verdict is not above the threshold, pairs first."""
    first, middle, last = tables.sorted_entries()
    pairs = ((tables.first <= threshold) & first) | ((tables.last <= threshold) & last)
    return [*np.argwhere(pairs).tolist(), *np.argwhere((tables.middle <= threshold) & middle).tolist()]


def accepted_sequence(tables, threshold=0.0):
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


def walk_back(came_from, seen, left, own):
    """The values on the way to a node, from the first to the last."""
    sequence = [own, left]
    while came_from[seen, left, own, 0] != BEGIN:
        (seen, left), own = came_from[seen, left, own], left
        sequence.append(left)
    return [int(value) for value in reversed(sequence)]


def lowest_sorted_logit(tables):
    """The lowest logit that a sorted sequence of any length can get."""
    entries = zip((tables.first, tables.middle, tables.last), tables.sorted_entries(), strict=True)
    return float(min(table[mask].min() for table, mask in entries))


def highest_unsorted_logit(tables):
    """The highest logit that an unsorted sequence of any length can get, and a sequence that gets it."""
    verdicts = np.concatenate([table.ravel() for table in (tables.first, tables.middle, tables.last)])
    low, high, best = float(verdicts.min()) - 1, float(verdicts.max()), None
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
    """What the enumeration has found; `certified` says whether the judge is right on every sequence of every length."""

    lowest_sorted: float  # no sorted sequence of any length gets a lower logit
    highest_unsorted: float  # no unsorted sequence of any length gets a higher one
    hardest: list  # an unsorted sequence that gets it
    float_difference: float  # largest, float32 from float64
    table_difference: float  # largest, a full run from the tables
    rejected: int  # sorted pairs and triples that it rejects
    counterexamples: list  # sequences that it gets wrong in a full run, shortest first; an accepted one comes first
    cpu_seconds: float

    @property
    def margin(self):
        """How far the logit of any sequence is on the right side of zero, at least; below 0 one is wrong."""
        return min(self.lowest_sorted, -self.highest_unsorted)

    @property
    def certified(self):
        needed = SAFETY * max(self.float_difference, self.table_difference)
        return self.margin > 0 and self.margin >= needed

    def __str__(self):
        lines = [
            "CERTIFIED: right on every sequence of every length from 2 on" if self.certified else "NOT CERTIFIED",
            f"{'lowest logit of a sorted sequence':40} {self.lowest_sorted:.4f}",
            f"{'highest logit of an unsorted sequence':40} {self.highest_unsorted:.4f}",
            f"{'largest difference float32 - float64':40} {self.float_difference:.1e}",
            f"{'largest difference full run - tables':40} {self.table_difference:.1e}",
            f"{'sorted pairs and triples rejected':40} {self.rejected}",
            f"{'CPU seconds':40} {self.cpu_seconds:.0f}",
        ]
        for sequence in self.counterexamples:
            wrongly = "rejected" if in_order(sequence) else "accepted"
            lines.append(f"{f'wrongly {wrongly}':40} {' '.join(map(str, sequence))}")
        if not self.certified and not self.counterexamples:
            lines.append(f"no sequence is wrong, but the margin is not {SAFETY} times the largest difference")
        return "\n".join(lines)


def certify(model, shown=SHOWN):
    """The Certificate of a judge, with up to `shown` counterexamples; a form that allows no proof is a ValueError."""
    check_form(model)
    started = time.process_time()
    with one_thread():
        return judge_tables(model, tabulate(model), shown, started)


def judge_tables(model, tables, shown, started):
    highest_unsorted, hardest = highest_unsorted_logit(tables)
    accepted, rejected = accepted_sequence(tables), rejected_sequences(tables)
    suspects = ([accepted] if accepted else []) + rejected[:shown]
    float_difference, table_difference = numerical_differences(model, tables)
    return Certificate(
        lowest_sorted=lowest_sorted_logit(tables),
        highest_unsorted=highest_unsorted,
        hardest=hardest,
        float_difference=float_difference,
        table_difference=table_difference,
        rejected=len(rejected),
        counterexamples=[s for s in suspects if model.says_sorted(s) != in_order(s)][:shown],
        cpu_seconds=round(time.process_time() - started, 2),
    )


def main():
    parser = argparse.ArgumentParser(
        prog="python -m problem2.certificate",
        description="Prove that a judge is right on every sequence, or show where not.",
    )
    parser.add_argument(
        "weights", nargs="?", default=PUBLISHED / "judge.safetensors", help="default: the published one"
    )
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        certificate = certify(load_judge(arguments.weights))
    print(certificate)
    sys.exit(not certificate.certified)


if __name__ == "__main__":
    main()
