"""Findings about training curves: trainings that died or never learned, and scores of one model that are far apart."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from .addition import WHOLE, adder_logs, by_file
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
        self.losses = {part_of(curve.name): [n.value for n in curve.numbers] for curve in curves if curve.measure == "loss"}
        unrounded = any(number.decimals > 6 for curve in curves for number in curve.numbers)
        tested = [s.number for s in scores if s.file == file and s.measure == "accuracy" and "test" in s.place.words][:1]
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
    unknown = "" if log.encoding else " If this is the training without positions, it is as it must be."
    constant = constant_share(log.validation, "validation")
    train = log.losses.get("training") or next(iter(log.losses.values()), [])
    at_ln2 = bool(train) and abs(train[-1] - LN2) < NEAR_LN2
    loss = f" The loss ends at {train[-1]:.4f}; ln 2, that of a coin, is {LN2:.4f}." if train else ""
    revive = "Warm up, lower the rate (1e-3 to 2e-4), or put the norms before the blocks; watch the training accuracy of the first epochs."
    if constant:
        epochs, share = constant
        of = f"the share of {share.of} in the validation set" if share.size > 2 else "one half, the share of a class if both are equally frequent"
        balanced = "" if share.size > 2 else " The assignment's validation set has 0.506 and 0.494: this is another one."
        extra = class_words(log)
        yield Finding(
            "dead training", QUESTION if unknown else CERTAIN if at_ln2 or not train else LIKELY, 1, log.file,
            f"{log.name}: in the last {epochs} epochs the validation accuracy is {log.validation[-1]}, to the last item {of}." + loss,
            f"The model answers the same to every item: the training died.{unknown}{extra}{balanced} What it says at other lengths says nothing about {log.name}.",
            "Count how often each class is predicted.", revive,
        )  # fmt: skip
    elif log.validation and len(log.validation) >= 3 and max(log.validation).value < CHANCE and log.encoding:
        best = max(log.validation)
        yield Finding(
            "never learned", CERTAIN if train and train[-1] > 0.6 else LIKELY, 1, log.file,
            f"{log.name}: in {len(log.validation)} epochs the validation accuracy never gets beyond {best} and ends at {log.validation[-1]}, no better than answering one class." + loss,
            f"The model did not learn the task within the trained lengths, so its accuracies beyond them say nothing about {log.name}.{class_words(log)}",
            "Look at accuracy and loss of training and validation over the epochs.", revive,
        )  # fmt: skip
    elif not log.validation and at_ln2 and len(train) >= 3:
        yield Finding(
            "dead training", QUESTION if unknown else LIKELY, 1, log.file, f"{log.name}: the loss ends at {train[-1]:.4f}, and ln 2 is {LN2:.4f}.",
            "That is the loss of a model that says one half to every item." + unknown, "Count how often each class is predicted.", revive,
        )  # fmt: skip


def class_words(log: Log) -> str:
    """Which of the other scores are class shares."""
    train = log.accuracies.get("training", [])
    said = []
    if train and train[-1].tells(10_000) and (share := matching(train[-1], class_shares("train"))):
        said.append(f"The training accuracy ends at {train[-1]}, the share of {share.of} in the training set.")
    if log.test and log.test.tells(2_000) and (share := matching(log.test, class_shares("test"))):
        said.append(f"The test accuracy, {log.test}, is the share of {share.of} in the test set.")
    return "".join(f" {sentence}" for sentence in said)


def remarks(found: Found) -> Iterator[str]:
    """What looks like a finding and is none."""
    for log in classifier_logs(found):
        train = log.losses.get("training", [])
        if log.encoding == "none" and train and abs(train[-1] - LN2) < 2 * NEAR_LN2:
            yield f"{log.file}: the training without positions ends at chance (loss {train[-1]:.4f}, ln 2 is {LN2:.4f}), as it must: without them order cannot be seen."


# --- scores that are far apart ---------------------------------------------------------------------------------------


def apart(value: float, validation: list[Score], by: float) -> bool:
    """Is it farther than this from the last epoch, the best one, and all between them?"""
    ends = validation[-1].value, max(validation).value
    return not min(ends) - by <= value <= max(ends) + by


def two_scores(log: Log) -> Iterator[Finding]:
    if log.test and log.validation and apart(log.test.value, log.validation, 0.05):
        best = max(log.validation)
        yield Finding(
            "validation far from test", CERTAIN, 2, log.file,
            f"{log.name}: the test accuracy is {log.test}, but the validation accuracy ends at {log.validation[-1]}, and is {best} at best.",
            "Both sets are of one kind, so one of the scores was computed on other items, with other weights, or not in eval mode.",
            "Score the same weights on both sets with one function.", "Use one function, in eval mode, for both.",
        )  # fmt: skip


def adder_training(log: Log) -> Iterator[Finding]:
    yield from two_scores(log)
    best, loss = max(log.validation, default=None), log.losses.get("training", [])
    if best and best.value < 0.1 and len(log.validation) >= 3:
        yield Finding(
            "never learned", LIKELY, 1, log.file, f"The adder's validation accuracy never gets beyond {best}" + (f", and its loss ends at {loss[-1]:.3f}." if loss else "."),
            "It does not add, and removing heads shows nothing.", "Print answers of training items.", "Warm up, lower the rate, or train longer.",
        )  # fmt: skip
    elif best and best.value < 0.95 and len(log.validation) >= 3:
        yield Finding(
            "not trained to the end", QUESTION, 3, log.file, f"The adder's best validation accuracy is {best}, and its last is {log.validation[-1]}.",
            "This task can be learned to the last sum. Heads of an adder that is wrong this often show how it fails as much as how it adds.",
            "Do the curves still rise or jump at the end?", "Train longer, with a rate that warms up and decays, and analyse heads then.",
        )  # fmt: skip
    odd = [score for score in log.validation if score.value not in (0.0, 1.0)]
    counted = [score for score in odd if not score.is_whole(2_000) and not score.is_whole(8_000) and not score.is_whole(6_000)]
    if len(counted) >= 3 and (batch := batches(2_000, odd)):
        last = 2_000 % batch
        first = counted[-1]
        yield Finding(
            "no whole number of items", CERTAIN, 3, log.file,
            f"A validation accuracy of {first.value:.6g} is no whole number of 2,000 items ({first.value * 2000:.2f}); all are whole for a mean over batches of {batch}.",
            f"Of 2,000 items the last batch has {last}, and in such a mean each of them counts {batch // last if batch % last == 0 else f'{batch / last:.1f}'} times as much as one of the others.",
            f"Multiply by 2,000, and by {-(-2_000 // batch) * batch:,}.", "Count right answers over all batches and divide once.",
        )  # fmt: skip


# --- curves that cannot be -------------------------------------------------------------------------------------------


def curve_findings(found: Found) -> Iterator[Finding]:
    for curve in found.curves:
        values = [number.value for number in curve.numbers]
        if curve.measure == "loss" and min(values) < -1e-9 and "log" not in curve.name:
            yield impossible(curve, f"the loss is {min(values):.4g}", "A cross-entropy is never negative.")
        outside = [value for value in values if not 0 <= value <= (1 if max(values) <= 1.5 else 100)]
        if curve.measure == "accuracy" and outside:
            yield impossible(curve, f"the accuracy is {outside[0]:.4g}", "An accuracy lies between 0 and 1, or 0 and 100 %.")
    seen: dict[tuple[float, ...], Curve] = {}
    reported = set()
    for curve in found.curves:
        values = tuple(number.value for number in curve.numbers)
        other = seen.setdefault(values, curve)
        pair = frozenset((other.encoding, curve.encoding))
        long = curve.measure == "loss" and len(set(values)) >= 3
        if long and other.encoding and curve.encoding and len(pair) == 2 and pair not in reported:
            reported.add(pair)
            yield Finding(
                "the same training twice", CERTAIN, 1, curve.file, f"{other.encoding} and {curve.encoding} have the same {len(values)} losses, to the last digit ({other.file}).",
                "Two trainings with different encodings cannot: it is one training under two names, or the encoding has no effect.",
                "Compare the weights, and the outputs for one input.", "Train each encoding by itself, and check that it changes the output.",
            )  # fmt: skip


def impossible(curve: Curve, says: str, why: str) -> Finding:
    return Finding(
        "impossible numbers", CERTAIN, 2, curve.file, f"In {curve.name}, {says}.", why, "Recompute one epoch by hand.", "Correct what is logged.",
    )  # fmt: skip


def lengths_and_log(found: Found) -> Iterator[Finding]:
    """The validation accuracy of a log against the accuracies at 8, 12 and 16."""
    logs = defaultdict(list)
    for log in classifier_logs(found):
        if log.validation:
            logs[log.encoding].append(log)
    for file, values in by_file(found.lengths).items():
        for encoding, own in logs.items():
            rows = [value for value in values if value.encoding == encoding and not value.place.assumed]
            scores = as_scores([value.number for value in values])
            kept = [score for value, score in zip(values, scores, strict=True) if value in rows and value.place.length in TRAINED]
            if len(own) == 1 and len(kept) >= 2:
                mean, last = sum(score.value for score in kept) / len(kept), own[0].validation
                if apart(mean, last, 0.1):
                    yield Finding(
                        "far from the training log", CERTAIN, 1, file,
                        f"{encoding}: at the trained lengths the accuracy is {printed(mean)} on average, but the validation accuracy in {own[0].file} ends at {last[-1]}, and is {max(last)} at best.",
                        "The items are of one kind: other weights, other sets, or an evaluation in training mode.",
                        "Evaluate the saved weights on the validation set.", "Use one evaluation function, in eval mode, and sets drawn in one way.",
                    )  # fmt: skip
