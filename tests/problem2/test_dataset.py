import functools
import hashlib
import itertools
import json
from collections import Counter

import numpy as np
import pytest
import torch

from problem1.shared.errors import UserError
from problem2 import dataset
from problem2.dataset import (
    AUGMENTATIONS,
    CORRUPTIONS,
    ExactBatches,
    OnlineBatches,
    augment_values,
    crowded_items,
    encode,
    group_by_length,
    in_order,
    long_items,
    make_items,
    online_tokens,
    split_items,
)


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


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize(
    ("size", "lengths", "values"),
    [(400, (8, 16), (0, 99)), (400, 2, (0, 99)), (400, (2, 5), (7, 8)), (200, 64, (40, 43)), (4, 4_096, (0, 999))],
)
def test_every_other_item_is_sorted_and_labels_agree_with_sorted(corruption, size, lengths, values):
    items = make_items(size, lengths, corruption, values)
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


def unsorted(corruption, length=40, values=(0, 99), size=400):
    return [sequence for sequence, label in make_items(size, length, corruption, values) if not label]


def test_adjacent_swap_leaves_one_descent_between_different_neighbours_anywhere():
    positions = []
    for sequence in unsorted("adjacent", length=6, size=4_000):
        (position,) = [i for i in range(5) if sequence[i] > sequence[i + 1]]
        dataset.swap(sequence, position, position + 1)
        assert sequence == sorted(sequence)
        positions.append(position)
    for position in range(5):  # 2,000 draws over five positions: 400 each, standard deviation 18
        assert 320 < positions.count(position) < 480


def test_reversed_and_half_rotated_are_what_they_say():
    assert all(sequence[::-1] == sorted(sequence) for sequence in unsorted("reversed"))
    for length in (8, 9, 2):
        for sequence in unsorted("half-rotated", length):
            cut = length - length // 2  # the lower half has moved to the end
            assert sequence[cut:] + sequence[:cut] == sorted(sequence)


def test_share_of_descents_tells_the_corruptions_apart():
    share = {
        corruption: dataset.descents(torch.tensor(unsorted(corruption))).float().mean().item()
        for corruption in ("swaps", "shuffle", "adjacent")
    }
    assert 0.34 < share["swaps"] < 0.40 and 0.45 < share["shuffle"] < 0.51
    assert share["adjacent"] == pytest.approx(1 / 39)


@pytest.mark.parametrize("length", [16, 32, 256])
def test_crowded_items_put_at_each_clamped_position_what_training_puts_there(length):
    """Mean value at each of the 16 positions, those beyond the last counted as the last: as in sequences of 16."""
    items = crowded_items(2_000, length, seed=5)
    assert [label for _, label in items] == [True, False] * 1_000
    assert all(label == (sequence == sorted(sequence)) for sequence, label in items)
    ordered = np.sort([sequence for sequence, _ in items], axis=1)
    usual = np.sort([sequence for sequence, _ in make_items(2_000, 16, seed=6)], axis=1).mean(0)
    found = np.append(ordered[:, :15].mean(0), ordered[:, 15:].mean())
    assert np.abs(found - usual).max() < 1.5 and ordered.shape == (2_000, length)
    with pytest.raises(UserError, match="lengths are 16 to 12; they must rise"):
        crowded_items(2, 12)


def test_is_sorted_and_descents_agree_with_sorted():
    tokens = torch.randint(0, 3, (500, 4))
    assert dataset.is_sorted(tokens).tolist() == [row == sorted(row) for row in tokens.tolist()]
    assert dataset.descents(torch.tensor([3, 5, 5, 4, 9])).tolist() == [False, False, True, False]


def test_groups_hold_every_item_once_in_one_length_each():
    items = split_items("validation")
    groups = group_by_length(items)
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
        ("", "sequences of shape (1, 0) are empty; there is nothing to classify."),
        ([], "sequences of shape (1, 0) are empty; there is nothing to classify."),
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
    with pytest.raises(UserError) as error:
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
            {"corruption": "hard"},
            "corruption is 'hard'; the known ones are swaps, adjacent, reversed, half-rotated, shuffle.",
        ),
        ({"values": (5, 5)}, "values are 5 to 5; there must be at least two, and none below 0."),
        ({"values": (-3, 5)}, "values are -3 to 5; there must be at least two, and none below 0."),
    ],
)
def test_what_is_not_a_task_gets_one_sentence(arguments, sentence):
    with pytest.raises(UserError) as error:
        make_items(**({"size": 10} | arguments))
    assert str(error.value) == sentence


def test_sets_that_the_assignment_does_not_have_get_one_sentence():
    with pytest.raises(UserError, match="split is 'holdout'; the splits are train, validation, test"):
        split_items("holdout")
    with pytest.raises(UserError, match="length is 48; the assignment's long sets have length 32, 64, 128, 256"):
        long_items(48)


# --- batches ---------------------------------------------------------------------------------------------------------


@functools.cache
def training_items():
    return split_items("train")


def batches_of(data, seed=0, **options):
    if data == "exact":
        return ExactBatches(training_items(), seed, batch_size=64, **options)
    return OnlineBatches(seed, batch_size=64, **options)


@pytest.mark.parametrize("data", ["exact", "online"])
@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_a_batch_has_one_length_right_labels_and_values_of_the_vocabulary(data, augment):
    batches, lengths = batches_of(data, augment=augment), Counter()
    for step in range(60):
        tokens, labels = batches(step)
        lengths[tokens.shape[1]] += 1
        assert tokens.dtype == torch.int64 and 32 < len(tokens) <= 64
        assert tokens.min() >= 0 and tokens.max() <= 99
        assert labels.tolist() == [row == sorted(row) for row in tokens.tolist()]
        assert 0.2 < labels.double().mean() < 0.85
    assert set(lengths) == set(range(8, 17))


@pytest.mark.parametrize("options", [{"data": "exact"}, {"data": "exact", "augment": "squeeze"}, {"data": "online"}])
def test_the_batch_of_a_step_depends_on_the_seed_and_the_step_only(options):
    """So a training that was killed goes on with the batches it would have had."""
    one, other = batches_of(seed=3, **options), batches_of(seed=3, **options)
    in_turn = {step: one(step).tokens for step in range(170)}
    for step in (169, 4, 159, 160, 0):
        assert torch.equal(other(step).tokens, in_turn[step])
    another_seed = batches_of(seed=4, **options)
    assert not torch.equal(another_seed(4).tokens, in_turn[4])


def test_an_epoch_shows_each_exact_item_once_in_an_order_of_its_own():
    batches = batches_of("exact")
    epochs = [
        [row for step in steps for row in batches(step).tokens.tolist()] for steps in (range(160), range(160, 320))
    ]
    expected = sorted(sequence for sequence, _ in training_items())
    assert sorted(epochs[0]) == sorted(epochs[1]) == expected and epochs[0] != epochs[1]


def test_of_online_items_half_are_sorted_a_quarter_one_swap_away_and_half_narrow():
    tokens = online_tokens(np.random.default_rng(0), 4_000, 12, narrow=0.5, adjacent=0.5)
    unsorted = [row for row in tokens.tolist() if not in_order(row)]
    assert 0.44 < len(unsorted) / 4_000 < 0.5  # swaps of equal values leave some sorted
    one_swap = [
        row for row in unsorted if sum(a != b for a, b in zip(row, sorted(row), strict=True)) == 2 and one_descent(row)
    ]
    assert 0.45 < len(one_swap) / len(unsorted) < 0.6
    spans = tokens.max(1) - tokens.min(1)
    assert 0.35 < (spans < 50).mean() < 0.5 and (spans < 4).mean() > 0.05


def one_descent(row):
    return sum(a > b for a, b in itertools.pairwise(row)) == 1


def test_the_shares_of_online_items_can_be_changed():
    draw = np.random.default_rng(0)
    wide = online_tokens(draw, 2_000, 16, narrow=0, adjacent=0)
    assert (wide.max(1) - wide.min(1) > 50).mean() > 0.99
    assert np.mean([one_descent(row) for row in wide.tolist()]) < 0.1
    hard = online_tokens(draw, 2_000, 16, narrow=1, adjacent=1)
    assert all(in_order(row) or one_descent(row) for row in hard.tolist())
    assert hard.min() == 0 and hard.max() == 99  # the windows lie everywhere


def test_augmentation_moves_and_reflects_what_it_does_not_squeeze():
    draw = np.random.default_rng(0)
    tokens = np.array([sequence for sequence, _ in make_items(2_000, 12, "swaps")])
    moved = augment_values(tokens, draw, squeeze=False)
    steps, new_steps = np.diff(tokens), np.diff(moved)
    kept, reflected = (new_steps == steps).all(1), (new_steps == steps[:, ::-1]).all(1)
    assert (kept | reflected).all() and 0.4 < reflected.mean() < 0.6
    assert [in_order(row) for row in tokens.tolist()] == [in_order(row) for row in moved.tolist()]


def test_squeezing_keeps_sorted_items_sorted_and_makes_narrow_ones():
    draw = np.random.default_rng(0)
    tokens = np.array([sequence for sequence, _ in make_items(2_000, 12, "swaps")])
    squeezed = augment_values(tokens, draw, squeeze=True)
    before, after = ([in_order(row) for row in array.tolist()] for array in (tokens, squeezed))
    assert all(now for then, now in zip(before, after, strict=True) if then)
    assert 0 < sum(now and not then for then, now in zip(before, after, strict=True)) < 300
    spans = squeezed.max(1) - squeezed.min(1)
    assert 0.3 < (spans < 50).mean() < 0.6 and squeezed.min() == 0 and squeezed.max() == 99


def test_swaps_of_rows_change_these_rows_only_and_keep_their_values():
    draw = np.random.default_rng(0)
    for swap in (dataset.swap_neighbours, dataset.swap_anywhere):
        tokens = np.sort(draw.integers(100, size=(200, 9)), axis=1)
        before = tokens.copy()
        swap(tokens, draw, np.arange(0, 200, 2))
        assert (tokens[1::2] == before[1::2]).all() and (np.sort(tokens, axis=1) == before).all()
        assert (tokens[::2] != before[::2]).any(1).mean() > 0.9
