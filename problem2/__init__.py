"""Problem 2: a Transformer encoder judges whether a sequence is sorted, and at which lengths its positions survive."""
