"""The sweep: which runs it has, what is made of their rows, and that only a whole study is published."""

import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict

import pandas as pd
import pytest

from problem1 import every_pair, flawed, published, sweep, train
from problem1.dataset import split_pairs
from problem1.flawed import FlawedRecipe
from problem1.model import Adder, load_adder
from problem1.shared.errors import UserError
from problem1.shared.grid import RunsFailed, pack_rows, row_file
from problem1.shared.storage import model_hash, save_tensors, write_json
from problem1.train import AdderRecipe, train_adder, unseen_pairs

TINY = {"steps": 1, "evaluate_every": 1, "batch_size": 8}


@pytest.fixture
def results(monkeypatch, tmp_path):
    """Whatever a run writes goes here."""
    for module in (sweep, train, every_pair, flawed):
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
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def sentence(monkeypatch, capsys, *arguments):
    """How a sweep ends that cannot do what it is asked for: (exit status or sentence, stderr)."""
    monkeypatch.setattr(sys, "argv", ["sweep", *arguments])
    with pytest.raises(SystemExit) as stopped:
        sweep.main()
    return stopped.value.code, capsys.readouterr().err


# --- the runs --------------------------------------------------------------------------------------------------------


def test_more_seeds_add_rows_and_change_none():
    for few, many in itertools.pairwise(sweep.grids(range(20, 20 + n)) for n in (1, 5, 12)):
        for (function, less), (_, more) in zip(few, many, strict=True):
            assert all(configuration in more for configuration in less)
            assert len(more) > len(less) or function in (sweep.train_and_validate, sweep.train_and_test)


def test_no_seed_serves_two_purposes():
    """What a recipe was chosen by does not confirm it, and nor do the seeds that its prototypes were looked at with."""
    chosen = {row["seed"] for row in sweep.candidates()}
    confirmed = {row["seed"] for row in sweep.trainings(sweep.SEEDS)}
    assert chosen == {10, 11} and confirmed == set(range(20, 30)) and not confirmed & (chosen | set(range(5)))


def test_each_step_changes_one_thing():
    """Of the recipes that cost alike each has one field more than the one before."""
    steps = ["pre-norm, AdamW", "operands swapped", "columns swapped", "nines drawn again"]
    for before, after in itertools.pairwise(AdderRecipe(**sweep.RECIPES[name]) for name in steps):
        changed = {name for name, value in asdict(after).items() if value != getattr(before, name)}
        assert len(changed) == 1 and changed <= {"swap", "nines"}


def test_the_homework_is_trained_as_such_and_with_bos(monkeypatch, results):
    adder = Adder().eval()
    recipe = AdderRecipe(seed=20, **sweep.RECIPES["homework"])
    flawless = FlawedRecipe(**asdict(recipe), homework=True, bos=True)
    about = {"best": {"step": 3, "loss": 0.5}, "cpu seconds": 7.0}
    save_tensors(results / "runs" / flawless.name / "model.safetensors", {}, about)
    trained = []
    monkeypatch.setattr(sweep, "train_flawed", lambda recipe, progress: trained.append(recipe) or adder)
    _, facts = sweep.train_homework(recipe)
    assert trained == [flawless] and recipe.steps == 7_850 and (recipe.swap, recipe.nines) == ("none", 0)
    assert facts == {"best step": 3, "validation loss": 0.5, "cpu seconds": 7.0, "model": model_hash(adder)}


def test_the_declared_trainings_are_those_of_the_committed_table():
    declared = pd.DataFrame(sweep.trainings(sweep.SEEDS))
    table = published.table("seeds")
    assert table[list(declared)].to_dict("records") == declared.to_dict("records")


def test_both_runs_of_a_seed_name_their_model(monkeypatch):
    """So that tables of one study can be held against each other."""
    adder, log = published.published_adder()
    monkeypatch.setattr(sweep, "train_adder", lambda *_, **__: (adder, log))
    some = every_pair.check_pairs(adder, [split_pairs("test")[:60]], progress=False)
    monkeypatch.setattr(sweep, "check_every_pair", lambda *_, **__: some)
    monkeypatch.setattr(every_pair, "RANDOM_SUMS", 50)
    monkeypatch.setattr(sweep, "unseen_pairs", lambda split: unseen_pairs(split)[:40])
    monkeypatch.setattr(sweep, "patch_carries", functools.partial(sweep.patch_carries, count=10))
    fields = asdict(AdderRecipe(seed=3))
    checked, studied = sweep.train_and_check("published", **fields), sweep.study_heads(**fields)
    assert checked["model"] == studied["model"] == model_hash(adder) and "weights" not in checked
    assert len(studied["heads"]) == 24 and len(studied["greedy"]) == 25
    rows = [
        {"recipe": "published", "seed": 3, "code": "a", **json.loads(json.dumps(run))} for run in (checked, studied)
    ]
    checked, studied = (pd.DataFrame([row]) for row in rows)
    tables = sweep.study_tables(checked, checked, checked, studied)
    for name in ("seeds", "adders", "heads", "groups", "greedy"):
        assert set(tables[name]) <= set(published.table(name)), name


def test_a_sweep_with_failed_runs_says_so_and_fails(monkeypatch, capsys, results):
    monkeypatch.setattr(sweep, "quick", lambda *_: 0)  # no seeds to study
    monkeypatch.setattr(sweep, "candidates", list)
    monkeypatch.setattr(sweep, "other_digits", list)
    monkeypatch.setattr(sweep, "trainings", lambda seeds: [{"recipe": "impossible", "steps": 0}])
    told, errors = sentence(monkeypatch, capsys)
    assert told.startswith("python -m problem1.sweep: train_and_check: 1 of 1 runs failed")
    assert "UserError: steps is 0" in errors and not (results / "sweep").exists()


def test_bad_options_of_a_sweep_get_one_sentence(monkeypatch, capsys, results):
    for wrong in ("0", "-1", "many"):
        status, text = sentence(monkeypatch, capsys, f"--seeds={wrong}")
        assert status == 2 and f"--seeds: '{wrong}' is not a whole number from 1 to 1000" in text
    for wrong in ("0/2", "3/2", "2", "a/b"):
        status, text = sentence(monkeypatch, capsys, f"--part={wrong}")
        assert status == 2 and f"--part: '{wrong}' is not a part like 1/2 or 2/2" in text
    status, text = sentence(monkeypatch, capsys, "--scheduler", "tcp://127.0.0.1:1")
    assert status == 2 and "--scheduler is gone; --part 1/2 does one machine's share" in text


# --- extending -------------------------------------------------------------------------------------------------------


@pytest.fixture
def looked(monkeypatch):
    """Whether all runs are there when the grids begin; nothing is run."""
    found = []

    def look(grids, folder, part):
        found.append(all(row_file(f, c, folder).exists() for f, configurations in grids for c in configurations))
        raise RunsFailed("enough")

    monkeypatch.setattr(sweep, "run_grids", look)
    return found


def test_extending_begins_with_what_is_published(results, folder, looked, tmp_path):
    """Before anything is run, and into the folder in which it is looked for."""
    grids, rows = sweep.grids(range(2)), tmp_path / "rows"
    for function, configurations in grids:
        for configuration in configurations:
            row = {"configuration": configuration, "result": {}, "code": "a"}
            write_json(row_file(function, configuration, rows), row)
    pack_rows(grids, rows, folder / published.RUNS)
    for extend in (False, True):
        with pytest.raises(RunsFailed):
            sweep.sweep(range(2), extend=extend)
    assert looked == [False, True]


def test_extending_without_published_runs_gets_one_sentence(results, folder, looked, monkeypatch, capsys):
    (folder / published.RUNS).unlink(missing_ok=True)
    text, _ = sentence(monkeypatch, capsys, "--extend")
    assert text == "python -m problem1.sweep: there are no published runs to begin with; leave --extend out."
    assert looked == []


# --- publishing ------------------------------------------------------------------------------------------------------


def study(seeds=10, code="a"):
    """Rows of a study as the grids return them, shortened."""
    rows = [
        {"recipe": "published", "seed": seed, "validation loss": 1.0 + seed, "model": f"model{seed}", "code": code}
        for seed in sweep.SEEDS[:seeds]
    ]
    trained = pd.DataFrame([{**dict.fromkeys(sweep.SHOWN, 0), **row} for row in rows])
    counted = {"heads": [], "count": 1, "share": 0.1, "accuracy without all of them": {"mean": 1, "low": 1, "high": 1}}
    facts = {"prunable": {"zero": counted, "mean": counted}, "carrier of the hundreds": "x", "attention past a 9": 0.5}
    parts = {name: [{"head": "x"}] for name in ("heads", "groups", "greedy")}
    studied = [{"seed": row["seed"], "model": row["model"], "code": code, **facts, **parts} for row in rows]
    chosen = pd.DataFrame([{"candidate": "published", "seed": 10, "model": "c", "code": code}])
    tested = pd.DataFrame([{"digits": 4, "seed": 20, "model": "d", "code": code}])
    return chosen, trained, tested, pd.DataFrame(studied)


@pytest.fixture
def publish(monkeypatch, results, folder):
    """Publish these rows; what needs weights or rows on disk does nothing."""
    monkeypatch.setattr(sweep, "pack_rows", lambda grids, rows, archive: archive.write_text("rows"))
    monkeypatch.setattr(sweep, "publish_adder", lambda row, stage: (stage / published.LOG).write_text(row["model"]))

    def run(*rows):
        monkeypatch.setattr(sweep, "run_grids", lambda *_: rows)
        sweep.sweep(sweep.SEEDS, publish=True)

    return run


def test_a_whole_study_takes_the_place_of_the_one_before(publish, folder):
    before = contents(folder)
    publish(*study())
    after = contents(folder)
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed == {*(f"{name}.csv" for name in published.STUDY), published.RUNS, published.LOG}
    assert before.keys() - after.keys() == set()
    assert after[published.LOG] == b"model20" and published.table("adders")["model"].tolist()[3] == "model23"
    assert not [file for file in folder.parent.iterdir() if file.name not in ("published", "results")]


def test_tables_and_packed_runs_are_published_from_the_same_rows(results, folder, monkeypatch):
    """So whoever begins with the packed runs gets the published tables, byte for byte."""
    rows = study()
    for (function, configurations), table in zip(sweep.grids(sweep.SEEDS), rows, strict=True):
        for configuration in configurations:
            about = {**table.drop(columns="code").iloc[0].to_dict(), "model": f"model{configuration['seed']}"}
            result = json.loads(json.dumps({**about, **configuration}, default=float))
            write_json(row_file(function, configuration, results / "grid"), {"result": result, "code": "a"})
    monkeypatch.setattr(sweep, "publish_adder", lambda row, stage: None)
    sweep.sweep(sweep.SEEDS, publish=True)
    shutil.rmtree(results)
    sweep.sweep(sweep.SEEDS, extend=True)
    for name in published.STUDY:
        again = published.table_file(name, results / "sweep").read_bytes()
        assert again == published.table_file(name).read_bytes() and again.count(b"\n") >= len(sweep.DIGITS)


def test_a_failure_at_the_end_leaves_what_is_published_as_it_was(publish, folder, monkeypatch):
    before = contents(folder)

    def fail(row, stage):
        (stage / published.ADDER).write_text("half a model")
        raise RuntimeError("out of disk")

    monkeypatch.setattr(sweep, "publish_adder", fail)
    with pytest.raises(RuntimeError, match="out of disk"):
        publish(*study())
    assert contents(folder) == before
    assert not [file for file in folder.parent.iterdir() if file.name not in ("published", "results")]


def test_a_quick_look_is_not_published():
    before = contents(published.FOLDER)
    command = [sys.executable, "-m", "problem1.sweep", "--publish"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "QUICK": "1"}, timeout=100)
    assert done.returncode == 1 and done.stderr.startswith("python -m problem1.sweep: ") and "QUICK" in done.stderr
    assert done.stderr.count("\n") == 1
    tables = {name: content for name, content in contents(published.FOLDER).items() if "__pycache__" not in name}
    assert tables == {name: content for name, content in before.items() if "__pycache__" not in name}


def test_fewer_seeds_than_are_published_are_refused_before_anything_runs(folder, looked, results, monkeypatch, capsys):
    before = contents(folder)
    text, _ = sentence(monkeypatch, capsys, "--publish", "--seeds", "2")
    assert text.startswith("python -m problem1.sweep: ") and "2" in text and "10" in text
    assert looked == [] and contents(folder) == before


@pytest.mark.parametrize("table", range(4))
def test_rows_of_different_code_are_refused(publish, folder, table):
    before, rows = contents(folder), study()
    rows[table].loc[len(rows[table]) - 1, "code"] = "b"
    with pytest.raises(UserError, match="code"):
        publish(*rows)
    assert contents(folder) == before


def test_tables_that_name_different_models_for_a_seed_are_refused(publish, folder):
    before, rows = contents(folder), study()
    rows[3].loc[7, "model"] = "of another processor"
    with pytest.raises(UserError, match="27"):
        publish(*rows)
    assert contents(folder) == before


def test_the_published_adder_is_the_model_of_its_row(monkeypatch, results, folder):
    """Another machine may have trained it: then it is trained here again, and must be the same."""
    recipe = AdderRecipe(seed=1, **TINY)
    model, _ = train_adder(recipe, results / "runs" / recipe.name, progress=False)
    key = model_hash(model)
    write_json(published.check_file(key, results), {"model": key, "wrong": [], "closest": [[100, 100, 9.5]]})
    monkeypatch.setattr(sweep, "AdderRecipe", functools.partial(AdderRecipe, **TINY))
    before = contents(folder)
    with pytest.raises(UserError, match=r"holds another model than its row .*copy this folder from the machine"):
        sweep.publish_adder(pd.Series({"seed": 1, "model": "of another processor"}), folder)
    assert contents(folder) == before
    sweep.publish_adder(pd.Series({"seed": 1, "model": key}), folder)
    assert model_hash(load_adder(folder / published.ADDER)) == key != model_hash(Adder())
    after = contents(folder)
    names = {published.ADDER, published.LOG, f"every_pair/{key}.json"}
    assert {name for name in after if after[name] != before.get(name)} == names
    assert [name for name in after if name.startswith("every_pair/")] == [f"every_pair/{key}.json"]  # no older one


def test_the_published_adder_has_the_lowest_validation_loss_of_the_first_seeds():
    trained = study()[1]
    trained["validation loss"] = [5, 4, 3, 2, 6, 1, 1, 1, 1, 1]
    assert sweep.lowest_validation_loss(trained)["seed"] == 23
