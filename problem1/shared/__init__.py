"""What both problems use, and nothing about either.

attention.py     multi-head attention from scratch, and the hooks through which positions enter
training.py      recipes and the training loop
homework.py      the homework's own recipe, for the flawed models
statistics.py    intervals and paired comparisons
checks.py        a checklist for experiments
grid.py          many runs side by side
workers.py       the processes that do them
sources.py       the code that they ran
parallel.py      forward passes side by side
publishing.py    staged, checked, swapped in as a whole
storage.py       files whole or not at all, weights as safetensors, the hash of a model
commands.py      command lines
errors.py        what becomes one sentence
pictures.py      figures, tables and captions in a notebook
words.py         numbers in sentences
explorer.py      the frame of the explorers
canvas.py        a picture in milliseconds
settings.py, progress.py, timing.py
"""
