"""Tables, figures and files of problem 2."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from problem2 import analysis, bench, plots
from problem2.analysis import by_length, in_words, mistakes, over_seeds
from problem2.certificate import Tables
from problem2.encodings import ENCODINGS, make_encoding
from problem2.evaluation import fresh_group
from problem2.mathematics import news
from problem2.model import SHAPES, Judge
from problem2.train import JudgeRecipe, train_judge

TINY = {"layers": 1, "heads": 2, "width": 8, "hidden": 8}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def example_rows():
    return pd.DataFrame(
        {
            "name": ["a"] * 4 + ["b"] * 4,
            "seed": [0, 0, 1, 1] * 2,
            "length": [32, 64] * 4,
            "accuracy": [0.9, 1.0, 0.7, 1.0, 0.454, 0.514, 0.454, 0.6],
            "one class": [False] * 4 + [True, True, True, False],
        }
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def test_seeds_are_summed_up_by_mean_spread_and_constant_answers():
    table = over_seeds(example_rows(), ["name", "length"]).set_index(["name", "length"])
    assert table.loc[("a", 32), ["mean", "min", "max"]].tolist() == pytest.approx([0.8, 0.7, 0.9])
    assert table.loc[("a", 32), "std"] == pytest.approx(0.1 * 2**0.5)
    assert table["one class"].tolist() == [0, 0, 2, 1] and set(table["seeds"]) == {2}


def test_a_constant_answer_is_named_wherever_a_number_stands():
    table = by_length(example_rows())
    assert table.loc["a", 32] == "0.800 ± 0.141" and table.loc["a", 64] == "1.000 ± 0.000"
    assert table.loc["b", 32] == "0.454 ± 0.000 (one class)"
    assert table.loc["b", 64].endswith("(1 of 2 one class)")
    short = by_length(example_rows(), cell=analysis.in_short)
    assert short.loc["a"].tolist() == ["0.800", "1.000"] and short.loc["b"].tolist() == ["0.454¹", "0.557¹"]
    both = by_length(example_rows(), columns=["seed", "length"], form=".1f")
    assert both.columns.tolist() == [(0, 32), (0, 64), (1, 32), (1, 64)] and both.loc["b", (1, 64)] == "0.6"
    assert in_words({"mean": 0.5, "std": np.nan, "seeds": 1, "one class": 1}) == "0.500 (one class)"


def test_an_interval_stands_beside_the_mean_of_its_group():
    rows = example_rows().assign(seed=[0, 0, 1, 1] * 2)
    table = by_length(rows, cell=analysis.in_interval, summary=analysis.with_intervals, form=".2f")
    assert table.loc["a"].tolist() == ["0.80 [0.70, 0.90]", "1.00 [1.00, 1.00]"]
    assert table.loc["b", 32] == "0.45¹ [0.45, 0.45]"


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_longest_trained_length_brings_no_news(name):
    assert news(make_encoding(name, 16, 2).eval(), 16) == {"never told": 0, "other mix": 0}


@pytest.mark.parametrize("length", [17, 40])
def test_news_are_counted_as_by_hand(length):
    """By brute force: what attention is told of a pair (t, s) in a sequence of 16, against one of this length."""
    told = {
        "sinusoidal": lambda e, t, s: (t, s),
        "rope": lambda e, t, s: s - t,
        "alibi": lambda e, t, s: abs(s - t),
        "t5": lambda e, t, s: int(e.bucket(torch.tensor(s - t))),
        "clipped": lambda e, t, s: max(-e.clip, min(e.clip, s - t)),
        "shaw": lambda e, t, s: max(-e.clip, min(e.clip, s - t)),
        "learned": lambda e, t, s: (min(t, 15), min(s, 15)),
        "none": lambda e, t, s: None,
        "causal": lambda e, t, s: None,
    }
    for name, feature in told.items():
        encoding = make_encoding(name, 16, 2)
        before, now = (
            pd.Series([str(feature(encoding, t, s)) for t in range(n) for s in range(n)]).value_counts(normalize=True)
            for n in (16, length)
        )
        moved = now.sub(before, fill_value=0)
        assert news(encoding, length) == pytest.approx(
            {"never told": now.drop(before.index, errors="ignore").sum(), "other mix": moved.abs().sum() / 2}
        ), name


@pytest.mark.parametrize(
    ("name", "options", "never_told", "other_mix"),
    [
        ("sinusoidal", {"beyond": "rescale"}, False, False),
        ("learned", {"beyond": "untrained"}, True, True),
        ("learned", {"beyond": "clamp"}, False, True),  # one row for most tokens
        ("learned", {"beyond": "rescale"}, False, False),
        ("randomized", {}, False, False),
        ("rope", {"beyond": "rescale"}, False, False),
        ("t5", {"beyond": "untrained"}, True, True),
        ("t5", {"beyond": "clamp"}, False, True),
        ("t5", {"beyond": "rescale"}, False, False),
        ("clipped", {"clip": 8}, False, True),
    ],
)
def test_a_policy_hides_what_is_new_and_keeps_the_mix_or_does_not(name, options, never_told, other_mix):
    found = news(make_encoding(name, 16, 2, **options).eval(), 256)
    assert (found["never told"] > 0.5) == never_told and (found["never told"] > 0) == never_told
    assert (found["other mix"] > 0.5) == other_mix and (found["other mix"] > 0.2) == other_mix


def test_rows_of_judges_get_the_news_of_their_way_and_length():
    rows = analysis.evaluated("augmented", way=None, set="exact", name="learned", seed=0, length=[64])
    table = analysis.news_of(rows).set_index("way")
    for way in ("clamp", "untrained", "rescale"):
        expected = news(make_encoding("learned", 64, 4, beyond=way), 64)
        assert table.loc[way, list(expected)].tolist() == pytest.approx(list(expected.values()))


# --- single sequences ------------------------------------------------------------------------------------------------


def test_mistakes_are_mistakes():
    torch.manual_seed(0)
    model, group = Judge(**TINY).eval(), fresh_group("swaps", 24)
    rows = mistakes(model, group, 7)
    assert len(rows) == 7
    for row in rows.itertuples():
        assert model.says_sorted(row.sequence) == (row.logit > 0) != (row.sequence == sorted(row.sequence))


@pytest.mark.parametrize("encoding", ["none", "causal"])
def test_attention_that_looks_everywhere_alike_gets_1_at_every_difference(encoding):
    model = Judge(encoding, **TINY).eval()
    with torch.no_grad():
        model.blocks[0].attention.query.weight.zero_()
    table = analysis.attention_by_difference(model, [12, 30], sequences=20)
    assert np.allclose(table["attention"], 1, atol=1e-5) and set(table["length"]) == {12, 30}
    assert table["difference"].between(-100, 100).all() and len(set(table["difference"])) == 20


def test_the_table_before_training_is_that_of_the_same_seed(tmp_path):
    recipe = JudgeRecipe(encoding="learned", steps=2, evaluate_every=1, seed=3)
    model, _ = train_judge(recipe, tmp_path, progress=False)
    before, after = analysis.rows_before_and_after(recipe, model)
    moved = (after - before).norm(dim=1)
    assert (moved[:8] > 10 * moved[16:].max()).all() and moved[16:].max() < 1e-3  # weight decay only


# --- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 1])
def test_counted_operations_are_those_of_the_matrix_products(window):
    """Doubling the length adds what the formula says; the verdict head and what is counted once cancel."""
    model = Judge("none", **SHAPES["small"], window=window).eval()

    def counted(length):
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            model(torch.zeros(1, length, dtype=torch.int64), look=True)  # the fused kernel is not counted
        return counter.get_total_flops()

    expected = bench.operations(64, window, **SHAPES["small"]) - bench.operations(32, window, **SHAPES["small"])
    assert counted(64) - counted(32) == pytest.approx(expected, rel=0.01)


def test_growth_is_relative_to_the_shortest():
    table = pd.DataFrame(
        {"attention": ["x", "x"], "length": [16, 32], "ms per sequence": [2.0, 5.0], "operations": [10, 40]}
    )
    assert bench.growth(table).loc[("x", 32)].tolist() == [2.5, 4]


# --- files -----------------------------------------------------------------------------------------------------------


def test_the_deliverable_files_have_the_assignments_names(tmp_path):
    live = {}
    for name in analysis.LIVE:
        recipe = JudgeRecipe(encoding=name, steps=2, evaluate_every=1, batch_size=8)
        live[name] = train_judge(recipe, tmp_path / "runs" / name, progress=False)
    files = analysis.write_deliverables(live, tmp_path)
    names = {str(file.relative_to(tmp_path)) for file in files}
    for encoding in ("sinusoidal", "learned", "none"):
        assert {f"{encoding}/training_log.json", f"{encoding}/training_curves.png"} <= names
    for file in ("results.json", "curves.png"):
        assert f"extrapolation/extrapolation_{file}" in names
    assert {"extrapolation/encoding_comparison.png", "extrapolation/learned_position_embeddings.png"} <= names
    assert all(file.stat().st_size > 0 for file in files)
    results = json.loads((tmp_path / "extrapolation" / "extrapolation_results.json").read_text())
    assert set(results) == set(ENCODINGS)
    row = next(row for row in results["sinusoidal"] if row["length"] == 256 and row["seed"] == 0)
    assert row["accuracy"] == pytest.approx(1 - row["share sorted"]) and row["one class"] is True
    assert row["low"] < row["accuracy"] < row["high"] and row["AUROC"] > 0 and row["share answered sorted"] == 0


# --- figures ---------------------------------------------------------------------------------------------------------


def test_hollow_markers_stand_where_every_seed_answers_one_class():
    table = over_seeds(example_rows().replace({"a": "learned", "b": "none"}), ["name", "length"])
    axes = plots.curves(table, ["learned", "none"], {32: 0.454, 64: 0.514}).axes[0]
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [line.get_xdata().tolist() for line in hollow] == [[32]]


def test_descents_are_framed():
    cases = pd.DataFrame(
        {"sequence": [[1, 5, 3, 4, 2], [1, 2, 3, 4, 5]], "is sorted": [False, True], "logit": [1.0, -2]}
    )
    axes = plots.sequences(cases, "two").axes[0]
    assert [(round(p.get_x() + 0.46), round(p.get_y() + 0.44)) for p in axes.patches] == [(1, 0), (3, 0)]


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_attention_sees_depends_on_the_distance_for_relative_encodings(name):
    encoding = make_encoding(name, 16, 2).eval()
    seen = plots.seen_by_attention(encoding, 20)
    assert seen.shape == (20, 20) and np.isnan(seen[0, 1]) == (name == "causal")
    if name not in ("learned", "randomized", "sinusoidal", "causal"):
        assert np.allclose(seen[1:, 1:], seen[:-1, :-1], atol=1e-4)


def test_the_slices_of_the_verdicts_are_those_of_the_tables():
    values = np.arange(100)
    middle = values[:, None, None] + 100.0 * values[:, None] + 10_000 * values
    panels = plots.verdicts(Tables(np.zeros((100, 100)), middle, np.ones((100, 100)))).axes
    assert (panels[2].images[0].get_array() == middle[50]).all()
    assert (panels[3].images[0].get_array() == middle[:, :, 50]).all()


def test_a_band_shows_what_it_is_asked_to_show():
    rows = example_rows().replace({"a": "learned", "b": "none"})
    table = over_seeds(rows, ["name", "length"]).assign(low=0.2, high=0.3)
    for band, ends in ((("min", "max"), (0.7, 1.0)), (("low", "high"), (0.2, 0.3))):
        (learned,) = (a for a in plots.panels({"all": table}, band=band).axes if a.get_title() == "learned")
        heights = learned.collections[0].get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == pytest.approx(ends)


def test_comparisons_are_signed_by_row_and_faint_where_chance_explains_them():
    table = pd.DataFrame(
        {"first": ["none"], "second": ["rope"], "difference": [-0.25], "q": [0.01]},
    )
    for q, faint in ((0.01, False), (0.2, True)):
        axes = plots.differences({"plain": table.assign(q=q)}).axes[0]
        assert [text.get_text() for text in axes.texts] == ["-.25", "+.25"]  # none against rope, rope against none
        assert all((text.get_color() == "lightslategrey") == faint for text in axes.texts)
        assert (axes.collections[0].get_array() == 0).all() == faint
