import math

import pytest
import torch

from problem1.shared import attention
from problem1.shared.errors import UserError
from problem2.encodings import sinusoids
from tests.problem2.encodings.common import D_MODEL, added, make, same


def test_sinusoidal_is_problem_1s_table():
    expected = attention.Sinusoidal().embed(torch.zeros(300, D_MODEL))
    assert torch.equal(added(make("sinusoidal"), 300)[0], expected)
    position, i = 7.25, 3  # between whole positions
    angle = position / 10_000 ** (2 * i / D_MODEL)
    same(
        sinusoids(torch.tensor(position), D_MODEL)[2 * i : 2 * i + 2], torch.tensor([math.sin(angle), math.cos(angle)])
    )


@pytest.mark.parametrize("k", [1, 7, 40])
def test_a_sinusoidal_row_k_further_on_is_a_fixed_linear_map_of_a_row(k):
    rows = added(make("sinusoidal"), 200)[0].double()
    turn = torch.zeros(D_MODEL, D_MODEL, dtype=torch.float64)
    for i in range(0, D_MODEL, 2):
        angle = k / 10_000 ** (i / D_MODEL)
        sin, cos = math.sin(angle), math.cos(angle)
        turn[i : i + 2, i : i + 2] = torch.tensor([[cos, sin], [-sin, cos]])
    same(rows[k:], rows[:-k] @ turn.T, 1e-4)


def test_products_of_sinusoidal_rows_depend_on_the_distance_only():
    rows = added(make("sinusoidal"), 100)[0].double()
    products = rows @ rows.T
    for distance in (0, 1, 13):
        along = products.diagonal(distance)
        same(along, along[:1].expand_as(along), 1e-4)


def test_interpolation_squeezes_long_sequences_into_the_trained_positions_and_leaves_short_ones_alone():
    for name in ("sinusoidal", "learned"):
        plain, interpolated = make(name), make(name, beyond="interpolate")
        interpolated.load_state_dict(plain.state_dict())
        for length in (8, 16):
            same(added(interpolated, length), added(plain, length))
        long, trained = added(interpolated, 61)[0], added(plain, 16)[0]
        same(long[::4], trained)  # 60 steps over 15: every fourth position is a trained one
    same(long[1], 0.75 * trained[0] + 0.25 * trained[1])  # learned: on the way from one row to the next
    positions = make("sinusoidal", beyond="interpolate").positions_of(torch.zeros(1, 61, D_MODEL))
    same(positions, torch.arange(61) / 4)


def test_clamped_positions_stay_at_the_last_trained_one():
    for name in ("sinusoidal", "learned"):
        encoding = make(name, beyond="clamp")
        trained, long = added(encoding, 16)[0], added(encoding, 61)[0]
        same(long, torch.cat([trained, trained[-1:].expand(45, -1)]))


def test_moved_positions_are_the_interpolated_ones_that_far_on_where_training_never_was():
    for length in (17, 61, 256):
        interpolated, moved = (
            make("sinusoidal", beyond=policy).positions_of(torch.zeros(1, length, D_MODEL))
            for policy in ("interpolate", "moved")
        )
        same(moved, interpolated + (length - 16))
        assert moved.max() <= length - 1 and (length < 32 or moved.min() >= 16)
    plain, moved = make("learned", beyond="untrained"), make("learned", beyond="moved")
    moved.load_state_dict(plain.state_dict())
    same(added(moved, 16), added(plain, 16))
    same(added(moved, 61)[0, ::4], plain.table[45:61])
    same(added(moved, 256)[0, -1], plain.table[255])
    with pytest.raises(UserError, match="the learned table has 256 rows, too few for length 257"):
        added(moved, 257)


def test_a_shift_moves_each_training_sequence_as_a_whole_by_an_offset_of_its_own():
    encoding = make("sinusoidal", shift=20).train()
    positions = positions_read_back(added(encoding, 12, batch=400))
    offsets = positions[:, :1]
    assert torch.equal(positions, offsets + torch.arange(12))
    assert set(offsets.flatten().tolist()) == set(range(20))  # every one of them, and none beyond
    assert offsets.flatten().bincount().max() < 50  # 20 each, standard deviation 4.4


def test_a_shift_is_drawn_anew_from_torchs_generator():
    encoding = make("sinusoidal", shift=241).train()
    torch.manual_seed(3)
    first, second = added(encoding, 16, batch=8), added(encoding, 16, batch=8)
    torch.manual_seed(3)
    assert torch.equal(added(encoding, 16, batch=8), first) and not torch.equal(first, second)


def test_nothing_is_shifted_after_training_or_without_a_shift():
    shifted, plain = make("sinusoidal", shift=50), make("sinusoidal")
    for length in (16, 64):
        assert torch.equal(added(shifted, length, batch=8), added(plain, length, batch=8))
    before = torch.get_rng_state()
    assert torch.equal(added(make("sinusoidal").train(), 16, batch=8), added(plain, 16, batch=8))
    assert torch.equal(torch.get_rng_state(), before)


def test_learned_positions_beyond_training_follow_the_stated_policy():
    encoding = make("learned")
    table = encoding.table
    assert table.shape == (256, D_MODEL)
    same(added(encoding, 16)[0], table[:16])
    same(added(encoding, 300)[0], torch.cat([table[:16], table[15:16].expand(284, -1)]))
    encoding.beyond = "untrained"
    same(added(encoding, 64)[0], table[:64])
    with pytest.raises(UserError, match="the learned table has 256 rows, too few for length 257"):
        added(encoding, 257)
    encoding.beyond = "interpolate"
    added(encoding, 1_000).sum().backward()
    touched = table.grad.abs().sum(1) > 0
    assert touched[:16].all() and not touched[16:].any()


def positions_read_back(rows):
    """The positions in 0..2047 whose sinusoidal rows these are."""
    nearest = torch.cdist(rows, sinusoids(torch.arange(2_048), D_MODEL)).min(-1)
    assert nearest.values.max() < 1e-2
    return nearest.indices


def test_randomized_positions_are_sorted_distinct_and_drawn_anew_for_every_sequence():
    encoding = make("randomized").train()
    positions = positions_read_back(added(encoding, 16, batch=50))
    assert (positions.diff(dim=1) > 0).all()
    assert len({tuple(row) for row in positions.tolist()}) == 50
    assert positions.min() < 20 and positions.max() > 2_028
    with pytest.raises(UserError, match="length 2049 does not fit into 2048 random positions; choose a larger span"):
        added(encoding, 2_049)


def test_randomized_positions_come_from_torchs_generator():
    encoding = make("randomized").train()
    torch.manual_seed(3)
    first, second = added(encoding, 16), added(encoding, 16)
    torch.manual_seed(3)
    assert torch.equal(added(encoding, 16), first) and not torch.equal(first, second)


def test_randomized_positions_at_test_time_are_evenly_spaced_means_of_the_training_ones():
    encoding = make("randomized").train()
    drawn = encoding.positions_of(torch.zeros(4_000, 12, 1)).double().mean(0)
    encoding.eval()
    positions = encoding.positions_of(torch.zeros(1, 12, 1))
    same(positions.double(), drawn, 25)  # the mean of 4,000 draws with a standard deviation of at most 280
    gaps = encoding.positions_of(torch.zeros(1, 4_096, 1)).diff()
    assert (gaps > 0).all() and gaps.max() - gaps.min() < 1e-3
    assert torch.equal(added(encoding, 64), added(encoding, 64))
