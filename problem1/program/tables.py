"""Heads as tables: a head's output at a position becomes its mean over all sums with the same value of a variable.

`Outputs` records what the heads of an adder give on many sums, and makes tables of it. A `Program` is an adder in which
some heads are such tables; it is run as an adder is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from problem1.dataset import BOS, decode, encode_pairs, parse, shift_right, split_pairs
from problem1.every_pair import random_pairs
from problem1.model import KIND_NAMES, Adder
from problem1.program.variables import Part, Variable, entries, read
from problem1.shared.errors import UserError
from problem1.shared.storage import load_tensors, model_hash, save_tensors

MEAN_PAIRS, MEAN_SEED = 40_000, 1  # the random pairs over which means are taken, beside the training pairs
BATCH = 2_000

Choice = Mapping[str, Sequence[Variable]]  # head -> its variable at each of its positions
Tables = Mapping[str, Sequence[Tensor]]  # head -> a table (entries, D) for each of its positions
Tokens = tuple[Tensor, Tensor]  # source and decoder input
Others = Mapping[str, Tokens]


def mean_pairs(digits: int = 3) -> np.ndarray:
    return np.concatenate([split_pairs("train", digits), random_pairs(MEAN_PAIRS, digits, MEAN_SEED)])


def kind_of(head: str) -> str:
    return next(kind for kind, label in KIND_NAMES.items() if head.startswith(f"{label} L"))


class Outputs:
    """What the heads of an adder give on some pairs, and the tables that follow."""

    @torch.inference_mode()
    def __init__(self, model: Adder, pairs: np.ndarray) -> None:
        self.model = model
        self.source, target = encode_pairs(pairs, model.shape["digits"])
        self.decoder_input = shift_right(target)
        batches = zip(self.source.split(BATCH), self.decoder_input.split(BATCH), strict=True)
        records = [model.record(*batch).head_outputs for batch in batches]
        self.sites = [torch.cat(outputs) for outputs in zip(*records, strict=True)]  # a tensor N H Q D for each site

    def of(self, head: str) -> Tensor:
        """(N, Q, D)"""
        site, number = self.model.site_of(head)
        return self.sites[site][:, number]

    def table(self, head: str, position: int, variable: Variable) -> Tensor:
        """(entries, D): the mean output for each value; for values that do not occur, the mean over all."""
        outputs, value = self.of(head)[:, position], self.value(variable)
        count = torch.bincount(value, minlength=entries(variable))[:, None]
        total = torch.zeros(len(count), outputs.shape[1]).index_add_(0, value, outputs)
        return torch.where(count > 0, total / count.clamp(min=1), outputs.mean(0))

    def value(self, variable: Variable) -> Tensor:
        """(N,)"""
        return read(variable, self.source, self.decoder_input)

    def unexplained(self, head: str, position: int, variable: Variable) -> float:
        """Share of the output's variance that its table leaves."""
        outputs = self.of(head)[:, position]
        left = (outputs - self.table(head, position, variable)[self.value(variable)]).square().sum()
        return float(left / (outputs - outputs.mean(0)).square().sum().clamp(min=1e-9))

    def tables(self, choice: Choice) -> Tables:
        return {head: [self.table(head, q, v) for q, v in enumerate(variables)] for head, variables in choice.items()}


@dataclass(eq=False)
class Program:
    """An adder in which the heads of `choice` are tables, all heads of a kind or none; the others are computed.

    `every_pair.check_pairs` and `train.run_pairs` take it for an adder.
    """

    model: Adder
    choice: Choice
    tables: Tables

    @property
    def shape(self) -> dict[str, int]:
        return self.model.shape

    @property
    def is_whole(self) -> bool:
        """Are all heads tables?"""
        return len(self.choice) == len(self.model.head_names)

    @property
    def entries(self) -> int:
        """Rows of all tables."""
        return sum(entries(variable) for variables in self.choice.values() for variable in variables)

    @property
    def numbers(self) -> int:
        """Numbers in all tables."""
        return self.entries * self.shape["d_model"] // self.shape["n_heads"]

    @property
    def speaking(self) -> list[str]:
        """The heads that say more than their position."""
        return [head for head, variables in self.choice.items() if any(variables)]

    def only(self, kinds: Sequence[str]) -> "Program":
        """The same with the heads of these kinds as tables, all others computed."""
        kept = [head for head in self.choice if kind_of(head) in kinds]
        return Program(self.model, {h: self.choice[h] for h in kept}, {h: self.tables[h] for h in kept})

    def replaced(self, head: str, variables: Sequence[Variable], tables: Sequence[Tensor]) -> "Program":
        """The same with other tables for one head."""
        return Program(self.model, {**self.choice, head: variables}, {**self.tables, head: tables})

    def found(self, site: int, source: Tensor, decoder_input: Tensor, others: Others) -> Tensor:
        """(B, length, M): what the tables of a site add to its stream, in place of its attention."""
        block, heads = self.model.blocks[site], self.shape["n_heads"]
        length = (source if block.kind == "encoder" else decoder_input).shape[1]
        output = block.attention.output
        total = output.bias.expand(len(source), length, -1).clone()
        for number, weight in enumerate(output.weight.chunk(heads, dim=1)):
            head = self.model.head_names[site * heads + number]
            tokens = others.get(head, (source, decoder_input))
            for position in range(length):
                added = self.tables[head][position] @ weight.T  # entries M
                total[:, position] += added[read(self.choice[head][position], *tokens)]
        return total

    def through(self, sites: Iterable[int], x: Tensor, memory: Tensor | None, tokens: Tokens, others: Others) -> Tensor:
        """As the adder's, with tables at the sites that have them."""
        for site in sites:
            block = self.model.blocks[site]
            if self.model.head_names[site * self.shape["n_heads"]] in self.choice:
                x = block.finish(x + self.found(site, *tokens, others))
            else:
                x, _ = block(x, memory)
        return x

    @torch.inference_mode()
    def __call__(self, source: Tensor, decoder_input: Tensor, others: Others | None = None) -> Tensor:
        """Logits (B, length of `decoder_input`, 10), as the adder's. `others` names heads that look up what they say in
        other sums: head -> their source and decoder input."""
        model, tokens, others = self.model, (source, decoder_input), others or {}
        memory = model.source_norm(self.through(model.encoder_sites, model.embed(source), None, tokens, others))
        x = self.through(model.decoder_sites, model.embed(decoder_input), memory, tokens, others)
        return model.readout(model.answer_norm(x))

    def generate(self, source: Tensor) -> Tensor:
        """Greedy decoding: (B, digits + 1)."""
        decoder_input = torch.full_like(source[:, :1], BOS)
        for _ in range(self.shape["digits"] + 1):
            decoder_input = torch.cat([decoder_input, self(source, decoder_input)[:, -1:].argmax(-1)], dim=1)
        return decoder_input[:, 1:]

    def add(self, text: str) -> str:
        """'663+497' -> '1160', as the program has it."""
        source, _ = encode_pairs(parse(text, self.shape["digits"]), self.shape["digits"])
        return decode(self.generate(source)[0])


# --- on disk ---------------------------------------------------------------------------------------------------------


def save_program(program: Program, path: str | Path) -> None:
    tables = {f"{head}, {q}": table for head, each in program.tables.items() for q, table in enumerate(each)}
    save_tensors(path, tables, {"model": model_hash(program.model), "choice": program.choice})


def load_program(path: str | Path, model: Adder) -> Program:
    """The program in a file, of this adder and no other."""
    tables, about = load_tensors(path)
    if about.get("model") != model_hash(model):
        raise UserError(f"{path} is a program of the adder {about.get('model')}, not of {model_hash(model)}.")
    choice = read_choice(about["choice"])
    return Program(model, choice, {head: [tables[f"{head}, {q}"] for q in range(len(choice[head]))] for head in choice})


def read_choice(choice: Mapping[str, Sequence[Sequence[Sequence[str | int]]]]) -> Choice:
    """As it was before JSON made lists of tuples."""
    return {
        head: [tuple(Part(str(kind), int(column), int(more)) for kind, column, more in parts) for parts in variables]
        for head, variables in choice.items()
    }
