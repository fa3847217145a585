"""The program in words."""

import pandas as pd
import pytest

from problem1.dataset import split_pairs
from problem1.program.lines import (
    CLAIMS,
    DUE,
    NOTHING,
    SAME,
    all_right,
    at_a_glance,
    claims_of,
    idle_heads,
    lines,
    position_name,
    said,
    said_by,
    value_words,
    without,
)
from problem1.program.variables import Part


def test_the_listing_has_at_most_24_lines_and_every_head_once(program):
    listed = lines(program)
    assert len(listed) <= 24 and list(listed.columns) == ["head", "reads", "says", "rows"]
    named = [
        f"{line.split(', ')[0].rsplit(' ', 1)[0]} {number}"
        for line in listed["head"]
        for number in line.rsplit(" L", 1)[1].split(" ", 1)[1].split(", ")
    ]
    assert sorted(named) == sorted(program.model.head_names)
    assert listed["rows"].sum() == program.entries


def test_a_line_names_the_tokens_that_are_read_and_what_is_said():
    variables = [(Part("class", 0, 2),), (), (Part("sum", 1), Part("class", 2, 1)), ()]
    line = said("Decoder Cross L0 H2", variables)
    assert line == {
        "reads": "thousands: a0 b0 a1 b1; tens: a1 b1 a2 b2",
        "says": "thousands: the hundreds and tens against 99; tens: the sum of its column and the ones against 9",
        "rows": 3 + 1 + 19 * 3 + 1,
    }


def test_positions_with_the_same_words_stand_together():
    variables = [(Part("class", 0, 1),), *[(Part("sum", q),) for q in range(3)]]
    assert said("Decoder Cross L0 H0", variables)["says"] == (
        "thousands: the hundreds against 9; hundreds, tens, ones: the sum of its column"
    )


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ((Part("class", 1, 2),), 2, "above 99"),
        ((Part("sum", 1),), 15, "15"),
        ((Part("digit", 1, 0), Part("class", 2, 1)), 3 * 3 + 1, "3, at 9"),
        ((Part("written", 1),), 4, "4"),
    ],
)
def test_values_have_words(variable, value, expected):
    assert value_words(variable, value) == expected


def test_positions_have_names():
    assert [position_name("encoder", q) for q in range(7)] == ["a0", "a1", "a2", "+", "b0", "b1", "b2"]
    assert [position_name("cross", q) for q in range(4)] == ["thousands", "hundreds", "tens", "ones"]


def test_idle_heads_say_nothing_and_go_jointly(program):
    idle = idle_heads(program)
    assert idle and not set(idle) & set(program.speaking)
    for part in (program, program.only(("encoder", "self"))):
        assert all_right(without(part, idle)), "all of them at once, also where the cross heads read the encoder"
    needed = [head for head in program.choice if head not in idle and head not in program.speaking]
    for head in needed:
        parts = (program, program.only(("encoder", "self")))
        assert not all(all_right(without(part, [*idle, head])) for part in parts), head
    says = "".join(lines(program).query("reads == ''")["says"])
    assert (SAME in says) is bool(needed) and NOTHING in says


def test_heads_that_are_left_out_give_zeros(program):
    head = program.speaking[0]
    left = without(program, [head, "no such head"])
    assert all((table == 0).all() for table in left.tables[head])
    assert left.tables[program.speaking[1]] is program.tables[program.speaking[1]]


@pytest.mark.parametrize(
    ("variable", "kind", "position", "claims"),
    [
        ((Part("digit", 1, 1),), "encoder", 1, {"partner"}),
        ((Part("class", 2, 1),), "encoder", 5, {"encoder below"}),
        ((Part("sum", 2),), "encoder", 3, set()),  # the + has no column
        ((Part("sum", 1), Part("class", 2, 1)), "cross", 2, {"own", "below"}),
        ((Part("class", 1, 2),), "cross", 1, {"far below"}),
        ((Part("written", 2),), "cross", 2, {"written"}),
        ((), "cross", 2, set()),
    ],
)
def test_a_variable_makes_claims(variable, kind, position, claims):
    assert claims_of(variable, kind, position) == claims <= set(CLAIMS)


def test_a_row_for_each_head_says_what_a_line_says(program):
    idle = idle_heads(program)
    rows = pd.DataFrame(said_by(program.choice, idle)).set_index("head")
    assert sorted(rows.index) == sorted(program.model.head_names) and rows["rows"].sum() == program.entries
    assert (rows.loc[idle, "says"] == NOTHING).all() and (rows.loc[program.speaking, "reads"] != "").all()


def test_ten_programs_at_a_glance():
    heads = pd.DataFrame(
        [
            {"seed": 1, "head": "X H0", "claims": "own, below"},
            {"seed": 1, "head": "X H1", "claims": "own"},
            {"seed": 2, "head": "X H0", "claims": "own"},
            {"seed": 2, "head": "X H1", "claims": None},
        ]
    )
    due = pd.DataFrame([{"seed": s, "head": "S H0", "zero drop": z, "mean drop": 0.0} for s, z in ((1, 0.9), (2, 0.1))])
    table = at_a_glance(heads, due)
    assert table.loc[CLAIMS["own"]].tolist() == [2, 1, 2, 2]
    assert table.loc[CLAIMS["below"]].tolist() == [1, 0, 1, 1]
    assert table.loc[CLAIMS["written"]].tolist() == [0, 0, 0, 0]
    assert table.loc[DUE].tolist() == [1, 0, 1, 1]


def test_all_right_asks_the_validation_pairs(program):
    head = "Decoder Cross L0 H2"
    assert all_right(program) and not all_right(without(program, [head])) and len(split_pairs("validation")) == 2_000
