"""Costs are compared in turns, by the median of CPU time without the round that warms up."""

import time
from types import SimpleNamespace

import pytest

from problem1.shared import timing
from problem1.shared.timing import interleaved


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on only when it is told to."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(timing, "time", SimpleNamespace(process_time=lambda: clock.now))
    return clock


@pytest.mark.parametrize(("rounds", "medians"), [(4, {"a": 2.0, "b": 20.0}), (2, {"a": 1.0, "b": 10.0})])
def test_tasks_take_turns_and_the_first_round_does_not_count(clock, rounds, medians):
    costs = {"a": iter([100.0, 1.0, 5.0, 2.0]), "b": iter([50.0, 10.0, 30.0, 20.0])}
    order = []

    def task(name):
        order.append(name)
        clock.now += next(costs[name])

    assert interleaved({"a": lambda: task("a"), "b": lambda: task("b")}, rounds) == medians
    assert order == ["a", "b"] * rounds


def test_a_single_round_is_all_there_is(clock):
    def task():
        clock.now += 7.0

    assert interleaved({"a": task}, rounds=1) == {"a": 7.0}


def test_waiting_costs_nothing_and_computing_does():
    def compute():
        end = time.process_time() + 0.03
        while time.process_time() < end:
            pass

    spent = interleaved({"waits": lambda: time.sleep(0.1), "computes": compute}, rounds=2)
    assert spent["waits"] < 0.03 <= spent["computes"]
