"""What the programs of ten adders share, and whether what they say is so: counts, controls, and two questions settled.

Everything here is an exact count over sums that are named: all 810,000, or 20,000 random ones.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1.dataset import column_names, encode_pairs, shift_right
from problem1.every_pair import random_pairs
from problem1.model import Adder
from problem1.program import Outputs, Program, kind_of, make_program
from problem1.variables import Part, Variable, read, reads

CONTROL_PAIRS, CONTROL_SEED = 20_000, 2


def right(logits: Tensor, target: Tensor) -> int:
    """How many answers are right in every digit."""
    return int((logits.argmax(-1) == target).all(1).sum())


# --- controls --------------------------------------------------------------------------------------------------------


def speaking(program: Program) -> list[str]:
    """The heads that say more than their position."""
    return [head for head, variables in program.choice.items() if any(variables)]


def changed_tables(program: Program, outputs: Outputs, pairs: np.ndarray) -> pd.DataFrame:
    """Right answers when a speaking head says something else: of each value the row of the next one, or their mean
    whatever the sum. The heads that read what it says must be computed: where they are tables it changes nothing."""
    source, target = encode_pairs(pairs, program.shape["digits"])
    written, rows = shift_right(target), []
    for head in speaking(program):
        tables, choice = program.tables[head], program.choice[head]
        shuffled = [table.roll(1, 0) for table in tables]
        coarse = [outputs.table(head, position, ()) for position in range(len(tables))]
        counts = {}
        for name, changed, variables in (("shuffled", shuffled, choice), ("one row", coarse, [()] * len(tables))):
            other = Program(program.model, program.choice | {head: variables}, program.tables | {head: changed})
            counts[name] = right(other(source, written), target)
        rows.append({"head": head, **counts})
    return pd.DataFrame(rows)


def untrained(program: Program, pairs: np.ndarray, means: np.ndarray, seed: int = 0) -> int:
    """Right answers of the same variables with the tables of an untrained adder."""
    torch.manual_seed(seed)
    model = Adder(**program.shape).eval()
    source, target = encode_pairs(pairs, program.shape["digits"])
    return right(make_program(Outputs(model, means), program.choice)(source, shift_right(target)), target)


def other_sums(pairs: np.ndarray, kept: Sequence[str], seed: int) -> np.ndarray:
    """Random sums that have the same digits as `pairs` at the positions `kept` ('a1', ...) and any others elsewhere."""
    sums = random_pairs(len(pairs), 3, seed)
    digits = [np.stack([numbers // 100, numbers // 10 % 10, numbers % 10], 1) for numbers in (*sums.T, *pairs.T)]
    for name in kept:
        operand, column = "ab".index(name[0]), int(name[1])
        digits[operand][:, column] = digits[2 + operand][:, column]
    return np.stack([each @ [100, 10, 1] for each in digits[:2]], 1)
