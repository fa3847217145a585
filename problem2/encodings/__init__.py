"""Every positional encoding, one small class each. A class with a name enters ENCODINGS, and every table, by itself.

base.py        what all share; none; and causal, where only the mask tells earlier from later
absolute.py    change the embeddings by where a token stands: sinusoidal, learned, randomized
relative.py    change the logits of attention by how far a key is from its query: rope, alibi, t5, clipped, shaw
decoders.py    the same behind a causal mask, as language models have it: transformer_xl, fire, kerple, nape
contextual.py  the same by how many tokens lie between that count for the query: cope
stretched.py   absolute positions that always span the same range: stretched
"""
# ruff: noqa: I001  the order of these imports is that of ENCODINGS

from problem1.shared.attention import sinusoids
from problem2.encodings.base import (
    ASSIGNED,
    ENCODINGS,
    HIGHEST,
    WIDEST,
    Causal,
    Encoding,
    NoEncoding,
    Policies,
    encoding_options,
    make_encoding,
    own_options,
    relative_positions,
)
from problem2.encodings.absolute import Absolute, Learned, Randomized, Sinusoidal
from problem2.encodings.relative import T5, Alibi, ClippedBias, Relative, Rope, Shaw
from problem2.encodings.decoders import Fire, Kerple, Nape, TransformerXL
from problem2.encodings.contextual import Cope
from problem2.encodings.stretched import Stretched

__all__ = [
    "ASSIGNED",
    "ENCODINGS",
    "HIGHEST",
    "T5",
    "WIDEST",
    "Absolute",
    "Alibi",
    "Causal",
    "ClippedBias",
    "Cope",
    "Encoding",
    "Fire",
    "Kerple",
    "Learned",
    "Nape",
    "NoEncoding",
    "Policies",
    "Randomized",
    "Relative",
    "Rope",
    "Shaw",
    "Sinusoidal",
    "Stretched",
    "TransformerXL",
    "encoding_options",
    "make_encoding",
    "own_options",
    "relative_positions",
    "sinusoids",
]
