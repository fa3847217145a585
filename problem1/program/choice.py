"""Which variables? For each head and position the coarsest one with which the sums stay right by a good margin."""

import itertools
from collections.abc import Sequence

import numpy as np

from problem1.dataset import encode_pairs, shift_right, split_pairs
from problem1.every_pair import margins
from problem1.model import KIND_NAMES
from problem1.program.tables import Outputs, Program, kind_of
from problem1.program.variables import Variable, entries, vocabulary


def choose(outputs: Outputs, kept: float, pairs: np.ndarray | None = None) -> Program:
    """The program of an adder. One kind of heads after the other becomes tables, encoder first: so that no head is
    handed an answer, the heads that come later are computed, as they are, from what the tables before them leave.

    A kind begins with the variables that explain most of each head's output. Then each head at each position gets the
    coarsest variable with which all `pairs` (the validation pairs) keep a share, `kept`, of the smallest margin that
    the kind began with. If a kind leaves a pair wrong from the start, its heads stay computed.
    """
    model, digits = outputs.model, outputs.model.shape["digits"]
    pairs = split_pairs("validation", digits) if pairs is None else pairs
    program = Program(model, {}, {})
    for kind in KIND_NAMES:
        heads = [head for head in model.head_names if kind_of(head) == kind]
        positions = range(outputs.of(heads[0]).shape[1])
        known = [vocabulary(kind, position, digits) for position in positions]
        finest = {head: [best(outputs, head, q, known[q]) for q in positions] for head in heads}
        begun = Program(model, {**program.choice, **finest}, {**program.tables, **outputs.tables(finest)})
        margin = smallest_margin(begun, pairs)
        if margin > 0:
            program = begun
            for head, position in itertools.product(heads, positions):
                program = coarsest(program, outputs, head, position, known[position], pairs, kept * margin)
    return program


def best(outputs: Outputs, head: str, position: int, known: Sequence[Variable]) -> Variable:
    """Of these variables the one that explains most, to 0.01 % of the variance; of equal ones the coarsest."""
    return min(known, key=lambda variable: (round(outputs.unexplained(head, position, variable), 4), entries(variable)))


def coarsest(
    program: Program,
    outputs: Outputs,
    head: str,
    position: int,
    known: Sequence[Variable],
    pairs: np.ndarray,
    least: float,
) -> Program:
    """With the first of these variables at this place that keeps the margin, or as it was if none is coarser."""
    variables, tables = list(program.choice[head]), list(program.tables[head])
    before = entries(variables[position])
    for variable in itertools.takewhile(lambda variable: entries(variable) < before, known):
        variables[position], tables[position] = variable, outputs.table(head, position, variable)
        changed = program.replaced(head, variables, tables)
        if smallest_margin(changed, pairs) >= least:
            return changed
    return program


def smallest_margin(program: Program, pairs: np.ndarray) -> float:
    """Of these pairs; positive exactly if all are right."""
    source, target = encode_pairs(pairs, program.shape["digits"])
    return margins(program(source, shift_right(target)), target).min().item()
