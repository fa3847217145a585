"""The homework's own recipe, for both problems: post-norm, dropout, Adam, epochs. Only the flawed models use it."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from problem1.shared.progress import progress_bar
from problem1.shared.settings import quick
from problem1.shared.storage import Model, load_into, load_tensors, save_tensors
from problem1.shared.training import Recipe, check_recipe, one_thread, steps_per_epoch

DROPOUT = 0.1
SEEDS = range(3)  # fixed before anything was trained
TRAIN_SIZE, BATCH_SIZE = 10_000, 64  # in both problems


class PostNorm(nn.Module):
    """Put before a Block of either problem: norm(x + attention(x)), then norm(x + feed_forward(x)), with dropout."""

    norm: nn.LayerNorm
    feed_forward: nn.Sequential | None

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, DROPOUT, self.training)

    def finish(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        if self.feed_forward is None:
            return x
        norm, *layers = self.feed_forward
        return norm(x + self.drop(nn.Sequential(*layers)(x)))


def homework_fields(epochs: int, **more: Any) -> dict[str, Any]:
    """Fields of a recipe that trains like the homework: epochs instead of steps, no warm-up, no decay, no average."""
    per_epoch = steps_per_epoch(TRAIN_SIZE, BATCH_SIZE)
    plain = {"weight_decay": 0.0, "ema_decay": 0.0, "warmup": 0.0}
    return {"homework": True, "steps": quick(epochs, 1) * per_epoch, "evaluate_every": per_epoch, **plain, **more}


def recipe_rows(recipe_class: type[Recipe], variants: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One configuration for each variant and seed, with every field of its recipe."""
    return [
        {"variant": name, **asdict(recipe_class(seed=seed, **fields))}
        for name, fields in variants.items()
        for seed in SEEDS
    ]


def train_as_homework(
    model: Model,
    recipe: Recipe,
    batch: Callable[[int], Any],
    loss: Callable[[Model, Any], Tensor],
    validate: Callable[[Model], dict[str, float]],
    folder: Path,
    progress: bool = True,
    plateau: Mapping[str, Any] | None = None,
    until: float = math.inf,
) -> Model:
    """Adam at the starter code's rate, lowered when the validation loss stands still (PyTorch's defaults, or
    `plateau`), and the weights of the highest validation accuracy. The training ends early when that is `until`. A
    finished run is loaded; an interrupted one begins again. The header of its file has the recipe, every validation,
    that of what was kept, and the CPU seconds."""
    file = folder / "model.safetensors"
    if not file.exists():
        optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
        lowering = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **(plateau or {}))
        warmup = round(recipe.warmup * recipe.steps)
        best, kept, rows, started = {"accuracy": -1.0}, {}, [], time.process_time()
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            for step in progress_bar(range(recipe.steps), desc="homework", show=progress):
                if step < warmup:
                    optimizer.param_groups[0]["lr"] = recipe.learning_rate * (step + 1) / warmup
                model.train()
                optimizer.zero_grad()
                loss(model, batch(step)).backward()
                optimizer.step()
                if (step + 1) % recipe.evaluate_every == 0 or step + 1 == recipe.steps:
                    with torch.inference_mode():
                        row = validate(model.eval())
                    rows.append({"step": step + 1, **row})
                    lowering.step(row["loss"])
                    if row["accuracy"] > best["accuracy"]:
                        best = rows[-1]
                        kept = {name: p.clone() for name, p in model.named_parameters()}
                    if row["accuracy"] >= until:
                        break
        spent = round(time.process_time() - started, 2)
        save_tensors(file, kept, {"recipe": asdict(recipe), "best": best, "rows": rows, "cpu seconds": spent})
    tensors, about = load_tensors(file)
    check_recipe(about["recipe"], recipe, folder)
    return load_into(model, tensors, file).eval()
