"""The README's numbers are those of the committed tables."""

import json
import re
from pathlib import Path

from course import words
from course.claims import CLAIMS
from course.reports import adder_derivations
from readers import count_words

from problem1 import published
from problem1.ablation import TOLERANCE
from problem1.dataset import pair_count
from problem1.seeds import published_tables, seed_summary
from problem1.shared.words import span
from problem2.analysis import evaluated
from problem2.dataset import LONG_LENGTHS
from problem2.encodings import ENCODINGS
from problem2.published import CERTIFICATE, certified_classifier, published_encodings

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def bullet(name):
    """A result of the README: what stands after its name in bold, on one line."""
    return re.search(rf"^- \*\*{name}\.\*\* (.*)$", README, re.M)[1]


def test_results_are_short():
    results = re.findall(r"^- \*\*[^*]+\*\* (.*)$", README, re.M)
    assert len(results) == 6 and all(count_words(result) <= 20 for result in results)
    assert count_words(README) <= 900


def test_the_adder_is_right_on_every_sum():
    ours = published.table("seeds").query("recipe == 'published'")
    assert ours["wrong"].sum() == 0 and len(ours) == 10
    assert bullet("It adds") == (
        f"0 of {pair_count():,} sums are wrong, free-running, in each of ten seeds of the published recipe."
    )
    assert f"about {round(ours['cpu seconds'].mean(), -1):.0f} CPU seconds" in README


def test_how_many_heads_can_go():
    summary = seed_summary(published_tables())
    single, joint = summary["singly prunable (zero)"], summary["jointly prunable (greedy)"]
    assert len(summary) == 10 and bullet("Heads can go") == (
        f"One at a time {span(single, '.0f')} of 24, jointly {span(joint, '.0f')} (ten seeds, accuracy drop at most "
        f"{TOLERANCE})."
    )


def test_programs_are_right_on_every_sum():
    programs = published.table("programs")
    right, computed = (NUMBERS[(count.sum()) - 1] for count in (programs["wrong, all"] == 0, ~programs["whole"]))
    heads = published.table("program_heads").merge(programs.loc[~programs["whole"], ["seed"]])
    assert set(heads["head"].str.rsplit(" ", n=2).str[0]) == {"Encoder", "Decoder Cross"}  # which are tables in these
    assert len(programs) == 10 and bullet("How it carries") == (
        f"With heads as small tables (in {computed} adders all but self-attention), {right} of ten adders get all "
        f"{pair_count():,} sums right."
    )


def test_which_encodings_extrapolate():
    beyond = evaluated("plain", set="exact", length=LONG_LENGTHS)
    lowest = beyond.groupby("name", sort=False)["accuracy"].min()
    assert {*lowest.index} == {*published_encodings()} and len(lowest) == 16 and beyond["seed"].nunique() == 10
    extrapolate = lowest.index[lowest >= 0.998]
    assert "sinusoidal" not in extrapolate and bullet("Length") == (
        f"{NUMBERS[len(extrapolate) - 1].capitalize()} of sixteen encodings keep 99.8 % accuracy to length 256 "
        "(assignment's items, ten seeds); sinusoidal does not."
    )


def test_one_classifier_is_certified():
    shape = certified_classifier().shape
    assert json.loads(CERTIFICATE.read_text())["certified"] and (shape["window"], shape["pooling"]) == (1, "min")
    assert bullet("Proof").endswith("certified; window 1, min pooling, trained on counterexamples.")


def test_what_is_said_of_the_reports():
    derived = adder_derivations().iloc[0]["derived"]
    assert f"{derived.replace('%', ' %').replace('  ', ' ')} is a share of the test set" in bullet("Reports")
    verdicts = [verdict for verdict, _ in words.verdicts().values()]
    assert verdicts.count("true") == 1 and len(verdicts) == len(CLAIMS)
    assert f"Of {len(CLAIMS)} claims in four reports, one holds as it stands" in bullet("Reports")


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
