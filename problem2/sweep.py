"""The trainings behind the claims of problem 2 (studies.py says which): `python -m problem2.sweep`.

With `--publish` tables and weights go to problem2/published, all of them or, if anything fails, none. With `--part 1/2`
a machine does every other run. With `--extend` what is published counts as done: more seeds cost only their own runs.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from problem1.shared.commands import Parser, add_sweep_options, one_sentence
from problem1.shared.errors import UserError
from problem1.shared.grid import Grid, pack_rows, run_grids, unpack_rows
from problem1.shared.publishing import check_publishable, same_models, staged
from problem1.shared.settings import QUICK, quick
from problem1.shared.storage import model_hash
from problem2 import published
from problem2.certificate.counterexamples import train_certified
from problem2.dataset import LONG_LENGTHS, LONGEST
from problem2.encodings import ENCODINGS
from problem2.evaluation import (
    FAR_SIZE,
    LOG_LENGTH,
    all_sets,
    crowded_sets,
    development_sets,
    evaluate,
    exact_sets,
    examine,
    far_sets,
    grouped_test_items,
    hard_sets,
    new_sets,
    policies_for,
    split_rows,
    with_policy,
)
from problem2.mathematics import position_facts
from problem2.model import Classifier, load_classifier
from problem2.studies import (
    COMPARED,
    CONFIRMED_FROM,
    FARTHEST_FROM,
    SEEDS,
    STUDIES,
    Fields,
    Training,
    candidates,
    hard_trainings,
    reaching,
    recipes_of,
    study_seeds,
    trainings,
)
from problem2.train import RESULTS, ClassifierRecipe, train_classifier

# --- the runs --------------------------------------------------------------------------------------------------------


def grids(declared: Sequence[Training]) -> list[Grid]:
    """All runs but those that depend on others, as (function, configurations)."""
    compared = {ClassifierRecipe(**options) for study in COMPARED for options in STUDIES[study].values()}

    def far(recipe: ClassifierRecipe) -> bool:
        return replace(recipe, seed=ClassifierRecipe.seed) in compared  # whatever the seed, and however many there are

    return [
        (train_and_develop, [asdict(recipe) for _, recipe in candidates()]),
        (train_and_examine, [{"far": far(recipe), **asdict(recipe)} for recipe in recipes_of(declared).values()]),
        (certify_seed, [{"seed": seed} for seed in study_seeds(quick(SEEDS["studies"], 1))]),
        (train_on_hard_items, hard_trainings(study_seeds(quick(SEEDS["studies"], 1)))),
    ]


def confirmations(hard: pd.DataFrame) -> Grid:
    """More seeds for what does well in these first rows of the hard study."""
    seeds = study_seeds(quick(SEEDS["encodings"], 1))
    more = [seed for seed in seeds if seed not in set(hard["seed"])]
    return train_on_hard_items, hard_trainings(more, reaching(hard, *CONFIRMED_FROM))


def farthest(hard: pd.DataFrame) -> Grid:
    """The greatest length for what does well in all rows of the hard study, and has all seeds."""
    seeds = study_seeds(quick(SEEDS["encodings"], 1))
    whole = hard.groupby("name")["seed"].transform("nunique") == len(seeds)
    return examine_farthest, hard_trainings(seeds, reaching(hard[whole], *FARTHEST_FROM))


def train_and_describe(fields: Fields) -> tuple[Classifier, dict[str, Any]]:
    """The classifier of these fields of a recipe, and what its training says about it."""
    model, log = train_classifier(ClassifierRecipe(**fields), progress=False)
    best = next(row for row in log["rows"] if row["step"] == log["best step"])
    facts = {
        "best step": log["best step"],
        "training loss": best["training loss"],
        "validation loss": best["validation loss"],
        "validation accuracy": best["validation accuracy"],
        "cpu seconds": log["cpu seconds"],
        "model": model_hash(model),
    }
    return model, facts


def train_and_develop(**fields: Any) -> dict[str, Any]:
    """A candidate: validation and the development lengths, nothing else."""
    model, facts = train_and_describe(fields)
    rows = []
    for policy in policies_for(model):
        with with_policy(model, policy):
            rows += [{"policy": policy, **row} for row in evaluate(model, development_sets())]
    return {**facts, "rows": rows}


def train_and_examine(far: bool, **fields: Any) -> dict[str, Any]:
    """A classifier of a study: every set at every length; under other policies than its own the assignment's long sets,
    under some of them the hard test. With `far` also 512 and 1,024, under its own policy and interpolated: others have
    no positions there, or no promise.
    """
    model, facts = train_and_describe(fields)
    test = examine(model, grouped_test_items().values())
    own, *others = policies_for(model)
    farther = far_sets() if far else []
    rows = [{"policy": own, **row} for row in evaluate(model, all_sets() + farther)]
    beyond = [each for each in exact_sets() if each.length in LONG_LENGTHS]
    hard = new_sets(("adjacent",), LONG_LENGTHS)
    sets = {"interpolate": beyond + hard + farther, LOG_LENGTH: beyond + hard}
    tested = {policy: sets.get(policy, beyond) for policy in others}
    if "moved" in others:  # interpolation taken apart: the same weights on values that fit clamped positions
        tested |= {policy: tested.get(policy, []) + crowded_sets() for policy in ("clamp", "interpolate")}
    for policy, sets_of_policy in tested.items():
        with with_policy(model, policy):
            rows += [{"policy": policy, **row} for row in evaluate(model, sets_of_policy)]
    return {**facts, **{f"test {name}": value for name, value in test.items()}, **position_facts(model), "rows": rows}


def train_on_hard_items(name: str, **fields: Any) -> dict[str, Any]:
    """A classifier of the hard study (`name` is its name there): single adjacent swaps, development lengths first."""
    model, facts = train_and_describe(fields)
    return {**facts, "rows": evaluate(model, hard_sets())}


def examine_farthest(name: str, **fields: Any) -> dict[str, Any]:
    """The same classifier, loaded or trained again, at 4,096."""
    model, facts = train_and_describe(fields)
    return {**facts, "rows": evaluate(model, new_sets(("adjacent",), (LONGEST,), FAR_SIZE))}


def certify_seed(seed: int) -> dict[str, Any]:
    """One training, then training on counterexamples: does the certificate hold?"""
    _, certificate, report = train_certified(seed, progress=False)
    first, *later = report["rounds"]
    return {
        "certified": certificate.certified,
        "rounds": len(later),
        "lowest sorted logit": certificate.lowest_sorted,
        "highest unsorted logit": certificate.highest_unsorted,
        "largest numerical difference": max(certificate.float_difference, certificate.table_difference),
        "counterexamples before": first["sorted pieces"] + first["missed descents"],
        "cpu seconds": report["cpu seconds of training"] + report["cpu seconds of counterexample training"],
        "model": report["model"],
    }


# --- what is made of them --------------------------------------------------------------------------------------------


@dataclass
class Study:
    """All grids that were run, and their tables as `run_grids` returns them."""

    declared: Sequence[Training]
    grids: Sequence[Grid]
    chosen: pd.DataFrame  # the candidates
    studied: pd.DataFrame  # STUDIES, each recipe once
    certificates: pd.DataFrame
    hard: pd.DataFrame  # HARD_STUDY


def study_tables(study: Study) -> dict[str, pd.DataFrame]:
    """The published tables, from the rows of the runs."""
    chosen = pd.DataFrame({"name": [name for name, _ in candidates()]}).join(study.chosen)
    chosen, chosen_rows = split_rows(chosen, ["name", "seed"])
    studied, studied_rows = split_rows(study.studied.assign(key=list(recipes_of(study.declared))), ["key"])
    names = pd.DataFrame([{"study": t.study, "name": t.name, "key": t.recipe.key} for t in study.declared])
    studied = names.merge(studied, on="key", validate="many_to_one")
    hard, hard_rows = split_rows(study.hard, ["name", "seed"])
    tables = chosen, chosen_rows, studied, studied_rows, study.certificates, hard, hard_rows
    return dict(zip(published.STUDY, tables, strict=True))


def with_farthest(hard: pd.DataFrame, far: pd.DataFrame) -> pd.DataFrame:
    """The rows of the hard study, each with what the same classifier was asked afterwards."""
    if far.empty:
        return hard
    same_models(
        {name: table.assign(run=training_names(table)) for name, table in (("hard", hard), ("far", far))}, "run"
    )
    later = dict(zip(training_names(far), far["rows"], strict=True))
    both = [rows + later.get(name, []) for name, rows in zip(training_names(hard), hard["rows"], strict=True)]
    return hard.assign(rows=both)


def training_names(table: pd.DataFrame) -> list[str]:
    return [f"{name}, seed {seed}" for name, seed in zip(table["name"], table["seed"], strict=True)]


# --- publishing ------------------------------------------------------------------------------------------------------


def check_study(classifiers: pd.DataFrame) -> None:
    """Refuse what has fewer seeds than the published rows of the same study, a quick look, and rows of mixed code."""
    before = published.table("classifiers").groupby("study")["seed"].nunique()
    for study, rows in classifiers.groupby("study", sort=False):
        check_publishable(QUICK, rows, before.get(study, 0))


def publish_study(study: Study) -> None:
    """Tables, rows and weights, as a whole: whatever fails leaves what is published as it was."""
    tables = study_tables(study)
    check_study(tables["classifiers"])
    for name in ("candidates", "certificates"):
        check_publishable(QUICK, tables[name], published.table(name)["seed"].nunique())
    runs = pd.concat([study.chosen, study.studied, study.certificates, study.hard])
    check_publishable(QUICK, runs, published_seeds=0)  # one code in all of them
    keyed = tables["candidates"].assign(key=[recipe.key for _, recipe in candidates()])
    same_models({"candidates": keyed, "classifiers": tables["classifiers"]}, by="key")
    with staged(published.FOLDER) as stage:
        published.write_tables(tables, stage)
        pack_rows(study.grids, RESULTS / "grid", stage / published.RUNS)
        publish_classifiers(tables["classifiers"], stage)
        publish_certified(study.certificates, stage)


def publish_classifiers(classifiers: pd.DataFrame, folder: Path) -> None:
    """One classifier of each encoding, seed 0 of the augmented training; it is loaded, or trained here."""
    models = classifiers.drop_duplicates("key").set_index("key")["model"]
    shutil.rmtree(published.classifier_file("", folder).parent, ignore_errors=True)  # of those published before
    for encoding in ENCODINGS:
        recipe = ClassifierRecipe(seed=0, **STUDIES["augmented"][encoding])
        train_classifier(recipe)
        run = RESULTS / "runs" / recipe.name
        publish_weights(run / "model.safetensors", models[recipe.key], published.classifier_file(encoding, folder))


def publish_certified(certificates: pd.DataFrame, folder: Path) -> None:
    """The classifier of seed 0 and its certificate; they are loaded, or made here."""
    run, row = RESULTS / "certified" / "seed0", certificates.set_index("seed").loc[0]
    weights, certificate = published.certified_file(run), published.certificate_file(run)
    if not certificate.exists():
        train_certified(0)
    publish_weights(weights, row["model"], published.certified_file(folder))
    report = json.loads(certificate.read_text())
    if not (report["certified"] and report["model"] == row["model"]):
        raise UserError(f"{certificate} does not certify the model of its row, {row['model']}.")
    shutil.copyfile(certificate, published.certificate_file(folder))


def publish_weights(file: Path, model: str, target: Path) -> None:
    """A copy of these weights; it must hold the model of its row."""
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(file, target)
    found = model_hash(load_classifier(target))
    if found != model:
        raise UserError(
            f"{file.parent} holds another model than its row ({found}, not {model}): copy this folder from the machine "
            f"that the row in {RESULTS / 'grid'} names, or delete the row to have it run again."
        )


# --- the command -----------------------------------------------------------------------------------------------------


def run_study(declared: Sequence[Training], part: tuple[int, int]) -> Study:
    """All runs of `grids`, then those of the hard study that depend on what came out."""
    first, folder = grids(declared), RESULTS / "grid"
    chosen, studied, certificates, hard = run_grids(first, folder, part)
    again = confirmations(hard)
    hard = pd.concat([hard, *run_grids([again], folder, part)], ignore_index=True)
    far = farthest(hard)
    hard = with_farthest(hard, *run_grids([far], folder, part))
    return Study(declared, [*first, again, far], chosen, studied, certificates, hard)


def sweep(seeds: int, part: tuple[int, int] = (1, 1), extend: bool = False, publish: bool = False) -> None:
    declared = trainings(seeds)
    if publish:  # told before hours of runs rather than after them
        check_study(pd.DataFrame([{"study": t.study, "seed": t.recipe.seed, "code": ""} for t in declared]))
    if extend:
        archive = published.FOLDER / published.RUNS
        if not archive.exists():
            raise UserError("there are no published runs to begin with; leave --extend out.")
        unpack_rows(archive, RESULTS / "grid")
    study = run_study(declared, part)
    folder = published.FOLDER if publish else RESULTS / "sweep"
    if publish:
        publish_study(study)
    else:
        published.write_tables(study_tables(study), folder)
    print(f"what was written is in {folder}")


def main() -> None:
    parser = Parser(prog="python -m problem2.sweep", description=(__doc__ or "").splitlines()[0])
    add_sweep_options(parser, "problem2", SEEDS["encodings"])
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        sweep(arguments.seeds, arguments.part, arguments.extend, arguments.publish)


if __name__ == "__main__":
    main()
