"""The check of the notebooks can fail: a small notebook whose cells are spoiled one way each."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

CONFTEST = Path(__file__).parents[2] / "notebooks" / "conftest.py"

SHOW = "from IPython.display import HTML, Markdown\n"


def shown(mime_type, content, plain=None):
    """What a cell stores whose last line is a table, a text or a figure."""
    plain = plain or f"<IPython.core.display.{'HTML' if mime_type == 'text/html' else 'Markdown'} object>"
    return new_output("execute_result", execution_count=1, data={mime_type: content, "text/plain": plain})


CASES = [  # the cell, what is stored as its output, further options, is it accepted?
    ("print('accuracy 0.9871, 810,000 pairs')", "accuracy 0.9871, 810,000 pairs\n", {}, True),
    ("print('accuracy 0.9871')", "accuracy 0.9880\n", {}, True),
    ("print('accuracy 0.9871')", "accuracy 0.9900\n", {}, False),
    ("print('accuracy 0.9871')", "accuracy 0.9900\n", {"tags": ["live"]}, True),
    ("print('accuracy 98.7 %')", "accuracy 98.8 %\n", {}, True),
    ("print('accuracy 98.7 %')", "accuracy 99.0 %\n", {}, False),
    ("print('17 heads')", "18 heads\n", {}, False),
    ("print('17 heads')", "18 heads\n", {"tags": ["live"]}, False),
    ("print('0 of 810,000')", "1 of 810,000\n", {}, False),
    ("print('36 %')", "37 %\n", {}, False),
    ("print('accuracy 0.998')", "accuracy 0.9975\n", {}, True),
    ("print('accuracy 1')", "accuracy 0.999\n", {}, True),  # some tables leave out zeros at the end
    ("print('entropy 2.800')", "entropy 2.802\n", {}, True),
    ("print('logit -15.270')", "logit -15.273\n", {}, False),  # no larger for larger numbers
    ("print('drop 0.0500')", "drop 0.0520\n", {}, True),
    ("print('drop 0.0500')", "drop 0.0521\n", {}, False),
    ("print('loss 1.8e-05')", "loss 1.9e-03\n", {}, False),
    ("print('loss 1.8e-05')", "loss 1.9e-03\n", {"tags": ["live"]}, True),
    ("print('loss 1.2e-06')", "loss 1.3e-06\n", {}, True),
    ("print('loss 1.2e-06')", "loss 1.8e-06\n", {}, False),
    ("print('loss 1.2e-06')", "loss 0.6e-06\n", {}, False),
    ("print('loss 1.2e-06')", "loss 2.0e-06\n", {}, False),
    ("print('loss 9.9e-07')", "loss 1.0e-06\n", {}, True),
    ("print('loss 1.2e-07')", "loss 0.0e+00\n", {}, False),
    ("print('share 2.6e-14')", "share 3.9e-14\n", {}, False),
    ("print('p = 0.031')", "p = 0.046\n", {}, False),
    ("print('p = 0.0020')", "p = 0.0022\n", {}, True),
    ("print('p = 0.0020')", "p = 0.0030\n", {}, False),
    ("print('p = 0.0020')", "p = -0.0020\n", {}, False),
    ("print('q = 0.003')", "q = 0.005\n", {}, False),
    ("print('q = 0.003')", "q = 0.004\n", {}, True),  # rounding alone can do this: 0.00349 and 0.00351
    ("print('drop 0.000')", "drop 0.001\n", {}, True),
    ("print('drop 0.000')", "drop 0.002\n", {}, False),
    ("print('drop 0.03')", "drop 0.031\n", {}, True),
    ("print('drop 0.00')", "drop 0.01\n", {}, False),
    ("print('wrong 0.7 %')", "wrong 0.8 %\n", {}, True),
    ("print('wrong 0.3 %')", "wrong 0.5 %\n", {}, False),
    ("print('seventeen heads')", "eighteen heads\n", {}, False),
    ("print('· loaded in 3 s')", "· trained in 216 s\n", {}, True),
    ("print('· loaded in 3 s')", "", {}, True),
    ("print('accuracy 0.9871')", "", {}, False),
    ("print('accuracy 0.9871')", "accuracy 0.9871\n", {"run": False}, False),
    ("%nosuchmagic", "", {}, False),
    ("%nosuchmagic", "UsageError: Line magic function `%nosuchmagic` not found.\n", {}, False),
    ("1 / 0", "", {}, False),
    ("from tqdm.auto import tqdm; print(tqdm(range(3)).mininterval)", "10.0\n", {}, True),  # bars move seldom here
    ("1 / 0", "", {"outputs": [new_output("error", ename="ZeroDivisionError", evalue="division by zero")]}, False),
    (f"{SHOW}HTML('<td>0.9871</td>')", "", {"outputs": [shown("text/html", "<td>0.9880</td>")]}, True),
    (f"{SHOW}HTML('<td>0.9871</td>')", "", {"outputs": [shown("text/html", "<td>0.9971</td>")]}, False),
    (f"{SHOW}HTML('<td>seed</td>')", "", {"outputs": [shown("text/html", "<td>word</td>")]}, False),
    (f"{SHOW}Markdown('**Table 1.** No')", "", {"outputs": [shown("text/markdown", "**Table 1.** No")]}, True),
    (f"{SHOW}Markdown('**Table 1.** No')", "", {"outputs": [shown("text/markdown", "**Table 1.** Yes")]}, False),
    (f"{SHOW}Markdown('drop 0.5')", "", {"outputs": [shown("text/markdown", "drop -0.5")]}, False),
    ("pass", "", {"outputs": [shown("image/png", "", "<Figure size 900x320 with 2 Axes>")]}, False),
]


def cell(source, printed, tags=(), run=True, outputs=None):
    outputs = outputs or ([new_output("stream", name="stdout", text=printed)] if printed else [])
    return new_code_cell(source, execution_count=1 if run else None, outputs=outputs, metadata={"tags": list(tags)})


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nbval")
    shutil.copy(CONFTEST, folder)
    cells = [cell(source, printed, **options) for source, printed, options, _ in CASES]
    nbformat.write(new_notebook(cells=cells), folder / "small.ipynb")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:xdist", "--nbval", "--nbval-current-env", "small.ipynb"]
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    return {int(number): verdict for number, verdict in re.findall(r"Cell (\d+) (PASSED|FAILED)", printed)}


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_the_check_accepts(verdicts, case):
    assert verdicts[case] == ("PASSED" if CASES[case][-1] else "FAILED"), CASES[case]
