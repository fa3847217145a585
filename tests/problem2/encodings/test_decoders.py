import math

import pytest
import torch

from tests.problem2.encodings.common import D_MODEL, HEADS, LENGTH, D, logits, make, make_new, queries_and_keys, same

PAIRS = [(0, 0), (1, 0), (7, 7), (11, 3), (19, 0), (19, 18)]  # a query and a key that it sees


@pytest.mark.parametrize("name", ["transformer_xl", "kerple", "nape"])
def test_what_depends_on_the_distance_only_does_so_for_every_pair_in_sight(name):
    encoding, (q, k) = make(name), queries_and_keys()
    q, k = (each[:, :, :1].expand(-1, -1, LENGTH, -1) for each in (q, k))  # all tokens hold the same
    got = logits(encoding, q, k)
    for distance in range(LENGTH):
        along = got.diagonal(-distance, -2, -1)
        same(along, along[..., :1].expand_as(along))
    relation = encoding.relation(LENGTH)
    assert all(relation[i, j] == j - i for i, j in PAIRS)


# --- Transformer-XL --------------------------------------------------------------------------------------------------


def sinusoidal_row(position):
    pairs = [position / 10_000 ** (2 * i / D_MODEL) for i in range(D_MODEL // 2)]
    return torch.tensor([f(angle) for angle in pairs for f in (math.sin, math.cos)])


def test_transformer_xl_is_the_sum_of_its_four_terms():
    encoding, (q, k) = make("transformer_xl"), queries_and_keys()
    assert encoding.u.any() and encoding.v.any() and encoding.per_layer
    got = logits(encoding, q, k)
    for item, head in [(0, 0), (1, 2), (0, 3)]:
        u, v = encoding.u[head, 0], encoding.v[head, 0]
        for i, j in PAIRS:
            row = (encoding.row_key.weight @ sinusoidal_row(i - j))[head * D : (head + 1) * D]
            content, position = q[item, head, i] @ k[item, head, j], q[item, head, i] @ row
            expected = content + position + u @ k[item, head, j] + v @ row
            same(got[item, head, i, j], expected / D**0.5)


def test_a_new_transformer_xl_has_no_u_and_v_yet():
    encoding = make_new("transformer_xl")
    assert not encoding.u.any() and not encoding.v.any() and encoding.row_key.weight.any()


# --- FIRE ------------------------------------------------------------------------------------------------------------


def fire(encoding, i, j):
    """f(psi(i - j) / psi(max(L, i))) for all heads, one pair at a time."""
    c, threshold = encoding.log_c.exp().item(), encoding.log_threshold.exp().item()
    share = math.log(c * (i - j) + 1) / math.log(c * max(threshold, i) + 1)
    first, _, second = encoding.network
    return second.weight @ (first.weight[:, 0] * share + first.bias).clamp(min=0) + second.bias


@pytest.mark.parametrize(("c", "threshold"), [(1.0, 8.0), (0.1, 3.0), (20.0, 100.0)])
@pytest.mark.parametrize("window", [None, 20])
def test_fire_is_a_function_of_the_normalised_distance(c, threshold, window):
    encoding = make("fire", window=window)
    assert encoding.log_threshold.exp().item() == pytest.approx(8) and encoding.network[0].out_features == 32
    with torch.no_grad():
        encoding.log_c.fill_(math.log(c))
        encoding.log_threshold.fill_(math.log(threshold))
    bias = encoding.bias(*queries_and_keys())
    for i, j in PAIRS:
        same(bias[0, :, i, j if window is None else j - i + window], fire(encoding, i, j))


def test_what_fire_reads_lies_between_0_and_1_at_every_length():
    encoding = make("fire")
    for length in (2, 16, 64, 1_024):
        back = encoding.back(torch.zeros(length, 1), torch.zeros(length, 1))
        share = encoding.normalised(back, length).detach()
        assert share.min() == 0 and share.max() <= 1 + 1e-6
        assert (share.diagonal() == 0).all()  # the token itself
        if length > 8:  # from there on the first token is as far as can be
            same(share[8:, 0], torch.ones(length - 8))
        assert encoding.relation(length).max() <= encoding.trained


def test_fire_does_not_know_a_distance_but_its_share_of_all_distances():
    encoding = make("fire")
    same(encoding.bias(*queries_and_keys(64))[..., 63, 0], encoding.bias(*queries_and_keys(16))[..., 15, 0])
    assert encoding.relation(64)[63, 0] == encoding.relation(16)[15, 0] == 16


# --- KERPLE and NAPE -------------------------------------------------------------------------------------------------


def test_kerple_falls_with_the_logarithm_of_the_distance():
    encoding = make("kerple")
    r1, r2 = encoding.log_r1.exp().tolist(), encoding.log_r2.exp().tolist()
    assert 0 < min(r1) < max(r1) < 2 and 0 < min(r2) < max(r2) < 1 and len(set(r1)) == len(set(r2)) == HEADS
    bias = encoding.bias(*queries_and_keys())
    for head in range(HEADS):
        for i, j in PAIRS:
            assert bias[0, head, i, j].item() == pytest.approx(-r1[head] * math.log(1 + r2[head] * (i - j)), abs=1e-5)


@pytest.mark.parametrize("n_heads", [2, 4, 8])
def test_half_of_napes_heads_have_a_slope_and_half_have_nothing(n_heads):
    encoding = type(make("nape"))(D_MODEL, n_heads)
    bias = encoding.bias(torch.zeros(1, n_heads, LENGTH, 1), torch.zeros(1, n_heads, LENGTH, 1))
    slopes = {2: [1], 4: [1, 1 / 2], 8: [1, 1 / 2, 1 / 3, 1 / 4]}[n_heads] + [0] * (n_heads // 2)
    for head, slope in enumerate(slopes):
        for i, j in PAIRS:
            assert bias[0, head, i, j].item() == pytest.approx(-slope * (i - j))
    assert not list(encoding.parameters())
