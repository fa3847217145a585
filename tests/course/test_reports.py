"""What is derived from the data alone is derived right."""

import numpy as np
import pytest
from course import reports
from course.reports import as_printed, item_counts, rounding, value_of

from problem1 import published
from problem1.dataset import encode_pairs, split_pairs
from problem1.flawed import most_common_start
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


def test_spreads_are_those_of_the_published_tables():
    flawed, heads = (published.table(name) for name in published.FLAWED)
    table = reports.beside_retrained(reports.retrained_facts(flawed, heads))
    row = table.query("report == 'A' and `read off` == 'largest drop' and training == 'homework'").iloc[0]
    chosen = heads[heads["variant"] == "homework, no BOS"].groupby("seed")["accuracy from 0"].min()
    base = flawed[flawed["variant"] == "homework, no BOS"].set_index("seed")["free-running from 0"]
    assert row["highest"] == pytest.approx((base - chosen).max())
    assert table.query("report == 'A' and `read off` == 'free-running from 0' and training == 'ours'")["inside"].all()
    assert table.query("reported == '34.9 %' and training == 'ours'")["inside"].all()


def test_numbers_of_a_report_come_in_its_order():
    assert reports.values("D", "accuracy without") == pytest.approx([0.1125, 0.1705])
    assert reports.values("B", "accuracy") == []
    lengths = reports.reported_lengths()
    assert len(lengths) == 3 * 3 * len(LONG_LENGTHS) and lengths[4:6] == [
        ("A", "learned", 32, ".546"),
        ("A", "learned", 64, ".486"),
    ]


def test_every_retrained_number_is_one_that_a_report_prints():
    printed = reports.reported().set_index(["report", "what", "which"]).index
    assert printed.is_unique and all(row[:3] in printed for row in reports.RETRAINED)


def test_every_claim_names_who_makes_it():
    for who, claim in reports.CLAIMS.values():
        assert who == "public solutions" or set(who.split(", ")) <= set("ABCD")
        assert claim and not claim.endswith(".")
