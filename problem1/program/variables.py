"""What a head may say of a sum: a function of the tokens at positions that are named, never of the true carry.

A variable is a tuple of parts, and () says nothing but the position. The columns of 663 + 497 are numbered 0, 1, 2:

    digit    one digit of a column             ("digit", 1, 0) is 6, the tens digit of 663; ("digit", 1, 1) is 9
    sum      of the two digits of a column     ("sum", 1, 0) is 15
    class    a column's sum against 9: below, at or above? Or that of two columns against 99
             ("class", 1, 1) is 2, above: 6 + 9 > 9;  ("class", 1, 2) is 2, above: 63 + 97 > 99
    written  the digit that the decoder reads at a position, ("written", 2, 0): the one before the tens

Each position has its own column: a token of the source the one in which it stands, a position of the decoder the one
that it writes. So the thousands have the column -1, and the + has none.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from problem1.dataset import column_names


class Part(NamedTuple):
    kind: str
    column: int  # of the source; of "written" the decoder's position
    more: int = 0  # of "digit" the operand, of "class" the number of columns


Variable = tuple[Part, ...]
ENTRIES = {"digit": 10, "sum": 19, "class": 3, "written": 10}


def entries(variable: Variable) -> int:
    """How many values it can take."""
    return math.prod(ENTRIES[part.kind] for part in variable)


def read(variable: Variable, source: Tensor, written: Tensor) -> Tensor:
    """(B,) whole numbers below `entries(variable)`, for tokens (B, 2 digits + 1) and decoder inputs (B, length)."""
    value = torch.zeros(len(source), dtype=torch.int64)
    for part in variable:
        value = value * ENTRIES[part.kind] + READERS[part.kind](part, source, written)
    return value


def digit(part: Part, source: Tensor, written: Tensor) -> Tensor:
    return source[:, part.column + part.more * (source.shape[1] // 2 + 1)]


def column_sum(part: Part, source: Tensor, written: Tensor) -> Tensor:
    return digit(Part("digit", part.column, 0), source, written) + digit(Part("digit", part.column, 1), source, written)


def sum_class(part: Part, source: Tensor, written: Tensor) -> Tensor:
    total = torch.zeros(len(source), dtype=torch.int64)
    for column in range(part.column, part.column + part.more):
        total = 10 * total + column_sum(Part("sum", column), source, written)
    nines = 10**part.more - 1
    return (total >= nines).long() + (total > nines)


def written_digit(part: Part, source: Tensor, written: Tensor) -> Tensor:
    return written[:, part.column]


READERS: dict[str, Callable[[Part, Tensor, Tensor], Tensor]] = {
    "digit": digit,
    "sum": column_sum,
    "class": sum_class,
    "written": written_digit,
}


# --- which variables a head may have at a position -------------------------------------------------------------------


def own_column(kind: str, position: int, digits: int) -> int | None:
    """The column of a position of a head of this kind; the + has none."""
    if kind == "encoder":
        return None if position == digits else position % (digits + 1)
    return position - 1


def vocabulary(kind: str, position: int, digits: int = 3) -> list[Variable]:
    """All variables that a head of this kind may have at this position, coarsest first."""
    if kind == "self":
        found = [
            tuple(Part("written", position - back) for back in chosen)
            for count in range(position + 1)
            for chosen in itertools.combinations(range(position), count)
        ]
        return sorted(found, key=entries)
    column = own_column(kind, position, digits)
    if column is None:
        found = [(), *(variable for each in range(digits) for variable in of_column(each))]
    else:
        own: list[Variable] = [(), *of_column(column)] if column >= 0 else [()]
        low: list[Variable] = [(), *of_lower(column + 1, digits)]
        found = [mine + lower for mine in own for lower in low if entries(mine + lower) <= MOST_ENTRIES]
    if kind == "cross" and position:  # what was written last says which query asks
        last = (Part("written", position),)
        found += [variable + last for variable in found if entries(variable + last) <= MOST_ENTRIES]
    return sorted(found, key=lambda variable: (entries(variable), len(variable)))


MOST_ENTRIES = 2_000  # so that 50,000 sums say what the mean of each is


def of_column(column: int) -> list[Variable]:
    a, b = Part("digit", column, 0), Part("digit", column, 1)
    return [(a,), (b,), (Part("sum", column),), (a, b)]


def of_lower(first: int, digits: int) -> list[Variable]:
    """Of the columns from `first` on, which lie below a position's own: their classes, one column or two at a time, and
    perhaps the whole sum of the next lower one."""
    found: list[Variable] = []
    for count in (1, 2):
        if first + count <= digits:
            nearest: Variable = (Part("class", first, count),)
            found += [nearest, *(nearest + lower for lower in of_lower(first + count, digits) if is_classes(lower))]
    if first < digits:
        below = [(), *(lower for lower in of_lower(first + 1, digits) if is_classes(lower))]
        found += [each + lower for each in of_column(first)[2:] for lower in below]
    return found


def is_classes(variable: Variable) -> bool:
    return all(part.kind == "class" for part in variable)


# --- words -----------------------------------------------------------------------------------------------------------


def words(variable: Variable, kind: str, position: int, digits: int = 3) -> str:
    """What the variable is, seen from the position: 'the other digit of its column', 'the ones against 9'."""
    column = own_column(kind, position, digits)
    return " and ".join(part_words(part, kind, position, column, digits) for part in variable) or "its position only"


def part_words(part: Part, kind: str, position: int, column: int | None, digits: int) -> str:
    if part.kind == "written":
        back = position - part.column
        return f"the digit written {['last', 'before the last', 'first'][back]}"
    names = column_names(digits)[1 + part.column :][: max(1, part.more)]
    if part.kind == "class":
        return f"the {' and '.join(names)} against {10**part.more - 1}"
    name = "its column" if part.column == column else f"the {names[0]}"
    if part.kind == "sum":
        return f"the sum of {name}"
    if kind == "encoder" and part.column == column:
        return "its own digit" if (position > digits) == bool(part.more) else "the other digit of its column"
    return f"the {('upper', 'lower')[part.more]} digit of {name}"


def reads(variable: Variable) -> list[str]:
    """The positions that it names: 'a1' is the tens digit of the first operand, '<2' the decoder's second input."""
    found: list[str] = []
    for part in variable:
        columns = range(part.column, part.column + (part.more if part.kind == "class" else 1))
        if part.kind == "written":
            found.append(f"<{part.column}")
        elif part.kind == "digit":
            found.append(f"{'ab'[part.more]}{part.column}")
        else:
            found += [f"{operand}{column}" for column in columns for operand in "ab"]
    return list(dict.fromkeys(found))
