"""The certificate: enumeration over tables with a bound on rounding, and runs of the model that must agree."""

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from problem1.shared.training import one_thread
from problem2.certificate.enumeration import (
    accepted_sequence,
    highest_unsorted_logit,
    lowest_sorted_logit,
    rejected_sequences,
)
from problem2.certificate.form import check_form
from problem2.certificate.rounding import bounded_tables
from problem2.certificate.tables import CHECKED_LENGTHS, Tables, sampled_differences, tabulate
from problem2.dataset import in_order
from problem2.model import Classifier

SHOWN = 10  # counterexamples
SAFETY = 100  # the margin must be this many times the largest sampled difference of float32


@dataclass
class Certificate:
    """What the enumeration has found; `certified`: the classifier is right on every sequence of every length."""

    lowest_sorted: float  # no sorted sequence of any length has a lower logit, in exact arithmetic or in float64
    highest_unsorted: float  # no unsorted sequence of any length has a higher one
    hardest: list[int]  # an unsorted sequence that has it
    bound: float  # on rounding: the largest radius of an interval
    float_difference: float  # largest, a run in float32 from the tables, which are float64
    table_difference: float  # largest sampled, a run in float64 from the tables
    rejected: int  # sorted pairs and triples that may be rejected
    counterexamples: list[list[int]]  # wrong in a full run, shortest first; an accepted one comes first
    cpu_seconds: float
    tables: Tables | None = field(default=None, repr=False, compare=False)  # the midpoints

    @property
    def facts(self) -> dict[str, Any]:
        """All of it but the tables."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "tables"}

    @property
    def margin(self) -> float:
        """How far the logit of any sequence is on the right side of zero, at least; below 0 one may be wrong."""
        return min(self.lowest_sorted, -self.highest_unsorted)

    @property
    def ratio(self) -> float:
        """Of the margin to the bound on rounding."""
        return self.margin / self.bound

    @property
    def certified(self) -> bool:
        """Proved; and what is sampled agrees: float64 stays within the bound, float32 far below the margin."""
        return self.margin > 0 and self.table_difference <= self.bound and self.margin >= SAFETY * self.float_difference

    @property
    def conclusion(self) -> str:
        if self.certified:
            return "This holds in exact arithmetic, and for any evaluation of these formulas in float64."
        if self.margin <= 0:
            maybe = "No sequence is wrong, but rounding may make one so."
            return "Sequences are wrong." if self.counterexamples else maybe
        if self.table_difference > self.bound:
            return "A run in float64 leaves the bound: the model does not compute what the tables say."
        return f"No sequence is wrong, but the margin is not {SAFETY} times what float32 differs by."

    def __str__(self) -> str:
        rows = {
            "margin": f"{self.margin:.4f}",
            "bound on rounding in float64": f"{self.bound:.1e}",
            "margin / bound": f"{self.ratio:,.0f}",
            "lowest logit of a sorted sequence": f"{self.lowest_sorted:.4f}",
            "highest logit of an unsorted sequence": f"{self.highest_unsorted:.4f}",
            "sorted pairs and triples rejected": f"{self.rejected}",
            "CPU seconds": f"{self.cpu_seconds:.0f}",
        }
        lines = ["CERTIFIED: right on every sequence of every length from 2 on" if self.certified else "NOT CERTIFIED"]
        lines += [f"{name:40} {value}" for name, value in rows.items()]
        for sequence in self.counterexamples:
            wrongly = "rejected" if in_order(sequence) else "accepted"
            lines.append(f"{f'wrongly {wrongly}':40} {' '.join(map(str, sequence))}")
        run = f"Run, not proved: float32, on every pair and triple, is {self.float_difference:.1e} from the tables;"
        sampled = f"float64, on samples up to length {CHECKED_LENGTHS[-1]:,}, {self.table_difference:.1e}."
        return "\n".join([*lines, self.conclusion, f"{run} {sampled}"])


def certify(model: Classifier, shown: int = SHOWN) -> Certificate:
    """The Certificate, with up to `shown` counterexamples; a form for which there is no argument is a UserError."""
    check_form(model)
    started = time.process_time()
    middles, radii = bounded_tables(model)
    tables = Tables(*middles)
    lower, upper = (Tables(*map(end, middles, radii)) for end in (np.subtract, np.add))
    highest_unsorted, hardest = highest_unsorted_logit(upper)
    accepted = accepted_sequence(tables)
    suspects: Iterable[list[int]] = itertools.chain([accepted] if accepted else [], rejected_sequences(tables))
    with one_thread():
        single = tabulate(model)
        suspects = itertools.chain(suspects, rejected_sequences(single))
        float_difference, table_difference = sampled_differences(model, tables)
        apart = (float(abs(a - b).max()) for a, b in zip(single, tables, strict=True))
        float_difference = max(float_difference, *apart)
        wrong = (sequence for sequence in suspects if model.says_sorted(sequence) != in_order(sequence))
        counterexamples = list(itertools.islice(wrong, shown))
    return Certificate(
        lowest_sorted=lowest_sorted_logit(lower),
        highest_unsorted=highest_unsorted,
        hardest=hardest,
        bound=Tables(*radii).highest,
        float_difference=float_difference,
        table_difference=table_difference,
        rejected=len(rejected_sequences(lower)),
        counterexamples=counterexamples,
        cpu_seconds=round(time.process_time() - started, 2),
        tables=tables,
    )
