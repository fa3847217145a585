"""The mistakes of the reports are the ones that they are said to be."""

import shutil
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from problem1 import flawed, published
from problem1.dataset import SPLIT_SIZES, encode_pairs, split_pairs
from problem1.flawed import (
    FlawedRecipe,
    most_common_start,
    post_norm_adder,
    rest_loss,
    train_flawed,
    write_on,
)
from problem1.model import Adder
from problem1.published import published_adder
from problem1.shared.homework import recipe_rows
from problem1.shared.storage import load_tensors


@pytest.fixture
def batch():
    return encode_pairs(split_pairs("test")[:50])


def test_post_norm_is_pytorchs():
    """A block with the weights of nn.TransformerEncoderLayer(norm_first=False) computes the same."""
    torch.manual_seed(0)
    block = flawed.PostNormBlock("encoder", 0, 32, 4, 64).eval()
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=False).eval()
    attention, (norm, up, _, down) = block.attention, block.feed_forward
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.uniform_(-0.5, 0.5)
        parts = attention.query, attention.key, attention.value
        layer.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        layer.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    pairs = [(layer.self_attn.out_proj, attention.output), (layer.linear1, up), (layer.linear2, down)]
    for theirs, ours in [*pairs, (layer.norm1, block.norm), (layer.norm2, norm)]:
        theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 7, 32)
    assert torch.allclose(block(x)[0], layer(x), atol=1e-5)


def test_a_recorded_post_norm_adder_resumes_to_the_same_logits(batch):
    """So that heads can be removed from it as from any other adder."""
    torch.manual_seed(0)
    model, (source, target) = post_norm_adder().eval(), batch
    record = model.record(source, target[:, :-1])
    for site in range(6):
        gates = model.gates(4 * site + 1)
        assert torch.allclose(model.resume(record, site, gates), model(source, target[:, :-1], gates), atol=1e-5)


def test_dropout_acts_in_training_only(batch):
    torch.manual_seed(0)
    model, (source, target) = post_norm_adder(), batch
    once, again = (model.train()(source, target[:, :-1]) for _ in range(2))
    assert not torch.allclose(once, again)
    once, again = (model.eval()(source, target[:, :-1]) for _ in range(2))
    assert torch.equal(once, again)


def test_without_bos_the_first_digit_is_never_learned(batch):
    """It is what the decoder reads first, and not among what it is asked for."""
    _, target = batch
    read, asked = flawed.predict_rest(lambda source, decoder_input: decoder_input, None, target)
    assert torch.equal(read, target[:, :-1]) and torch.equal(asked, target[:, 1:])


def test_a_digit_taken_for_pad_is_not_learned():
    """Two batches that differ in how likely a 0 is at places where 0 is right have the same loss."""
    source = torch.zeros(1, 7, dtype=torch.long)
    target = torch.tensor([[0, 0, 5, 0]])

    def loss(favoured, zero_is_pad):
        logits = torch.zeros(1, 3, 10)
        logits[0, [0, 2], favoured] = 5.0
        return rest_loss(zero_is_pad)(lambda *_: logits, (source, target)).item()

    assert loss(0, True) == loss(3, True) and loss(0, False) < loss(3, False)


@pytest.mark.parametrize("start", ["0", "most common of 32", "the true one"])
def test_one_pass_scores_every_item_as_greedy_decoding_does(start):
    """For a model that is right on some sums: the published adder is, told to go on from a given digit."""
    model, (source, target) = published_adder()[0], encode_pairs(split_pairs("test")[:300])
    gates, begun = model.gates(1, 13), flawed.starts(target)[start]
    right = flawed.rest_right(model, source, target, gates)
    written = write_on(model, source, begun, gates)
    assert torch.equal(written[:, 0], begun)
    share = (written == target).all(1).double().mean().item()
    assert flawed.free_running(begun, target, right) == share and right.any() and not right.all()


def test_the_most_common_start_is_taken_batch_by_batch():
    first = torch.tensor([1, 1, 0, 0, 0, 1, 1, 0])
    target = torch.stack([first, first], dim=1)
    assert most_common_start(target, 3).tolist() == [1, 1, 1, 0, 0, 0, 0, 0]  # a tie in the last batch: the smaller


def test_teacher_forced_scores_skip_what_they_are_told_to():
    logits = torch.zeros(2, 3, 10)
    logits[..., 4] = 1  # it always says 4
    rest = torch.tensor([[4, 0, 4], [4, 5, 0]])
    assert flawed.teacher_forced(logits, rest) == {"digits": 0.5, "answers": 0.0}
    assert flawed.teacher_forced(logits, rest, skip=0) == {"digits": 0.75, "answers": 0.5}


def test_attention_targets_add_up(batch):
    torch.manual_seed(0)
    model, (source, target) = Adder().eval(), batch
    record = model.record(source, target[:, :-1])
    for weights in record.attention[:2]:
        weights[:] = 0
        weights[..., 3] = 1  # the encoder looks at the + only
    for site in (3, 5):
        record.attention[site][:] = 0
        for position in range(3):
            record.attention[site][:, :, position, position] = 1  # the digit of column position + 1: the one written
    table = flawed.attention_targets(model, record, writes=(1, 2, 3)).set_index("head")
    assert (table.loc["Encoder L0 H0", ["on the +", "most common pattern"]] == 1).all()
    cross = table.loc["Decoder Cross L1 H2"]
    assert cross["on the column of the digit written"] == 1 and cross["on the column of the digit read"] == 0


@pytest.mark.parametrize("variant", flawed.VARIANTS)
def test_every_variant_trains_is_kept_and_loaded(variant, tmp_path, monkeypatch):
    monkeypatch.setitem(SPLIT_SIZES, "validation", 50)
    recipe = FlawedRecipe(**{**flawed.VARIANTS[variant], "steps": 4, "evaluate_every": 2, "seed": 1})
    model = train_flawed(recipe, tmp_path, progress=False)
    again = train_flawed(recipe, tmp_path, progress=False)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters(), strict=True))
    other = train_flawed(recipe, tmp_path / "other", progress=False)  # the same seed, the same weights
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), other.parameters(), strict=True))


# --- trainings that stop, and report B's importance ------------------------------------------------------------------


def test_a_training_stops_at_whole_answers(tmp_path, monkeypatch):
    """An untrained adder is right on some digits and on no answer."""
    monkeypatch.setitem(SPLIT_SIZES, "validation", 50)
    fields = {**flawed.STOPPED["no BOS, as good as C"], "steps": 4, "evaluate_every": 2}
    train_flawed(flawed.StoppedRecipe(**{**fields, "until": 0.0}), tmp_path / "soon", progress=False)
    train_flawed(flawed.StoppedRecipe(**{**fields, "until": 0.01}), tmp_path / "late", progress=False)
    rows = [load_tensors(tmp_path / name / "model.safetensors")[1]["rows"] for name in ("soon", "late")]
    assert [len(each) for each in rows] == [1, 2] and rows[1][0]["accuracy"] == 0


def test_removing_a_number_removes_it_from_every_layer(batch):
    """Against a loop over sums that removes six heads by name, with the loss of PyTorch."""
    model, (source, target) = published_adder()[0], batch
    read, written = target[:, :-1], target[:, 1:]
    changes = flawed.changes_by_number(model, source[:5], read[:5], written[:5], skip=0)
    for item in range(5):
        s, r, w = source[item : item + 1], read[item : item + 1], written[item]
        for number in range(4):
            names = [name for name in model.head_names if name.endswith(f"H{number}")]
            losses = [
                nn.functional.cross_entropy(model(s, r, model.gates(*removed))[0], w, ignore_index=0).item()
                for removed in (names, [])
            ]
            assert len(names) == 6
            assert changes[item, number].item() == pytest.approx(losses[0] - losses[1], abs=1e-4)


def test_rankings_are_counted_over_sums():
    changes = torch.tensor([[1.0, 2.0, 0.0], [3.0, 2.0, 1.0], [5.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    table = flawed.rank_by_number(changes)
    assert table["mean"].tolist() == [2.25, 1.75, 1.0] and table["first on"].tolist() == [0.5, 0.25, 0.25]
    assert table["on the first sum"].tolist() == [1, 2, 0]
    assert table["rankings"].tolist() == [3] * 3 and table["ranked as by the mean"].tolist() == [0.5] * 3


def test_stopped_trainings_are_published_with_their_heads_and_numbers():
    runs, heads, numbers = (published.table(name) for name in published.STOPPED)
    assert set(zip(runs["variant"], runs["seed"], strict=True)) == {(v, s) for v in flawed.STOPPED for s in range(3)}
    assert len(heads) == 24 * len(runs) and len(numbers) == 4 * len(runs) and runs["code"].nunique() == 1
    there = runs["validation accuracy"] >= runs["until"] - 1e-6
    assert (there | (runs["epochs trained"] == 50)).all()
    assert list(runs["variant"][~there]) == ["no BOS, 0 is PAD, as good as D"]  # the notebook says one of D's three


# --- the committed tables --------------------------------------------------------------------------------------------


def test_the_table_holds_every_variant_and_seed():
    table = published.table("flawed")
    expected = recipe_rows(flawed.FlawedRecipe, flawed.VARIANTS)
    assert [row["seed"] for row in expected] == [0, 1, 2] * len(flawed.VARIANTS)
    fields = [name for name in expected[0] if name not in ("steps", "evaluate_every")]  # these rows: 156 steps an epoch
    assert table[fields].to_dict("records") == [{name: row[name] for name in fields} for row in expected]


def test_a_perfect_decoder_without_bos_is_right_on_sums_below_1000():
    table = published.table("flawed").set_index(["variant", "seed"])
    pairs = split_pairs("test")
    below = (pairs.sum(1) < 1000).mean()
    assert (table["free-running from 0"] <= below + 1e-9).all()
    assert np.allclose(table["free-running from the true one"], table["teacher-forced answers"])


# --- publishing ------------------------------------------------------------------------------------------------------


def test_the_homework_trains_whole_epochs_of_157_batches():
    recipe = FlawedRecipe(**flawed.HOMEWORK)
    assert recipe.steps == 50 * 157 and recipe.evaluate_every == 157
    batches = flawed.make_flawed_batches(recipe)
    assert [len(batches(step)[0]) for step in (155, 156, 157)] == [64, 16, 64]
    assert {len(flawed.make_flawed_batches(FlawedRecipe())(step)[0]) for step in (155, 156)} == {64}


def test_a_quick_look_is_not_published(monkeypatch):
    before = {file: file.read_bytes() for file in published.FOLDER.glob("*.csv")}
    monkeypatch.setattr(flawed, "QUICK", True)
    monkeypatch.setattr(flawed, "run_grid", None)  # it is told before anything runs
    monkeypatch.setattr(sys, "argv", ["flawed", "--publish"])
    with pytest.raises(SystemExit, match=r"^python -m problem1.flawed: a quick look is not published; .*QUICK\.$"):
        flawed.main()
    assert before == {file: file.read_bytes() for file in published.FOLDER.glob("*.csv")}


@pytest.mark.parametrize(("codes", "seeds", "sentence"), [("aab", [0, 1, 2], "code"), ("aaa", [0, 1, 1], "seeds")])
def test_rows_that_do_not_belong_together_are_not_published(codes, seeds, sentence, monkeypatch, tmp_path):
    shutil.copytree(published.FOLDER, tmp_path / "published")
    monkeypatch.setattr(published, "FOLDER", tmp_path / "published")
    before = {file: file.read_bytes() for file in (tmp_path / "published").glob("*.csv")}
    rows = pd.DataFrame({"variant": "no BOS", "seed": seeds, "code": list(codes), "heads": [[{"head": "x"}]] * 3})
    monkeypatch.setattr(flawed, "run_grid", lambda *_: rows)
    monkeypatch.setattr("sys.argv", ["flawed", "--publish"])
    with pytest.raises(SystemExit, match=sentence):
        flawed.main()
    assert before == {file: file.read_bytes() for file in (tmp_path / "published").glob("*.csv")}
