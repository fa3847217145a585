"""The mistakes of the published reports, made on purpose: `python -m problem1.flawed` trains them, three seeds each.

    no BOS      the decoder reads target[:-1] and learns target[1:]: nobody ever asks it for the first digit
    0 is PAD    digit 0 has the id of PAD, so the loss skips it, and the accuracy does too
    homework    post-norm, dropout and optimizer as the homework's starter code has them

Only the notebook on the reports needs this module. With `--publish` the tables go to problem1/published.
"""

import argparse
from dataclasses import asdict, dataclass

import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from tqdm.auto import tqdm

from problem1.ablation import TOLERANCE
from problem1.commands import one_sentence
from problem1.dataset import SPLIT_SIZES, encode_pairs, split_pairs
from problem1.grid import run_grid
from problem1.loop import one_thread, option, train
from problem1.model import Adder, Block
from problem1.settings import quick
from problem1.storage import atomic_path, load_into, load_tensors, save_tensors
from problem1.train import PUBLISHED, RESULTS, AdderRecipe, make_batches

SEEDS = range(3)  # fixed before anything was trained
DROPOUT = 0.1  # of the homework
IGNORED = 0  # the digit that is taken for PAD


@dataclass(frozen=True)
class FlawedRecipe(AdderRecipe):
    """The published recipe, shorter: three digits are easier than four. `homework` changes model and optimizer."""

    zero_is_pad: bool = option(False, "digit 0 has the id of PAD: the loss skips it")
    homework: bool = option(False, "post-norm, dropout and optimizer of the homework's starter code")
    steps: int = option(quick(2_000, 200), "optimizer steps")
    average: float = option(0.995, "decay of the weight average that is evaluated and kept")

    @property
    def name(self):
        return f"flawed-seed{self.seed}-{self.key}"


def homework(epochs, **fields):
    """Fields of a recipe that trains like the homework: epochs instead of steps, no warm-up, no decay, no average."""
    plain = {"weight_decay": 0.0, "average": 0.0, "warmup": 0.0}
    per_epoch = SPLIT_SIZES["train"] // 64
    return {"homework": True, "steps": quick(epochs, 1) * per_epoch, "evaluate_every": per_epoch, **plain, **fields}


HOMEWORK = homework(epochs=50, swap_operands=False)
VARIANTS = {
    "no BOS": {},
    "no BOS, 0 is PAD": {"zero_is_pad": True},
    "homework, no BOS": HOMEWORK,
    "homework, no BOS, 0 is PAD": {**HOMEWORK, "zero_is_pad": True},
}


# --- post-norm, as in the homework -----------------------------------------------------------------------------------


class PostNorm:
    """Put before a Block of either problem: norm(x + attention(x)), then norm(x + feed_forward(x)), with dropout."""

    def drop(self, x):
        return F.dropout(x, DROPOUT, self.training)

    def finish(self, x):
        x = self.norm(x)
        if self.feed_forward is None:
            return x
        norm, *layers = self.feed_forward
        return norm(x + self.drop(nn.Sequential(*layers)(x)))


class PostNormBlock(PostNorm, Block):
    def forward(self, x, memory=None, gate=None, patch=None, look=False):
        reads = memory if self.kind == "cross" else None
        found, seen = self.attention(x, reads, self.kind == "self", gate, patch, look)
        return self.finish(x + self.drop(found)), seen


def post_norm_adder():
    model = Adder()
    shape = {name: model.shape[name] for name in ("width", "heads", "hidden")}
    model.blocks = nn.ModuleList(PostNormBlock(block.kind, block.layer, **shape) for block in model.blocks)
    model.source_norm, model.answer_norm = nn.Identity(), nn.Identity()  # each block ends with a norm
    return model


def train_as_homework(model, recipe, batch, loss, validate, folder, progress=True):
    """Adam at the starter code's rate, lowered when the validation loss stands still (PyTorch's defaults), and the
    weights of the highest validation accuracy. A finished run is loaded; an interrupted one begins again."""
    file = folder / "model.safetensors"
    if not file.exists():
        optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        best, kept = -1.0, None
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            for step in tqdm(range(recipe.steps), desc="homework", disable=not progress):
                model.train()
                optimizer.zero_grad()
                loss(model, batch(step)).backward()
                optimizer.step()
                if (step + 1) % recipe.evaluate_every == 0:
                    with torch.inference_mode():
                        row = validate(model.eval())
                    plateau.step(row["loss"])
                    if row["accuracy"] > best:
                        best, kept = row["accuracy"], {name: p.clone() for name, p in model.named_parameters()}
        save_tensors(file, kept, {"recipe": asdict(recipe)})
    return load_into(model, load_tensors(file)[0], file).eval()


# --- training without BOS --------------------------------------------------------------------------------------------


def predict_rest(model, source, target):
    """Logits and targets of every digit but the first, which the decoder is handed."""
    return model(source, target[:, :-1]), target[:, 1:]


def rest_loss(zero_is_pad):
    ignored = IGNORED if zero_is_pad else -100  # PyTorch's word for none

    def loss(model, batch):
        logits, rest = predict_rest(model, *batch)
        return F.cross_entropy(logits.flatten(0, 1), rest.flatten(), ignore_index=ignored)

    return loss


def teacher_forced(logits, rest, skip=None):
    """Share of digits, and of answers, that are right when all before are the right ones; `skip` is not counted."""
    right, counts = logits.argmax(-1) == rest, rest != (-1 if skip is None else skip)
    return {
        "digits": right[counts].double().mean().item(),
        "answers": (right | ~counts).all(1).double().mean().item(),
    }


def validate_rest(pairs, zero_is_pad):
    source, target = encode_pairs(pairs)

    def validate(model):
        logits, rest = predict_rest(model, source, target)
        return {
            "loss": rest_loss(zero_is_pad)(model, (source, target)).item(),
            "accuracy": teacher_forced(logits, rest, IGNORED if zero_is_pad else None)["digits"],
        }

    return validate


def train_flawed(recipe=None, folder=None, progress=True):
    """The trained model. A finished run of the same recipe is loaded."""
    recipe = recipe or FlawedRecipe()
    folder = folder or RESULTS / "runs" / recipe.name
    torch.manual_seed(recipe.seed)
    model = post_norm_adder() if recipe.homework else Adder()
    validate = validate_rest(split_pairs("validation"), recipe.zero_is_pad)
    parts = make_batches(recipe), rest_loss(recipe.zero_is_pad), validate
    if recipe.homework:
        return train_as_homework(model, recipe, *parts, folder, progress)
    train(model, recipe, *parts, folder, progress=progress)
    return model


# --- decoding without BOS --------------------------------------------------------------------------------------------


def most_common_start(target, batch):
    """(N,): for each answer the most common true first digit of its batch; of two equally common ones the smaller."""
    starts = [torch.full_like(part, part.bincount().argmax()) for part in target[:, 0].split(batch)]
    return torch.cat(starts)


def starts(target):
    """What the decoder can be started with when it cannot write the first digit: {name: (N,)}."""
    return {
        "0": torch.zeros_like(target[:, 0]),
        "most common of 64": most_common_start(target, 64),
        "most common of 32": most_common_start(target, 32),
        "the true one": target[:, 0],
    }


@torch.inference_mode()
def write_on(model, source, start, gates=None):
    """Greedy decoding from a given first digit (N,): the answers, that digit included."""
    memory, written = model.encode(source, gates), start[:, None]
    for _ in range(model.shape["digits"]):
        logits = model.decode(written, memory, gates)
        written = torch.cat([written, logits[:, -1:].argmax(-1)], dim=1)
    return written


@torch.inference_mode()
def rest_right(model, source, target, gates=None):
    """(N,): is every digit after the first written right when the first is the true one? One pass tells, because up to
    its first wrong digit greedy decoding reads what teacher forcing reads."""
    logits = model(source, target[:, :-1], gates)
    return (logits.argmax(-1) == target[:, 1:]).all(1)


def free_running(start, target, right):
    """Share of answers right when the decoder starts with `start` and the rest is `right` given the true start."""
    return ((start == target[:, 0]) & right).double().mean().item()


# --- what is asked of a flawed adder ---------------------------------------------------------------------------------


def where_heads_look(model, trace, writes):
    """One row per head: its mean attention to the +, to the + and its two neighbours, and, for cross heads, to the two
    digits of a column. Which column does a position of the decoder belong to: that of the digit it reads, or that of
    the digit it writes? `writes` names the latter (0 is the most significant column). 'most common pattern' is the
    share of items in which every query looks most at the same key as in most other items.
    """
    digits = model.shape["digits"]
    column = torch.tensor([*range(1, digits + 1), -1, *range(1, digits + 1)])  # of each source token; -1 is the +
    rows = []
    for block, sites_weights in zip(model.blocks, trace.weights, strict=True):
        for weights in sites_weights.unbind(1):  # B Q K
            _, counts = weights.argmax(-1).unique(dim=0, return_counts=True)
            row = {"most common pattern": counts.max().item() / len(weights)}
            if block.kind != "self":
                row["on the +"] = weights[..., digits].mean().item()
                row["on the + and its neighbours"] = weights[..., digits - 1 : digits + 2].sum(-1).mean().item()
            if block.kind == "cross":
                for name, columns in (("read", [w - 1 for w in writes]), ("written", writes)):
                    shares = [weights[:, q, column == c].sum(-1).mean().item() for q, c in enumerate(columns) if c > 0]
                    row[f"on the column of the digit {name}"] = sum(shares) / len(shares)
            rows.append({"head": model.head_names[len(rows)], **row})
    return pd.DataFrame(rows)


def train_and_score(variant, **fields):
    """One row: train a flawed adder, then every way to score it, and every head removed, on the test pairs."""
    recipe = FlawedRecipe(**fields)
    model = train_flawed(recipe, progress=False)
    source, target = encode_pairs(split_pairs("test"))
    with torch.inference_mode():
        trace, rest = model.trace(source, target[:, :-1]), target[:, 1:]
    begun, right = starts(target), rest_right(model, source, target)
    scores = {f"free-running from {name}": free_running(start, target, right) for name, start in begun.items()}
    for name, skip in (("", None), (", 0 skipped", IGNORED)):
        forced = teacher_forced(trace.logits, rest, skip)
        scores |= {f"teacher-forced {what}{name}": value for what, value in forced.items()}
    heads = where_heads_look(model, trace, writes=(1, 2, 3))
    without = [rest_right(model, source, target, model.gates(head)) for head in heads.index]
    for name in ("0", "most common of 64"):  # as reports A and D do, and report C
        heads[f"accuracy from {name}"] = [free_running(begun[name], target, right) for right in without]
    drops = scores["free-running from 0"] - heads["accuracy from 0"]
    prunable = heads.index[drops <= TOLERANCE + 1e-12]
    right = rest_right(model, source, target, model.gates(*prunable))
    return {
        **scores,
        "prunable alone": len(prunable),
        "without all of them": free_running(begun["0"], target, right),
        "heads": heads.to_dict("records"),
    }


def configurations(recipe_class, variants):
    """One for each variant and seed, with every field of its recipe."""
    return [
        {"variant": name, **asdict(recipe_class(seed=seed, **fields))}
        for name, fields in variants.items()
        for seed in SEEDS
    ]


def main():
    parser = argparse.ArgumentParser(prog="python -m problem1.flawed", description=__doc__.splitlines()[0])
    parser.add_argument("--publish", action="store_true", help="write to problem1/published what the notebook reads")
    folder = PUBLISHED if parser.parse_args().publish else RESULTS / "sweep"
    with one_sentence(parser.prog):
        table = run_grid(train_and_score, configurations(FlawedRecipe, VARIANTS), RESULTS / "grid")
    heads = [pd.DataFrame(row["heads"]).assign(variant=row["variant"], seed=row["seed"]) for _, row in table.iterrows()]
    for name, part in {"flawed": table.drop(columns="heads"), "flawed_heads": pd.concat(heads)}.items():
        with atomic_path(folder / f"{name}.csv") as temporary:
            part.to_csv(temporary, index=False, float_format="%.6g")
    print(table.filter(regex="variant|seed|free|teacher|prunable|without").T.to_string())
    print(f"tables in {folder}")


if __name__ == "__main__":
    main()
