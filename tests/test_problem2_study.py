"""The committed study of problem 2: how it was declared, what it found, and that it can be found again."""

from dataclasses import asdict

import pandas as pd
import pytest

from problem1.storage import weights_hash
from problem2.analysis import evaluated, published, published_judge
from problem2.certificate import PUBLISHED
from problem2.dataset import LONG_LENGTHS
from problem2.encodings import ENCODINGS
from problem2.evaluation import (
    CONTROLS,
    DEVELOPMENT_LENGTHS,
    DEVELOPMENT_SEED,
    FAR_LENGTHS,
    FRESH_SEED,
    LENGTHS,
    evaluate,
    exact_sets,
    fresh_sets,
)
from problem2.model import load_judge
from problem2.sweep import CANDIDATES, CHOICE_SEEDS, STUDIES, runs, train_and_develop, train_and_examine
from problem2.train import JudgeRecipe

# --- the declaration -------------------------------------------------------------------------------------------------


def test_what_chooses_and_what_is_reported_have_nothing_in_common():
    assert not {row["recipe"].seed for row in runs()} & set(CHOICE_SEEDS)
    assert not set(DEVELOPMENT_LENGTHS) & {*LENGTHS, *FAR_LENGTHS} and DEVELOPMENT_SEED != FRESH_SEED


def test_a_candidate_never_reads_a_long_set(monkeypatch, tmp_path):
    def read(*_):
        raise AssertionError("a long set was read")

    monkeypatch.setattr("problem2.evaluation.long_items", read)
    monkeypatch.setattr("problem2.train.RESULTS", tmp_path)
    exact_sets.cache_clear()
    fields = asdict(JudgeRecipe(encoding="learned", steps=2, evaluate_every=1, batch_size=8))
    rows = train_and_develop(**fields)["rows"]
    assert {row["length"] for row in rows} == set(DEVELOPMENT_LENGTHS)
    assert {row["way"] for row in rows} == {"clamp", "untrained", "rescale", "sharpened"}
    with pytest.raises(AssertionError, match="a long set was read"):
        train_and_examine(far=False, **fields)


def test_far_examinations_add_512_and_1024_asked_as_trained_and_rescaled(monkeypatch, tmp_path):
    monkeypatch.setattr("problem2.train.RESULTS", tmp_path)
    monkeypatch.setattr("problem2.evaluation.FAR_SIZE", 4)
    monkeypatch.setattr("problem2.sweep.exact_sets", list)  # the rest in short
    monkeypatch.setattr("problem2.sweep.all_sets", list)
    monkeypatch.setattr("problem2.sweep.fresh_sets", lambda kinds: [])
    fields = asdict(JudgeRecipe(encoding="learned", steps=2, evaluate_every=1, batch_size=8))
    assert train_and_examine(far=False, **fields)["rows"] == []
    rows = train_and_examine(far=True, **fields)["rows"]
    asked = [(row["way"], row["set"], row["kind"], row["length"]) for row in rows]
    assert asked == [
        (way, "fresh", kind, length)
        for way in ("clamp", "rescale")
        for kind in ("swaps", "adjacent")
        for length in (512, 1_024)
    ]


def test_every_encoding_is_studied_at_least_three_times_plain_and_augmented():
    for study in ("plain", "augmented"):
        assert list(STUDIES[study]) == list(ENCODINGS)
        seeds = pd.DataFrame(
            [{"name": row["name"], "seed": row["recipe"].seed} for row in runs() if row["study"] == study]
        )
        assert (seeds.groupby("name")["seed"].nunique() >= 3).all()


def test_a_factor_study_changes_one_factor_at_a_time():
    judges = STUDIES["what breaks sinusoidal"]
    base = asdict(JudgeRecipe(**judges["as it is"]))
    for name, options in judges.items():
        changed = {key for key, value in asdict(JudgeRecipe(**options)).items() if base[key] != value}
        factor = {"positions": {"encoding", "options", "steps"}, "pooling": {"pooling"}, "attention": {"window"}}
        factor |= {"data": {"data", "augment", "narrow", "adjacent"}, "as it is": set()}
        assert changed <= factor[name.split(":")[0]], name


# --- what is committed is what was declared --------------------------------------------------------------------------


def test_the_tables_hold_every_training_that_was_declared_with_its_recipe():
    table = published("judges")
    declared = runs()
    assert len(table) == len(declared)
    for row, (_, stored) in zip(declared, table.iterrows(), strict=True):
        assert (row["study"], row["name"], row["recipe"].key) == (stored["study"], stored["name"], stored["key"])
    assert set(published("judges_evaluated")["key"]) == set(table["key"])
    candidates = published("candidates")
    assert list(dict.fromkeys(candidates["name"])) == list(CANDIDATES) and set(candidates["seed"]) == set(CHOICE_SEEDS)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_published_judge_has_the_scores_of_its_row(encoding):
    judge = published_judge(encoding)
    stored = published("judges").query("study == 'augmented' and seed == 0 and name == @encoding")
    assert weights_hash(judge) == stored["weights"].item()
    sets = [part for part in exact_sets() + fresh_sets(("adjacent",)) if part.length in (16, 32)]
    rows = evaluated("augmented", name=encoding, seed=0).set_index(["set", "kind", "length"])
    for row in evaluate(judge, sets):
        there = rows.loc[(row["set"], row["kind"], row["length"])]
        for score in ("accuracy", "balanced accuracy", "AUROC", "share answered sorted"):
            assert row[score] == pytest.approx(there[score], abs=0.01), (row, score)


# --- the bars --------------------------------------------------------------------------------------------------------


def test_in_range_sinusoidal_and_learned_reach_99_percent_in_every_seed():
    table = published("judges").query("study == 'augmented' and name in ['sinusoidal', 'learned']")
    assert len(table) >= 6 and table["test accuracy"].min() >= 0.99
    plain = published("judges").query("study == 'plain' and name in ['sinusoidal', 'learned']")
    assert len(plain) >= 6 and plain["test accuracy"].max() < 0.99  # what augmentation is for


def test_encodings_of_three_families_reach_998_at_every_long_length_in_every_seed():
    rows = evaluated("plain", set="exact", length=LONG_LENGTHS)
    lowest = rows.groupby("name")["accuracy"].min()
    assert {"causal", "randomized", "shaw"} <= set(lowest.index[lowest >= 0.998])  # a mask, absolute, relative
    assert (published("judges").query("study == 'plain'")["window"] == 0).all()


def test_no_training_of_the_small_shape_takes_more_than_90_cpu_seconds():
    table = published("judges").query("shape == 'small'")
    assert len(table) > 100 and table["cpu seconds"].max() <= 90


def test_the_published_judge_passes_every_control_at_every_length():
    judge = load_judge(PUBLISHED / "judge.safetensors")
    rows = evaluate(judge, exact_sets() + fresh_sets(CONTROLS, (*LENGTHS, 512, 1_024), size=100))
    assert len(rows) == 7 + 4 * 9 and min(row["balanced accuracy"] for row in rows) == 1
