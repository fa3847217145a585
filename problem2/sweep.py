"""The trainings behind the claims of problem 2: `python -m problem2.sweep`.

What is open is chosen first, by trainings of their own seeds, on validation and on the development lengths 24, 48 and
96 (CANDIDATES). Then everything is trained anew with other seeds (STUDIES), and only these judges read the assignment's
long sets. With `--publish` tables and weights go to problem2/published. With `--scheduler` the runs go to a Dask
cluster; weights stay with its workers, so the few judges that are published are trained again here. With `--extend`
what is published counts as done: more seeds then cost only their own runs.
"""

import argparse
import json
import shutil
from dataclasses import asdict, replace

import pandas as pd

from problem1.commands import add_sweep_options, one_sentence
from problem1.grid import pack_rows, run_grids, unpack_rows
from problem1.settings import quick
from problem1.storage import atomic_path, require_weights, weights_hash
from problem2.certificate import PUBLISHED
from problem2.dataset import LONG_LENGTHS
from problem2.encodings import ENCODINGS
from problem2.evaluation import (
    all_sets,
    asked,
    development_sets,
    evaluate,
    exact_sets,
    examine,
    far_sets,
    fresh_sets,
    grouped_test_items,
    ways,
)
from problem2.mathematics import position_facts
from problem2.repair import train_certified
from problem2.train import RESULTS, JudgeRecipe, train_judge

# --- the declaration -------------------------------------------------------------------------------------------------

ASSIGNED = ("sinusoidal", "learned", "none")
CHOICE_SEEDS = range(10, 12)  # of the trainings by which something was chosen; nothing else is trained with them
SEEDS = {"encodings": 10, "studies": 3, "assignment shape": 1}  # how many; none was left out after it was trained
COMPARED = ("plain", "augmented")  # the studies that compare encodings: these are examined at 512 and 1,024 too

AUGMENTED = {"smooth": True, "augment": "shift"}  # smooth values to start with; values reflected and moved
PREPARATIONS = {
    "plain": {},
    "smooth": {"smooth": True},
    "shift": {"augment": "shift"},
    "augmented": AUGMENTED,
}
SPANS, CLIPS = (256, 1_024, 2_048), {"clipped": (1, 2, 4, 8), "shaw": (1, 2, 8)}

SINUSOIDAL = {"encoding": "sinusoidal", **AUGMENTED}
FRESH = {"encoding": "sinusoidal", "smooth": True, "data": "fresh"}
LOCAL = {
    "encoding": "shaw",
    "options": "clip=1",
    "window": 1,
    "pooling": "worst",
    "smooth": True,
    "data": "fresh",
    "steps": quick(2_560, 160),
}

CANDIDATES = {
    **{
        f"{encoding}, {name}": {"encoding": encoding, **options}
        for encoding in ("sinusoidal", "learned")
        for name, options in PREPARATIONS.items()
    },
    **{f"causal, {name}": {"encoding": "causal", **PREPARATIONS[name]} for name in ("plain", "augmented")},
    **{
        f"randomized, range {span:,}, {name}": {
            "encoding": "randomized",
            "options": f"span={span}",
            **PREPARATIONS[name],
        }
        for span in SPANS
        for name in ("plain", "augmented")
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

STUDIES = {
    "plain": {name: {"encoding": name} for name in ENCODINGS},
    "augmented": {name: {"encoding": name, **AUGMENTED} for name in ENCODINGS},
    "assignment shape": {name: {"encoding": name, "shape": "assignment", **AUGMENTED} for name in ASSIGNED},
    "how many distances are told apart": {
        str(clip): {"encoding": "clipped", "options": f"clip={clip}"} for clip in (1, 2, 4, 8, 15)
    },
    "what breaks sinusoidal": {  # one factor at a time
        "as it is": SINUSOIDAL,
        "positions: every one to 255 seen, in runs of 16": {
            **SINUSOIDAL,
            "options": "shift=241",
            "steps": quick(5_120, 160),  # it learns far more slowly
        },
        "positions: every distance seen too (randomized)": {"encoding": "randomized", **AUGMENTED},
        "pooling: max": {**SINUSOIDAL, "pooling": "max"},
        "pooling: CLS": {**SINUSOIDAL, "pooling": "cls"},
        "pooling: worst token": {**SINUSOIDAL, "pooling": "worst"},
        "attention: the two neighbours only": {**SINUSOIDAL, "window": 1},
        "data: fresh items in every step": {**FRESH, "narrow": 0.0, "adjacent": 0.0},
        "data: fresh, half of them dense": {**FRESH, "narrow": 0.5, "adjacent": 0.0},
        "data: fresh, half of the unsorted ones hard": {**FRESH, "narrow": 0.0, "adjacent": 0.5},
    },
    "what the hard test needs": {  # one factor less at a time, and none of them
        "everything": LOCAL,
        "without the window": {**LOCAL, "window": 0},
        "without worst-token pooling (mean)": {**LOCAL, "pooling": "mean"},
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


def study_seeds(count):
    """The first seeds by which nothing was chosen."""
    return [seed for seed in range(count + len(CHOICE_SEEDS)) if seed not in CHOICE_SEEDS][:count]


def runs(seeds=SEEDS["encodings"]):
    """One row for each training that a study asks for: study, name, and the recipe; a recipe may serve several.
    `seeds` is how many the studies get that compare encodings."""
    return [
        {"study": study, "name": name, "recipe": JudgeRecipe(seed=seed, **options)}
        for study, judges in STUDIES.items()
        for name, options in judges.items()
        for seed in study_seeds(quick(seeds if study in COMPARED else SEEDS.get(study, SEEDS["studies"]), 1))
    ]


def recipes_of(asked_for):
    """{key: recipe}: what several studies ask for is trained once."""
    return {row["recipe"].key: row["recipe"] for row in asked_for}


def candidates():
    return [(name, JudgeRecipe(seed=seed, **options)) for name, options in CANDIDATES.items() for seed in CHOICE_SEEDS]


def grids(asked_for):
    """All runs, as (function, configurations)."""
    compared = {JudgeRecipe(**options) for study in COMPARED for options in STUDIES[study].values()}

    def examine_far(recipe):
        return replace(recipe, seed=JudgeRecipe.seed) in compared  # whatever the seed, and however many are asked for

    return [
        (train_and_develop, [asdict(recipe) for _, recipe in candidates()]),
        (
            train_and_examine,
            [{"far": examine_far(recipe), **asdict(recipe)} for recipe in recipes_of(asked_for).values()],
        ),
        (certify_seed, [{"seed": seed} for seed in study_seeds(quick(SEEDS["studies"], 1))]),
    ]


# --- one training and what is asked of it ----------------------------------------------------------------------------


def train(fields):
    """The judge of these fields of a recipe, and what its training says about it."""
    model, log = train_judge(JudgeRecipe(**fields), progress=False)
    best = next(row for row in log["rows"] if row["step"] == log["best step"])
    facts = {
        "best step": log["best step"],
        "training loss": best["training loss"],
        "validation loss": best["validation loss"],
        "validation accuracy": best["validation accuracy"],
        "cpu seconds": log["cpu seconds"],
        "weights": weights_hash(model),
    }
    return model, facts


def train_and_develop(**fields):
    """A candidate: validation and the development lengths, nothing else."""
    model, facts = train(fields)
    rows = []
    for way in ways(model):
        with asked(model, way):
            rows += [{"way": way, **row} for row in evaluate(model, development_sets())]
    return {**facts, "rows": rows}


def train_and_examine(far, **fields):
    """A judge of a study: every set at every length; asked in other ways, the longer ones of them. With `far` it is
    examined at 512 and 1,024 too, in its own way and rescaled (other ways have no positions for that, or no promise).
    """
    model, facts = train(fields)
    test = examine(model, grouped_test_items().values())
    own, *others = ways(model)
    farther = far_sets() if far else []
    rows = [{"way": own, **row} for row in evaluate(model, all_sets() + farther)]
    beyond = [e for e in exact_sets() + fresh_sets(("swaps", "adjacent")) if e.length in LONG_LENGTHS]
    for way in others:
        with asked(model, way):
            rows += [{"way": way, **row} for row in evaluate(model, beyond + (farther if way == "rescale" else []))]
    return {**facts, **{f"test {name}": value for name, value in test.items()}, **position_facts(model), "rows": rows}


def certify_seed(seed):
    """One training with repair: does the certificate hold?"""
    _, certificate, report = train_certified(seed, progress=False)
    return {
        "certified": certificate.certified,
        "rounds of repair": len(report["repair"]) - 1,
        "lowest sorted logit": certificate.lowest_sorted,
        "highest unsorted logit": certificate.highest_unsorted,
        "largest numerical difference": max(certificate.float_difference, certificate.table_difference),
        "left to repair before": report["repair"][0]["sorted pieces"] + report["repair"][0]["missed descents"],
        "cpu seconds": report["cpu seconds of training"] + report["cpu seconds of repair"],
    }


# --- tables ----------------------------------------------------------------------------------------------------------


def split_rows(table, keys):
    """A table whose column `rows` holds lists -> the table without it, and all rows under the keys of their list."""
    rows = pd.concat(
        [
            pd.DataFrame(rows).assign(**{key: row[key] for key in keys})
            for (_, row), rows in zip(table.iterrows(), table["rows"], strict=True)
        ]
    )
    return table.drop(columns="rows"), rows[[*keys, *(column for column in rows if column not in keys)]]


def write_table(table, path):
    with atomic_path(path) as temporary:
        table.to_csv(temporary, index=False, float_format="%.5g")


def publish_judges(trainings, certificates, folder):
    """One judge of each encoding and the certified one; each is loaded, or trained here."""
    weights = trainings.set_index("key")["weights"].groupby("key").first()
    copies, grid = {}, RESULTS / "grid"
    for name in ENCODINGS:
        recipe = JudgeRecipe(seed=0, encoding=name, **AUGMENTED)
        run = RESULTS / "runs" / recipe.name
        require_weights(weights_hash(train_judge(recipe)[0]), weights[recipe.key], run, grid)
        copies[f"judges/{name}.safetensors"] = run / "model.safetensors"
    run = RESULTS / "certified" / "seed0"
    if not (run / "certificate.json").exists():
        train_certified(0)
    margin = json.loads((run / "certificate.json").read_text())["lowest_sorted"]  # differs if the weights do
    require_weights(margin, certificates.set_index("seed")["lowest sorted logit"][0], run, grid)
    copies |= {name: run / name for name in ("judge.safetensors", "certificate.json")}
    for name, source in copies.items():
        with atomic_path(folder / name) as temporary:
            shutil.copyfile(source, temporary)


def sweep(seeds, folder, scheduler=None, extend=False, publish=False):
    if extend:
        unpack_rows(PUBLISHED / "runs.zip", RESULTS / "grid")
    asked_for = runs(seeds)
    chosen, studied, certificates = run_grids(grids(asked_for), RESULTS / "grid", scheduler)
    chosen.insert(0, "name", [name for name, _ in candidates()])
    chosen, chosen_rows = split_rows(chosen, ["name", "seed"])
    studied.insert(0, "key", list(recipes_of(asked_for)))
    studied, studied_rows = split_rows(studied, ["key"])
    names = pd.DataFrame([{"study": r["study"], "name": r["name"], "key": r["recipe"].key} for r in asked_for])
    tables = {
        "candidates": chosen,
        "candidates_evaluated": chosen_rows,
        "judges": names.merge(studied, on="key", validate="many_to_one"),
        "judges_evaluated": studied_rows,
        "certificates": certificates,
    }
    for name, table in tables.items():
        write_table(table, folder / f"{name}.csv")
    if publish:
        publish_judges(tables["judges"], certificates, folder)
        pack_rows(grids(asked_for), RESULTS / "grid", folder / "runs.zip")
    print(f"what was written is in {folder}")


def main():
    parser = argparse.ArgumentParser(prog="python -m problem2.sweep", description=__doc__.splitlines()[0])
    add_sweep_options(parser, "problem2", SEEDS["encodings"])
    arguments = parser.parse_args()
    folder = PUBLISHED if arguments.publish else RESULTS / "sweep"
    with one_sentence(parser.prog):
        sweep(arguments.seeds, folder, arguments.scheduler, arguments.extend, arguments.publish)


if __name__ == "__main__":
    main()
