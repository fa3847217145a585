"""About both problems: the reports on them, and what a course needs.

reports.py   what the reports print, and where each number comes from
claims.py    what the reports claim, and the tables that the verdicts rest on
words.py     the sentences of the notebook on the reports
plots.py     its figures
"""
