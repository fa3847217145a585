"""What the stand-in's tasks are given: nothing."""
