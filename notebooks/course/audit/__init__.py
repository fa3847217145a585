"""What the result files of a hand-in give away: `python -m course.audit FOLDER`, or `audit(folder)`.

Standard library only, and nothing from elsewhere in the project, so that the folder works wherever it is copied.

facts.py          what the assignment's data alone say
reading.py        the files of a folder, read as data
names.py          what names and numbers say, however they are written
recognising.py    what is in a document
finding.py        a finding, and the arithmetic of shares
catalogue.py      every kind of finding in words
addition.py       the adder and its heads
extrapolation.py  accuracies by length
training.py       training curves
files.py          missing and damaged files
report.py         all of it in words
command.py        the command
"""

from .finding import Finding
from .report import Audit, audit

__all__ = ["Audit", "Finding", "audit"]
