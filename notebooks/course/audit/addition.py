"""Findings about the adder and its heads."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, takewhile
from statistics import median

from .catalogue import finding
from .facts import HEADS, SIZES, Share, sum_shares
from .finding import CERTAIN, LIKELY, QUESTION, Finding, Score, as_scores, batches, listed, matching, printed
from .names import Number, Place, parts
from .recognising import Curve, Found, Value

NOTICEABLE = 0.02  # a rise of the accuracy
FEW = (2, 3, 4, 5, 6, 8, 10, 16, 32, 64)  # items; 20, 50 and 100 would be found in numbers that are only rounded
TESTED = {"val", "valid", "validation", "test", "dev", "eval", "free"}
WHOLE = {"seq", "sequence", "answer", "answers", "exact", "em", "running"}  # of whole answers, not of digits
UNSAID = {
    "self": "self-attention of a stack that is not said",
    "decoder": "decoder, self or cross is not said",
    "": "of a stack that is not said",
}


def addition_findings(found: Found) -> Iterator[Finding]:
    tables = [Table(file, values, found) for file, values in by_file(found.heads).items()]
    tables = [table for table in tables if table.stated or not table.doubtful]
    for table in tables:
        yield from baseline_findings(table, found)
        yield from range_findings(table)
        yield from item_findings(table)
        yield from ranking_findings(table, found)
    yield from missing_heads(tables)
    for values in by_file(found.attention).values():
        yield from attention_findings(values)
    for file, size in found.vocabulary:
        if of_problem(file) == 1 and size < 13:
            says = f"The vocabulary has {size} tokens; digits, +, BOS and PAD are 13."
            yield finding("small vocabulary", QUESTION, file, says)
    yield from lone_shares(tables, found)


def by_file(values: Sequence[Value]) -> dict[str, list[Value]]:
    files = defaultdict(list)
    for value in values:
        files[value.file].append(value)
    return files


def of_problem(file: str) -> int:
    """1 or 2, if the path says so; else 0."""
    path = parts(file)
    for word, after in pairwise(path):
        if word in ("problem", "prob", "task", "part", "p", "question", "q", "exercise", "ex") and after in (1, 2):
            return int(after)
    return 1 if {"addition", "adder"} & set(path) else 2 if {"extrapolation", "sorting"} & set(path) else 0


# --- training logs of adders -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def adder_logs(found: Found) -> dict[str, list[Curve]]:
    """Curves that are not of problem 2, by file."""
    logs = defaultdict(list)
    for curve in found.curves:
        if not curve.encoding and not of_classifier(curve, found):
            logs[curve.file].append(curve)
    return logs


def of_classifier(curve: Curve, found: Found) -> bool:
    """Does its path say so, or is the first accuracy of its log about a half? An untrained adder has none right."""
    if of_problem(curve.file):
        return of_problem(curve.file) == 2
    log = [c for c in found.curves if (c.file, c.encoding) == (curve.file, curve.encoding)]
    first = [as_scores(c.numbers)[0].value for c in log if c.measure == "accuracy"]
    return bool(first) and first[0] > 0.4


def log_accuracy(table: "Table", found: Found) -> tuple[str, str, float] | None:
    """(file, name, value) of the accuracy that the nearest training log ends with: of the test set if it is there, else
    of the validation; of whole answers if it tells them from digits. None if several logs are as near."""
    scored: dict[str, list[tuple[set[str], str, Number]]] = defaultdict(list)
    for score in found.scores:
        if score.measure == "accuracy" and not score.encoding and score is not table.stated:
            scored[score.file].append((set(score.place.words), " ".join(score.place.words[-3:]), score.number))
    for file, curves in adder_logs(found).items():
        accuracies = [curve for curve in curves if curve.measure == "accuracy"]
        scored[file] += [(set(c.name.split()), " ".join(c.name.split()[-3:]), c.numbers[-1]) for c in accuracies]
    tested = {file: [row for row in rows if TESTED & row[0]] for file, rows in scored.items() if of_problem(file) != 2}
    near = {file: in_common(file, table.file) for file, rows in tested.items() if rows}
    nearest = [file for file in near if near[file] == max(near.values())]
    if len(nearest) != 1:
        return None
    percent = any(number.value > 1.5 for _, _, number in scored[nearest[0]])
    _, name, number = max(tested[nearest[0]], key=lambda row: (bool(WHOLE & row[0]), "test" in row[0]))
    return nearest[0], name, number.value / 100 if percent or number.percent else number.value


def in_common(left: str, right: str) -> int:
    """How many folders two paths share from the top; one more if it is the same file."""
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left.split("/"), right.split("/"), strict=False))
    )


# --- tables of heads -------------------------------------------------------------------------------------------------


class Table:
    """The numbers of heads in one file, and the baseline that they belong to."""

    def __init__(self, file: str, values: list[Value], found: Found) -> None:
        known = [value for value in values if value.measure != "?"]
        self.doubtful = not known  # nobody said what they are
        self.file, self.every = file, values
        self.values = known or [replace(value, measure="") for value in values]
        self.stated = stated_baseline(file, found)
        self.unnamed = unnamed_are(self.values, self.stated)
        stated = [self.stated] if self.stated else []
        self.items = next((value.place.items for value in [*stated, *self.values] if value.place.items), None)
        self.losses = [value for value in self.values if value.measure in ("loss", "loss drop")]
        accuracies = [value for value in self.values if self.measure(value) == "accuracy"]
        drops = [value for value in self.values if self.measure(value) in ("drop", "importance")]
        shares = [value.number for value in [*stated, *accuracies]]
        percent = any(number.value > 1.5 for number in shares)  # then drops are in percent, too
        changes = [replace(value.number, percent=percent or value.number.percent) for value in drops]
        digits = min(4, max((change.decimals for change in changes if not change.percent), default=0))
        scores = as_scores(shares, least=digits)
        self.baseline = scores[0] if stated else None
        self.scored = list(zip(accuracies, scores[len(stated) :], strict=True))  # with a head removed
        self.drops = list(zip(drops, as_scores(changes, units=False), strict=True))  # changes, whatever they are of

    def measure(self, value: Value) -> str:
        return value.measure or self.unnamed

    @property
    def heads(self) -> set[str]:
        return {value.place.head_name for value in self.values}


def stated_baseline(file: str, found: Found) -> Value | None:
    """Of the same file; else of a file beside it that holds no heads."""
    known = [score for score in found.scores if score.measure in ("baseline", "accuracy")]
    own = sorted((score for score in known if score.file == file), key=lambda score: score.measure == "accuracy")
    with_heads, folder = {value.file for value in found.heads}, file.rpartition("/")[0]
    others = [score for score in known if score.measure == "baseline" and score.file not in with_heads]
    beside = [score for score in others if score.file.rpartition("/")[0] == folder]
    return next((score for score in [*own, *beside] if of_problem(score.file) != 2 and not score.encoding), None)


def unnamed_are(values: list[Value], baseline: Value | None) -> str:
    """Numbers of heads without a word: accuracies lie near the baseline, drops near 0. Without one nobody knows."""
    numbers = [value.number.value for value in values if not value.measure]
    if baseline is None or not numbers:
        return ""
    near = median(abs(number - baseline.number.value) for number in numbers)
    return "accuracy" if near <= median(map(abs, numbers)) else "drop"


# --- the baseline ----------------------------------------------------------------------------------------------------


def baseline_findings(table: Table, found: Found) -> Iterator[Finding]:
    base, file = table.baseline, table.file
    if base is None:
        says = f"{len(table.heads)} numbers of heads stand without the accuracy with no head removed."
        yield finding("no baseline", QUESTION, file, says)
        return
    log = log_accuracy(table, found)
    words = start_share(base, table.items)
    if words:
        yield equals_share(file, "baseline", base, words)
    elif log and (near := near_share(base, log[2])):
        short = round(near.count - base.value * near.size)
        says = (
            f"The baseline is {base}: {short} of 2,000 sums fewer than the {near.count:,} {near.of}, while {log[1]} is "
        )
        yield finding("share of sums", LIKELY, file, f"{says}{printed(log[2])}.")
    if base.value < 0.05:
        known = f", while {log[1]} in {log[0]} is {printed(log[2])}" if log and log[2] > 0.5 else ""
        yield finding("baseline near 0", CERTAIN, file, f"The baseline is {base}{known}.")
    elif log and abs(log[2] - base.value) > 0.05:
        says = f"The baseline is {base}, but {log[1]} in {log[0]} ends at {printed(log[2])}."
        yield finding("far from the training log", CERTAIN, file, says, "" if words else product(base, log[2]))
    decoding = found.decoding.get(file, "")
    if decoding == "teacher":
        says = f"The baseline is {base}, and the file speaks of teacher forcing."
        yield finding("teacher forcing", LIKELY, file, says)
    elif base.value >= 0.9 and not decoding:
        says = f"The baseline is {base}: free-running or teacher-forced?"
        yield finding("decoding not stated", QUESTION, file, says)


def start_share(score: Score, items: int | None) -> str:
    """The share that a score equals, of those that a wrong first digit leaves; '' if there is none."""
    for split in ("test", "validation"):
        share = matching(score, sum_shares(split)) if items in (None, SIZES[split]) else None
        if share:
            exact = "to the last item" if score.tells(share.size) else "as far as it is printed"
            return f"{exact} the share of {share.of} among the {share.size:,} {split} sums ({share.count:,})"
    return ""


def equals_share(file: str, name: str, score: Score, words: str) -> Finding:
    """The more digits, the less can it be chance."""
    certainty = CERTAIN if score.tells(2_000) else LIKELY if score.tolerance < 0.001 else QUESTION
    return finding("share of sums", certainty, file, f"The {name} is {score}: {words}.")


def near_share(base: Score, trained: float) -> Share | None:
    """The share that a baseline misses by three items at most, when training says that almost all is right."""
    shares = [share for share in sum_shares("test") if trained > 0.95 and base.tells(share.size)]
    return next((share for share in shares if 0 < share.count - base.value * share.size <= 3.01), None)


def product(base: Score, trained: float) -> str:
    """A question, if the baseline is about what a model so good would get when decoding starts with a fixed digit."""
    if trained > 0.995:
        return ""
    for share in sum_shares("test"):
        both = trained * share.value
        if "without" not in share.of and abs(both - base.value) < NOTICEABLE:
            return (
                f"A question: {printed(trained)} of the {share.of} ({printed(share.value)} of all) would be "
                f"{printed(both)}; was decoding started with a digit of the true answers?"
            )
    return ""


def lone_shares(tables: list[Table], found: Found) -> Iterator[Finding]:
    """Baselines and test accuracies in files without heads."""
    with_heads = {table.file for table in tables}
    for score in found.scores:
        of_adder = score.measure == "baseline" or (score.measure == "accuracy" and of_problem(score.file) == 1)
        if of_adder and score.file not in with_heads and not score.encoding and of_problem(score.file) != 2:
            (value,) = as_scores([score.number])
            words = start_share(value, score.place.items)
            if words and value.tells(2_000) and "train" not in score.place.words:
                yield equals_share(score.file, " ".join(score.place.words[-3:]), value, words)


# --- what numbers can be ---------------------------------------------------------------------------------------------


def range_findings(table: Table) -> Iterator[Finding]:
    file, base = table.file, table.baseline
    outside = [f"{v.place.head_name} {s}" for v, s in table.scored if not -s.tolerance <= s.value <= 1 + s.tolerance]
    if outside:
        yield finding(
            "impossible numbers", CERTAIN, file, f"There are accuracies below 0 or above 1: {listed(outside)}."
        )
    if table.losses:
        most = max(abs(value.number.value) for value in table.losses)
        says = f"The importance of {len(table.losses)} heads is a change of the loss, up to {most:.3g}."
        yield finding("loss as importance", CERTAIN, file, says)
    value, score = max(table.drops, key=lambda pair: pair[1].value, default=(None, None))
    if value and score and score.value > 1 + score.tolerance:
        says = f"The importance of {value.place.head_name} is {value.number.value:.4g}"
        yield finding("loss as importance", LIKELY, file, f"{says}: no drop of an accuracy, which is 1 at most.")
    elif base:
        larger = [(v, s) for v, s in table.drops if s.value > base.value + base.tolerance + s.tolerance]
        if larger:
            certainty = LIKELY if larger[0][0].measure == "importance" else CERTAIN  # which may be scaled
            names = listed(f"{value.place.head_name} {score}" for value, score in larger)
            says = f"There are drops larger than the baseline of {base}: {names}."
            yield finding("impossible numbers", certainty, file, says)
    if base:
        yield from contradictions(table, base)
        yield from unmoved(table, base)
    yield from better_without(table)


def contradictions(table: Table, base: Score) -> Iterator[Finding]:
    """Accuracy and drop of one head that do not add up to the baseline."""
    drops = {(value.place.head_name, value.group): score for value, score in table.drops}
    wrong = []
    for value, score in table.scored:
        drop = drops.get((value.place.head_name, value.group))
        rounding = base.tolerance + score.tolerance + 1e-6
        if drop and abs(abs(base.value - score.value) - abs(drop.value)) > rounding + drop.tolerance:
            wrong.append(f"{value.place.head_name}: {base} - {score} is not {drop}")
    if wrong:
        certainty = LIKELY if any(value.measure == "importance" for value, _ in table.drops) else CERTAIN
        says = f"For {len(wrong)} heads accuracy and drop do not add up to the baseline: {listed(wrong, 3)}."
        yield finding("numbers that do not add up", certainty, table.file, says)


def unmoved(table: Table, base: Score) -> Iterator[Finding]:
    moved = [score.value != base.value for _, score in table.scored] or [score.value != 0 for _, score in table.drops]
    if len(moved) >= 8 and not any(moved):
        says = f"With each of the {len(moved)} heads removed the accuracy is {base}, the baseline."
        yield finding("nothing removed", LIKELY, table.file, says)


def better_without(table: Table) -> Iterator[Finding]:
    rises = [(-score.value, value) for value, score in table.drops]
    if table.baseline:
        rises += [(score.value - table.baseline.value, value) for value, score in table.scored]
    risen = [(rise, value.place.head_name) for rise, value in rises if NOTICEABLE < rise <= 1]
    if risen:
        rise, name = max(risen)
        says = f"Without {name} the accuracy rises by {printed(rise)}"
        says = f"{says}; for {len(risen)} heads it rises by more than {NOTICEABLE}."
        yield finding("better without a head", QUESTION, table.file, says)


# --- of how many items -----------------------------------------------------------------------------------------------


def item_findings(table: Table) -> Iterator[Finding]:
    scores = [score for value, score in table.scored if not value.place.averaged]
    scores += [table.baseline] if table.baseline and table.stated and not table.stated.place.averaged else []
    scores = [score for score in scores if 0 <= score.value <= 1]
    different = {round(score.value, 9) for score in scores}
    heads = f"({len(table.scored)} heads)"
    if len(table.scored) >= 4 and different == {0.0, 1.0}:
        yield finding("few items", CERTAIN, table.file, f"Every accuracy is 0 or 1 {heads}.")
        return
    if len(table.scored) >= 8 and len(different) >= 4:
        few = next((n for n in FEW if all(score.is_whole(n) for score in scores)), None)
        if few and scores[0].tells(4 * few):
            yield finding("few items", QUESTION, table.file, f"All accuracies are multiples of 1/{few} {heads}.")
            return
    sizes = [table.items] if table.items else [2_000, 10_000]
    odd = [score for score in scores if not any(score.is_whole(size) for size in sizes)]
    if odd:
        batch = None if table.items else batches(2_000, scores)
        says = f"{odd[0].value:.6g} is no whole number of {sizes[0]:,} items ({odd[0].value * sizes[0]:.2f})"
        more = f" All of them are whole for a mean over batches of {batch}." if batch else ""
        certainty = CERTAIN if batch or table.items else QUESTION
        says = f"{says}; {len(odd)} of {len(scores)} accuracies are not."
        yield finding("no whole number of items", certainty, table.file, says, more)


# --- which heads -----------------------------------------------------------------------------------------------------


def missing_heads(tables: list[Table]) -> Iterator[Finding]:
    """Files of one folder may complete each other."""
    folders = defaultdict(list)
    for table in tables:
        folders[table.file.rpartition("/")[0]].append(table)
    for folder in folders.values():
        values = [value for table in folder for value in table.values]
        yield from too_few(listed(sorted({table.file for table in folder}), 3), values, "Accuracy or importance")


def too_few(file: str, values: list[Value], what: str) -> Iterator[Finding]:
    heads = {(value.place.kind, value.place.layer, value.place.head) for value in values}
    if len(heads) >= sum(HEADS.values()):
        return
    kinds = Counter(kind for kind, _, _ in heads)
    there = listed(f"{count} ({UNSAID.get(kind, kind)})" for kind, count in sorted(kinds.items()))
    layers = {layer for kind, layer, _ in heads if layer is not None and not kind}
    more = ""
    if len(heads) == 4 and not any(layer is not None for _, layer, _ in heads):
        more = (
            "Four numbers, one for each head number, leave open what was measured: the head with this number in one "
            "layer, its mean over layers, or the heads with this number of all layers at once."
        )
    elif len(layers) > 2:
        more = f"They stand in {len(layers)} layers, but each stack of the assignment's model has 2."
    yield finding("heads missing", CERTAIN, file, f"{what} is given for {len(heads)} of 24 heads: {there}.", more)


def ranking_findings(table: Table, found: Found) -> Iterator[Finding]:
    for rows, measure in [*ranks_in_rows(table), *ranks_in_lists(table, found)]:
        way = -1 if measure == "accuracy" else 1
        wrong = [(left, right) for left, right in pairwise(rows) if (right[1] - left[1]) * way > 1e-9]
        if wrong:
            left, right = wrong[0]
            order = "descend" if way > 0 else "go from the lowest accuracy up"
            says = f"The ranking does not {order}: {left[0]} ({left[1]:.4g}) stands before {right[0]} ({right[1]:.4g})."
            yield finding("ranking out of order", CERTAIN, table.file, says)


Ranked = tuple[
    list[tuple[str, float]], str
]  # heads with their numbers, in the order of a ranking; what the numbers are


def ranks_in_rows(table: Table) -> Iterator[Ranked]:
    """Of rows with a rank: drops or accuracies, if no column at all is in order: any of them may be what ranks."""
    columns = defaultdict(list)
    for value in table.every:
        if value.place.rank is not None:
            columns[table.measure(value), value.place.words].append(value)
    in_order = False
    for values in columns.values():
        values.sort(key=lambda value: value.place.rank or 0)
        numbers = [value.number.value for value in values]
        in_order |= numbers in (sorted(numbers), sorted(numbers, reverse=True)) and len(set(numbers)) > 1
    for (measure, _), values in columns.items():
        if not in_order and measure in ("drop", "importance", "accuracy") and len(values) > 2:
            yield [(value.place.head_name, value.number.value) for value in values], measure
            return


def ranks_in_lists(table: Table, found: Found) -> Iterator[Ranked]:
    """Of a list of names, or of numbers that say which head of the file."""
    named = {value.place.head_name: value for value in reversed(table.values)}
    in_order = list(reversed(named.values()))
    measure = table.measure(in_order[0])
    for file, ranking in found.rankings:
        if file == table.file and len(ranking) > 2 and measure:
            heads = [ranked_head(entry, named, in_order) for entry in ranking]
            rows = [(value.place.head_name, value.number.value) for value in heads if value]
            if len(rows) == len(ranking):
                yield rows, measure


def ranked_head(entry: object, named: dict[str, Value], in_order: list[Value]) -> Value | None:
    if isinstance(entry, str):
        return named.get(Place().named(entry).head_name)
    if isinstance(entry, int) and not isinstance(entry, bool) and 0 <= entry < len(in_order):
        return in_order[entry]
    return None


# --- what heads attend to --------------------------------------------------------------------------------------------


def attention_findings(values: list[Value]) -> Iterator[Finding]:
    file = values[0].file
    yield from too_few(file, values, "Attention or entropy")
    shares = [value for value in values if not {"entropy", "bits", "nats", "ratio", "index"} & set(value.place.words)]
    above = [value for value in shares if value.number.value > 1.0001]
    if above and max(value.number.value for value in above) <= 7:  # else they may be percent
        worst = max(above, key=lambda value: value.number.value)
        says = f"{attention_name(worst)} is {worst.number.value:.4g}, and {len(above)} such numbers are above 1."
        yield finding("attention above 1", CERTAIN, file, says)
    negative = [value for value in shares if value.number.value < -1e-6]
    if negative:
        says = f"{attention_name(negative[0])} is {negative[0].number.value:.4g}."
        yield finding("negative attention", QUESTION, file, says)
    aligned = {"diagonal", "diag", "column", "alignment", "aligned"}
    cross = [value for value in shares if value.place.kind == "decoder cross" and aligned & set(value.place.words)]
    cross = [value for value in cross if not {"lower", "next"} & set(value.place.words)]
    if len(cross) >= 4 and max(value.number.value for value in cross) < 0.01:
        most = max(value.number.value for value in cross)
        says = f"No cross head attends to its column: the largest share of {len(cross)} is {most:.3g}."
        yield finding("no column alignment", QUESTION, file, says)


def attention_name(value: Value) -> str:
    return f"{' '.join(value.place.words[-3:])} of {value.place.head_name}"
