"""Tables and files of problem 2."""

import itertools
import json
from dataclasses import asdict

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from problem1.shared.errors import UserError
from problem2 import analysis, published
from problem2.analysis import in_words, length_table, mistakes, over_seeds
from problem2.encodings import ASSIGNED, ENCODINGS, make_encoding
from problem2.evaluation import new_group
from problem2.mathematics import position_shift
from problem2.model import Classifier
from problem2.train import ClassifierRecipe, train_classifier

TINY = {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_ff": 8}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def example_rows():
    return pd.DataFrame(
        {
            "name": ["a"] * 4 + ["b"] * 4,
            "seed": [0, 0, 1, 1] * 2,
            "length": [32, 64] * 4,
            "accuracy": [0.9, 1.0, 0.7, 1.0, 0.454, 0.514, 0.454, 0.6],
            "constant prediction": [False] * 4 + [True, True, True, False],
        }
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def test_seeds_are_summed_up_by_mean_spread_and_constant_predictions():
    table = over_seeds(example_rows(), ["name", "length"]).set_index(["name", "length"])
    assert table.loc[("a", 32), ["mean", "min", "max"]].tolist() == pytest.approx([0.8, 0.7, 0.9])
    assert table.loc[("a", 32), "std"] == pytest.approx(0.1 * 2**0.5)
    assert table["constant prediction"].tolist() == [0, 0, 2, 1] and set(table["seeds"]) == {2}
    assert over_seeds(example_rows(), "name")["seeds"].tolist() == [4, 4]


def test_a_constant_prediction_is_named_wherever_a_number_stands():
    table = length_table(example_rows())
    assert table.loc["a", 32] == "0.800 ± 0.141" and table.loc["a", 64] == "1.000 ± 0.000"
    assert table.loc["b", 32] == "0.454 ± 0.000 (constant)"
    assert table.loc["b", 64] == "0.557 ± 0.061 (constant in 1 of 2)"
    brackets = length_table(example_rows(), cell=analysis.in_brackets)
    assert brackets.loc["b"].tolist() == ["0.454 ± 0.000 (2)", "0.557 ± 0.061 (1)"]
    assert brackets.loc["a", 32] == table.loc["a", 32]
    short = length_table(example_rows(), cell=analysis.in_short)
    assert short.loc["a"].tolist() == ["0.800", "1.000"] and short.loc["b"].tolist() == ["0.454¹", "0.557¹"]
    both = length_table(example_rows(), columns=["seed", "length"], form=".1f")
    assert both.columns.tolist() == [(0, 32), (0, 64), (1, 32), (1, 64)] and both.loc["b", (1, 64)] == "0.6"
    assert in_words({"mean": 0.5, "std": np.nan, "seeds": 1, "constant prediction": 1}) == "0.500 (constant)"


def test_an_interval_stands_beside_the_mean_of_its_group():
    """Of two seeds that differ by d: the mean plus and minus 12.706 d / 2, by a t with one degree of freedom."""
    table = length_table(example_rows(), cell=analysis.in_interval, summary=analysis.with_intervals, form=".2f")
    assert table.loc["a"].tolist() == ["0.80 [-0.47, 2.07]", "1.00 [1.00, 1.00]"]
    assert table.loc["b", 32] == "0.45¹ [0.45, 0.45]"


def test_rows_of_a_study_are_those_of_its_classifiers_under_the_policy_asked_for():
    own = analysis.evaluated("augmented", set="exact", name=["learned", "none"], length=256)
    assert set(own["policy"]) == {"clamp", "as trained"} and set(own["name"]) == {"learned", "none"}
    assert set(own["length"]) == {256} and own.groupby("name")["seed"].nunique().tolist() == [10, 10]
    interpolated = analysis.evaluated("augmented", "interpolate", set="exact")
    assert set(interpolated["policy"]) == {"interpolate"} and "none" not in set(interpolated["name"])
    every = analysis.evaluated("augmented", None, set="exact", name="learned", seed=0, length=256)
    assert set(every["policy"]) == {"clamp", "untrained", "interpolate", "moved", "log-length scaling"}


def test_encodings_are_labelled_as_people_write_them():
    table = pd.DataFrame({"x": [1, 2, 3]}, index=["causal", "rope", "something else"])
    assert analysis.labelled(table).index.tolist() == ["NoPE, causal", "RoPE", "something else"]


@pytest.mark.parametrize("length", [17, 40])
def test_the_position_shift_is_that_of_a_count_by_hand(length):
    """By brute force: the relation of a pair (t, s) in a sequence of 16, against one of this length."""
    relations = {
        "sinusoidal": lambda e, t, s: (t, s),
        "rope": lambda e, t, s: s - t,
        "alibi": lambda e, t, s: abs(s - t),
        "t5": lambda e, t, s: int(e.bucket(torch.tensor(s - t))),
        "clipped": lambda e, t, s: max(-e.clip, min(e.clip, s - t)),
        "shaw": lambda e, t, s: max(-e.clip, min(e.clip, s - t)),
        "learned": lambda e, t, s: (min(t, 15), min(s, 15)),
        "none": lambda e, t, s: None,
        "causal": lambda e, t, s: None,
    }
    for name, relation in relations.items():
        encoding = make_encoding(name, 16, 2)
        before, now = (
            pd.Series([str(relation(encoding, t, s)) for t in range(n) for s in range(n)]).value_counts(normalize=True)
            for n in (16, length)
        )
        moved = now.sub(before, fill_value=0)
        assert position_shift(encoding, length) == pytest.approx(
            {"unseen": now.drop(before.index, errors="ignore").sum(), "shift": moved.abs().sum() / 2}, abs=1e-6
        ), name


@pytest.mark.parametrize(
    ("name", "options", "unseen", "shift"),
    [
        ("sinusoidal", {"beyond": "interpolate"}, False, False),
        ("learned", {"beyond": "untrained"}, True, True),
        ("learned", {"beyond": "clamp"}, False, True),  # one row for most tokens
        ("learned", {"beyond": "interpolate"}, False, False),
        ("randomized", {}, False, False),
        ("rope", {"beyond": "interpolate"}, False, False),
        ("t5", {"beyond": "untrained"}, True, True),
        ("t5", {"beyond": "clamp"}, False, True),
        ("t5", {"beyond": "interpolate"}, False, False),
        ("clipped", {"clip": 8}, False, True),
    ],
)
def test_a_policy_avoids_unseen_relations_and_a_shift_or_does_not(name, options, unseen, shift):
    found = position_shift(make_encoding(name, 16, 2, **options).eval(), 256)
    assert (found["unseen"] > 0.5) == unseen and (found["unseen"] > 0) == unseen
    assert (found["shift"] > 0.5) == shift and (found["shift"] > 0.2) == shift


def test_rows_of_classifiers_get_the_position_shift_of_their_policy_and_length():
    rows = analysis.evaluated("augmented", policy=None, set="exact", name="learned", seed=0, length=[64])
    table = analysis.with_position_shift(rows).set_index("policy")
    for policy in ("clamp", "untrained", "interpolate"):
        expected = position_shift(make_encoding("learned", 64, 4, beyond=policy), 64)
        assert table.loc[policy, list(expected)].tolist() == pytest.approx(list(expected.values()))
    assert table.loc["log-length scaling", "shift"] == table.loc["clamp", "shift"]  # positions stay as they were


@pytest.mark.parametrize(
    ("encoding", "options", "policy", "like"),
    [
        ("sinusoidal", "beyond=interpolate", "extend", {"beyond": "extend"}),  # trained one way, tested another
        ("sinusoidal", "beyond=interpolate", "interpolate", {"beyond": "interpolate"}),
        ("randomized", "span=512", "spread", {"span": 512}),
        ("clipped", "clip=8", "as trained", {"clip": 8}),
    ],
)
def test_the_shift_is_that_of_the_policy_at_test_time(encoding, options, policy, like):
    expected = position_shift(make_encoding(encoding, 64, 4, **like).eval(), 64)
    assert analysis.shift_of(encoding, options, policy, 64) == expected


@pytest.mark.parametrize(("clip", "length"), [(1, 16), (8, 40), (20, 10)])
def test_far_pairs_are_counted(clip, length):
    far = sum(abs(t - s) > clip for t in range(length) for s in range(length))
    assert analysis.far_share(clip, length) == pytest.approx(far / length**2)


# --- single sequences ------------------------------------------------------------------------------------------------


def test_failure_cases_are_wrong_and_of_the_kind_that_they_name():
    cases = analysis.failure_cases(published.published_classifiers(), count=2)
    assert [len(rows) for rows in cases.values()] == [2, 2, 2]
    for title, rows in cases.items():
        assert ((rows["logit"] > 0) != rows["is sorted"]).all()
        assert rows["is sorted"].all() == title.endswith("sorted, called unsorted")
        assert all(f"length {len(sequence)}:" in title for sequence in rows["sequence"])


def test_examples_of_corruptions_have_the_descents_that_they_say():
    table = analysis.corruption_examples()
    for row in table.itertuples():
        values = list(map(int, row.example.split()))
        assert row.descents == sum(a > b for a, b in itertools.pairwise(values))
    assert table.loc["sorted", "descents"] == 0 and table.loc["adjacent", "descents"] == 1


def test_mistakes_are_mistakes():
    torch.manual_seed(0)
    model, group = Classifier(**TINY).eval(), new_group("swaps", 24)
    rows = mistakes(model, group, 7)
    assert len(rows) == 7
    for row in rows.itertuples():
        assert model.says_sorted(row.sequence) == (row.logit > 0) != (row.sequence == sorted(row.sequence))


@pytest.mark.parametrize("encoding", ["none", "causal"])
def test_attention_to_all_keys_alike_is_1_at_every_difference(encoding):
    model = Classifier(encoding, **TINY).eval()
    with torch.no_grad():
        model.blocks[0].attention.query.weight.zero_()
    table = analysis.attention_by_difference(model, [12, 30], sequences=20)
    assert np.allclose(table["attention"], 1, atol=1e-5) and set(table["length"]) == {12, 30}
    assert table["difference"].between(-100, 100).all() and len(set(table["difference"])) == 20


def test_the_table_before_training_is_that_of_the_same_seed(tmp_path):
    recipe = ClassifierRecipe(encoding="learned", steps=2, evaluate_every=1, seed=3)
    model, _ = train_classifier(recipe, tmp_path, progress=False)
    before, after = analysis.rows_before_and_after(recipe, model)
    moved = (after - before).norm(dim=1)
    assert (moved[:8] > 10 * moved[16:].max()).all() and moved[16:].max() < 1e-3  # weight decay only


# --- files -----------------------------------------------------------------------------------------------------------


def test_the_deliverable_files_have_the_assignments_names(tmp_path):
    live = {}
    for name in analysis.LIVE:
        recipe = ClassifierRecipe(encoding=name, steps=2, evaluate_every=1, batch_size=8)
        live[name] = train_classifier(recipe, tmp_path / "runs" / name, progress=False)
    files = analysis.write_deliverables(live, tmp_path)
    names = {str(file.relative_to(tmp_path)) for file in files}
    for encoding in ASSIGNED:
        assert {f"{encoding}/training_log.json", f"{encoding}/training_curves.png"} <= names
    for file in ("results.json", "curves.png"):
        assert f"extrapolation/extrapolation_{file}" in names
    assert {"extrapolation/encoding_comparison.png", "extrapolation/learned_position_embeddings.png"} <= names
    assert all(file.stat().st_size > 0 for file in files)
    results = json.loads((tmp_path / "extrapolation" / "extrapolation_results.json").read_text())
    assert list(results) == published.published_encodings()
    row = next(row for row in results["sinusoidal"] if row["length"] == 256 and row["seed"] == 0)
    assert row["accuracy"] == pytest.approx(1 - row["share sorted"]) and row["constant prediction"] is True
    assert row["low"] < row["accuracy"] < row["high"] and row["AUROC"] > 0 and row["share answered sorted"] == 0


def test_an_encoding_that_is_registered_but_not_published_is_left_out():
    encodings = published.published_encodings()
    assert encodings == [name for name in ENCODINGS if name in set(analysis.evaluated("augmented")["name"])]
    unknown = set(ENCODINGS) - set(encodings)
    for name in [*unknown, "cosine"]:
        with pytest.raises(UserError, match=f"no classifier of '{name}' is published; there are none, causal, sinus"):
            published.published_classifier(name)


@pytest.mark.parametrize("name", analysis.LIVE)
def test_the_live_classifiers_follow_the_recipe_that_is_published(name):
    """They are seed 0 of the study, so the notebook's own trainings can be compared with its tables."""
    rows = published.table("classifiers").query("study == 'augmented' and seed == 0").set_index("name")
    recipe = asdict(analysis.live_recipe(name))
    assert rows.loc[name, list(recipe)].fillna("").to_dict() == recipe


def test_the_command_takes_no_arguments(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["analysis", "--fresh"])
    with pytest.raises(SystemExit):
        analysis.main()
    assert capsys.readouterr().err.startswith("python -m problem2.analysis: ")
