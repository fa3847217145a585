"""What allows no certificate is refused: forms, options, and objects that are not what they say."""

import types

import pytest
import torch
from torch import nn

from problem1.shared import attention
from problem1.shared.errors import UserError
from problem2.certificate import certify
from problem2.certificate.form import check_form
from problem2.dataset import is_sorted
from problem2.encodings import Shaw
from problem2.model import Classifier
from tests.problem2.certificate.common import all_sequences, local_classifier

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
