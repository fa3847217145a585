"""The trainings behind the claims: `python -m problem1.sweep` trains all seeds, checks every pair, studies every head.

With `--publish` the tables and an adder go to problem1/published, all of them or, if anything fails, none. With
`--part 1/2` a machine does every other run. With `--extend` what is published counts as done: more seeds then cost only
their own runs.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from problem1 import published
from problem1.ablation import ablate_heads, gate_gradients, greedy_pruning, prunable_summary, ranked
from problem1.carry import attention_by_sum, attention_past_nine, patch_carries, strongest
from problem1.dataset import pair_count
from problem1.every_pair import check_every_pair, compared_pairs, float64_difference, stored_check
from problem1.flawed import FlawedRecipe, train_flawed
from problem1.model import Adder, load_adder
from problem1.shared.commands import Parser, add_sweep_options, one_sentence
from problem1.shared.errors import UserError
from problem1.shared.grid import Grid, pack_rows, run_grids, unpack_rows
from problem1.shared.homework import homework_fields
from problem1.shared.publishing import check_publishable, same_models, staged
from problem1.shared.settings import QUICK, quick
from problem1.shared.storage import load_tensors, model_hash, write_json
from problem1.specialization import head_specialization
from problem1.train import RESULTS, AdderRecipe, headline_accuracy, never_trained, train_adder, unseen_pairs

CHOICE_SEEDS = range(10, 12)  # of the trainings by which the recipe was chosen; nothing else is trained with them
SEEDS = range(20, 30)  # of the published recipe: the prototypes of it had looked at wrong sums of seeds 0 to 4
FIRST_SEEDS = SEEDS[:5]  # one of them is published
STEP_SEEDS = SEEDS[:3]  # of the other recipes

AFFORDABLE = 115  # CPU seconds on one thread, while another run has the second core
CANDIDATES: dict[str, dict[str, Any]] = {  # chosen: of the affordable ones that of the lowest validation losses
    "published": {},
    "30 % nines": {"nines": 0.3},
    "30 % nines, batches of 16, 6,400 steps": {"nines": 0.3, "batch_size": 16, "steps": 6_400},
    "30 % nines, batches of 16, 5,200 steps": {"nines": 0.3, "batch_size": 16, "steps": 5_200},
    "40 % nines, 3,200 steps": {"nines": 0.4, "steps": 3_200},
    "30 % nines, rate 1.5e-3, 3,200 steps": {"nines": 0.3, "learning_rate": 1.5e-3, "steps": 3_200},
}

PLAIN: dict[str, Any] = {"batch_size": 64, "swap": "none", "nines": 0.0}
SHORT: dict[str, Any] = {**PLAIN, "steps": quick(2_400, 200)}  # these cost about as much as the published recipe
RECIPES: dict[str, dict[str, Any]] = {  # what each step bought
    "homework": {name: value for name, value in homework_fields(50, **PLAIN).items() if name != "homework"},
    "pre-norm, AdamW": SHORT,
    "operands swapped": {**SHORT, "swap": "operands"},
    "columns swapped": {**SHORT, "swap": "columns"},
    "nines drawn again": {**SHORT, "swap": "columns", "nines": 0.5},
    "published": {},  # smaller batches, and more of them
    "operands swapped, 4,600 steps": {**PLAIN, "swap": "operands", "steps": quick(4_600, 200), "ema_decay": 0.998},
}
DIGITS: dict[int, dict[str, Any]] = {2: {"train_size": 2_000}, 4: {}, 5: {}, 6: {}}  # there are 8,100 pairs of two

SHOWN = ["recipe", "seed", "steps", "validation loss", "test accuracy", "wrong", "wrong, never trained", "cpu seconds"]


# --- the runs --------------------------------------------------------------------------------------------------------


def candidates() -> list[dict[str, Any]]:
    return [
        {"candidate": name, **asdict(AdderRecipe(seed=seed, **fields))}
        for name, fields in CANDIDATES.items()
        for seed in CHOICE_SEEDS
    ]


def trainings(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One for each training, with every field of its recipe: a row on disk is used only if none of them has changed."""
    return [
        {"recipe": name, **asdict(AdderRecipe(seed=seed, **fields))}
        for name, fields in RECIPES.items()
        for seed in (seeds if name == "published" else seeds[: len(STEP_SEEDS)])
    ]


def other_digits() -> list[dict[str, Any]]:
    return [asdict(AdderRecipe(seed=SEEDS[0], digits=digits, **fields)) for digits, fields in DIGITS.items()]


def grids(seeds: Sequence[int]) -> list[Grid]:
    """All runs, as (function, configurations)."""
    return [
        (train_and_validate, candidates()),
        (train_and_check, trainings(seeds)),
        (train_and_test, other_digits()),
        (study_heads, [asdict(AdderRecipe(seed=seed)) for seed in seeds]),
    ]


def train_and_validate(candidate: str, **fields: Any) -> dict[str, Any]:
    """A candidate: its validation loss, nothing else."""
    return train_and_describe(AdderRecipe(**fields))[1]


def train_and_describe(recipe: AdderRecipe) -> tuple[Adder, dict[str, Any]]:
    """The adder of a recipe, and what its training says about it."""
    model, log = train_adder(recipe, progress=False)
    return model, {
        "best step": log["best step"],
        "validation loss": min(row["validation loss"] for row in log["rows"]),
        "cpu seconds": log["cpu seconds"],
        "model": model_hash(model),
    }


def train_homework(recipe: AdderRecipe) -> tuple[Adder, dict[str, Any]]:
    """The same with model and optimizer of the homework, its mistakes put right: the decoder begins with BOS."""
    flawless = FlawedRecipe(**asdict(recipe), homework=True, bos=True)
    model = train_flawed(flawless, progress=False)
    about = load_tensors(RESULTS / "runs" / flawless.name / "model.safetensors")[1]
    return model, {
        "best step": about["best"]["step"],
        "validation loss": about["best"]["loss"],
        "cpu seconds": about["cpu seconds"],
        "model": model_hash(model),
    }


def train_and_check(recipe: str, **fields: Any) -> dict[str, Any]:
    """One row: train by these fields of a recipe (`recipe` is its name in the table), then run it on every pair."""
    configuration = AdderRecipe(**fields)
    model, facts = (train_homework if recipe == "homework" else train_and_describe)(configuration)
    check = check_every_pair(model, progress=False)
    differences = [float64_difference(model, pairs) for pairs in compared_pairs(check, configuration.digits).values()]
    return {
        **facts,
        **headline_accuracy(model, configuration),
        "pairs": pair_count(configuration.digits),
        "wrong": len(check.wrong),
        "wrong, never trained": int(never_trained(check.wrong[["a", "b"]].to_numpy(), configuration).sum()),
        "examples": ", ".join(f"{row.a}+{row.b}={row.answer}" for row in check.wrong[:10].itertuples()),
        "smallest margin": check.margin,
        "float64 difference, random": differences[0],
        "float64 difference, closest": differences[1],
    }


def train_and_test(**fields: Any) -> dict[str, Any]:
    """An adder of other digits, of which there are too many pairs to run them all: the test pairs."""
    recipe = AdderRecipe(**fields)
    model, facts = train_and_describe(recipe)
    return {**facts, **headline_accuracy(model, recipe)}


def study_heads(**fields: Any) -> dict[str, Any]:
    """The heads of one adder: importance, specialization, carrying, and how many are jointly prunable."""
    model, _ = train_adder(AdderRecipe(**fields), progress=False)
    test, validation = unseen_pairs("test"), unseen_pairs("validation")
    ablation = ablate_heads(model, test, validation)
    heads = ranked(ablation).set_index("head")[["zero drop", "mean drop"]]
    gradients = gate_gradients(model, validation).pivot(index="head", columns="quantity", values="mean")
    heads = heads.join(gradients.add_prefix("gradient of "))
    heads = heads.join(head_specialization(model, test).pivot(index="head", columns="measure", values="mean"))
    patched = patch_carries(model)
    patched["question"] = "carry into " + patched["digit"] + ", " + patched["carry from"]
    flips = patched.pivot(index="patched", columns="question", values="flip rate")
    carrier = strongest(patched, "hundreds", "Decoder Cross")
    greedy = greedy_pruning(model, validation[:1_000], test, progress=None)
    groups = flips[flips.index.str.startswith("all ")]
    return {
        "prunable": prunable_summary(model, ablation, test, validation),
        "carrier of the hundreds": carrier,
        "attention past a 9": attention_past_nine(attention_by_sum(model, test, carrier)),
        "heads": heads.join(flips).reset_index().to_dict("records"),
        "groups": groups.reset_index().to_dict("records"),
        "greedy": greedy.to_dict("records"),
        "model": model_hash(model),
    }


# --- what is made of them --------------------------------------------------------------------------------------------


def study_tables(
    chosen: pd.DataFrame, trained: pd.DataFrame, tested: pd.DataFrame, studied: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """The published tables, from the rows of the runs: `grids` in their order."""
    prunable = pd.json_normalize(studied["prunable"]).drop(columns=["zero.heads", "mean.heads"])
    facts = studied[["seed", "carrier of the hundreds", "attention past a 9"]]
    tables = {"candidates": chosen, "seeds": trained, "digits": tested}
    tables["adders"] = pd.concat([facts, prunable, studied[["model", "code"]]], axis=1)
    for name in ("heads", "groups", "greedy"):
        parts = zip(studied["seed"], studied[name], strict=True)
        tables[name] = pd.concat([pd.DataFrame(part).assign(seed=seed) for seed, part in parts])
    return tables


def lowest_validation_loss(trained: pd.DataFrame) -> pd.Series:
    """The row of the adder that is published."""
    ours = trained[(trained["recipe"] == "published") & trained["seed"].isin(FIRST_SEEDS)]
    return ours.loc[ours["validation loss"].idxmin()]


# --- publishing ------------------------------------------------------------------------------------------------------


def published_seeds() -> int:
    """How many seeds of the published recipe the committed table holds."""
    rows = published.table("seeds")
    return rows.loc[rows["recipe"] == "published", "seed"].nunique()


def publish_study(results: Sequence[pd.DataFrame], seeds: Sequence[int]) -> None:
    """Tables, rows and the adder, as a whole: whatever fails leaves what is published as it was."""
    _, trained, _, studied = results
    for rows in (trained, studied):
        check_publishable(QUICK, rows, published_seeds())
    check_publishable(QUICK, pd.concat(results), published_seeds())  # one code in all of them
    same_models({"seeds": trained[trained["recipe"] == "published"], "heads": studied})
    with staged(published.FOLDER) as stage:
        published.write_tables(study_tables(*results), stage)
        pack_rows(grids(seeds), RESULTS / "grid", stage / published.RUNS)
        publish_adder(lowest_validation_loss(trained), stage)


def publish_adder(row: pd.Series, folder: Path) -> None:
    """The adder of this row of the table, its log, its check and its picture; it is loaded, or trained here."""
    recipe = AdderRecipe(seed=int(row["seed"]))
    run, key = RESULTS / "runs" / recipe.name, row["model"]
    model, _ = train_adder(recipe)
    if model_hash(model) != key:
        raise UserError(
            f"{run} holds another model than its row ({model_hash(model)}, not {key}): copy this folder from the "
            f"machine that the row in {RESULTS / 'grid'} names, or delete the row to have it run again."
        )
    check_every_pair(model)
    check, stored = published.check_file(key, folder), stored_check(key)
    assert stored is not None  # it was just made, or found
    result = json.loads(stored.read_text())
    shutil.rmtree(check.parent, ignore_errors=True)  # of the adder that was published before
    write_json(check, result)
    shutil.copyfile(run / "model.safetensors", folder / published.ADDER)
    shutil.copyfile(run / "training_log.json", folder / published.LOG)
    if model_hash(load_adder(folder / published.ADDER)) != key:
        raise UserError(f"the copy of {run / 'model.safetensors'} is not the model of its row, {key}.")


# --- the command -----------------------------------------------------------------------------------------------------


def sweep(seeds: Sequence[int], part: tuple[int, int] = (1, 1), extend: bool = False, publish: bool = False) -> None:
    if publish:  # told before hours of runs rather than after them
        check_publishable(QUICK, pd.DataFrame({"seed": list(seeds), "code": ""}), published_seeds())
    if extend:
        archive = published.FOLDER / published.RUNS
        if not archive.exists():
            raise UserError("there are no published runs to begin with; leave --extend out.")
        unpack_rows(archive, RESULTS / "grid")
    results = run_grids(grids(seeds), RESULTS / "grid", part)
    folder = published.FOLDER if publish else RESULTS / "sweep"
    if publish:
        publish_study(results, seeds)
    else:
        published.write_tables(study_tables(*results), folder)
    trained = results[1]
    best = lowest_validation_loss(trained)
    print(trained[SHOWN].to_string(index=False))
    print(f"lowest validation loss of seeds {FIRST_SEEDS[0]} to {FIRST_SEEDS[-1]}: seed {best['seed']}, ", end="")
    print(f"model {best['model']}; what was written is in {folder}")


def main() -> None:
    parser = Parser(prog="python -m problem1.sweep", description=(__doc__ or "").splitlines()[0])
    add_sweep_options(parser, "problem1", len(SEEDS))
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        seeds = range(SEEDS[0], SEEDS[0] + arguments.seeds)[: quick(None, 2)]
        sweep(seeds, arguments.part, arguments.extend, arguments.publish)


if __name__ == "__main__":
    main()
