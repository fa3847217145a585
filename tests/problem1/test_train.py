"""Training an adder, and the loop's promises, on trainings of a few steps."""

import hashlib
import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from problem1.dataset import contains, split_pairs
from problem1.shared.errors import UserError
from problem1.shared.training import schedule
from problem1.train import AdderRecipe, make_batches, never_trained, shown_pairs, train_adder, unseen_pairs

TINY = {"steps": 12, "evaluate_every": 4, "batch_size": 8, "train_size": 50, "digits": 2}


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        train_adder(AdderRecipe(seed=seed, **TINY), tmp_path / name, progress=False)
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


def test_a_finished_run_is_loaded_and_overwrite_trains_again(tmp_path):
    recipe = AdderRecipe(**TINY)
    first, _ = train_adder(recipe, tmp_path, progress=False)
    times = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    again, _ = train_adder(recipe, tmp_path, progress=False)
    assert times == {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert set(times) == {"model.safetensors", "training_log.json", "training_curves.png"}
    train_adder(recipe, tmp_path, overwrite=True, progress=False)
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns > times["model.safetensors"]


def test_the_log_says_what_happened(tmp_path):
    _, log = train_adder(AdderRecipe(**TINY), tmp_path, progress=False)
    assert log == json.loads((tmp_path / "training_log.json").read_text())
    assert [row["step"] for row in log["rows"]] == [4, 8, 12]
    assert set(log["rows"][0]) == {
        "step",
        "training loss",
        "validation loss",
        "validation teacher-forced accuracy",
        "validation free-running accuracy",
        "cpu seconds",
    }


def test_the_weights_kept_are_those_of_the_lowest_validation_loss(tmp_path, monkeypatch):
    losses = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr("problem1.train.validate_on", lambda pairs: lambda model: {"loss": next(losses)})
    _, log = train_adder(AdderRecipe(**TINY), tmp_path / "all", progress=False)
    assert log["best step"] == 8
    losses = iter([3.0, 1.0])
    with pytest.raises(StopIteration):  # the same run, stopped after the second validation
        train_adder(AdderRecipe(**TINY), tmp_path / "two", progress=False)
    assert weights(tmp_path / "all") == weights(tmp_path / "two")


def test_another_recipe_in_the_same_folder_gets_one_sentence(tmp_path):
    train_adder(AdderRecipe(**TINY), tmp_path, progress=False)
    with pytest.raises(ValueError, match=r"holds a run with learning_rate=0.001, not 0.01: choose another folder"):
        train_adder(AdderRecipe(**TINY, learning_rate=0.01), tmp_path, progress=False)


def test_overwrite_keeps_the_old_run_until_there_is_something_new(tmp_path, monkeypatch):
    recipe = AdderRecipe(**TINY)
    train_adder(recipe, tmp_path, progress=False)
    before = weights(tmp_path)
    monkeypatch.setattr("problem1.train.adder_loss", lambda model, batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train_adder(recipe, tmp_path, overwrite=True, progress=False)
    assert weights(tmp_path) == before and train_adder(recipe, tmp_path, progress=False)[1]["finished"]


def test_a_training_that_diverges_says_so(tmp_path):
    with pytest.raises(UserError, match=r"diverged at step 8; try a learning_rate below 10"):
        train_adder(AdderRecipe(**TINY, learning_rate=10, clip=1e6), tmp_path, progress=False)


def test_ctrl_c_leaves_the_last_checkpoint_and_the_same_call_goes_on(tmp_path, monkeypatch):
    recipe = AdderRecipe(**TINY)
    train_adder(recipe, tmp_path / "whole", progress=False)
    batches = make_batches(recipe)

    def interrupted(step):
        if step == 10:
            raise KeyboardInterrupt
        return batches(step)

    monkeypatch.setattr("problem1.train.make_batches", lambda recipe: interrupted)
    monkeypatch.setattr("problem1.train.never_trained", lambda pairs, recipe: np.ones(len(pairs), bool))
    with pytest.raises(KeyboardInterrupt, match="checkpoint of step 8 is kept"):
        train_adder(recipe, tmp_path / "cut", progress=False)
    monkeypatch.undo()
    train_adder(recipe, tmp_path / "cut", progress=False)
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_killed_at_a_random_moment_it_ends_with_the_same_weights(tmp_path):
    """The command; tests of the training loop kill it at seven exact moments."""
    options = ["--steps", "60", "--evaluate-every", "3", "--batch-size", "16", "--digits", "2", "--train-size", "900"]

    def start(folder):
        command = [sys.executable, "-m", "problem1.train", *options, "--folder", str(tmp_path / folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    assert start("whole").wait() == 0
    process = start("killed")
    while not (tmp_path / "killed" / "checkpoint.safetensors").exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(random.uniform(0, 0.2))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    final = start("killed")
    assert final.wait() == 0, final.stderr.read()
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


def test_warm_up_then_cosine():
    recipe = AdderRecipe(steps=100, warmup=0.1, learning_rate=1.0)
    rates = [schedule(step, recipe) for step in range(100)]
    assert rates[0] == 0.1 and rates[9] == rates[10] == 1.0 and abs(rates[55] - 0.5) < 1e-9 and rates[-1] < 0.001


def test_online_training_shows_no_validation_or_test_pair_in_either_order():
    recipe = AdderRecipe(data="online", digits=2, steps=300)  # 8,100 pairs: without the filter it would hit thousands
    shown = shown_pairs(recipe)
    assert len(shown) == 300 * 64 and len(np.unique(shown, axis=0)) > 2_000
    for split in ("validation", "test"):
        held_out = split_pairs(split, 2)
        assert not contains(held_out, shown, either_order=True).any()
        assert never_trained(held_out, recipe).all()


def test_batches_are_those_of_the_published_recipe():
    """Whatever changes here changes what every seed trains."""
    source, target = make_batches(AdderRecipe(seed=3))(200)
    assert hashlib.sha256(source.numpy().tobytes() + target.numpy().tobytes()).hexdigest()[:16] == "332b01fa7151156e"
    source, target = make_batches(AdderRecipe(seed=3, data="online"))(200)
    assert hashlib.sha256(source.numpy().tobytes() + target.numpy().tobytes()).hexdigest()[:16] == "5b70166a0e807478"


def test_test_pairs_never_trained():
    test = split_pairs("test")
    assert never_trained(test, AdderRecipe()).sum() == 2_000 - 49
    assert never_trained(test, AdderRecipe(swap_operands=False)).sum() == 2_000 - 25
    assert len(unseen_pairs("test")) == 2_000 - 49 and len(unseen_pairs("validation")) == 2_000 - 48


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"digits": 7}, "digits is 7; the task is defined for 2, 3, 4, 5 or 6 digits."),
        ({"data": "web"}, "data is 'web'; choose from exact, online."),
        ({"steps": 0}, "steps is 0; it must be between 1 and 10000000."),
        ({"ema_decay": 1.5}, "ema_decay is 1.5; it must be"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; it must be"),
        ({"seed": -1}, "seed is -1; it must be"),
    ],
)
def test_a_recipe_that_cannot_be_gets_one_sentence(options, sentence):
    with pytest.raises(UserError, match=sentence):
        AdderRecipe(**options)


def test_a_training_set_that_leaves_nothing_to_validate_on_says_so(tmp_path):
    with pytest.raises(UserError, match="leave no validation pair that training does not show; choose a smaller"):
        train_adder(AdderRecipe(**{**TINY, "train_size": 8_100}), tmp_path, progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "a train split of 10,000 pairs does not fit: 2-digit sums allow 1 to 8,100."),
        (
            ["--train-size", "8100"],
            "8,100 training pairs of 2 digits leave no validation pair that training does not show; choose a smaller "
            "train_size.",
        ),
    ],
)
def test_the_command_line_says_it_without_a_traceback(tmp_path, options, sentence):
    command = [sys.executable, "-m", "problem1.train", "--digits", "2", *options, "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.strip() == f"python -m problem1.train: {sentence}"
