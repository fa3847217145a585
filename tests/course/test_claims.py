"""The tables that the verdicts rest on say what the published tables and models say."""

import pandas as pd
import pytest
from course import claims

from problem1 import published
from problem2 import published as published2
from problem2.dataset import LONG_LENGTHS


def test_every_claim_names_who_makes_it():
    for who, claim in claims.CLAIMS.values():
        assert who == "public solutions" or set(who.split(", ")) <= set("ABCD")
        assert claim and not claim.endswith(".")


def test_renumbered_heads_are_the_same_heads_under_other_numbers():
    table, difference = claims.renumbered(pairs=60)
    assert difference < 1e-3 and sorted(table["as trained"]) == sorted(table["renumbered"])
    assert table["as trained"].nunique() > 1 and table["as trained"].tolist() != table["renumbered"].tolist()


def test_the_first_head_of_a_flawed_adder_has_its_largest_drop():
    table, heads = claims.importance_of_flawed(), published.table("flawed_heads")
    row = table.loc[("no BOS", 2)]
    chosen = heads[(heads["variant"] == "no BOS") & (heads["seed"] == 2)].set_index("head")["accuracy from 0"]
    assert row["first head"] == chosen.idxmin()
    assert max(row[column] for column in table if column.startswith("largest")) == pytest.approx(
        0.412 - chosen.min(), abs=1e-3
    )
    assert len(table) == len(published.table("flawed")) + len(published.table("flawed_stopped"))


def test_kinds_are_counted():
    heads = pd.Series(["Encoder L0 H1", "Encoder L1 H0", "Decoder Self L0 H0"])
    assert claims.counted_kinds(heads) == "Encoder in 2 and Decoder Self in 1"


def test_a_carrier_flips_more_than_half():
    heads = published.table("heads")
    columns = [column for column in heads if column.startswith("carry into")]
    assert len(claims.carriers()) == (heads[columns].max(axis=1) > 0.5).sum() > 0
    rates = claims.flip_rates()
    assert len(rates) == 10 and (rates["all heads"] == 1).all() and rates.to_numpy().min() >= 0


def test_attention_of_a_head_on_the_plus_is_never_above_that_on_it_and_its_neighbours():
    attended = claims.attention_of_all().dropna(subset=["on the +"])
    assert (attended["on the +"] <= attended["on the + and its neighbours"] + 1e-6).all()
    table = claims.on_the_plus(attended)
    assert ("published adder", "L0") in table.index and (table.xs("mean", axis=1, level=1) <= 1).all().all()


def test_far_accuracies_are_of_ten_seeds_and_four_lengths():
    table = claims.far_accuracies()
    assert (
        len(table) == 16 and (table["of"] == 10 * len(LONG_LENGTHS)).all() and (table["constant"] <= table["of"]).all()
    )
    assert table.loc["randomized", "kind"] == "absolute" and table.loc["t5", "kind"] == "relative"
    assert table.loc["causal", "kind"] == "neither"


def test_distance_explains_all_without_weights_and_less_with_them():
    shares = claims.explained_by_distance()
    assert shares["without weights"] == pytest.approx(1) and shares["with random weights"] < 0.5


def test_order_is_nothing_to_a_classifier_without_positions():
    assert claims.changed_by_order() < 1e-4


def test_a_perfect_set_up_has_no_mistake_in_any_seed():
    table, rows = claims.perfect(), published2.table("classifiers_evaluated")
    keys = published2.table("classifiers").query("study == 'plain' and name == 'shaw'")["key"]
    exact = rows[rows["key"].isin(keys) & (rows["set"] == "exact") & rows["length"].isin(LONG_LENGTHS)]
    own = exact[exact["policy"] == exact["policy"].iloc[0]]
    assert (("plain", "shaw") in table.index) == bool((own["accuracy"] == 1).all())
    assert ("plain", "sinusoidal") not in table.index or "extend" not in table.loc[("plain", "sinusoidal"), "policies"]


def test_plain_sinusoidal_means_no_option_no_window_and_the_mean():
    table = claims.plain_sinusoidal()
    assert list(table.index) == list(LONG_LENGTHS) and table["classifiers"].eq(table["classifiers"].iloc[0]).all()
    assert (table["min"] <= table["mean"]).all() and table["max"].max() < 0.6
