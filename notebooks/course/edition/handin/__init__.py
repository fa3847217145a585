"""What hands in: this folder goes into the student's folder as it is, and the grader uses the same."""
