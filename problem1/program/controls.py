"""Does a head say what the listing says, no more and no less? Exact counts over sums that are named.

one row       the head's tables become their mean: it says nothing. How many sums are still right?
next row      each value gets the row of the next one: it says something else. How many are still right?
unnamed       in the adder itself, the head's output comes from another sum that has the same tokens where the
              listing says that the head reads, and random ones elsewhere. How many sums change a digit?
interchange   in the adder itself, the head's output comes from another sum. In how many sums does a digit change, and
              does the program, whose head looks up the other sum's value, write the same digits?
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1.dataset import encode_pairs, shift_right
from problem1.every_pair import random_pairs
from problem1.model import Activations, Adder
from problem1.program.tables import Choice, Outputs, Program, Tables, Tokens, kind_of
from problem1.program.variables import Variable, reads
from problem1.shared.parallel import parallel_results

CONTROL_PAIRS, CONTROL_SEED = 20_000, 2  # neither those of the means nor those by which variables were chosen
BATCH = 2_000


def control_pairs(digits: int = 3) -> np.ndarray:
    return random_pairs(CONTROL_PAIRS, digits, CONTROL_SEED)


def controls(program: Program, outputs: Outputs, pairs: np.ndarray) -> pd.DataFrame:
    """A row for each head that says more than its position; the columns are explained above."""
    digits = program.shape["digits"]
    others = random_pairs(len(pairs), digits, CONTROL_SEED + 1)
    parts = -(-len(pairs) // BATCH)
    batches = zip(np.array_split(pairs, parts), np.array_split(others, parts), strict=True)
    silent = {head: [outputs.table(head, q, ()) for q in range(len(program.choice[head]))] for head in program.speaking}
    rows = parallel_results(lambda batch: control_batch(program, silent, *batch), batches, "controls", parts)
    counts = pd.DataFrame([row for part in rows for row in part])
    return counts.groupby("head", sort=False).sum().reset_index()


def control_batch(program: Program, silent: Tables, pairs: np.ndarray, others: np.ndarray) -> list[dict[str, object]]:
    model, tokens, other = program.model, as_tokens(pairs, program), as_tokens(others, program)
    target = encode_pairs(pairs, program.shape["digits"])[1]
    record, other_record = model.record(*tokens), model.record(*other)
    as_it_is, rows = record.logits.argmax(-1), []
    for head in program.speaking:
        # an encoder's head is asked while the cross heads, which read what it says, are computed
        stage = program.only(("encoder", "self")) if kind_of(head) == "encoder" else program
        choice, tables = stage.choice[head], stage.tables[head]
        one_row = stage.replaced(head, [()] * len(choice), silent[head])
        next_row = stage.replaced(head, choice, [table.roll(1, 0) for table in tables])
        same = {variable: model.record(*with_named(variable, tokens, other)) for variable in set(choice)}
        patched = written_with(model, record, head, [other_record] * len(choice))
        rows.append(
            {
                "head": head,
                "sums": len(pairs),
                "one row, right": alike(one_row(*tokens).argmax(-1), target),
                "next row, right": alike(next_row(*tokens).argmax(-1), target),
                "unnamed, changed": len(pairs)
                - alike(written_with(model, record, head, [same[variable] for variable in choice]), as_it_is),
                "interchange, changed": len(pairs) - alike(patched, as_it_is),
                "interchange, as the program": alike(patched, stage(*tokens, {head: other}).argmax(-1)),
            }
        )
    return rows


def as_tokens(pairs: np.ndarray, program: Program) -> Tokens:
    source, target = encode_pairs(pairs, program.shape["digits"])
    return source, shift_right(target)


def alike(written: Tensor, expected: Tensor) -> int:
    """How many answers have all digits as expected."""
    return int((written == expected).all(1).sum())


def written_with(model: Adder, record: Activations, head: str, others: Sequence[Activations]) -> Tensor:
    """The adder's digits when the output of one head comes, at each position, from another run. The digits before each
    are given, so that none changes because another has."""
    site, _ = model.site_of(head)
    patch = torch.stack([other.head_outputs[site][:, :, position] for position, other in enumerate(others)], dim=2)
    closed = model.gates(head)
    empty = torch.zeros(1, 1, max(len(others), record.decoder_input.shape[1]), 1)
    patches = [patch if place == site else empty for place in range(len(model.blocks))]
    return model.resume(record, site, closed, patches).argmax(-1)


def with_named(variable: Variable, tokens: Tokens, other: Tokens) -> Tokens:
    """The other sums, but with the tokens of these where the variable reads, in the source and before the answer."""
    named = set(reads(variable))
    (source, decoder_input), (changed, prefix) = tokens, (part.clone() for part in other)
    middle = source.shape[1] // 2
    for column in range(source.shape[1]):
        if f"{'ab'[column > middle]}{column % (middle + 1)}" in named:
            changed[:, column] = source[:, column]
    for position in range(1, prefix.shape[1]):
        if f"<{position}" in named:
            prefix[:, position] = decoder_input[:, position]
    return changed, prefix


# --- nobody home -----------------------------------------------------------------------------------------------------


def untrained_right(choice: Choice, shape: dict[str, int], means: np.ndarray, pairs: np.ndarray, seed: int = 0) -> int:
    """How many sums the same variables get right as tables of an adder that has not been trained."""
    torch.manual_seed(seed)
    model = Adder(**shape).eval()
    program = Program(model, choice, Outputs(model, means).tables(choice))
    source, target = encode_pairs(pairs, shape["digits"])
    return alike(program(source, shift_right(target)).argmax(-1), target)
