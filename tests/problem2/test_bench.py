"""What is counted and compared by the benchmark of problem 2."""

import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from problem2 import bench, published
from problem2.model import SHAPES, Classifier


@pytest.mark.parametrize("window", [None, 1])
def test_counted_operations_are_those_of_the_matrix_products(window):
    """Doubling the length adds what the formula says; the last layers and what is counted once cancel."""
    model = Classifier("none", **SHAPES["small"], window=window).eval()

    def counted(length):
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            model(torch.zeros(1, length, dtype=torch.int64), return_attention=True)  # the fused kernel is not counted
        return counter.get_total_flops()

    expected = bench.operations(64, window, **SHAPES["small"]) - bench.operations(32, window, **SHAPES["small"])
    assert counted(64) - counted(32) == pytest.approx(expected, rel=0.01)


def test_growth_is_relative_to_the_shortest():
    table = pd.DataFrame(
        {"attention": ["x", "x"], "length": [16, 32], "ms per sequence": [2.0, 5.0], "operations": [10, 40]}
    )
    assert bench.growth(table).loc[("x", 32)].tolist() == [2.5, 4]


def test_a_quick_look_is_not_published(monkeypatch):
    before = published.table_file(published.COST).read_bytes()
    monkeypatch.setattr(bench, "QUICK", True)
    monkeypatch.setattr(bench, "measure", None)  # it is told before anything is measured
    monkeypatch.setattr("sys.argv", ["bench", "--publish"])
    with pytest.raises(SystemExit, match=r"problem2.bench: a quick look is not published; run without QUICK\.$"):
        bench.main()
    assert published.table_file(published.COST).read_bytes() == before
