"""About both problems: the reports on them, and what a course needs.

reports.py   what the reports say, and what follows from the data alone
audit/       what the result files of a hand-in give away
handins.py   hand-in folders for trying the audit
damage.py    such folders damaged at random, and audited
edition/     the homework to set, do, hand in and grade
pictures.py  the two pictures of the project's README
"""
