"""Findings about the adder and its heads."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from os.path import commonprefix
from statistics import median

from .facts import HEADS, SIZES, Share, sum_shares
from .finding import CERTAIN, LIKELY, QUESTION, Finding, Score, as_scores, batches, listed, matching, printed
from .names import Number, measure_of, parts
from .recognising import Curve, Found, Value

TWO_PERCENT = 0.02
TESTED = {"val", "valid", "validation", "test", "dev", "eval", "free"}
WHOLE = {"seq", "sequence", "answer", "answers", "exact", "em", "running"}  # of whole answers, not of digits
TOP_LEVEL = {"self": "self-attention of which stack is not said", "decoder": "decoder, self or cross is not said", "": "of which stack is not said"}


def addition_findings(found: Found) -> Iterator[Finding]:
    tables = [Table(file, values, found) for file, values in by_file(found.heads).items()]
    tables = [table for table in tables if table.stated or any(value.measure != "?" for value in found.heads if value.file == table.file)]
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
            yield vocabulary_finding(file, size)
    yield from lone_baselines(tables, found)


def by_file(values: Sequence[Value]) -> dict[str, list[Value]]:
    files = defaultdict(list)
    for value in values:
        files[value.file].append(value)
    return files


def of_problem(file: str) -> int:
    """1 or 2, if the path says so; else 0."""
    path = parts(file)
    for word, after in zip(path, path[1:], strict=False):
        if word in ("problem", "prob", "task", "part", "p", "question", "q", "exercise", "ex") and after in (1, 2):
            return int(after)
    return 1 if {"addition", "adder"} & set(path) else 2 if {"extrapolation", "sorting"} & set(path) else 0


@lru_cache(maxsize=1)
def adder_logs(found: Found) -> dict[str, list[Curve]]:
    """Curves that are not of problem 2, by file."""
    logs = defaultdict(list)
    for curve in found.curves:
        if not curve.encoding and of_problem(curve.file) != 2 and not looks_binary(curve, found):
            logs[curve.file].append(curve)
    return logs


def looks_binary(curve: Curve, found: Found) -> bool:
    """Is the first accuracy of that log about a half? An untrained adder has none right."""
    if of_problem(curve.file):
        return of_problem(curve.file) == 2
    own = [c for c in found.curves if (c.file, c.encoding) == (curve.file, curve.encoding) and c.measure == "accuracy"]
    first = [as_scores(c.numbers)[0].value for c in own]
    return bool(first) and 0.4 < first[0]


def log_accuracy(table: "Table", found: Found) -> tuple[str, str, float] | None:
    """(file, name, value) of the accuracy that the nearest training log ends with: of the test set if it is there, else of
    the validation; of whole answers if it tells them from digits."""
    scored: dict[str, list[tuple[tuple[str, ...], Number]]] = defaultdict(list)
    for score in found.scores:
        if score.measure == "accuracy" and not score.encoding and of_problem(score.file) != 2 and score is not table.stated:
            scored[score.file].append((score.place.words, score.number))
    for file, curves in adder_logs(found).items():
        scored[file] += [(tuple(curve.name.split()), curve.numbers[-1]) for curve in curves if curve.measure == "accuracy"]
    ranks = {file: [row for row in rows if TESTED & set(row[0])] for file, rows in scored.items()}
    logs = [file for file, rows in ranks.items() if rows]
    near = {log: len(commonprefix([log, table.file])) for log in logs}
    nearest = [log for log in logs if near[log] == max(near.values())]
    if len(nearest) != 1:
        return None  # which of them it belongs to is not known
    rows = ranks[nearest[0]]
    words, value = max(rows, key=lambda row: (bool(WHOLE & set(row[0])), "test" in row[0]))
    percent = any(number.value > 1.5 for _, number in scored[nearest[0]]) or value.percent
    return nearest[0], " ".join(words[-3:]), value.value / 100 if percent else value.value


class Table:
    """The numbers of heads in one file, and the baseline that they belong to."""

    def __init__(self, file: str, values: list[Value], found: Found) -> None:
        known = [value for value in values if value.measure != "?"]
        self.file, self.values = file, known or [replace(value, measure="") for value in values]
        values = self.values
        self.stated = stated_baseline(file, found)
        self.unnamed = unnamed_are(values, self.stated)
        self.items = next((value.place.items for value in [*filter(None, [self.stated]), *values] if value.place.items), None)
        self.losses = [value for value in values if value.measure in ("loss", "loss drop")]
        accuracies = [value for value in values if self.measure(value) == "accuracy"]
        drops = [value for value in values if self.measure(value) in ("drop", "importance")]
        shares = [value.number for value in [*filter(None, [self.stated]), *accuracies]]
        percent = any(number.value > 1.5 for number in shares)  # then drops are in percent, too
        changes = [replace(value.number, percent=percent or value.number.percent) for value in drops]
        digits = min(4, max((change.decimals for change in changes if not change.percent), default=0))
        scores = as_scores(shares, least=digits)
        self.baseline = scores[0] if self.stated else None
        self.scored = list(zip(accuracies, scores[len(scores) - len(accuracies) :], strict=True))  # with a head removed
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
    beside = [s for s in known if s.measure == "baseline" and s.file.rpartition("/")[0] == folder and s.file not in with_heads]
    return next((score for score in [*own, *beside] if of_problem(score.file) != 2 and not score.encoding), None)


def unnamed_are(values: list[Value], baseline: Value | None) -> str:
    """Numbers of heads without a word: accuracies lie near the baseline, drops near 0. Without a baseline nobody knows."""
    numbers = [value.number.value for value in values if not value.measure]
    if baseline is None or not numbers:
        return ""
    near = median(abs(number - baseline.number.value) for number in numbers)
    return "accuracy" if near <= median(map(abs, numbers)) else "drop"


# --- the baseline ----------------------------------------------------------------------------------------------------


def start_share(score: Score, items: int | None) -> tuple[str, str] | None:
    """(items, words) of the share that a score equals, of those that a wrong first digit leaves."""
    for split in ("test", "validation"):
        share = matching(score, sum_shares(split)) if items in (None, SIZES[split]) else None
        if share and score.value < 1:
            exact = "to the last item" if score.tells(share.size) else "as far as it is printed"
            return share.of, f"{exact} the share of {share.of} among the {share.size:,} {split} sums ({share.count:,})"
    return None


def baseline_findings(table: Table, found: Found) -> Iterator[Finding]:
    base, file = table.baseline, table.file
    if base is None:
        yield no_baseline(table)
        return
    log = log_accuracy(table, found)
    equal = start_share(base, table.items)
    if equal:
        yield equals_share(file, "baseline", base, *equal)
    if base.value < 0.05:
        known = f", while {log[1]} in {log[0]} is {printed(log[2])}" if log and log[2] > 0.5 else ""
        yield Finding(
            "baseline near 0", CERTAIN, 1, file, f"The baseline is {base}{known}.",
            "Without any head removed almost no answer counts as right, so no drop can be seen." + (
                " As the training says otherwise, the comparison itself is likely to be at fault: answers shifted by one position, "
                "BOS or padding compared as well, or a decoder that is started wrongly." if known else ""),
            "Print five answers beside the right ones, token by token.",
            "Compare whole answers of the same positions, decoded from BOS.",
        )  # fmt: skip
    elif log and abs(log[2] - base.value) > 0.05:
        yield gap(table, base, log, equal is not None)
    if log and not equal and (near := near_share(base, log[2])):
        yield near_to_share(file, base, log, near)
    says = found.decoding.get(file, "")
    if says == "teacher":
        yield Finding(
            "teacher forcing", LIKELY, 2, file, f"The baseline is {base}, and the file speaks of teacher forcing.",
            "With teacher forcing the model is handed the right digits before each digit: it is not what it answers by itself.",
            "Decode from BOS, feeding back what the model wrote.", "Report the free-running accuracy, or both, named.",
        )  # fmt: skip
    elif base.value >= 0.9 and not says:
        yield Finding(
            "decoding not stated", QUESTION, 3, file, f"The baseline is {base}: free-running or teacher-forced?",
            "The file does not say how answers were decoded. With teacher forcing the right digits before each digit are handed over, "
            "the first one among them if there is no BOS, and the effect of a head on later digits is hidden.",
            "Look for the loop that feeds the model's own digits back.", "Score heads free-running from BOS, and write so in the file.",
        )  # fmt: skip


def near_share(base: Score, trained: float) -> Share | None:
    """The share that a baseline falls short of by three items at most, when training says that almost all is right."""
    short = [(share.count - base.value * share.size, share) for share in sum_shares("test")]
    return next((share for gap, share in short if trained > 0.95 and base.tells(2_000) and 0 < gap <= 3.01 and share.value < 0.95), None)


def near_to_share(file: str, base: Score, log: tuple[str, str, float], share: Share) -> Finding:
    finding = equals_share(file, "baseline", base, share.of, f"{share.count - base.value * share.size:.0f} of 2,000 items fewer than the share of {share.of} ({share.count:,}), and {log[1]} is {printed(log[2])}")
    return replace(finding, certainty=LIKELY, means=finding.means.replace("That it equals this share is certain; that this is the reason is likely. ", ""))


def no_baseline(table: Table) -> Finding:
    return Finding(
        "no baseline", QUESTION, 3, table.file, f"{len(table.heads)} numbers of heads stand without the accuracy with no head removed.",
        "A drop says little without what it is a drop from, and nobody can see how answers were scored.",
        "Run the same evaluation with all heads.", "Write the baseline, the number of items and the decoding beside the numbers of the heads.",
    )  # fmt: skip


def equals_share(file: str, name: str, score: Score, of: str, words: str) -> Finding:
    zero = "without a further 0" in of
    start = "0" if "below" in of else "1" if "1000 and more" in of else "the most common first digit of its batch"
    means = f"Only sums whose answer begins as the decoder was started, with {start}, are counted right"
    means += ", and of these only the ones without a 0 behind: digit 0 is likely to share the id of PAD." if zero else "."
    return Finding(
        "share of sums", CERTAIN if score.tells(2_000) else LIKELY if score.tolerance < 0.001 else QUESTION, 1, file, f"The {name} is {score}: {words}.",
        f"{'That it equals this share is certain; that this is the reason is likely.' if score.tells(2_000) else 'With so few digits this may be chance.'} {means} The decoder was probably trained without BOS, so that "
        "nobody asked it for the first digit.",
        "Compare the first digits of answers and targets; list which answers are right.",
        "Begin the decoder's input with a BOS of its own, learn all four digits, and give PAD an id that no digit has.",
    )  # fmt: skip


def gap(table: Table, base: Score, log: tuple[str, str, float], explained: bool) -> Finding:
    file, name, value = log
    means = "Two scores of one model on sets of one kind cannot be so far apart: they were not computed in the same way, or not with the same weights."
    if value > base.value and not explained:
        for share in sum_shares("test"):
            if share.value < 0.95 and abs(value * share.value - base.value) < 0.02 and value < 0.995 and "without" not in share.of:
                means += f" A question: {printed(value)} of the {share.of} ({printed(share.value)}) would be {printed(value * share.value)}; was decoding started with a digit of the true answers?"
                break
    better = "Teacher-forced scores are higher than free-running ones, and do not see a wrong first digit." if value > base.value else ""
    return Finding(
        "far from the training log", CERTAIN, 1, table.file, f"The baseline is {base}, but {name} in {file} ends at {printed(value)}.",
        " ".join([means, better]).strip(), "Score the saved weights both ways, teacher-forced and free-running, on the same items.",
        "Analyse heads with the score that the model really reaches, free-running from BOS.",
    )  # fmt: skip


def lone_baselines(tables: list[Table], found: Found) -> Iterator[Finding]:
    """Test accuracies in files without heads."""
    seen = {table.file for table in tables}
    for score in found.scores:
        if score.file in seen or score.encoding or of_problem(score.file) == 2 or "train" in score.place.words:
            continue
        if score.measure == "baseline" or (score.measure == "accuracy" and of_problem(score.file) == 1):
            (value,) = as_scores([score.number])
            if value.tells(2_000) and (equal := start_share(value, score.place.items)):
                yield equals_share(score.file, " ".join(score.place.words[-3:]), value, *equal)


# --- what numbers can be ---------------------------------------------------------------------------------------------


def range_findings(table: Table) -> Iterator[Finding]:
    file, base = table.file, table.baseline
    if outside := [(v, s) for v, s in table.scored if not -s.tolerance <= s.value <= 1 + s.tolerance]:
        yield impossible(file, "accuracies", [f"{v.place.head_name} {s}" for v, s in outside], "An accuracy lies between 0 and 1.")
    if table.losses:
        yield of_loss(table, CERTAIN, f"The importance of {len(table.losses)} heads is a change of the loss, up to {max(abs(v.number.value) for v in table.losses):.3g}.")
    above_one = [(v, s) for v, s in table.drops if s.value > 1 + s.tolerance]
    if above_one:
        value, score = max(above_one, key=lambda pair: pair[1].value)
        yield of_loss(table, LIKELY, f"The importance of {value.place.head_name} is {value.number.value:.4g}: no drop of an accuracy, which is 1 at most.")
    elif base is not None:
        larger = [(v, s) for v, s in table.drops if s.value > base.value + base.tolerance + s.tolerance]
        if larger:
            names = [f"{v.place.head_name} {s}" for v, s in larger]
            yield impossible(file, f"drops larger than the baseline of {base}", names, "An accuracy cannot fall below 0.")
    if base is not None:
        yield from contradictions(table, base)
        yield from unmoved(table, base)
        risen = [(v, s.value - base.value) for v, s in table.scored if s.value > base.value + TWO_PERCENT]
        risen += [(v, -s.value) for v, s in table.drops if s.value < -TWO_PERCENT]
    else:
        risen = [(v, -s.value) for v, s in table.drops if s.value < -TWO_PERCENT]
    if risen and not above_one:
        value, rise = max(risen, key=lambda pair: pair[1])
        yield Finding(
            "better without a head", QUESTION, 3, file,
            f"Without {value.place.head_name} the accuracy rises by {printed(rise)}, and so it does by more than {TWO_PERCENT} for {listed_count(len(risen))}.",
            "Possible, but rare in an adder that works: the baseline may belong to other items, other weights, or a model not trained to the end.",
            "Score baseline and heads in one run, on the same items, in eval mode.", "Use one evaluation for both; give the interval of the difference.",
        )  # fmt: skip


def listed_count(count: int) -> str:
    return f"{count} head{'s' * (count > 1)}"


def impossible(file: str, what: str, names: list[str], why: str) -> Finding:
    return Finding(
        "impossible numbers", CERTAIN, 2, file, f"There are {what}: {listed(names)}.",
        f"{why} Numbers of different units, baselines or sets have been mixed.", "Recompute one of them by hand from the predictions.",
        "Take baseline and heads from one evaluation, in one unit.",
    )  # fmt: skip


def of_loss(table: Table, certainty: str, says: str) -> Finding:
    return Finding(
        "loss as importance", certainty, 2, table.file, says,
        "It seems to be the change of a loss. A loss also grows where every answer stays right, and depends on the items it is taken on; the assignment asks for accuracy.",
        "Look at what the evaluation returns, and on how many items.", "Give the accuracy with each head removed, on the whole test set.",
    )  # fmt: skip


def contradictions(table: Table, base: Score) -> Iterator[Finding]:
    """Accuracy and drop of one head that do not add up to the baseline."""
    drops = {(v.place.head_name, v.group): s for v, s in table.drops if table.measure(v) in ("drop", "importance")}
    wrong = []
    for value, score in table.scored:
        drop = drops.get((value.place.head_name, value.group))
        if drop and abs(abs(base.value - score.value) - abs(drop.value)) > base.tolerance + score.tolerance + drop.tolerance + 1e-6:
            wrong.append(f"{value.place.head_name}: {base} - {score} is not {drop}")
    if wrong and len({value.place.head_name for value, _ in table.scored}) >= 2:
        yield Finding(
            "numbers that do not add up", LIKELY if any(value.measure == "importance" for value, _ in table.drops) else CERTAIN, 2, table.file,
            f"For {len(wrong)} heads accuracy and drop do not add up to the baseline: {listed(wrong, 3)}.",
            "They come from different runs or baselines, or importance is something else than a drop.", "Recompute drop = baseline - accuracy.",
            "Write one of the two and compute the other from it.",
        )  # fmt: skip


def unmoved(table: Table, base: Score) -> Iterator[Finding]:
    same = [v for v, s in table.scored if s.value == base.value] or [v for v, s in table.drops if s.value == 0]
    numbers = table.scored or table.drops
    if len(numbers) >= 8 and len(same) == len(numbers):
        yield Finding(
            "nothing removed", LIKELY, 2, table.file, f"With each of the {len(numbers)} heads removed the accuracy is {base}, the baseline.",
            "No head matters at all, which no working adder shows: the removal probably has no effect.",
            "Remove all heads at once: the accuracy must fall to about 0.", "Zero a head's output before the output projection, and test that outputs change.",
        )  # fmt: skip


# --- of how many items -----------------------------------------------------------------------------------------------


def item_findings(table: Table) -> Iterator[Finding]:
    scores = [score for _, score in table.scored] + ([table.baseline] if table.baseline else [])
    scores = [score for score in scores if 0 <= score.value <= 1]
    different = {round(score.value, 9) for score in scores}
    if len(table.scored) >= 4 and different == {0.0, 1.0}:
        yield few_items(table, CERTAIN, "Every accuracy is 0 or 1", "So they are shares of a single item, or of items that all come out alike.")
        return
    if len(table.scored) >= 8 and len(different) >= 4:
        few = next((n for n in (2, 3, 4, 5, 6, 8, 10, 16, 32, 64) if all(score.is_whole(n) for score in scores)), None)
        if few and scores[0].tells(4 * few):
            yield few_items(table, QUESTION, f"All accuracies are multiples of 1/{few}", f"They look like shares of {few} items only.")
            return
    sizes = [table.items] if table.items else [2_000, 10_000]
    odd = [score for score in scores if not any(score.is_whole(size) for size in sizes)]
    if odd and not (batch := None):
        batch = None if table.items else batches(2_000, scores)
        why = f" All are whole for a mean over batches of {batch}: there the last, smaller batch counts as much as the others." if batch else ""
        yield Finding(
            "no whole number of items", CERTAIN if batch or table.items else QUESTION, 3, table.file,
            f"{odd[0].value:.6g} is no whole number of {sizes[0]:,} items ({odd[0].value * sizes[0]:.2f}); {len(odd)} of {len(scores)} accuracies are not.",
            "They are not shares of the assignment's test items: of other items, of digits, or means over batches of different size." + why,
            "Multiply by the number of items.", "Count right answers and divide once, at the end; write the number of items into the file.",
        )  # fmt: skip


def few_items(table: Table, certainty: str, says: str, means: str) -> Finding:
    return Finding(
        "few items", certainty, 2, table.file, f"{says} ({len(table.scored)} heads).",
        f"{means} Which head is important then depends on the items chosen.", "Look at how many items the evaluation reads.",
        "Use all 2,000 test items.",
    )  # fmt: skip


# --- which heads -----------------------------------------------------------------------------------------------------


def missing_heads(tables: list[Table]) -> Iterator[Finding]:
    folders = defaultdict(list)
    for table in tables:
        folders[table.file.rpartition("/")[0]].append(table)
    for folder in folders.values():
        values = [value for table in folder for value in table.values]
        files = listed(sorted({table.file for table in folder}), 3)
        yield from too_few(files, values, "accuracy or importance")


def too_few(file: str, values: list[Value], what: str) -> Iterator[Finding]:
    heads = {(value.place.kind, value.place.layer, value.place.head) for value in values}
    if len(heads) >= sum(HEADS.values()):
        return
    kinds = {kind: sum(head[0] == kind for head in heads) for kind in sorted({head[0] for head in heads})}
    there = listed(f"{count} ({TOP_LEVEL.get(kind, kind)})" for kind, count in kinds.items())
    means = "The assignment asks for all 24: 8 in the encoder, 8 in the decoder's self-attention, 8 in its cross-attention."
    certainty = CERTAIN
    if all(layer is None for _, layer, _ in heads) and len(heads) == 4:
        means += (" Four numbers, one for each head number, leave open what was measured: the head with this number in one layer, its mean over "
                  "layers, or the heads with this number of all layers at once.")  # fmt: skip
    layers = {layer for kind, layer, _ in heads if layer is not None and not kind}
    if len(layers) > 2:
        means += f" They stand in {len(layers)} layers, but each stack of the assignment's model has 2."
    yield Finding(
        "heads missing", certainty, 2, file, f"{what.capitalize()} is given for {len(heads)} of 24 heads: {there}.", means,
        "Count the rows.", "Give one number for each of Encoder, Decoder Self and Decoder Cross, L0 and L1, H0 to H3.",
    )  # fmt: skip


def ranking_findings(table: Table, found: Found) -> Iterator[Finding]:
    for values, way in ranked_lists(table, found):
        pairs = list(zip(values, values[1:], strict=False))
        wrong = [(left, right) for left, right in pairs if (right[1] - left[1]) * way > 1e-9]
        if wrong:
            left, right = wrong[0]
            yield Finding(
                "ranking out of order", CERTAIN, 2, table.file,
                f"The ranking does not {'descend' if way > 0 else 'go from the lowest accuracy up'}: {left[0]} ({left[1]:.4g}) stands before {right[0]} ({right[1]:.4g}).",
                "Ranks and numbers do not belong together: they were sorted by something else, as text, or edited by hand.",
                "Sort the numbers and compare.", "Sort by the number that is shown.",
            )  # fmt: skip


def ranked_lists(table: Table, found: Found) -> Iterator[tuple[list[tuple[str, float]], int]]:
    """Heads with their numbers in the order of a ranking; 1 if they should descend, -1 if they are accuracies."""
    ranked = [value for value in table.values if value.place.rank is not None]
    groups = {(value.group, table.measure(value)) for value in ranked}
    for group, kind in sorted(groups):
        rows = sorted((v for v in ranked if (v.group, table.measure(v)) == (group, kind)), key=lambda v: v.place.rank or 0)
        others = [g for g, k in groups if k == kind]
        if kind and len(rows) > 2 and (len(others) == 1 or "zero" in group):
            yield [(v.place.head_name, v.number.value) for v in rows], -1 if kind == "accuracy" else 1
    numbers: dict[str, Value] = {}
    for value in table.values:
        numbers.setdefault(value.place.head_name, value)
    by_index = list(numbers.values())
    for file, ranking in found.rankings:
        if file != table.file or len(ranking) < 3:
            continue
        rows = []
        for entry in ranking:
            if isinstance(entry, str):
                value = numbers.get(by_index[0].place.__class__().named(entry).head_name)
            elif isinstance(entry, int) and not isinstance(entry, bool) and 0 <= entry < len(by_index):
                value = by_index[entry]
            else:
                value = None
            if value is None:
                break
            rows.append((value.place.head_name, value.number.value))
        kind = table.measure(by_index[0])
        if len(rows) == len(ranking) and kind:
            yield rows, -1 if kind == "accuracy" else 1


# --- what heads attend to --------------------------------------------------------------------------------------------


def attention_findings(values: list[Value]) -> Iterator[Finding]:
    file = values[0].file
    yield from too_few(file, values, "attention or entropy")
    shares = [value for value in values if "entropy" not in value.place.words and not measure_of("stability") == "other"]
    shares = [value for value in shares if not {"entropy", "bits", "nats", "ratio", "index"} & set(value.place.words)]
    above = [value for value in shares if 1.0001 < value.number.value <= 7]
    if above and not any(value.number.value > 7 for value in shares):
        worst = max(above, key=lambda value: value.number.value)
        yield Finding(
            "attention above 1", CERTAIN, 2, file,
            f"{' '.join(worst.place.words[-3:])} of {worst.place.head_name} is {worst.number.value:.4g}, and {len(above)} such numbers are above 1.",
            "The weights with which a query attends add up to 1, so a mean share cannot be larger: they were added up over queries, layers or items.",
            "Divide by the number of queries.", "Take the mean over queries; say which layer and which stack.",
        )  # fmt: skip
    if negative := [value for value in values if value.number.value < -1e-6 and value in shares]:
        yield Finding(
            "negative attention", QUESTION, 3, file, f"{' '.join(negative[0].place.words[-3:])} of {negative[0].place.head_name} is {negative[0].number.value:.4g}.",
            "Attention weights are not negative; if this is a difference or a correlation, the file should say so.", "Look at how it is computed.", "Name the measure.",
        )  # fmt: skip
    cross = [v for v in shares if v.place.kind == "decoder cross" and {"diagonal", "diag", "column", "alignment", "aligned", "same"} & set(v.place.words)]
    cross = [v for v in cross if not {"lower", "next"} & set(v.place.words)]
    if len(cross) >= 4 and max(value.number.value for value in cross) < 0.01:
        yield Finding(
            "no column alignment", QUESTION, 3, file, f"No cross head attends to its column: the largest share of {len(cross)} is {max(v.number.value for v in cross):.3g}.",
            "Cross heads of adders that work attend to the column of the digit they write. Measured at the digit they read, the share is near 0.",
            "Shift the columns by one and measure again.", "Count the column of the digit that is written at a position, not of the one that is read.",
        )  # fmt: skip


def vocabulary_finding(file: str, size: int) -> Finding:
    return Finding(
        "small vocabulary", QUESTION, 3, file, f"The vocabulary has {size} tokens; digits, +, BOS and PAD are 13.",
        "BOS or PAD is missing, or shares its id with another token. Without BOS nobody asks the decoder for the first digit; a digit that shares PAD's id is ignored by the loss.",
        "Print the ids of BOS, PAD and 0.", "Give BOS and PAD ids after those of the digits and +.",
    )  # fmt: skip
