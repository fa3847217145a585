"""Code that was replaced is refused, whatever its replacement claims to be."""

import sys

import pytest
from torch import nn

import problem2.encodings
import problem2.model
from problem1.shared import attention
from problem1.shared.attention import Attention
from problem1.shared.errors import UserError
from problem2.certificate import certify
from problem2.certificate.form import check_form
from problem2.model import Block, Classifier


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
