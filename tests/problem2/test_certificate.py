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
from problem1.shared import attention
from problem1.shared.attention import Attention
from problem1.shared.errors import UserError
from problem2 import published
from problem2.certificate import (
    Certificate,
    Tables,
    accepted_sequence,
    certify,
    check_form,
    every_triple,
    highest_unsorted_logit,
    lowest_sorted_logit,
    rejected_sequences,
    tabulate,
)
from problem2.dataset import Group, in_order, is_sorted, online_tokens
from problem2.encodings import Shaw
from problem2.model import Block, Classifier, save_classifier
from problem2.train import classifier_loss

LONGEST = 6


def local_classifier(vocabulary=5, **changes):
    form = {"encoding": "shaw", "n_layers": 1, "pooling": "min", "window": 1, "options": {"clip": 1}} | changes
    if form["encoding"] != "shaw" and "options" not in changes:
        form.pop("options")
    return Classifier(**form, n_heads=2, d_model=16, d_ff=32, vocabulary=vocabulary).eval()


def train_briefly(model, steps, lengths=(3, 6), seed=0):
    optimizer, draw = torch.optim.AdamW(model.parameters(), 1e-2), np.random.default_rng(seed)
    for _ in range(steps):
        length = draw.integers(lengths[0], lengths[1] + 1)
        tokens = torch.from_numpy(online_tokens(draw, 64, length, 0.0, 0.5, model.shape["vocabulary"]))
        optimizer.zero_grad()
        classifier_loss(model, Group(tokens, is_sorted(tokens))).backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def trained_weights():
    torch.manual_seed(0)
    return train_briefly(local_classifier(), 300).state_dict()


@pytest.fixture
def trained(trained_weights):
    model = local_classifier()
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
    """Logits of nobody: accepting now and then, so that walks of many lengths occur."""
    draw = np.random.default_rng(seed)
    first, middle, last = (draw.normal(draw.uniform(-1.2, -0.6), 1, (vocabulary,) * n) for n in (2, 3, 2))
    return Tables(first, middle, last)


# --- tables and walks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 5, 12])
def test_a_sequence_shows_every_triple_once(size):
    sequence = every_triple(size)
    triples = np.stack([sequence[:-2], sequence[1:-1], sequence[2:]], axis=1)
    assert len(triples) == size**3 and len(np.unique(triples, axis=0)) == size**3 and set(sequence) == set(range(size))


def test_every_token_of_every_sequence_says_what_its_table_entry_says():
    torch.manual_seed(1)
    model = local_classifier(4)
    tables = tabulate(model, length=7)
    with torch.inference_mode():
        for length in range(2, LONGEST + 1):
            tokens = all_sequences(4, length)
            np.testing.assert_allclose(model(tokens).token_logits, tables.of(tokens.numpy()), atol=1e-5)


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
    """Accepting only along 0 1 2 3 4 5 6 2: seven steps, and the descent is the last."""
    first, middle, last = (np.full((7,) * n, -1.0) for n in (2, 3, 2))
    path = [0, 1, 2, 3, 4, 5, 6, 2]
    first[0, 1] = last[6, 2] = 1
    for triple in zip(path, path[1:], path[2:], strict=False):
        middle[triple] = 1
    tables = Tables(first, middle, last)
    assert accepted_sequence(tables) == path
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
def test_rejected_are_exactly_the_sorted_pairs_and_triples_in_which_a_token_rejects(seed):
    tables = random_tables(seed)
    pairs = [s for s in all_sequences(4, 2).tolist() if in_order(s) and tables.logit(s) <= 0]
    triples = [s for s in all_sequences(4, 3).tolist() if in_order(s) and tables.middle[tuple(s)] <= 0]
    assert rejected_sequences(tables) == pairs + triples


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


# --- each condition --------------------------------------------------------------------------------------------------

ALLOWED = "a certificate allows shaw or clipped or none"
CLIP_ONLY = "a certificate allows clip only: others change what a token reads."


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"pooling": "mean"}, "pooling is 'mean'; a certificate needs 'min': a logit per token"),
        ({"pooling": "max"}, "pooling is 'max'; a certificate needs 'min'"),
        ({"pooling": "cls", "window": None}, "pooling is 'cls'; a certificate needs 'min'"),
        ({"n_layers": 2}, "n_layers is 2; a certificate needs 1: with more a token sees beyond its neighbours."),
        ({"window": 2}, "window is 2; a certificate needs 1: attention to the two neighbours."),
        ({"window": None}, "window is None; a certificate needs 1"),
        ({"encoding": "causal"}, f"encoding causal hides the right neighbour; {ALLOWED}"),
        ({"encoding": "sinusoidal"}, f"encoding sinusoidal adds absolute positions to the embeddings; {ALLOWED}"),
        ({"encoding": "learned"}, "encoding learned adds absolute positions"),
        ({"encoding": "randomized"}, "encoding randomized adds absolute positions"),
        ({"encoding": "rope"}, "encoding rope turns queries and keys by their positions"),
        ({"encoding": "alibi"}, "encoding alibi is none of those of which it is known"),
        ({"encoding": "t5"}, "encoding t5 is none of those of which it is known"),
        ({"encoding": "t5", "options": {"beyond": "interpolate"}}, "encoding t5 is none of those"),
        ({"encoding": "transformer_xl"}, "encoding transformer_xl hides the right neighbour"),
        ({"encoding": "fire"}, "encoding fire hides the right neighbour"),
        ({"encoding": "kerple"}, "encoding kerple hides the right neighbour"),
        ({"encoding": "nape"}, "encoding nape hides the right neighbour"),
        ({"encoding": "cope"}, "encoding cope hides the right neighbour"),
        ({"encoding": "stretched"}, "encoding stretched adds absolute positions"),
        ({"options": {"clip": 1, "values": 1}}, f"options are {{'clip': 1, 'values': 1}}; {CLIP_ONLY}"),
        ({"options": {"ssmax": 1}}, f"options are {{'ssmax': 1}}; {CLIP_ONLY}"),
        ({"encoding": "clipped", "options": {"clip": 1, "ssmax": 1}}, CLIP_ONLY),
        ({"encoding": "none", "options": {"ssmax": 1}}, CLIP_ONLY),
    ],
)
def test_a_form_that_allows_no_certificate_gets_one_sentence(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        certify(local_classifier(**changes))


@pytest.mark.parametrize("encoding", ["none", "clipped", "shaw"])
def test_these_encodings_allow_one(encoding):
    check_form(local_classifier(encoding=encoding))


# --- attacks: each is a classifier that is wrong somewhere, or may be, and has the weights of a certified one --------


class LengthSeven(Shaw):
    """Right at all lengths but 7."""

    def bias(self, q, k):
        bias = super().bias(q, k)
        return bias * 0 if q.shape[-2] == 7 else bias


def replace_positions(model, positions_class):
    for positions in {model.positions, model.blocks[0].attention.positions}:
        positions.__class__ = positions_class


def test_the_attack_at_length_seven_works_and_is_refused(trained):
    replace_positions(trained, LengthSeven)
    tokens = all_sequences(5, 7)[::7]
    with torch.inference_mode():
        assert ((trained(tokens).logits > 0) != is_sorted(tokens)).any()  # so the tables would lie
    with pytest.raises(UserError, match="a certificate allows"):
        certify(trained)


@pytest.mark.parametrize("hook", ["embed", "rotate", "bias", "distances", "values"])
@pytest.mark.parametrize("where", ["subclass", "instance", "class"])
def test_an_encoding_with_a_hook_of_its_own_is_refused(trained, hook, where, monkeypatch):
    original = getattr(Shaw, hook)

    def other(self, *arguments):
        return original(self, *arguments)

    check_form(trained)
    if where == "subclass":
        replace_positions(trained, type("Other", (Shaw,), {hook: other}))
    elif where == "instance":
        object.__setattr__(trained.positions, hook, types.MethodType(other, trained.positions))
    else:
        monkeypatch.setattr(Shaw, hook, other, raising=False)
    with pytest.raises(UserError):
        certify(trained)


@pytest.mark.parametrize(
    ("encoding", "option"), [("shaw", "ssmax"), ("shaw", "values"), ("clipped", "ssmax"), ("none", "ssmax")]
)
def test_an_option_that_the_shape_keeps_quiet_about_is_refused(encoding, option):
    model = local_classifier(encoding=encoding, options={option: 1})
    model.shape["options"] = {}
    with pytest.raises(UserError):
        certify(model)


@pytest.mark.parametrize("where", ["instance", "class", "base class"])
@pytest.mark.parametrize(("name", "value"), [("scalable", 16), ("adds_values", True)])
def test_an_attribute_that_turns_a_hook_on_is_refused(trained, name, value, where, monkeypatch):
    check_form(trained)
    owner = {"instance": trained.positions, "class": Shaw, "base class": attention.Positions}[where]
    monkeypatch.setattr(owner, name, value, raising=False)
    with pytest.raises(UserError):
        certify(trained)


def test_a_factor_of_its_own_in_attention_is_refused(trained):
    trained.blocks[0].attention.log_factor = nn.Parameter(torch.ones(2))
    with pytest.raises(UserError, match="log_factor' of its own"):
        certify(trained)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("problem1.shared.attention", "products"),
        ("problem1.shared.attention", "neighbours"),
        ("problem1.shared.attention", "keys_seen"),
        ("problem2.encodings", "make_encoding"),
        ("problem2.encodings.base", "own_options"),
        ("problem2.encodings.relative", "relative_positions"),
        ("problem2.encodings.absolute", "sinusoids"),
    ],
)
def test_a_replaced_function_of_any_module_of_the_encodings_is_refused(trained, module, name, monkeypatch):
    original = getattr(sys.modules[module], name)
    monkeypatch.setattr(sys.modules[module], name, lambda *arguments, **names: original(*arguments, **names))
    with pytest.raises(UserError, match="has been replaced"):
        certify(trained)


@pytest.mark.parametrize("part", ["", "embedding", "norm", "head", "head.0", "blocks.0", "blocks.0.attention"])
@pytest.mark.parametrize("how", ["forward", "hook", "pre-hook"])
def test_a_forward_pass_of_its_own_is_refused_in_every_module(trained, part, how):
    module = trained.get_submodule(part)
    if how == "forward":
        module.forward = types.MethodType(lambda self, *arguments, **names: None, module)
    elif how == "hook":
        module.register_forward_hook(lambda module, inputs, output: output)
    else:
        module.register_forward_pre_hook(lambda module, inputs: inputs)
    with pytest.raises(UserError, match="of its own"):
        certify(trained)


@pytest.mark.parametrize("module", [nn.BatchNorm1d(16), nn.LayerNorm((6, 16)), nn.Softmax(1)])
def test_another_module_in_the_place_of_one_is_refused(module):
    model = local_classifier()
    model.norm = module
    with pytest.raises(UserError, match="norm"):
        check_form(model)


def test_a_subclass_of_the_classifier_is_refused():
    class Other(Classifier):
        pass

    model = local_classifier()
    model.__class__ = Other
    with pytest.raises(UserError, match="the model is a Other; a certificate allows a Classifier with a shape only"):
        check_form(model)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Classifier, "forward"), (Block, "forward"), (Attention, "mix"), (nn.Linear, "forward"), (nn.Module, "__call__")],
)
def test_a_replaced_method_of_a_class_is_refused(trained, owner, name, monkeypatch):
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda self, *arguments, **names: original(self, *arguments, **names))
    with pytest.raises(UserError, match="has been replaced"):
        certify(trained)


def test_a_replaced_function_and_a_hook_on_all_modules_are_refused(trained, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(attention, "attend_to_neighbours", lambda *arguments: None)
        with pytest.raises(UserError, match="has been replaced"):
            certify(trained)
    handle = nn.modules.module.register_module_forward_hook(lambda *arguments: None)
    try:
        with pytest.raises(UserError, match="has been replaced"):
            certify(trained)
    finally:
        handle.remove()
    check_form(trained)


class Always:
    """Equal to everything, and can be called."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return True

    def __call__(self, *arguments, **names):
        return None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (attention, "F"),
        (attention, "torch"),
        (problem2.model, "check_tokens"),
        (problem2.model, "encode"),
        (problem2.model, "bool"),
        (problem2.model, "feed_forward"),
        (problem2.encodings, "sinusoids"),
        (nn.Linear, "__call__"),
        (nn.Linear, "forward"),
        (Attention, "split"),
    ],
)
def test_a_name_that_the_model_reads_is_refused_when_it_is_replaced_by_whatever_claims_to_be_equal(
    trained, owner, name, monkeypatch
):
    monkeypatch.setattr(owner, name, Always(), raising=False)
    with pytest.raises(UserError, match="has been replaced"):
        check_form(trained)


def test_a_function_with_other_code_in_it_is_refused(trained, monkeypatch):
    monkeypatch.setattr(Attention.split, "__code__", (lambda self, x: x).__code__)
    with pytest.raises(UserError, match="has been replaced"):
        check_form(trained)


class OwnDict(dict):
    """What it lists may be something else than what it finds."""


def shadow_a_parameter(model):
    model.head[2].__dict__["bias"] = model.head[2].bias.data


def own_modules(model):
    model.head.__dict__["_modules"] = OwnDict(model.head._modules)


def own_parameters(model):
    model.head[2].__dict__["_parameters"] = OwnDict(model.head[2]._parameters)


def own_dictionary(model):
    object.__setattr__(model.head[2], "__dict__", OwnDict(model.head[2].__dict__))


def another_order(model):
    parts = dict(model.head._modules)
    model.head._modules.clear()
    model.head._modules.update({name: parts[name] for name in ("2", "1", "0")})


def one_part_twice(model):
    model.blocks[0].feed_forward[0] = model.norm


def sparse(model):
    model.head[0].weight = nn.Parameter(model.head[0].weight.data.to_sparse())


def attribute_of_a_parameter(model):
    model.head[2].bias.double = lambda: None


def in_float64(model):
    model.double()


def no_encoding(model):
    model.positions = nn.Identity()


def no_shape(model):
    del model.shape


@pytest.mark.parametrize(
    "tamper",
    [
        shadow_a_parameter,
        own_modules,
        own_parameters,
        own_dictionary,
        another_order,
        one_part_twice,
        sparse,
        attribute_of_a_parameter,
        in_float64,
        no_encoding,
        no_shape,
    ],
)
def test_an_object_that_is_not_what_it_lists_is_refused_in_one_sentence(trained, tamper):
    tamper(trained)
    with pytest.raises(UserError):
        certify(trained)


@pytest.mark.parametrize(
    "lie",
    [
        {"vocabulary": 6},
        {"vocabulary": 1},
        {"vocabulary": "5"},
        {"n_layers": 1.0},
        {"n_heads": 4},
        {"options": {"clip": 2}},
        {"options": [1]},
        {"options": [[1]]},
        {"options": None},
        {"options": {"clip": 1, "ssmax": 1}},
        {"options": {"clip": 1, "values": 1}},
        {"window": 1.0},
        {"unknown": 1},
    ],
)
def test_a_shape_that_lies_is_refused_in_one_sentence(trained, lie):
    trained.shape |= lie
    with pytest.raises(UserError):
        certify(trained)


def test_weights_that_are_float64_by_default_are_refused(monkeypatch):
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(UserError, match="some weights of the classifier are not float32"):
            certify(local_classifier())
    finally:
        torch.set_default_dtype(torch.float32)


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
    monkeypatch.setattr(problem2.certificate, "sampled_differences", lambda *_: (0.0, 0.0))
    try:
        assert not certify(trained).certified
    except UserError as error:
        assert "not finite" in str(error)


def test_one_triple_that_float32_gets_otherwise_is_enough(trained, monkeypatch):
    tables = tabulate(trained)
    tables.middle[1, 2, 3] += 1
    monkeypatch.setattr(problem2.certificate, "tabulate", lambda model: tables)
    certificate = certify(trained)
    assert certificate.float_difference == pytest.approx(1, abs=1e-3) and not certificate.certified
    assert "the margin is not 100 times what float32 differs by" in str(certificate)


# --- the command -----------------------------------------------------------------------------------------------------


def run_command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["certificate", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        problem2.certificate.main()
    return end.value.code


def test_the_command_certifies_a_saved_classifier(trained, tmp_path, monkeypatch, capsys):
    save_classifier(trained, tmp_path / "classifier.safetensors")
    assert not run_command(monkeypatch, tmp_path / "classifier.safetensors")
    assert capsys.readouterr().out.startswith("CERTIFIED: right on every sequence of every length")
    save_classifier(local_classifier(), tmp_path / "untrained.safetensors")
    assert run_command(monkeypatch, tmp_path / "untrained.safetensors")
    assert "wrongly" in capsys.readouterr().out


def test_the_command_says_in_one_sentence_what_cannot_be(tmp_path, monkeypatch):
    save_classifier(local_classifier(n_layers=2), tmp_path / "deep.safetensors")
    for arguments, sentence in [
        (["nowhere.safetensors"], "nowhere.safetensors does not exist."),
        (
            [tmp_path / "deep.safetensors"],
            "n_layers is 2; a certificate needs 1: with more a token sees beyond its neighbours.",
        ),
    ]:
        assert run_command(monkeypatch, *arguments) == f"python -m problem2.certificate: {sentence}"


def test_the_published_classifier_is_certified_here_and_now():
    certificate = certify(problem2.certificate.load_classifier(published.CERTIFIED))
    assert certificate.certified and certificate.rejected == 0 and not certificate.counterexamples
    report = json.loads(published.CERTIFICATE.read_text())
    assert report["margin"] == pytest.approx(certificate.margin, abs=0.01)
