"""Names of heads, lengths and encodings, and numbers, in the ways in which people write them."""

import pytest
from course.audit.names import Number, Place, encoding_of, measure, number, parts


@pytest.mark.parametrize(
    ("name", "kind", "layer", "head"),
    [
        ("enc_L0_H1", "encoder", 0, 1),
        ("enc_l0_h1", "encoder", 0, 1),
        ("encoder.0.1", "encoder", 0, 1),
        ("Encoder Layer 0 Head 1", "encoder", 0, 1),
        ("encoder_layer_0_head_1", "encoder", 0, 1),
        ("encoder_self_attn.layer0.head1", "encoder", 0, 1),
        ("decSelf_l1_h2", "decoder self", 1, 2),
        ("Decoder Self L1 H2", "decoder self", 1, 2),
        ("decoder_1_2_self", "decoder self", 1, 2),
        ("Dec L1 Self H2", "decoder self", 1, 2),
        ("crossAttn_1_3", "decoder cross", 1, 3),
        ("enc_dec_attn_L1_H3", "decoder cross", 1, 3),
        ("('decoder_cross', 1, 3)", "decoder cross", 1, 3),
        ("layer0_head3", "", 0, 3),
        ("L1H0", "", 1, 0),
        ("head_2", "", None, 2),
    ],
)
def test_a_head_is_known_by_its_name(name, kind, layer, head):
    place = Place().named(name)
    assert (place.kind, place.layer, place.head) == (kind, layer, head)


@pytest.mark.parametrize("name", ["6b32d22e7146", "avg_offdiag_pm1", "head_analysis", "layer_norm", "2026-11-19"])
def test_other_names_are_no_heads(name):
    assert Place().named(name).head is None


@pytest.mark.parametrize("name", ["32", "len_32", "length_32", "len=32", "L32", "seq_len 32", "Length 32", "n32"])
def test_a_length_is_known_by_its_name(name):
    assert Place(encoding="learned").named(name).length == 32


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("sinusoidal", "sinusoidal"),
        ("Sinusoidal PE", "sinusoidal"),
        ("learned_positional_encoding", "learned"),
        ("none", "none"),
        ("no_pe", "none"),
        ("No positional encoding", "none"),
        (None, "none"),
        ("sinusoidal_interpolated", "sinusoidal interpolated"),
        ("rope", ""),
        ("training_log", ""),
    ],
)
def test_an_encoding_is_known_by_its_name_and_a_variant_is_another_one(name, encoding):
    assert encoding_of(name) == encoding


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (0.412, Number(0.412, 3)),
        ("0.4120", Number(0.412, 4)),
        ("41.20 %", Number(41.2, 2, True)),
        ("0,412", Number(0.412, 3)),
        (5e-05, Number(5e-05, 5)),
        (10**400, Number(float("inf"), 0)),
    ],
)
def test_numbers_keep_their_digits(written, expected):
    assert number(written) == expected


@pytest.mark.parametrize("written", ["", "abc", "12e345", "1.2.3", True, None, [], "9" * 5_000])
def test_what_is_no_number(written):
    assert number(written) is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("val acc", "accuracy"),
        ("baseline accuracy", "baseline"),
        ("accuracy drop", "drop"),
        ("delta loss", "loss drop"),
        ("balanced accuracy", "other"),
        ("operator attention", "attention"),
        ("results heads", ""),
        ("wobble", "?"),
    ],
)
def test_what_a_number_measures(words, expected):
    assert measure(tuple(words.split())) == expected


def test_parts_of_a_name():
    assert parts("decSelf_l0_h12") == ("dec", "self", "l", 0, "h", 12) and parts("pm1") == ("pm1",)
