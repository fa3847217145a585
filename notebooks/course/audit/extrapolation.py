"""Findings about accuracies by length."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from .catalogue import finding
from .facts import LONG, LONG_SIZE, TRAINED, class_shares
from .finding import CERTAIN, LIKELY, QUESTION, Finding, Score, as_scores, listed, matching
from .recognising import Found

ASSIGNED = ("sinusoidal", "learned", "none")


class Row:
    """The accuracies of one model: {length: score}."""

    def __init__(self, file: str, encoding: str, series: tuple[str, ...]) -> None:
        self.file, self.encoding, self.series = file, encoding, series
        self.scores: dict[int, Score] = {}
        self.explained, self.assumed, self.averaged = False, False, False
        self.items: dict[int, int] = {}

    @property
    def name(self) -> str:
        return " ".join([self.encoding or "the model", *self.series])

    def at(self, lengths: tuple[int, ...]) -> dict[int, Score]:
        return {length: self.scores[length] for length in lengths if length in self.scores}

    def own_sets(self) -> dict[int, Score]:
        """Beyond training, as far as the number of items is the assignment's."""
        return {
            length: score for length, score in self.at(LONG).items() if self.items.get(length, LONG_SIZE) == LONG_SIZE
        }


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
            row.averaged |= value.place.averaged
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
    classes = set(shares.values())
    at_the_end = list(scores)[len(scores) - len(shares) :] == list(shares) and len(classes) == 1
    if (len(shares) >= 2 and (at_the_end or len(shares) >= len(scores) - 1)) or (shares and len(scores) == 1):
        tells = all(scores[length].tells(LONG_SIZE) for length in shares)
        every = len(shares) == len(scores) >= 2 and not row.assumed
        certainty = QUESTION if not tells or len(scores) == 1 else CERTAIN if every else LIKELY
        places = listed(f"{scores[length]} at {length}" for length in shares)
        exact = "to the last item" if tells else "as far as printed"
        says = f"{row.name}: {places}: {exact}, the share of one class at {len(shares)} of {len(scores)} lengths."
        answer = f"'{classes.pop()}'" if len(classes) == 1 else "one class at each length"
        shown = len(shares) >= 3 and tells
        more = f"The model answers {answer}." if shown else f"Does the model answer {answer}? So few can be chance."
        yield finding("class share", certainty, row.file, says, more)
    halves = [length for length, score in row.at(LONG).items() if score.equals(0.5) and score.tells(LONG_SIZE)]
    if len(halves) >= 2 and not shares:
        says = f"{row.name}: the accuracy is exactly 0.500 at {listed(halves)}."
        counts = listed(class_shares(length)[0].count for length in LONG)
        more = f"Half is a class share of balanced sets; the assignment's hold {counts} sorted of {LONG_SIZE}."
        yield finding("class share", LIKELY, row.file, says, more)


def remarks(found: Found) -> Iterator[str]:
    """What looks like a finding and is none."""
    for row in rows_of(found):
        shares = shares_of(row)
        if row.encoding == "none" and len(shares) >= 3 and not row.explained:
            says = f"{row.name} has class shares at {listed(sorted(shares))}, as one answer for every item has"
            yield f"{row.file}: {says}: without positions there is nothing better."


def too_good(row: Row) -> Iterator[Finding]:
    if row.explained:
        return
    far = row.at(tuple(length for length in LONG if length > 4 * max(TRAINED) - 1))
    if row.encoding == "sinusoidal" and len(far) >= 2 and min(score.value for score in far.values()) >= 0.95:
        says = f"{row.name}: {listed(f'{score} at {length}' for length, score in far.items())}."
        yield finding("plain positions extrapolate", QUESTION, row.file, says)
    length, score = max(row.scores.items(), key=lambda pair: pair[1].value)
    if row.encoding == "none" and score.value > 0.65:
        yield finding("order without positions", QUESTION, row.file, f"{row.name}: {score} at length {length}.")


def no_items(row: Row) -> Iterator[Finding]:
    for length, score in row.at(LONG).items():
        size = row.items.get(length, LONG_SIZE)
        if 0 <= score.value <= 1 and not score.is_whole(size) and not row.averaged:
            says = f"{row.name}: {score.value:.6g} at {length} is no whole number of {size} items"
            certainty = CERTAIN if length in row.items else QUESTION
            yield finding("no whole number of items", certainty, row.file, f"{says} ({score.value * size:.2f}).")
            return


def outside(row: Row) -> Iterator[Finding]:
    scores = row.scores.items()
    wrong = [f"{score.value:.4g} at {length}" for length, score in scores if not 0 <= round(score.value, 6) <= 1]
    if wrong:
        yield finding("impossible numbers", CERTAIN, row.file, f"{row.name}: {listed(wrong)}.")


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
        every = len(beyond) >= 3 and len(beyond) == sum(length > max(TRAINED) for length in lengths)
        if every and min(left.scores[length].value for length in same) < 0.99:  # two that work may agree
            says = f"{left.name} and {right.name} have the same accuracies at {len(same)} of {len(lengths)} lengths"
            more = "Here they are class shares." if set(beyond) <= shares_of(left).keys() else ""
            yield finding("the same numbers", CERTAIN, left.file, f"{says} ({listed(same, 8)}).", more)


def opposite_numbers(rows: list[Row]) -> Iterator[Finding]:
    for left, right in neighbours(rows):
        lengths = common(left, right)
        sums = {length: left.scores[length].value + right.scores[length].value for length in lengths}
        turned = [n for n in lengths if abs(sums[n] - 1) < 1e-9 and not left.scores[n].equals(0.5)]
        if len(turned) >= max(3, len(lengths) - 1) and "none" not in (left.encoding, right.encoding):
            says = f"{left.name} and {right.name} add up to 1.000 at {len(turned)} of {len(lengths)} lengths"
            yield finding("opposite numbers", CERTAIN, left.file, f"{says} ({listed(turned, 8)}).")


# --- what is missing -------------------------------------------------------------------------------------------------


def incomplete(rows: list[Row]) -> Iterator[Finding]:
    file = rows[0].file
    lengths = {length for row in rows for length in row.scores}
    encodings = {word for row in rows for word in row.encoding.split()}
    gone = [length for length in TRAINED + LONG if length not in lengths]
    if gone:
        says = f"There are no accuracies at {'lengths' if len(gone) > 1 else 'length'} {listed(gone, 8)}."
        yield finding("lengths missing", CERTAIN, file, says)
    absent = [name for name in ASSIGNED if name not in encodings]
    if absent and encodings:
        yield finding("encodings missing", CERTAIN, file, f"There are no accuracies of {listed(absent)}.")
