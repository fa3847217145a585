"""Walks and extreme logits against brute force, in tables that are small and random."""

import numpy as np
import pytest
import torch

from problem2.certificate.enumeration import (
    accepted_sequence,
    highest_unsorted_logit,
    lowest_sorted_logit,
    rejected_sequences,
)
from problem2.certificate.tables import Tables
from problem2.dataset import in_order, is_sorted
from tests.problem2.certificate.common import all_sequences, random_tables


@pytest.mark.parametrize("seed", range(40))
def test_the_walk_is_a_shortest_accepted_sequence_or_there_is_none(seed):
    tables = random_tables(seed)
    accepted = None
    for length in range(2, 8):
        tokens = all_sequences(4, length)
        right = (tables.of(tokens.numpy()) > 0).all(1) & ~is_sorted(tokens).numpy()
        if right.any():
            accepted = length
            break
    found = accepted_sequence(tables)
    assert (found and len(found)) == accepted
    if found:
        assert not in_order(found) and tables.logit(found) > 0


def test_the_walks_of_these_tables_are_of_many_lengths_and_some_have_none():
    lengths = {len(accepted_sequence(random_tables(seed)) or []) for seed in range(40)}
    assert {0, 2, 3, 4, 5} < lengths


def test_a_walk_may_need_many_steps():
    """Accepting only along 0 1 2 3 4 5 6 2: seven steps, and the descent is the last."""
    first, middle, last = (np.full((7,) * n, -1.0) for n in (2, 3, 2))
    path = [0, 1, 2, 3, 4, 5, 6, 2]
    first[0, 1] = last[6, 2] = 1
    for triple in zip(path, path[1:], path[2:], strict=False):
        middle[triple] = 1
    tables = Tables(first, middle, last)
    assert accepted_sequence(tables) == path
    middle[3, 4, 5] = -1
    assert accepted_sequence(tables) is None


@pytest.mark.parametrize("seed", range(10))
def test_the_extreme_logits_are_those_of_brute_force(seed):
    tables = random_tables(seed, 3)
    sequences = [all_sequences(3, length).numpy() for length in range(2, 9)]
    logits = np.concatenate([tables.of(tokens).min(1) for tokens in sequences])
    label = np.concatenate([is_sorted(torch.from_numpy(tokens)).numpy() for tokens in sequences])
    assert lowest_sorted_logit(tables) == logits[label].min()
    highest, hardest = highest_unsorted_logit(tables)
    assert highest == tables.logit(hardest) and not in_order(hardest)
    assert highest == logits[~label].max() or len(hardest) > 8


@pytest.mark.parametrize("seed", range(5))
def test_rejected_are_exactly_the_sorted_pairs_and_triples_in_which_a_token_rejects(seed):
    tables = random_tables(seed)
    pairs = [s for s in all_sequences(4, 2).tolist() if in_order(s) and tables.logit(s) <= 0]
    triples = [s for s in all_sequences(4, 3).tolist() if in_order(s) and tables.middle[tuple(s)] <= 0]
    assert rejected_sequences(tables) == pairs + triples
