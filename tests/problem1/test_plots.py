"""What pictures of the adder are labelled with."""

import pytest

from problem1 import plots
from problem1.dataset import encode_pairs, parse
from problem1.model import Adder


@pytest.mark.parametrize(
    ("kind", "queries", "keys"),
    [
        ("encoder", "6 6 3 + 4 9 7", "6 6 3 + 4 9 7"),
        ("self", "→1 →1 →6 →0", "BOS 1 1 6"),
        ("cross", "→1 →1 →6 →0", "6 6 3 + 4 9 7"),
    ],
)
def test_a_map_is_labelled_with_the_tokens_read_and_the_digits_predicted(kind, queries, keys):
    source, target = encode_pairs(parse("663+497"))
    assert plots.map_labels(kind, source[0], target[0]) == (queries.split(), keys.split())


def test_heads_are_ordered_by_kind():
    names = Adder().head_names
    ordered = plots.by_kind(reversed(names))
    assert ordered[:8] == names[:8] and {plots.kind_of(name) for name in ordered[8:16]} == {"Decoder Self"}
    assert sorted(ordered) == sorted(names)
