"""The table of what the checks do."""

import sys

import pytest
from course.edition import checks, prove
from course.edition.prove import Row

GOOD, BAD = Row("solution", "tokens", "tokens", True, ""), Row("mistake", "x", "tokens", False, "tokens: something.")


def test_blanks_get_no_points_and_a_sentence_each():
    blanks = list(prove.blanks())
    assert len(blanks) == 21 and all(row.as_it_should_be for row in blanks)
    assert all(checks.BLANK in row.sentence for row in blanks) and prove.points(blanks, "blank").startswith("0 of ")


def test_points_are_those_of_right_functions():
    assert prove.points([GOOD, BAD], "solution") == "4 of 77 points (5%)"
    assert "0 of 1 named" in prove.summary([GOOD, BAD])[2]


@pytest.mark.parametrize(("rows", "status"), [([GOOD], 0), ([GOOD, BAD], 1)])
def test_the_command_fails_if_something_is_not_as_it_should_be(rows, status, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["prove"])
    monkeypatch.setattr(prove, "solved", lambda: rows)
    for other in ("blanks", "mistakes", "styles"):
        monkeypatch.setattr(prove, other, list)
    with pytest.raises(SystemExit) as stop:
        prove.main()
    assert stop.value.code == status and ("NOT AS IT SHOULD BE" in capsys.readouterr().out) == bool(status)


def test_without_the_tests_the_command_says_where_to_run_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tests.course.edition.mistakes", None)
    with pytest.raises(prove.UserError, match="run this in the project's folder"):
        prove.tried("mistakes")


def test_a_wrong_solution_would_be_noticed(monkeypatch):
    monkeypatch.setattr(prove, "functions", lambda teacher: {"positions": lambda length, d_model: None})
    (row,) = prove.solved()
    assert not row.as_it_should_be and row.sentence.startswith("positions returns nothing")
