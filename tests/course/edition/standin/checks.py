"""Two small tasks and a text in place of the course's, so that tests of hand-ins and grades need no other module."""

from typing import NamedTuple

import given  # noqa: F401  it has to be there


class Task(NamedTuple):
    name: str
    problem: int
    points: int
    text: bool = False


TASKS = {task.name: task for task in (Task("add", 1, 5), Task("scaled", 2, 3), Task("discussion", 1, 4, True))}


def calls(task, seed=0):
    return [{"a": 1, "b": 2}, {"a": 5, "b": 7}] if task in ("add", "scaled") else []


def run(function, call):
    try:
        return {"value": function(**call)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def sentence(task, calls, results):
    for call, result in zip(calls, results, strict=True):
        right = call["a"] + call["b"] if task == "add" else call["a"] * call["b"]
        if result.get("value") != right:
            return f"{task}({call['a']}, {call['b']}) gives {result}."
    return ""
