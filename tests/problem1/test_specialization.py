"""Where heads look, asked of models whose answer is known."""

import numpy as np
import pytest
import torch

from problem1.dataset import carry_facts
from problem1.model import Adder
from problem1.specialization import example_pairs, head_specialization, key_classes, uniform_attention
from problem1.train import unseen_pairs


@pytest.fixture(scope="module")
def pairs():
    return unseen_pairs("test")[:150]


def test_key_classes_name_the_right_tokens():
    cross = key_classes("cross", 3)
    assert np.flatnonzero(cross["same column"][2]).tolist() == [1, 5]  # the tens of 663+497 are its 6 and its 9
    assert np.flatnonzero(cross["next lower column"][2]).tolist() == [2, 6]
    assert np.flatnonzero(cross["+"][0]).tolist() == [3]
    assert not cross["same column"][0].any() and not cross["next lower column"][3].any()
    encoder = key_classes("encoder", 3)
    assert np.flatnonzero(encoder["same column"][4]).tolist() == [0, 4] and not encoder["same column"][3].any()
    own = key_classes("self", 3)
    assert np.flatnonzero(own["BOS"][3]).tolist() == [0] and np.flatnonzero(own["earlier outputs"][2]).tolist() == [
        1,
        2,
    ]


def test_a_model_that_looks_everywhere_alike_shows_the_uniform_values(pairs):
    torch.manual_seed(0)
    model = Adder().eval()
    for block in model.blocks:  # no queries, no differences between keys
        torch.nn.init.zeros_(block.attention.query.weight)
    table = head_specialization(model, pairs).set_index(["head", "measure"])["mean"]
    for kind, name in [("encoder", "Encoder L1 H2"), ("self", "Decoder Self L0 H1"), ("cross", "Decoder Cross L1 H0")]:
        for measure, value in uniform_attention(kind).items():
            assert table[name, measure] == pytest.approx(value, abs=1e-5)
        assert table[name, "stability"] == pytest.approx(1, abs=1e-5)


def test_examples_show_every_number_of_carries_and_a_nine():
    facts = carry_facts(example_pairs())
    assert len(facts) == 12 and facts["carries"].value_counts().tolist() == [3, 3, 3, 3]
    assert facts["through a 9"].sum() >= 2
