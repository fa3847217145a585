"""What problem 2 gives the training loop: recipes, losses, validation; batches are tested with the data."""

import functools
import json
import sys
from dataclasses import fields

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import problem2.train
from problem1.shared.errors import UserError
from problem2.dataset import group_by_length, make_items, split_items
from problem2.encodings import ENCODINGS
from problem2.model import POOLINGS, Classifier, Prediction
from problem2.train import (
    ClassifierRecipe,
    accuracy,
    classifier_loss,
    make_batches,
    make_classifier,
    parse_options,
    prediction_loss,
    train_classifier,
    validate_on,
)

TINY = {"steps": 6, "evaluate_every": 2, "batch_size": 8}
LOCAL = {"encoding": "shaw", "options": "clip=1", "shape": "single", "pooling": "min", "window": 1, "smooth": True}


@functools.cache
def items_of(split):
    """All items to train on, a few to validate and test with: these trainings are about the loop, not the model."""
    return split_items(split)[: None if split == "train" else 400]


@pytest.fixture(autouse=True)
def few_validation_items(monkeypatch):
    monkeypatch.setattr("problem2.train.split_items", items_of)


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


# --- loss and validation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_the_loss_is_the_cross_entropy_of_the_logit(pooling):
    torch.manual_seed(0)
    model = make_classifier(ClassifierRecipe(pooling=pooling))
    group = make_batches(ClassifierRecipe())(0)
    p = model(group.tokens).logits.sigmoid()
    torch.testing.assert_close(classifier_loss(model, group), -torch.where(group.is_sorted, p, 1 - p).log().mean())


def test_the_lowest_tokens_loss_is_softened_below_the_minimum_and_teaches_every_token():
    token_logits = torch.tensor([[3.0, 2.0, 4.0], [-5.0, 1.0, -5.0]], requires_grad=True)
    prediction, labels = Prediction(token_logits.amin(1), token_logits, None), torch.tensor([True, False])
    soft = -token_logits.neg().exp().sum(1).log()
    assert (soft < prediction.logits).all() and (soft > prediction.logits - np.log(3)).all()
    loss = prediction_loss(prediction, labels)
    torch.testing.assert_close(loss, F.binary_cross_entropy_with_logits(soft, labels.float()))
    loss.backward()
    assert (token_logits.grad[0] < 0).all() and (token_logits.grad[1] > 0).all()


def test_validation_counts_every_item_once_whatever_its_length():
    torch.manual_seed(0)
    items, model = split_items("validation")[:300], make_classifier(ClassifierRecipe(pooling="min"))
    logits = [model(torch.tensor([sequence])).logits.item() for sequence, _ in items]
    found = validate_on(items)(model)
    assert found["accuracy"] == pytest.approx(
        np.mean([(z > 0) == label for z, (_, label) in zip(logits, items, strict=True)])
    )
    assert found["share answered sorted"] == pytest.approx(np.mean(np.array(logits) > 0))
    parts = group_by_length(items).values()
    assert found["loss"] == pytest.approx(
        sum(classifier_loss(model, g).item() * len(g.tokens) for g in parts) / 300, rel=1e-4
    )


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"data": "exact", "augment": "squeeze"}, {"encoding": "randomized"}])
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path, options):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        train_classifier(ClassifierRecipe(seed=seed, **TINY, **options), tmp_path / name, progress=False)
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


@pytest.mark.parametrize("options", [{"encoding": "randomized"}, {"data": "online", **LOCAL}])
def test_an_interrupted_training_ends_with_the_same_weights(tmp_path, monkeypatch, options):
    recipe = ClassifierRecipe(**TINY, **options)
    train_classifier(recipe, tmp_path / "whole", progress=False)
    batches = make_batches(recipe)

    def interrupted(step):
        if step == 5:
            raise KeyboardInterrupt
        return batches(step)

    with monkeypatch.context() as patch:
        patch.setattr("problem2.train.make_batches", lambda recipe: interrupted)
        with pytest.raises(KeyboardInterrupt, match="checkpoint of step 4 is kept"):
            train_classifier(recipe, tmp_path / "cut", progress=False)
    train_classifier(recipe, tmp_path / "cut", progress=False)
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_trains_and_its_log_says_what_happened(tmp_path, encoding):
    _, log = train_classifier(
        ClassifierRecipe(encoding=encoding, steps=2, evaluate_every=1, batch_size=8), tmp_path, progress=False
    )
    assert log == json.loads((tmp_path / "training_log.json").read_text()) and log["finished"]
    assert [row["step"] for row in log["rows"]] == [1, 2]
    assert set(log["rows"][0]) == {
        "step",
        "training loss",
        "validation loss",
        "validation accuracy",
        "validation share answered sorted",
        "cpu seconds",
    }


def test_every_pooling_trains(tmp_path):
    for pooling in POOLINGS:
        _, log = train_classifier(ClassifierRecipe(pooling=pooling, **TINY), tmp_path / pooling, progress=False)
        assert log["finished"]


def test_a_short_training_learns_the_task(tmp_path):
    recipe = ClassifierRecipe(data="online", steps=250, evaluate_every=250, **LOCAL)
    model, log = train_classifier(recipe, tmp_path, progress=False)
    assert log["rows"][-1]["validation accuracy"] > 0.9
    assert accuracy(model, make_items(400, 64)) > 0.9


# --- recipes and the command -----------------------------------------------------------------------------------------


def test_the_recipe_makes_the_classifier_that_it_says():
    classifier = make_classifier(ClassifierRecipe(**LOCAL))
    assert (
        isinstance(classifier, Classifier)
        and classifier.shape["options"] == {"clip": 1}
        and classifier.shape["window"] == 1
    )
    assert len(classifier.blocks) == 1 and classifier.pooling == "min" and classifier.positions.clip == 1
    assert make_classifier(ClassifierRecipe(shape="assignment")).shape["d_model"] == 128
    assert make_classifier(ClassifierRecipe()).positions.window is None


def test_the_learning_rate_follows_the_shape_unless_it_is_given():
    assert ClassifierRecipe().learning_rate == 2e-3 and ClassifierRecipe(shape="assignment").learning_rate == 1e-3
    assert ClassifierRecipe(shape="assignment", learning_rate=3e-3).learning_rate == 3e-3


def test_a_recipe_draws_no_random_numbers_and_its_name_tells_recipes_apart():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    names = {
        ClassifierRecipe(**o).name
        for o in ({}, {"seed": 1}, {"window": 2}, {"options": "beyond=interpolate"}, {"smooth": True})
    }
    assert torch.equal(before, torch.get_rng_state()) and len(names) == 5
    assert ClassifierRecipe().name == ClassifierRecipe().name


def test_one_training_has_one_key_however_its_options_are_written():
    shaw = [ClassifierRecipe(encoding="shaw", options=options) for options in ("", "clip=2", " clip = 2 ")]
    assert make_classifier(shaw[0]).positions.clip == 2 and len({recipe.key for recipe in shaw}) == 1
    assert ClassifierRecipe(encoding="shaw", options="clip=1").key != shaw[0].key


def test_options_are_numbers_or_words():
    assert (
        parse_options("clip=1, beyond=interpolate") == {"clip": 1, "beyond": "interpolate"} and parse_options("") == {}
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"encoding": "web"}, f"encoding is 'web'; choose from {', '.join(ENCODINGS)}."),
        ({"shape": "huge"}, "shape is 'huge'; choose from assignment, small, single."),
        ({"pooling": "sum"}, "pooling is 'sum'; choose from mean, max, cls, min."),
        ({"pooling": "worst"}, "pooling is 'worst'; it is now called 'min'."),
        ({"data": "fresh"}, "data is 'fresh'; it is now called 'online'."),
        ({"pooling": "cls", "window": 1}, "pooling cls with window 1"),
        ({"window": -1}, "window is -1; it must be between 0 and"),
        ({"data": "web"}, "data is 'web'; choose from exact, online."),
        ({"augment": "flip"}, "augment is 'flip'; choose from none, shift, squeeze."),
        ({"narrow": 1.5}, "narrow is 1.5; it must be between 0 and 1."),
        ({"adjacent": -0.1}, "adjacent is -0.1; it must be between 0 and 1."),
        ({"options": "clip"}, "options are 'clip'; write them like clip=1,beyond=interpolate, each once."),
        ({"options": "clip=1"}, "encoding sinusoidal has no option 'clip'; it has beyond, shift, ssmax."),
        ({"encoding": "shaw", "options": "clip=0"}, "clip is 0; it must be"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0; it must be between"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; it must be between"),
        ({"options": "shift=-1"}, "shift is -1; it must be"),
        ({"options": "beyond=rescale"}, "beyond is 'rescale'; it is now called 'interpolate'"),
        ({"steps": 0}, "steps is 0; it must be between 1 and 10000000."),
    ],
)
def test_a_recipe_that_cannot_be_gets_one_sentence(options, sentence):
    with pytest.raises(UserError) as error:
        ClassifierRecipe(**options)
    assert str(error.value).startswith(sentence)


def run_command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["train", *map(str, arguments)])
    problem2.train.main()


def test_the_command_writes_the_assignments_files_of_its_encoding(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("problem2.train.RESULTS", tmp_path)
    run_command(monkeypatch, "--encoding", "alibi", "--seed", 2, "--steps", 2, "--evaluate-every", 2)
    log = json.loads((tmp_path / "alibi" / "training_log.json").read_text())
    assert log["recipe"]["encoding"] == "alibi" and log["recipe"]["seed"] == 2
    assert (tmp_path / "alibi" / "training_curves.png").stat().st_size > 10_000
    assert len(list((tmp_path / "runs").iterdir())) == 1 and "test accuracy" in capsys.readouterr().out
    run_command(monkeypatch, "--encoding", "rope", "--steps", 2, "--evaluate-every", 2, "--folder", tmp_path / "own")
    assert (tmp_path / "own" / "model.safetensors").exists() and not (tmp_path / "rope").exists()


def test_the_command_names_the_known_encodings_and_has_every_option(monkeypatch, capsys):
    with pytest.raises(SystemExit) as end:
        run_command(monkeypatch, "--encoding", "web")
    assert end.value.code == f"python -m problem2.train: encoding is 'web'; choose from {', '.join(ENCODINGS)}."
    with pytest.raises(SystemExit):
        run_command(monkeypatch, "--help")
    shown = capsys.readouterr().out
    assert all("--" + entry.name.replace("_", "-") in shown for entry in fields(ClassifierRecipe))
    with pytest.raises(SystemExit, match=r"python -m problem2.train: options are 'clip'; write them like clip=1"):
        run_command(monkeypatch, "--options", "clip")
