import numpy as np
import pytest
import torch
from torch import nn

from problem1.shared.attention import sinusoids
from problem1.shared.errors import UserError
from problem2.encodings import ENCODINGS, Absolute, make_encoding, relative_positions
from problem2.mathematics import (
    invariant_part,
    invariant_share,
    position_facts,
    position_logits,
    position_matrices,
    position_shift,
    share_of_distance,
)
from problem2.model import Classifier

D_MODEL, HEADS = 8, 2
FACTS = {
    "share of W in the invariant subspace",
    "logits explained by distance, length 16",
    "logits explained by distance, length 64",
    "logits explained by distance, length 256",
}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def same(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


def tiny(encoding="sinusoidal", **arguments):
    model = Classifier(encoding, n_layers=1, n_heads=HEADS, d_model=D_MODEL, d_ff=8, **arguments)
    for parameter in model.parameters():
        if parameter.ndim == 1:  # gains start at one and biases at zero, where a mistake would not show
            nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.3)
    return model.eval()


def matrices(count, width=D_MODEL):
    return torch.randn(count, width, width, dtype=torch.float64)


def position_terms(matrix, length=40):
    """(..., T, T): P_t W P_s^T."""
    rows = sinusoids(torch.arange(length, dtype=torch.float64), matrix.shape[-1])
    return rows @ matrix @ rows.T


def along_distances(logits):
    """The greatest change when query and key both move on by one position."""
    return (logits[..., 1:, 1:] - logits[..., :-1, :-1]).abs().amax((-2, -1))


# --- the subspace ----------------------------------------------------------------------------------------------------


def test_the_invariant_part_is_an_orthogonal_projection():
    a, b = matrices(50), matrices(50)
    same(invariant_part(invariant_part(a)), invariant_part(a))
    same((invariant_part(a) * b).sum((-2, -1)), (a * invariant_part(b)).sum((-2, -1)))
    same(invariant_part(a + 3 * b), invariant_part(a) + 3 * invariant_part(b))
    same(invariant_part(a)[7], invariant_part(a[7]))


def test_the_invariant_part_leaves_its_argument_alone():
    a = matrices(3)
    before = a.clone()
    assert not torch.equal(invariant_part(a), before) and torch.equal(a, before)


def test_the_position_term_of_the_invariant_part_depends_on_the_distance_only():
    invariant = invariant_part(matrices(50))
    assert invariant.abs().amax((-2, -1)).min() > 0.1
    assert along_distances(position_terms(invariant)).max() < 1e-10


def test_the_position_term_of_a_random_matrix_depends_on_more_than_the_distance():
    random = matrices(50)
    assert along_distances(position_terms(random)).min() > 0.5
    assert along_distances(position_terms(random - invariant_part(random))).min() > 0.5


def test_the_position_term_is_a_sum_of_waves_of_the_distance():
    matrix, frequencies = matrices(1)[0], (10_000 ** (-torch.arange(0, D_MODEL, 2) / D_MODEL)).double()
    a = torch.stack([matrix[i, i] + matrix[i + 1, i + 1] for i in range(0, D_MODEL, 2)]) / 2
    b = torch.stack([matrix[i, i + 1] - matrix[i + 1, i] for i in range(0, D_MODEL, 2)]) / 2
    angles = (torch.arange(40)[:, None] - torch.arange(40))[..., None] * frequencies  # T T M/2
    same(position_terms(invariant_part(matrix)), (a * angles.cos() + b * angles.sin()).sum(-1), 1e-5)


def test_the_subspace_holds_every_matrix_whose_term_depends_on_the_distance_only():
    """These are the kernel of W -> the change of P_t W P_s^T along its diagonals, and it has M dimensions."""
    width, positions = 4, 20 * torch.arange(30, dtype=torch.float64)
    rows = sinusoids(positions, width)
    terms = torch.einsum("ti,sj->tsij", rows, rows).flatten(2)
    _, sizes, directions = torch.linalg.svd((terms[1:, 1:] - terms[:-1, :-1]).flatten(0, 1), full_matrices=False)
    assert (sizes > 1e-3).sum() == width**2 - width and (sizes < 1e-9).sum() == width
    kernel = directions[-width:].unflatten(1, (width, width))
    same(invariant_part(kernel), kernel, 1e-9)


def test_the_invariant_share_is_one_for_the_identity_and_for_every_invariant_matrix():
    assert invariant_share(torch.eye(D_MODEL)) == pytest.approx(1)
    assert invariant_share(invariant_part(matrices(20))) == pytest.approx(np.ones(20))
    assert invariant_share(torch.diag(torch.tensor([1.0, -1.0, 1.0, -1.0]))) == pytest.approx(0)


@pytest.mark.parametrize("width", [4, 16])
def test_the_invariant_share_of_random_matrices_is_one_in_the_width(width):
    shares = invariant_share(matrices(4_000, width))
    assert shares.shape == (4_000,) and shares.min() >= 0 and shares.max() <= 1
    assert shares.mean() == pytest.approx(1 / width, rel=0.05)


# --- the share of distance -------------------------------------------------------------------------------------------


def toeplitz(size=20):
    by_distance = np.random.default_rng(0).normal(size=2 * size - 1)
    return by_distance[np.arange(size)[None] - np.arange(size)[:, None] + size - 1]


def test_logits_that_depend_on_the_distance_only_are_explained_by_it_whole():
    assert share_of_distance(toeplitz()) == pytest.approx(1)
    assert share_of_distance(torch.tensor(toeplitz(7))) == pytest.approx(1)


def test_random_logits_are_hardly_explained_by_distance():
    draw = np.random.default_rng(0)
    shares = [share_of_distance(draw.normal(size=(40, 40))) for _ in range(50)]
    assert np.mean(shares) == pytest.approx(2 / 41, rel=0.15)  # 2T - 1 means of T^2 numbers
    assert share_of_distance(np.arange(40.0)[:, None] * np.ones(40)) < 0.6  # the query alone


def test_the_share_of_distance_agrees_with_a_count_by_hand():
    assert share_of_distance([[0, 1], [2, 4]]) == pytest.approx(1 - 8 / 8.75)  # only 0 and 4 are at one distance


def test_the_share_of_distance_does_not_change_with_a_constant_or_a_factor():
    mixed = toeplitz() + np.random.default_rng(1).normal(size=(20, 20))
    share = share_of_distance(mixed)
    assert 0.3 < share < 0.8
    assert share_of_distance(mixed + 7) == pytest.approx(share) == share_of_distance(-3 * mixed)


# --- a classifier ----------------------------------------------------------------------------------------------------


def by_hand(model, rows):
    """The position term, one head, query and key at a time: the LayerNorm's mean and gain, then q . k / sqrt(D)."""
    block, depth = model.blocks[0], D_MODEL // HEADS
    logits = torch.zeros(HEADS, len(rows), len(rows))
    for head in range(HEADS):
        own = slice(head * depth, (head + 1) * depth)
        query, key = (linear.weight[own] for linear in (block.attention.query, block.attention.key))
        for t, at_query in enumerate(rows):
            for s, at_key in enumerate(rows):
                q = query @ ((at_query - at_query.mean()) * block.norm.weight)
                k = key @ ((at_key - at_key.mean()) * block.norm.weight)
                logits[head, t, s] = q @ k / depth**0.5
    return logits.detach()


def test_position_logits_are_those_of_a_double_loop():
    model, positions = tiny(), torch.tensor([0, 1, 2, 7, 40])
    got = position_logits(model, positions)
    assert got.shape == (HEADS, 5, 5) and got.abs().max() > 0.1
    same(got, by_hand(model, sinusoids(positions, D_MODEL)), 1e-5)
    model = tiny("learned")
    same(position_logits(model, positions), by_hand(model, model.positions.table[positions]), 1e-5)


def test_position_logits_are_those_of_attention_to_bare_rows():
    """What LayerNorm divides by is multiplied back, and its bias and those of queries and keys are zero."""
    model, positions = tiny(), torch.arange(12)
    block, rows = model.blocks[0], sinusoids(positions, D_MODEL)
    with torch.no_grad():
        for bias in (block.norm.bias, block.attention.query.bias, block.attention.key.bias):
            bias.zero_()
        deviation = (rows.var(-1, correction=0, keepdim=True) + block.norm.eps).sqrt()
        x = block.norm(rows[None]) * deviation
        q, k = block.attention.split(block.attention.query(x)), block.attention.split(block.attention.key(x))
        expected = (q @ k.transpose(-2, -1) / (D_MODEL // HEADS) ** 0.5)[0]
    same(position_logits(model, positions), expected, 1e-5)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_only_classifiers_with_sinusoidal_rows_have_position_facts(encoding):
    facts = position_facts(tiny(encoding))
    if not issubclass(ENCODINGS[encoding], Absolute) or encoding == "learned":
        assert facts == {}
    else:
        assert set(facts) == FACTS and all(type(fact) is float and 0 <= fact <= 1 for fact in facts.values())


def test_position_facts_are_means_over_the_heads_at_the_positions_of_the_encoding():
    where = {
        "sinusoidal": lambda length: torch.arange(length),
        "randomized": lambda length: torch.arange(1, length + 1) * 2_049 / (length + 1) - 1,
    }
    for encoding, positions in where.items():
        model = tiny(encoding)
        facts = position_facts(model)
        assert facts.pop("share of W in the invariant subspace") == pytest.approx(
            invariant_share(position_matrices(model)).mean()
        )
        for length in (16, 64, 256):
            shares = [share_of_distance(logits) for logits in position_logits(model, positions(length))]
            assert facts[f"logits explained by distance, length {length}"] == pytest.approx(np.mean(shares), rel=1e-4)
            assert abs(shares[0] - shares[1]) > 1e-3


def test_position_facts_follow_the_policy_beyond_training():
    model = tiny()
    extended = position_facts(model)
    model.positions.beyond = "interpolate"
    interpolated = position_facts(model)
    for length, unchanged in ((16, True), (64, False), (256, False)):
        name = f"logits explained by distance, length {length}"
        assert (interpolated[name] == extended[name]) is unchanged


# --- the shift of the position distribution --------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_at_the_trained_length_nothing_is_unseen_or_shifted(encoding):
    assert position_shift(make_encoding(encoding, 64, 4).eval(), 16) == {"unseen": 0, "shift": 0}


def test_the_shift_of_distances_is_that_of_a_count_by_hand():
    clipped = position_shift(make_encoding("clipped", 64, 4, clip=1), 32)
    own, left, right = np.array([[(d == 0).mean(), (d < 0).mean(), (d > 0).mean()] for d in grids()]).T
    assert clipped["unseen"] == 0
    assert clipped["shift"] == pytest.approx(sum(abs(a - b) for a, b in (own, left, right)) / 2, abs=1e-6)
    alibi = position_shift(make_encoding("alibi", 64, 4), 32)
    assert alibi["unseen"] == pytest.approx((np.abs(grids()[1]) > 15).mean(), abs=1e-6)
    assert alibi["unseen"] < alibi["shift"] < 1


def grids():
    """Key minus query at lengths 16 and 32."""
    return [np.arange(n)[None] - np.arange(n)[:, None] for n in (16, 32)]


def test_pairs_that_a_causal_mask_hides_do_not_count():
    kerple = position_shift(make_encoding("kerple", 64, 4), 32)
    near, far = ([d for d in grid.flatten() if d <= 0] for grid in grids())
    assert kerple["unseen"] == pytest.approx(np.mean([d not in near for d in far]), abs=1e-6)
    assert 0 < kerple["unseen"] < kerple["shift"] < 1
    for encoding in ("causal", "cope"):  # they know nothing of positions
        assert position_shift(make_encoding(encoding, 64, 4), 256) == {"unseen": 0, "shift": 0}


def test_shares_of_all_distances_are_new_for_the_nearest_keys_only():
    """psi(1) / psi(255) is 1/8; at length 16 the smallest share but 0 is psi(1) / psi(15), 1/4."""
    encoding = make_encoding("fire", 64, 4)
    before, now = (encoding.relation(length) for length in (16, 256))
    new = ~torch.isin(now, before) & (relative_positions(torch.arange(256)) <= 0)
    query, key = new.nonzero().T
    assert now[255, 254] == 2 and before[15, 14] == 4 and new[255, 254]
    assert (query - key).max() <= 3  # psi(3) / psi(255) is 1/4 already
    assert (
        0
        < position_shift(encoding, 256)["unseen"]
        < 0.02
        < position_shift(make_encoding("kerple", 64, 4), 256)["unseen"]
    )


def test_stretched_positions_fall_between_those_of_training():
    assert position_shift(make_encoding("stretched", 64, 4), 32)["unseen"] == pytest.approx(0.75, abs=1e-6)


def test_absolute_positions_are_new_beyond_training_unless_they_are_interpolated():
    extended, interpolated = (make_encoding("sinusoidal", 64, 4, beyond=b).eval() for b in ("extend", "interpolate"))
    assert position_shift(extended, 32) == pytest.approx({"unseen": 0.75, "shift": 0.75}, abs=1e-6)
    assert position_shift(interpolated, 32)["unseen"] == 0


def test_an_encoding_without_rows_has_no_position_term():
    with pytest.raises(UserError, match="encoding rope adds no rows to the embeddings"):
        position_logits(tiny("rope"), torch.arange(4))
