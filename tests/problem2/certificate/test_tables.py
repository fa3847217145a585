"""Tables against runs of the model on every sequence."""

import numpy as np
import pytest
import torch

from problem2.certificate.tables import every_triple, tabulate
from tests.problem2.certificate.common import LONGEST, all_sequences, local_classifier


@pytest.mark.parametrize("size", [2, 3, 5, 12])
def test_a_sequence_shows_every_triple_once(size):
    sequence = every_triple(size)
    triples = np.stack([sequence[:-2], sequence[1:-1], sequence[2:]], axis=1)
    assert len(triples) == size**3 and len(np.unique(triples, axis=0)) == size**3 and set(sequence) == set(range(size))


def test_every_token_of_every_sequence_says_what_its_table_entry_says():
    torch.manual_seed(1)
    model = local_classifier(4)
    tables = tabulate(model, length=7)
    with torch.inference_mode():
        for length in range(2, LONGEST + 1):
            tokens = all_sequences(4, length)
            np.testing.assert_allclose(model(tokens).token_logits, tables.of(tokens.numpy()), atol=1e-5)
