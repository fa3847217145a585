"""nbval, strict on words and tolerant on numbers: the last digits of a float differ between processors.

Numbers may differ by 0.002, in cells tagged `live` (they train) by 0.02; before a % sign a hundred times as much. Lines
that begin with "· " tell what was done here and now (loaded, trained, seconds); neither they nor bars are compared.
"""

import os
import re

from nbformat import NotebookNode
from nbval.plugin import IPyNbCell

# nbval reads what a cell sends when the cell is done; a bar that moved for minutes would have filled the channel, and
# the end of the message stream would be lost. So bars move seldom in the kernels that it starts.
os.environ["TQDM_MININTERVAL"] = "10"

TOLERANCE, LIVE_TOLERANCE = 0.002, 0.02
NUMBER = re.compile(r"(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(\s?%)?")
WIDGET = "application/vnd.jupyter.widget-view+json"


class Output(str):
    """Text that equals another if the words are the same and the numbers are close."""

    tolerance = TOLERANCE

    def __eq__(self, other):
        words, other_words = (" ".join(NUMBER.sub("#", text).split()) for text in (self, other))
        return words == other_words and all(map(self.close, NUMBER.findall(self), NUMBER.findall(other)))

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__

    def close(self, one, other):
        (number, percent), (other_number, other_percent) = one, other
        difference = abs(float(number.replace(",", "")) - float(other_number.replace(",", "")))
        allowed = self.tolerance * (100 if percent else 1)
        return bool(percent) == bool(other_percent) and difference <= allowed + 1e-12


def compared(outputs):
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


def sanitize(cell, text, original=IPyNbCell.sanitize):
    text = original(cell, text)
    if isinstance(text, str):
        text = Output(text)
        text.tolerance = LIVE_TOLERANCE if "live" in cell.cell.metadata.get("tags", []) else TOLERANCE
    return text


def compare_outputs(cell, test, reference, skip_compare=None, original=IPyNbCell.compare_outputs):
    return original(cell, compared(test), compared(reference), skip_compare)


def runtest(cell, original=IPyNbCell.runtest):
    stored = cell.cell
    if stored.source.strip() and stored.execution_count is None:
        cell.raise_cell_error("This cell is stored without having been run, so there is nothing to compare.")
    if any("UsageError" in output.get("text", "") for output in stored.outputs):
        cell.raise_cell_error("The stored output of this cell is the complaint about an unknown magic.")
    original(cell)


IPyNbCell.sanitize = sanitize
IPyNbCell.compare_outputs = compare_outputs
IPyNbCell.runtest = runtest
