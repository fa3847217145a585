"""What a head may say: functions of named tokens, each by hand."""

import itertools

import numpy as np
import pytest
import torch

from problem1.dataset import encode_pairs, shift_right
from problem1.every_pair import random_pairs
from problem1.program.variables import ENTRIES, MOST_ENTRIES, Part, entries, read, reads, vocabulary, words

POSITIONS = [(kind, q) for kind, count in (("encoder", 7), ("self", 4), ("cross", 4)) for q in range(count)]


def tokens_of(pairs):
    source, target = encode_pairs(np.asarray(pairs))
    return source, shift_right(target)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (Part("digit", 1, 0), 6),
        (Part("digit", 1, 1), 9),
        (Part("sum", 1), 15),
        (Part("class", 1, 1), 2),
        (Part("class", 2, 1), 2),
        (Part("class", 0, 1), 2),
        (Part("class", 1, 2), 2),
        (Part("written", 1), 1),
        (Part("written", 3), 6),
    ],
)
def test_663_plus_497_by_hand(part, value):
    assert read((part,), *tokens_of([[663, 497]])).item() == value


def test_the_class_of_columns_compares_their_sum_with_nines():
    pairs = random_pairs(2_000, seed=3)
    source, written = tokens_of(pairs)
    for first, count in [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (0, 3)]:
        total = (pairs // 10 ** (3 - first - count) % 10**count).sum(1)
        expected = np.sign(total - (10**count - 1)) + 1
        assert read((Part("class", first, count),), source, written).tolist() == expected.tolist()


@pytest.mark.parametrize(("kind", "position"), POSITIONS)
def test_a_variable_takes_each_value_below_its_entries_and_depends_on_the_tokens_it_reads_only(kind, position):
    generator = torch.Generator().manual_seed(0)
    source, written = tokens_of(random_pairs(4_000, seed=4))
    written = torch.cat([written[:, :1], torch.randint(10, (4_000, 3), generator=generator)], dim=1)
    known = vocabulary(kind, position)
    assert known[0] == () and len(set(known)) == len(known)
    assert [entries(v) for v in known] == sorted(entries(v) for v in known) and entries(known[-1]) <= MOST_ENTRIES
    for variable in known:
        value = read(variable, source, written)
        assert value.min() >= 0 and value.max() < entries(variable)
        others = [torch.randint(10, tokens.shape, generator=generator) for tokens in (source, written)]
        kept = reads(variable)
        changed = [each.clone() for each in (source, written)]
        for column in range(7):
            if column != 3 and f"{'ab'[column > 3]}{column % 4}" not in kept:
                changed[0][:, column] = others[0][:, column]
        for column in range(4):
            if f"<{column}" not in kept:
                changed[1][:, column] = others[1][:, column]
        assert torch.equal(read(variable, *changed), value), variable


def test_no_variable_is_told_the_true_carry_by_another_way_than_tokens():
    """The source is read digit by digit: its + and the answer, beyond what was written, do not enter."""
    assert set(ENTRIES) == {"digit", "sum", "class", "written"}
    for kind, position in POSITIONS:
        for part in itertools.chain.from_iterable(vocabulary(kind, position)):
            if part.kind == "written":
                assert 1 <= part.column <= position and kind != "encoder"


@pytest.mark.parametrize(
    ("variable", "kind", "position", "text"),
    [
        ((), "encoder", 0, "its position only"),
        ((Part("digit", 1, 1),), "encoder", 1, "the other digit of its column"),
        ((Part("digit", 1, 1),), "encoder", 5, "its own digit"),
        ((Part("sum", 1), Part("class", 2, 1)), "cross", 2, "the sum of its column and the ones against 9"),
        ((Part("class", 1, 2),), "cross", 1, "the tens and ones against 99"),
        ((Part("class", 2, 1),), "encoder", 1, "the ones against 9"),
        ((Part("digit", 1, 1),), "cross", 1, "the lower digit of the tens"),
        ((Part("written", 2),), "self", 2, "the digit written last"),
    ],
)
def test_a_variable_in_words(variable, kind, position, text):
    assert words(variable, kind, position) == text
