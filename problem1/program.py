"""The adder as a program: what each head says, as tables that take the head's place. `python -m problem1.program`.

A head's output at a position is replaced by its mean over all sums in which a variable has the same value: a table with
one row for each value (variables.py says which variables there are). If every sum stays right the head says no more than
that variable. `choose` looks for the coarsest variable of each head at each position:

    means        over the training pairs and 40,000 random ones
    chosen on    validation pairs, which must keep a share of their smallest margin; one kind of head after the other,
                 while the heads that come later are computed, as they are, from what the tables leave them
    counted on   all 810,000 sums
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1.dataset import BOS, column_names, decode, encode_pairs, parse, shift_right, split_pairs
from problem1.every_pair import margins, random_pairs
from problem1.model import KIND_NAMES, Adder
from problem1.variables import Variable, entries, read, vocabulary, words

MEAN_PAIRS, MEAN_SEED = 40_000, 1  # beside the training pairs
KEPT = 2 / 3  # of the smallest margin with which a kind of heads begins; chosen with seeds 10 and 11
BATCH = 2_000

Choice = dict[str, list[Variable]]  # head -> its variable at each of its positions
STAGES = {  # heads that are tables at a time; all others are computed
    "encoder": ("encoder",),
    "self": ("self",),
    "cross": ("cross",),
    "encoder and self": ("encoder", "self"),
    "all": ("encoder", "self", "cross"),
}


class Outputs:
    """What the heads of a model give on some pairs, and the tables that follow."""

    @torch.inference_mode()
    def __init__(self, model: Adder, pairs: np.ndarray) -> None:
        source, target = encode_pairs(pairs, model.shape["digits"])
        self.model, self.source, self.written = model, source, shift_right(target)
        parts: list[list[Tensor]] = [[] for _ in model.blocks]
        for each, written in zip(source.split(BATCH), self.written.split(BATCH), strict=True):
            for part, outputs in zip(parts, model.record(each, written).head_outputs, strict=True):
                part.append(outputs)
        self.heads = [torch.cat(part) for part in parts]  # a tensor N H Q D for each site

    def of_kind(self, kind: str) -> Tensor:
        """(N, H, Q, D) of the first site of this kind."""
        return next(heads for block, heads in zip(self.model.blocks, self.heads, strict=True) if block.kind == kind)

    def best(self, head: str, position: int, known: Sequence[Variable]) -> Variable:
        """Of these variables the one that explains most, to 0.01 % of the variance; of equal ones the coarsest."""
        return min(known, key=lambda v: (round(self.unexplained(head, position, v), 4), entries(v)))

    def of(self, head: str, position: int) -> Tensor:
        """(N, D)"""
        site, number = self.model.site_of(head)
        return self.heads[site][:, number, position]

    def table(self, head: str, position: int, variable: Variable) -> Tensor:
        """(entries, D): the mean output for each value; for values that do not occur, the mean over all."""
        outputs, value = self.of(head, position), read(variable, self.source, self.written)
        count = torch.bincount(value, minlength=entries(variable))[:, None]
        total = torch.zeros(len(count), outputs.shape[1]).index_add_(0, value, outputs)
        return torch.where(count > 0, total / count.clamp(min=1), outputs.mean(0))

    def unexplained(self, head: str, position: int, variable: Variable) -> float:
        """Share of the output's variance that its table leaves."""
        outputs, value = self.of(head, position), read(variable, self.source, self.written)
        left = (outputs - self.table(head, position, variable)[value]).square().sum()
        return float(left / (outputs - outputs.mean(0)).square().sum().clamp(min=1e-9))


@dataclass
class Program:
    """An adder in which all heads of some kinds are tables. It is run as an adder is: `every_pair.check_pairs` takes it."""

    model: Adder
    choice: Choice
    tables: dict[str, list[Tensor]]  # head -> a table (entries, D) for each position

    @property
    def shape(self) -> dict[str, int]:
        return self.model.shape

    def only(self, kinds: Sequence[str]) -> "Program":
        """The same with the heads of these kinds as tables, all others computed."""
        names = [name for name in self.choice if name.startswith(tuple(f"{KIND_NAMES[kind]} L" for kind in kinds))]
        return Program(self.model, {n: self.choice[n] for n in names}, {n: self.tables[n] for n in names})

    @property
    def entries(self) -> int:
        """Of all tables."""
        return sum(entries(variable) for variables in self.choice.values() for variable in variables)

    def found(self, site: int, source: Tensor, written: Tensor) -> Tensor:
        """(B, length, M): what the tables of a site add to its stream, in place of its attention."""
        attention = self.model.blocks[site].attention
        length = (source if self.model.blocks[site].kind == "encoder" else written).shape[1]
        total = attention.output.bias.expand(len(source), length, -1).clone()
        for number, weights in enumerate(attention.output.weight.split(self.shape["d_model"] // self.shape["n_heads"], 1)):
            name = self.model.head_names[site * self.shape["n_heads"] + number]
            for position in range(length):
                mixed = self.tables[name][position] @ weights.T  # entries M
                total[:, position] += mixed[read(self.choice[name][position], source, written)]
        return total

    def through(self, sites: Iterable[int], x: Tensor, memory: Tensor | None, tokens: tuple[Tensor, Tensor]) -> Tensor:
        """As the adder's, with tables for the sites that have them."""
        for site in sites:
            block = self.model.blocks[site]
            if self.model.head_names[site * self.shape["n_heads"]] in self.choice:
                x = block.finish(x + self.found(site, *tokens))
            else:
                x, _ = block(x, memory)
        return x

    @torch.inference_mode()
    def __call__(self, source: Tensor, written: Tensor) -> Tensor:
        """Logits (B, length of `written`, 10), as the adder's."""
        model, tokens = self.model, (source, written)
        memory = model.source_norm(self.through(model.encoder_sites, model.embed(source), None, tokens))
        x = self.through(model.decoder_sites, model.embed(written), memory, tokens)
        return model.readout(model.answer_norm(x))

    def generate(self, source: Tensor) -> Tensor:
        """Greedy decoding: (B, digits + 1)."""
        written = torch.full_like(source[:, :1], BOS)
        for _ in range(self.shape["digits"] + 1):
            written = torch.cat([written, self(source, written)[:, -1:].argmax(-1)], dim=1)
        return written[:, 1:]

    def add(self, text: str) -> str:
        """'663+497' -> '1160', as the program has it."""
        source, _ = encode_pairs(parse(text, self.shape["digits"]), self.shape["digits"])
        return decode(self.generate(source)[0])

    def smallest_margin(self, pairs: np.ndarray) -> float:
        """Of these pairs; positive exactly if all are right."""
        source, target = encode_pairs(pairs, self.shape["digits"])
        return margins(self(source, shift_right(target)), target).min().item()


def make_program(outputs: Outputs, choice: Choice) -> Program:
    tables = {name: [outputs.table(name, q, v) for q, v in enumerate(variables)] for name, variables in choice.items()}
    return Program(outputs.model, choice, tables)


def mean_pairs(digits: int = 3) -> np.ndarray:
    """The pairs over which means are taken."""
    return np.concatenate([split_pairs("train", digits), random_pairs(MEAN_PAIRS, digits, MEAN_SEED)])


# --- choosing --------------------------------------------------------------------------------------------------------


def heads_of(model: Adder, kind: str) -> list[str]:
    return [name for name in model.head_names if name.startswith(f"{KIND_NAMES[kind]} L")]


def choose(outputs: Outputs, pairs: np.ndarray, kept: float = KEPT) -> Program:
    """The program of a model: for each head and position the coarsest variable with which all `pairs` keep this share
    of the smallest margin that their kind of heads begins with, while the heads before it are what they have become.

    A kind of heads begins with the variables that explain most. If these leave a pair wrong, it stays computed.
    """
    model, digits = outputs.model, outputs.model.shape["digits"]
    program = Program(model, {}, {})
    for kind in KIND_NAMES:
        heads = heads_of(model, kind)
        positions = range(outputs.of_kind(kind).shape[2])
        known = [vocabulary(kind, position, digits) for position in positions]
        for head in heads:
            program.choice[head] = [outputs.best(head, q, known[q]) for q in positions]
            program.tables[head] = [outputs.table(head, q, program.choice[head][q]) for q in positions]
        margin = program.smallest_margin(pairs)
        if margin <= 0:
            for head in heads:
                del program.choice[head], program.tables[head]
            continue
        for head, q in itertools.product(heads, positions):
            coarsen(program, outputs, head, q, known[q], pairs, kept * margin)
    return program


def coarsen(
    program: Program,
    outputs: Outputs,
    head: str,
    position: int,
    known: Sequence[Variable],
    pairs: np.ndarray,
    least: float,
) -> None:
    """Take the first of these variables with which the margin stays, and leave what is there if none is coarser."""
    before, table = program.choice[head][position], program.tables[head][position]
    for variable in known:
        if entries(variable) >= entries(before):
            break
        program.choice[head][position] = variable
        program.tables[head][position] = outputs.table(head, position, variable)
        if program.smallest_margin(pairs) >= least:
            return
    program.choice[head][position], program.tables[head][position] = before, table


# --- the listing -----------------------------------------------------------------------------------------------------


def listing(program: Program) -> pd.DataFrame:
    """A line for each head that says more than its position, and one for all others of a layer: what it reads, what it
    says where, and the size of its tables."""
    rows, silent = [], dict[str, list[str]]()
    for name, variables in program.choice.items():
        kind = kind_of(name)
        if not any(variables):
            layer, head = name.rsplit(" ", 1)
            silent.setdefault(layer, []).append(head)
            continue
        said: dict[str, list[str]] = {}
        for position, variable in enumerate(variables):
            if variable:
                said.setdefault(words(variable, kind, position), []).append(position_name(kind, position))
        rows.append({"head": name, "says": "; ".join(f"{', '.join(at)}: {what}" for what, at in said.items())})
        rows[-1]["entries"] = sum(map(entries, variables))
    for layer, heads in silent.items():
        count = sum(len(program.choice[f"{layer} {head}"]) for head in heads)
        rows.append({"head": f"{layer} {', '.join(heads)}", "says": "always the same at its position", "entries": count})
    return pd.DataFrame(rows)


def kind_of(head: str) -> str:
    return next(kind for kind, label in KIND_NAMES.items() if head.startswith(f"{label} L"))


def position_name(kind: str, position: int, digits: int = 3) -> str:
    """'a1': the second digit of the first operand; 'tens': where the decoder writes them."""
    if kind != "encoder":
        return column_names(digits)[position]
    return "+" if position == digits else f"{'ab'[position > digits]}{position % (digits + 1)}"
