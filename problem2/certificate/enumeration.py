"""(a) and (b) of the argument, from the tables alone, and the extreme logits over all sequences of all lengths."""

import numpy as np

from problem2.certificate.tables import Tables

UNREACHED, BEGIN = -1, -2  # of a node: no walk leads to it; a walk begins with it


def rejected_sequences(tables: Tables, threshold: float = 0.0) -> list[list[int]]:
    """(a): every sorted pair and triple with a token whose logit is not above the threshold, pairs first."""
    first, middle, last = tables.sorted_entries()
    pairs = ((tables.first <= threshold) & first) | ((tables.last <= threshold) & last)
    return [*np.argwhere(pairs).tolist(), *np.argwhere((tables.middle <= threshold) & middle).tolist()]


def accepted_sequence(tables: Tables, threshold: float = 0.0) -> list[int] | None:
    """(b): a shortest unsorted sequence whose tokens are all above the threshold, or None if there is none.

    Breadth first over the nodes (descent seen?, left, own), a whole layer at a time.
    """
    size = len(tables.first)
    nodes = (2, size, size)
    came_from = np.full((*nodes, 2), UNREACHED)  # the node before: its descent seen?, its left value
    left, own = np.nonzero(tables.first > threshold)
    seen = (left > own).astype(int)
    came_from[seen, left, own] = BEGIN
    while len(left):
        ends = np.flatnonzero((seen == 1) & (tables.last[left, own] > threshold))
        if len(ends):
            return walk_back(came_from, seen[ends[0]], left[ends[0]], own[ends[0]])
        node, right = np.nonzero(tables.middle[left, own] > threshold)
        reached = np.ravel_multi_index((seen[node] | (own[node] > right), own[node], right), nodes)
        layer, one = np.unique(reached, return_index=True)  # one of the walks to each node is enough
        new = came_from.reshape(-1, 2)[layer, 0] == UNREACHED
        layer, before = layer[new], node[one[new]]
        came_from.reshape(-1, 2)[layer] = np.stack([seen[before], left[before]], axis=1)
        seen, left, own = np.unravel_index(layer, nodes)
    return None


def walk_back(came_from: np.ndarray, seen: int, left: int, own: int) -> list[int]:
    """The values on the way to a node, from the first to the last."""
    sequence = [own, left]
    while came_from[seen, left, own, 0] != BEGIN:
        (seen, left), own = came_from[seen, left, own], left
        sequence.append(left)
    return [int(value) for value in reversed(sequence)]


def lowest_sorted_logit(tables: Tables) -> float:
    """The lowest logit that a sorted sequence of any length can get."""
    entries = zip(tables, tables.sorted_entries(), strict=True)
    return float(min(table[mask].min() for table, mask in entries))


def highest_unsorted_logit(tables: Tables) -> tuple[float, list[int]]:
    """The highest logit that an unsorted sequence of any length can get, and a sequence that gets it."""
    low, high, best = tables.lowest - 1, tables.highest, list[int]()
    for _ in range(20):  # halve the interval, then climb the last steps
        between = (low + high) / 2
        if sequence := accepted_sequence(tables, between):
            low, best = tables.logit(sequence), sequence
        else:
            high = between
    while sequence := accepted_sequence(tables, low):
        low, best = tables.logit(sequence), sequence
    return low, best
