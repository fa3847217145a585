"""What is trained, and why: the declaration behind `python -m problem2.sweep`.

What is open is chosen first, by trainings with seeds of their own, on validation and on the development lengths 24, 48
and 96 (CANDIDATES). Then everything is trained anew with other seeds (STUDIES), and only these classifiers read the
assignment's long sets. One study goes on by rules that are stated here (HARD_STUDY): on the hard test with full
attention, what is good enough on a development length gets ten seeds, and what is good enough at 1,024 is asked about
4,096. Budget: 12 CPU hours for this sweep and that of problem 1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import pandas as pd

from problem1.shared.settings import quick
from problem2.encodings import ASSIGNED, ENCODINGS
from problem2.train import AUGMENTED, ClassifierRecipe

Fields = dict[str, Any]  # of a recipe

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

# The hard test with full attention: every encoding, with and without scalable softmax. Three seeds; ten for those that
# reach 99 % on the development length 96 in each of these; 4,096 for those that reach 99.5 % at 1,024 in each of ten.
UNWINDOWED: Fields = {**LOCAL, "window": 0}
NEIGHBOURS = {"clipped": "clip=1", "shaw": "clip=1", "shaw with values": "clip=1,values=1"}  # as in LOCAL
HARD_STUDY: dict[str, Fields] = {
    f"{name}{', scalable softmax' * scalable}": {
        **UNWINDOWED,
        "encoding": name.removesuffix(" with values"),
        "options": ",".join(filter(None, [NEIGHBOURS.get(name, ""), "ssmax=1" * scalable])),
    }
    for name in [*ENCODINGS, "shaw with values"]
    for scalable in (False, True)
}
CONFIRMED_FROM, FARTHEST_FROM = (96, 0.99), (1_024, 0.995)  # balanced accuracy at this length


# --- the recipes -----------------------------------------------------------------------------------------------------


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


def hard_trainings(seeds: Sequence[int], names: Iterable[str] = HARD_STUDY) -> list[dict[str, Any]]:
    """Configurations of `train_on_hard_items`."""
    recipes = [(name, ClassifierRecipe(seed=seed, **HARD_STUDY[name])) for name in names for seed in seeds]
    return [{"name": name, **asdict(recipe)} for name, recipe in recipes]


def reaching(hard: pd.DataFrame, length: int, least: float) -> list[str]:
    """The names in these rows of runs that reach this balanced accuracy at this length in each of their seeds."""
    lowest: dict[str, float] = {}
    for name, rows in zip(hard["name"], hard["rows"], strict=True):
        (score,) = (row["balanced accuracy"] for row in rows if row["length"] == length)
        lowest[name] = min(score, lowest.get(name, 1))
    return [name for name, score in lowest.items() if score >= least]


def recipes_of(declared: Sequence[Training]) -> dict[str, ClassifierRecipe]:
    """{key: recipe}: what several studies ask for is trained once."""
    return {training.recipe.key: training.recipe for training in declared}


def candidates() -> list[tuple[str, ClassifierRecipe]]:
    return [
        (name, ClassifierRecipe(seed=seed, **options)) for name, options in CANDIDATES.items() for seed in CHOICE_SEEDS
    ]
