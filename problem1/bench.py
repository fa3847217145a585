"""What things cost, as ratios measured in one interleaved run on CPU time: `python -m problem1.bench`."""

import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from problem1.ablation import ablate_heads, mean_heads
from problem1.dataset import SPLIT_SIZES, TOKENS, encode_pairs, every_pair, pair_count
from problem1.every_pair import check_batch
from problem1.model import Adder
from problem1.published import published_adder
from problem1.shared.commands import Parser
from problem1.shared.grid import run_grid
from problem1.shared.progress import progress_bar
from problem1.shared.timing import interleaved
from problem1.shared.training import TrainingRun, one_thread, steps_per_epoch
from problem1.train import AdderRecipe, adder_loss, make_batches, unseen_pairs

HOMEWORK_BATCH = 64
HOMEWORK_STEPS = 50 * steps_per_epoch(SPLIT_SIZES["train"], HOMEWORK_BATCH)  # the usual homework run: 50 epochs
MATRIX = 512  # the side of two square matrices whose product is this machine's measure of speed
GRID_RUNS, GRID_STEPS = 8, 600  # each as long as the shortest run of the sweeps, a small classifier: about 15 CPU s


class TorchAdder(nn.Module):
    """The same shape built from torch.nn.Transformer: the yardstick."""

    def __init__(self, **options: Any):
        super().__init__()
        self.embedding, self.readout = nn.Embedding(len(TOKENS), 128), nn.Linear(128, 10)
        self.transformer = nn.Transformer(128, 4, 2, 2, 512, batch_first=True, **options)
        self.positions = Adder().positions
        self.mask = nn.Transformer.generate_square_subsequent_mask(4)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.positions.embed(self.embedding(tokens) * 128**0.5)

    def forward(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        x = self.transformer(self.embed(source), self.embed(decoder_input), tgt_mask=self.mask, tgt_is_causal=True)
        return self.readout(x)


def training_steps(folder: str | Path, rounds: int = 101) -> dict[str, float]:
    """CPU seconds of a training step of each model, and of one product of two matrices. The homework's batches are its
    own; our model and its twin have those of the published recipe."""
    recipe, homework = AdderRecipe(), AdderRecipe(batch_size=HOMEWORK_BATCH)
    models = {
        "this adder": Adder(),
        "nn.Transformer, pre-norm, no dropout": TorchAdder(norm_first=True, dropout=0.0),
        "nn.Transformer, post-norm, dropout 0.1": TorchAdder(dropout=0.1),
    }
    batches = [make_batches(each)(0) for each in (recipe, recipe, homework)]
    runs = {
        name: TrainingRun(model, recipe, Path(folder) / str(i), True) for i, (name, model) in enumerate(models.items())
    }
    tasks = {
        name: partial(run.train_one_step, 0, batch, adder_loss)
        for (name, run), batch in zip(runs.items(), batches, strict=True)
    }
    matrix = torch.randn(MATRIX, MATRIX)
    with one_thread():
        return interleaved({**tasks, "matrix product": lambda: matrix @ matrix}, rounds)


def step_operations() -> int:
    """Multiplications and additions of the matrix products of one training step, counted while it runs."""
    recipe = AdderRecipe()
    with FlopCounterMode(display=False) as counter:
        adder_loss(Adder(), make_batches(recipe)(0)).backward()
    return counter.get_total_flops()


def ablations(rounds: int = 3) -> dict[str, float]:
    """All 24 heads by zero ablation and by mean ablation, our way and by a plain loop."""
    model, (pairs, reference) = published_adder()[0], (unseen_pairs("test")[:1_000], unseen_pairs("validation")[:1_000])
    source, target = encode_pairs(pairs)

    def plain_loop() -> None:
        for patches in (None, mean_heads(model, reference)):
            for head in range(len(model.head_names)):
                (model.generate(source, model.gates(head), patches) == target).all(1).double().mean()

    return interleaved(
        {"ablate_heads": lambda: ablate_heads(model, pairs, reference), "plain loop": plain_loop}, rounds
    )


def bare_run(seed: int, steps: int) -> dict[str, float]:
    """For run_grid: some training steps and nothing on disk."""
    recipe = AdderRecipe(seed=seed)
    torch.manual_seed(seed)
    run, batches = TrainingRun(Adder(), recipe, Path("nowhere"), True), make_batches(recipe)
    with one_thread():
        return {"loss": [run.train_one_step(step, batches(step), adder_loss) for step in range(steps)][-1].item()}


def cpu_seconds() -> float:
    """Of this process and of those children that have ended."""
    return sum(os.times()[:4])


def grids(folder: str | Path, runs: int = GRID_RUNS, steps: int = GRID_STEPS) -> pd.DataFrame:
    """What some runs cost by run_grid, in one process and in two: all of it, and what the runs themselves took."""
    configurations, measured = [{"seed": seed, "steps": steps} for seed in range(runs)], []
    for workers in progress_bar((1, 2), desc="run_grid", leave=False):
        rows = Path(folder) / f"{workers} workers"
        before, started = cpu_seconds(), time.monotonic()
        run_grid(bare_run, configurations, rows, progress=False, workers=workers)
        cpu, seconds = cpu_seconds() - before, time.monotonic() - started
        bare = sum(json.loads(file.read_text())["cpu seconds"] for file in rows.glob("*.json"))
        measured.append({"workers": workers, "cpu": cpu, "bare": bare, "seconds": seconds})
    return pd.DataFrame(measured)


def main() -> None:
    Parser(prog="python -m problem1.bench", description=(__doc__ or "").splitlines()[0]).parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, one_thread():
        ours, same, homework, product = training_steps(folder).values()
        smart, plain = ablations().values()
        model, pairs = published_adder()[0], next(every_pair(3, 9_000))
        check = interleaved({"every pair": lambda: check_batch(model, pairs)}, 4)["every pair"]
        grid = grids(folder)
    steps, fastest = AdderRecipe().steps, step_operations() / (2 * MATRIX**3) * product
    rows = [
        ("a training step", ours, "of nn.Transformer, pre-norm, no dropout", same),
        (
            f"{steps:,} steps",
            ours * steps,
            f"{HOMEWORK_STEPS:,} of nn.Transformer, dropout 0.1",
            homework * HOMEWORK_STEPS,
        ),
        ("its operations at full speed", fastest, "a training step", ours),
        ("48 ablations of 1,000 sums", smart, "a plain loop of greedy decodings", plain),
        *(
            (f"run_grid, {GRID_RUNS} runs, workers: {row.workers}", row.cpu, "these runs without it", row.bare)
            for row in grid.itertuples()
        ),
    ]
    table = pd.DataFrame(rows, columns=["what", "CPU s", "against", "CPU s of that"])
    table["ratio"] = table["CPU s"] / table["CPU s of that"]
    print(table.round(3).to_string(index=False))
    print(f"full speed: {2 * MATRIX**3 / product / 1e9:.0f} billion operations a CPU second, by matrix products")
    rate = len(pairs) / check
    print(f"every pair: {rate:,.0f} sums a CPU second, so {pair_count() / rate:.0f} CPU s for all {pair_count():,}")
    slow, fast = grid["seconds"]
    print(f"run_grid: two workers take {fast / slow:.2f} of the time that one takes ({fast:.0f} s, {slow:.0f} s)")


if __name__ == "__main__":
    main()
