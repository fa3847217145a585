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
)
from problem2.encodings.base import LIMITS
from tests.problem2.encodings.common import (
    D_MODEL,
    HEADS,
    LENGTH,
    D,
    added,
    logits,
    make,
    make_new,
    queries_and_keys,
    same,
)

# --- the registry ----------------------------------------------------------------------------------------------------


def test_the_registry_knows_all_encodings_of_the_assignment_and_more():
    first = ["none", "causal", "sinusoidal", "learned", "randomized", "rope", "alibi", "t5", "clipped", "shaw"]
    assert list(ENCODINGS) == [*first, "transformer_xl", "fire", "kerple", "nape", "cope", "stretched"]
    assert all(cls.name == name and cls.label for name, cls in ENCODINGS.items())
    causal = {name for name, cls in ENCODINGS.items() if cls.causal}
    assert causal == {"causal", "transformer_xl", "fire", "kerple", "nape", "cope"}
    assert causal == {name for name, cls in ENCODINGS.items() if cls.label.endswith(", causal")}
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
        ({"name": "alibi", "clip": 3}, "encoding alibi has no option 'clip'; it has ssmax."),
        ({"name": "t5", "clip": 3}, "encoding t5 has no option 'clip'; it has beyond, buckets, farthest, ssmax."),
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
        ({"name": "none", "ssmax": 2}, "ssmax is 2; it must be a whole number between 0 and 1."),
        ({"name": "shaw", "values": 2}, "values is 2; it must be a whole number between 0 and 1."),
        ({"name": "alibi", "values": 1}, "encoding alibi has no option 'values'; it has ssmax."),
        ({"name": "cope", "longest": 0}, "longest is 0; it must be a whole number between 1 and 10000."),
        ({"name": "stretched", "span": 16}, "span is 16; it must be a whole number between 17 and 10000."),
        ({"name": "nape", "n_heads": 1}, "n_heads is 1; half of the heads of nape have a bias, so it must be even."),
        ({"name": "transformer_xl", "d_model": 33}, "d_model is 33; sines and cosines come in pairs, so it must be"),
        ({"name": "randomized", "d_model": 33}, "d_model is 33; sines and cosines come in pairs, so it must be even."),
        ({"name": "stretched", "d_model": 33}, "d_model is 33; sines and cosines come in pairs, so it must be even."),
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
    numbers = [option for option, default in defaults.items() if isinstance(default, int)]
    greatest = {option: LIMITS.get(option, (0, HIGHEST))[1] for option in numbers}
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
    with pytest.raises(UserError, match="beyond is 'untrained'; encoding sinusoidal knows extend, clamp"):
        encoding.beyond = "untrained"


# --- what defines them -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, cls in ENCODINGS.items() if not issubclass(cls, Absolute) and n != "fire"])
@pytest.mark.parametrize("shift", [1, 5, 300])
def test_shifting_all_positions_changes_nothing_unless_they_are_absolute_or_fires(name, shift):
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
@pytest.mark.parametrize("start", [make_new, make])
def test_what_is_learned_gets_a_gradient(name, start):
    encoding = start(name, **({"values": 1} if name == "shaw" else {}), ssmax=1).train()
    layer = attention.Attention(D_MODEL, HEADS, encoding)
    x = torch.randn(2, LENGTH, D_MODEL, requires_grad=True)
    layer(encoding.embed(x), causal=encoding.causal)[0].square().sum().backward()
    parameters = [*encoding.parameters(), layer.log_factor]
    assert all(parameter.grad.abs().sum() > 0 for parameter in parameters)


# --- options of all --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("trained", [16, 17])
def test_scalable_softmax_multiplies_all_logits_by_s_log_n(name, trained):
    encoding = make(name, ssmax=1, trained=trained)
    layer = attention.Attention(D_MODEL, HEADS, encoding)
    same(layer.log_factor, torch.full((HEADS,), 1 / math.log(trained)))
    x, causal = encoding.embed(torch.randn(2, LENGTH, D_MODEL)), encoding.causal
    with torch.no_grad():
        layer.log_factor.copy_(torch.tensor([0.2, 0.4, 0.6, 0.8]))
    q, k = layer.split(layer.query(x)), layer.split(layer.key(x))
    plain, weights = logits(encoding, q, k), layer(x, causal=causal, return_attention=True)[1].weights
    for item, head, i in [(0, 0, 0), (1, 1, 7), (0, 2, 15), (1, 3, 19)]:
        seen = i + 1 if causal else LENGTH
        scaled = plain[item, head, i, :seen] * (0.2 * (head + 1)) * math.log(seen)
        same(weights[item, head, i, :seen], scaled.softmax(-1))


@pytest.mark.parametrize("name", ENCODINGS)
@torch.inference_mode()
def test_scalable_softmax_begins_as_softmax_for_16_keys_and_is_sharper_for_more(name):
    plain, scalable = (attention.Attention(D_MODEL, HEADS, make(name, ssmax=ssmax)) for ssmax in (0, 1))
    scalable.load_state_dict(plain.state_dict() | {"log_factor": scalable.log_factor})
    assert plain.log_factor is None and plain.positions.scalable is None
    for length in (16, 64):
        x, causal = torch.randn(2, length, D_MODEL), plain.positions.causal
        last = [each(x, causal=causal, return_attention=True)[1].weights[:, :, -1] for each in (plain, scalable)]
        if length == 16:
            same(*last)
        else:
            entropy, less = (torch.special.entr(weights).sum(-1) for weights in last)
            assert (less < entropy).all()


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("options", [{}, {"ssmax": 1}])
def test_all_paths_agree(name, options):
    """Plain, fused, and a window as wide as the sequence."""
    options = options | ({"values": 1} if name == "shaw" and options else {})
    full = attention.Attention(D_MODEL, HEADS, make(name, **options))
    local = attention.Attention(D_MODEL, HEADS, make(name, window=LENGTH, **options))
    local.load_state_dict(full.state_dict())
    x, causal = torch.randn(2, LENGTH, D_MODEL), full.positions.causal
    fused, plain = full(x, causal=causal)[0], full(x, causal=causal, return_attention=True)[0]
    same(fused, plain)
    same(local(x, causal=causal)[0], plain)
    same(full(x, causal=causal, gate=torch.ones(HEADS))[0], plain)
