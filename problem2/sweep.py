"""The trainings behind the claims of problem 2: `python -m problem2.sweep`.

What is open is chosen first, by trainings with seeds of their own, on validation and on the development lengths 24, 48
and 96 (CANDIDATES). Then everything is trained anew with other seeds (STUDIES), and only these classifiers read the
assignment's long sets.

With `--publish` tables and weights go to problem2/published, all of them or, if anything fails, none. With `--part 1/2`
a machine does every other run. With `--extend` what is published counts as done: more seeds cost only their own runs.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from problem1.shared.commands import Parser, add_sweep_options, one_sentence
from problem1.shared.errors import UserError
from problem1.shared.grid import Grid, pack_rows, run_grids, unpack_rows
from problem1.shared.publishing import check_publishable, same_models, staged
from problem1.shared.settings import QUICK, quick
from problem1.shared.storage import model_hash
from problem2 import published
from problem2.counterexamples import train_certified
from problem2.dataset import LONG_LENGTHS
from problem2.encodings import ASSIGNED, ENCODINGS
from problem2.evaluation import (
    all_sets,
    development_sets,
    evaluate,
    exact_sets,
    examine,
    far_sets,
    grouped_test_items,
    new_sets,
    policies_for,
    split_rows,
    with_policy,
)
from problem2.mathematics import position_facts
from problem2.model import Classifier, load_classifier
from problem2.train import AUGMENTED, RESULTS, ClassifierRecipe, train_classifier

Fields = dict[str, Any]  # of a recipe

# --- the declaration -------------------------------------------------------------------------------------------------

CHOICE_SEEDS = range(10, 12)  # of the trainings by which something was chosen; nothing else is trained with them
SEEDS = {"encodings": 10, "studies": 3, "assignment shape": 1}  # how many; none was left out after it was trained
COMPARED = ("plain", "augmented")  # the studies that compare encodings: these are examined at 512 and 1,024 too

PREPARATIONS: dict[str, Fields] = {"plain": {}, "smooth": {"smooth": True}, "shift": {"augment": "shift"}}
PREPARATIONS["augmented"] = AUGMENTED
SPANS, CLIPS = (256, 1_024, 2_048), {"clipped": (1, 2, 4, 8), "shaw": (1, 2, 8)}

SINUSOIDAL: Fields = {"encoding": "sinusoidal", **AUGMENTED}
SHIFTED: Fields = {**SINUSOIDAL, "options": "shift=241", "steps": quick(5_120, 160)}  # it learns far more slowly
ONLINE: Fields = {"encoding": "sinusoidal", "smooth": True, "data": "online"}
LOCAL: Fields = {
    "encoding": "shaw",
    "options": "clip=1",
    "window": 1,
    "pooling": "min",
    "smooth": True,
    "data": "online",
    "steps": quick(2_560, 160),
}

CANDIDATES: dict[str, Fields] = {
    **{
        f"{encoding}, {name}": {"encoding": encoding, **options}
        for encoding in ("sinusoidal", "learned")
        for name, options in PREPARATIONS.items()
    },
    "causal, plain": {"encoding": "causal"},
    "causal, augmented": {"encoding": "causal", **AUGMENTED},
    **{
        f"randomized, range {span:,}, {name}": {"encoding": "randomized", "options": f"span={span}", **options}
        for span in SPANS
        for name, options in (("plain", {}), ("augmented", AUGMENTED))
    },
    **{
        f"{encoding}, clip {clip}": {"encoding": encoding, "options": f"clip={clip}"}
        for encoding, clips in CLIPS.items()
        for clip in clips
    },
    "sinusoidal, augmented, shifted": {**SINUSOIDAL, "options": "shift=256"},
    **{f"local, {steps:,} steps": {**LOCAL, "steps": steps} for steps in (1_280, 2_560)},
    "local, 1,280 steps, clipped bias": {**LOCAL, "steps": 1_280, "encoding": "clipped"},
    "local, 1,280 steps, no window": {**LOCAL, "steps": 1_280, "window": 0},
}

STUDIES: dict[str, dict[str, Fields]] = {
    "plain": {name: {"encoding": name} for name in ENCODINGS},
    "augmented": {name: {"encoding": name, **AUGMENTED} for name in ENCODINGS},
    "assignment shape": {name: {"encoding": name, "shape": "assignment", **AUGMENTED} for name in ASSIGNED},
    "how many distances differ": {
        str(clip): {"encoding": "clipped", "options": f"clip={clip}"} for clip in (1, 2, 4, 8, 15)
    },
    "what breaks sinusoidal": {  # one factor at a time
        "as it is": SINUSOIDAL,
        "positions: every one to 255 seen, in runs of 16": SHIFTED,
        "positions: every distance seen too (randomized)": {"encoding": "randomized", **AUGMENTED},
        "pooling: max": {**SINUSOIDAL, "pooling": "max"},
        "pooling: CLS": {**SINUSOIDAL, "pooling": "cls"},
        "pooling: min": {**SINUSOIDAL, "pooling": "min"},
        "attention: the two neighbours only": {**SINUSOIDAL, "window": 1},
        "data: online items": {**ONLINE, "narrow": 0.0, "adjacent": 0.0},
        "data: online items, half of them dense": {**ONLINE, "narrow": 0.5, "adjacent": 0.0},
        "data: online items, half of the unsorted ones hard": {**ONLINE, "narrow": 0.0, "adjacent": 0.5},
    },
    "what the hard test needs": {  # one factor less at a time, and none of them
        "everything": LOCAL,
        "without the window": {**LOCAL, "window": 0},
        "without min pooling (mean)": {**LOCAL, "pooling": "mean"},
        "without hard items in training": {**LOCAL, "adjacent": 0.0},
        "without dense items in training": {**LOCAL, "narrow": 0.0},
        "without smooth values to start with": {**LOCAL, "smooth": False},
        "with sinusoidal positions instead": {**LOCAL, "encoding": "sinusoidal", "options": ""},
        "with clipped bias instead": {**LOCAL, "encoding": "clipped"},
        "the assignment's items instead": {**LOCAL, "data": "exact"},
        "the assignment's items, squeezed": {**LOCAL, "data": "exact", "augment": "squeeze"},
        "full attention and mean pooling": {**LOCAL, "window": 0, "pooling": "mean"},
    },
}


# --- the runs --------------------------------------------------------------------------------------------------------


class Training(NamedTuple):
    """What a study asks for; several studies may ask for the same recipe."""

    study: str
    name: str
    recipe: ClassifierRecipe


def study_seeds(count: int) -> list[int]:
    """The first seeds by which nothing was chosen."""
    return [seed for seed in range(count + len(CHOICE_SEEDS)) if seed not in CHOICE_SEEDS][:count]


def trainings(seeds: int = SEEDS["encodings"]) -> list[Training]:
    """All that the studies ask for; `seeds` is how many those get that compare encodings."""
    return [
        Training(study, name, ClassifierRecipe(seed=seed, **options))
        for study, classifiers in STUDIES.items()
        for name, options in classifiers.items()
        for seed in study_seeds(quick(seeds if study in COMPARED else SEEDS.get(study, SEEDS["studies"]), 1))
    ]


def recipes_of(declared: Sequence[Training]) -> dict[str, ClassifierRecipe]:
    """{key: recipe}: what several studies ask for is trained once."""
    return {training.recipe.key: training.recipe for training in declared}


def candidates() -> list[tuple[str, ClassifierRecipe]]:
    return [
        (name, ClassifierRecipe(seed=seed, **options)) for name, options in CANDIDATES.items() for seed in CHOICE_SEEDS
    ]


def grids(declared: Sequence[Training]) -> list[Grid]:
    """All runs, as (function, configurations)."""
    compared = {ClassifierRecipe(**options) for study in COMPARED for options in STUDIES[study].values()}

    def far(recipe: ClassifierRecipe) -> bool:
        return replace(recipe, seed=ClassifierRecipe.seed) in compared  # whatever the seed, and however many there are

    return [
        (train_and_develop, [asdict(recipe) for _, recipe in candidates()]),
        (train_and_examine, [{"far": far(recipe), **asdict(recipe)} for recipe in recipes_of(declared).values()]),
        (certify_seed, [{"seed": seed} for seed in study_seeds(quick(SEEDS["studies"], 1))]),
    ]


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
    """A classifier of a study: every set at every length; under other policies than its own the longer ones of them.
    With `far` also 512 and 1,024, under its own policy and interpolated: others have no positions there, or no promise.
    """
    model, facts = train_and_describe(fields)
    test = examine(model, grouped_test_items().values())
    own, *others = policies_for(model)
    farther = far_sets() if far else []
    rows = [{"policy": own, **row} for row in evaluate(model, all_sets() + farther)]
    beyond = [each for each in exact_sets() + new_sets(("swaps", "adjacent")) if each.length in LONG_LENGTHS]
    for policy in others:
        sets = beyond + farther if policy == "interpolate" else beyond
        with with_policy(model, policy):
            rows += [{"policy": policy, **row} for row in evaluate(model, sets)]
    return {**facts, **{f"test {name}": value for name, value in test.items()}, **position_facts(model), "rows": rows}


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


def study_tables(
    chosen: pd.DataFrame, studied: pd.DataFrame, certificates: pd.DataFrame, declared: Sequence[Training]
) -> dict[str, pd.DataFrame]:
    """The published tables, from the rows of the runs: `grids(declared)` in their order."""
    chosen = pd.DataFrame({"name": [name for name, _ in candidates()]}).join(chosen)
    chosen, chosen_rows = split_rows(chosen, ["name", "seed"])
    studied, studied_rows = split_rows(studied.assign(key=list(recipes_of(declared))), ["key"])
    names = pd.DataFrame([{"study": t.study, "name": t.name, "key": t.recipe.key} for t in declared])
    tables = chosen, chosen_rows, names.merge(studied, on="key", validate="many_to_one"), studied_rows, certificates
    return dict(zip(published.STUDY, tables, strict=True))


# --- publishing ------------------------------------------------------------------------------------------------------


def check_study(classifiers: pd.DataFrame) -> None:
    """Refuse what has fewer seeds than the published rows of the same study, a quick look, and rows of mixed code."""
    before = published.table("classifiers").groupby("study")["seed"].nunique()
    for study, rows in classifiers.groupby("study", sort=False):
        check_publishable(QUICK, rows, before.get(study, 0))


def publish_study(
    chosen: pd.DataFrame, studied: pd.DataFrame, certificates: pd.DataFrame, declared: Sequence[Training]
) -> None:
    """Tables, rows and weights, as a whole: whatever fails leaves what is published as it was."""
    tables = study_tables(chosen, studied, certificates, declared)
    check_study(tables["classifiers"])
    for name in ("candidates", "certificates"):
        check_publishable(QUICK, tables[name], published.table(name)["seed"].nunique())
    check_publishable(QUICK, pd.concat([chosen, studied, certificates]), published_seeds=0)  # one code in all of them
    keyed = tables["candidates"].assign(key=[recipe.key for _, recipe in candidates()])
    same_models({"candidates": keyed, "classifiers": tables["classifiers"]}, by="key")
    with staged(published.FOLDER) as stage:
        published.write_tables(tables, stage)
        pack_rows(grids(declared), RESULTS / "grid", stage / published.RUNS)
        publish_classifiers(tables["classifiers"], stage)
        publish_certified(certificates, stage)


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


def sweep(seeds: int, part: tuple[int, int] = (1, 1), extend: bool = False, publish: bool = False) -> None:
    declared = trainings(seeds)
    if publish:  # told before hours of runs rather than after them
        check_study(pd.DataFrame([{"study": t.study, "seed": t.recipe.seed, "code": ""} for t in declared]))
    if extend:
        archive = published.FOLDER / published.RUNS
        if not archive.exists():
            raise UserError("there are no published runs to begin with; leave --extend out.")
        unpack_rows(archive, RESULTS / "grid")
    chosen, studied, certificates = run_grids(grids(declared), RESULTS / "grid", part)
    folder = published.FOLDER if publish else RESULTS / "sweep"
    if publish:
        publish_study(chosen, studied, certificates, declared)
    else:
        published.write_tables(study_tables(chosen, studied, certificates, declared), folder)
    print(f"what was written is in {folder}")


def main() -> None:
    parser = Parser(prog="python -m problem2.sweep", description=(__doc__ or "").splitlines()[0])
    add_sweep_options(parser, "problem2", SEEDS["encodings"])
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        sweep(arguments.seeds, arguments.part, arguments.extend, arguments.publish)


if __name__ == "__main__":
    main()
