"""The proof, again: what is published is what these commands make."""

import hashlib
from dataclasses import asdict

import numpy as np
import pytest
import torch

from problem1 import published
from problem1.dataset import ExactBatches, every_pair
from problem1.every_pair import BATCH, check_every_pair, check_pairs, stored_check
from problem1.published import published_adder, published_log
from problem1.shared.errors import UserError
from problem1.shared.storage import load_tensors, model_hash
from problem1.sweep import AFFORDABLE, CHOICE_SEEDS, FIRST_SEEDS, SEEDS, lowest_validation_loss
from problem1.train import AdderRecipe, train_adder
from problem2 import published as published2

DIGESTS = {  # of all tensors
    "adder": "be03a86441d45120",
    "certified": "13c046b83482969d",
    "classifiers/alibi": "9a47ba6c5c8b335b",
    "classifiers/causal": "bbb2dce21d66c185",
    "classifiers/clipped": "1d8b7b9a201e797c",
    "classifiers/learned": "c1154eeaad1c5ddc",
    "classifiers/none": "78ab73fd06d3abb2",
    "classifiers/randomized": "601d80751a15af26",
    "classifiers/rope": "e9f3d6c349986d36",
    "classifiers/shaw": "07f7bb0bf241498f",
    "classifiers/sinusoidal": "1c7e02ad55d786d9",
    "classifiers/t5": "9d40a1f0dcb029e0",
}


@pytest.fixture(scope="module")
def adder():
    return published_adder()[0]


def weights_hash(model):
    """How a model was named before its shape was part of the hash, when a table of biases was called bias; old rows
    name it so."""
    digest, parameters = hashlib.sha256(), [(n.replace("bias_table", "bias"), p) for n, p in model.named_parameters()]
    for name, parameter in sorted(parameters):
        digest.update(name.encode() + parameter.detach().to(torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name", DIGESTS)
def test_published_tensors_are_bit_equal(name):
    """Whatever their names and their header: the numbers have not changed."""
    folder = published.FOLDER if name == "adder" else published2.FOLDER
    tensors, _ = load_tensors(folder / f"{name}.safetensors")
    each = sorted(
        hashlib.sha256(str(tuple(t.shape)).encode() + t.numpy().tobytes()).hexdigest() for t in tensors.values()
    )
    assert hashlib.sha256("".join(each).encode()).hexdigest()[:16] == DIGESTS[name]


def test_the_published_adder_is_right_on_every_pair(adder):
    """All 810,000, computed here and now."""
    check, stored = check_pairs(adder, every_pair(3, BATCH), progress=False), check_every_pair(adder)
    assert len(check.wrong) == len(stored.wrong) == 0 and len(check.closest) == len(stored.closest) == 1_000
    assert check.margin == pytest.approx(stored.margin, abs=0.01) and check.margin > 1


def test_its_check_is_stored_under_its_hash(adder):
    assert stored_check(model_hash(adder)) == published.check_file(model_hash(adder))


def test_the_published_training_begins_as_its_log_says(tmp_path, monkeypatch):
    """Its first 400 of 4,000 steps, trained anew into an empty folder; the notebook trains another seed to the end."""
    pairs_of = ExactBatches.pairs_of

    def stop_in_time(batches, step):
        if step == 400:
            raise KeyboardInterrupt
        return pairs_of(batches, step)

    monkeypatch.setattr(ExactBatches, "pairs_of", stop_in_time)
    log = published_log()
    with pytest.raises(KeyboardInterrupt, match="the checkpoint of step 400 is kept"):
        train_adder(AdderRecipe(**log["recipe"]), tmp_path, progress=False)
    again = load_tensors(tmp_path / "checkpoint.safetensors")[1]["rows"]
    assert [row["step"] for row in again] == [400]
    for row, before in zip(again, log["rows"], strict=False):  # elsewhere the last digits differ
        assert row["training loss"] == pytest.approx(before["training loss"], rel=0.02)
        assert row["validation loss"] == pytest.approx(before["validation loss"], rel=0.02)


def test_every_seed_of_the_published_recipe_is_in_the_table_without_a_mistake():
    rows = published.table("seeds").query("recipe == 'published'")
    assert sorted(rows["seed"]) == list(SEEDS) and (rows["wrong"] == 0).all() and (rows["pairs"] == 810_000).all()


def test_the_published_adder_has_the_lowest_validation_loss_of_the_first_seeds(adder):
    rows = published.table("seeds")
    best = lowest_validation_loss(rows)
    assert best["model"] == model_hash(adder) and best["seed"] in FIRST_SEEDS
    others = rows[(rows["recipe"] == "published") & rows["seed"].isin(FIRST_SEEDS)]
    assert best["validation loss"] == others["validation loss"].min()
    log = published_log()
    assert min(row["validation loss"] for row in log["rows"]) == pytest.approx(best["validation loss"])
    assert log["recipe"] == asdict(AdderRecipe(seed=int(best["seed"]))), "the published recipe is the default one"


def test_the_published_recipe_was_chosen_by_validation_loss_among_those_that_are_affordable():
    candidates = published.table("candidates").assign(log_loss=lambda rows: np.log(rows["validation loss"]))
    means = candidates.groupby("candidate")[["log_loss", "cpu seconds"]].mean()
    affordable = means[means["cpu seconds"] <= AFFORDABLE]
    assert affordable["log_loss"].idxmin() == "published" and 1 < len(affordable) < len(means)
    assert set(candidates["seed"]) == set(CHOICE_SEEDS)


def test_each_step_bought_what_the_notebook_says():
    rows = published.table("seeds")
    middle = rows.groupby("recipe")[["wrong", "smallest margin"]].median()
    assert middle.loc["homework", "wrong"] > 100 * middle.loc["pre-norm, AdamW", "wrong"]  # the greatest step
    before = ["pre-norm, AdamW", "operands swapped", "columns swapped", "nines drawn again"]
    assert middle.loc[before, "smallest margin"].max() < middle.loc["published", "smallest margin"] / 2
    ours = rows[rows["recipe"] == "published"]
    assert ours["cpu seconds"].max() <= 120 and (ours["test pairs"] - ours["unseen test pairs"] == 158).all()
    assert (rows["smallest margin"] > 0).eq(rows["wrong"] == 0).all()
    rounding = rows[["float64 difference, random", "float64 difference, closest"]].max(axis=1)
    assert (rounding < 1e-2).all() and (ours["smallest margin"] > 1_000 * rounding[ours.index]).all()


def test_rows_of_a_study_come_from_one_code_and_name_their_model():
    tables = [published.table(name) for name in ("candidates", "seeds", "digits", "adders")]
    assert len({code for rows in tables for code in rows["code"]}) == 1
    assert all(rows["model"].str.fullmatch("[0-9a-f]{16}").all() for rows in tables)


def test_it_adds(adder):
    assert adder.add("663+497") == "1160" and adder.add("100+100") == "0200" and adder.add("999+999") == "1998"
    with pytest.raises(UserError, match="'66\\+497' is not a sum"):
        adder.add("66+497")


def test_a_table_that_is_not_published_gets_one_sentence():
    known = "there are candidates, seeds, digits, adders, heads,"
    with pytest.raises(UserError, match=f"no published table is called 'seed'; {known}"):
        published.table("seed")
    for name in published.STUDY + published.FLAWED:
        assert len(published.table(name)) > 0
