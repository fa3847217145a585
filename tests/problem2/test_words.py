"""The notebook's sentences say what the tables say."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

from problem2 import comparisons, published, words
from problem2.analysis import evaluated, over_seeds
from problem2.certificate import Certificate
from problem2.studies import SEEDS


@pytest.fixture(scope="module")
def beyond():
    return comparisons.long_sets()


def test_encodings_are_told_by_their_mask():
    assert words.by_mask(["causal", "shaw", "fire"]) == "with a causal mask NoPE and FIRE; without one Shaw (clipped)"
    assert words.by_mask(["causal"]) == "with a causal mask NoPE"
    assert words.by_mask(["shaw", "rope"]) == "Shaw (clipped) and RoPE"


# --- the table at the top --------------------------------------------------------------------------------------------


def test_answers_are_those_of_the_tables_and_each_has_a_number(beyond):
    asked = {question.split(":")[0].split(",")[0]: answer for question, answer, _, _ in words.answer_rows()}
    constant = beyond.query("name == 'sinusoidal'")["constant prediction"]
    assert f"**{constant.sum()} of {len(constant)}** tests" in asked["Train on lengths 8 to 16"]
    interpolated = [
        evaluated(study, "interpolate", set="exact", length=[32, 64, 128, 256], name=["sinusoidal", "learned"])
        for study in ("plain", "augmented")
    ]
    lowest = min(rows["accuracy"].min() for rows in interpolated)
    assert f"at least **{lowest:.1%}** at every length" in asked["Can the same weights be repaired?"]
    lowest = beyond.groupby(["name", "study"])["accuracy"].min().unstack().min(axis=1)
    assert f"**{(lowest >= 0.998).sum()}**" in asked["Which encodings extrapolate?"]
    certified = asked["Can a classifier be right at every length?"]
    assert all(
        caveat in certified
        for caveat in ("window 1", "min pooling", "items of its own", "counterexamples", "nothing of")
    )
    assert all(re.search(r"\d|three", answer) for answer in asked.values())


def test_answers_warn_in_a_quick_look(monkeypatch):
    assert not words.answers().data.startswith("#")
    monkeypatch.setattr(words, "banner", lambda: "QUICK LOOK")
    assert words.answers().data.startswith("# QUICK LOOK\n\n|")


# --- the assigned encodings ------------------------------------------------------------------------------------------


def scored(name, study, seed, length, accuracy, **more):
    row = {"name": name, "study": study, "seed": seed, "length": length, "accuracy": accuracy, "AUROC": 0.9}
    return {**row, "balanced accuracy": accuracy, "constant prediction": False, "corruption": "swaps", **more}


def test_a_constant_answer_is_called_one_only_if_every_seed_gives_it():
    rows = pd.DataFrame(
        [
            scored("sinusoidal", "plain", seed, 32, 0.5, **{"constant prediction": constant})
            for seed, constant in ((0, True), (1, True))
        ]
        + [scored("learned", "plain", seed, 32, 0.8) for seed in (0, 1)]
    )
    table = over_seeds(rows, ["name", "length"])
    assert words.at_32(table) == "At 32, sinusoidal positions get 0.50, a constant answer; learned ones 0.80"
    rows.loc[0, "constant prediction"] = False
    assert "constant" not in words.at_32(over_seeds(rows, ["name", "length"]))


def test_plain_and_augmented_are_told_apart(beyond):
    text = words.assigned(beyond).data
    means = beyond.query("name == 'learned' and length == 32").groupby("study")["accuracy"].mean()
    assert f"plain {means['plain']:.2f}" in text and f"augmented {means['augmented']:.2f}" in text
    order = beyond.query("study == 'augmented' and length == 32").groupby("name")["AUROC"].mean()
    assert f"{order['sinusoidal']:.2f} for sinusoidal and {order['learned']:.2f} for learned" in text
    rows = pd.DataFrame(
        [
            {"name": name, "study": study, "test accuracy": accuracy}
            for name in ("sinusoidal", "learned", "rope")
            for study, accuracy in (("plain", 0.5 if name == "rope" else 0.9), ("augmented", 0.9981))
        ]
    )
    assert "get 90.0% of" in words.in_range(rows).data and "at least 99.81%" in words.in_range(rows).data


def test_what_another_processor_may_change_begins_with_a_dot():
    models = {name: (published.published_classifier(name), {}) for name in ("sinusoidal", "learned", "none", "causal")}
    lines = words.live_lines(models).splitlines()
    assert [line.startswith("· ") for line in lines] == [False, True, True, False]
    assert lines[0].endswith("constant, constant, constant, constant") and "1.000" in lines[3]


def test_the_moves_of_rows_are_measured_in_their_norm():
    before = torch.randn(30, 64)
    after = torch.cat([before[:10] * 1.5, before[10:] * 0.9])
    assert "its 10 rows by 0.50 of their norm, the others by 0.10" in words.moved_rows(before, after, 10)
    assert "kept their direction (cosine 1.000)" in words.noise(before, after, 10).data
    after[20] = -after[20]
    assert "(cosine -1.000)" in words.noise(before, after, 10).data


# --- why, and what repairs it ----------------------------------------------------------------------------------------


def taken_apart(unseen, shared, values):
    """Balanced accuracy over seeds as `over_seeds` gives it, with these costs."""
    means = dict.fromkeys(comparisons.INTERPOLATION, 0.5)
    means |= {"interpolated": 1.0, "positions unseen": 1 - unseen, "positions shared": 1 - shared}
    means |= {"other values there": 1 - values}
    return pd.DataFrame(
        [
            {"name": name, "length": length, "mean": mean, "seeds": 10}
            for name, mean in means.items()
            for length in (64, 256)
        ]
    )


def test_why_is_told_with_what_each_change_costs_and_where_it_was_not_found():
    tables = {"sinusoidal": taken_apart(0.5, 0.06, 0.3), "learned": taken_apart(0.4, 0.08, 0.26)}
    assert words.unseen_and_values(tables) == (
        "At 64, unseen positions alone cost 0.40 to 0.50 of balanced accuracy, other values alone 0.26 to 0.30"
    )
    text = words.why(tables, taken_apart(0.01, 0, 0).assign(seeds=3)).data
    assert "unseen positions cost **0.40 to 0.50**" in text and "other values **0.26 to 0.30**" in text
    assert "shared positions 0.06 to 0.08" in text and "10 seeds" in text
    assert "neighbours only (3 seeds), unseen positions cost 0.01 at 64 and 256" in text


def test_the_theory_is_that_of_the_classifiers():
    facts = comparisons.position_facts("sinusoidal")
    text = words.theory(facts).data
    assert f"{facts['share of W in the invariant subspace'].mean():.3f} of the squared norm" in text
    assert f"{words.chance_share():.3f} would by chance" in text and f"over {SEEDS['encodings']} seeds" in text
    assert words.chance_share() == pytest.approx(1 / 64, abs=5e-4)


def test_the_textbook_is_answered_with_both_recipes():
    found = {study: comparisons.ahead_of("sinusoidal", study).loc["learned", "difference"] for study in words.COMPARED}
    text = words.textbook().data
    assert all(f"{value:+.2f} [" in text and f"({study})" in text for study, value in found.items())
    assert "0.998" in f"{words.repaired_accuracy():.3f}" and "**99.8%**" in words.repaired().data


# --- which extrapolate -----------------------------------------------------------------------------------------------


def toy():
    """NoPE holds under both recipes, Shaw under the plain one, RoPE in one seed, T5 in none."""
    lowest = {"causal": (1, 1, 1, 1), "shaw": (1, 1, 0.6, 1), "rope": (1, 0.5, 0.5, 0.5), "t5": (0.5,) * 4}
    cases = [(study, seed) for study in words.COMPARED for seed in (0, 1)]
    return pd.DataFrame(
        [
            scored(name, study, seed, length, accuracy if length == 256 else 1.0)
            for name, scores in lowest.items()
            for (study, seed), accuracy in zip(cases, scores, strict=True)
            for length in (32, 256)
        ]
    )


def test_an_encoding_extrapolates_if_it_does_in_every_seed_at_every_length():
    far = pd.DataFrame([scored("causal", "plain", 0, 1_024, 0.994)])
    assert words.how_many(toy()) == (
        "1 of 4 encodings get at least 99.8% at every length, in every seed of both recipes"
    )
    text = words.extrapolate(toy(), far).data
    assert (
        "*Under both recipes*: with a causal mask NoPE. On new sets of length 1,024 the lowest accuracy of any" in text
    )
    assert "seed is 0.994" in text
    assert "*Under one only*: plain: Shaw (clipped); augmented: none. *In some seeds*: RoPE." in text
    assert "*In no seed*: T5 buckets, and none" in text


def test_the_claims_of_the_published_study(beyond):
    assert words.in_both(beyond) == ["causal", "randomized", "fire", "kerple", "cope"]


# --- the hard test ---------------------------------------------------------------------------------------------------


def test_what_is_caught_follows_from_balanced_accuracy_and_the_share_answered_sorted():
    truth = np.array([True] * 60 + [False] * 40)
    said = np.array([True] * 50 + [False] * 10 + [True] * 30 + [False] * 10)
    rows = pd.DataFrame(
        {
            "share sorted": [truth.mean()],
            "balanced accuracy": [(said[truth].mean() + (~said[~truth]).mean()) / 2],
            "share answered sorted": [said.mean()],
        }
    )
    assert words.caught(rows).item() == pytest.approx(10 / 40)


def test_the_hard_test_is_told_with_its_metric():
    rows = comparisons.new_sets().query("corruption == 'adjacent'")
    text = words.overlooked(rows).data
    mine = rows[rows["name"].isin(words.in_both(comparisons.long_sets())) & (rows["length"] == 256)]
    assert "balanced accuracy of **0.50**" in text and mine["balanced accuracy"].mean() == pytest.approx(0.5, abs=0.005)
    assert (
        words.caught(mine).groupby([mine["study"], mine["name"]]).mean().max() < 0.004 and "find 0.0% to 0.3%" in text
    )
    best = rows.query("study == 'augmented' and length == 256").groupby("name")["balanced accuracy"].mean().max()
    assert f"{best:.3f}" in words.best_at_256(rows.query("study == 'augmented'"))


def test_full_attention_is_told_by_who_reaches_the_end_in_every_seed(monkeypatch):
    def row(encoding, softmax, seed, score):
        both = {"name": encoding + softmax, "encoding": encoding, "softmax": softmax}
        return both | scored("", "hard", seed, 1_024, score) | both

    monkeypatch.setattr(words, "SEEDS", {"encodings": 3, "studies": 2})
    rows = [row("shaw", "scalable softmax", seed, 1.0 - 0.25 * (seed == 2)) for seed in range(3)]
    rows += [row("shaw", "softmax", seed, 0.5) for seed in range(2)]
    text = words.full_attention(pd.DataFrame(rows)).data
    assert "at 1,024 no encoding reaches 99.5%" in text
    assert "Nearest comes Shaw (clipped), scalable softmax: 2 of 3 seeds, mean 0.92, lowest 0.75" in text
    rows[2] |= {"balanced accuracy": 1.0}
    assert "Shaw (clipped), scalable softmax reaches 99.5%" in words.full_attention(pd.DataFrame(rows)).data


# --- the certificate and failures ------------------------------------------------------------------------------------


def test_the_certificate_is_told_only_if_it_holds():
    found = {"hardest": [3, 95, 94], "bound": 1e-6, "float_difference": 1e-5, "table_difference": 1e-9, "rejected": 0}
    good = Certificate(3.6, -4.1, **found, counterexamples=[], cpu_seconds=1)
    assert "**Certified: right on every sequence over 0..99 of every length from 2 on.**" in words.proved(good).data
    assert "at most -4.10 (for example 3 95 94)" in words.proved(good).data
    bad = Certificate(3.6, 0.5, **found, counterexamples=[[3, 95, 94]], cpu_seconds=1)
    assert "**Not certified.**" in words.proved(bad).data and "every sequence over" not in words.proved(bad).data


def test_wrong_answers_are_told_by_their_logits():
    cases = {"a": pd.DataFrame({"logit": [-10.9, -2.0]}), "b": pd.DataFrame({"logit": [5.0]})}
    assert words.sure_of_it(cases) == "Wrong, and sure of it: logits from 2.0 to 10.9 on the wrong side of zero"


def test_files_are_listed_by_the_names_that_the_assignment_gives_them():
    files = [words.RESULTS / "none" / "training_log.json", words.RESULTS / "extrapolation" / "extrapolation_curves.png"]
    assert words.written(files).data == (
        "Written to `problem2/results`: `extrapolation/extrapolation_curves.png` and `none/training_log.json`."
    )
