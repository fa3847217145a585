"""One training loop for both problems: it can be killed at any moment and goes on to the very same weights.

Everything random in step t is a function of (seed, t): the batch, and whatever the model draws. So a checkpoint needs
no generator states, and a resumed run equals an uninterrupted one bit for bit.
"""

import contextlib
import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm.auto import tqdm

from problem1.storage import load_into, load_tensors, one_process_at_a_time, save_figure, save_tensors, write_json


def option(default, text, choices=None):
    """A field of a recipe, with the words that its command-line option shows."""
    return field(default=default, metadata={"help": text, "choices": choices})


@dataclass(frozen=True)
class Recipe:
    """What every training of both problems needs to know; each problem adds its own fields."""

    seed: int = option(0, "of weights and batches")
    steps: int = option(4_000, "optimizer steps")
    batch_size: int = option(64, "items in a batch")
    learning_rate: float = option(1e-3, "at its highest, after the warm-up")
    weight_decay: float = option(1.0, "on matrices only")
    average: float = option(0.998, "decay of the weight average that is evaluated and kept")
    warmup: float = option(0.1, "share of the steps in which the learning rate rises")
    clip: float = option(1.0, "largest norm of the gradient")
    evaluate_every: int = option(200, "steps between validations")

    def __post_init__(self):
        for name in ("steps", "batch_size", "evaluate_every", "learning_rate", "clip"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be greater than 0.")
        for name in ("average", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0 and less than 1.")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be 0 or more.")

    @property
    def key(self):
        """Six characters that differ between any two recipes: a run's folder has them in its name."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:6]


def schedule(step, recipe):
    """Learning rate of a step: a linear warm-up, then half a cosine down to zero."""
    warmup = max(1, round(recipe.warmup * recipe.steps))
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(1, recipe.steps - warmup)
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


@contextlib.contextmanager
def one_thread():
    """Small models train fastest on one thread, and only one thread count gives the same numbers twice."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(model, recipe, batch, loss, validate, folder, fresh=False, progress=True):
    """Train `model` in place and leave it with the weights of the lowest validation loss. Returns the log.

    batch(step)         -> anything that `loss` understands
    loss(model, batch)  -> a scalar tensor
    validate(model)     -> {"loss": ..., "free-running accuracy": ..., ...}

    `folder` gets model.safetensors, training_log.json and training_curves.png. A finished run of the same recipe is
    loaded; an unfinished one goes on; `fresh` starts again.
    """
    folder = Path(folder)
    with one_process_at_a_time(folder / ".lock"):  # whoever comes second loads what the first has trained
        run = TrainingRun(model, recipe, folder, fresh)
        if not run.finished:
            with one_thread(), torch.random.fork_rng(devices=[]):
                run.train(batch, loss, validate, progress)
        load_into(model, load_tensors(run.model_file)[0], run.model_file).eval()
    return run.log


class TrainingRun:
    """The state of a training, in memory and in its folder."""

    def __init__(self, model, recipe, folder, fresh):
        self.model, self.recipe = model, recipe
        self.model_file, self.checkpoint_file = folder / "model.safetensors", folder / "checkpoint.safetensors"
        self.log_file, self.curves_file = folder / "training_log.json", folder / "training_curves.png"
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(recipe.average))
        matrices = [p for p in model.parameters() if p.ndim >= 2]
        others = [p for p in model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}],
            betas=(0.9, 0.98),
            fused=True,
        )
        self.log = {"recipe": asdict(recipe), "finished": False, "best step": None, "cpu seconds": 0.0, "rows": []}
        if not fresh and self.log_file.exists():
            self.check_log(json.loads(self.log_file.read_text()))
        if not fresh and not self.finished and self.checkpoint_file.exists():
            self.load_checkpoint()

    @property
    def finished(self):
        return self.log["finished"]

    @property
    def step(self):
        return self.log["rows"][-1]["step"] if self.log["rows"] else 0

    def check_log(self, log):
        for name, value in asdict(self.recipe).items():
            if log["recipe"].get(name) != value:
                raise ValueError(
                    f"{self.log_file.parent} holds a run with {name}={log['recipe'].get(name)}, not {value}: choose "
                    "another folder, or retrain with fresh=True (--fresh)."
                )
        if log["finished"]:
            self.log = log

    # --- one file holds a consistent state: weights, their average, the optimizer, the log ---

    def tensors(self):
        tensors = {f"model/{name}": p for name, p in self.model.named_parameters()}
        tensors |= {f"average/{name}": p for name, p in self.average.module.named_parameters()}
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                name = self.parameter_names[p]
                tensors |= {f"optimizer/{name}/{key}": value for key, value in self.optimizer.state[p].items()}
        return tensors

    @property
    def parameter_names(self):
        return {p: name for name, p in self.model.named_parameters()}

    def save_checkpoint(self):
        save_tensors(self.checkpoint_file, self.tensors(), self.log)

    def load_checkpoint(self):
        tensors, log = load_tensors(self.checkpoint_file)
        self.check_log(log)
        self.log = log

        def part(prefix):
            return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

        load_into(self.model, part("model/"), self.checkpoint_file)
        load_into(self.average.module, part("average/"), self.checkpoint_file)
        self.average.n_averaged.fill_(self.step)
        for p, name in self.parameter_names.items():
            self.optimizer.state[p] = part(f"optimizer/{name}/")

    # --- training ---

    def train(self, batch, loss, validate, progress):
        recipe, started, spent = self.recipe, time.process_time(), self.log["cpu seconds"]
        bar = tqdm(total=recipe.steps, initial=self.step, desc="training", unit="step", disable=not progress)
        losses = []
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
            raise KeyboardInterrupt(
                f"stopped at step {step}; the checkpoint of step {self.step} is kept and the same call goes on from it"
            ) from None
        bar.close()
        self.finish()

    def train_one_step(self, step, batch, loss):
        torch.manual_seed(self.recipe.seed * 1_000_003 + step)
        for group in self.optimizer.param_groups:
            group["lr"] = schedule(step, self.recipe)
        self.model.train()
        self.optimizer.zero_grad()
        value = loss(self.model, batch)
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.average.update_parameters(self.model)
        return value.detach()

    def evaluate(self, validate):
        self.average.module.eval()
        with torch.inference_mode():
            return validate(self.average.module)

    def keep(self, row):
        """Save the weights if they are the best so far, then the state to go on from: a kill between is harmless."""
        if not math.isfinite(row["validation loss"]):
            rate = self.recipe.learning_rate
            raise ValueError(f"the training has diverged at step {row['step']}; try a learning_rate below {rate}.")
        self.log_file.unlink(missing_ok=True)  # of an earlier run that `fresh` replaces: until now it was whole
        best = min((r["validation loss"] for r in self.log["rows"]), default=math.inf)
        if row["validation loss"] < best:
            self.log["best step"] = row["step"]
            about = {"shape": getattr(self.model, "shape", None), "recipe": asdict(self.recipe), "step": row["step"]}
            save_tensors(self.model_file, dict(self.average.module.named_parameters()), about)
        self.log["rows"].append(row)
        self.save_checkpoint()

    def finish(self):
        self.log["finished"] = True
        save_figure(plot_log(self.log), self.curves_file)
        write_json(self.log_file, self.log)
        self.checkpoint_file.unlink()


def progress_text(row):
    shown = {"loss": row["validation loss"], "free-running": row.get("validation free-running accuracy")}
    return ", ".join(f"{name} {value:.4f}" for name, value in shown.items() if value is not None)


def plot_log(log):
    """Loss on the left, accuracies on the right, against the step."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = log["rows"]
    steps = [row["step"] for row in rows]
    for name in ("training loss", "validation loss"):
        left.plot(steps, [row[name] for row in rows], label=name)
    for name in rows[0]:
        if name.endswith("accuracy"):
            right.plot(steps, [row[name] for row in rows], label=name)
    left.set(xlabel="step", ylabel="cross-entropy (nats)", yscale="log", title="Loss")
    right.set(xlabel="step", ylabel="accuracy", ylim=(-0.02, 1.02), title="Accuracy")
    left.legend()
    if right.lines:
        right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return figure
