"""What the tests of encodings share."""

import torch

from problem2.encodings import make_encoding

D_MODEL, HEADS, LENGTH = 32, 4, 20
D = D_MODEL // HEADS


def same(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


def make_new(name, **options):
    return make_encoding(name, D_MODEL, HEADS, **options).eval()


def make(name, **options):
    """The same without parameters that are all zero: they would hide a mistake."""
    encoding = make_new(name, **options)
    with torch.no_grad():
        for parameter in encoding.parameters():
            if not parameter.any():
                parameter.normal_()
    return encoding


def queries_and_keys(length=LENGTH):
    return torch.randn(2, HEADS, length, D), torch.randn(2, HEADS, length, D)


def logits(encoding, q, k):
    """What attention computes before its softmax."""
    q, k = encoding.rotate(q, k)
    bias = encoding.bias(q, k)
    return q @ k.transpose(-2, -1) / D**0.5 + (0 if bias is None else bias)


def added(encoding, length, batch=1):
    """What the encoding adds to the embeddings of a sequence: (batch, length, width)."""
    return encoding.embed(torch.zeros(batch, length, D_MODEL))
