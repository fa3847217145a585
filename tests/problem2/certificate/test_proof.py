"""The certificate against brute force, and against what rounding may do."""

import json

import pytest
import torch

from problem1.shared.errors import UserError
from problem2 import published
from problem2.certificate import Certificate, certify, proof
from problem2.certificate.tables import tabulate
from problem2.dataset import in_order
from problem2.model import load_classifier
from tests.problem2.certificate.common import LONGEST, brute_force, local_classifier, train_briefly

# --- certified or not ------------------------------------------------------------------------------------------------


def test_a_trained_classifier_is_certified_and_brute_force_finds_nothing(trained):
    certificate = certify(trained)
    lowest, highest, wrong = brute_force(trained)
    assert certificate.certified and not wrong and certificate.rejected == 0
    assert certificate.lowest_sorted == pytest.approx(lowest, abs=1e-4)
    assert certificate.highest_unsorted == pytest.approx(highest, abs=1e-4)
    assert certificate.margin == min(certificate.lowest_sorted, -certificate.highest_unsorted) > 0
    assert certificate.float_difference < 1e-3 and certificate.table_difference <= certificate.bound < 1e-6
    assert "CERTIFIED" in str(certificate) and "NOT" not in str(certificate)


@pytest.mark.parametrize("steps", [0, 5, 20, 40])
def test_a_classifier_not_trained_to_the_end_is_refused_with_sequences_that_it_gets_wrong(steps):
    torch.manual_seed(2)
    model = train_briefly(local_classifier(), steps)
    certificate, (_, _, wrong) = certify(model), brute_force(model)
    assert wrong and not certificate.certified and certificate.counterexamples
    for sequence in certificate.counterexamples:
        assert model.says_sorted(sequence) != in_order(sequence)
        assert sequence in wrong or len(sequence) > LONGEST
    accepted = [s for s in wrong if not in_order(s)]
    if accepted:
        assert len(certificate.counterexamples[0]) == min(map(len, accepted))
        assert not in_order(certificate.counterexamples[0])


@pytest.mark.parametrize(
    ("spoil", "wrongly"),
    [
        (lambda model: model.head[2].bias.add_(100), "accepted"),
        (lambda model: model.head[2].bias.sub_(100), "rejected"),
        (lambda model: model.embedding.weight[3].copy_(model.embedding.weight[1].clone()), "accepted"),
        (lambda model: model.embedding.weight.copy_(model.embedding.weight.flip(0)), "accepted"),
        (lambda model: model.blocks[0].attention.value.weight.zero_(), ""),
    ],
)
def test_a_spoiled_weight_is_refused_with_a_sequence_that_it_gets_wrong(trained, spoil, wrongly):
    with torch.no_grad():
        spoil(trained)
    certificate = certify(trained)
    assert not certificate.certified and certificate.counterexamples
    for sequence in certificate.counterexamples:
        assert trained.says_sorted(sequence) != in_order(sequence)
    assert f"wrongly {wrongly}" in str(certificate) and "NOT CERTIFIED" in str(certificate)


def test_weights_that_are_not_numbers_are_refused(trained):
    with torch.no_grad():
        trained.head[2].bias.fill_(torch.nan)
    with pytest.raises(UserError, match="not finite numbers"):
        certify(trained)


def test_margin_bound_and_samples_must_all_agree():
    def certificate(margin=1.0, bound=1e-6, floats=1e-5, tables=1e-9):
        return Certificate(margin, -margin - 1, [1, 0], bound, floats, tables, 0, [], 1.0)

    assert certificate().certified and certificate().ratio == pytest.approx(1e6)
    assert "margin / bound                           1,000,000" in str(certificate())
    for spoiled, sentence in [
        (certificate(margin=0.0), "rounding may make one so"),
        (certificate(floats=2e-2), "the margin is not 100 times what float32 differs by"),
        (certificate(tables=2e-6), "A run in float64 leaves the bound"),
    ]:
        assert not spoiled.certified and sentence in str(spoiled) and "NOT CERTIFIED" in str(spoiled)


def test_the_published_classifier_is_certified_here_and_now():
    certificate = certify(load_classifier(published.CERTIFIED))
    assert certificate.certified and certificate.rejected == 0 and not certificate.counterexamples
    report = json.loads(published.CERTIFICATE.read_text())
    assert report["margin"] == pytest.approx(certificate.margin, abs=0.01)


# --- rounding --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor does not flush denormals")
def test_a_process_that_flushes_denormals_is_refused(trained):
    torch.set_flush_denormal(True)
    try:
        with pytest.raises(UserError, match="this process flushes denormals to zero"):
            certify(trained)
    finally:
        torch.set_flush_denormal(False)


def test_what_breaks_in_float32_only_is_not_certified_even_if_no_sample_shows_it(trained, monkeypatch):
    """In exact arithmetic a stream that is 1e20 times as large makes no difference: a norm comes next."""
    assert certify(trained).certified
    with torch.no_grad():
        for part in (trained.embedding, trained.blocks[0].attention.output, trained.blocks[0].feed_forward[3]):
            for parameter in part.parameters():
                parameter *= 1e20
    monkeypatch.setattr(proof, "sampled_differences", lambda *_: (0.0, 0.0))
    try:
        assert not certify(trained).certified
    except UserError as error:
        assert "not finite" in str(error)


def test_one_triple_that_float32_gets_otherwise_is_enough(trained, monkeypatch):
    tables = tabulate(trained)
    tables.middle[1, 2, 3] += 1
    monkeypatch.setattr(proof, "tabulate", lambda model: tables)
    certificate = certify(trained)
    assert certificate.float_difference == pytest.approx(1, abs=1e-3) and not certificate.certified
    assert "the margin is not 100 times what float32 differs by" in str(certificate)
