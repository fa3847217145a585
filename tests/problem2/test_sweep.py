"""The study of problem 2: how it was declared, what it found, and that only a whole one is published."""

import functools
import itertools
import json
import shutil
import sys
from dataclasses import asdict

import pandas as pd
import pytest

from problem1.shared.errors import UserError
from problem1.shared.grid import PartDone, row_file
from problem1.shared.storage import model_hash, write_json
from problem2 import published, studies, sweep, train
from problem2.analysis import evaluated
from problem2.dataset import LONG_LENGTHS
from problem2.evaluation import (
    CONTROLS,
    DEVELOPMENT_LENGTHS,
    LENGTHS,
    evaluate,
    exact_sets,
    new_sets,
)
from problem2.model import load_classifier, save_classifier
from problem2.studies import CANDIDATES, CHOICE_SEEDS, HARD_STUDY, STUDIES, hard_trainings, trainings
from problem2.sweep import train_and_develop, train_and_examine
from problem2.train import ClassifierRecipe, train_classifier
from tests.test_published import weights_hash

TINY = {"steps": 2, "evaluate_every": 1, "batch_size": 8}


@pytest.fixture
def results(monkeypatch, tmp_path):
    """Whatever a run writes goes here."""
    for module in (sweep, train):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A copy of what is published, to publish into."""
    copy = tmp_path / "published"
    shutil.copytree(published.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(published, "FOLDER", copy)
    return copy


def contents(folder):
    files = [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def sentence(monkeypatch, capsys, *arguments):
    """How a sweep ends that cannot do what it is asked for: (exit status or sentence, stderr)."""
    monkeypatch.setattr(sys, "argv", ["sweep", *arguments])
    with pytest.raises(SystemExit) as stopped:
        sweep.main()
    return stopped.value.code, capsys.readouterr().err


# --- the runs --------------------------------------------------------------------------------------------------------


def test_more_seeds_add_rows_and_change_none():
    for few, many in itertools.pairwise(sweep.grids(trainings(n)) for n in (1, 5, 12)):
        for (function, less), (_, more) in zip(few, many, strict=True):
            assert all(configuration in more for configuration in less)
            fixed = sweep.train_and_develop, sweep.certify_seed, sweep.train_on_hard_items
            assert len(more) > len(less) or function in fixed


def test_a_candidate_never_reads_a_long_set(monkeypatch, results):
    def read(*_):
        raise AssertionError("a long set was read")

    monkeypatch.setattr("problem2.evaluation.long_items", read)
    exact_sets.cache_clear()
    fields = asdict(ClassifierRecipe(encoding="learned", **TINY))
    rows = train_and_develop(**fields)["rows"]
    assert {row["length"] for row in rows} == set(DEVELOPMENT_LENGTHS)
    assert {row["policy"] for row in rows} == {"clamp", "untrained", "interpolate", "moved", "log-length scaling"}
    with pytest.raises(AssertionError, match="a long set was read"):
        train_and_examine(far=False, **fields)


def test_far_sets_of_512_and_1024_are_read_as_trained_and_interpolated(monkeypatch, results):
    monkeypatch.setattr("problem2.evaluation.FAR_SIZE", 4)
    monkeypatch.setattr("problem2.sweep.exact_sets", list)  # the rest in short
    monkeypatch.setattr("problem2.sweep.all_sets", list)
    monkeypatch.setattr("problem2.sweep.new_sets", lambda *_: [])
    monkeypatch.setattr("problem2.sweep.crowded_sets", list)
    fields = asdict(ClassifierRecipe(encoding="learned", **TINY))
    assert train_and_examine(far=False, **fields)["rows"] == []
    rows = train_and_examine(far=True, **fields)["rows"]
    assert [(row["policy"], row["set"], row["corruption"], row["length"]) for row in rows] == [
        (policy, "new", corruption, length)
        for policy in ("clamp", "interpolate")
        for corruption in ("swaps", "adjacent")
        for length in (512, 1_024)
    ]


# --- what is committed is what was declared --------------------------------------------------------------------------


def test_the_tables_hold_every_training_that_was_declared_with_its_recipe():
    table, known = published.table("classifiers").fillna({"options": ""}), published.published_encodings()
    declared = [t for t in trainings() if t.recipe.encoding in known]  # a new one is not studied yet
    assert table[["study", "name"]].to_dict("records") == [{"study": t.study, "name": t.name} for t in declared]
    fields = list(asdict(declared[0].recipe))
    assert table[fields].to_dict("records") == [asdict(training.recipe) for training in declared]
    assert set(published.table("classifiers_evaluated")["key"]) == set(table["key"])
    candidates = published.table("candidates")
    assert list(dict.fromkeys(candidates["name"])) == list(CANDIDATES) and set(candidates["seed"]) == set(CHOICE_SEEDS)


@pytest.mark.parametrize("encoding", published.published_encodings())
def test_a_published_classifier_has_the_scores_of_its_row(encoding):
    classifier = published.published_classifier(encoding)
    stored = published.table("classifiers").query("study == 'augmented' and seed == 0 and name == @encoding")
    if "model" in stored:
        assert model_hash(classifier) == stored["model"].item()
    else:  # rows made before a hash covered the shape
        assert weights_hash(classifier) == stored["weights"].item()
    sets = [part for part in exact_sets() + new_sets(("adjacent",)) if part.length in (16, 32)]
    rows = evaluated("augmented", name=encoding, seed=0).set_index(["set", "corruption", "length"])
    for row in evaluate(classifier, sets):
        there = rows.loc[(row["set"], row["corruption"], row["length"])]
        for score in ("accuracy", "balanced accuracy", "AUROC", "share answered sorted"):
            assert row[score] == pytest.approx(there[score], abs=0.01), (row, score)


# --- the bars --------------------------------------------------------------------------------------------------------


def test_in_range_sinusoidal_and_learned_reach_99_percent_in_every_seed():
    table = published.table("classifiers").query("study == 'augmented' and name in ['sinusoidal', 'learned']")
    assert len(table) >= 6 and table["test accuracy"].min() >= 0.99
    plain = published.table("classifiers").query("study == 'plain' and name in ['sinusoidal', 'learned']")
    assert len(plain) >= 6 and plain["test accuracy"].max() < 0.99  # what augmentation is for


def test_encodings_of_three_families_reach_998_at_every_long_length_in_every_seed():
    rows = evaluated("plain", set="exact", length=LONG_LENGTHS)
    lowest = rows.groupby("name")["accuracy"].min()
    assert {"causal", "randomized", "shaw"} <= set(lowest.index[lowest >= 0.998])  # a mask, absolute, relative
    assert (published.table("classifiers").query("study == 'plain'")["window"] == 0).all()


def test_no_training_of_the_small_shape_takes_more_than_90_cpu_seconds():
    table = published.table("classifiers").query("shape == 'small'")
    assert len(table) > 100 and table["cpu seconds"].max() <= 90


def test_the_certified_classifier_passes_every_control_at_every_length():
    rows = evaluate(published.certified_classifier(), exact_sets() + new_sets(CONTROLS, (*LENGTHS, 512, 1_024), 100))
    assert len(rows) == 7 + 4 * 9 and min(row["balanced accuracy"] for row in rows) == 1


# --- publishing ------------------------------------------------------------------------------------------------------


def outcome(function, configuration):
    """The result of a run, shortened. In the hard study Shaw's classifiers are always right, others never."""
    if function is sweep.certify_seed:
        return {"model": f"certified {configuration['seed']}"}
    name = configuration.get("name", "")
    lengths = [4_096] if function is sweep.examine_farthest else [8, 96, 1_024]
    fields = {key: value for key, value in configuration.items() if key not in ("name", "far")}
    score = 1.0 if name.startswith("shaw") else 0.5
    rows = [{"length": length, "accuracy": score, "balanced accuracy": score} for length in lengths]
    return {"rows": rows, "model": f"model of {ClassifierRecipe(**fields).key}"}


@functools.cache
def rows_of(function, configurations):
    return pd.DataFrame([{**c, **outcome(function, c), "code": "a"} for c in map(json.loads, configurations)])


@pytest.fixture
def publish(monkeypatch, results, folder):
    """Publish rows of a whole study; what needs weights or rows on disk does nothing. `change(function, rows)` may
    spoil them before."""
    monkeypatch.setattr(sweep, "pack_rows", lambda grids, rows, archive: archive.write_text("rows"))
    monkeypatch.setattr(sweep, "publish_classifiers", lambda classifiers, stage: None)
    monkeypatch.setattr(sweep, "publish_certified", lambda certificates, stage: None)

    def run(change=lambda function, rows: None):
        def run_grids(grids, folder, part):
            tables = [rows_of(f, tuple(map(json.dumps, configurations))).copy() for f, configurations in grids]
            for (function, _), table in zip(grids, tables, strict=True):
                change(function, table)
            return tables

        monkeypatch.setattr(sweep, "run_grids", run_grids)
        sweep.sweep(10, publish=True)

    return run


def test_a_whole_study_takes_the_place_of_the_one_before(publish, folder):
    before = contents(folder)
    publish()
    after = contents(folder)
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed == {*(f"{name}.csv" for name in published.STUDY), published.RUNS}
    assert len(published.table("classifiers")) == len(trainings())
    hard, rows = published.table("hard"), published.table("hard_evaluated")
    seeds = hard.groupby("name")["seed"].nunique()
    well = seeds.index.str.startswith("shaw")
    assert set(seeds[well]) == {10} and set(seeds[~well]) == {3} and set(seeds.index) == set(HARD_STUDY)
    asked = rows[rows["length"] == 4_096]
    assert set(asked["name"]) == set(seeds.index[well]) and len(asked) == 40
    assert not [file for file in folder.parent.iterdir() if file.name not in ("published", "results")]


def test_tables_and_packed_runs_are_published_from_the_same_rows(results, folder, monkeypatch):
    """So whoever begins with the packed runs gets the published tables, byte for byte."""
    shaws = [name for name in HARD_STUDY if name.startswith("shaw")]
    later = (sweep.train_on_hard_items, range(3, 10)), (sweep.examine_farthest, range(10))
    grids = [*sweep.grids(trainings()), *((function, hard_trainings(seeds, shaws)) for function, seeds in later)]
    for function, configurations in grids:
        for configuration in configurations:
            row = {"result": outcome(function, configuration), "code": "a"}
            write_json(row_file(function, configuration, results / "grid"), row)
    monkeypatch.setattr(sweep, "publish_classifiers", lambda *_: None)
    monkeypatch.setattr(sweep, "publish_certified", lambda *_: None)
    sweep.sweep(10, publish=True)
    shutil.rmtree(results)
    sweep.sweep(10, extend=True)
    for name in published.STUDY:
        again = published.table_file(name, results / "sweep").read_bytes()
        assert again == published.table_file(name).read_bytes() and again.count(b"\n") > 3


@pytest.mark.parametrize("step", ["publish_classifiers", "publish_certified"])
def test_a_failure_at_the_end_leaves_what_is_published_as_it_was(publish, folder, monkeypatch, step):
    before = contents(folder)

    def fail(rows, stage):
        published.certified_file(stage).write_text("half a model")
        raise RuntimeError("out of disk")

    monkeypatch.setattr(sweep, step, fail)
    with pytest.raises(RuntimeError, match="out of disk"):
        publish()
    assert contents(folder) == before
    assert not [file for file in folder.parent.iterdir() if file.name not in ("published", "results")]


def test_a_quick_look_is_not_published(monkeypatch, capsys):
    before = contents(published.FOLDER)
    monkeypatch.setattr(sweep, "QUICK", True)
    monkeypatch.setattr(sweep, "run_grids", None)  # it is told before anything runs
    text, _ = sentence(monkeypatch, capsys, "--publish")
    assert text == "python -m problem2.sweep: a quick look is not published; run without QUICK."
    assert contents(published.FOLDER) == before


def test_fewer_seeds_than_are_published_are_refused_before_anything_runs(folder, results, monkeypatch, capsys):
    def run(*_):
        raise AssertionError("something ran")

    monkeypatch.setattr(sweep, "run_grids", run)
    before = contents(folder)
    text, _ = sentence(monkeypatch, capsys, "--publish", "--seeds", "2")
    assert text.startswith("python -m problem2.sweep: 2 seeds are fewer than the 10 that are published")
    assert contents(folder) == before


GRIDS = ("train_and_develop", "train_and_examine", "certify_seed", "train_on_hard_items")


@pytest.mark.parametrize("grid", GRIDS)
def test_rows_of_different_code_are_refused(publish, folder, grid):
    def change(function, rows):
        if function.__name__ == grid:
            rows.loc[1, "code"] = "b"

    before = contents(folder)
    with pytest.raises(UserError, match="code"):
        publish(change)
    assert contents(folder) == before


def test_one_recipe_with_two_models_is_refused(publish, folder, monkeypatch):
    """What chooses and what is reported share no seed, so no recipe; if they did, its models would have to agree."""

    def change(function, rows):
        if function is sweep.train_and_develop:
            rows["model"] = "of another processor"

    before = contents(folder)
    monkeypatch.setattr(studies, "CHOICE_SEEDS", range(2))
    for module in (studies, sweep):
        monkeypatch.setattr(module, "study_seeds", lambda count: list(range(count)))
    publish()
    after = contents(folder)
    with pytest.raises(UserError, match="candidates and classifiers are of different models for key"):
        publish(change)
    assert contents(folder) == after != before


def test_4096_is_asked_of_the_same_models_or_nothing_is_published(publish, folder):
    def change(function, rows):
        if function is sweep.examine_farthest:
            rows.loc[0, "model"] = "trained again elsewhere"

    before = contents(folder)
    with pytest.raises(UserError, match="hard and far are of different models for run shaw, seed 0"):
        publish(change)
    assert contents(folder) == before


def test_extending_without_published_runs_gets_one_sentence(results, folder, monkeypatch, capsys):
    (folder / published.RUNS).unlink(missing_ok=True)
    text, _ = sentence(monkeypatch, capsys, "--extend")
    assert text == "python -m problem2.sweep: there are no published runs to begin with; leave --extend out."


def test_a_part_that_is_done_says_what_is_not(results, monkeypatch, capsys):
    def part_done(grids, folder, part):
        raise PartDone(f"part {part[0]}/{part[1]} is done; 5 runs of other parts are missing.")

    monkeypatch.setattr(sweep, "run_grids", part_done)
    monkeypatch.setattr(sys, "argv", ["sweep", "--part", "2/3"])
    with pytest.raises(SystemExit) as stopped:
        sweep.main()
    assert stopped.value.code is None  # nothing went wrong
    said = "python -m problem2.sweep: part 2/3 is done; 5 runs of other parts are missing.\n"
    assert capsys.readouterr().out == said


def test_published_weights_are_those_of_their_rows(monkeypatch, results, tmp_path):
    monkeypatch.setattr(sweep, "ClassifierRecipe", functools.partial(ClassifierRecipe, **TINY))
    monkeypatch.setattr(sweep, "ENCODINGS", ["causal"])
    recipe = sweep.ClassifierRecipe(seed=0, **STUDIES["augmented"]["causal"])
    model, stage = model_hash(train_classifier(recipe, progress=False)[0]), tmp_path / "stage"
    stage.mkdir()
    rows = pd.DataFrame({"key": [recipe.key], "model": [model]})
    with pytest.raises(UserError, match=r"holds another model than its row .*copy this folder from the machine"):
        sweep.publish_classifiers(rows.assign(model="of another processor"), stage)
    sweep.publish_classifiers(rows, stage)
    assert model_hash(load_classifier(published.classifier_file("causal", stage))) == model


def test_a_certified_classifier_is_published_only_with_the_certificate_of_its_row(results, tmp_path):
    run, stage = results / "certified" / "seed0", tmp_path / "stage"
    stage.mkdir()
    classifier = published.certified_classifier()
    save_classifier(classifier, published.certified_file(run))
    rows = pd.DataFrame({"seed": [0], "model": [model_hash(classifier)]})
    for report in ({"certified": False, "model": model_hash(classifier)}, {"certified": True, "model": "another"}):
        published.certificate_file(run).write_text(json.dumps(report))
        with pytest.raises(UserError, match="does not certify the model of its row"):
            sweep.publish_certified(rows, stage)
    published.certificate_file(run).write_text(json.dumps({"certified": True, "model": model_hash(classifier)}))
    with pytest.raises(UserError, match="holds another model than its row"):
        sweep.publish_certified(rows.assign(model="another"), stage)
    sweep.publish_certified(rows, stage)
    assert model_hash(load_classifier(published.certified_file(stage))) == model_hash(classifier)
