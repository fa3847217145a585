"""Test workers share the cores, so each takes one torch thread: two in each are several times slower."""

import torch

torch.set_num_threads(1)
