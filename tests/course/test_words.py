"""Sentences say what the tables say."""

import pandas as pd
import pytest
from course import claims, reports, words


def test_every_row_of_the_first_table_has_one_number_in_bold_and_leads_somewhere():
    rows = words.answer_rows()
    assert 5 <= len(rows) <= 10
    for _, answer, section in rows:
        assert answer.count("**") == 2 and any(digit in answer.split("**")[1] for digit in "0123456789")
        assert section[1:3] == ". "
    assert words.answers().data.count("\n|") == len(rows) + 1


def test_a_quick_look_says_so(monkeypatch):
    monkeypatch.setattr(words, "banner", lambda: "QUICK LOOK")
    assert words.answers().data.startswith("# QUICK LOOK")


def test_percentages_are_written_as_the_reports_write_them():
    assert words.percent([0.541, 0.55], ".1%") == "54.1 % to 55.0 %" and words.percent([0.5], ".0%") == "50 %"


def test_the_gap_is_the_largest_difference():
    runs = pd.DataFrame({"free-running from the true one": [1.0, 0.7], "teacher-forced answers": [1.0, 0.9]})
    assert words.gap(runs) == pytest.approx(0.2)


def test_verdicts_are_counted_in_words():
    counts = pd.Series({reports.EQUAL: 3, reports.OPEN: 1})
    assert words.verdicts_counted(counts) == "3 equal a share of the data and 1 stay open"


def deaths():
    index = ["as handed in, none", "as handed in, learned", "pre-norm, sinusoidal"]
    return pd.DataFrame({"seeds": 3, "at ln 2": [3, 2, 1], "test accuracy": "0.5 to 0.9"}, index=index)


def test_deaths_and_lives_are_told():
    assert words.stays_dead(deaths()) == "As handed in, 5 of 6 trainings stay at ln 2"
    assert words.revived(deaths()).data == "How many of three sinusoidal trainings one change revives: pre-norm: 2."


def test_flawless_classifiers_are_right_on_all_four_sets(monkeypatch):
    rows = pd.DataFrame({"seed": [0, 0, 1, 1, 2], "accuracy": [1, 1, 1, 0.998, 1]})
    monkeypatch.setattr(words, "evaluated", lambda *_, **__: rows)
    assert words.flawless() == 2


def test_rankings_that_differ_are_counted():
    part = pd.DataFrame(
        {
            "seed": 0,
            "number": [0, 1],
            "on the first sum": [1.0, 2.0],
            "mean": [2.0, 1.0],
            "first on": [0.5, 0.5],
            "rankings": 2,
            "ranked as by the mean": 0.25,
        }
    )
    other = part.assign(variant="no BOS", **{"mean": [1.0, 2.0]})
    text = words.one_sum(pd.concat([part.assign(variant="published adder"), other])).data
    assert "in 1 of 2 adders, and the same ranking in 1." in text and "25 %" in text


def test_every_claim_has_a_verdict_and_its_evidence_a_number():
    found = words.verdicts()
    assert found.keys() == claims.CLAIMS.keys()
    for verdict, evidence in found.values():
        assert verdict and any(digit in evidence for digit in "0123456789") and not evidence.endswith(".")
    assert words.listed_verdicts().data.count("\n") == len(found) - 1


def test_open_numbers_are_named():
    numbers = reports.every_number()
    text = words.open_numbers().data
    assert all(row.printed in text for row in numbers[numbers["verdict"] == reports.OPEN].itertuples())
