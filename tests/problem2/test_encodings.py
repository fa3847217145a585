import cmath
import math

import pytest
import torch

from problem1.shared import attention
from problem1.shared.errors import UserError
from problem2.encodings import (
    ASSIGNED,
    ENCODINGS,
    HIGHEST,
    Absolute,
    Encoding,
    encoding_options,
    make_encoding,
    own_options,
    sinusoids,
)

D_MODEL, HEADS, LENGTH = 32, 4, 20
D = D_MODEL // HEADS


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def same(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


def make(name, **options):
    return make_encoding(name, D_MODEL, HEADS, **options).eval()


def queries_and_keys(length=LENGTH):
    return torch.randn(2, HEADS, length, D), torch.randn(2, HEADS, length, D)


def logits(encoding, q, k):
    """What attention computes before its softmax."""
    q, k = encoding.rotate(q, k)
    bias = encoding.bias(q, k)
    return q @ k.transpose(-2, -1) / D**0.5 + (0 if bias is None else bias)


def added(encoding, length, batch=1):
    """What the encoding adds to the embeddings of a sequence: (batch, length, width)."""
    return encoding.embed(torch.zeros(batch, length, D_MODEL))


# --- the registry ----------------------------------------------------------------------------------------------------


def test_the_registry_knows_all_encodings_of_the_assignment_and_more():
    assert set(ENCODINGS) >= {"none", "sinusoidal", "learned", "rope", "alibi", "t5", "clipped", "shaw", "randomized"}
    assert all(cls.name == name and cls.label for name, cls in ENCODINGS.items())
    assert ENCODINGS["causal"].causal and not ENCODINGS["none"].causal
    assert ENCODINGS["causal"].label == "NoPE, causal" and set(ASSIGNED) == {"sinusoidal", "learned", "none"}


def test_a_new_class_registers_itself_and_one_without_a_name_does_not():
    known = dict(ENCODINGS)
    try:

        class Between(Encoding):
            pass

        class New(Between, name="new"):
            def __init__(self, d_model, n_heads, speed=3, **rest):
                super().__init__(d_model, n_heads, **rest)
                self.speed = speed

        assert set(ENCODINGS) - set(known) == {"new"}
        made = make_encoding("new", D_MODEL, HEADS, window=2, speed=5)
        assert isinstance(made, New) and made.label == "new" and (made.window, made.speed) == (2, 5)
    finally:
        ENCODINGS.pop("new")
    assert known == ENCODINGS


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": "cosine"}, "encoding is 'cosine'; the known ones are none, causal, sinusoidal, learned"),
        ({"name": "alibi", "clip": 3}, "encoding alibi has no option 'clip'; it has none."),
        ({"name": "t5", "clip": 3}, "encoding t5 has no option 'clip'; it has beyond, buckets, farthest."),
        (
            {"name": "learned", "beyond": "extend"},
            "beyond is 'extend'; encoding learned knows clamp, untrained, interp",
        ),
        ({"name": "learned", "beyond": "rescale"}, "beyond is 'rescale'; it is now called 'interpolate'."),
        ({"name": "learned", "table_rows": 8}, "table_rows is 8; training alone fills 16."),
        ({"name": "learned", "table_rows": 10**12}, "table_rows is 1000000000000; it must be a whole number between 0"),
        ({"name": "clipped", "clip": 0}, "clip is 0; it must be a whole number between 1 and 10000."),
        ({"name": "shaw", "clip": 10**12}, "clip is 1000000000000; it must be a whole number between 1 and 10000."),
        ({"name": "shaw", "clip": 1.5}, "clip is 1.5; it must be a whole number"),
        ({"name": "shaw", "clip": True}, "clip is True; it must be a whole number"),
        ({"name": "shaw", "clip": "two"}, "clip is 'two'; it must be a whole number"),
        ({"name": "t5", "buckets": 6}, "buckets is 6; it must be a multiple of 4."),
        ({"name": "t5", "buckets": 0}, "buckets is 0; it must be a whole number between 4 and 10000."),
        ({"name": "t5", "farthest": 8}, "farthest is 8; with 32 buckets it must be above 8."),
        ({"name": "t5", "beyond": "extend"}, "beyond is 'extend'; encoding t5 knows untrained, clamp, interpolate."),
        ({"name": "randomized", "span": 16}, "span is 16; it must be a whole number between 17 and 10000."),
        ({"name": "none", "window": 0}, "window is 0; it must lie between 1 and 64, or be None for full attention."),
        ({"name": "none", "window": 10**12}, "window is 1000000000000; it must lie between 1 and 64, or be None"),
        ({"name": "sinusoidal", "d_model": 33}, "d_model is 33; sines and cosines come in pairs, so it must be even."),
        ({"name": "rope", "d_model": 36}, "heads of width 9 cannot be turned in pairs; it must be even."),
        ({"name": "rope", "beyond": "clamp"}, "beyond is 'clamp'; encoding rope knows extend, interpolate."),
        ({"name": "sinusoidal", "shift": -1}, "shift is -1; it must be a whole number between 0 and 10000."),
    ],
)
def test_what_does_not_fit_gets_one_sentence(arguments, sentence):
    with pytest.raises(UserError) as error:
        make_encoding(**({"d_model": D_MODEL, "n_heads": HEADS} | arguments))
    assert str(error.value).startswith(sentence) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ENCODINGS)
def test_defaults_are_no_options_and_the_greatest_numbers_can_be_built(name):
    defaults = encoding_options(name)
    assert own_options(name, defaults) == own_options(name, {}) == {}
    greatest = {option: HIGHEST for option, default in defaults.items() if isinstance(default, int)}
    assert list(own_options(name, greatest)) == sorted(greatest)
    memory = sum(parameter.numel() for parameter in make_encoding(name, 128, 4, **greatest).parameters())
    assert memory < 10**7


def test_own_options_do_not_depend_on_their_order():
    first, second = ({"farthest": 64, "beyond": "clamp"}, {"beyond": "clamp", "farthest": 64, "buckets": 32})
    assert list(own_options("t5", first).items()) == list(own_options("t5", second).items())


def test_a_policy_can_be_changed_later_but_not_to_an_unknown_one():
    encoding = make("sinusoidal")
    encoding.beyond = "interpolate"
    assert encoding.beyond == "interpolate"
    with pytest.raises(UserError, match="beyond is 'clamp'; encoding sinusoidal knows extend, interpolate"):
        encoding.beyond = "clamp"


# --- what defines them -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, cls in ENCODINGS.items() if not issubclass(cls, Absolute)])
@pytest.mark.parametrize("shift", [1, 5, 300])
def test_shifting_all_positions_changes_nothing_unless_they_are_absolute(name, shift):
    encoding, (q, k) = make(name), queries_and_keys()
    before = torch.randn(2, HEADS, shift, D)
    moved = logits(encoding, torch.cat([before, q], dim=2), torch.cat([before, k], dim=2))
    same(moved[..., shift:, shift:], logits(encoding, q, k), 1e-4)  # float32 sines lose a little at position 300
    x = torch.randn(2, LENGTH, D_MODEL)
    same(encoding.embed(torch.cat([torch.zeros(2, shift, D_MODEL), x], dim=1))[:, shift:], encoding.embed(x))


@pytest.mark.parametrize("name", [name for name, cls in ENCODINGS.items() if issubclass(cls, Absolute)])
def test_absolute_encodings_tell_positions_apart_in_the_embeddings_and_nowhere_else(name):
    encoding, (q, k) = make(name), queries_and_keys()
    rows = added(encoding, 16)[0]
    assert torch.pdist(rows).min() > 0.1
    x = torch.randn(3, 16, D_MODEL)
    same(encoding.embed(x) - x, rows.expand(3, -1, -1))
    same(logits(encoding, q, k), q @ k.transpose(-2, -1) / D**0.5)


@pytest.mark.parametrize("name", ENCODINGS)
def test_all_but_none_and_alibi_tell_left_from_right(name):
    """The neighbours of the middle token change places: does it notice?"""
    encoding, x = make(name), torch.randn(1, 5, D_MODEL)
    attend = attention.Attention(D_MODEL, HEADS, encoding)
    before, after = (
        attend(encoding.embed(each), causal=encoding.causal)[0][:, 2] for each in (x, x[:, [0, 3, 2, 1, 4]])
    )
    if name in ("none", "alibi"):
        same(before, after)
    else:
        assert (before - after).abs().max() > 1e-2


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("length", [16, 64])
def test_a_window_as_wide_as_the_sequence_equals_full_attention(name, length):
    full = attention.Attention(D_MODEL, HEADS, make(name))
    local = attention.Attention(D_MODEL, HEADS, make(name, window=length))
    local.load_state_dict(full.state_dict())
    causal = full.positions.causal
    x = torch.randn(2, length, D_MODEL)
    same(local.positions.embed(x), full.positions.embed(x))
    same(local(x, causal=causal)[0], full(x, causal=causal)[0])


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_is_learned_gets_a_gradient(name):
    encoding = make(name).train()
    x, (q, k) = torch.randn(2, LENGTH, D_MODEL, requires_grad=True), queries_and_keys()
    (encoding.embed(x).square().sum() + logits(encoding, q, k).square().sum()).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in encoding.parameters())


# --- each against its own formula ------------------------------------------------------------------------------------


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
