"""What the studies say that change one thing at a time."""

import pandas as pd

from problem2 import comparisons, published
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
