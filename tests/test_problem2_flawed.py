"""The mistakes of the reports in problem 2 are the ones that they are said to be."""

import pandas as pd
import torch

from problem1.flawed import configurations
from problem2 import flawed
from problem2.certificate import PUBLISHED


def test_a_frozen_table_stays_as_it_was_drawn(tmp_path):
    recipe = flawed.FlawedRecipe(encoding="learned", frozen=True, steps=6, evaluate_every=3)
    torch.manual_seed(recipe.seed)
    drawn = flawed.make_flawed(recipe)
    trained = flawed.train_flawed(recipe, tmp_path, progress=False)
    assert torch.equal(trained.positions.table, drawn.positions.table)
    assert not torch.equal(trained.embedding.weight, drawn.embedding.weight)


def test_a_homework_judge_is_post_norm_and_sees_positions(tmp_path):
    fields = {**flawed.VARIANTS["homework, sinusoidal"], "shape": "small", "steps": 2, "evaluate_every": 1}
    judge = flawed.train_flawed(flawed.FlawedRecipe(**fields), tmp_path, progress=False)
    tokens = torch.arange(16)[None]
    assert judge.shape["encoding"] == "sinusoidal" and isinstance(judge.blocks[0], flawed.PostNormBlock)
    assert not torch.equal(judge(tokens).logits, judge(tokens.flip(1)).logits)


def test_the_table_holds_every_variant_and_seed():
    table = pd.read_csv(PUBLISHED / "flawed.csv", keep_default_na=False)
    expected = configurations(flawed.FlawedRecipe, flawed.VARIANTS)
    assert [row["seed"] for row in expected] == [0, 1, 2] * len(flawed.VARIANTS)
    assert table[list(expected[0])].to_dict("records") == expected
