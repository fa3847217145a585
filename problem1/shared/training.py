"""One training loop for both problems: it can be killed at any moment and goes on to the very same weights.

Everything random in step t is a function of (seed, t): the batch, and whatever the model draws. So a checkpoint needs
no generator states, and a resumed run equals an uninterrupted one bit for bit.
"""

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from problem1.shared.errors import UserError
from problem1.shared.progress import progress_bar
from problem1.shared.storage import (
    Model,
    load_into,
    load_tensors,
    one_process_at_a_time,
    save_figure,
    save_tensors,
    write_json,
)

MOST_STEPS = 10_000_000
RENAMED = {"fresh": "online", "stream": "online", "worst": "min"}  # values of options that had another name


Log = dict[str, Any]  # training_log.json: recipe, finished, best step, cpu seconds, rows (one for each validation)


# --- the recipe ------------------------------------------------------------------------------------------------------


def option(
    default: Any,
    text: str,
    choices: Sequence[str] | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Any:
    """A field of a recipe: its default, the words that its command-line option shows, and what it may be."""
    return field(default=default, metadata={"help": text, "choices": choices, "low": low, "high": high})


@dataclass(frozen=True)
class Recipe:
    """What every training of both problems needs to know; each problem adds its own fields."""

    seed: int = option(0, "of weights and batches", low=0, high=2**32 - 1)
    steps: int = option(4_000, "optimizer steps", low=1, high=MOST_STEPS)
    batch_size: int = option(64, "items in a batch", low=1, high=100_000)
    learning_rate: float = option(1e-3, "at its highest, after the warm-up", low=1e-9, high=10)
    weight_decay: float = option(1.0, "on matrices only", low=0, high=100)
    ema_decay: float = option(
        0.998, "of the weight average that is evaluated and kept; 0 for none", low=0, high=0.99999
    )
    warmup: float = option(0.1, "share of the steps in which the learning rate rises", low=0, high=0.99)
    clip: float = option(1.0, "largest norm of the gradient", low=1e-6, high=1e6)
    evaluate_every: int = option(200, "steps between validations", low=1, high=MOST_STEPS)

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            check_field(entry.name, value, entry.type, **entry.metadata)
            if entry.type is float:  # 1 and 1.0, or 0 and -0, are one recipe and so have one key
                self.change(**{entry.name: float(value) + 0.0})

    def change(self, **values: object) -> None:
        """A recipe is frozen: nobody but its own making changes it."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        """Six hex digits of a hash, for the name of a run's folder: two recipes share them by rare chance only."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:6]


def check_field(
    name: str,
    value: Any,
    wanted: Any,
    choices: Sequence[str] | None = None,
    low: float | None = None,
    high: float | None = None,
    **_: Any,
) -> None:
    """Refuse a value of the wrong type, outside its range or not among its choices."""
    allowed = (int, float) if wanted is float else wanted
    if not isinstance(value, allowed) or (isinstance(value, bool) and wanted is not bool):
        raise UserError(f"{name} is {value!r}; it must be of type {wanted.__name__}.")
    if choices is not None and value not in choices:
        new = RENAMED.get(str(value))
        hint = f"it is now called {new!r}" if new in choices else f"choose from {', '.join(choices)}"
        raise UserError(f"{name} is {value!r}; {hint}.")
    if low is not None and high is not None and not low <= value <= high:  # nan is in no range
        raise UserError(f"{name} is {value}; it must be between {low} and {high}.")


def check_recipe(found: dict[str, Any], recipe: Recipe, folder: Path) -> None:
    """Refuse to take the run in a folder for one of another recipe."""
    wanted = asdict(recipe)
    for name in sorted(wanted.keys() | found.keys()):
        if found.get(name) != wanted.get(name):
            raise UserError(
                f"{folder} holds a run with {name}={found.get(name)}, not {wanted.get(name)}: choose another folder, "
                "or retrain with overwrite=True (--overwrite)."
            )


def steps_per_epoch(items: int, batch_size: int) -> int:
    """Batches in which every item comes once, the last of them perhaps not full."""
    return math.ceil(items / batch_size)


def schedule(step: int, recipe: Recipe) -> float:
    """Learning rate of a step: a linear warm-up, then half a cosine down to zero."""
    warmup = max(1, round(recipe.warmup * recipe.steps))
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(1, recipe.steps - warmup)
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


# --- the loop --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Small models train fastest on one thread, and only one thread count gives the same numbers twice."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fit(
    model: Model,
    recipe: Recipe,
    batch: Callable[[int], Any],
    loss: Callable[[Model, Any], Tensor],
    validate: Callable[[Model], dict[str, float]],
    folder: str | Path,
    overwrite: bool = False,
    progress: bool = True,
) -> Log:
    """Train `model` in place and leave it with the weights of the lowest validation loss. Returns the log.

    batch(step)         -> anything that `loss` understands
    loss(model, batch)  -> a scalar tensor
    validate(model)     -> {"loss": ..., "free-running accuracy": ..., ...}

    `folder` gets model.safetensors, training_log.json and training_curves.png. A finished run of the same recipe is
    loaded; an unfinished one goes on; `overwrite` starts again.
    """
    folder = Path(folder)
    with one_process_at_a_time(folder / ".lock"):  # whoever comes second loads what the first has trained
        run = TrainingRun(model, recipe, folder, overwrite)
        if not run.finished:
            with one_thread(), torch.random.fork_rng(devices=[]):
                run.train(batch, loss, validate, progress)
        load_into(model, load_tensors(run.model_file)[0], run.model_file).eval()
    return run.log


class TrainingRun:
    """The state of a training, in memory and in its folder."""

    def __init__(self, model: nn.Module, recipe: Recipe, folder: Path, overwrite: bool) -> None:
        self.model, self.recipe = model, recipe
        self.model_file, self.checkpoint_file = folder / "model.safetensors", folder / "checkpoint.safetensors"
        self.log_file, self.curves_file = folder / "training_log.json", folder / "training_curves.png"
        self.ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(recipe.ema_decay))
        matrices = [p for p in model.parameters() if p.ndim >= 2]
        others = [p for p in model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}],
            betas=(0.9, 0.98),
            fused=True,
        )
        self.log: Log = {"recipe": asdict(recipe), "finished": False, "best step": None}
        self.log |= {"cpu seconds": 0.0, "rows": []}
        if not overwrite and self.log_file.exists():
            self.check_log(json.loads(self.log_file.read_text()))
        if not overwrite and not self.finished and self.checkpoint_file.exists():
            self.load_checkpoint()

    @property
    def finished(self) -> bool:
        return self.log["finished"]

    @property
    def step(self) -> int:
        return self.log["rows"][-1]["step"] if self.log["rows"] else 0

    def check_log(self, log: Log) -> None:
        check_recipe(log["recipe"], self.recipe, self.log_file.parent)
        if log["finished"]:
            self.log = log
            self.checkpoint_file.unlink(missing_ok=True)  # of a process that was killed just before it removed it

    # --- one file holds a consistent state: weights, their average, the optimizer, the log

    def tensors(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {f"model/{name}": p for name, p in self.model.named_parameters()}
        tensors |= {f"ema/{name}": p for name, p in self.ema.module.named_parameters()}
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                name = self.parameter_names[p]
                tensors |= {f"optimizer/{name}/{key}": value for key, value in self.optimizer.state[p].items()}
        return tensors

    @property
    def parameter_names(self) -> dict[nn.Parameter, str]:
        return {p: name for name, p in self.model.named_parameters()}

    def save_checkpoint(self) -> None:
        save_tensors(self.checkpoint_file, self.tensors(), self.log)

    def load_checkpoint(self) -> None:
        tensors, log = load_tensors(self.checkpoint_file)
        self.check_log(log)
        self.log = log

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

        load_into(self.model, part("model/"), self.checkpoint_file)
        load_into(self.ema.module, part("ema/"), self.checkpoint_file)
        self.ema.n_averaged.fill_(self.step)
        for p, name in self.parameter_names.items():
            self.optimizer.state[p] = part(f"optimizer/{name}/")

    # --- training

    def train(
        self,
        batch: Callable[[int], Any],
        loss: Callable[[Any, Any], Tensor],
        validate: Callable[[Any], dict[str, float]],
        progress: bool,
    ) -> None:
        recipe, started, spent = self.recipe, time.process_time(), self.log["cpu seconds"]
        bar = progress_bar(total=recipe.steps, initial=self.step, desc="training", unit="step", show=progress)
        losses: list[Tensor] = []
        try:
            for step in range(self.step, recipe.steps):
                losses.append(self.train_one_step(step, batch(step), loss))
                bar.update()
                if (step + 1) % recipe.evaluate_every == 0 or step + 1 == recipe.steps:
                    row = {"step": step + 1, "training loss": torch.stack(losses).mean().item()}
                    row |= {f"validation {key}": value for key, value in self.evaluate(validate).items()}
                    losses = []
                    row["cpu seconds"] = self.log["cpu seconds"] = round(spent + time.process_time() - started, 2)
                    self.keep(row)
                    bar.set_postfix_str(progress_text(row))
        except KeyboardInterrupt:
            bar.close()
            kept = f"the checkpoint of step {self.step} is kept and the same call goes on from it"
            nothing = "nothing is kept yet and the same call begins again"
            raise KeyboardInterrupt(f"stopped at step {step}; {kept if self.step else nothing}") from None
        bar.close()
        self.finish()

    def train_one_step(self, step: int, batch: Any, loss: Callable[[Any, Any], Tensor]) -> Tensor:
        torch.manual_seed(self.recipe.seed * 1_000_003 + step)
        for group in self.optimizer.param_groups:
            group["lr"] = schedule(step, self.recipe)
        self.model.train()
        self.optimizer.zero_grad()
        value = loss(self.model, batch)
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.ema.update_parameters(self.model)
        return value.detach()

    def evaluate(self, validate: Callable[[Any], dict[str, float]]) -> dict[str, float]:
        self.ema.module.eval()
        with torch.inference_mode():
            return validate(self.ema.module)

    def keep(self, row: dict[str, float]) -> None:
        """Save the weights if they are the best so far, then the state to go on from: a kill between is harmless."""
        if not math.isfinite(row["validation loss"]):
            rate = self.recipe.learning_rate
            raise UserError(f"the training has diverged at step {row['step']}; try a learning_rate below {rate}.")
        if not self.log["rows"]:  # an earlier run that this one replaces was whole until now
            self.log_file.unlink(missing_ok=True)
            self.checkpoint_file.unlink(missing_ok=True)
        best = min((r["validation loss"] for r in self.log["rows"]), default=math.inf)
        if row["validation loss"] < best:
            self.log["best step"] = row["step"]
            about = {"shape": getattr(self.model, "shape", None), "recipe": asdict(self.recipe), "step": row["step"]}
            save_tensors(self.model_file, dict(self.ema.module.named_parameters()), about)
        self.log["rows"].append(row)
        self.save_checkpoint()

    def finish(self) -> None:
        self.log["finished"] = True
        save_figure(plot_log(self.log), self.curves_file)
        write_json(self.log_file, self.log)
        self.checkpoint_file.unlink()


def progress_text(row: dict[str, float]) -> str:
    shown = {"loss": row["validation loss"], "free-running": row.get("validation free-running accuracy")}
    return ", ".join(f"{name} {value:.4f}" for name, value in shown.items() if value is not None)


def plot_log(log: Log, claim: str = "") -> Figure:
    """Loss on the left, accuracies on the right, against the step; `claim` is the title."""
    figure = Figure(figsize=(10.4, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = log["rows"]
    steps = [row["step"] for row in rows]
    for name in ("training loss", "validation loss"):
        left.plot(steps, [row[name] for row in rows], label=name)
    for name in rows[0]:
        if name.endswith("accuracy"):
            right.plot(steps, [row[name] for row in rows], label=name)
    left.set(yscale="log")
    right.set(ylim=(-0.02, 1.02))
    for axes, quantity in ((left, "cross-entropy (nats)"), (right, "accuracy")):
        axes.set_xlabel("step", fontsize=12)
        axes.set_ylabel(quantity, fontsize=12)
        axes.tick_params(labelsize=12)
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize=12)
    figure.suptitle(claim, fontsize=14)
    return figure
