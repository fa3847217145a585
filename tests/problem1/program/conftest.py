"""The published program and a few sums."""

import pytest

from problem1.dataset import split_pairs
from problem1.program import published_program


@pytest.fixture(scope="module")
def program():
    return published_program()


@pytest.fixture(scope="module")
def some():
    return split_pairs("validation")[:500]
