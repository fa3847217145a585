"""A map on all cores gives what a list comprehension would, takes its items late and leaves torch as it was."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
import torch

from problem1.shared import parallel
from problem1.shared.parallel import parallel_map


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(parallel, "cores", lambda: 2)


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_items_whichever_is_done_first():
    def square(number):
        time.sleep(0.01 * (number % 3 == 0))
        return number * number

    assert parallel_map(square, iter(range(20))) == [number * number for number in range(20)]
    assert parallel_map(square, []) == []


def test_as_many_calls_run_side_by_side_as_there_are_cores():
    meeting = threading.Barrier(2, timeout=10)
    assert sorted(parallel_map(lambda _: meeting.wait(), range(4))) == [0, 0, 1, 1]
    places = threading.Semaphore(2)

    def sit(_):
        found = places.acquire(blocking=False)
        time.sleep(0.01)
        places.release()
        return found

    assert all(parallel_map(sit, range(8)))


def test_items_are_taken_when_a_core_is_about_to_need_them():
    """Two for each core; the rest of a generator of many batches is not made before a result is there."""
    taken, before_the_first_result, done = [], [], threading.Event()

    def batches():
        for number in range(50):
            taken.append(number)
            yield number

    def finish():
        before_the_first_result.extend(taken)
        done.set()

    threading.Timer(0.3, finish).start()
    assert parallel_map(lambda number: done.wait(10) and number, batches()) == list(range(50))
    assert 1 <= len(before_the_first_result) <= 4


def test_there_are_no_gradients_inside_and_there_are_afterwards():
    weight = torch.ones(2, requires_grad=True)
    assert not any(result.requires_grad for result in parallel_map(lambda factor: weight * factor, range(4)))
    assert (weight * 2).requires_grad


def fail_at(number):
    if number == 3:
        raise ValueError("three")
    return number


def items_that_fail():
    yield from range(3)
    raise ValueError("three")


def torch_threads():
    """Of this thread, and of one that is new."""
    with ThreadPoolExecutor(1) as new:
        return torch.get_num_threads(), new.submit(torch.get_num_threads).result()


def test_each_call_has_one_torch_thread_and_afterwards_there_are_as_many_as_before(three_threads):
    assert parallel_map(lambda _: torch.get_num_threads(), range(4)) == [1] * 4
    assert torch_threads() == (3, 3)


@pytest.mark.parametrize(("function", "items"), [(fail_at, range(50)), (abs, items_that_fail())], ids=["call", "items"])
def test_a_failure_is_passed_on_and_leaves_torch_as_it_was(function, items, three_threads):
    with pytest.raises(ValueError, match="three"):
        parallel_map(function, items)
    assert torch_threads() == (3, 3)


def test_after_a_failure_nothing_more_is_begun():
    begun = []

    def fail_first(number):
        begun.append(number)
        if number == 0:
            raise ValueError("zero")
        time.sleep(0.5)

    with pytest.raises(ValueError, match="zero"):
        parallel_map(fail_first, range(1_000))
    assert len(begun) <= 3


@pytest.mark.parametrize(("name", "is_shown"), [("pairs", True), (None, False)])
def test_a_bar_is_shown_if_it_has_a_name_counts_results_and_is_closed_whatever_happens(name, is_shown, monkeypatch):
    bar = Mock()
    monkeypatch.setattr(parallel, "progress_bar", bar)
    parallel_map(fail_at, range(3), progress=name, total=3)
    bar.assert_called_once_with(total=3, desc=name, show=is_shown, leave=False)
    assert bar().update.call_count == 3 and bar().close.call_count == 1
    with pytest.raises(ValueError, match="three"):
        parallel_map(fail_at, range(9))
    assert bar().close.call_count == 2
