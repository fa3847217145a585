"""The program in words: a line for each head that says something, and what a head says at a glance."""

import functools
from collections.abc import Sequence

import pandas as pd

from problem1.ablation import TOLERANCE
from problem1.dataset import TOKENS, column_names, encode_pairs, shift_right, split_pairs
from problem1.every_pair import margins
from problem1.program.tables import Choice, Program, kind_of
from problem1.program.variables import ENTRIES, Part, Variable, entries, own_column, reads, words

CLASS_WORDS = ("below", "at", "above")
SAME, NOTHING = "the same in every sum, but needed", "nothing: zeros do as well"  # see idle_heads


def lines(program: Program) -> pd.DataFrame:
    """A line for each head that says more than its position, and one for the others of each layer: `reads` are the
    tokens by position, `says` is what its tables are indexed by, `rows` the size of its tables."""
    found, silent, idle = [], dict[tuple[str, str], list[str]](), idle_heads(program)
    for head, variables in program.choice.items():
        if any(variables):
            found.append({"head": head, **said(head, variables, program.shape["digits"])})
        else:
            layer = head.rsplit(" ", 1)[0]
            silent.setdefault((layer, NOTHING if head in idle else SAME), []).append(head)
    for (layer, says), heads in silent.items():
        numbers = ", ".join(head.rsplit(" ", 1)[1] for head in heads)
        rows = sum(len(program.choice[head]) for head in heads)
        found.append({"head": f"{layer} {numbers}", "reads": "", "says": says, "rows": rows})
    order = {head: number for number, head in enumerate(program.model.head_names)}
    return pd.DataFrame(sorted(found, key=lambda line: order[str(line["head"]).split(",")[0]]))


@functools.lru_cache(maxsize=4)
def idle_heads(program: Program) -> Sequence[str]:
    """Heads that say nothing and can be left out, all of them jointly: with zeros in their place every validation sum
    stays right, when all heads are tables and also while the cross heads are computed, from what the others leave."""
    idle, stages = list[str](), (program, program.only(("encoder", "self")))
    for head in program.choice:
        if head not in program.speaking and all(all_right(without(stage, [*idle, head])) for stage in stages):
            idle.append(head)
    return idle


def without(program: Program, heads: Sequence[str]) -> Program:
    """The program with zeros in place of these heads, as far as they are tables."""
    for head in program.choice.keys() & set(heads):
        program = program.replaced(head, program.choice[head], [0 * table for table in program.tables[head]])
    return program


def all_right(program: Program) -> bool:
    source, target = encode_pairs(split_pairs("validation", program.shape["digits"]), program.shape["digits"])
    return bool((margins(program(source, shift_right(target)), target) > 0).all())


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
    return ", ".join(part_value(part, here) for part, here in zip(variable, values_of(variable, value), strict=True))


def statement(variable: Variable, value: int, digits: int = 3) -> str:
    """The same in a sentence: 'tens add up to 15', 'tens and ones are above 99'."""
    return ", ".join(
        f"{part_name(part, digits)} {part_value(part, here)}"
        for part, here in zip(variable, values_of(variable, value), strict=True)
    )


def values_of(variable: Variable, value: int) -> list[int]:
    """The value of each part."""
    values = []
    for part in reversed(variable):
        value, here = divmod(value, ENTRIES[part.kind])
        values.append(here)
    return values[::-1]


def part_value(part: Part, value: int) -> str:
    if part.kind == "class":
        return f"{CLASS_WORDS[value]} {10**part.more - 1}"
    return TOKENS[value] if part.kind == "written" else str(value)


def part_name(part: Part, digits: int) -> str:
    if part.kind == "written":
        return "digit before:"
    names = " and ".join(column_names(digits)[1 + part.column :][: max(1, part.more)])
    return (
        f"{names} {'add up to' if part.kind == 'sum' else 'are'}"
        if part.kind != "digit"
        else f"a digit of the {names} is"
    )


# --- ten programs at a glance ----------------------------------------------------------------------------------------

CLAIMS = {  # key: what a head does that has it
    "partner": "tells a digit the other one of its column",
    "encoder below": "tells a digit what lower columns add up to",
    "own": "says the sum of the digit's own column",
    "below": "says what the next lower column adds up to",
    "far below": "says what two lower columns add up to",
    "written": "passes on a digit written before",
}
DUE = "says which digit is due, the same in every sum"


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


def said_by(choice: Choice, idle: Sequence[str], digits: int = 3) -> list[dict[str, object]]:
    """A row for each head: what it reads and says, the size of its tables, and its claims."""
    rows = []
    for head, variables in choice.items():
        kind = kind_of(head)
        claims = {key for q, variable in enumerate(variables) for key in claims_of(variable, kind, q, digits)}
        row = {"head": head, **said(head, variables, digits), "claims": ", ".join(sorted(claims))}
        rows.append(row if any(variables) else row | {"says": NOTHING if head in idle else SAME})
    return rows


def at_a_glance(heads: pd.DataFrame, due: pd.DataFrame) -> pd.DataFrame:
    """What is shared by all seeds and what is an accident: a row for each claim, the number of heads that have it in
    each seed (`heads` are rows of `said_by`, `due` those of `settled.which_digit_is_due`, with a seed), in how many
    seeds some head has it, and in how many the same head, by its number, has it."""
    due = due[(due["zero drop"] > 0.5) & (due["mean drop"] <= TOLERANCE)].drop_duplicates(["seed", "head"])
    claimed = heads.fillna({"claims": ""}).assign(claim=lambda rows: rows["claims"].str.split(", ")).explode("claim")
    found = {text: claimed[claimed["claim"] == key] for key, text in CLAIMS.items()} | {DUE: due}
    rows = {}
    for text, having in found.items():
        counts = having.groupby("seed").size().reindex(sorted(heads["seed"].unique()), fill_value=0)
        same = having.groupby("head").size()
        rows[text] = {
            **{f"seed {seed}": count for seed, count in counts.items()},
            "some head": int((counts > 0).sum()),
            "the same head": int(same.max()) if len(same) else 0,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("a head that")
