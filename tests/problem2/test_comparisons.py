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


def test_the_hard_study_in_words_says_who_reaches_the_end_in_every_seed():
    def row(encoding, softmax, seed, score):
        return {"name": encoding + softmax, "encoding": encoding, "softmax": softmax, "seed": seed, "length": 1_024} | {
            "balanced accuracy": score,
            "constant prediction": False,
        }

    seeds = {"encodings": 3, "studies": 2}
    rows = [row("shaw", "scalable softmax", seed, 1.0 - 0.25 * (seed == 2)) for seed in range(3)]
    rows += [row("shaw", "softmax", seed, 0.5) for seed in range(2)]
    text = comparisons.hard_study_in_words(pd.DataFrame(rows), seeds)
    assert "4,096 was asked of none, because none reaches 0.995 at 1,024 in every seed" in text
    assert "Nearest comes Shaw (clipped), scalable softmax: 2 of its 3 seeds, mean 0.92, lowest 0.75" in text
    assert "by 0.50" in text and "more than 0.1 for Shaw (clipped), downwards for none" in text
    rows[2] |= {"balanced accuracy": 1.0}
    text = comparisons.hard_study_in_words(pd.DataFrame(rows), seeds)
    assert "Shaw (clipped), scalable softmax reaches 0.995 at 1,024 in every seed. Nearest" in text


def taken_apart(unseen, shared, values):
    """Balanced accuracy over seeds as `over_seeds` gives it, at one length, with these costs."""
    means = {"interpolated": 1.0, "positions unseen": 1 - unseen, "positions shared": 1 - shared}
    means |= {"other values there": 1 - values, "shared, other values": 0.5, "as it is: all three": 0.5}
    return pd.DataFrame([{"name": name, "length": 64, "mean": mean, "seeds": 10} for name, mean in means.items()])


def test_what_interpolation_changes_is_told_with_what_each_change_costs():
    tables = {"sinusoidal": taken_apart(0.5, 0.06, 0.3), "learned": taken_apart(0.4, 0.08, 0.26)}
    text = comparisons.interpolation_in_words(tables, [64])
    assert "sinusoidal (10 seeds): positions unseen 0.50; positions shared 0.06; other values there 0.30." in text
    assert "learned (10 seeds): positions unseen 0.40; positions shared 0.08; other values there 0.26." in text
    text = comparisons.why_in_words(tables)
    assert "at 64, 0.40 to 0.50 and 0.26 to 0.30 of balanced accuracy" in text
    assert "share a position costs 0.06 to 0.08" in text


def test_encodings_are_told_by_their_mask():
    assert comparisons.by_mask(["causal", "shaw", "fire"]) == (
        "with a causal mask NoPE and FIRE; without one Shaw (clipped)"
    )
    assert comparisons.by_mask(["causal"]) == "with a causal mask NoPE"
    assert comparisons.by_mask(["shaw", "rope"]) == "Shaw (clipped) and RoPE"
