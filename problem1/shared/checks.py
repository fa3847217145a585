"""A checklist for experiments. Give it predictions, labels and splits; it says what makes a score hard to believe.

    constant_answer   whatever is asked, the answer is the same
    missing_answers   some right answers are never given
    class_share       the accuracy is the share of a class, so the model may know nothing but that class
    leaks             items that stand in two splits, as they are or in reverse order
    teacher_forcing   a score with the right digits before each digit that free-running decoding does not reach

Each returns a list of sentences, empty if there is nothing to say; `warnings_about` asks all of them. Predictions and
labels are arrays, tensors or lists, one answer per item (N,) or several positions each (N, positions), such as the
digits of a sum; positions are checked one by one, counted from 1.
"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from problem1.shared.errors import UserError

MOST_CLASSES = 20  # a position with more labels than these has no classes: any accuracy is the share of one


def warnings_about(
    predictions: ArrayLike,
    labels: ArrayLike,
    splits: Mapping[str, ArrayLike] | None = None,
    teacher_forced: ArrayLike | None = None,
) -> list[str]:
    """All warnings about one experiment: `splits` is {name: items}, `teacher_forced` are predictions made with the
    right positions before each position given."""
    sentences = constant_answer(predictions, labels) + missing_answers(predictions, labels)
    sentences += class_share(predictions, labels)
    if teacher_forced is not None:
        sentences += teacher_forcing(teacher_forced, predictions, labels)
    if splits is not None:
        sentences += leaks(splits)
    return sentences


def constant_answer(predictions: ArrayLike, labels: ArrayLike) -> list[str]:
    """Positions at which every prediction is the same although the labels differ."""
    return [
        f"Every answer{where} is {said[0]}, whatever is asked; {share(right == said[0])} of the labels are."
        for where, said, right in positions(predictions, labels)
        if (said == said[0]).all() and (right != right[0]).any()
    ]


def missing_answers(predictions: ArrayLike, labels: ArrayLike) -> list[str]:
    """Positions at which some labels are never predicted, though other answers vary."""
    sentences = []
    for where, said, right in positions(predictions, labels):
        never = np.setdiff1d(right, said)
        if len(never) and len(np.unique(said)) > 1 and len(np.unique(right)) <= MOST_CLASSES:
            names = ", ".join(map(str, never))
            sentences.append(f"{names} is never answered{where}, but {share(np.isin(right, never))} of the labels are.")
    return sentences


def class_share(predictions: ArrayLike, labels: ArrayLike) -> list[str]:
    """Classes whose share equals the accuracy to the last item; a class is a label at one position."""
    said, wanted = both(predictions, labels)
    right_answers, sentences = (said == wanted).all(1), []
    for where, _, right in positions(predictions, labels):
        classes = np.unique(right)
        if right_answers.all() or not 1 < len(classes) <= MOST_CLASSES:
            continue
        equal = [label for label in classes if (right == label).sum() == right_answers.sum()]
        exact = [label for label in equal if ((right == label) == right_answers).all()]
        same = "these are the items answered right" if exact else "by chance?"
        sentences += [
            f"The accuracy, {share(right_answers)}, is the share of items labelled {label}{where}: {same}."
            for label in exact or equal
        ]
    return sentences


def leaks(splits: Mapping[str, ArrayLike]) -> list[str]:
    """How many items of a split stand in one named before it: as they are, or in either order (reversed ones too)."""
    rows = {name: [tuple(item) for item in as_rows(items).tolist()] for name, items in splits.items()}
    sentences = []
    for (first, shown), (name, items) in combinations(rows.items(), 2):
        same, turned = set(shown), {item[::-1] for item in shown}
        as_they_are = sum(item in same for item in items)
        either = sum(item in same or item in turned for item in items)
        if either:
            sentences.append(
                f"{first} and {name} are not apart: of the {len(items):,} items in {name}, {as_they_are:,} are in "
                f"{first} as they stand and {either:,} in either order."
            )
    return sentences


def teacher_forcing(teacher_forced: ArrayLike, predictions: ArrayLike, labels: ArrayLike) -> list[str]:
    """Is the teacher-forced accuracy higher than the free-running one? Whole answers are counted."""
    forced, right = both(teacher_forced, labels)
    free, _ = both(predictions, labels)
    forced, free = (forced == right).all(1), (free == right).all(1)
    if forced.sum() <= free.sum():
        return []
    return [f"Teacher forcing is credited with {share(forced)}, free-running decoding reaches {share(free)}."]


# --- reading what is given -------------------------------------------------------------------------------------------


def as_rows(values: ArrayLike) -> np.ndarray:
    """An array (N, positions) of an array, a tensor or a list; (N,) has one position."""
    try:
        rows = np.asarray(values)
    except ValueError:
        raise UserError("the rows have different lengths; they must form an array (items, positions).") from None
    if rows.ndim not in (1, 2) or not rows.size:
        raise UserError(f"the values have the shape {rows.shape}; it must be (items,) or (items, positions).")
    return rows.reshape(len(rows), -1)


def both(predictions: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    predictions, labels = as_rows(predictions), as_rows(labels)
    if predictions.shape != labels.shape:
        raise UserError(f"predictions are {predictions.shape} and labels {labels.shape}; they must have one shape.")
    return predictions, labels


def positions(predictions: ArrayLike, labels: ArrayLike) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """One (words, predictions, labels) for each position."""
    predictions, labels = both(predictions, labels)
    many = labels.shape[1] > 1
    return [(f" at position {i + 1}" if many else "", predictions[:, i], labels[:, i]) for i in range(labels.shape[1])]


def share(chosen: np.ndarray) -> str:
    """'41.20 % (824 of 2,000)'"""
    return f"{chosen.mean():.2%} ({chosen.sum():,} of {len(chosen):,})".replace("%", " %")
