"""The trainings behind the claims: `python -m problem1.sweep` trains all seeds, checks every pair, studies every head.

With `--publish` the tables and an adder go to problem1/published, all of them or, if anything fails, none. With
`--part 1/2` a machine does every other run. With `--extend` what is published counts as done: more seeds then cost only
their own runs.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from problem1 import plots, published
from problem1.ablation import ablate_heads, gate_gradients, greedy_pruning, prunable_summary, ranked
from problem1.carry import attention_by_sum, attention_past_nine, patch_carries, strongest
from problem1.dataset import pair_count
from problem1.every_pair import check_every_pair, stored_check
from problem1.model import load_adder
from problem1.shared.commands import Parser, add_sweep_options, one_sentence
from problem1.shared.errors import UserError
from problem1.shared.grid import pack_rows, run_grids, unpack_rows
from problem1.shared.publishing import check_publishable, same_models, staged
from problem1.shared.settings import QUICK, quick
from problem1.shared.storage import model_hash, save_figure, write_json
from problem1.specialization import head_specialization
from problem1.train import RESULTS, AdderRecipe, headline_accuracy, never_trained, train_adder, unseen_pairs

SEEDS = range(10)  # of the published recipe
FIRST_SEEDS = SEEDS[:5]  # fixed before anything was trained: of the other recipes, and one of them is published

RECIPES: dict[
    str, dict[str, Any]
] = {  # in the order in which they were tried; before "online", only the length changed
    "4,000 steps": {"steps": 4_000},
    "5,200 steps": {"steps": 5_200},
    "published": {},
    "online": {"data": "online"},
}

SHOWN = ["recipe", "seed", "steps", "validation loss", "test accuracy", "wrong", "wrong, never trained", "cpu seconds"]


# --- the runs --------------------------------------------------------------------------------------------------------


def trainings(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One for each training, with every field of its recipe: a row on disk is used only if none of them has changed."""
    counts = {"published": len(seeds), "online": 3}
    return [
        {"recipe": name, **asdict(AdderRecipe(seed=seed, **options))}
        for name, options in RECIPES.items()
        for seed in seeds[: counts.get(name, len(FIRST_SEEDS))]
    ]


def grids(seeds: Sequence[int]) -> list[tuple[Callable[..., dict[str, Any]], list[dict[str, Any]]]]:
    """All runs, as (function, configurations)."""
    return [(train_and_check, trainings(seeds)), (study_heads, [asdict(AdderRecipe(seed=seed)) for seed in seeds])]


def train_and_check(recipe: str, **fields: Any) -> dict[str, Any]:
    """One row: train by these fields of a recipe (`recipe` is its name in the table), then run it on every pair."""
    configuration = AdderRecipe(**fields)
    model, log = train_adder(configuration, progress=False)
    wrong = check_every_pair(model, progress=False)
    return {
        "best step": log["best step"],
        "validation loss": min(row["validation loss"] for row in log["rows"]),
        **headline_accuracy(model, configuration),
        "pairs": pair_count(configuration.digits),
        "wrong": len(wrong),
        "wrong, never trained": int(never_trained(wrong[["a", "b"]].to_numpy(), configuration).sum()),
        "examples": ", ".join(f"{row.a}+{row.b}={row.answer}" for row in wrong[:10].itertuples()),
        "cpu seconds": log["cpu seconds"],
        "model": model_hash(model),
    }


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


def study_tables(trained: pd.DataFrame, studied: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The published tables, from the rows of the runs."""
    prunable = pd.json_normalize(studied["prunable"]).drop(columns=["zero.heads", "mean.heads"])
    facts = studied[["seed", "carrier of the hundreds", "attention past a 9"]]
    tables = {"seeds": trained, "adders": pd.concat([facts, prunable, studied["model"]], axis=1)}
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


def publish_study(trained: pd.DataFrame, studied: pd.DataFrame, seeds: Sequence[int]) -> None:
    """Tables, rows and the adder, as a whole: whatever fails leaves what is published as it was."""
    for rows in (trained, studied):
        check_publishable(QUICK, rows, published_seeds())
    check_publishable(QUICK, pd.concat([trained, studied]), published_seeds())  # one code in both
    same_models({"seeds": trained[trained["recipe"] == "published"], "heads": studied})
    with staged(published.FOLDER) as stage:
        published.write_tables(study_tables(trained, studied), stage)
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
    save_figure(plots.patching(patch_carries(model)), folder / published.PICTURE)
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
    trained, studied = run_grids(grids(seeds), RESULTS / "grid", part)
    folder = published.FOLDER if publish else RESULTS / "sweep"
    if publish:
        publish_study(trained, studied, seeds)
    else:
        published.write_tables(study_tables(trained, studied), folder)
    best = lowest_validation_loss(trained)
    print(trained[SHOWN].to_string(index=False))
    print(f"lowest validation loss of seeds {FIRST_SEEDS[0]} to {FIRST_SEEDS[-1]}: seed {best['seed']}, ", end="")
    print(f"model {best['model']}; what was written is in {folder}")


def main() -> None:
    parser = Parser(prog="python -m problem1.sweep", description=(__doc__ or "").splitlines()[0])
    add_sweep_options(parser, "problem1", len(SEEDS))
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        seeds = range(arguments.seeds)[: quick(None, 2)]
        sweep(seeds, arguments.part, arguments.extend, arguments.publish)


if __name__ == "__main__":
    main()
