import hashlib
import json

import pytest
import torch

from problem2 import dataset
from problem2.dataset import KINDS, by_length, encode, long_items, make_items, split_items


def digest(items):
    rows = [{"sequence": s, "is_sorted": int(label), "length": len(s)} for s, label in items]
    return hashlib.sha256(json.dumps(rows, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("split", "published"),
    [("train", "ac1925c58fc20aa9"), ("validation", "bd8f18e22a516544"), ("test", "cb40c681b9d78ee9")],
)
def test_splits_hash_to_the_published_values(split, published):
    assert digest(split_items(split)) == published


@pytest.mark.parametrize(
    ("length", "published", "share"),
    [
        (32, "2e4efa802d929510", 0.454),
        (64, "b2ba2f6cbce07693", 0.514),
        (128, "89bdb93c3f2d5c24", 0.518),
        (256, "f63317bbcf9092c4", 0.512),
    ],
)
def test_long_sets_hash_to_the_published_values(length, published, share):
    items = long_items(length)
    assert digest(items) == published
    assert sum(label for _, label in items) / len(items) == share


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("size", "lengths", "values"),
    [(400, (8, 16), (0, 99)), (400, 2, (0, 99)), (400, (2, 5), (7, 8)), (200, 64, (40, 43)), (4, 4_096, (0, 999))],
)
def test_every_other_item_is_sorted_and_labels_agree_with_sorted(kind, size, lengths, values):
    items = make_items(size, lengths, kind, values)
    assert [label for _, label in items] == [True, False] * (size // 2)
    assert all(label == (sequence == sorted(sequence)) for sequence, label in items)
    shortest, longest = (lengths, lengths) if isinstance(lengths, int) else lengths
    assert {len(sequence) for sequence, _ in items} == set(range(shortest, longest + 1))
    used = {value for sequence, _ in items for value in sequence}
    assert min(used) >= values[0] and max(used) <= values[1]
    if values[1] < 100:
        assert used == set(range(values[0], values[1] + 1))


def test_labels_of_the_assignment_agree_with_sorted():
    items = split_items("test") + long_items(64)
    assert all(label == (sequence == sorted(sequence)) for sequence, label in items)


def unsorted(kind, length=40, values=(0, 99), size=400):
    return [sequence for sequence, label in make_items(size, length, kind, values) if not label]


def test_adjacent_swap_leaves_one_descent_between_different_neighbours_anywhere():
    places = []
    for sequence in unsorted("adjacent", length=6, size=4_000):
        (place,) = [i for i in range(5) if sequence[i] > sequence[i + 1]]
        dataset.swap(sequence, place, place + 1)
        assert sequence == sorted(sequence)
        places.append(place)
    for place in range(5):  # 2,000 draws over five places: 400 each, standard deviation 18
        assert 320 < places.count(place) < 480


def test_reversed_and_half_rotated_are_what_they_say():
    assert all(sequence[::-1] == sorted(sequence) for sequence in unsorted("reversed"))
    for length in (8, 9, 2):
        for sequence in unsorted("half-rotated", length):
            cut = length - length // 2  # the lower half has moved to the end
            assert sequence[cut:] + sequence[:cut] == sorted(sequence)


def test_share_of_descents_tells_the_kinds_apart():
    share = {
        kind: torch.stack([dataset.descents(torch.tensor(s)).float().mean() for s in unsorted(kind)]).mean().item()
        for kind in ("swaps", "shuffle", "adjacent")
    }
    assert 0.34 < share["swaps"] < 0.40 and 0.45 < share["shuffle"] < 0.51
    assert share["adjacent"] == pytest.approx(1 / 39)


def test_is_sorted_and_descents_agree_with_sorted():
    tokens = torch.randint(0, 3, (500, 4))
    assert dataset.is_sorted(tokens).tolist() == [row == sorted(row) for row in tokens.tolist()]
    assert dataset.descents(torch.tensor([3, 5, 5, 4, 9])).tolist() == [False, False, True, False]


def test_groups_hold_every_item_once_in_one_length_each():
    items = split_items("validation")
    groups = by_length(items)
    assert list(groups) == list(range(8, 17))
    for length, group in groups.items():
        assert group.tokens.dtype == torch.int64 and group.is_sorted.dtype == torch.bool
        expected = [item for item in items if len(item[0]) == length]
        assert list(zip(group.tokens.tolist(), group.is_sorted.tolist(), strict=True)) == expected
    assert sum(len(group.tokens) for group in groups.values()) == len(items)


def test_sets_depend_on_the_seed_and_on_the_task_and_on_nothing_else():
    assert make_items(20, 12, seed=3) == make_items(20, 12, seed=3) == make_items(40, 12, seed=3)[:20]
    first = [make_items(20, 12, seed=3), make_items(20, 12, seed=4), make_items(20, 12, "adjacent", seed=3)]
    assert len({str(items[0]) for items in first}) == 3


def test_sequences_are_read_from_text_and_numbers():
    for sequence in ("3 5 5 9", "3, 5, 5, 9", [3, 5, 5, 9], (3, 5.0, 5, 9), torch.tensor([3, 5, 5, 9])):
        assert encode(sequence).tolist() == [[3, 5, 5, 9]]


@pytest.mark.parametrize(
    ("sequence", "sentence"),
    [
        ("", "sequences of shape (1, 0) are empty; there is nothing to judge."),
        ([], "sequences of shape (1, 0) are empty; there is nothing to judge."),
        ("7", "a sequence of length 1 has no neighbours; the shortest length is 2."),
        ("7 100", "value 100 is outside the vocabulary 0..99."),
        ("7 99999999999999999999", "value 99999999999999999999 is outside the vocabulary 0..99."),
        ([3, -1], "value -1 is outside the vocabulary 0..99."),
        ("7 x", "'7 x' is not a sequence of whole numbers; write it like '3 5 5 9'."),
        ([1, 2.5], "[1, 2.5] is not a sequence of whole numbers; write it like '3 5 5 9'."),
        ([[1, 2], [3, 4]], "[[1, 2], [3, 4]] is not a sequence of whole numbers; write it like '3 5 5 9'."),
        ([1, float("inf")], "[1, inf] is not a sequence of whole numbers; write it like '3 5 5 9'."),
    ],
)
def test_what_is_not_a_sequence_gets_one_sentence(sequence, sentence):
    with pytest.raises(ValueError) as error:
        encode(sequence)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"lengths": 1}, "lengths are 1 to 1; they must rise and lie between 2 and 4,096."),
        ({"lengths": (16, 8)}, "lengths are 16 to 8; they must rise and lie between 2 and 4,096."),
        ({"lengths": 4_097}, "lengths are 4097 to 4097; they must rise and lie between 2 and 4,096."),
        ({"size": 7}, "size is 7; half of a set is sorted, so it must be even and at least 2."),
        ({"size": 0}, "size is 0; half of a set is sorted, so it must be even and at least 2."),
        (
            {"kind": "hard"},
            "kind is 'hard'; the kinds of unsorted items are swaps, adjacent, reversed, half-rotated, shuffle.",
        ),
        ({"values": (5, 5)}, "values are 5 to 5; there must be at least two, and none below 0."),
        ({"values": (-3, 5)}, "values are -3 to 5; there must be at least two, and none below 0."),
    ],
)
def test_what_is_not_a_task_gets_one_sentence(arguments, sentence):
    with pytest.raises(ValueError) as error:
        make_items(**({"size": 10} | arguments))
    assert str(error.value) == sentence


def test_sets_that_the_assignment_does_not_have_get_one_sentence():
    with pytest.raises(ValueError, match="split is 'holdout'; the splits are train, validation, test"):
        split_items("holdout")
    with pytest.raises(ValueError, match="length is 48; the assignment's long sets have length 32, 64, 128, 256"):
        long_items(48)
