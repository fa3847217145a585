"""Test workers share the cores: each takes one torch thread, because two in each are several times slower, and begins
with what takes longest, so that none waits for the other in the end."""

import pytest
import torch

torch.set_num_threads(1)

LONGEST = ("problem1.ipynb", "problem2.ipynb", "reports.ipynb", "test_published.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
