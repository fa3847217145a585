"""The course edition: the homework to set, do, hand in and grade.

masters/      the student's notebooks as Markdown, without solutions
given.py      what the tasks hand to a student's functions
checks.py     checks that name the mistake
solutions.py  right answers: the project's own functions, or thin code around them
hidden.py     the teacher's checks
handout.py    writes the student's and the teacher's folder
prove.py      do the checks do what they promise?
handin/       what a student hands in with, and what the grader reads it with
submit.py     two lines that call it
contain.py    a process that can do no harm
grade.py      points and sentences for a folder of zips
damage.py     notebooks damaged at random, and graded
"""
