"""The README's numbers are those of the committed tables."""

import re
from pathlib import Path

import nbformat
import pandas as pd

from problem1.seeds import head_stability, paired_comparisons, shared_by_all
from problem1.sweep import published_tables, seed_summary
from problem1.words import listing, span
from problem2.analysis import evaluated
from problem2.dataset import LONG_LENGTHS
from problem2.encodings import ENCODINGS
from problem2.reports import CLAIMS, adder_derivations, as_printed, length_derivations

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_headline_results_are_those_of_the_tables():
    tables = published_tables()
    summary, seeds = seed_summary(tables), tables["seeds"].query("recipe == 'published'")
    assert (
        seeds["wrong"].sum() == 0 and "**0 of 810,000** sums wrong, in each of ten seeds" in README and len(seeds) == 10
    )
    alone, together = summary["prunable alone (zero)"], summary["prunable together (greedy)"]
    assert f"{span(alone, '.0f')} of 24 heads can be removed one at a time" in README
    assert f"only {span(together, '.0f')} together" in README
    assert f"accuracy {span(summary['accuracy without all of them (zero)'])}" in README
    heads = tables["heads"]
    own = heads[heads["head"].str.startswith("Decoder Self")]
    shorter = tables["seeds"].query("recipe == '4,000 steps'")
    worst = shorter.loc[shorter["wrong"].idxmax()]
    assert (
        worst["test accuracy"] == 1
        and f"all 2,000 test pairs right and {worst['wrong']} of the 810,000 wrong" in README
    )
    assert abs(seeds["cpu seconds"].mean() - 200) < 10 and "about 200 CPU seconds" in README
    assert f"Digits follow {span(summary['heads that a digit follows'], '.0f')} heads" in README
    assert f"a self-attention head never (at most {own['carries'].max():.1%} of the digits)" in README
    crosses, carriers = summary["of them cross heads"].sum(), summary["heads that a digit follows"].sum()
    assert f"{crosses} of the {carriers} heads" in README
    kept = head_stability(heads).groupby("kind")["score"].mean()
    assert f"{kept['Decoder Self']:.2f} in self-attention, but only {kept['Decoder Cross']:.2f} in cross" in README
    assert f"and {kept['Encoder']:.2f} in the encoder" in README


def test_results_of_problem_2_are_those_of_the_tables():
    beyond = evaluated("plain", set="exact", length=LONG_LENGTHS)
    lowest = beyond.groupby("name", sort=False)["accuracy"].min()
    survivors = [ENCODINGS[name].label for name in ENCODINGS if lowest[name] >= 0.998]
    assert f"at least 99.8 %: {listing(survivors)}." in README
    assert "trained on its items, in all ten seeds" in README and beyond["seed"].nunique() == 10
    augmented = evaluated("augmented", set="exact", length=LONG_LENGTHS)
    lowest_augmented = augmented.groupby("name")["accuracy"].min()
    both = [ENCODINGS[name].label for name in ENCODINGS if lowest_augmented[name] >= 0.998]
    assert f"With augmented items, declared beforehand as well: {listing(both)} only." in README
    sinusoidal = pd.concat([beyond, augmented]).query("name == 'sinusoidal'")["one class"]
    assert f"one class only in {sinusoidal.sum()} of {len(sinusoidal)} examinations" in README
    learned = augmented.query("name == 'learned' and length == 32")["accuracy"].mean()
    assert f"a clamped learned table still gets {learned:.0%} right" in README
    rescaled = evaluated("augmented", way="rescale", set="exact", name=["sinusoidal", "learned"], length=LONG_LENGTHS)
    assert f"get at least {rescaled['accuracy'].min():.1%} when positions are rescaled" in README
    assert f"in at least {shared_by_all(10):.0%} of all seeds" in README
    far = evaluated("plain", set="fresh", kind="swaps", length=1_024).groupby("name")["accuracy"].min()
    assert (far[lowest >= 0.998] >= 0.99).all() and "right on at least 99 % at 1,024, too" in README
    per_seed = pd.concat([beyond, augmented]).groupby(["study", "name", "seed"], as_index=False)
    per_seed = per_seed["balanced accuracy"].mean()
    pairs = paired_comparisons(per_seed.query("study == 'plain'"), "balanced accuracy").set_index(["first", "second"])
    ahead = pairs.loc[("learned", "sinusoidal")]
    said = f"{ahead['difference']:.2f} ({ahead['low']:.2f} to {ahead['high']:.2f}, q = {ahead['q']:.3f})"
    assert f"learned positions are ahead of sinusoidal ones by {said}" in README
    effect = paired_comparisons(per_seed, "balanced accuracy", "study", "plain", within="name").set_index("name")
    assert (effect.loc[["clipped", "shaw"], "high"] < 0).all() and (effect["q"] > 0.05).all()  # likely, not shown
    hard = evaluated("plain", set="fresh", kind="adjacent", length=256)
    hard = hard[hard["name"].isin([name for name in ENCODINGS if lowest[name] >= 0.998])]
    assert f"they are right {hard['accuracy'].mean():.0%} of the time at 256" in README


def test_results_about_the_reports_are_derived():
    small, no_zero = (row.derived for row in adder_derivations()[:2].itertuples())
    assert f"baselines of {small} and {no_zero}?" in README
    flawed = pd.read_csv(ROOT / "problem1" / "published" / "flawed.csv").set_index("variant")
    for variant, share in (("no BOS", small), ("no BOS, 0 is PAD", no_zero)):
        scores = flawed.loc[variant]
        assert all(as_printed(value, share) == share for value in scores["free-running from 0"]) and len(scores) == 3
    assert (flawed.loc["no BOS", "teacher-forced answers"] == 1).all() and "while teacher forcing says 100 %" in README
    lengths = length_derivations()
    of_a_and_d = lengths[lengths["report"].isin(["A", "D"])]
    assert (of_a_and_d["equal to"] != "neither").all()
    assert f"All {len(of_a_and_d)} of reports A and D are class shares" in README


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
        assert names["judge"].says_sorted("3 5 5 9") in (True, False)
    finally:
        ENCODINGS.pop("near", None)


def test_files_of_the_layout_exist():
    named = re.findall(r"\b(\w+\.(?:py|ipynb))\b", README.split("## Layout")[1].split("##")[0])
    assert named and all(list(ROOT.glob(f"*/{name}")) for name in named)
