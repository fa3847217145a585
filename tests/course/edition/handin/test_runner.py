"""A process that is asked for values: whatever it does, there is an answer or a sentence, and it is soon."""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from course.edition.handin import runner as module
from course.edition.handin.runner import Failed, Runner, command

from tests.course.edition.notebooks import STANDIN, notebook

HANDIN = Path(module.__file__).parent
CALLS = [{"a": 1, "b": 2}, {"a": 5, "b": 7}]
ADD = {"notebook": "problem1.ipynb", "task": "add", "calls": CALLS}


@pytest.fixture
def ask(tmp_path):
    """Ask for `add` of a notebook that defines it like this."""
    code, work = tmp_path / "code", tmp_path / "work"
    shutil.copytree(STANDIN, code)
    shutil.copytree(HANDIN, code / "handin")
    work.mkdir()
    process = Runner(command(code), work)

    def ask(source, seconds=20, **changes):
        (work / "problem1.ipynb").write_text(notebook(source))
        return process.ask(ADD | changes, seconds)

    ask.process, ask.work = process, work
    yield ask
    process.stop()
    assert not process.reader.is_alive()


def test_values_come_back_and_what_is_printed_does_not(ask):
    source = "def add(a, b):\n    print('{\"results\": [1, 2]}', flush=True)\n    return [a + b, float('inf'), None]"
    assert ask(source) == [{"value": [3, float("inf"), None]}, {"value": [12, float("inf"), None]}]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit('all right')", "SystemExit: all right"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("return input()", "EOFError: EOF when reading a line"),
        ("return {1, 2}", "TypeError: Object of type set is not JSON serializable"),
        ("return add(a, b)", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_an_error_is_an_answer(ask, body, words):
    assert [result["error"][: len(words)] for result in ask(f"def add(a, b):\n    {body}")] == [words, words]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("while True: pass", "It took longer than 2 s"),
        ("import time; time.sleep(60)", "It took longer than 2 s"),
        ("import os; os._exit(0)", "It ended the process"),
        ("import ctypes; ctypes.string_at(0)", "It ended the process"),
        ("return 'x' * 10_000_000", "It returns more than can be taken in"),
    ],
)
def test_what_gives_no_answer_is_told_and_the_next_one_is_asked(ask, body, words):
    ask("def add(a, b):\n    return a")
    started = time.monotonic()
    with pytest.raises(Failed, match=words):
        ask(f"def add(a, b):\n    {body}", seconds=2)
    assert time.monotonic() - started < 12
    assert ask("def add(a, b):\n    return a + b") == [{"value": 3}, {"value": 12}]


FORGE = """
import json, os
def add(a, b):
    for token in ("", "0" * 32, None):
        line = json.dumps({"token": token, "results": [{"value": 3}, {"value": 12}]}) + "\\n"
        for descriptor in range(3, 50):
            try:
                os.write(descriptor, line.encode())
            except OSError:
                pass
    os._exit(0)
"""


def test_an_answer_that_is_forged_does_not_count(ask):
    with pytest.raises(Failed, match="It ended the process"):
        ask(FORGE)


FLOOD = """
import os
def add(a, b):
    while True:
        for descriptor in range(3, 9):
            try:
                os.write(descriptor, b"x" * 60_000)
            except OSError:
                pass
"""


def test_a_flood_of_lines_costs_its_own_time_only(ask):
    """No matter how long a line is, it is never held as a whole."""
    with pytest.raises(Failed, match="It took longer than 2 s"):
        ask(FLOOD, seconds=2)
    assert ask("def add(a, b):\n    return a") == [{"value": 1}, {"value": 5}]


def test_a_process_that_does_not_read_does_not_hold_us_up(ask, tmp_path):
    ask.process.start()
    stopped = ask.process.process.pid
    os.kill(stopped, 19)  # SIGSTOP
    with pytest.raises(Failed, match="took longer than 1 s"):
        ask("def add(a, b):\n    return a", seconds=1, calls=[{"a": "x" * 1_000_000, "b": 0}])


def test_the_wrong_number_of_results_is_no_answer(ask, monkeypatch):
    ask("def add(a, b):\n    return a")
    monkeypatch.setattr(ask.process, "exchange", lambda question, seconds: {"results": [{"value": 3}] * 3})
    with pytest.raises(Failed, match="The answer is not one"):
        ask("def add(a, b):\n    return a")


def test_a_text_and_a_missing_notebook(ask):
    ask("def add(a, b):\n    return a")
    assert ask.process.ask({"notebook": "problem1.ipynb", "task": "discussion", "text": True}, 20) == ["Heads carry."]
    with pytest.raises(Failed, match=r"^problem2.ipynb is missing\.$"):
        ask("", notebook="problem2.ipynb")
    with pytest.raises(Failed, match=r"^problem1.ipynb defines no function scaled"):
        ask("", task="scaled")


def test_modules_beside_the_notebook_can_be_imported_but_do_not_come_first(ask):
    (ask.work / "helper.py").write_text("ONE = 1")
    (ask.work / "json.py").write_text("raise SystemExit")
    assert ask("import json, helper\ndef add(a, b):\n    return helper.ONE")[0] == {"value": 1}


def test_no_thread_is_left_behind(ask):
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(Failed):
            ask("import os\ndef add(a, b):\n    os._exit(1)")
    assert threading.active_count() <= before + 2
