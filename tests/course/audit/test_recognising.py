"""The same results are recognised in many shapes."""

import itertools

import pytest
from course.audit.reading import File
from course.audit.recognising import MOST_VALUES, recognise

ACCURACIES = {("sinusoidal", 32): 0.454, ("sinusoidal", 64): 0.514, ("learned", 32): 0.546, ("learned", 64): 0.486}
SHAPES = {
    "dictionaries": {"sinusoidal": {"32": 0.454, "64": 0.514}, "learned": {"32": 0.546, "64": 0.486}},
    "lengths first": {
        "len_32": {"sinusoidal": 0.454, "learned": 0.546},
        "len_64": {"sinusoidal": 0.514, "learned": 0.486},
    },
    "lists": {"test_lengths": [32, 64], "results": {"sinusoidal": [0.454, 0.514], "learned": [0.546, 0.486]}},
    "rows": [{"encoding": e, "length": n, "accuracy": a} for (e, n), a in ACCURACIES.items()],
    "rows of text": [{"Encoding": e.title(), "Length": str(n), "Accuracy": str(a)} for (e, n), a in ACCURACIES.items()],
    "wide rows": [
        {"encoding": "sinusoidal", "32": ".454", "64": ".514"},
        {"encoding": "learned", "32": ".546", "64": ".486"},
    ],
    "tall rows": [
        {"length": "32", "sinusoidal": ".454", "learned": ".546"},
        {"length": "64", "sinusoidal": ".514", "learned": ".486"},
    ],
    "one name": {"sinusoidal_32": 0.454, "sinusoidal_64": 0.514, "learned_32": 0.546, "learned_64": 0.486},
    "rows within": {
        "sinusoidal": [{"length": 32, "accuracy": 0.454}, {"length": 64, "accuracy": 0.514}],
        "learned": [{"length": 32, "accuracy": 0.546}, {"length": 64, "accuracy": 0.486}],
    },
    "more numbers": {
        e: {str(n): {"accuracy": ACCURACIES[e, n], "n": 500, "loss": 0.7} for n in (32, 64)}
        for e in ("sinusoidal", "learned")
    },
    "deeper": {
        "a": {
            "b": [
                {"model": "sinusoidal", "extrapolation": {"32": 0.454, "64": 0.514}},
                {"model": "learned", "extrapolation": {"32": 0.546, "64": 0.486}},
            ]
        }
    },
}


def found_in(document, name="x.json"):
    return recognise([File(name, document=document)])


@pytest.mark.parametrize("shape", SHAPES)
def test_accuracies_by_length_are_known_in_every_shape(shape):
    found = found_in(SHAPES[shape])
    assert {(value.encoding, value.place.length): value.number.value for value in found.lengths} == ACCURACIES


HEADS = {("encoder", 0, 1): 0.9, ("decoder self", 1, 2): 0.8, ("decoder cross", 1, 3): 0.7}
ROWS = [{"type": kind, "layer": layer, "head": head, "accuracy": value} for (kind, layer, head), value in HEADS.items()]
HEAD_SHAPES = {
    "rows": ROWS,
    "rows within": {"baseline": 1.0, "results": ROWS},
    "names": {"enc_L0_H1": 0.9, "dec_self_L1_H2": 0.8, "dec_cross_L1_H3": 0.7},
    "long names": {
        "Encoder Layer 0 Head 1": 0.9,
        "Decoder Self Layer 1 Head 2": 0.8,
        "Decoder Cross Layer 1 Head 3": 0.7,
    },
    "nested": {
        "encoder": {"layer_0": {"head_1": {"accuracy": 0.9}}},
        "decoder": {"layer_1": {"self_attn_head_2": {"accuracy": 0.8}, "cross_attn_head_3": {"accuracy": 0.7}}},
    },
    "pairs": {"ranking": [["Encoder L0 H1", 0.9], ["Decoder Self L1 H2", 0.8], ["Decoder Cross L1 H3", 0.7]]},
    "parallel lists": {
        "heads": ["Encoder L0 H1", "Decoder Self L1 H2", "Decoder Cross L1 H3"],
        "accuracy": [0.9, 0.8, 0.7],
    },
    "named rows": [
        {"head": "encoder.0.1", "acc": "0.9"},
        {"head": "decoder_self.1.2", "acc": "0.8"},
        {"head": "cross.1.3", "acc": "0.7"},
    ],
}


@pytest.mark.parametrize("shape", HEAD_SHAPES)
def test_heads_are_known_in_every_shape(shape):
    heads = {(v.place.kind, v.place.layer, v.place.head): v.number.value for v in found_in(HEAD_SHAPES[shape]).heads}
    assert heads == HEADS


def test_lists_of_lists_are_layers_and_heads():
    found = found_in({"encoder": [[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]], "decoder_self": {"0": [0.1] * 4}})
    heads = {(value.place.kind, value.place.layer, value.place.head) for value in found.heads}
    assert heads == {
        *itertools.product(["encoder"], [0, 1], range(4)),
        *itertools.product(["decoder self"], [0], range(4)),
    }


LOSSES, ACCS = [0.7, 0.6, 0.5], [0.5, 0.6, 0.7]
LOGS = {
    "lists": {"train_loss": LOSSES, "val_acc": ACCS},
    "rows": [{"epoch": i, "train_loss": a, "val_acc": b} for i, (a, b) in enumerate(zip(LOSSES, ACCS, strict=True))],
    "nested rows": {
        "epochs": [
            {"epoch": i, "train": {"loss": a}, "val": {"acc": b}}
            for i, (a, b) in enumerate(zip(LOSSES, ACCS, strict=True))
        ]
    },
    "epochs as names": {
        f"epoch_{i}": {"train_loss": a, "val_acc": b} for i, (a, b) in enumerate(zip(LOSSES, ACCS, strict=True), 1)
    },
    "parts": {"history": {"train": {"loss": LOSSES}, "val": {"accuracy": ACCS}}},
}


@pytest.mark.parametrize("shape", LOGS)
def test_curves_are_known_in_every_shape(shape):
    found = found_in(LOGS[shape])
    curves = {curve.measure: [number.value for number in curve.numbers] for curve in found.curves}
    assert curves == {"loss": LOSSES, "accuracy": ACCS}


def test_the_encoding_of_a_log_stands_in_its_path_its_settings_or_its_rows():
    rows = [{"encoding": name, "epoch": i, "loss": 0.7 - i / 10} for name in ("learned", "none") for i in range(3)]
    assert {curve.encoding for curve in found_in(rows).curves} == {"learned", "none"}
    assert [curve.encoding for curve in found_in({"loss": LOSSES}, "p2/sinusoidal/log.json").curves] == ["sinusoidal"]
    assert [curve.encoding for curve in found_in({"config": {"encoding": "none"}, "loss": LOSSES}).curves] == ["none"]


def test_what_is_no_number_is_kept_with_its_place():
    found = found_in({"train_loss": [0.7, float("nan")], "baseline": float("inf")})
    assert [(name, where) for name, where, _ in found.strange] == [
        ("x.json", "train loss, entry 2"),
        ("x.json", "baseline"),
    ]


def test_a_table_of_something_else_is_not_taken_for_heads_or_lengths():
    rows = [
        {
            "seed": i,
            "model": "6b32d22e7146",
            "nines": "0.5",
            "wrong, never trained": i,
            "R2 of a long name, length 64": 0.3,
        }
        for i in range(3)
    ]
    found = found_in(rows)
    assert not found.heads and not found.lengths and not found.curves


def test_a_document_without_end_is_looked_at_in_part():
    found = found_in([{"a": [[1] * 3] * 20} for _ in range(4_000)])
    assert found.cut == {"x.json"} and MOST_VALUES < 4_000 * 20
    deep = inner = []
    for _ in range(500):
        inner.append([])
        inner = inner[0]
    assert found_in(deep).cut == {"x.json"}


def test_sets_are_known_by_their_hash():
    from course.audit.facts import pair_items, sequence_items

    items = pair_items("test")
    assert found_in(items).sets == [("x.json", 1, "test")]
    assert found_in(items[::-1]).sets == [("x.json", 1, "")]
    truths = [item | {"is_sorted": bool(item["is_sorted"])} for item in sequence_items(32)]
    assert found_in(truths).sets == [("x.json", 2, "32")]
