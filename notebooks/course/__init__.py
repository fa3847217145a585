"""About both problems: the reports on them, and what a course needs. README.md lists the files."""
