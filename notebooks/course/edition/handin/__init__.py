"""What hands in: this folder goes into the student's folder as it is, and the grader uses the same.

cells.py       a function out of a notebook, without the trainings around it
runner.py      both ends of a pipe: who calls functions, and who asks for it
report.py      notebooks, as they are saved -> one PDF
submission.py  the command: checks, what is missing, audit, PDF, one zip
unpack.py      a zip that somebody else made
"""
