"""The trainings behind the claims: `python -m problem1.sweep` trains all seeds, checks every pair, studies every head.

With `--publish` the tables and an adder go to problem1/published. With `--scheduler` the runs go to a Dask cluster;
weights stay with its workers, so the adder that is published is trained again here. With `--extend` what is published
counts as done: more seeds then cost only their own runs.
"""

import argparse
import shutil
from dataclasses import asdict

import pandas as pd

from problem1 import plots
from problem1.ablation import TOLERANCE, ablate_heads, gate_gradients, greedy_pruning, ranked
from problem1.analysis import prunable_summary, unseen_pairs
from problem1.carry import attention_by_sum, look_past_nine, patch_carries, strongest
from problem1.commands import add_sweep_options, one_sentence
from problem1.dataset import pair_count
from problem1.every_pair import check_every_pair, stored_check
from problem1.grid import pack_rows, run_grids, unpack_rows
from problem1.settings import quick
from problem1.specialization import head_specialization
from problem1.storage import atomic_path, require_weights, save_figure, weights_hash
from problem1.train import PUBLISHED, RESULTS, AdderRecipe, headline_accuracy, never_trained, train_adder

SEEDS = range(10)  # of the published recipe
FIRST_SEEDS = SEEDS[:5]  # fixed before anything was trained: of the other recipes, and one of them is published

RECIPES = {  # in the order in which they were tried; only the length changed
    "4,000 steps": {"steps": 4_000},
    "5,200 steps": {"steps": 5_200},
    "published": {},
    "stream": {"data": "stream"},
}


SHOWN = ["recipe", "seed", "steps", "validation loss", "test accuracy", "wrong", "wrong, never trained", "cpu seconds"]


def configurations(seeds):
    """One for each training, with every field of its recipe: a row on disk is used only if nothing has changed."""
    counts = {"published": len(seeds), "stream": 3}
    return [
        {"recipe": name, **asdict(AdderRecipe(seed=seed, **options))}
        for name, options in RECIPES.items()
        for seed in seeds[: counts.get(name, len(FIRST_SEEDS))]
    ]


def train_and_check(recipe, **fields):
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
        "weights": weights_hash(model),
    }


def study_heads(**fields):
    """The heads of one adder: importance, specialization, carrying, and how many can go together."""
    model, _ = train_adder(AdderRecipe(**fields), progress=False)
    test, validation = unseen_pairs("test"), unseen_pairs("validation")
    ablation = ablate_heads(model, test, validation)
    heads = ranked(ablation).set_index("head")[["zero drop", "mean drop"]]
    gradients = gate_gradients(model, validation).pivot(index="head", columns="quantity", values="mean")
    heads = heads.join(gradients.add_prefix("gradient of "))
    heads = heads.join(head_specialization(model, test).pivot(index="head", columns="measure", values="mean"))
    patched = patch_carries(model)
    patched["question"] = "carry into " + patched["digit"] + ", " + patched["carry from"]
    follows = patched.pivot(index="patched", columns="question", values="follows")
    carrier = strongest(patched, "hundreds", "Decoder Cross")
    greedy = greedy_pruning(model, validation[:1_000], test, progress=None)
    groups = follows[follows.index.str.startswith("all ")]
    return {
        "prunable": prunable_summary(model, ablation, test, validation),
        "carrier of the hundreds": carrier,
        "look past a 9": float(look_past_nine(attention_by_sum(model, test, carrier))),
        "heads": heads.join(follows).reset_index().to_dict("records"),
        "groups": groups.reset_index().to_dict("records"),
        "greedy": greedy.to_dict("records"),
    }


def published_tables():
    """The committed tables by name; `heads` gains a column 'carries', the highest share of digits that follow."""
    tables = {file.stem: pd.read_csv(file) for file in sorted(PUBLISHED.glob("*.csv"))}
    tables["heads"]["carries"] = tables["heads"][carry_questions(tables["heads"])].max(axis=1)
    return tables


def carry_questions(table):
    return [column for column in table.columns if column.startswith("carry into")]


def seed_summary(tables):
    """One row per seed: how many heads can go, alone and together, and which kind of head carries."""
    heads, greedy, adders = tables["heads"], tables["greedy"], tables["adders"].set_index("seed")
    encoder = tables["groups"].query("patched == 'all Encoder'").set_index("seed")
    carriers, own = heads["carries"] > 0.5, heads["head"].str.startswith("Decoder Self")
    constant = (heads["zero drop"] > 0.05) & (heads["mean drop"] <= TOLERANCE)
    together = greedy[greedy["accuracy"] >= 1 - TOLERANCE].groupby("seed")["removed"].max()
    return pd.DataFrame(
        {
            "prunable alone (zero)": adders["zero.count"],
            "prunable alone (mean)": adders["mean.count"],
            "accuracy without all of them (zero)": adders["zero.accuracy without all of them.mean"].round(3),
            "prunable together (greedy)": together,
            "heads that a digit follows": carriers.groupby(heads["seed"]).sum(),
            "of them cross heads": (carriers & heads["head"].str.contains("Cross")).groupby(heads["seed"]).sum(),
            "highest follow of a self head": heads[own].groupby("seed")["carries"].max().round(3),
            "through a 9: follows all encoder heads": encoder["carry into hundreds, through a 9"].round(3),
            "through a 9: cross head looks further": adders["look past a 9"].round(3),
            "self heads that matter by zero only": (own & constant).groupby(heads["seed"]).sum(),
        }
    )


def lowest_validation_loss(trained):
    """The row of the adder that is published."""
    ours = trained[(trained["recipe"] == "published") & trained["seed"].isin(FIRST_SEEDS)]
    return ours.loc[ours["validation loss"].idxmin()]


def publish_adder(row, folder):
    """The adder of this row of the table, its log, its check and its picture; it is loaded, or trained here."""
    recipe = AdderRecipe(seed=int(row["seed"]))
    run, key = RESULTS / "runs" / recipe.name, row["weights"]
    model, _ = train_adder(recipe)
    require_weights(weights_hash(model), key, run, RESULTS / "grid")
    check_every_pair(model)
    for source, name in [
        (run / "model.safetensors", "adder.safetensors"),
        (run / "training_log.json", "training_log.json"),
        (stored_check(key), f"every_pair/{key}.json"),
    ]:
        with atomic_path(folder / name) as temporary:
            shutil.copyfile(source, temporary)
    save_figure(plots.patching(patch_carries(model)), folder / "carry_heads.png")


def grids(seeds):
    """All runs, as (function, configurations)."""
    return [(train_and_check, configurations(seeds)), (study_heads, [asdict(AdderRecipe(seed=seed)) for seed in seeds])]


def sweep(seeds, folder, scheduler=None, extend=False, publish=False):
    if extend:
        unpack_rows(PUBLISHED / "runs.zip", RESULTS / "grid")
    trained, studied = run_grids(grids(seeds), RESULTS / "grid", scheduler)

    prunable = pd.json_normalize(studied["prunable"]).drop(columns=["zero.heads", "mean.heads"])
    facts = studied[["seed", "carrier of the hundreds", "look past a 9"]]
    tables = {"seeds": trained, "adders": pd.concat([facts, prunable], axis=1)}
    for name in ("heads", "groups", "greedy"):
        parts = [
            pd.DataFrame(part).assign(seed=seed) for seed, part in zip(studied["seed"], studied[name], strict=True)
        ]
        tables[name] = pd.concat(parts)
    for name, table in tables.items():
        with atomic_path(folder / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False, float_format="%.10g")

    best = lowest_validation_loss(trained)
    if publish:
        publish_adder(best, folder)
        pack_rows(grids(seeds), RESULTS / "grid", folder / "runs.zip")
    print(trained[SHOWN].to_string(index=False))
    print(f"lowest validation loss of seeds {FIRST_SEEDS[0]} to {FIRST_SEEDS[-1]}: seed {best['seed']}, ", end="")
    print(f"weights {best['weights']}; what was written is in {folder}")


def main():
    parser = argparse.ArgumentParser(prog="python -m problem1.sweep", description=__doc__.splitlines()[0])
    add_sweep_options(parser, "problem1", len(SEEDS))
    arguments = parser.parse_args()
    folder = PUBLISHED if arguments.publish else RESULTS / "sweep"
    with one_sentence(parser.prog):
        seeds = range(arguments.seeds)[: quick(None, 2)]
        sweep(seeds, folder, arguments.scheduler, arguments.extend, arguments.publish)


if __name__ == "__main__":
    main()
