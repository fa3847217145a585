"""The proof, again: what is published is what these commands make."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import torch

from problem1.dataset import every_pair, split_pairs
from problem1.every_pair import check_every_pair, check_pairs, error_table, errors_by_digit
from problem1.model import Adder
from problem1.storage import weights_hash
from problem1.sweep import FIRST_SEEDS, SEEDS, lowest_validation_loss, train_and_check
from problem1.train import PUBLISHED, AdderRecipe, published_adder


@pytest.fixture(scope="module")
def adder():
    return published_adder()[0]


def test_the_published_adder_is_right_on_every_pair(adder):
    """All 810,000, computed here and now."""
    assert len(check_pairs(adder, every_pair(3, 9_000), progress=False)) == 0


def test_a_row_of_the_seed_table_reruns():
    """Trains the default adder (the notebook loads it then); elsewhere the last digits differ, the facts do not."""
    table = pd.read_csv(PUBLISHED / "seeds.csv").set_index(["recipe", "seed"])
    assert sorted(table.loc["published"].index) == list(SEEDS)
    recipe = AdderRecipe()
    row, again = table.loc[("published", recipe.seed)], train_and_check("published", **asdict(recipe))
    assert recipe.steps == row["steps"] and again["unseen test pairs"] == row["unseen test pairs"]
    assert again["test accuracy"] >= row["test accuracy"] - 0.002
    assert again["wrong"] <= 20 and row["wrong"] == 0


def test_the_published_adder_has_the_lowest_validation_loss_of_the_first_seeds(adder):
    rows = pd.read_csv(PUBLISHED / "seeds.csv")
    best = lowest_validation_loss(rows)
    assert best["weights"] == weights_hash(adder) and best["seed"] in FIRST_SEEDS
    others = rows[(rows["recipe"] == "published") & rows["seed"].isin(FIRST_SEEDS)]
    assert best["validation loss"] == others["validation loss"].min() > rows["validation loss"].min()
    log = json.loads((PUBLISHED / "training_log.json").read_text())
    assert min(row["validation loss"] for row in log["rows"]) == pytest.approx(best["validation loss"])
    recipe = log["recipe"]
    assert recipe == asdict(AdderRecipe(seed=int(best["seed"]))), "the published recipe is the default one"


def test_it_adds(adder):
    assert adder.add("663+497") == "1160" and adder.add("100+100") == "0200" and adder.add("999+999") == "1998"
    with pytest.raises(ValueError, match="'66\\+497' is not a sum"):
        adder.add("66+497")


def test_the_check_finds_what_is_wrong(adder):
    """A model with one spoiled weight matrix: the pairs reported are exactly those that greedy decoding gets wrong."""
    spoiled = published_adder()[0]
    with torch.no_grad():
        spoiled.blocks[3].attention.output.weight.mul_(0.2)
    pairs = split_pairs("test")[:400]
    wrong = check_pairs(spoiled, [pairs[:150], pairs[150:]], progress=False)
    by_hand = [(a, b) for a, b in pairs.tolist() if int(spoiled.add(f"{a}+{b}")) != a + b]
    assert wrong[["a", "b"]].values.tolist() == [list(pair) for pair in by_hand] and 0 < len(wrong) < 400
    assert all(int(spoiled.add(f"{row.a}+{row.b}")) == row.answer for row in wrong.itertuples())


def test_a_stored_result_belongs_to_its_weights(adder, monkeypatch):
    computed = []

    def fake(model, *rest):
        computed.append(weights_hash(model))
        return pd.DataFrame({"a": [], "b": [], "answer": []})

    monkeypatch.setattr("problem1.every_pair.check_pairs", fake)
    monkeypatch.setattr("problem1.every_pair.write_json", lambda *_: None)
    assert len(check_every_pair(adder)) == 0 and computed == []  # read
    other = Adder().eval()
    check_every_pair(other)
    assert computed == [weights_hash(other)] != [weights_hash(adder)]  # computed
    check_every_pair(adder, fresh=True)
    assert len(computed) == 2


def test_error_tables_count_every_pair_and_every_error():
    wrong = pd.DataFrame({"a": [999, 100], "b": [999, 100], "answer": [1999, 300]})
    table = error_table(wrong)
    assert table["pairs"].sum() == 810_000 and table["wrong"].sum() == 2
    assert table.loc[table["carries"] == 3, "wrong"].sum() == 1
    assert errors_by_digit(wrong).to_dict() == {"thousands": 0, "hundreds": 1, "tens": 0, "ones": 1}
    nothing = error_table(wrong[:0])
    assert nothing["wrong"].sum() == 0 and np.isfinite(nothing["wrong per million"]).all()
