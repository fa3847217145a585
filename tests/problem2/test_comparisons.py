"""What the studies say that change one thing at a time."""

import pandas as pd
import pytest

from problem2 import comparisons, published
from problem2.analysis import evaluated
from problem2.encodings import ENCODINGS
from problem2.studies import CONFIRMED_FROM, FARTHEST_FROM, HARD_STUDY, SEEDS, hard_trainings, reaching, study_seeds


def test_interpolation_taken_apart_names_rows_by_what_differs_from_it(monkeypatch):
    """Each label takes the rows of its policy on its set, of swapped sequences; for the learned table, which does not
    extend, those of its untrained rows."""
    policies = ["clamp", "interpolate", "moved", "log-length scaling"]
    rows = pd.DataFrame(
        [
            {"policy": policy, "set": kind, "corruption": corruption, "seed": 0, "length": 32}
            for policy in policies
            for kind in ("exact", "crowded", "new")
            for corruption in ("swaps", "adjacent")
        ]
    )
    for last in ("extend", "untrained"):
        more = rows[rows["policy"] == "moved"].assign(policy=last)
        monkeypatch.setattr(comparisons, "evaluated", lambda *_, more=more, **__: pd.concat([rows, more]))
        found = comparisons.interpolation_taken_apart("augmented", "sinusoidal")
        assert found[["policy", "set"]].apply(tuple, axis=1).tolist() == [
            ("interpolate", "exact"),
            ("moved", "exact"),
            ("clamp", "crowded"),
            ("interpolate", "crowded"),
            ("clamp", "exact"),
            (last, "exact"),
        ]
        assert found["name"].tolist() == list(comparisons.INTERPOLATION) and set(found["corruption"]) == {"swaps"}


def test_the_hard_study_is_read_with_the_softmax_of_each_classifier(monkeypatch):
    tables = {
        "hard": pd.DataFrame(
            {"name": ["shaw", "shaw, scalable softmax"], "options": [None, "clip=1,ssmax=1"], "seed": [0, 0], "x": 1}
        ),
        "hard_evaluated": pd.DataFrame(
            {"name": ["shaw, scalable softmax", "shaw"], "seed": 0, "length": [96, 32], "accuracy": [1.0, 0.5]}
        ),
    }
    monkeypatch.setattr(comparisons.published, "table", lambda name: tables[name].copy())
    rows = comparisons.hard_study().set_index("softmax")
    assert rows["encoding"].tolist() == ["shaw", "shaw"]
    assert rows["length"].to_dict() == {"softmax": 32, "scalable softmax": 96}


def hard_rows():
    """The published rows of the hard study as its runs returned them."""
    hard, rows = published.table("hard"), published.table("hard_evaluated")
    parts = {key: part.to_dict("records") for key, part in rows.groupby(["name", "seed"])}
    return hard.assign(rows=[parts[key] for key in zip(hard["name"], hard["seed"], strict=True)])


def test_the_published_hard_study_followed_its_rules():
    hard = hard_rows()
    first, all_seeds = study_seeds(SEEDS["studies"]), study_seeds(SEEDS["encodings"])
    beginning = hard[hard["seed"].isin(first)]
    declared = hard_trainings(first)
    fields = [key for key in declared[0] if key != "options"]
    assert beginning.fillna({"options": ""})[[*fields, "options"]].to_dict("records") == [
        {**{key: each[key] for key in fields}, "options": each["options"]} for each in declared
    ]
    confirmed = reaching(beginning, *CONFIRMED_FROM)
    assert 0 < len(confirmed) < len(HARD_STUDY)
    for name, seeds in hard.groupby("name")["seed"]:
        assert sorted(seeds) == (all_seeds if name in confirmed else first)
    asked = published.table("hard_evaluated").query("length == 4096")["name"]
    assert set(asked) == set(reaching(hard[hard["name"].isin(confirmed)], *FARTHEST_FROM))
    assert hard["code"].nunique() == 1


def test_first_seeds_and_all_seeds_are_those_that_everybody_and_few_have():
    rows = comparisons.hard_study()
    first = comparisons.first_seeds(rows, 3, [16, 1_024])
    assert set(first["seeds"]) == {3} and len(first) == len(HARD_STUDY) * 2
    ten = comparisons.with_all_seeds(rows, 10)
    assert set(ten.groupby("name")["seed"].nunique()) == {10} and "Transformer-XL, causal, softmax" in set(ten["name"])


# --- tables of the notebook ------------------------------------------------------------------------------------------


def test_an_encoding_extrapolates_if_its_lowest_accuracy_does():
    rows = pd.DataFrame(
        [
            {"study": study, "name": name, "seed": seed, "length": length, "accuracy": low if length == 256 else 1.0}
            for study, lows in (("plain", {"rope": 0.997, "shaw": 1.0}), ("augmented", {"rope": 1.0, "shaw": 0.5}))
            for name, low in lows.items()
            for seed in (0, 1)
            for length in (32, 256)
        ]
    )
    assert comparisons.extrapolating(rows) == {"plain": ["shaw"], "augmented": ["rope"]}
    assert comparisons.extrapolating(rows, 0.99)["plain"] == ["rope", "shaw"]


def test_a_constant_answer_gets_what_the_assignment_measured():
    table = comparisons.class_table()
    assert table.loc[[32, 64, 128, 256], 'always "sorted" gets'].tolist() == [0.454, 0.514, 0.518, 0.512]
    assert (table['always "sorted" gets'] + table['always "unsorted" gets'] == 1).all()


def test_the_assignments_table_has_its_encodings_in_its_order_under_each_recipe():
    table = comparisons.assigned_table()
    recipes = ("plain", "augmented", "assignment shape")
    assert table.index.tolist() == [f"{name}, {recipe}" for name in comparisons.ASSIGNED for recipe in recipes]
    assert table.columns.tolist() == [32, 64, 128, 256]
    assert table.loc["sinusoidal, plain"].tolist()[:2] == ["0.546 ± 0.001 (9)", "0.486 ± 0.000 (10)"]


def test_differences_are_the_same_from_either_side():
    """Encodings before and after the baseline have it first or second in the table of all pairs."""
    rows = comparisons.per_seed().query("study == 'plain'").pivot(index="seed", columns="name")["balanced accuracy"]
    table = comparisons.ahead_of("sinusoidal", "plain")
    assert len(table) == rows.shape[1] - 1 and (table["low"] <= table["high"]).all()
    for name in ("none", "causal", "learned"):
        assert table.loc[name, "difference"] == pytest.approx((rows[name] - rows["sinusoidal"]).mean())
    text = comparisons.with_brackets(table)["learned"]
    assert text.startswith(f"{table.loc['learned', 'difference']:+.2f} [") and ", q = 0.00" in text


def test_what_changes_cost_is_told_for_both_recipes_and_with_a_window():
    table = comparisons.costs_table([64])
    assert table.index.tolist() == [
        *(f"{name}, {study}" for study in ("plain", "augmented") for name in ("sinusoidal", "learned")),
        "sinusoidal, augmented, window 1",
    ]
    tables = comparisons.absolute_taken_apart("plain")
    lost = comparisons.losses(tables["learned"], 64)
    assert table.loc["learned, plain", ("other values there", 64)] == f"{lost['other values there']:.2f}"


def test_rows_with_a_shift_are_told_beside_it():
    rows = comparisons.own_policies(comparisons.shifted_rows())
    assert set(rows["study"]) == {"plain"} and rows.groupby("key")["policy"].nunique().eq(1).all()
    table = comparisons.shift_table(rows, [32, 256])
    assert table.loc["sinusoidal, extend", ("unseen", 256)] == "1.00"
    assert table.loc["NoPE, causal", ("shift", 256)] == "0.00"
    wide = comparisons.with_shift_at(rows, 256, "unseen", "shift")
    assert wide.columns.tolist()[:3] == ["unseen at 256", "shift at 256", 32]
    points = comparisons.shift_points()
    assert "clipped at 15" in set(points["label"]) and "log-length" not in " ".join(points["label"])


def test_tables_of_every_encoding_have_a_row_for_each():
    labels = [ENCODINGS[name].label for name in published.published_encodings()]
    tables = [
        comparisons.every_table("plain"),
        comparisons.in_range_table(),
        comparisons.scores_table("augmented", [32]),
        comparisons.encodings_table(),
        comparisons.interval_table([32]),
    ]
    assert all(table.index.tolist() == labels for table in tables)
    assert comparisons.encodings_table().loc["learned", "numbers it learns"] == 256 * 64
    assert comparisons.differences_table().index.tolist() == [label for label in labels if label != "sinusoidal"]


def test_policies_are_compared_on_the_same_weights():
    table = comparisons.policies_table("augmented", ["sinusoidal"], "moved")
    rows = evaluated("augmented", "interpolate", set="exact", name="sinusoidal", length=64)["accuracy"]
    assert "sinusoidal, moved" not in table.index
    assert table.loc["sinusoidal, interpolate", 64] == f"{rows.mean():.3f} ± {rows.std():.3f}"


def test_candidates_are_told_by_validation_and_development_lengths():
    table = comparisons.candidates_table()
    assert table.columns.tolist() == ["validation accuracy", 24, 48, 96] and "clipped, clip 2" in table.index
