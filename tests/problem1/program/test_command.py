"""The published program from Python and from a terminal."""

import runpy
import sys

import pytest

from problem1 import program as room
from problem1.program import command
from problem1.shared.errors import UserError


def test_663_plus_497_is_followed_number_by_number(program):
    followed = command.run("663+497", program)
    assert followed.answer == "1160" and followed.digits["written"].tolist() == [1, 1, 6, 0]
    assert (followed.digits["logit"] > followed.digits["its logit"]).all()
    said = followed.said
    assert set(said["head"]) == set(program.speaking)
    carry = said[(said["head"] == "Decoder Cross L0 H2") & (said["at"] == "tens")].iloc[0]
    assert carry["says"] == "above 9" and carry["reads"] == "a2 b2"


def test_what_is_said_changes_with_the_sum(program):
    said = command.run("111+111", program).said
    assert said[(said["head"] == "Decoder Cross L0 H2") & (said["at"] == "tens")]["says"].item() == "below 9"


def test_a_bad_sum_gets_one_sentence():
    with pytest.raises(UserError, match="'12\\+345' is not a sum"):
        room.run("12+345")


def test_the_package_offers_listing_and_run():
    assert len(room.listing()) <= 24 and room.run().answer == "1160"


def test_the_command_prints_listing_sum_and_counts(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", "999+101"])
    command.main()
    shown = capsys.readouterr().out
    assert "999+101 = 1100" in shown and "Decoder Cross L0 H2" in shown
    assert "all heads as tables: " in shown and "of 810,000 sums wrong" in shown and "929,162 parameters" in shown


def test_python_m_runs_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("problem1.program", run_name="__main__")
    assert stop.value.code == 0 and "--stages" in capsys.readouterr().out
