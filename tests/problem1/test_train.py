"""Training an adder, a few steps at a time; what the loop promises is tested in tests/shared/test_training.py."""

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

from problem1 import published, train
from problem1.dataset import SPLIT_SIZES, contains, split_pairs
from problem1.shared.errors import UserError
from problem1.shared.storage import save_tensors
from problem1.train import (
    AdderRecipe,
    make_batches,
    never_trained,
    recipe_of,
    shown_pairs,
    train_adder,
    unseen_pairs,
)

TINY = {"steps": 12, "evaluate_every": 4, "batch_size": 8, "train_size": 50, "digits": 2}


@pytest.fixture(autouse=True)
def small_validation(monkeypatch):
    monkeypatch.setitem(SPLIT_SIZES, "validation", 200)


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        train_adder(AdderRecipe(seed=seed, **TINY), tmp_path / name, progress=False)
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


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


def test_killed_at_a_random_moment_it_ends_with_the_same_weights(tmp_path):
    """The command; tests of the training loop kill it at seven exact moments."""
    options = ["--steps", "12", "--evaluate-every", "3", "--batch-size", "16", "--digits", "2", "--train-size", "900"]

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


def test_online_training_shows_no_validation_or_test_pair_in_either_order():
    fields = {"digits": 2, "steps": 300, "batch_size": 64}  # 8,100 pairs: without the filter it would hit thousands
    recipe = AdderRecipe(data="online", swap="operands", **fields)
    shown = shown_pairs(recipe)
    assert len(shown) == 300 * 64 and len(np.unique(shown, axis=0)) > 2_000
    for split in ("validation", "test"):
        held_out = split_pairs(split, 2)
        assert not contains(held_out, shown, "operands").any()
        assert never_trained(held_out, recipe).all()


def test_batches_are_those_of_the_published_recipe():
    """Whatever changes here changes what every seed trains."""

    def digest(**fields):
        source, target = make_batches(AdderRecipe(seed=3, **fields))(200)
        return hashlib.sha256(source.numpy().tobytes() + target.numpy().tobytes()).hexdigest()[:16]

    assert digest() == "951af163a9276dc5"
    assert digest(data="online") == "abafe7d06eb4075c"
    assert digest(batch_size=64, swap="operands", nines=0.0) == "332b01fa7151156e"
    assert digest(batch_size=64, swap="operands", data="online") == "5b70166a0e807478"


def test_test_pairs_never_trained(monkeypatch):
    monkeypatch.undo()  # the whole validation split
    test = split_pairs("test")
    assert never_trained(test, AdderRecipe()).sum() == 2_000 - 158
    assert never_trained(test, AdderRecipe(swap="operands")).sum() == 2_000 - 49
    assert never_trained(test, AdderRecipe(swap="none")).sum() == 2_000 - 25
    assert len(unseen_pairs("test")) == 2_000 - 158 and len(unseen_pairs("validation")) == 2_000 - 166


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


def test_the_recipe_of_weights_stands_in_their_file(tmp_path):
    """So what these weights were trained on can be left out, whatever it was."""
    recipe = AdderRecipe(**TINY)
    train_adder(recipe, tmp_path, progress=False)
    assert recipe_of(tmp_path / "model.safetensors") == recipe != AdderRecipe()
    save_tensors(tmp_path / "bare.safetensors", {"a": torch.ones(2)}, {})
    assert recipe_of(tmp_path / "bare.safetensors") == AdderRecipe()
    save_tensors(tmp_path / "old.safetensors", {"a": torch.ones(2)}, {"recipe": {"average": 0.9}})
    with pytest.raises(UserError, match=r"old.safetensors is of another version: its header has the recipe"):
        recipe_of(tmp_path / "old.safetensors")


def test_help_says_what_other_digits_reach(monkeypatch, capsys):
    rows = published.table("digits").set_index("digits")
    assert rows.index.tolist() == [2, 4, 5, 6]
    monkeypatch.setattr(sys, "argv", ["train", "--help"])
    with pytest.raises(SystemExit):
        train.main()
    said = " ".join(capsys.readouterr().out.split())
    for digits, row in rows.iterrows():
        assert (
            f"{digits} digits {row['accuracy on unseen test pairs']:.1%} ({row['train_size']:,} training pairs)" in said
        )
