"""The program in words: a line for each head that says something, and what a head says at a glance."""

from collections.abc import Sequence

import pandas as pd

from problem1.dataset import TOKENS, column_names, encode_pairs, shift_right, split_pairs
from problem1.every_pair import margins
from problem1.program.tables import Choice, Program, kind_of
from problem1.program.variables import ENTRIES, Variable, entries, own_column, reads, words

CLASS_WORDS = ("below", "at", "above")
SAME, NOTHING = "the same in every sum, and it is needed", "nothing that is needed"


def lines(program: Program) -> pd.DataFrame:
    """A line for each head that says more than its position, and one for the others of each layer: `reads` are the
    tokens by position, `says` is what its tables are indexed by, `rows` the size of its tables."""
    found, silent = [], dict[tuple[str, str], list[str]]()
    for head, variables in program.choice.items():
        if any(variables):
            found.append({"head": head, **said(head, variables, program.shape["digits"])})
        else:
            layer = head.rsplit(" ", 1)[0]
            silent.setdefault((layer, SAME if is_needed(program, head) else NOTHING), []).append(head)
    for (layer, says), heads in silent.items():
        numbers = ", ".join(head.rsplit(" ", 1)[1] for head in heads)
        rows = sum(len(program.choice[head]) for head in heads)
        found.append({"head": f"{layer} {numbers}", "reads": "", "says": says, "rows": rows})
    order = {head: number for number, head in enumerate(program.model.head_names)}
    return pd.DataFrame(sorted(found, key=lambda line: order[str(line["head"]).split(",")[0]]))


def is_needed(program: Program, head: str) -> bool:
    """Does some validation sum go wrong if zeros take the place of the head's tables? An encoder's head is asked while
    the cross heads, which read what it says, are computed."""
    digits = program.shape["digits"]
    stage = program.only(("encoder", "self")) if kind_of(head) == "encoder" else program
    without = stage.replaced(head, stage.choice[head], [0 * table for table in stage.tables[head]])
    source, target = encode_pairs(split_pairs("validation", digits), digits)
    return bool((margins(without(source, shift_right(target)), target) <= 0).any())


def said(head: str, variables: Sequence[Variable], digits: int = 3) -> dict[str, object]:
    """What a head reads and says, positions with the same words together."""
    kind, where = kind_of(head), dict[str, list[int]]()
    for position, variable in enumerate(variables):
        if variable:
            where.setdefault(words(variable, kind, position, digits), []).append(position)
    names = {position: position_name(kind, position, digits) for position in range(len(variables))}
    return {
        "reads": "; ".join(f"{names[q]}: {' '.join(reads(v))}" for q, v in enumerate(variables) if v),
        "says": "; ".join(f"{', '.join(names[q] for q in at)}: {text}" for text, at in where.items()),
        "rows": sum(map(entries, variables)),
    }


def position_name(kind: str, position: int, digits: int = 3) -> str:
    """'a1': the second digit of the first operand; 'tens': where the decoder writes them."""
    if kind != "encoder":
        return column_names(digits)[position]
    return "+" if position == digits else f"{'ab'[position > digits]}{position % (digits + 1)}"


def value_words(variable: Variable, value: int) -> str:
    """What a head says when its variable has this value: 'above 99', '15', '3, at 9'."""
    values = []
    for part in reversed(variable):
        value, here = divmod(value, ENTRIES[part.kind])
        if part.kind == "class":
            values.append(f"{CLASS_WORDS[here]} {10**part.more - 1}")
        else:
            values.append(TOKENS[here] if part.kind == "written" else str(here))
    return ", ".join(reversed(values))


# --- ten programs at a glance ----------------------------------------------------------------------------------------

CLAIMS = {  # key: what a head does that has it
    "partner": "tells a digit the other one of its column",
    "encoder below": "tells a digit what lower columns add up to",
    "own": "says the sum of the column that is written",
    "below": "says what the next column adds up to",
    "far below": "says what two lower columns add up to",
    "written": "passes on a digit written before",
}


def claims_of(variable: Variable, kind: str, position: int, digits: int = 3) -> set[str]:
    """Keys of CLAIMS."""
    column, found = own_column(kind, position, digits), set()
    for part in variable:
        if part.kind == "written":
            found.add("written")
        elif kind == "encoder" and column is not None:
            found.add("partner" if part.column == column else "encoder below")
        elif kind == "cross":
            further = part.column + (part.more if part.kind == "class" else 1) - 1  # the last column that it names
            found.add("own" if part.column == column else "far below" if further > position else "below")
    return found


def said_by(choice: Choice, digits: int = 3) -> list[dict[str, object]]:
    """A row for each head: what it reads and says, the size of its tables, and its claims."""
    rows = []
    for head, variables in choice.items():
        kind = kind_of(head)
        claims = {key for q, variable in enumerate(variables) for key in claims_of(variable, kind, q, digits)}
        rows.append({"head": head, **said(head, variables, digits), "claims": ", ".join(sorted(claims))})
    return rows
