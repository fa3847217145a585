"""The adder as a program: what each head says, as tables that take the heads' places, and on how many sums it is right.

variables.py   what a head may say: functions of named tokens
tables.py      heads as tables
choice.py      the coarsest variable for each head and position
counts.py      right on how many of all sums
controls.py    does a head say this, no more and no less?
settled.py     digits written before, and which digit is due
lines.py       the program in words
study.py       ten adders
command.py     the published program: listing, run, and the command
picture.py     the architecture, with what each head says
"""

from problem1.program.command import listing, published_program, run
from problem1.program.counts import check_program
from problem1.program.lines import at_a_glance
from problem1.program.picture import draw_program
from problem1.program.settled import after_random_prefixes

__all__ = [
    "after_random_prefixes",
    "at_a_glance",
    "check_program",
    "draw_program",
    "listing",
    "published_program",
    "run",
]
