"""What both problems use, and nothing about either: attention, training, many runs, storage, statistics."""
