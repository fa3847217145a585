"""The published adder and a few pairs that it was not trained on: what most tests about heads are asked of."""

import pytest

from problem1.published import published_adder
from problem1.train import unseen_pairs

FEW = 100


@pytest.fixture(scope="module")
def adder():
    return published_adder()[0]


@pytest.fixture(scope="module")
def pairs():
    return unseen_pairs("test")[:FEW]


@pytest.fixture(scope="module")
def validation():
    return unseen_pairs("validation")[:FEW]
