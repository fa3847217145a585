"""Two questions settled by the way."""

import pandas as pd
import pytest
import torch

from problem1 import published
from problem1.dataset import column_names, split_pairs
from problem1.model import Adder
from problem1.program.settled import after_random_prefixes, which_digit_is_due


def test_random_prefixes_change_what_a_model_writes_that_reads_them(program, some):
    """An untrained model does; the published adder on a sample as its table says of all."""
    torch.manual_seed(0)
    rows = after_random_prefixes(Adder().eval(), [some])
    assert rows["digit"].tolist() == column_names() and (rows["wrong"] > len(some) / 2).all()
    rows = after_random_prefixes(program.model, [some, some[:100]])
    assert (rows["sums"] == 600).all()
    stored = published.table("program_prefixes").query("sums == 810_000").set_index("digit")
    for row in rows.to_dict("records"):
        assert row["wrong"] / 600 == pytest.approx(stored.loc[row["digit"], "wrong"] / 810_000, abs=0.05)


def test_the_first_digit_has_nothing_before_it(program, some):
    assert after_random_prefixes(program.model, [some])["wrong"].iloc[0] == 0


def test_what_is_written_without_a_head_is_as_published(program):
    some = split_pairs("validation")
    found = which_digit_is_due(program.model, some[:1_000], some)
    seed = published.published_log()["recipe"]["seed"]
    stored = published.table("program_due").query(f"seed == {seed}").reset_index(drop=True)
    assert found["head"].tolist() == stored["head"].tolist() and len(found) == 16
    pd.testing.assert_series_equal(found["right"], stored["right"], atol=0.05)
    of_head = found.groupby("head")[["right", "zero drop"]].agg({"right": "min", "zero drop": "first"})
    assert (1 - of_head["right"] <= of_head["zero drop"] + 1e-9).all(), (
        "no digit is wrong more often than some digit is"
    )
    assert (found["instead"] != found["digit"]).all() and found["share"].between(0, 1).all()
