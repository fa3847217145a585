"""The explorers show what the models say, and bad input leaves the last good picture."""

import re
import statistics
import time

import pytest
import torch

from problem1 import explorer as of_sums
from problem1.dataset import decode, decoder_input, encode_pairs, parse
from problem1.train import published_adder
from problem2 import explorer as of_sequences
from problem2.analysis import published_judge
from problem2.certificate import PUBLISHED
from problem2.dataset import KINDS, in_order
from problem2.encodings import ENCODINGS
from problem2.evaluation import asked, ways
from problem2.model import load_judge

CARRIERS = ["Encoder L1 H3", "Decoder Cross L1 H1"]


@pytest.fixture(scope="module")
def adder():
    return published_adder()[0]


@pytest.fixture
def sums(adder):
    return of_sums.AdderExplorer(adder)


@pytest.fixture(scope="module")
def judges():
    judges = {name: published_judge(name) for name in ENCODINGS}
    return judges | {"certified": load_judge(PUBLISHED / "judge.safetensors")}


@pytest.fixture
def sequences(judges):
    return of_sequences.JudgeExplorer(judges, "sinusoidal")


# --- sums ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("off", [[], ["Encoder L1 H2"], CARRIERS, ["Decoder Self L0 H0", "Encoder L0 H0"]])
def test_what_is_shown_is_what_the_adder_says_without_the_heads_that_are_off(adder, sums, off):
    sums.text.value = "457+543"
    for name in off:
        sums.boxes[name].value = False
    source, target = encode_pairs(parse("457+543"))
    gates = adder.gates(*map(adder.head_names.index, off))
    written = adder.generate(source, gates)
    assert sums.shown.written.equal(written[0]) and sums.shown.target.equal(target[0])
    assert f"457+543 = {decode(written[0])}" in sums.canvas.value
    with torch.inference_mode():
        trace = adder.trace(source, decoder_input(written), gates)
    assert torch.allclose(torch.from_numpy(sums.shown.probabilities), trace.logits[0].softmax(-1), atol=1e-6)
    for shown, weights in zip(sums.shown.weights, trace.weights, strict=True):
        assert torch.allclose(shown, weights[0], atol=1e-6)


def test_there_is_a_box_for_each_head_and_each_has_an_effect(adder, sums):
    assert list(sums.boxes) == adder.head_names == list(sums.head.options)
    for name, box in sums.boxes.items():
        before = sums.canvas.value
        box.value = False
        assert sums.shown.removed == [name] and sums.canvas.value != before
        box.value = True
        assert sums.canvas.value == before


def test_two_carriers_back_each_other_up(adder):
    """The picture of the notebook: either head can go, both cannot."""
    alone = [decode(of_sums.answer(adder, "663+497", [name]).written) for name in CARRIERS]
    assert alone == ["1160", "1160"] and decode(of_sums.answer(adder, "663+497", CARRIERS).written) == "1060"


def test_another_head_shows_another_map_of_the_same_answer(sums):
    before, shown = sums.canvas.value, sums.shown
    sums.head.value = "Decoder Self L1 H2"
    assert sums.canvas.value != before and sums.shown.written.equal(shown.written)


def test_all_off_and_all_on(adder, sums):
    before = sums.canvas.value
    sums.off.click()
    assert sums.shown.removed == adder.head_names and "without 24 heads" in sums.canvas.value
    sums.on.click()
    assert sums.shown.removed == [] and sums.canvas.value == before


@pytest.mark.parametrize("text", ["66+497", "abc", "", "<b>663+497</b>", "663+0497"])
def test_a_sum_that_is_none_gets_a_sentence_and_the_picture_stays(sums, text):
    before, shown = sums.canvas.value, sums.shown
    sums.text.value = text
    assert "is not a sum of two 3-digit numbers; write it like 123+997." in sums.trouble.value
    assert sums.canvas.value == before and sums.shown is shown and "<b>" not in sums.trouble.value
    sums.text.value = "999+111"
    assert sums.trouble.value == "" and "999+111 = 1110 (right)" in sums.canvas.value


def test_a_head_that_does_not_exist_is_named(adder):
    with pytest.raises(ValueError, match=r"'Encoder L9 H0' is no head of this adder; its heads are Encoder L0 H0 to"):
        of_sums.answer(adder, "663+497", ["Encoder L9 H0"])


# --- sequences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ENCODINGS, "certified"])
def test_every_judge_can_be_picked_and_what_is_shown_is_its_verdict(judges, sequences, name):
    sequences.name.value = name
    for kind in [of_sequences.SORTED, *KINDS]:
        for length in (12, 48):
            sequences.length.value, sequences.kind.value = length, kind
            numbers = list(map(int, sequences.text.value.split()))
            assert len(numbers) == length and in_order(numbers) == sequences.shown.is_sorted == (kind == "sorted")
            assert sequences.shown.says_sorted == judges[name].says_sorted(numbers)
            weights = sequences.shown.weights
            assert weights.shape == (len(judges[name].blocks), 4, length, length)
            assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
            assert not weights[..., ~sequences.shown.visible].any()
    assert of_sequences.label_of(name) in sequences.canvas.value


def test_every_way_of_asking_is_the_one_of_the_study(judges, sequences):
    sequences.name.value, sequences.length.value = "sinusoidal", 64
    numbers, answers = sequences.text.value, {}
    for way in ways(judges["sinusoidal"]):
        sequences.way.value = way
        with asked(judges["sinusoidal"], way):
            assert sequences.shown.says_sorted == judges["sinusoidal"].says_sorted(numbers)
        answers[way] = sequences.shown.says_sorted
    assert answers["rescale"] and not answers["extend"]  # it is sorted


def test_weights_of_a_window_stand_where_they_look(judges):
    tokens = torch.tensor([[5, 9, 2, 2, 70, 3]])
    with torch.inference_mode():
        near = judges["certified"](tokens, look=True).weights[0]
    everywhere = of_sequences.over_all_keys(near, 1)
    for query in range(6):
        for key in range(6):
            inside = abs(query - key) <= 1
            expected = near[0, :, query, key - query + 1] if inside else torch.zeros(4)
            assert torch.equal(everywhere[0, :, query, key], expected)


def test_objecting_tokens_are_those_of_the_certified_judge(judges):
    objects = of_sequences.opinion(judges["certified"], "3 5 9 5 12 40 41 80").objects
    assert objects.any() and not objects[4:].any()
    assert not of_sequences.opinion(judges["certified"], "3 5 5 9").objects.any()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("3 5 120", "value 120 is outside the vocabulary 0..99."),
        ("3 5 abc", "is not a sequence of whole numbers; write it like"),
        ("", "there is nothing to judge."),
        ("7", "the shortest length is 2."),
        ("1 " * 300, "a sequence of length 300 is too long to be drawn; the longest is 256."),
    ],
)
def test_a_sequence_that_cannot_be_judged_gets_a_sentence_and_the_picture_stays(sequences, text, sentence):
    sequences.text.value = "3 5 5 9"
    before, shown = sequences.canvas.value, sequences.shown
    sequences.text.value = text
    assert sentence in sequences.trouble.value
    assert sequences.canvas.value == before and sequences.shown is shown
    sequences.text.value = "9 5 5 3"
    assert sequences.trouble.value == "" and not sequences.shown.is_sorted


def test_another_judge_keeps_what_it_can_of_the_choices(sequences):
    sequences.head.value, sequences.way.value = "L1 H3", "rescale"
    sequences.name.value = "learned"
    assert (sequences.head.value, sequences.way.value) == ("L1 H3", "rescale")
    sequences.name.value = "certified"  # one layer, no policies
    assert (sequences.head.value, sequences.way.value) == (of_sequences.MEAN, "as trained")


def test_draw_another_does(sequences):
    before = sequences.text.value
    sequences.another.click()
    assert sequences.text.value != before and sequences.shown.is_sorted


# --- both ------------------------------------------------------------------------------------------------------------


def test_a_change_is_shown_within_a_tenth_of_a_second(sums, sequences):
    """CPU time, so that it does not depend on who else uses the machine."""
    sequences.length.value = 64
    for change in (sums.boxes["Encoder L1 H2"], sequences.another):
        seconds = []
        for _ in range(9):
            start = time.process_time()
            change.click() if hasattr(change, "click") else setattr(change, "value", not change.value)
            seconds.append(time.process_time() - start)
        assert statistics.median(seconds) < 0.1


def test_the_picture_is_the_same_in_a_notebook_and_in_a_widget_and_can_be_read_aloud(adder, sums):
    picture = of_sums.picture(adder, of_sums.answer(adder, "663+497"), sums.head.value)
    data, size = picture._repr_png_()
    assert data.startswith(b"\x89PNG") and picture.tag() == sums.canvas.value
    assert repr(picture) == re.search('alt="([^"]*)"', sums.canvas.value)[1] == "663+497 = 1160 (right)"
    assert size == {"width": picture.width, "height": picture.height}
