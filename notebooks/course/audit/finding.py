"""One finding, and the arithmetic of shares: is a printed number a share of so many items, and which?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from .facts import Share
from .names import Number

CERTAIN, LIKELY, QUESTION = "certain", "likely", "question"


@dataclass(frozen=True)
class Finding:
    kind: str
    certainty: str
    weight: int  # 1 is the worst
    file: str
    says: str  # one sentence, with the number
    means: str
    check: str
    mend: str


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    order = [CERTAIN, LIKELY, QUESTION]
    return sorted(findings, key=lambda finding: (finding.weight, order.index(finding.certainty)))


class Score(NamedTuple):
    """A share, and how far it may be from the true one because it was rounded."""

    value: float
    tolerance: float
    text: str

    def __str__(self) -> str:
        return self.text

    def equals(self, share: float) -> bool:
        return abs(self.value - share) <= self.tolerance

    def tells(self, size: int) -> bool:
        """Is it printed with enough digits to tell one of so many items?"""
        return self.tolerance < 0.501 / size

    def is_whole(self, size: int) -> bool:
        return self.equals(round(self.value * size) / size)


def as_scores(numbers: Sequence[Number], least: int = 0, units: bool = True) -> list[Score]:
    """Shares of numbers that belong together: in percent if one of them can be nothing else (`units`), and all rounded
    alike, to at least so many digits."""
    percent = (
        units
        and any(abs(number.value) > 1.5 for number in numbers)
        and all(-100 <= number.value <= 100 for number in numbers)
    )
    digits = max((number.decimals + 2 * (percent or number.percent) for number in numbers), default=0)
    digits = max(digits, least)
    tolerance = max(0.5001 * 10.0**-digits, 1e-9)
    scores = []
    for number in numbers:
        value = number.value / 100 if percent or number.percent else number.value
        scores.append(Score(value, tolerance, printed(value, digits)))
    return scores


def printed(value: float, digits: int = 4) -> str:
    return f"{value:.{min(max(digits, 3), 4)}f}"


def matching(score: Score, shares: Iterable[Share]) -> Share | None:
    """The share that a score equals, if it has two digits or more."""
    return next((share for share in shares if score.tolerance < 0.006 and score.equals(share.value)), None)


def batches(size: int, scores: Sequence[Score]) -> int | None:
    """The batch size for which all scores are means over the batches of a set, of which the last is smaller."""
    for batch in (16, 32, 64, 128, 256, 512):
        count, last = -(-size // batch), size % batch
        if last and all(score.is_whole(count * batch * last // gcd(batch, last)) for score in scores):
            return batch
    return None


def listed(names: Iterable[object], most: int = 6) -> str:
    """'a, b and c', or the first ones and how many more."""
    words = [str(name) for name in names]
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
