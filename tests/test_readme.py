"""The README's numbers are those of the committed tables."""

import re
from pathlib import Path

import nbformat
import pandas as pd
from course.reports import CLAIMS, adder_derivations, as_printed, length_derivations

from problem1 import published
from problem1.ablation import TOLERANCE
from problem1.dataset import carryless_digits, encode_pairs
from problem1.seeds import carry_questions, head_stability, published_tables, seed_summary
from problem1.shared.statistics import paired_comparisons, shared_by_all
from problem1.shared.words import listing, span
from problem1.train import unseen_pairs
from problem2.analysis import evaluated, over_seeds
from problem2.comparisons import hard_study, interpolation_taken_apart, losses, with_all_seeds
from problem2.dataset import LONG_LENGTHS
from problem2.encodings import ENCODINGS
from problem2.published import published_encodings
from problem2.words import by_mask

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_headline_results_are_those_of_the_tables():
    tables = published_tables()
    summary, seeds = seed_summary(tables), tables["seeds"].query("recipe == 'published'")
    assert (
        seeds["wrong"].sum() == 0 and "**0 of 810,000** sums wrong, in each of ten seeds" in README and len(seeds) == 10
    )
    single, joint = summary["singly prunable (zero)"], summary["jointly prunable (greedy)"]
    assert f"{span(single, '.0f')} of 24 heads can be removed one at a time" in README
    assert f"only {span(joint, '.0f')} jointly" in README
    assert f"accuracy {span(summary['accuracy without all of them (zero)'])}" in README
    heads = tables["heads"]
    own = heads[heads["head"].str.startswith("Decoder Self")]
    spared = tables["seeds"].query("`test accuracy` == 1").sort_values("wrong").iloc[-1]
    assert f"*{spared['recipe']}*, gets all 2,000 test pairs right and {spared['wrong']} of the 810,000 wrong" in README
    assert spared["wrong"] > 0
    recipes = tables["seeds"].groupby("recipe")
    assert README.count(f"about {round(seeds['cpu seconds'].mean(), -1):.0f} CPU seconds") == 2
    wrong = {name: listing(f"{count:,}" for count in sorted(rows["wrong"])) for name, rows in recipes}
    assert f"homework {wrong['homework']}; pre-norm and AdamW" in README
    assert f"at about a quarter of the cost, {wrong['pre-norm, AdamW']}. Symmetries" in README
    seconds, margin = recipes["cpu seconds"].mean(), recipes["smallest margin"].median()
    assert 0.2 < seconds["pre-norm, AdamW"] / seconds["homework"] < 0.3
    assert f"from {margin['pre-norm, AdamW']:.1f} to {margin['published']:.1f} logits in the median seed" in README
    flipping = summary["heads with a flip rate above .5"]
    assert f"{span(flipping, '.0f')} heads in each adder, more than half of the time" in README
    found = f"{summary['of them cross heads'].sum()} of the {flipping.sum()} heads found are in cross-attention, "
    in_self = (own["carries"] > 0.5).sum()
    in_encoder = flipping.sum() - summary["of them cross heads"].sum() - in_self
    assert f"{found}{in_encoder} in the encoder, {in_self} in self-attention." in README
    of_groups = tables["groups"].query("patched == 'all Decoder Self'").set_index("seed")[carry_questions(heads)]
    assert f"(in {(of_groups.max(axis=1) > 0.5).sum()} of ten seeds it does)" in README
    adder, log = published.published_adder()
    ours = heads[heads["seed"] == log["recipe"]["seed"]].set_index("head")
    assert (ours["carries"] > 0.5).sum() == 1 and "it is a single one" in README
    pairs = unseen_pairs("test")
    written = adder.generate(encode_pairs(pairs)[0], adder.gates(ours["carries"].idxmax())).numpy()
    forgets = (written == carryless_digits(pairs)).all(1).mean()
    assert f"without it {forgets:.0%} of the answers are the sum without its carries" in README
    kept = head_stability(heads).groupby("kind")["score"].mean()
    assert f"a score of {kept['Decoder Cross']:.2f} in cross-attention and {kept['Encoder']:.2f} in the enc" in README
    assert f"self heads score {kept['Decoder Self']:.2f}" in README
    first = heads.loc[heads.groupby("seed")["zero drop"].idxmax()]
    constant = (first["mean drop"] <= TOLERANCE).sum()
    assert f"in {constant} of {len(first)} seeds the head that zero ablation ranks first can be replaced" in README


def test_results_of_problem_2_are_those_of_the_tables():
    beyond = evaluated("plain", set="exact", length=LONG_LENGTHS)
    lowest = beyond.groupby("name", sort=False)["accuracy"].min()
    assert {*lowest.index} == {*published_encodings()}
    extrapolate = [name for name in published_encodings() if lowest[name] >= 0.998]
    assert len(lowest) == 16 and "Of sixteen, on the assignment's sets" in README
    assert f"at least 99.8 %: {by_mask(extrapolate)}." in README
    assert "trained on its items, in all ten seeds" in README and beyond["seed"].nunique() == 10
    augmented = evaluated("augmented", set="exact", length=LONG_LENGTHS)
    lowest_augmented = augmented.groupby("name")["accuracy"].min()
    both = [name for name in published_encodings() if lowest_augmented[name] >= 0.998]
    assert f"With augmented items, declared beforehand as well: {by_mask(both)}." in README
    sinusoidal = pd.concat([beyond, augmented]).query("name == 'sinusoidal'")["constant prediction"]
    assert f"a constant prediction in {sinusoidal.sum()} of {len(sinusoidal)} evaluations" in README
    learned = augmented.query("name == 'learned' and length == 32")["accuracy"].mean()
    assert f"a clamped learned table, trained with augmented items, still gets {learned:.0%} right" in README
    interpolated = evaluated(
        "augmented", policy="interpolate", set="exact", name=["sinusoidal", "learned"], length=LONG_LENGTHS
    )
    assert f"get at least {interpolated['accuracy'].min():.1%} when positions are interpolated" in README
    assert f"in at least {shared_by_all(10):.0%} of all seeds" in README
    far = evaluated("plain", set="new", corruption="swaps", length=1_024).groupby("name")["accuracy"].min()
    assert (far[lowest >= 0.998] >= 0.99).all() and "right on at least 99 % at 1,024, too" in README
    per_seed = pd.concat([beyond, augmented]).groupby(["study", "name", "seed"], as_index=False)
    per_seed = per_seed["balanced accuracy"].mean()
    pairs = paired_comparisons(per_seed.query("study == 'plain'"), "balanced accuracy").set_index(["first", "second"])
    ahead = pairs.loc[("learned", "sinusoidal")]
    said = f"{ahead['difference']:.2f} ({ahead['low']:.2f} to {ahead['high']:.2f}, q = {ahead['q']:.3f})"
    assert f"learned positions are ahead of sinusoidal ones by {said}" in README
    effect = paired_comparisons(per_seed, "balanced accuracy", "study", "plain", within="name").set_index("name")
    assert (effect.loc[["clipped", "shaw"], "high"] < 0).all() and (effect["q"] > 0.05).all()  # likely, not shown
    hard = evaluated("plain", set="new", corruption="adjacent", length=256)
    hard = hard[hard["name"].isin(extrapolate)]
    assert f"their balanced accuracy at 256 is {hard['balanced accuracy'].mean():.0%}" in README


def test_what_interpolation_undoes_is_that_of_the_table():
    tables = [
        over_seeds(interpolation_taken_apart("augmented", name), ["name", "length"], "balanced accuracy")
        for name in ("sinusoidal", "learned")
    ]
    assert all(set(table["seeds"]) == {10} for table in tables)
    costs = pd.DataFrame([losses(table, 64) for table in tables])
    assert f"these cost {span(costs['positions unseen'])} and {span(costs['other values there'])} of" in README
    assert f"that many tokens share a position costs {span(costs['positions shared'])}." in README


def test_what_full_attention_reaches_is_that_of_the_table():
    rows = with_all_seeds(hard_study(), 10).query("length == 1024").groupby("name")["balanced accuracy"]
    assert (rows.min() < 0.995).all() and "no encoding reaches 99.5 % on single adjacent swaps" in README
    best = rows.get_group(rows.mean().idxmax())
    assert rows.mean().idxmax() == "Shaw (clipped) with values, scalable softmax"
    reached = ("no", "one", "two", "three", "four")[(best >= 0.995).sum()]
    assert f"in {reached} of ten seeds, mean {best.mean():.2f}, lowest {best.min():.2f}" in README


def test_results_about_the_reports_are_derived():
    small, no_zero = (row.derived for row in adder_derivations()[:2].itertuples())
    assert f"baselines of {small} and {no_zero}?" in README
    flawed = published.table("flawed").set_index("variant")
    for variant, share in (("no BOS", small), ("no BOS, 0 is PAD", no_zero)):
        scores = flawed.loc[variant]
        assert all(as_printed(value, share) == share for value in scores["free-running from 0"]) and len(scores) == 3
    assert (flawed.loc["no BOS", "teacher-forced answers"] == 1).all() and "while teacher forcing says 100 %" in README
    lengths = length_derivations()
    of_a_and_d = lengths[lengths["report"].isin(["A", "D"])]
    assert (of_a_and_d["equal to"] != "neither").all()
    a, d = (of_a_and_d[of_a_and_d["report"] == name]["reported"].tolist() for name in "AD")
    assert a == d and f"All {len(a)} of report A, which D repeats, are class shares" in README


def test_verdicts_are_those_of_the_notebook():
    cells = nbformat.read(ROOT / "notebooks" / "reports.ipynb", as_version=4).cells
    text = next(cell.outputs[0].data["text/markdown"] for cell in cells if "every claim has a verdict" in cell.source)
    verdicts = re.findall(r"\*\*(.*?):\*\*", text)
    assert len(verdicts) == len(CLAIMS) and f"Which of their {len(CLAIMS)} claims hold?" in README
    assert verdicts.count("True") == 1 and "As it stands, one:" in README


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_the_example_for_python_runs():
    block = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "published_adder" in block)
    names = {}
    exec(block, names)
    assert names["adder"].add("663+497") == "1160"


def test_the_example_of_the_checklist_warns_three_times():
    block = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "warnings_about" in block)
    *lines, call = block.strip().split("\n")
    names = {}
    exec("\n".join(lines), names)
    assert len(eval(call, names)) == 3


def test_the_example_of_an_encoding_runs():
    block = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "Encoding" in block)
    names = {}
    try:
        exec(block, names)
        assert names["classifier"].says_sorted("3 5 5 9") in (True, False)
    finally:
        ENCODINGS.pop("near", None)
