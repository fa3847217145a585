"""The yardsticks of the bench are what they are said to be."""

import torch

from problem1 import bench
from problem1.dataset import encode_pairs, shift_right, split_pairs
from problem1.model import Adder


def test_the_yardstick_has_the_shape_of_the_adder():
    models = Adder(), bench.TorchAdder(norm_first=True)
    ours, theirs = (sum(p.numel() for p in model.parameters()) for model in models)
    assert ours == theirs
    source, target = encode_pairs(split_pairs("test")[:5])
    assert bench.TorchAdder(dropout=0.1)(source, shift_right(target)).shape == (5, 4, 10)


def test_the_homework_run_is_50_epochs_of_157_batches():
    assert bench.HOMEWORK_STEPS == 7_850


def test_a_bare_run_leaves_nothing_on_disk_and_says_the_same_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bench.bare_run(seed=1, steps=2) == bench.bare_run(seed=1, steps=2) != bench.bare_run(seed=2, steps=2)
    assert not list(tmp_path.iterdir())


def test_operations_of_a_step_are_counted():
    """A training step multiplies each weight at least once forward and twice backward, for 32 sums of 4 tokens."""
    torch.manual_seed(0)
    weights = sum(p.numel() for p in Adder().blocks.parameters())
    assert bench.step_operations() > 2 * 3 * 32 * 4 * weights
