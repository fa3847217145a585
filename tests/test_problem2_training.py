"""What problem 2 gives the training loop: recipes, batches of one length, labels, losses."""

import functools
import itertools
import json
import sys
from collections import Counter
from dataclasses import fields

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import problem2.train
from problem2.dataset import by_length, in_order, make_items, split_items
from problem2.encodings import ENCODINGS
from problem2.model import POOLINGS, Judge, Verdict
from problem2.train import (
    JudgeRecipe,
    accuracy,
    augment_values,
    fresh_tokens,
    judge_loss,
    make_batches,
    make_judge,
    parse_options,
    train_judge,
    validate_on,
    verdict_loss,
)

TINY = {"steps": 6, "evaluate_every": 2, "batch_size": 8}
LOCAL = {"encoding": "shaw", "options": "clip=1", "shape": "single", "pooling": "worst", "window": 1, "smooth": True}


@functools.cache
def items_of(split):
    """All items to train on, a few to validate and test with: these trainings are about the loop, not the judge."""
    return split_items(split)[: None if split == "train" else 400]


@pytest.fixture(autouse=True)
def few_validation_items(monkeypatch):
    monkeypatch.setattr("problem2.train.split_items", items_of)


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


# --- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["exact", "fresh"])
@pytest.mark.parametrize("augment", ["none", "shift", "squeeze"])
def test_a_batch_has_one_length_right_labels_and_values_of_the_vocabulary(data, augment):
    batches, lengths = make_batches(JudgeRecipe(data=data, augment=augment)), Counter()
    for step in range(60):
        tokens, labels = batches(step)
        lengths[tokens.shape[1]] += 1
        assert tokens.dtype == torch.int64 and 32 < len(tokens) <= 64
        assert tokens.min() >= 0 and tokens.max() <= 99
        assert labels.tolist() == [row == sorted(row) for row in tokens.tolist()]
        assert 0.2 < labels.double().mean() < 0.85
    assert set(lengths) == set(range(8, 17))


@pytest.mark.parametrize("options", [{"data": "exact"}, {"data": "exact", "augment": "squeeze"}, {"data": "fresh"}])
def test_the_batch_of_a_step_depends_on_the_seed_and_the_step_only(options):
    """So a training that was killed goes on with the batches it would have had."""
    one, other = make_batches(JudgeRecipe(seed=3, **options)), make_batches(JudgeRecipe(seed=3, **options))
    in_turn = {step: one(step).tokens for step in range(170)}
    for step in (169, 4, 159, 160, 0):
        assert torch.equal(other(step).tokens, in_turn[step])
    another_seed = make_batches(JudgeRecipe(seed=4, **options))
    assert not torch.equal(another_seed(4).tokens, in_turn[4])


def test_an_epoch_shows_each_exact_item_once_in_an_order_of_its_own():
    batches = make_batches(JudgeRecipe())
    epochs = [
        [row for step in steps for row in batches(step).tokens.tolist()] for steps in (range(160), range(160, 320))
    ]
    expected = sorted(sequence for sequence, _ in split_items("train"))
    assert sorted(epochs[0]) == sorted(epochs[1]) == expected and epochs[0] != epochs[1]


def test_fresh_items_are_of_the_second_kind():
    """Half sorted; of the rest half are one adjacent swap away from sorted; half come from a narrow window."""
    tokens = fresh_tokens(np.random.default_rng(0), 4_000, 12, narrow=0.5, adjacent=0.5)
    unsorted = [row for row in tokens.tolist() if not in_order(row)]
    assert 0.44 < len(unsorted) / 4_000 < 0.5  # swaps of equal values leave some sorted
    one_swap = [
        row for row in unsorted if sum(a != b for a, b in zip(row, sorted(row), strict=True)) == 2 and one_descent(row)
    ]
    assert 0.45 < len(one_swap) / len(unsorted) < 0.6
    spans = tokens.max(1) - tokens.min(1)
    assert 0.35 < (spans < 50).mean() < 0.5 and (spans < 4).mean() > 0.05


def one_descent(row):
    return sum(a > b for a, b in itertools.pairwise(row)) == 1


def test_the_shares_of_fresh_items_can_be_changed():
    draw = np.random.default_rng(0)
    wide = fresh_tokens(draw, 2_000, 16, narrow=0, adjacent=0)
    assert (wide.max(1) - wide.min(1) > 50).mean() > 0.99
    assert np.mean([one_descent(row) for row in wide.tolist()]) < 0.1
    hard = fresh_tokens(draw, 2_000, 16, narrow=1, adjacent=1)
    assert all(in_order(row) or one_descent(row) for row in hard.tolist())
    assert hard.min() == 0 and hard.max() == 99  # the windows lie everywhere


def test_augmentation_moves_and_reflects_what_it_does_not_squeeze():
    draw = np.random.default_rng(0)
    tokens = np.array([sequence for sequence, _ in make_items(2_000, 12, "swaps")])
    moved = augment_values(tokens, draw, squeeze=False)
    steps, new_steps = np.diff(tokens), np.diff(moved)
    kept, reflected = (new_steps == steps).all(1), (new_steps == steps[:, ::-1]).all(1)
    assert (kept | reflected).all() and 0.4 < reflected.mean() < 0.6
    assert [in_order(row) for row in tokens.tolist()] == [in_order(row) for row in moved.tolist()]


def test_squeezing_keeps_sorted_items_sorted_and_makes_narrow_ones():
    draw = np.random.default_rng(0)
    tokens = np.array([sequence for sequence, _ in make_items(2_000, 12, "swaps")])
    squeezed = augment_values(tokens, draw, squeeze=True)
    before, after = ([in_order(row) for row in array.tolist()] for array in (tokens, squeezed))
    assert all(now for then, now in zip(before, after, strict=True) if then)
    assert 0 < sum(now and not then for then, now in zip(before, after, strict=True)) < 300
    spans = squeezed.max(1) - squeezed.min(1)
    assert 0.3 < (spans < 50).mean() < 0.6 and squeezed.min() == 0 and squeezed.max() == 99


# --- loss and validation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_the_loss_is_the_cross_entropy_of_the_logit(pooling):
    torch.manual_seed(0)
    model = make_judge(JudgeRecipe(pooling=pooling))
    group = make_batches(JudgeRecipe())(0)
    p = model(group.tokens).logits.sigmoid()
    torch.testing.assert_close(judge_loss(model, group), -torch.where(group.is_sorted, p, 1 - p).log().mean())


def test_the_worst_tokens_loss_is_softened_below_the_minimum_and_teaches_every_token():
    per_token = torch.tensor([[3.0, 2.0, 4.0], [-5.0, 1.0, -5.0]], requires_grad=True)
    verdict, labels = Verdict(per_token.amin(1), per_token, None), torch.tensor([True, False])
    soft = -per_token.neg().exp().sum(1).log()
    assert (soft < verdict.logits).all() and (soft > verdict.logits - np.log(3)).all()
    loss = verdict_loss(verdict, labels)
    torch.testing.assert_close(loss, F.binary_cross_entropy_with_logits(soft, labels.float()))
    loss.backward()
    assert (per_token.grad[0] < 0).all() and (per_token.grad[1] > 0).all()


def test_validation_counts_every_item_once_whatever_its_length():
    torch.manual_seed(0)
    items, model = split_items("validation")[:300], make_judge(JudgeRecipe(pooling="worst"))
    logits = [model(torch.tensor([sequence])).logits.item() for sequence, _ in items]
    found = validate_on(items)(model)
    assert found["accuracy"] == pytest.approx(
        np.mean([(z > 0) == label for z, (_, label) in zip(logits, items, strict=True)])
    )
    assert found["share answered sorted"] == pytest.approx(np.mean(np.array(logits) > 0))
    parts = by_length(items).values()
    assert found["loss"] == pytest.approx(
        sum(judge_loss(model, g).item() * len(g.tokens) for g in parts) / 300, rel=1e-4
    )


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"data": "exact", "augment": "squeeze"}, {"encoding": "randomized"}])
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path, options):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        train_judge(JudgeRecipe(seed=seed, **TINY, **options), tmp_path / name, progress=False)
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


@pytest.mark.parametrize("options", [{"encoding": "randomized"}, {"data": "fresh", **LOCAL}])
def test_an_interrupted_training_ends_with_the_same_weights(tmp_path, monkeypatch, options):
    recipe = JudgeRecipe(**TINY, **options)
    train_judge(recipe, tmp_path / "whole", progress=False)
    batches = make_batches(recipe)

    def interrupted(step):
        if step == 5:
            raise KeyboardInterrupt
        return batches(step)

    with monkeypatch.context() as patch:
        patch.setattr("problem2.train.make_batches", lambda recipe: interrupted)
        with pytest.raises(KeyboardInterrupt, match="checkpoint of step 4 is kept"):
            train_judge(recipe, tmp_path / "cut", progress=False)
    train_judge(recipe, tmp_path / "cut", progress=False)
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_trains_and_its_log_says_what_happened(tmp_path, encoding):
    _, log = train_judge(
        JudgeRecipe(encoding=encoding, steps=2, evaluate_every=1, batch_size=8), tmp_path, progress=False
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
        _, log = train_judge(JudgeRecipe(pooling=pooling, **TINY), tmp_path / pooling, progress=False)
        assert log["finished"]


def test_a_short_training_learns_the_task(tmp_path):
    recipe = JudgeRecipe(data="fresh", steps=250, evaluate_every=250, **LOCAL)
    model, log = train_judge(recipe, tmp_path, progress=False)
    assert log["rows"][-1]["validation accuracy"] > 0.9
    assert accuracy(model, make_items(400, 64)) > 0.9


# --- recipes and the command -----------------------------------------------------------------------------------------


def test_the_recipe_makes_the_judge_that_it_says():
    judge = make_judge(JudgeRecipe(**LOCAL))
    assert isinstance(judge, Judge) and judge.shape["options"] == {"clip": 1} and judge.shape["window"] == 1
    assert len(judge.blocks) == 1 and judge.pooling == "worst" and judge.positions.clip == 1
    assert make_judge(JudgeRecipe(shape="assignment")).shape["width"] == 128
    assert make_judge(JudgeRecipe()).positions.window is None


def test_the_learning_rate_follows_the_shape_unless_it_is_given():
    assert JudgeRecipe().learning_rate == 2e-3 and JudgeRecipe(shape="assignment").learning_rate == 1e-3
    assert JudgeRecipe(shape="assignment", learning_rate=3e-3).learning_rate == 3e-3


def test_a_recipe_draws_no_random_numbers_and_its_name_tells_recipes_apart():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    names = {
        JudgeRecipe(**o).name for o in ({}, {"seed": 1}, {"window": 2}, {"options": "beyond=rescale"}, {"smooth": True})
    }
    assert torch.equal(before, torch.get_rng_state()) and len(names) == 5
    assert JudgeRecipe().name == JudgeRecipe().name


def test_options_are_numbers_or_words():
    assert parse_options("clip=1, beyond=rescale") == {"clip": 1, "beyond": "rescale"} and parse_options("") == {}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"encoding": "web"}, f"encoding is 'web'; the known ones are {', '.join(ENCODINGS)}."),
        ({"shape": "huge"}, "shape is 'huge'; it must be assignment or small or single."),
        ({"pooling": "sum"}, "pooling is 'sum'; it must be mean, max, cls, worst."),
        ({"pooling": "cls", "window": 1}, "pooling cls with window 1"),
        ({"window": -1}, "window is -1; it must be at least 1, or 0 for all tokens."),
        ({"data": "web"}, "data is 'web'; it must be exact or fresh."),
        ({"augment": "flip"}, "augment is 'flip'; it must be none or shift or squeeze."),
        ({"narrow": 1.5}, "narrow is 1.5; it is a share, so it must lie between 0 and 1."),
        ({"adjacent": -0.1}, "adjacent is -0.1; it is a share"),
        ({"options": "clip"}, "options are 'clip'; write them like clip=1,beyond=rescale."),
        ({"options": "clip=1"}, "encoding sinusoidal has no option 'clip'; it has beyond, shift."),
        ({"encoding": "shaw", "options": "clip=0"}, "clip is 0; it must be at least 1"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0; it must be greater than 0."),
        ({"steps": 0}, "steps is 0; it must be greater than 0."),
    ],
)
def test_a_recipe_that_cannot_be_gets_one_sentence(options, sentence):
    with pytest.raises(ValueError) as error:
        JudgeRecipe(**options)
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
    with pytest.raises(SystemExit):
        run_command(monkeypatch, "--encoding", "web")
    error = capsys.readouterr().err
    assert "Traceback" not in error and all(name in error for name in ENCODINGS)
    with pytest.raises(SystemExit):
        run_command(monkeypatch, "--help")
    shown = capsys.readouterr().out
    assert all("--" + entry.name.replace("_", "-") in shown for entry in fields(JudgeRecipe))
    with pytest.raises(SystemExit, match=r"python -m problem2.train: options are 'clip'; write them like clip=1"):
        run_command(monkeypatch, "--options", "clip")
