"""Whoever waits sees a bar; a log gets lines, and only of what takes long."""

import io
import re
import sys
import time

import pytest

from problem1.shared import progress
from problem1.shared.progress import progress_bar


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.fixture
def watch(monkeypatch):
    """Make standard error that of a log, a terminal or a notebook, and return it."""

    def place(name):
        monkeypatch.setattr(sys, "stderr", Stream(name == "terminal"))
        monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
        if name == "notebook":
            monkeypatch.setitem(sys.modules, "ipykernel", None)
        return sys.stderr

    return place


def test_short_work_leaves_no_trace_in_a_log(watch):
    stderr = watch("log")
    assert list(progress_bar(range(200), desc="work")) == list(range(200))
    assert stderr.getvalue() == "" and progress.QUIET == 60


def test_long_work_writes_a_line_from_time_to_time(watch, monkeypatch):
    stderr, started = watch("log"), time.monotonic()
    monkeypatch.setattr(progress, "QUIET", 0.2)
    for _ in progress_bar(range(60), desc="work", leave=True):
        time.sleep(0.01)
    spent, text = time.monotonic() - started, stderr.getvalue()
    assert "\r" not in text and text.endswith("\n")
    done = [int(re.fullmatch(r"work: +\d+%\|.*\| (\d+)/60 \[.*\]", line)[1]) for line in text.splitlines()]
    assert 2 <= len(done) <= spent / 0.2 + 0.5 and done == sorted(set(done))


@pytest.mark.parametrize("place", ["terminal", "notebook"])
def test_whoever_waits_sees_a_bar_at_once_which_stays_in_its_line(place, watch):
    stderr = watch(place)
    bar = progress_bar(total=2, desc="work")
    assert re.fullmatch(r"\rwork: +0%\|.*\| 0/2 \[.*\]", stderr.getvalue())
    bar.update(2)
    bar.close()
    assert re.search(r"\rwork: 100%\|.*\| 2/2 \[.*\]\n$", stderr.getvalue()) and stderr.getvalue().count("\n") == 1


@pytest.mark.parametrize("place", ["log", "terminal", "notebook"])
def test_a_bar_that_is_not_shown_is_not_there(place, watch, monkeypatch):
    stderr = watch(place)
    monkeypatch.setattr(progress, "QUIET", 0)
    assert list(progress_bar(range(5), show=False)) == list(range(5)) and stderr.getvalue() == ""
    list(progress_bar(range(5)))
    assert stderr.getvalue() != ""


def test_a_log_gets_no_line_sooner_however_often_a_bar_is_given_new_words(watch):
    stderr, bar = watch("log"), progress_bar(total=5)
    for step in range(5):
        bar.update()
        bar.set_postfix_str(f"loss {step}")
    bar.close()
    assert stderr.getvalue() == ""
