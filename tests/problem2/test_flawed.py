"""The mistakes of the reports in problem 2 are the ones that they are said to be."""

import shutil
import sys
from dataclasses import asdict

import pandas as pd
import pytest
import torch

from problem1.shared.homework import recipe_rows
from problem1.shared.storage import model_hash
from problem2 import flawed, published
from problem2.dataset import group_by_length, split_items
from problem2.model import Classifier
from problem2.train import make_batches

TINY = {"shape": "small", "steps": 2, "evaluate_every": 1, "batch_size": 8}


def test_a_frozen_table_stays_as_it_was_drawn(tmp_path):
    recipe = flawed.FlawedRecipe(encoding="learned", frozen=True, steps=6, evaluate_every=3)
    torch.manual_seed(recipe.seed)
    drawn = flawed.make_flawed(recipe)
    trained = flawed.train_flawed(recipe, tmp_path, progress=False)
    assert torch.equal(trained.positions.table, drawn.positions.table)
    assert not torch.equal(trained.embedding.weight, drawn.embedding.weight)


def test_a_homework_classifier_is_post_norm_and_sees_positions(tmp_path):
    fields = {**flawed.VARIANTS["homework, sinusoidal"], **TINY}
    classifier = flawed.train_flawed(flawed.FlawedRecipe(**fields), tmp_path, progress=False)
    tokens = torch.arange(16)[None]
    assert classifier.shape["encoding"] == "sinusoidal" and isinstance(classifier.blocks[0], flawed.PostNormBlock)
    assert isinstance(classifier.norm, torch.nn.Identity)
    assert not torch.equal(classifier(tokens).logits, classifier(tokens.flip(1)).logits)


def test_the_homework_trains_whole_epochs():
    """Batches of one length each: a few more than 10,000 / 64."""
    recipe = flawed.FlawedRecipe(**flawed.HOMEWORK)
    batches = make_batches(recipe)
    assert recipe.evaluate_every == flawed.EPOCH and recipe.steps == 30 * flawed.EPOCH
    sizes = [len(batches(step).tokens) for step in range(flawed.EPOCH)]
    assert sum(sizes) == 10_000 and max(sizes) <= 64


def test_a_row_names_its_model_and_the_tables_are_made_of_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(flawed, "RESULTS", tmp_path)
    fields = {"seed": 1, **flawed.VARIANTS["frozen, learned"], **TINY}
    row = flawed.train_and_examine("frozen, learned", **fields)
    model = flawed.train_flawed(flawed.FlawedRecipe(**fields), progress=False)
    assert row["model"] == model_hash(model) and [part["length"] for part in row["rows"]] == [
        8,
        12,
        16,
        32,
        64,
        128,
        256,
    ]
    declared = next(each for each in recipe_rows(flawed.FlawedRecipe, flawed.VARIANTS) if each["seed"] == 1)
    tables = flawed.flawed_tables(pd.DataFrame([{**declared, **row, "code": "a"}]))
    assert tuple(tables) == published.FLAWED
    assert set(tables["flawed"]) == {*published.table("flawed"), "model", "code"}
    assert list(tables["flawed_evaluated"]) == list(published.table("flawed_evaluated"))
    assert flawed.in_short(*tables.values()).loc[("frozen, learned", 1), 256] == row["rows"][-1]["accuracy"]


# --- trainings that die ----------------------------------------------------------------------------------------------

SHORT = {**TINY, "steps": 4, "evaluate_every": 2}


def starter(variant, **fields):
    return flawed.StarterRecipe(**{**flawed.DEAD[variant], **SHORT, **fields})


def test_each_change_changes_one_thing():
    """But for the number of batches in an epoch, which depends on how items are dealt."""
    base = flawed.DEAD["as handed in, sinusoidal"]
    for name, fields in flawed.CHANGES.items():
        recipes = [asdict(flawed.StarterRecipe(**each)) for each in (base, {**base, **fields})]
        differ = {key for key in recipes[0] if recipes[0][key] != recipes[1][key]}
        assert len(differ - {"steps", "evaluate_every"}) == (2 if "," in name else 1), name


def test_as_handed_in_all_matrices_are_drawn_by_xavier_and_norms_come_last():
    model = flawed.make_starter(starter("as handed in, learned"))
    bound = (6 / (100 + 64)) ** 0.5
    assert 0.99 * bound < model.embedding.weight.abs().max() <= bound
    assert len(model.positions.table) == 300 and model.positions.table.abs().max() < (6 / (300 + 64)) ** 0.5
    assert isinstance(model.norm, torch.nn.Identity) and isinstance(model.blocks[0], flawed.PostNormBlock)
    other = flawed.make_starter(starter("embedding of deviation 1, sinusoidal"))
    assert 0.9 < other.embedding.weight.std() < 1.1


def test_pre_norm_with_dropout_is_the_projects_block_when_it_is_not_training():
    torch.manual_seed(0)
    model = flawed.make_starter(starter("pre-norm, sinusoidal")).eval()
    own = Classifier(**model.shape).eval()
    own.load_state_dict(model.state_dict())
    tokens = torch.randint(100, (5, 12))
    assert torch.allclose(model(tokens).logits, own(tokens).logits, atol=1e-6)
    assert not torch.allclose(model.train()(tokens).logits, own(tokens).logits, atol=1e-3)


def test_a_mixed_batch_has_items_of_several_lengths_and_an_epoch_all_of_them():
    items = split_items("train")
    batches = flawed.MixedBatches(items, seed=1, batch_size=64)
    epoch = [batches(step) for step in range(157)]
    shown = [tuple(row) for groups in epoch for group in groups for row in group.tokens.tolist()]
    assert sorted(shown) == sorted(tuple(sequence) for sequence, _ in items)
    assert len(epoch[0]) > 5 and sum(len(group.tokens) for group in epoch[0]) == 64
    assert [g.tokens.tolist() for g in batches(157)] != [g.tokens.tolist() for g in epoch[0]]


def test_loss_and_accuracy_of_the_batches_are_told_once():
    loss, told = flawed.watched()
    torch.manual_seed(0)
    model = flawed.make_starter(starter("as handed in, none")).eval()
    groups = list(group_by_length(split_items("train")[:40]).values())
    value = loss(model, groups).item()
    logits = torch.cat([model(group.tokens).logits for group in groups])
    labels = torch.cat([group.is_sorted for group in groups])
    row = told(model)
    assert row["training loss"] == pytest.approx(value) and value == pytest.approx(
        torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.float()).item(), abs=1e-6
    )
    assert row["training accuracy"] == ((logits > 0) == labels).double().mean().item()
    loss(model, groups[:1])
    assert told(model)["training loss"] != pytest.approx(value, abs=1e-9)


def test_a_row_has_every_epoch_and_the_tables_are_made_of_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(flawed, "RESULTS", tmp_path)
    variant = "batches of one length, sinusoidal"
    fields = {**flawed.DEAD[variant], **SHORT, "seed": 2}
    row = flawed.train_and_watch(variant, **fields)
    assert [each["step"] for each in row["epochs"]] == [2, 4] and row["epochs trained"] == 2
    assert row["training loss"] == row["epochs"][-1]["training loss"]
    tables = flawed.dead_tables(pd.DataFrame([{"variant": variant, **fields, **row, "code": "a"}]))
    assert tuple(tables) == published.DEAD and len(tables["flawed_dead_epochs"]) == 2
    assert list(tables["flawed_dead_evaluated"]["length"]) == [8, 12, 16, 32, 64, 128, 256]


def test_the_published_trainings_are_the_declared_ones():
    table = published.table("flawed_dead")
    assert set(zip(table["variant"], table["seed"], strict=True)) == {(v, s) for v in flawed.DEAD for s in range(3)}
    assert table["code"].nunique() == 1 and (table["epochs trained"] <= flawed.EPOCHS).all()
    alive = table[table["epochs trained"] < flawed.EPOCHS]
    assert (alive["test accuracy"] > 0.8).all() and not alive["test constant prediction"].any()


# --- the committed tables --------------------------------------------------------------------------------------------


def test_the_table_holds_every_variant_and_seed():
    table = published.table("flawed").fillna({"options": ""})
    expected = recipe_rows(flawed.FlawedRecipe, flawed.VARIANTS)
    assert [row["seed"] for row in expected] == [0, 1, 2] * len(flawed.VARIANTS)
    fields = [name for name in expected[0] if name not in ("steps", "evaluate_every")]  # these rows: 156 steps an epoch
    assert table[fields].to_dict("records") == [{name: row[name] for name in fields} for row in expected]


# --- publishing ------------------------------------------------------------------------------------------------------


def tables_in(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.csv")}


def test_a_quick_look_is_not_published(monkeypatch):
    before = tables_in(published.FOLDER)
    monkeypatch.setattr(flawed, "QUICK", True)
    monkeypatch.setattr(flawed, "run_grid", None)  # it is told before anything runs
    monkeypatch.setattr(sys, "argv", ["flawed", "--publish"])
    with pytest.raises(SystemExit, match=r"^python -m problem2.flawed: a quick look is not published; .*QUICK\.$"):
        flawed.main()
    assert tables_in(published.FOLDER) == before


@pytest.fixture
def publish(monkeypatch, tmp_path):
    """Run the command on three rows; returns what it has changed in a copy of what is published."""
    folder = tmp_path / "published"
    shutil.copytree(published.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(published, "FOLDER", folder)
    before = tables_in(folder)

    def run(seeds, codes):
        scored = [{"length": 8, "accuracy": 0.5}]
        rows = {"variant": "frozen, learned", "seed": seeds, "test accuracy": 1.0, "code": codes, "rows": [scored] * 3}
        monkeypatch.setattr(flawed, "run_grid", lambda *_: pd.DataFrame(rows))
        monkeypatch.setattr(sys, "argv", ["flawed", "--publish"])
        flawed.main()

    def changed():
        return {name for name, content in tables_in(folder).items() if before.get(name) != content}

    run.changed = changed
    return run


def test_a_whole_study_takes_the_place_of_the_one_before(publish):
    publish([0, 1, 2], ["a"] * 3)
    assert publish.changed() == {"flawed.csv", "flawed_evaluated.csv"}


@pytest.mark.parametrize(("seeds", "codes", "sentence"), [([0, 1, 2], "aab", "code"), ([0, 1, 1], "aaa", "seeds")])
def test_rows_that_do_not_belong_together_are_not_published(publish, seeds, codes, sentence):
    with pytest.raises(SystemExit, match=f"python -m problem2.flawed: .*{sentence}"):
        publish(seeds, list(codes))
    assert publish.changed() == set()


def test_a_failure_while_writing_leaves_what_is_published_as_it_was(publish, monkeypatch):
    write = published.write_tables

    def fail(tables, stage):
        write({"flawed": tables["flawed"]}, stage)
        raise RuntimeError("out of disk")

    monkeypatch.setattr(published, "write_tables", fail)
    with pytest.raises(RuntimeError, match="out of disk"):
        publish([0, 1, 2], ["a"] * 3)
    assert publish.changed() == set()
