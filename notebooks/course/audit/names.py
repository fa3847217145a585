"""What a name says: 'enc_L0_H1', 'Encoder Layer 0 Head 1', 'len_32', 'val_acc', '41.2 %', however people write it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from .facts import LONG, TRAINED

# --- numbers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """As it is written: `decimals` after the point, with a % or without."""

    value: float
    decimals: int
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.value:.{min(self.decimals, 6)}f}{' %' if self.percent else ''}"


NUMBER = re.compile(r"([+-]?(?:\d{1,25}(?:[.,]\d{0,25})?|[.,]\d{1,25})(?:[eE][+-]?\d{1,3})?)\s*(%?)")


def number(value: Any) -> Number | None:
    """Of a number, or a text that is one; None if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        if value.strip().lower() in ("nan", "inf", "-inf", "infinity", "-infinity"):
            return Number(float(value), 0)
        matched = NUMBER.fullmatch(value.strip()) if len(value) < 60 else None
        if not matched:
            return None
        text = matched[1].replace(",", ".")
        found = float(text)  # '12e345' is a name made of digits rather than a number
        return Number(found, decimals(text), bool(matched[2])) if abs(found) < float("inf") else None
    if isinstance(value, int):
        return Number(float(value), 0) if abs(value) < 10**300 else Number(float("inf"), 0)
    return Number(value, decimals(repr(value)) if abs(value) < float("inf") else 0)


def decimals(text: str) -> int:
    exponent = Decimal(text).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


# --- words -----------------------------------------------------------------------------------------------------------

PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d{1,6}|[+<]")


KINDS = {
    "enc": "encoder",
    "encoder": "encoder",
    "dec": "decoder",
    "decoder": "decoder",
    "self": "self",
    "cross": "cross",
}
KINDS |= {f"{kind}{more}": kind for kind in ("self", "cross") for more in ("attn", "attention")}
ATTENTION = {"attn", "attention", "mha", "multihead"}
NUMBERED = set(  # a number may follow at once
    [
        "e",
        "d",
        "enc",
        "dec",
        "encoder",
        "decoder",
        "self",
        "cross",
        "layer",
        "l",
        "block",
        "head",
        "h",
        "len",
        "length",
        "n",
        "epoch",
        "seqlen",
        "sinusoidal",
        "learned",
        "none",
        "problem",
        "p",
        "task",
        "part",
        "example",
        "seed",
    ]
)
MOST_HEADS = 64  # a larger number is the number of something else
LAYER, HEAD, LENGTH = {"layer", "l", "block"}, {"head", "h"}, {"length", "len", "seqlen", "n"}


@lru_cache(maxsize=4_096)
def parts(name: str) -> tuple[str | int, ...]:
    """'decSelf_l0_h12' -> dec, self, l, 0, h, 12; but 'pm1' is one word"""
    found, end = list[str | int](), -1
    for part in PART.finditer(name[:200]):
        text = part[0].lower()
        last = found[-1] if found else None
        if not text.isdigit():
            found.append(text)
        elif part.start() == end and isinstance(last, str) and last not in NUMBERED:
            found[-1] = f"{last}{text}"
        else:
            found.append(int(text))
        end = part.end()
    return tuple(found)


SAME_ENCODING = {
    "sinusoidal": {"sinusoidal", "sinusoid", "sin", "sine", "sincos"},
    "learned": {"learned", "learnt", "learnable", "trainable"},
    "none": {"none", "nope", "nopos", "nopositional"},
}
NEUTRAL = {  # around the name of an encoding: of the same model
    *("pe", "pos", "position", "positional", "positions", "encoding", "encodings", "embedding", "embeddings", "type"),
    *("model", "transformer", "results", "result", "extrapolation", "test", "eval", "accuracy", "acc", "length", "log"),
    *(
        "training",
        "lengths",
        "accuracies",
        "no",
        "encoder",
        "head",
        "heads",
        "by",
        "per",
        "metrics",
        "history",
        "curve",
    ),
    *("train", "histories", "logs", "run", "val", "final", "best", "epochs", "file", "output", "len"),
}


@lru_cache(maxsize=4_096)
def encoding_of(name: str | None) -> str:
    """'sinusoidal', 'learned', 'none'; another one's name in small letters; '' if it names none."""
    if name is None:
        return "none"
    words = [part for part in parts(name) if isinstance(part, str)]
    known = {encoding for encoding, same in SAME_ENCODING.items() if same & set(words)}
    if not known and "no" in words and {"pe", "pos", "position", "positional", "positions", "encoding"} & set(words):
        known = {"none"}
    others = [
        word for word in words if word not in NEUTRAL and not any(word in SAME_ENCODING[found] for found in known)
    ]
    if not known:
        return ""
    return " ".join([*sorted(known), *others])


@dataclass(frozen=True)
class Place:
    """What is known of a number from the names around it."""

    encoding: str = ""
    length: int | None = None
    kinds: frozenset[str] = frozenset()
    layer: int | None = None
    head: int | None = None
    words: tuple[str, ...] = ()  # whatever else was said
    items: int | None = None  # how many it is a share of, if the file says so
    explained: bool = (
        False  # the file says of this number that the prediction was constant, or how often each class was
    )
    rank: float | None = None
    averaged: bool = False  # over seeds or runs, so it need not be a whole number of items
    intact: bool = False  # in a row of a table of heads that says: none removed
    assumed: bool = False  # the length follows from the number of values only

    @property
    def kind(self) -> str:
        """'encoder', 'decoder self', 'decoder cross', or less if less is said."""
        if "cross" in self.kinds or self.kinds >= {"encoder", "decoder"}:
            return "decoder cross"
        if "encoder" in self.kinds:
            return "encoder"
        return "decoder self" if self.kinds >= {"decoder", "self"} else " ".join(sorted(self.kinds))

    @property
    def head_name(self) -> str:
        layer = f" layer {self.layer}" if self.layer is not None else ""
        return f"{self.kind}{layer} head {self.head}".strip()

    def named(self, name: str) -> "Place":
        """The place of what stands under this name."""
        found = parts(name)
        if len(found) > 1 and found[0] in ("problem", "task", "part", "question") and isinstance(found[1], int):
            found = found[2:]
        place, words, bare = self.with_axes(found)
        encoding = encoding_of(name)
        if encoding:
            words = [] if place.encoding else [word for word in words if word not in encoding.split() and word != "no"]
            place = place if place.encoding else replace(place, encoding=encoding)
        for value in bare:
            of_head = place.kinds or place.layer is not None or (len(bare) > 1 and not words)
            if of_head and place.head is None and value < MOST_HEADS:
                place = replace(place, head=value) if place.layer is not None else replace(place, layer=value)
            elif place.length is None and (value in LONG + TRAINED or (place.encoding and value > 1)):
                place = replace(place, length=value)
            else:
                words.append(str(value))
        return replace(place, words=(*place.words, *words))

    def with_axes(self, found: Sequence[str | int]) -> tuple["Place", list[str], list[int]]:
        """With the kinds, layers, heads and lengths that are called so; the other words; numbers by themselves."""
        place, words, bare, taken = self, list[str](), list[int](), False
        in_head = any(part in KINDS or axis(part) == "head" for part in found)
        for part, after in zip(found, (*found[1:], None), strict=False):
            if isinstance(part, int):
                bare += [] if taken else [part]
                taken = False
                continue
            name = axis(part)
            taken = bool(name) and isinstance(after, int)
            if taken and isinstance(after, int):
                is_length = part == "l" and after in LONG + TRAINED and not place.kinds
                if name == "length" or is_length:
                    place = replace(place, length=after)
                elif after < MOST_HEADS:
                    place = replace(place, head=after) if name == "head" else replace(place, layer=after)
            elif part in KINDS and after != "entropy":
                place = replace(place, kinds=place.kinds | {KINDS[part]})
            elif not (part in ATTENTION and in_head):
                words.append(part)
        return place, words, bare


def axis(part: str | int) -> str:
    """'layer', 'head' or 'length', if the word says that a number of one follows."""
    single = part.removesuffix("s") if isinstance(part, str) else ""
    named = {"layer": LAYER, "head": HEAD, "length": LENGTH}
    return next((name for name, words in named.items() if single in words), "")


# --- what a number measures ------------------------------------------------------------------------------------------

MEASURES = {  # words, and what they say; of two kinds in one name the first counts
    "other": (
        "balanced auroc auc low high std stderr ci error time seconds epoch step share answered constant params lr "
        "rate precision recall count tolerance threshold patience random expected chance target prunable pruned total "
        "correct relative ratio normalized normalised"
    ),
    "baseline": "baseline base unablated unmodified intact full original reference",
    "rank": "rank ranking ranked order",
    "drop": "drop drops delta deltas decrease degradation diff difference decline reduction",
    "importance": "importance importances impact sensitivity contribution",
    "attention": "attention attn entropy diag diagonal offdiag operator column plus carry stability",
    "loss": "loss losses nll ce perplexity",
    "accuracy": "accuracy accuracies acc accs em exact score scores",
}
MEASURE_OF = {word: name for name, words in reversed(MEASURES.items()) for word in words.split()}
MEANS_NOTHING = NEUTRAL | set(
    [
        "ablation",
        "ablations",
        "ablate",
        "ablated",
        "data",
        "table",
        "rows",
        "all",
        "analysis",
        "value",
        "values",
        "problem",
        "without",
        "removed",
        "final",
        "best",
        "report",
        "summary",
        "zero",
        "seed",
        "the",
        "of",
        "layer",
        "layers",
        "json",
        "mean",
        "masked",
        "causal",
        "memory",
        "src",
        "tgt",
        "single",
        "individual",
        "pruning",
        "head",
    ]
)


@lru_cache(maxsize=4_096)
def measure(words: tuple[str, ...]) -> str:
    """What the nearest words say that the number is: a key of MEASURES, 'loss drop', '' if nothing is said, or '?'."""
    said = {measure_of(word) for word in words[-4:]} - {""}
    if "loss" in said and said & {"drop", "importance"}:
        return "loss drop"
    if "baseline" in said and "loss" in said:
        return "other"
    if found := next((name for name in MEASURES if name in said), ""):
        return found
    return "" if all(word in MEANS_NOTHING or word.isdigit() for word in words) else "?"


@lru_cache(maxsize=4_096)
def measure_of(word: str) -> str:
    return MEASURE_OF.get(word) or ("loss" if word.endswith("loss") else "accuracy" if word.endswith("acc") else "")
