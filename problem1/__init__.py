"""Problem 1: an encoder-decoder Transformer learns to add, and its 24 attention heads are examined."""
