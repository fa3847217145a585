"""Findings about accuracies by length."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from .facts import LONG, LONG_SIZE, TRAINED, class_shares
from .finding import CERTAIN, LIKELY, QUESTION, Finding, Score, as_scores, listed, matching
from .recognising import Found, Value

ASSIGNED = ("sinusoidal", "learned", "none")


class Row:
    """The accuracies of one model: {length: score}."""

    def __init__(self, file: str, encoding: str, series: tuple[str, ...]) -> None:
        self.file, self.encoding, self.series = file, encoding, series
        self.scores: dict[int, Score] = {}
        self.explained, self.assumed = False, False
        self.items: dict[int, int] = {}

    @property
    def name(self) -> str:
        return " ".join([self.encoding or "the model", *self.series])

    def at(self, lengths: tuple[int, ...]) -> dict[int, Score]:
        return {length: self.scores[length] for length in lengths if length in self.scores}

    def own_sets(self) -> dict[int, Score]:
        """Beyond training, as far as the number of items is the assignment's."""
        return {length: score for length, score in self.at(LONG).items() if self.items.get(length, LONG_SIZE) == LONG_SIZE}


def rows_of(found: Found) -> list[Row]:
    rows: dict[tuple[str, str, tuple[str, ...]], Row] = {}
    files = defaultdict(list)
    for value in found.lengths:
        files[value.file].append(value)
    for file, values in files.items():
        for value, score in zip(values, as_scores([value.number for value in values]), strict=True):
            series = value.group if value.place.encoding else ()
            row = rows.setdefault((file, value.encoding, series), Row(file, value.encoding, series))
            row.scores.setdefault(value.place.length or 0, score)
            row.explained |= value.place.explained
            row.assumed |= value.place.assumed
            if value.place.items:
                row.items[value.place.length or 0] = value.place.items
    return [row for row in rows.values() if row.at(LONG) or len(row.at(TRAINED)) > 1]


def extrapolation_findings(found: Found) -> Iterator[Finding]:
    rows = rows_of(found)
    for row in rows:
        yield from class_share(row)
        yield from too_good(row)
        yield from no_items(row)
        yield from outside(row)
    yield from same_numbers(rows)
    yield from opposite_numbers(rows)
    if rows:
        yield from incomplete(rows)


def shares_of(row: Row) -> dict[int, str]:
    """{length: which class} where the accuracy is a class share."""
    found = {}
    for length, score in row.own_sets().items():
        if share := matching(score, class_shares(length)):
            found[length] = share.of.split()[0]
    return found


def class_share(row: Row) -> Iterator[Finding]:
    if row.explained or row.encoding == "none":  # without positions one answer is right: see `remarks`
        return
    shares, scores = shares_of(row), row.own_sets()
    places = listed(f"{score} at {length}" for length, score in scores.items() if length in shares)
    at_the_end = bool(shares) and list(scores)[-len(shares) :] == list(shares) and len(set(shares.values())) == 1
    if len(shares) >= 2 and (at_the_end or len(shares) >= len(scores) - 1) or (len(scores) == 1 and shares):
        tells = all(scores[length].tells(LONG_SIZE) for length in shares)
        count = f"at {len(shares)} of {len(scores)} lengths"
        classes = set(shares.values())
        certain = tells and len(shares) == len(scores) and len(shares) >= 2 and not row.assumed
        answer = f"'{classes.pop()}'" if len(classes) == 1 else "one class at each length"
        constant = len(shares) >= 3 and tells
        yield Finding(
            "class share", CERTAIN if certain else LIKELY if tells and len(scores) > 1 else QUESTION, 1, row.file,
            f"{row.name}: {places} {'are' if len(shares) > 1 else 'is'}, {'to the last item' if tells else 'as far as printed'}, the share of one class ({count}).",
            f"{'The model' if constant else 'It is likely that the model'} answers {answer} to every item, whatever it holds: the numbers describe the sets, not the model, and .514 is no better than .486."
            + ("" if constant else " One such number alone can be chance."),
            "Count how often each class is predicted at each length.",
            "Report balanced accuracy or the share of each class predicted beside the accuracy; if the training died, train again.",
        )  # fmt: skip
    halves = [length for length, score in row.at(LONG).items() if score.equals(0.5) and score.tells(LONG_SIZE)]
    if len(halves) >= 2 and not row.explained and not shares:
        yield Finding(
            "class share", LIKELY, 1, row.file,
            f"{row.name}: the accuracy is exactly 0.500 at {listed(halves)}.",
            "On sets with as many sorted as unsorted items this is one answer for every item. The assignment's sets hold 227, 257, 259 and 256 sorted of 500: these are others.",
            "Count how often each class is predicted; compare the sets with the assignment's.", "Draw the sets from the assignment's seeds; report the share of each class predicted.",
        )  # fmt: skip


def remarks(found: Found) -> Iterator[str]:
    """What looks like a finding and is none."""
    for row in rows_of(found):
        shares = shares_of(row)
        if row.encoding == "none" and len(shares) >= 3 and not row.explained:
            yield f"{row.file}: {row.name} has class shares at {listed(sorted(shares))}, as one answer for every item has: without positions there is nothing better."


def too_good(row: Row) -> Iterator[Finding]:
    far = row.at((64, 128, 256))
    if row.explained:
        return
    if row.encoding == "sinusoidal" and len(far) >= 2 and min(score.value for score in far.values()) >= 0.95:
        yield Finding(
            "plain positions extrapolate", QUESTION, 3, row.file, f"{row.name}: {listed(f'{score} at {length}' for length, score in far.items())}.",
            "Plain sinusoidal positions end in one answer for every item there in nearly every training we know. Are positions stretched to the trained range, "
            "are the sets easier (fully shuffled, balanced), or does padding show through?",
            "Evaluate the saved weights on the assignment's sets and on sorted sequences with one adjacent pair swapped.", "Name the encoding by what it does, for instance interpolated; use the assignment's sets.",
        )  # fmt: skip
    if row.encoding == "none" and row.scores and max(score.value for score in row.scores.values()) > 0.65:
        best = max(row.scores.items(), key=lambda pair: pair[1].value)
        yield Finding(
            "order without positions", QUESTION, 2, row.file, f"{row.name}: {best[1]} at length {best[0]}, without positions.",
            "An encoder without positions and without a causal mask sees a bag of values, in which order does not show: it cannot be better than chance.",
            "Shuffle a sequence: the output must stay the same.", "Find where order enters (a mask, padding, recurrent parts), and name it.",
        )  # fmt: skip


def no_items(row: Row) -> Iterator[Finding]:
    odd = {length: score for length, score in row.at(LONG).items() if 0 <= score.value <= 1 and not score.is_whole(row.items.get(length, LONG_SIZE))}
    if odd:
        length, score = next(iter(odd.items()))
        size = row.items.get(length, LONG_SIZE)
        yield Finding(
            "no whole number of items", CERTAIN if length in row.items else QUESTION, 3, row.file,
            f"{row.name}: {score.value:.6g} at {length} is no whole number of {size} items ({score.value * size:.2f}).",
            "It is of other items than the assignment's 500, a mean over seeds, or a mean over batches of different size.", "Multiply by the number of items.",
            "Count right answers and divide once; write number of items and seeds into the file.",
        )  # fmt: skip


def outside(row: Row) -> Iterator[Finding]:
    wrong = {length: score for length, score in row.scores.items() if not -score.tolerance <= score.value <= 1 + score.tolerance}
    if wrong:
        yield Finding(
            "impossible numbers", CERTAIN, 2, row.file, f"{row.name}: {listed(f'{score.value:.4g} at {length}' for length, score in wrong.items())}.",
            "An accuracy lies between 0 and 1, or 0 and 100 %.", "Recompute one of them.", "Write all accuracies in one unit.",
        )  # fmt: skip


# --- two encodings ---------------------------------------------------------------------------------------------------


def neighbours(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    for left, right in combinations(rows, 2):
        if left.encoding != right.encoding and left.series == right.series and not (left.explained and right.explained):
            yield left, right


def common(left: Row, right: Row) -> list[int]:
    return sorted(left.scores.keys() & right.scores.keys())


def same_numbers(rows: list[Row]) -> Iterator[Finding]:
    for left, right in neighbours(rows):
        lengths = common(left, right)
        same = [length for length in lengths if left.scores[length].value == right.scores[length].value]
        beyond = [length for length in same if length > max(TRAINED)]
        if len(beyond) < 3 or len(beyond) < sum(length > max(TRAINED) for length in lengths):
            continue
        if min(left.scores[length].value for length in same) > 0.99:
            continue
        shares = set(beyond) & shares_of(left).keys()
        means = (
            "Both answer the same class to every item there: the comparison says nothing about the encodings."
            if len(shares) == len(beyond) else
            "Two models do not agree to the last item by chance: one model was evaluated twice, or the file was copied, or the encoding has no effect."
        )  # fmt: skip
        yield Finding(
            "the same numbers", CERTAIN, 2, left.file, f"{left.name} and {right.name} have the same accuracies at {len(same)} of {len(lengths)} lengths ({listed(same, 8)}).",
            means, "Compare the predictions of both item by item, and the weights.", "Evaluate each model's own weights; count how often each class is predicted.",
        )  # fmt: skip


def opposite_numbers(rows: list[Row]) -> Iterator[Finding]:
    for left, right in neighbours(rows):
        lengths = common(left, right)
        turned = [n for n in lengths if abs(left.scores[n].value + right.scores[n].value - 1) < 1e-9 and not left.scores[n].equals(0.5)]
        if len(turned) >= 3 and len(turned) >= len(lengths) - 1 and "none" not in (left.encoding, right.encoding):
            yield Finding(
                "opposite numbers", CERTAIN, 2, left.file, f"{left.name} and {right.name} add up to 1.000 at {len(turned)} of {len(lengths)} lengths ({listed(turned, 8)}).",
                "Where one is right, as many items are wrong in the other: the likely reason is that both answer one class to every item, and not the same one.",
                "Compare the predictions of both item by item.", "Count how often each class is predicted before comparing encodings.",
            )  # fmt: skip


# --- what is missing -------------------------------------------------------------------------------------------------


def incomplete(rows: list[Row]) -> Iterator[Finding]:
    file = rows[0].file
    lengths = {length for row in rows for length in row.scores}
    encodings = {row.encoding for row in rows}
    gone = [str(length) for length in TRAINED + LONG if length not in lengths]
    absent = [name for name in ASSIGNED if not any(name in encoding.split() for encoding in encodings)]
    if gone:
        yield Finding(
            "lengths missing", CERTAIN, 3, file, f"There are no accuracies at {'lengths' if len(gone) > 1 else 'length'} {listed(gone, 8)}.",
            "Without the trained lengths nobody can see what the model knew before it failed." if gone[0] in map(str, TRAINED) else "The assignment asks for them.",
            "Compare with the assignment: 8, 12, 16, 32, 64, 128, 256.", "Evaluate at these lengths, too.",
        )  # fmt: skip
    if absent and any(encodings):
        yield Finding(
            "encodings missing", CERTAIN, 3, file, f"There are no accuracies of {listed(absent)}.", "The assignment compares sinusoidal, learned and none.",
            "Compare the names in the file.", "Evaluate all three.",
        )  # fmt: skip


__all__ = ["Value", "extrapolation_findings", "remarks"]
