import pytest
import torch

from problem2.encodings import sinusoids
from tests.problem2.encodings.common import D_MODEL, added, make, same


@pytest.mark.parametrize("training", [False, True])
def test_stretched_positions_are_t_times_span_over_length(training):
    for options, span in (({}, 512), ({"span": 100}, 100)):
        encoding = make("stretched", **options).train(training)
        for length in (8, 13, 16, 64):
            rows = added(encoding, length)[0]
            for t in range(length):
                same(rows[t], sinusoids(torch.tensor(t * span / length), D_MODEL), 1e-4)


def test_they_span_the_same_range_at_every_length():
    encoding = make("stretched")
    assert encoding.policies == ("stretch",) and encoding.beyond == "stretch"
    for length in (2, 8, 16, 256, 1_024):
        positions = encoding.positions_of(torch.zeros(1, length, D_MODEL))
        assert positions[0] == 0 and positions[-1].item() == pytest.approx(512 * (length - 1) / length)
        assert positions.diff().min().item() == pytest.approx(512 / length, abs=1e-3)


def test_what_attention_knows_are_both_positions():
    relation = make("stretched").relation(32)
    assert relation[3, 5] == 48 * 10_000 + 80 and len(relation.unique()) == 32 * 32
