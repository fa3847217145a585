"""The certificate against brute force, on vocabularies so small that every sequence of up to six values can be run."""

import itertools
import json
import math
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

import problem2.certificate
from problem2.certificate import (
    PUBLISHED,
    Certificate,
    Tables,
    accepted_sequence,
    certify,
    check_form,
    highest_unsorted_logit,
    lowest_sorted_logit,
    rejected_sequences,
    tabulate,
)
from problem2.dataset import Group, in_order, is_sorted
from problem2.model import Judge, save_judge
from problem2.train import fresh_tokens, judge_loss

LONGEST = 6


def local_judge(vocabulary=5, **changes):
    form = {"encoding": "shaw", "layers": 1, "pooling": "worst", "window": 1, "options": {"clip": 1}} | changes
    if form["encoding"] != "shaw":
        form.pop("options")
    return Judge(**form, heads=2, width=16, hidden=32, vocabulary=vocabulary).eval()


def train_briefly(model, steps, lengths=(3, 6), seed=0):
    optimizer, draw = torch.optim.AdamW(model.parameters(), 1e-2), np.random.default_rng(seed)
    for _ in range(steps):
        length = draw.integers(lengths[0], lengths[1] + 1)
        tokens = torch.from_numpy(fresh_tokens(draw, 64, length, 0.0, 0.5, model.shape["vocabulary"]))
        optimizer.zero_grad()
        judge_loss(model, Group(tokens, is_sorted(tokens))).backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def trained_weights():
    torch.manual_seed(0)
    return train_briefly(local_judge(), 300).state_dict()


@pytest.fixture
def trained(trained_weights):
    model = local_judge()
    model.load_state_dict(trained_weights)
    return model


def all_sequences(vocabulary, length):
    return torch.tensor(list(itertools.product(range(vocabulary), repeat=length)))


@torch.inference_mode()
def brute_force(model, longest=LONGEST):
    """(lowest logit of a sorted sequence, highest of an unsorted one, all wrong sequences), over every sequence."""
    lowest, highest, wrong = math.inf, -math.inf, []
    for length in range(2, longest + 1):
        tokens = all_sequences(model.shape["vocabulary"], length)
        logits, label = model(tokens).logits, is_sorted(tokens)
        lowest, highest = min(lowest, logits[label].min().item()), max(highest, logits[~label].max().item())
        wrong += tokens[(logits > 0) != label].tolist()
    return lowest, highest, wrong


def random_tables(seed, vocabulary=4):
    """Verdicts of nobody: silent now and then, so that walks of many lengths occur."""
    draw = np.random.default_rng(seed)
    first, middle, last = (draw.normal(draw.uniform(-1.2, -0.6), 1, (vocabulary,) * n) for n in (2, 3, 2))
    return Tables(first, middle, last)


# --- tables and walks ------------------------------------------------------------------------------------------------


def test_every_token_of_every_sequence_says_what_its_table_entry_says():
    torch.manual_seed(1)
    model = local_judge(4)
    tables = tabulate(model, batch_size=7)
    with torch.inference_mode():
        for length in range(2, LONGEST + 1):
            tokens = all_sequences(4, length)
            np.testing.assert_allclose(model(tokens).per_token, tables.of(tokens.numpy()), atol=1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_the_walk_is_a_shortest_accepted_sequence_or_there_is_none(seed):
    tables = random_tables(seed)
    accepted = None
    for length in range(2, 8):
        tokens = all_sequences(4, length)
        right = (tables.of(tokens.numpy()) > 0).all(1) & ~is_sorted(tokens).numpy()
        if right.any():
            accepted = length
            break
    found = accepted_sequence(tables)
    assert (found and len(found)) == accepted
    if found:
        assert not in_order(found) and tables.logit(found) > 0


def test_the_walks_of_these_tables_are_of_many_lengths_and_some_have_none():
    lengths = {len(accepted_sequence(random_tables(seed)) or []) for seed in range(40)}
    assert {0, 2, 3, 4, 5} < lengths


def test_a_walk_may_need_many_steps():
    """Silent only along 0 1 2 3 4 5 6 2: seven steps, and the descent is the last."""
    first, middle, last = (np.full((7,) * n, -1.0) for n in (2, 3, 2))
    way = [0, 1, 2, 3, 4, 5, 6, 2]
    first[0, 1] = last[6, 2] = 1
    for triple in zip(way, way[1:], way[2:], strict=False):
        middle[triple] = 1
    tables = Tables(first, middle, last)
    assert accepted_sequence(tables) == way
    middle[3, 4, 5] = -1
    assert accepted_sequence(tables) is None


@pytest.mark.parametrize("seed", range(10))
def test_the_extreme_logits_are_those_of_brute_force(seed):
    tables = random_tables(seed, 3)
    sequences = [all_sequences(3, length).numpy() for length in range(2, 9)]
    logits = np.concatenate([tables.of(tokens).min(1) for tokens in sequences])
    label = np.concatenate([is_sorted(torch.from_numpy(tokens)).numpy() for tokens in sequences])
    assert lowest_sorted_logit(tables) == logits[label].min()
    highest, hardest = highest_unsorted_logit(tables)
    assert highest == tables.logit(hardest) and not in_order(hardest)
    assert highest == logits[~label].max() or len(hardest) > 8


@pytest.mark.parametrize("seed", range(5))
def test_rejected_are_exactly_the_sorted_pairs_and_triples_in_which_a_token_objects(seed):
    tables = random_tables(seed)
    pairs = [s for s in all_sequences(4, 2).tolist() if in_order(s) and tables.logit(s) <= 0]
    triples = [s for s in all_sequences(4, 3).tolist() if in_order(s) and tables.middle[tuple(s)] <= 0]
    assert rejected_sequences(tables) == pairs + triples


# --- certified or not ------------------------------------------------------------------------------------------------


def test_a_trained_judge_is_certified_and_brute_force_finds_nothing(trained):
    certificate = certify(trained)
    lowest, highest, wrong = brute_force(trained)
    assert certificate.certified and not wrong and certificate.rejected == 0
    assert certificate.lowest_sorted == pytest.approx(lowest, abs=1e-4)
    assert certificate.highest_unsorted == pytest.approx(highest, abs=1e-4)
    assert certificate.margin == min(certificate.lowest_sorted, -certificate.highest_unsorted) > 0
    assert max(certificate.float_difference, certificate.table_difference) < 1e-3
    assert "CERTIFIED" in str(certificate) and "NOT" not in str(certificate)


@pytest.mark.parametrize("steps", [0, 5, 20, 40])
def test_a_judge_not_trained_to_the_end_is_refused_with_sequences_that_it_gets_wrong(steps):
    torch.manual_seed(2)
    model = train_briefly(local_judge(), steps)
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
    with pytest.raises(ValueError, match="not finite numbers; its weights are spoiled"):
        certify(trained)


def test_the_margin_must_be_a_hundred_times_the_numerical_differences():
    def certificate(margin, floats, tables):
        return Certificate(margin, -margin - 1, [1, 0], floats, tables, 0, [], 1.0)

    assert certificate(1e-2, 9e-5, 1e-6).certified and certificate(1e-2, 1e-6, 9e-5).certified
    for narrow in (certificate(1e-2, 2e-4, 1e-6), certificate(1e-2, 1e-6, 2e-4), certificate(0.0, 0.0, 0.0)):
        assert not narrow.certified and "the margin is not 100 times" in str(narrow)


# --- each condition --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pooling": "mean"}, "pooling is 'mean'; a certificate needs one verdict per token: worst."),
        ({"pooling": "max"}, "pooling is 'max'; a certificate needs"),
        ({"pooling": "cls", "window": None}, "pooling is 'cls'; a certificate needs"),
        ({"layers": 2}, "the judge has 2 layers; with more than 1 a token sees beyond its neighbours."),
        ({"window": 2}, "window is 2; a certificate needs attention to the two neighbours: 1."),
        ({"window": None}, "window is None; a certificate needs attention to the two neighbours: 1."),
        ({"encoding": "causal"}, "encoding causal hides the right neighbour; a certificate needs both."),
        ({"encoding": "sinusoidal"}, "encoding sinusoidal uses absolute positions; a certificate needs none."),
        ({"encoding": "learned"}, "encoding learned uses absolute positions"),
        ({"encoding": "randomized"}, "encoding randomized uses absolute positions"),
        ({"encoding": "rope"}, "encoding rope uses absolute positions"),
    ],
)
def test_a_form_that_allows_no_certificate_gets_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        certify(local_judge(**changes))


@pytest.mark.parametrize("encoding", ["none", "alibi", "t5", "clipped", "shaw"])
def test_encodings_by_distance_allow_one(encoding):
    check_form(local_judge(encoding=encoding))


@pytest.mark.parametrize("module", [nn.BatchNorm1d(16), nn.LayerNorm((6, 16)), nn.Softmax(1)])
def test_a_part_that_may_mix_tokens_is_refused(module):
    model = local_judge()
    model.norm = module
    with pytest.raises(ValueError, match=f"norm is a {type(module).__name__}, which may mix tokens"):
        check_form(model)


def test_a_judge_with_a_forward_pass_of_its_own_is_refused():
    class Other(Judge):
        pass

    model = local_judge()
    model.__class__ = Other
    with pytest.raises(ValueError, match="the judge is a Other, which may mix tokens"):
        check_form(model)


def test_a_soft_minimum_is_refused(trained):
    def softened(self, tokens, look=False):
        verdict = Judge.forward(self, tokens, look)
        verdict.logits = -torch.logsumexp(-verdict.per_token, 1)
        return verdict

    trained.forward = types.MethodType(softened, trained)
    with pytest.raises(ValueError, match="a certificate needs the hard minimum"):
        certify(trained)


def test_verdicts_that_depend_on_the_length_are_not_certified(trained):
    def drifting(self, tokens, look=False):
        verdict = Judge.forward(self, tokens, look)
        verdict.per_token = verdict.per_token * (1 + 0.1 * max(0, tokens.shape[1] - 16))
        verdict.logits = verdict.per_token.amin(1)
        return verdict

    assert certify(trained).certified
    trained.forward = types.MethodType(drifting, trained)
    certificate = certify(trained)
    assert not certificate.certified and certificate.margin < 100 * certificate.table_difference


# --- the command -----------------------------------------------------------------------------------------------------


def run_command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["certificate", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        problem2.certificate.main()
    return end.value.code


def test_the_command_certifies_a_saved_judge(trained, tmp_path, monkeypatch, capsys):
    save_judge(trained, tmp_path / "judge.safetensors")
    assert not run_command(monkeypatch, tmp_path / "judge.safetensors")
    assert capsys.readouterr().out.startswith("CERTIFIED: right on every sequence of every length")
    save_judge(local_judge(), tmp_path / "untrained.safetensors")
    assert run_command(monkeypatch, tmp_path / "untrained.safetensors")
    assert "wrongly" in capsys.readouterr().out


def test_the_command_says_in_one_sentence_what_cannot_be(tmp_path, monkeypatch):
    save_judge(local_judge(layers=2), tmp_path / "deep.safetensors")
    for arguments, sentence in [
        (["nowhere.safetensors"], "nowhere.safetensors does not exist."),
        (
            [tmp_path / "deep.safetensors"],
            "the judge has 2 layers; with more than 1 a token sees beyond its neighbours.",
        ),
    ]:
        assert run_command(monkeypatch, *arguments) == f"python -m problem2.certificate: {sentence}"


def test_the_published_judge_is_certified_here_and_now():
    certificate = certify(problem2.certificate.load_judge(PUBLISHED / "judge.safetensors"))
    assert certificate.certified and certificate.rejected == 0 and not certificate.counterexamples
    report = json.loads((PUBLISHED / "certificate.json").read_text())
    assert report["margin"] == pytest.approx(certificate.margin, abs=0.01)
