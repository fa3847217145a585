"""Vocabularies so small that every sequence of up to six values can be run."""

import itertools
import math

import numpy as np
import torch

from problem2.certificate import Tables
from problem2.dataset import Group, is_sorted, online_tokens
from problem2.model import Classifier
from problem2.train import classifier_loss

LONGEST = 6


def local_classifier(vocabulary=5, **changes):
    form = {"encoding": "shaw", "n_layers": 1, "pooling": "min", "window": 1, "options": {"clip": 1}} | changes
    if form["encoding"] != "shaw" and "options" not in changes:
        form.pop("options")
    return Classifier(**form, n_heads=2, d_model=16, d_ff=32, vocabulary=vocabulary).eval()


def train_briefly(model, steps, lengths=(3, 6), seed=0):
    optimizer, draw = torch.optim.AdamW(model.parameters(), 1e-2), np.random.default_rng(seed)
    for _ in range(steps):
        length = draw.integers(lengths[0], lengths[1] + 1)
        tokens = torch.from_numpy(online_tokens(draw, 64, length, 0.0, 0.5, model.shape["vocabulary"]))
        optimizer.zero_grad()
        classifier_loss(model, Group(tokens, is_sorted(tokens))).backward()
        optimizer.step()
    return model


def all_sequences(vocabulary, length):
    return torch.tensor(list(itertools.product(range(vocabulary), repeat=length)))


@torch.inference_mode()
def brute_force(model, longest=LONGEST):
    """(lowest logit of a sorted sequence, highest of an unsorted one, all wrong sequences), over every sequence."""
    lowest, highest, wrong = math.inf, -math.inf, []
    for length in range(2, longest + 1):
        tokens = all_sequences(model.shape["vocabulary"], length)
        logits, label = model(tokens).logits, is_sorted(tokens)
        lowest, highest = min(lowest, logits[label].min().item()), max(highest, logits[~label].max().item())
        wrong += tokens[(logits > 0) != label].tolist()
    return lowest, highest, wrong


def random_tables(seed, vocabulary=4):
    """Logits of nobody: accepting now and then, so that walks of many lengths occur."""
    draw = np.random.default_rng(seed)
    first, middle, last = (draw.normal(draw.uniform(-1.2, -0.6), 1, (vocabulary,) * n) for n in (2, 3, 2))
    return Tables(first, middle, last)
