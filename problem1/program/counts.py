"""On how many sums is the program right? A count, not an estimate: every pair of numbers there is."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1.dataset import encode_pairs, every_pair, from_digits, shift_right
from problem1.every_pair import BATCH, Check, check_pairs, margins, smallest_margins
from problem1.program.tables import Program, kind_of
from problem1.program.variables import ENTRIES, READERS

STAGES: Mapping[str, tuple[str, ...]] = {  # which heads are tables, all others are computed
    "encoder": ("encoder",),
    "encoder and self": ("encoder", "self"),
    "all": ("encoder", "self", "cross"),
}


def check_program(program: Program, pairs: np.ndarray | None = None, progress: bool = True) -> Check:
    """What the program gets wrong on these pairs, all there are unless named, and its smallest margins."""
    digits = program.shape["digits"]
    if program.is_whole:
        return check_cases(program, np.concatenate(list(every_pair(digits))) if pairs is None else pairs)
    batches = every_pair(digits, BATCH) if pairs is None else np.array_split(pairs, -(-len(pairs) // BATCH))
    return check_pairs(program, batches, progress=progress)


def check_cases(program: Program, pairs: np.ndarray) -> Check:
    """The same for a program in which all heads are tables: many sums are one case, which is run once."""
    source, target = encode_pairs(pairs, program.shape["digits"])
    margin = margins(case_logits(program, source, shift_right(target)), target).numpy()
    wrong = pairs[margin <= 0]
    answers = from_digits(program.generate(encode_pairs(wrong, program.shape["digits"])[0]).numpy())
    closest = smallest_margins(np.column_stack([pairs, margin]))
    return Check(
        pd.DataFrame(np.column_stack([wrong, answers]), columns=["a", "b", "answer"]),
        pd.DataFrame(closest, columns=["a", "b", "margin"]).astype({"a": int, "b": int}),
    )


def case_logits(program: Program, source: Tensor, decoder_input: Tensor) -> Tensor:
    """What `program(source, decoder_input)` gives. Where all heads are tables, the logits of a position depend on the
    token read there and on what the variables of the decoder's heads say there, and on nothing else."""
    logits = torch.empty(*decoder_input.shape, 10)
    for position in range(decoder_input.shape[1]):
        variables = [v[position] for head, v in program.choice.items() if kind_of(head) != "encoder"]
        case = decoder_input[:, position].clone()
        for part in sorted({part for variable in variables for part in variable}):
            case = case * ENTRIES[part.kind] + READERS[part.kind](part, source, decoder_input)
        cases, number = case.unique(return_inverse=True)
        example = torch.empty(len(cases), dtype=torch.int64).scatter_(0, number, torch.arange(len(case)))
        logits[:, position] = program(source[example], decoder_input[example])[:, position][number]
    return logits
