"""About both problems: the reports on them, and what a course needs.

reports.py   what the reports say, and what follows from the data alone
pictures.py  the two pictures of the project's README
"""
