"""The explorer shows what the classifiers say, and bad input leaves the last good picture."""

import re
import statistics
import time

import pytest
import torch

from problem1.shared.errors import UserError
from problem2 import evaluation, explorer
from problem2.dataset import CORRUPTIONS, in_order
from problem2.encodings import ENCODINGS
from problem2.model import Classifier
from problem2.published import certified_classifier, published_classifier, published_encodings


@pytest.fixture(scope="module")
def classifiers():
    return {name: published_classifier(name) for name in published_encodings()} | {"certified": certified_classifier()}


@pytest.fixture
def sequences(classifiers):
    return explorer.ClassifierExplorer(classifiers, "sinusoidal")


@pytest.mark.parametrize("name", [*published_encodings(), "certified"])
def test_every_classifier_can_be_picked_and_what_is_shown_is_its_prediction(classifiers, sequences, name):
    sequences.name.value = name
    for corruption in [explorer.SORTED, *CORRUPTIONS]:
        for length in (12, 48):
            sequences.length.value, sequences.corruption.value = length, corruption
            numbers = list(map(int, sequences.text.value.split()))
            assert len(numbers) == length and in_order(numbers) == sequences.shown.is_sorted == (corruption == "sorted")
            assert sequences.shown.says_sorted == classifiers[name].says_sorted(numbers)
            weights = sequences.shown.weights
            assert weights.shape == (len(classifiers[name].blocks), 4, length, length)
            assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
            assert not weights[..., ~sequences.shown.visible].any()
    assert explorer.label_of(name) in sequences.canvas.value


def test_encodings_that_are_not_studied_yet_can_be_shown():
    shape = {"n_layers": 2, "n_heads": 4, "d_model": 64, "d_ff": 8}
    new = {name: Classifier(name, **shape).eval() for name in ENCODINGS}
    new |= {"scalable": Classifier("shaw", **shape, options={"ssmax": 1, "values": 1}).eval()}
    shown = explorer.ClassifierExplorer(new, length=24)
    for name, classifier in new.items():
        shown.name.value = name
        assert list(shown.policy.options) == evaluation.policies_for(classifier)
        assert shown.shown.weights.shape == (2, 4, 24, 24) and explorer.label_of(name) in shown.canvas.value


def test_every_policy_is_the_one_of_the_study(classifiers, sequences):
    sequences.name.value, sequences.length.value = "sinusoidal", 64
    numbers, answers = sequences.text.value, {}
    for policy in evaluation.policies_for(classifiers["sinusoidal"]):
        sequences.policy.value = policy
        with evaluation.with_policy(classifiers["sinusoidal"], policy):
            assert sequences.shown.says_sorted == classifiers["sinusoidal"].says_sorted(numbers)
        answers[policy] = sequences.shown.says_sorted
    assert answers["interpolate"] and not answers["extend"]  # it is sorted


def test_a_policy_that_is_not_the_own_one_is_named_in_the_picture(sequences):
    assert "sinusoidal: " in sequences.canvas.value
    sequences.policy.value = "interpolate"
    assert "sinusoidal, interpolate: " in sequences.canvas.value


def test_weights_of_a_window_stand_at_the_keys_that_they_are_of(classifiers):
    tokens = torch.tensor([[5, 9, 2, 2, 70, 3]])
    with torch.inference_mode():
        near = classifiers["certified"](tokens, return_attention=True).attention[0]
    everywhere = explorer.over_all_keys(near, 1)
    for query in range(6):
        for key in range(6):
            inside = abs(query - key) <= 1
            expected = near[0, :, query, key - query + 1] if inside else torch.zeros(4)
            assert torch.equal(everywhere[0, :, query, key], expected)


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("certified", lambda query, key: abs(query - key) <= 1),
        ("causal", lambda query, key: key <= query),
        ("alibi", lambda query, key: True),
    ],
)
def test_visible_keys_are_those_of_the_window_and_the_mask(classifiers, name, sees):
    visible = explorer.visible_keys(5, classifiers[name].positions)
    assert visible.tolist() == [[sees(query, key) for key in range(5)] for query in range(5)]


def test_tokens_that_reject_are_those_of_the_certified_classifier(classifiers):
    rejects = explorer.answer(classifiers["certified"], "3 5 9 5 12 40 41 80").rejects
    assert rejects.any() and not rejects[4:].any()
    assert not explorer.answer(classifiers["certified"], "3 5 5 9").rejects.any()
    assert not explorer.answer(classifiers["none"], "9 5 5 3").rejects.any()  # its tokens have no logits of their own


def test_a_head_is_shown_by_its_name(classifiers):
    names, said = explorer.head_names(classifiers["rope"]), explorer.answer(classifiers["rope"], "3 5 5 9")
    assert names == [explorer.MEAN, *(f"L{layer} H{head}" for layer in range(2) for head in range(4))]
    pictures = {explorer.picture(classifiers["rope"], "RoPE", said, name).tag() for name in names}
    assert len(pictures) == len(names)
    with pytest.raises(UserError, match="'L9 H0' is no head of this classifier; there are mean of all heads, L0 H0, "):
        explorer.picture(classifiers["rope"], "RoPE", said, "L9 H0")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("3 5 120", "value 120 is outside the vocabulary 0..99."),
        ("3 5 abc", "is not a sequence of whole numbers; write it like"),
        ("<b>3 5</b>", "is not a sequence of whole numbers; write it like"),
        ("", "there is nothing to classify."),
        ("7", "the shortest length is 2."),
        ("1 " * 300, "a sequence of length 300 is too long to be drawn; the longest is 256."),
    ],
)
def test_a_sequence_that_cannot_be_classified_gets_a_sentence_and_the_picture_stays(sequences, text, sentence):
    sequences.text.value = "3 5 5 9"
    before, shown = sequences.canvas.value, sequences.shown
    sequences.text.value = text
    assert sentence in sequences.trouble.value and "<b>" not in sequences.trouble.value
    assert sequences.canvas.value == before and sequences.shown is shown
    sequences.text.value = "9 5 5 3"
    assert sequences.trouble.value == "" and not sequences.shown.is_sorted


def test_a_policy_or_pooling_that_cannot_be_shown_gets_a_sentence(classifiers):
    known = "this classifier can be tested under extend, clamp, interpolate"
    with pytest.raises(UserError, match=f"policy is 'rescale'; {known}"):
        explorer.answer(classifiers["sinusoidal"], "3 5 5 9", "rescale")
    with_cls = Classifier(n_layers=1, n_heads=2, d_model=8, d_ff=8, pooling="cls").eval()
    with pytest.raises(UserError, match="a classifier with a CLS token cannot be drawn"):
        explorer.answer(with_cls, "3 5 5 9")


def test_another_classifier_keeps_what_it_can_of_the_choices(sequences):
    sequences.head.value, sequences.policy.value = "L1 H3", "interpolate"
    sequences.name.value = "learned"
    assert (sequences.head.value, sequences.policy.value) == ("L1 H3", "interpolate")
    sequences.name.value = "certified"  # one layer, no policies
    assert (sequences.head.value, sequences.policy.value) == (explorer.MEAN, "as trained")


def test_draw_another_does(sequences):
    before = sequences.text.value
    sequences.another.click()
    assert sequences.text.value != before and sequences.shown.is_sorted


def test_a_change_is_shown_within_a_tenth_of_a_second(sequences):
    """CPU time, so that it does not depend on who else uses the machine."""
    sequences.length.value, seconds = 64, []
    for _ in range(9):
        start = time.process_time()
        sequences.another.click()
        seconds.append(time.process_time() - start)
    assert statistics.median(seconds) < 0.1


def test_the_picture_is_the_same_in_a_notebook_and_in_a_widget_and_can_be_read_aloud(classifiers, sequences):
    sequences.text.value = "3 5 5 9"
    said = explorer.answer(classifiers["sinusoidal"], "3 5 5 9")
    picture = explorer.picture(classifiers["sinusoidal"], "sinusoidal", said)
    data, size = picture._repr_png_()
    assert data.startswith(b"\x89PNG") and picture.tag() == sequences.canvas.value
    assert repr(picture) == re.search('alt="([^"]*)"', sequences.canvas.value)[1] == f"sinusoidal: {said}"
    assert re.fullmatch(r"sorted \(right\), logit \+\d+\.\d\d, length 4", str(said))
    assert size == {"width": picture.width, "height": picture.height}
