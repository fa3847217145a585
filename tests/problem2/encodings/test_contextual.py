import math

import pytest
import torch

from problem1.shared.attention import Attention
from tests.problem2.encodings.common import D_MODEL, HEADS, LENGTH, D, logits, make, queries_and_keys, same


def count(q, k, longest):
    """p of a query and the keys up to it, by the formula."""
    gates = [1 / (1 + math.exp(-(q @ key).item() / D**0.5)) for key in k]
    return [min(sum(gates[j:]), longest) for j in range(len(k))]


@pytest.mark.parametrize("longest", [1, 3, 16])
def test_cope_adds_a_key_at_the_number_of_tokens_that_count(longest):
    encoding, (q, k) = make("cope", longest=longest), queries_and_keys()
    got, table = logits(encoding, q, k), encoding.table
    assert table.shape == (longest + 1, D)
    for item, head, i in [(0, 0, 0), (1, 2, 19), (0, 3, 5), (1, 1, 12)]:
        for j, p in enumerate(count(q[item, head, i], k[item, head, : i + 1], longest)):
            below, above = table[math.floor(p)], table[math.ceil(p)]
            key = k[item, head, j] + below + (p - math.floor(p)) * (above - below)
            same(got[item, head, i, j], q[item, head, i] @ key / D**0.5)


def test_when_every_token_counts_positions_are_relative():
    encoding, q = make("cope"), torch.full((1, HEADS, 12, D), 100.0)
    k = q.clone()
    for i in range(12):
        for j in range(i + 1):
            same(encoding.counted(q, k)[0, :, i, j], torch.full((HEADS,), float(i - j + 1)))
    at_each_count = (q @ encoding.table.T / D**0.5)[0, 0, 0]
    bias = encoding.bias(q, k)[0, 0]
    same(bias[11, :], at_each_count[torch.arange(12, 0, -1)], 1e-3)
    same(bias[1:, 1:].tril(), bias[:-1, :-1].tril(), 1e-3)


def test_when_no_token_counts_all_keys_are_at_position_0():
    encoding, q = make("cope"), torch.full((1, HEADS, 12, D), 100.0)
    same(encoding.counted(q, -q), torch.zeros(1, HEADS, 12, 12))


def test_more_than_the_longest_count_is_the_longest():
    encoding, q = make("cope"), torch.full((1, HEADS, 40, D), 100.0)
    counted = encoding.counted(q, q)[0, 0, 39]
    assert counted.max() == 16 and (counted[:24] == 16).all() and (counted[24:].diff() < 0).all()


def test_what_comes_later_does_not_count():
    encoding, (q, k) = make("cope"), queries_and_keys()
    later = k.clone()
    later[:, :, 10:] = torch.randn(2, HEADS, LENGTH - 10, D)
    same(encoding.bias(q, later)[:, :, :10, :10], encoding.bias(q, k)[:, :, :10, :10])


def test_a_window_counts_within_itself():
    local, full = Attention(D_MODEL, HEADS, make("cope", window=3)), Attention(D_MODEL, HEADS, make("cope"))
    full.load_state_dict(local.state_dict())
    q, k = queries_and_keys()
    near, all_of_them = local.positions.counted(q, k), full.positions.counted(q, k)
    for i, j in [(0, 0), (4, 1), (19, 16), (7, 7), (7, 5)]:
        same(near[:, :, i, j - i + 3], all_of_them[:, :, i, j])


def test_positions_alone_say_nothing():
    assert not make("cope").relation(20).any()


def test_a_new_model_does_not_see_positions():
    encoding = make("cope", longest=4)
    with torch.no_grad():
        encoding.table.zero_()
    assert not encoding.bias(*queries_and_keys()).any()
