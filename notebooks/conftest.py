"""nbval, strict on words and tolerant on numbers: the last digits of a float differ between processors.

Numbers may differ by 0.002, before a % sign by 0.2, but by no more than a tenth of the larger one: a loss or a p-value
that changes by half is caught. One unit of the last place printed may exceed that tenth, because rounding alone turns
0.00349 into 0.003 and 0.00351 into 0.004; so print two digits where a change by half matters. Counts must be equal.
Numbers above 1 get no more room than those below: arithmetic moves even a logit of 15 by far less than 0.002.

Cells tagged `live` train, and on another processor a training ends with other weights. Their accuracies may differ by
0.02 (2 %), counts must be equal, and smaller numbers are not checked: a loss of 1e-6 may well be 1e-5 there.

Lines that begin with "· " tell what was done here and now (loaded, trained, seconds); they and bars are not compared.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

from nbformat import NotebookNode
from nbval.plugin import IPyNbCell

# nbval reads what a cell sends when the cell is done; a bar that moved for minutes would have filled the channel, and
# the end of the message stream would be lost. So bars move seldom in the kernels that it starts.
os.environ["TQDM_MININTERVAL"] = "10"

TOLERANCE, LIVE_TOLERANCE, SHARE = Decimal("0.002"), Decimal("0.02"), Decimal("0.1")
NUMBER = re.compile(r"(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(\s?%)?")
WIDGET = "application/vnd.jupyter.widget-view+json"


class Output(str):
    """Text that equals another if the words are the same and the numbers are close."""

    live = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        words, other_words = (" ".join(NUMBER.sub("#", text).split()) for text in (self, other))
        return words == other_words and all(map(self.close, NUMBER.findall(self), NUMBER.findall(other)))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def close(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        """Do two numbers, each with the % sign that may follow it, agree?"""
        (number, percent), (other_number, other_percent) = one, other
        a, b = (Decimal(text.replace(",", "")) for text in (number, other_number))
        allowed = (LIVE_TOLERANCE if self.live else TOLERANCE) * (100 if percent else 1)
        if not self.live:
            last_place = Decimal(1).scaleb(min(int(x.as_tuple().exponent) for x in (a, b)))
            allowed = min(allowed, max(SHARE * max(abs(a), abs(b)), last_place))
        return bool(percent) == bool(other_percent) and abs(a - b) <= allowed


def compared(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """The outputs without progress bars and status lines."""
    kept = []
    for output in outputs:
        if WIDGET in output.get("data", {}):
            continue
        if "text" in output:
            lines = [line for line in output["text"].splitlines() if not line.startswith("· ")]
            if not lines:
                continue
            output = NotebookNode(output, text="\n".join(lines))
        kept.append(output)
    return kept


def sanitize(cell: IPyNbCell, text: object, original: Callable = IPyNbCell.sanitize) -> object:
    text = original(cell, text)
    if isinstance(text, str):
        text = Output(text)
        text.live = "live" in cell.cell.metadata.get("tags", [])
    return text


def compare_outputs(
    cell: IPyNbCell,
    test: Iterable[NotebookNode],
    reference: Iterable[NotebookNode],
    skip_compare: Sequence[str] | None = None,
    original: Callable = IPyNbCell.compare_outputs,
) -> bool:
    return original(cell, compared(test), compared(reference), skip_compare)


def runtest(cell: IPyNbCell, original: Callable = IPyNbCell.runtest) -> None:
    stored = cell.cell
    if stored.source.strip() and stored.execution_count is None:
        cell.raise_cell_error("This cell is stored without having been run, so there is nothing to compare.")
    if any("UsageError" in output.get("text", "") for output in stored.outputs):
        cell.raise_cell_error("The stored output of this cell is the complaint about an unknown magic.")
    original(cell)


IPyNbCell.sanitize = sanitize
IPyNbCell.compare_outputs = compare_outputs
IPyNbCell.runtest = runtest
