"""What is derived from the data alone is derived right."""

import numpy as np
import pandas as pd
import pytest
import torch
from course import reports
from course.reports import as_printed, item_counts, rounding, value_of

from problem1 import published
from problem1.dataset import encode_pairs, split_pairs
from problem1.flawed import most_common_start
from problem2 import published as published2
from problem2.dataset import LONG_LENGTHS, long_items


@pytest.mark.parametrize("printed", [*reports.reported()["printed"], "1.0", ".5", ".492"])
def test_numbers_are_read_and_printed_alike(printed):
    if "e" not in printed:
        assert as_printed(value_of(printed), printed) == printed
    assert 0 < value_of(printed) <= 1


def test_numbers_are_read_right():
    assert value_of("41.20 %") == pytest.approx(0.412) and value_of(".85 %") == pytest.approx(0.0085)
    assert as_printed(0.41199, "41.20 %") == "41.20 %" and as_printed(0.4119, "41.20 %") == "41.19 %"
    assert rounding("54.95 %") == pytest.approx(5e-5) and rounding(".2090") == pytest.approx(5e-5)
    assert rounding("7.44e-05") == pytest.approx(5e-8)


def test_baselines_are_shares_of_the_test_pairs():
    """Counted here one pair at a time, from the digits."""
    answers = [f"{a + b:04d}" for a, b in split_pairs("test")]
    small = sum(answer[0] == "0" for answer in answers)
    no_zero = sum(answer[0] == "0" and "0" not in answer[1:] for answer in answers)
    table = reports.adder_derivations()
    assert table["pairs"].tolist()[:2] == [small, no_zero] == [824, 698]
    assert table["verdict"].tolist() == ["equal", "equal", "not above it", "not above it"]


@pytest.mark.parametrize("batch", [32, 64])
def test_the_ceiling_is_that_of_the_decoding(batch):
    _, target = encode_pairs(split_pairs("test"))
    right = most_common_start(target, batch) == target[:, 0]
    assert np.array_equal(reports.most_common_start_right(split_pairs("test"), batch), right.numpy())


def test_class_shares_are_what_a_and_d_report():
    for length in LONG_LENGTHS:
        labels = [label for _, label in long_items(length)]
        assert reports.class_shares()[length] == sum(labels) / len(labels)
    table = reports.length_derivations()
    assert (table[table["report"].isin(["A", "D"])]["equal to"] != "neither").all()
    learned = table.query("report == 'A' and encoding == 'learned'")["equal to"]
    assert (learned == 'always "unsorted"').all()
    assert (table.query("report == 'B' and reported == '.5'")["equal to"] == "neither").all()


def test_an_impossible_share_is_found(monkeypatch):
    assert item_counts()["possible"].all()
    monkeypatch.setattr(reports, "REPORTED", [("A", "drop without", "Encoder L0 H0", ".2091")])
    assert not item_counts()["possible"].iloc[0]  # 418.2 of 2,000 items


# --- every printed number --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numbers():
    return reports.every_number()


def test_every_printed_number_has_a_verdict_and_few_stay_open(numbers):
    """The notebook names these three, and how far away they are."""
    assert len(numbers) == len(reports.REPORTED) + len(reports.reported_lengths())
    assert set(numbers["verdict"]) <= {reports.EQUAL, reports.INSIDE, reports.SHOWN, reports.OPEN}
    left = numbers[numbers["verdict"] == reports.OPEN]
    assert list(left["printed"]) == [".2090", "58.3 %", ".6 %"] and (left["missed by"] > 0).all()
    counts = reports.verdict_counts(numbers)
    assert counts.to_numpy().sum() == len(numbers) and list(counts.index) == ["A", "B", "C", "D"]


def test_no_number_is_lost_in_the_short_table(numbers):
    short = reports.number_table()
    assert sum(len(cell.split(", ")) for cell in short["printed"]) == len(numbers) > len(short)


def test_what_is_equal_is_equal_to_the_last_digit(numbers):
    equal = numbers[(numbers["verdict"] == reports.EQUAL) & numbers["what"].str.startswith("accuracy at")]
    shares = reports.class_shares()
    for row in equal.itertuples():
        length = int(row.what.removeprefix("accuracy at "))
        assert round(value_of(row.printed) * 500) in (round(shares[length] * 500), 500 - round(shares[length] * 500))


def test_a_number_is_compared_with_ours_of_the_same_kind():
    """Counted here from the published table, one adder at a time."""
    runs, heads = (published.table(name) for name in published.FLAWED)
    second = []
    for name in ("no BOS", "homework, no BOS"):
        for seed in range(3):
            chosen = heads[(heads["variant"] == name) & (heads["seed"] == seed)]["accuracy from 0"]
            base = runs[(runs["variant"] == name) & (runs["seed"] == seed)]["free-running from 0"].item()
            second.append(base - sorted(chosen)[1])
    assert sorted(reports.similar("A", "drop without", 1)) == pytest.approx(sorted(second))
    assert len(reports.similar("C", "accuracy without")) == 3 * 8  # encoder heads only


def test_inside_is_inside_but_for_rounding():
    assert reports.is_inside("41.20 %", [0.41204, 0.5]) and not reports.is_inside("41.20 %", [0.41206, 0.5])
    assert reports.is_inside(".5", [0.2, 0.46]) and not reports.is_inside(".50", [0.2, 0.46])


def test_guesses_lie_where_they_should():
    """The normal approximation against counted coin flips."""
    low, high = reports.guessing(500)
    shares = np.random.default_rng(0).binomial(500, 0.5, 20_000) / 500
    assert 0.93 < ((shares >= low) & (shares <= high)).mean() < 0.97


def test_sums_below_a_ceiling_are_right_as_often_as_chance_has_them():
    """The normal approximation against counted coin flips."""
    low, high = reports.near(0.54, 0.6)
    shares = np.random.default_rng(0).binomial(1_200, 0.9, 20_000) / 2_000
    assert 0.93 < ((shares >= low) & (shares <= high)).mean() < 0.97


# --- our own trainings -----------------------------------------------------------------------------------------------


def test_five_scores_of_a_model_that_is_always_right(monkeypatch):
    """It knows the answer whatever it is started with, so only the start decides."""
    target = encode_pairs(split_pairs("test"))[1]
    logits = torch.nn.functional.one_hot(target[:, 1:], 10).float()
    monkeypatch.setattr(reports.flawed, "rest_right", lambda *_: torch.ones(len(target), dtype=torch.bool))
    scores = reports.five_scores(lambda source, read: logits)["answers right"]
    assert scores["free-running from 0"] == 0.412 and scores["free-running from the true one"] == 1
    assert scores["teacher forcing, the first digit handed over"] == 1


def test_the_class_of_dead_trainings_is_told():
    assert reports.answers_of(pd.Series([1.0, 0.0, 1.0])) == "sorted in 2 and unsorted in 1"
    assert reports.answers_of(pd.Series([0.0])) == "unsorted in 1" and reports.answers_of(pd.Series([])) == "none"


def test_dead_is_whose_last_loss_is_that_of_guessing(monkeypatch):
    runs = pd.DataFrame({"variant": "x", "training loss": [0.6932, 0.6840, 0.6830, 0.1], "training accuracy": 0.5})
    runs = runs.assign(
        **{"epochs trained": 6, "test accuracy": 0.5, "test share answered sorted": [1.0, 0.9, 0.5, 0.5]}
    )
    runs = runs.assign(**{"test constant prediction": runs["test share answered sorted"] == 1})
    monkeypatch.setattr(published2, "table", lambda name: runs)
    row = reports.deaths().loc["x"]
    assert row["at ln 2"] == 2 and row["seeds"] == 4 and row["one answer"] == "sorted in 1"


def test_one_answer_is_right_on_one_class_at_every_length():
    runs = published2.table("flawed_dead")
    constant = runs[runs["test constant prediction"]]
    assert (
        constant["test share answered sorted"].isin([0, 1]).all()
        and reports.dead_runs().loc[constant.index, "at ln 2"].all()
    )
    far = published2.table("flawed_dead_evaluated").merge(constant[["variant", "seed"]])
    far = far[far["constant prediction"]]
    right = np.where(far["share answered sorted"] == 1, far["share sorted"], 1 - far["share sorted"])
    assert np.allclose(far["accuracy"], right) and len(far)


def test_the_larger_class_is_what_as_log_ends_with():
    assert as_printed(reports.larger_class(), ".5093") == ".5093"


def test_a_ranking_names_the_head_that_is_first():
    numbers = pd.DataFrame(
        {
            "variant": "x",
            "seed": 0,
            "number": [0, 1, 2, 3],
            "on the first sum": [0.1, 0.4, 0.2, 0.3],
            "mean": [0.4, 0.3, 0.2, 0.1],
            "first on": [0.7, 0.1, 0.1, 0.1],
            "rankings": 5,
            "ranked as by the mean": 0.25,
        }
    )
    row = reports.rankings(numbers).iloc[0]
    assert row["first on 663 + 497"] == 1 and row["first on average"] == 0 and row["H0 first on"] == "70 %"
    assert tuple(split_pairs("test")[0]) == (663, 497)


def test_warnings_name_the_share_of_the_class():
    sentences = " ".join(reports.warnings_about_class(64))
    assert "Every answer is" in sentences and "48.60 %" in sentences


# --- what is typed in ------------------------------------------------------------------------------------------------


def test_numbers_of_a_report_come_in_its_order():
    assert reports.values("D", "accuracy without") == pytest.approx([0.1125, 0.1705])
    assert reports.values("B", "accuracy") == []
    lengths = reports.reported_lengths()
    assert len(lengths) == 3 * 3 * len(LONG_LENGTHS) and lengths[4:6] == [
        ("A", "learned", 32, ".546"),
        ("A", "learned", 64, ".486"),
    ]
