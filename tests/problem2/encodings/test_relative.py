import cmath

import pytest
import torch

from problem1.shared.attention import Attention
from tests.problem2.encodings.common import D_MODEL, HEADS, LENGTH, D, logits, make, queries_and_keys, same


def test_rope_turns_complex_numbers():
    q, k = queries_and_keys()
    turned, turned_keys = make("rope").rotate(q, k)
    for t, i in [(0, 0), (1, 0), (7, 2), (19, 3)]:
        turn = cmath.exp(1j * t / 10_000 ** (2 * i / D))
        for before, after in ((q, turned), (k, turned_keys)):
            number = complex(*before[1, 2, t, 2 * i : 2 * i + 2].tolist()) * turn
            same(after[1, 2, t, 2 * i : 2 * i + 2], torch.tensor([number.real, number.imag]))


def test_interpolated_rope_turns_by_positions_squeezed_into_the_trained_ones():
    encoding, (q, k) = make("rope", beyond="interpolate"), queries_and_keys(64)
    turned, turned_keys = encoding.rotate(q, k)
    for t, i in [(0, 0), (1, 0), (21, 1), (50, 2), (63, 0), (63, 3)]:
        turn = cmath.exp(1j * (t * 15 / 63) / 10_000 ** (2 * i / D))
        for before, after in ((q, turned), (k, turned_keys)):
            number = complex(*before[1, 2, t, 2 * i : 2 * i + 2].tolist()) * turn
            same(after[1, 2, t, 2 * i : 2 * i + 2], torch.tensor([number.real, number.imag]))


def test_interpolating_rope_changes_nothing_at_trained_lengths():
    plain, interpolated = make("rope"), make("rope", beyond="interpolate")
    assert plain.beyond == "extend"
    for length, unchanged in ((2, True), (8, True), (16, True), (17, False), (64, False)):
        q, k = queries_and_keys(length)
        assert torch.equal(logits(plain, q, k), logits(interpolated, q, k)) is unchanged


def test_alibi_is_minus_slope_times_distance():
    bias = make("alibi").bias(*queries_and_keys()).expand(1, HEADS, LENGTH, LENGTH)
    for head, slope in enumerate([1 / 4, 1 / 16, 1 / 64, 1 / 256]):
        for i, j in [(0, 0), (3, 11), (11, 3), (19, 0)]:
            assert bias[0, head, i, j].item() == pytest.approx(-slope * abs(i - j))


def t5_bucket(distance, buckets=32, farthest=128):
    """The published rule, one distance at a time."""
    offset, exact, distance = buckets // 2 * (distance > 0), buckets // 4, abs(distance)
    if distance < exact:
        return offset + distance
    steps = [exact * (farthest / exact) ** (step / exact) for step in range(exact)]  # where each wide bucket begins
    return offset + exact - 1 + sum(distance >= start - 1e-9 for start in steps)


def test_t5_buckets_follow_the_published_rule():
    encoding = make("t5")
    distances = torch.arange(-300, 301)
    assert encoding.bucket(distances).tolist() == [t5_bucket(distance) for distance in distances.tolist()]
    known = {0: 0, -1: 1, -7: 7, -8: 8, -11: 8, -12: 9, -16: 10, -32: 12, -64: 14, -128: 15, -999: 15, 1: 17, 999: 31}
    assert encoding.bucket(torch.tensor(list(known))).tolist() == list(known.values())
    bias = encoding.bias(*queries_and_keys(40)).expand(1, HEADS, 40, 40)
    for i, j in [(0, 39), (39, 0), (5, 5), (5, 6)]:
        same(bias[0, :, i, j], encoding.bias_table[:, t5_bucket(j - i)])


@pytest.mark.parametrize("trained", [16, 17])
def test_clamped_t5_gives_untrained_distances_the_bias_of_the_farthest_trained_one(trained):
    encoding, (q, k) = make("t5", beyond="clamp", trained=trained), queries_and_keys(64)
    bias = encoding.bias(q, k).expand(1, HEADS, 64, 64)[0]
    for distance in range(-63, 64):
        clamped = max(min(distance, trained - 1), 1 - trained)
        along = bias.diagonal(distance, 1, 2)  # H, and every query with a key at this distance
        same(along, encoding.bias_table[:, t5_bucket(clamped), None].expand_as(along))


def test_interpolated_t5_squeezes_distances_into_the_trained_ones():
    encoding, (q, k) = make("t5", beyond="interpolate"), queries_and_keys(31)
    bias = encoding.bias(q, k)
    pairs = ((0, 30), (30, 0), (7, 8), (8, 7), (20, 3), (5, 5))
    for i, j in pairs:  # 31 positions squeezed into 16: half of every distance
        same(bias[0, :, i, j], encoding.bias_table[:, t5_bucket(int((j - i) / 2))])
    q, k = queries_and_keys(16)
    same(encoding.bias(q, k), encoding.bias_table[:, encoding.bucket(encoding.distances(q, k))][None])


def test_untrained_t5_is_the_default_and_clamping_leaves_trained_distances_alone():
    encoding, (q, k) = make("t5"), queries_and_keys(64)
    assert encoding.beyond == "untrained"
    bias = encoding.bias(q, k).expand(1, HEADS, 64, 64)[0]
    for distance in range(-63, 64):
        along = bias.diagonal(distance, 1, 2)
        same(along, encoding.bias_table[:, t5_bucket(distance), None].expand_as(along))
    encoding.beyond = "clamp"
    clamped = encoding.bias(q, k).expand(1, HEADS, 64, 64)[0]
    near = (torch.arange(64)[None] - torch.arange(64)[:, None]).abs() < 16
    assert torch.equal(clamped[:, near], bias[:, near])
    assert not torch.equal(clamped, bias)


def test_clipped_bias_has_one_number_per_head_and_clipped_distance():
    for clip in (1, 2):
        encoding = make("clipped", clip=clip)
        assert encoding.bias_table.shape == (HEADS, 2 * clip + 1)
        bias = encoding.bias(*queries_and_keys()).expand(1, HEADS, LENGTH, LENGTH)
        for i, j in [(0, 19), (19, 0), (5, 5), (5, 6), (6, 5), (5, 7), (8, 5)]:
            same(bias[0, :, i, j], encoding.bias_table[:, min(max(j - i, -clip), clip) + clip])


def test_shaw_adds_a_key_per_head_and_clipped_distance():
    encoding, (q, k) = make("shaw", clip=3), queries_and_keys()
    got = logits(encoding, q, k)
    for item, head, i, j in [(0, 0, 0, 19), (1, 2, 19, 0), (0, 3, 5, 5), (1, 1, 5, 7), (1, 1, 7, 5)]:
        key = k[item, head, j] + encoding.keys[head, min(max(j - i, -3), 3) + 3]
        same(got[item, head, i, j], q[item, head, i] @ key / D**0.5)


@pytest.mark.parametrize("window", [None, 4])
def test_shaw_with_values_adds_a_value_per_head_and_clipped_distance_to_the_outputs(window):
    plain = Attention(D_MODEL, HEADS, make("shaw", clip=3, window=window))
    valued = Attention(D_MODEL, HEADS, make("shaw", clip=3, window=window, values=1))
    valued.load_state_dict(plain.state_dict(), strict=False)
    x = torch.randn(2, 9, D_MODEL)
    before, after = (attend(x, return_attention=True)[1] for attend in (plain, valued))
    same(after.weights, before.weights)
    table = valued.positions.value_table
    for item, head, i in [(0, 0, 0), (1, 2, 4), (0, 3, 8), (1, 1, 7)]:
        expected = before.outputs[item, head, i]
        for place, weight in enumerate(before.weights[item, head, i]):
            j = place if window is None else i + place - window
            expected = expected + weight * table[head, min(max(j - i, -3), 3) + 3]
        same(after.outputs[item, head, i], expected)
    same(valued(x)[0], valued(x, return_attention=True)[0])
    same(valued(x)[0], valued.mix(after.outputs))


def test_values_are_shaws_only_if_asked_for():
    assert not make("shaw").adds_values and make("shaw", values=1).adds_values
    assert set(dict(make("shaw").named_parameters())) == {"keys"}
