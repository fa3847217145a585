"""The form that the argument needs: what may be certified at all."""

import torch
from torch.nn.modules.module import _has_any_global_hook

from problem1.shared.attention import Positions
from problem1.shared.errors import UserError
from problem2.certificate.untouched import CERTIFIABLE, code_changed
from problem2.encodings import Encoding
from problem2.model import Classifier, check_untouched


def check_form(model: Classifier) -> None:
    """Refuse in one sentence every classifier for which the argument is not known to hold.

    It holds for what Classifier(**shape) makes with one layer, window 1, pooling min and one of three encodings,
    whatever the weights: `check_untouched` sees to it that nothing but these is the model's own.
    """
    if type(model) is not Classifier or type(vars(model).get("shape")) is not dict:
        raise UserError(f"the model is a {type(model).__name__}; a certificate allows a Classifier with a shape only.")
    if code_changed() or _has_any_global_hook():
        raise UserError(
            "a function that the model calls has been replaced; a certificate needs all as they are written."
        )
    for name, needed, reason in (
        ("pooling", "min", "a logit per token, of which the lowest counts"),
        ("n_layers", 1, "with more a token sees beyond its neighbours"),
        ("window", 1, "attention to the two neighbours"),
    ):
        if model.shape.get(name) != needed:
            raise UserError(f"{name} is {model.shape.get(name)!r}; a certificate needs {needed!r}: {reason}.")
    if not isinstance(model._modules.get("positions"), Encoding):
        raise UserError("the classifier has no encoding; a certificate needs one.")
    if type(model.positions) not in CERTIFIABLE:
        allowed = " or ".join(encoding.name for encoding in CERTIFIABLE)
        raise UserError(f"encoding {model.positions.name} {why_not(model.positions)}; a certificate allows {allowed}.")
    options = model.shape.get("options")
    if type(options) is not dict or options.keys() - {"clip"}:
        raise UserError(f"options are {options!r}; a certificate allows clip only: others change what a token reads.")
    try:
        check_untouched(model)
    except TypeError:
        raise UserError(f"no Classifier has the shape {model.shape}; a certificate needs one of known shape.") from None
    if any(parameter.dtype is not torch.float32 for parameter in model.parameters()):
        raise UserError("some weights of the classifier are not float32; the bound on rounding needs them to be.")


def why_not(positions: Encoding) -> str:
    encoding = type(positions)
    if encoding.causal:
        return "hides the right neighbour"
    if encoding.embed is not Positions.embed:
        return "adds absolute positions to the embeddings"
    if encoding.rotate is not Positions.rotate:
        return "turns queries and keys by their positions"
    return "is none of those of which it is known that a logit depends on three values only"
