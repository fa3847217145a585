"""Findings about training curves: trainings that died or never learned, and scores of one model that are far apart."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from .addition import WHOLE, adder_logs
from .catalogue import finding
from .extrapolation import rows_of
from .facts import LN2, TRAINED, Share, class_shares
from .finding import CERTAIN, LIKELY, QUESTION, Finding, Score, as_scores, batches, matching, printed
from .recognising import Curve, Found, Value

CHANCE = 0.54  # the larger class of the validation set (0.506), and three standard errors of 2,000 items
NEAR_LN2 = 0.01


class Log:
    """The curves of one training."""

    def __init__(self, file: str, encoding: str, curves: list[Curve], scores: list[Value]) -> None:
        self.file, self.encoding, self.name = file, encoding, encoding or "the training"
        accuracies = [curve for curve in curves if curve.measure == "accuracy"]
        self.losses = {
            part_of(curve.name): [n.value for n in curve.numbers] for curve in curves if curve.measure == "loss"
        }
        unrounded = any(number.decimals > 6 for curve in curves for number in curve.numbers)
        tested = [s.number for s in scores if s.file == file and s.measure == "accuracy" and "test" in s.place.words][
            :1
        ]
        numbers = [*tested, *(number for curve in accuracies for number in curve.numbers)]
        scores_of = iter(as_scores(numbers, least=4 if unrounded else 0))
        self.test = next(scores_of) if tested else None
        self.accuracies: dict[str, list[Score]] = {}
        for curve in accuracies:
            own = list(islice(scores_of, len(curve.numbers)))
            if part_of(curve.name) not in self.accuracies or WHOLE & set(curve.name.split()):
                self.accuracies[part_of(curve.name)] = own

    @property
    def validation(self) -> list[Score]:
        return self.accuracies.get("validation", [])


def part_of(name: str) -> str:
    words = set(name.split())
    if words & {"val", "valid", "validation", "dev", "eval"}:
        return "validation"
    return "test" if "test" in words else "training"


def training_findings(found: Found) -> Iterator[Finding]:
    files = adder_logs(found)
    for log in classifier_logs(found):
        yield from dead(log)
        yield from two_scores(log)
    for file, curves in files.items():
        yield from adder_training(Log(file, "", curves, found.scores))
    yield from curve_findings(found)


def classifier_logs(found: Found) -> list[Log]:
    adders, logs = adder_logs(found), defaultdict(list)
    for curve in found.curves:
        if curve.file not in adders or curve.encoding:
            logs[curve.file, curve.encoding].append(curve)
    return [Log(file, encoding, curves, found.scores) for (file, encoding), curves in logs.items()]


# --- trainings that died ---------------------------------------------------------------------------------------------


def constant_share(scores: list[Score], split: str) -> tuple[int, Share] | None:
    """(epochs, share) if the last three or more epochs end with one and the same class share."""
    if len(scores) < 3:
        return None
    shares = [*class_shares(split), Share(1, 2, "items of each class")]
    share = matching(scores[-1], shares)
    if not share or not scores[-1].tells(2_000):
        return None
    same = 0
    while same < len(scores) and scores[-1 - same].equals(share.value):
        same += 1
    return (same, share) if same >= 3 else None


def dead(log: Log) -> Iterator[Finding]:
    if log.encoding == "none":  # without positions nothing can be learned: see `remarks`
        return
    constant = constant_share(log.validation, "validation")
    train = log.losses.get("training") or next(iter(log.losses.values()), [])
    at_ln2 = bool(train) and abs(train[-1] - LN2) < NEAR_LN2
    loss = f" The loss ends at {train[-1]:.4f}; ln 2, that of a coin, is {LN2:.4f}." if train else ""
    unknown = "" if log.encoding else "If this is the training without positions, it is as it must be."
    more = " ".join(filter(None, [unknown, *class_words(log)]))
    if constant:
        epochs, share = constant
        of = (
            f"the share of {share.of} in the validation set" if share.size > 2 else "one half, a class of balanced sets"
        )
        says = f"{log.name}: in the last {epochs} epochs the validation accuracy is {log.validation[-1]}, to the last "
        more += "" if share.size > 2 else " The assignment's validation set has 0.506 and 0.494: this is another one."
        certainty = QUESTION if unknown else CERTAIN if at_ln2 or not train else LIKELY
        yield finding("dead training", certainty, log.file, f"{says}item {of}.{loss}", more.strip())
    elif len(log.validation) >= 3 and max(log.validation).value < CHANCE and log.encoding:
        certainty = CERTAIN if train and train[-1] > 0.6 else LIKELY
        yield finding("never learned", certainty, log.file, f"{log.name}: {never_beyond(log)}{loss}", more)
    elif not log.validation and at_ln2 and len(train) >= 3:
        certainty = QUESTION if unknown else LIKELY
        yield finding("dead training", certainty, log.file, f"{log.name}:{loss}", more)


def never_beyond(log: Log) -> str:
    best, last = max(log.validation), log.validation[-1]
    return f"in {len(log.validation)} epochs the validation accuracy never gets beyond {best} and ends at {last}."


def class_words(log: Log) -> Iterator[str]:
    """Which of the other scores are class shares."""
    train = log.accuracies.get("training", [])
    if train and train[-1].tells(10_000) and (share := matching(train[-1], class_shares("train"))):
        yield f"The training accuracy ends at {train[-1]}, the share of {share.of} in the training set."
    if log.test and log.test.tells(2_000) and (share := matching(log.test, class_shares("test"))):
        yield f"The test accuracy, {log.test}, is the share of {share.of} in the test set."


def remarks(found: Found) -> Iterator[str]:
    """What looks like a finding and is none."""
    for log in classifier_logs(found):
        train = log.losses.get("training", [])
        if log.encoding == "none" and train and abs(train[-1] - LN2) < 2 * NEAR_LN2:
            says = f"without positions the training ends at chance (loss {train[-1]:.4f}, ln 2 is {LN2:.4f})"
            yield f"{log.file}: {says}, as it must: without them order cannot be seen."


# --- scores that are far apart ---------------------------------------------------------------------------------------


def apart(value: float, validation: list[Score], by: float) -> bool:
    """Is it farther than this from the last epoch, the best one, and all between them?"""
    ends = validation[-1].value, max(validation).value
    return not min(ends) - by <= value <= max(ends) + by


def two_scores(log: Log) -> Iterator[Finding]:
    if log.test and log.validation and apart(log.test.value, log.validation, 0.05):
        ends = f"ends at {log.validation[-1]}, and is {max(log.validation)} at best"
        says = f"{log.name}: the test accuracy is {log.test}, but the validation accuracy {ends}."
        yield finding("validation far from test", CERTAIN, log.file, says)


def adder_training(log: Log) -> Iterator[Finding]:
    yield from two_scores(log)
    best = max(log.validation, default=None)
    if best and best.value < 0.95 and len(log.validation) >= 3:
        kind, certainty = ("never learned", LIKELY) if best.value < 0.1 else ("not trained to the end", QUESTION)
        yield finding(kind, certainty, log.file, f"The adder: {never_beyond(log)}")
    partly = [score for score in log.validation if score.value not in (0.0, 1.0)]
    odd = [
        score for score in partly if not any(score.is_whole(count) for count in (2_000, 6_000, 8_000))
    ]  # items, digits
    batch = batches(2_000, partly) if len(odd) >= 3 else None
    if batch:
        last = odd[-1].value
        says = f"A validation accuracy of {last:.6g} is no whole number of 2,000 items ({last * 2_000:.2f})"
        more = f"Of 2,000 items the last batch of {batch} has {2_000 % batch}."
        says = f"{says}; all are whole for a mean over batches of {batch}."
        yield finding("no whole number of items", CERTAIN, log.file, says, more)


# --- curves that cannot be -------------------------------------------------------------------------------------------


def curve_findings(found: Found) -> Iterator[Finding]:
    seen: dict[tuple[float, ...], Curve] = {}
    reported = set()
    for curve in found.curves:
        values = tuple(number.value for number in curve.numbers)
        if curve.measure == "loss" and min(values) < -1e-9 and "log" not in curve.name:
            yield finding("impossible numbers", CERTAIN, curve.file, f"In {curve.name} the loss is {min(values):.4g}.")
        outside = [value for value in values if not 0 <= value <= (1 if max(values) <= 1.5 else 100)]
        if curve.measure == "accuracy" and outside:
            says = f"In {curve.name} the accuracy is {outside[0]:.4g}."
            yield finding("impossible numbers", CERTAIN, curve.file, says)
        other = seen.setdefault(values, curve)
        pair = frozenset((other.encoding, curve.encoding))
        long = curve.measure == "loss" and len(set(values)) >= 3
        if long and "" not in pair and len(pair) == 2 and pair not in reported:
            reported.add(pair)
            says = f"{other.encoding} and {curve.encoding} have the same {len(values)} losses, to the last digit"
            yield finding("the same training twice", CERTAIN, curve.file, f"{says} ({other.file}).")


def lengths_and_log(found: Found) -> Iterator[Finding]:
    """The validation accuracy of a log against the accuracies at 8, 12 and 16."""
    logs = defaultdict(list)
    for log in classifier_logs(found):
        if log.validation:
            logs[log.encoding].append(log)
    for row in rows_of(found):
        inside, own = list(row.at(TRAINED).values()), logs.get(row.encoding, [])
        if len(inside) >= 2 and len(own) == 1 and not row.assumed:
            mean, validation = sum(score.value for score in inside) / len(inside), own[0].validation
            if apart(mean, validation, 0.1):
                ends = f"in {own[0].file} ends at {validation[-1]}, and is {max(validation)} at best"
                says = f"{row.name}: at the trained lengths the mean accuracy is {printed(mean)}"
                yield finding("far from the training log", CERTAIN, row.file, f"{says}, but that of validation {ends}.")
