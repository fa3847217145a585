"""The deliverable files stand under the names that the assignment gives them."""

import json

import pytest
from course.audit import audit

from problem1 import analysis
from problem1.ablation import ablate_heads, prunable_summary
from problem1.model import Adder
from problem1.published import published_adder
from problem1.shared.errors import UserError
from problem1.shared.storage import model_hash, save_model
from problem1.specialization import head_specialization
from problem1.train import AdderRecipe, train_adder, unseen_pairs


def test_the_deliverables_are_written_and_name_their_model(tmp_path, monkeypatch):
    adder, log = published_adder()
    test, validation = unseen_pairs("test")[:100], unseen_pairs("validation")[:100]
    ablation = ablate_heads(adder, test, validation)
    pruning = prunable_summary(adder, ablation, test, validation)
    monkeypatch.setattr(analysis, "example_pairs", lambda digits: test[:2])
    specialization = head_specialization(adder, test)
    files = analysis.write_deliverables(adder, log, ablation, specialization, pruning, tmp_path)
    assert {str(file.relative_to(tmp_path)) for file in files} == {
        "training_log.json",
        "head_analysis/ablation_results.json",
        "head_analysis/head_specialization.json",
        "head_analysis/head_importance.png",
        "attention_patterns/example_1.png",
        "attention_patterns/example_2.png",
    }
    assert all(file.stat().st_size > 0 for file in files)
    results = json.loads((tmp_path / "head_analysis" / "ablation_results.json").read_text())
    assert results["model"] == model_hash(adder) and len(results["heads"]) == 24
    assert results["decoding"] == "free-running" and results["items"] == 100
    assert all(
        row["zero accuracy"] + row["zero drop"] == pytest.approx(results["baseline"]) for row in results["heads"]
    )
    assert audit(tmp_path).findings == []


def test_an_adder_of_other_numbers_gets_one_sentence(tmp_path, monkeypatch):
    save_model(Adder(digits=2), tmp_path / "two.safetensors")
    monkeypatch.setattr("sys.argv", ["analysis", str(tmp_path / "two.safetensors")])
    with pytest.raises(SystemExit, match=r"two.safetensors adds 2-digit numbers; the assignment's have 3\.$"):
        analysis.main()


def test_other_weights_are_studied_on_pairs_that_they_were_not_trained_on(tmp_path, monkeypatch):
    recipe, used = AdderRecipe(steps=1, evaluate_every=1, batch_size=8, train_size=60), []
    train_adder(recipe, tmp_path, progress=False)

    def stop(split, recipe):
        used.append(recipe)
        raise UserError("enough")

    monkeypatch.setattr(analysis, "unseen_pairs", stop)
    monkeypatch.setattr("sys.argv", ["analysis", str(tmp_path / "model.safetensors")])
    with pytest.raises(SystemExit, match="enough"):
        analysis.main()
    assert used == [recipe]
