"""The homework's own recipe: epochs, plain Adam, post-norm, and the weights of the highest validation accuracy."""

from dataclasses import asdict, dataclass

import pytest
import torch
from torch import nn

from problem1.shared import settings
from problem1.shared.errors import UserError
from problem1.shared.homework import SEEDS, PostNorm, homework_fields, recipe_rows, train_as_homework
from problem1.shared.storage import load_tensors
from problem1.shared.training import Recipe, option, schedule


@dataclass(frozen=True)
class OwnRecipe(Recipe):
    homework: bool = option(False, "as the homework")
    warmup: float = option(0.0, "share of the steps", low=0, high=0.99)
    swap: bool = option(True, "both orders")


class Line(nn.Module):
    """Dropout draws random numbers in every step."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layer, self.dropout = nn.Linear(3, 1), nn.Dropout(0.3)

    def forward(self, x):
        return self.layer(self.dropout(x))


def draw(step):
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(step))


def loss(model, x):
    return ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()


def scripted(accuracies, seen):
    script = iter(accuracies)

    def validate(model):
        assert not model.training
        seen.append([p.clone() for p in model.parameters()])
        return {"loss": 1.0, "accuracy": next(script)}

    return validate


def train(folder, accuracies=(0.5, 0.9, 0.7), batch=draw, seen=None, more=(), **fields):
    recipe = OwnRecipe(**{"steps": 6, "evaluate_every": 2, "learning_rate": 0.1, **fields})
    validate = scripted(accuracies, [] if seen is None else seen)
    return train_as_homework(Line(), recipe, batch, loss, validate, folder, progress=False, **dict(more))


def never(*_):
    raise AssertionError("there was nothing to do")


def equal(model, weights):
    return all(torch.equal(p, q) for p, q in zip(model.parameters(), weights, strict=True))


# --- post-norm (that a whole block is PyTorch's is a test of problem 1) ----------------------------------------------


class Add(nn.Module):
    def forward(self, x):
        return torch.ones_like(x)


def post_norm(feed_forward):
    block = PostNorm()
    block.norm, block.feed_forward = nn.Identity(), feed_forward
    return block


def test_dropout_takes_a_tenth_of_what_a_layer_adds_and_nothing_of_what_it_adds_to():
    torch.manual_seed(0)
    x, block = torch.full((10_000,), 7.0), post_norm(nn.Sequential(nn.Identity(), Add()))
    added = block.train().finish(x) - x
    assert sorted(set(added.tolist())) == pytest.approx([0, 1 / 0.9]) and 0.09 < (added == 0).double().mean() < 0.11
    assert torch.equal(block.eval().finish(x), x + 1)


def test_without_a_feed_forward_part_a_block_ends_with_its_norm():
    block, x = post_norm(None), torch.randn(4, 32)
    block.norm = nn.LayerNorm(32)
    assert torch.equal(block.finish(x), block.norm(x))


# --- recipes ---------------------------------------------------------------------------------------------------------


def test_epochs_become_steps_of_157_an_epoch_without_warm_up_decay_and_average():
    recipe = OwnRecipe(**homework_fields(50, swap=False))
    assert (recipe.steps, recipe.evaluate_every) == (50 * 157, 157) and recipe.homework and not recipe.swap
    assert recipe.weight_decay == recipe.ema_decay == recipe.warmup == 0
    assert schedule(0, recipe) == recipe.learning_rate == Recipe().learning_rate
    assert homework_fields(50, steps=9)["steps"] == 9


def test_a_quick_look_is_one_epoch(monkeypatch):
    monkeypatch.setattr(settings, "QUICK", True)
    assert homework_fields(50)["steps"] == homework_fields(50)["evaluate_every"] == 157


def test_there_is_one_row_for_each_variant_and_seed_with_every_field_of_its_recipe():
    variants = {"plain": {}, "homework": homework_fields(2, swap=False)}
    expected = [(name, seed, fields) for name, fields in variants.items() for seed in (0, 1, 2)]
    assert list(SEEDS) == [0, 1, 2]
    assert recipe_rows(OwnRecipe, variants) == [
        {"variant": name, **asdict(OwnRecipe(seed=seed, **fields))} for name, seed, fields in expected
    ]


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("accuracies", "best"), [((0.5, 0.9, 0.7), 1), ((0.2, 0.2, 0.2), 0), ((0.0, 0.1, 1.0), 2)])
def test_the_weights_of_the_highest_validation_accuracy_are_kept_the_first_of_equals(tmp_path, accuracies, best):
    seen = []
    model = train(tmp_path, accuracies, seen=seen)
    assert len(seen) == 3 and equal(model, seen[best]) and not model.training
    stored, about = load_tensors(tmp_path / "model.safetensors")
    assert equal(model, [stored[name] for name, _ in model.named_parameters()])
    assert about["recipe"]["steps"] == 6 and about["recipe"]["learning_rate"] == 0.1


def test_it_is_plain_adam_whose_rate_falls_when_the_validation_loss_stands_still(tmp_path):
    """PyTorch's defaults: a tenth, after ten validations that are no better."""
    rates = [0.1 if step < 12 else 0.01 if step < 23 else 0.001 for step in range(30)]
    found = train(tmp_path, range(30), steps=30, evaluate_every=1, seed=3)
    check_rates(found, rates)


def check_rates(found, rates):
    """Is `found` what plain Adam makes of a Line with these rates, one for each step?"""
    model = Line()
    adam = torch.optim.Adam(model.parameters())
    torch.manual_seed(3)
    for step, rate in enumerate(rates):
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        loss(model, draw(step)).backward()
        adam.step()
    for parameter, expected in zip(found.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected)


def test_the_plateau_can_be_another_one(tmp_path):
    plateau = {"factor": 0.5, "patience": 2}
    found = train(tmp_path, range(9), steps=9, evaluate_every=1, seed=3, more={"plateau": plateau})
    check_rates(found, [0.1] * 4 + [0.05] * 3 + [0.025] * 2)


def test_a_warm_up_raises_the_rate_step_by_step(tmp_path):
    found = train(tmp_path, range(4), steps=8, evaluate_every=2, seed=3, warmup=0.5)
    check_rates(found, [0.025, 0.05, 0.075] + [0.1] * 5)


def test_a_training_ends_when_it_is_good_enough_and_keeps_every_validation(tmp_path):
    seen = []
    model = train(tmp_path, (0.5, 0.8, 0.9, 0.7), seen=seen, steps=8, more={"until": 0.8})
    assert len(seen) == 2 and equal(model, seen[1])
    rows = load_tensors(tmp_path / "model.safetensors")[1]["rows"]
    assert rows == [{"step": 2, "loss": 1.0, "accuracy": 0.5}, {"step": 4, "loss": 1.0, "accuracy": 0.8}]


def test_a_finished_run_is_loaded_without_a_step(tmp_path):
    trained = train(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(before) == {"model.safetensors"} and equal(train(tmp_path, batch=never), trained.parameters())
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


def test_a_run_of_another_recipe_is_not_taken_for_this_one(tmp_path):
    train(tmp_path, seed=0)
    with pytest.raises(UserError, match="holds a run with seed=0, not 1: choose another folder"):
        train(tmp_path, batch=never, seed=1)


def test_the_last_step_is_validated_however_few_there_are(tmp_path):
    seen = []
    train(tmp_path, (0.5, 0.9), seen=seen, steps=5, evaluate_every=4)
    assert len(seen) == 2


def test_an_interrupted_run_begins_again_and_ends_with_the_same_weights(tmp_path):
    def interrupted(step):
        return draw(step) if step < 5 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        train(tmp_path / "cut", batch=interrupted)
    assert not (tmp_path / "cut" / "model.safetensors").exists()
    assert equal(train(tmp_path / "cut"), train(tmp_path / "whole").parameters())
    assert not equal(train(tmp_path / "other", seed=1), train(tmp_path / "whole").parameters())


def test_threads_and_random_numbers_are_left_as_they_were(tmp_path):
    threads, counts, model = torch.get_num_threads(), set(), Line()
    before = torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        recipe = OwnRecipe(steps=2, evaluate_every=1)
        train_as_homework(
            model,
            recipe,
            lambda step: counts.add(torch.get_num_threads()) or draw(step),
            loss,
            scripted([0, 1], []),
            tmp_path,
            progress=False,
        )
        assert torch.get_num_threads() == 2 and counts == {1} and torch.equal(torch.get_rng_state(), before)
    finally:
        torch.set_num_threads(threads)
