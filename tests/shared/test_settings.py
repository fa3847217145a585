"""A quick look is short, says so, and keeps away from the results; and cores are those that we may use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import problem1.train
import problem2.train
from problem1.shared.settings import cores, results_folder


def said(code, **environment):
    """What this code prints in a process of its own, whose environment has no other QUICK."""
    others = {name: value for name, value in os.environ.items() if name != "QUICK"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**others, **environment}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("environment", "is_quick"),
    [({}, False), ({"QUICK": ""}, False), ({"QUICK": "0"}, False), ({"QUICK": "1"}, True), ({"QUICK": "yes"}, True)],
)
def test_a_quick_look_is_what_the_environment_says_and_nobody_can_miss_it(environment, is_quick, tmp_path):
    code = "from problem1.shared.settings import *\n"
    code += f"print(quick('full', 'short'), results_folder({str(tmp_path / 'train.py')!r}), banner(), sep='\\n')"
    words, folder, banner = said(code, **environment)
    assert words == ("short" if is_quick else "full")
    assert Path(folder) == tmp_path / ("results-quick" if is_quick else "results")
    assert banner.startswith("QUICK LOOK: ") is is_quick and ("NOT the results" in banner) is is_quick
    assert is_quick or banner == ""


def test_quick_looks_of_both_problems_are_short_and_write_to_folders_of_their_own():
    code = """
import problem1.train as adders, problem2.train as classifiers
print(adders.RESULTS, adders.AdderRecipe().steps, classifiers.RESULTS, classifiers.ClassifierRecipe().steps, sep="\\n")
"""
    results, steps, results2, steps2 = said(code, QUICK="1")
    for found, module in ((results, problem1.train), (results2, problem2.train)):
        assert Path(found) == Path(module.__file__).parent / "results-quick"
        assert results_folder(module.__file__) == module.RESULTS
    assert int(steps) < 1_000 and int(steps2) < 1_000


def test_a_process_that_may_use_one_core_counts_one():
    """Whatever the machine has."""
    allowed = os.sched_getaffinity(0)
    code = f"import os; os.sched_setaffinity(0, {{{min(allowed)}}}); from problem1.shared.settings import cores"
    assert said(f"{code}; print(cores())") == ["1"]
    assert 1 <= cores() <= len(allowed)
