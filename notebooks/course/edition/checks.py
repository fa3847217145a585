"""Checks that name the mistake: `check(attention)` says "right", or in one sentence what the answer looks like.

    TASKS       every task: its points, and what it teaches
    calls       the arguments with which your function is called
    run         calls it
    sentence    compares what it returned with the right numbers

There is no solution in here. The right numbers of these calls are in answers.json, beside this file. What a mistake
would give is, wherever possible, the right answer to *another* question (a mask transposed, positions from 1): those
are in answers.json, too.
"""

import contextlib
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

try:
    import given  # type: ignore[import-not-found]
except ImportError:  # in the project it is part of a package
    from course.edition import given

Call = dict[str, Any]
Result = dict[str, Any]
Answer = Callable[[str, Call], Result]  # (task, call) -> what a right function returns

BLANK = "is still blank"
MOST = 200_000  # numbers in what a function returns
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Task:
    name: str  # of the student's function, or of the text
    problem: int
    points: int
    minutes: int  # that it takes
    title: str
    learns: str
    text: bool = False  # written in words, read by the teacher


TASKS = {
    task.name: task
    for task in (
        Task(
            "tokens", 1, 4, 15, "Tokens", "What a model reads: digits, a sign, BOS to begin with, PAD that is no digit."
        ),
        Task("attention", 1, 5, 25, "Scaled dot-product attention", "How queries, keys and values become one output."),
        Task("multi_head", 1, 5, 30, "Several heads and a gate", "Where one head ends and the next begins."),
        Task("positions", 1, 3, 15, "Sinusoidal positions", "How a row of waves tells positions apart."),
        Task("greedy", 1, 4, 20, "Greedy decoding", "How a decoder writes with nothing but its own digits before it."),
        Task(
            "free_running_accuracy",
            1,
            4,
            20,
            "Free-running accuracy",
            "What an honest score of written answers counts.",
        ),
        Task("unseen", 1, 2, 10, "Splits that are apart", "When a test item counts as unseen."),
        Task("train", 1, 4, 25, "A training that learns", "What a training loop needs, and how a dead one looks."),
        Task("choose_checkpoint", 1, 2, 5, "The weights to keep", "Why the test set has no say in a choice."),
        Task("head_drops", 1, 4, 20, "Removing one head", "How much accuracy hangs on each single head."),
        Task("singly_prunable", 1, 2, 5, "Single pruning", "Which heads can go when all others stay."),
        Task("jointly_prunable", 1, 4, 20, "Joint pruning", "Why heads that can each go cannot all go."),
        Task(
            "flip_rate", 1, 4, 25, "One patching experiment", "How to show that a head carries by cause, not by looks."
        ),
        Task("discussion", 1, 13, 60, "Discussion", "To say what was shown, how surely, and what was not.", text=True),
        Task("add_positions", 2, 4, 25, "Three encodings", "What sinusoidal, learned and no positions add to a token."),
        Task("relative_bias", 2, 4, 20, "A relative encoding", "How attention can know distances and no positions."),
        Task("mean_pool", 2, 3, 10, "Pooling without padding", "Why padding must not count."),
        Task("score", 2, 4, 15, "Accuracy, and the share of each answer", "How to see a constant prediction."),
        Task("hard_negative", 2, 3, 15, "Hard negatives", "Which test a lazy classifier fails."),
        Task("extrapolation", 2, 4, 10, "Extrapolation", "How to test on lengths that training never showed."),
        Task("interpolated", 2, 3, 15, "Interpolation", "How to keep long sequences within trained positions."),
        Task("rejected_sorted", 2, 5, 30, "Certificate, part (a)", "How finitely many cases prove all lengths."),
        Task("explanation", 2, 10, 60, "Explanation", "Why an encoding extrapolates or does not.", text=True),
    )
}

# --- calls -----------------------------------------------------------------------------------------------------------

MAKERS: dict[str, Callable[[np.random.Generator], list[Call]]] = {}
VARIANTS: dict[str, Callable[[Call], dict[str, Call]]] = {}
RULES: dict[str, Callable[[list[Call], list[Any], list[Any], Answer], str]] = {}


def kept_in(registry: dict[str, Any], task: str) -> Callable[[Any], Any]:
    def keep(function: Any) -> Any:
        registry[task] = function
        return function

    return keep


def calls(task: str, seed: int = 0) -> list[Call]:
    """The arguments of each call of this task's function."""
    if TASKS[task].text:
        return []
    return MAKERS[task](np.random.default_rng([seed, [*TASKS].index(task)]))


def asked(task: str, some_calls: list[Call]) -> list[tuple[str, Call]]:
    """These calls and all other questions to which a mistake might be the answer."""
    variants = VARIANTS.get(task, lambda call: {})
    others = [(task, other) for call in some_calls for other in variants(call).values()]
    if task == "free_running_accuracy":
        others += [("greedy", writing(call)) for call in some_calls]
    return [*((task, call) for call in some_calls), *others]


def array(values: Any, dtype: str = "float32") -> dict[str, Any]:
    """A tensor as JSON; decimals are cut so that it is the same everywhere."""
    values = np.asarray(values)
    if dtype == "float32":
        values = values.astype(float).round(6)
    return {"$array": values.tolist(), "dtype": dtype}


def given_object(name: str, **options: Any) -> dict[str, Any]:
    return {"$given": name, **options}


def numbers(value: Any) -> np.ndarray:
    """The array in an argument."""
    return np.array(value["$array"])


def changed(call: Call, **arguments: Any) -> Call:
    """A call with other arguments; arrays stay arrays of their type."""
    new = dict(call)
    for name, value in arguments.items():
        is_array = isinstance(value, np.ndarray | list) and isinstance(call[name], dict) and "$array" in call[name]
        new[name] = array(value, call[name]["dtype"]) if is_array else value
    return new


def options_of(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: option for key, option in value.items() if key != "$given"}


def quirky(call: Call, argument: str, **options: Any) -> Call:
    """A call whose toy model does something wrong."""
    return changed(call, **{argument: {**call[argument], **options}})


# --- running ---------------------------------------------------------------------------------------------------------


def decode(value: Any) -> Any:
    if isinstance(value, dict):
        if "$array" in value:
            return torch.tensor(value["$array"], dtype=getattr(torch, value["dtype"]))
        if "$given" in value:
            return given.GIVEN[value["$given"]](**options_of(value))
        return {key: decode(part) for key, part in value.items()}
    return [decode(part) for part in value] if isinstance(value, list) else value


def encode(value: Any, left: list[int] | None = None, depth: int = 0) -> Any:
    """What a function returned as JSON; at most MOST numbers."""
    left = [MOST] if left is None else left
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        left[0] -= value.size
        if left[0] >= 0:
            return encode(value.tolist(), [MOST + 1], depth) if value.dtype != object else "$object"
    left[0] -= 1
    if left[0] < 0 or depth > 20:
        raise ValueError("the returned value is too large")
    if value is None or isinstance(value, bool | int | float):
        return value if not isinstance(value, int) or abs(value) < 2**63 else float(value)
    if isinstance(value, str):
        return value[:1_000]
    if isinstance(value, Mapping):
        return {str(key): encode(part, left, depth + 1) for key, part in itertools.islice(value.items(), MOST)}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple | range | Iterator) or type(value).__name__ in ("dict_keys", "dict_values"):
        return [encode(part, left, depth + 1) for part in itertools.islice(value, MOST + 1)]
    return {"$object": type(value).__name__}


def run(function: Callable[..., Any], call: Call) -> Result:
    """{"value": what it returns} or {"error": "ZeroDivisionError: ..."}"""
    try:
        torch.manual_seed(0)
        return {"value": encode(function(**decode(call)))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


# --- comparing -------------------------------------------------------------------------------------------------------


def as_array(value: Any) -> np.ndarray | None:
    """Numbers as an array, or None."""
    try:
        found = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return None
    return found


def needed(value: Any) -> np.ndarray:
    """Numbers as an array; a rule that needs them does not apply otherwise."""
    found = as_array(value)
    if found is None:
        raise ValueError("no table of numbers")
    return found


def same(value: Any, right: Any) -> bool:
    """Equal but for rounding, for the difference between 1, 1.0 and True, and for axes of length 1."""
    if isinstance(right, dict):
        return isinstance(value, dict) and all(key in value and same(value[key], right[key]) for key in right)
    if isinstance(right, str) or right is None:
        return bool(value == right)
    wanted, found = as_array(right), as_array(value)
    if wanted is not None and wanted.dtype == float and not contains_text(right):
        if found is None or contains_text(value):
            return False
        if found.shape != wanted.shape:
            found, wanted = found.squeeze(), wanted.squeeze()
        return found.shape == wanted.shape and bool(np.allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE))
    if not isinstance(value, list) or len(value) != len(right):
        return False
    return all(same(part, wanted) for part, wanted in zip(value, right, strict=True))


def contains_text(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(contains_text, value[:100]))
    return isinstance(value, str | dict) or value is None


def known_answers() -> Answer:
    """The right numbers in answers.json."""
    answers = json.loads(Path(__file__).with_name("answers.json").read_text())
    return lambda task, call: answers[key(task, call)]


def key(task: str, call: Call) -> str:
    return hashlib.sha256(json.dumps([task, call], sort_keys=True).encode()).hexdigest()[:20]


# --- the sentence ----------------------------------------------------------------------------------------------------


def sentence(task: str, calls: list[Call], results: list[Result], answer: Answer | None = None) -> str:
    """ "" if all is right, else which mistake it looks like and what to look at."""
    if TASKS[task].text:
        return ""
    answer = answer or known_answers()
    try:
        return judge(task, calls, results, answer)
    except Exception:  # whatever was returned, there is something to say
        return f"{task} returns something that cannot be read; compare its form with the example of the task."


def judge(task: str, calls: list[Call], results: list[Result], answer: Answer) -> str:
    if not isinstance(results, list) or len(results) != len(calls):
        return f"{task} was not called to the end; does it stop or never return?"
    for result in results:
        if not isinstance(result, dict) or ("error" not in result and "value" not in result):
            return f"{task} was not called to the end; does it stop or never return?"
    errors = [str(result["error"])[:300] for result in results if "error" in result]
    if any(error.startswith("NotImplementedError") for error in errors):
        return f"{task} {BLANK}: write its body, and delete the line that raises NotImplementedError."
    values = [result.get("value") for result in results]
    if all(value is None or value == {"$object": "ellipsis"} for value in values) and not errors:
        return f"{task} returns nothing: is there a `return` in front of its last line?"
    right = [answer(task, call)["value"] for call in calls]
    wrong = [
        i for i, result in enumerate(results) if "error" in result or not is_right(task, calls[i], values[i], right[i])
    ]
    wrong += [] if wrong or task not in TOGETHER else TOGETHER[task](calls, values)
    if not wrong:
        return ""
    if errors:
        said = (words for pattern, words in ERRORS.get(task, ()) if re.search(pattern, errors[0]))
        raises = f"it raises {' '.join(errors[0].split())}; call it in a cell with the example of the task"
        return ended(f"{task}: {next(said, raises)}")
    named = other_question(task, calls, values, wrong, answer)
    if not named and task in RULES:
        with contextlib.suppress(Exception):  # the rule needs numbers where there are none
            named = RULES[task](calls, values, right, answer)
    return ended(f"{task}: {named or general(values, right, wrong[0], len(calls))}")


def ended(text: str) -> str:
    """With a question mark if the last clause asks."""
    asks = r": (is|are|does|do|which|whose|by what|with what|in which|how|what) [^:]*$"
    text = text.strip().rstrip("?")
    return f"{text}{'?' if re.search(asks, text) else '.'}"


def is_right(task: str, call: Call, value: Any, right: Any) -> bool:
    return ACCEPTED[task](call, value, right) if task in ACCEPTED else same(value, right)


def other_question(task: str, calls: list[Call], values: list[Any], wrong: list[int], answer: Answer) -> str:
    """The mistake whose answers are these, in all calls where the answer is not right. A name in brackets is none."""
    variants = [VARIANTS[task](calls[i]) if task in VARIANTS else {} for i in wrong]
    for name in variants[0]:
        others = [each[name] for each in variants if name in each]
        told = [answer(task, other).get("value") for other in others]
        flat = as_array(told)
        if name.startswith("(") or len(told) < len(wrong) or (flat is not None and np.ptp(flat) == 0):
            continue  # what is the same everywhere tells nothing
        if all(is_right(task, other, values[i], value) for i, other, value in zip(wrong, others, told, strict=True)):
            return name
    return ""


def general(values: list[Any], right: list[Any], number: int, count: int) -> str:
    """Where the first difference is."""
    value, wanted = values[number], right[number]
    where = f"in call {number + 1} of {count}"
    found, expected = as_array(value), as_array(wanted)
    if value is None:
        return f"{where} it returns nothing; does every path through it end with a `return`?"
    if isinstance(wanted, dict) and isinstance(value, dict):
        missing = [name for name in wanted if name not in value]
        if missing:
            return f"{where} {missing[0]!r} is missing in what it returns"
        name = next((name for name in wanted if not same(value[name], wanted[name])), "")
        return f"{where} {name!r} is {short(value[name])}, and it should be {short(wanted[name])}"
    if isinstance(wanted, list) and isinstance(value, list) and expected is None and len(value) == len(wanted):
        part = next((i for i in range(len(wanted)) if not same(value[i], wanted[i])), 0)
        rest = general([value[part]], [wanted[part]], 0, 1).removeprefix("in call 1 of 1 ")
        return f"{where}, part {part + 1} of what it returns, {rest}"
    if expected is None or found is None:
        return f"{where} it returns {short(value)}, and something like {short(wanted)} is right"
    if found.shape != expected.shape:
        return (
            f"{where} it returns the shape {found.shape}, and {expected.shape} "
            "is right: look at what each axis stands for"
        )
    if not np.isfinite(found).all():
        return (
            f"{where} some numbers are {found[~np.isfinite(found)].flat[0]}; "
            "look for a division by zero or a row without keys"
        )
    place = tuple(int(i) for i in np.argwhere(~np.isclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE))[0])
    at = f" at index {', '.join(map(str, place))}" if place else ""
    return f"{where} the form is right, but{at} it has {found[place]:.4g} where {expected[place]:.4g} is right"


def short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


ERRORS = {  # task: what errors look like, and what to say
    "attention": [
        ("size|shape|dimension", "the shapes do not fit: which axis of k is summed over, and which one is left")
    ],
    "train": [("add up", "gradients add up: those of the batch before must be gone when a new one is computed")],
    "add_positions": [
        (
            "[iI]ndex|out of bounds|must match|broadcast",
            "the table is read beyond its last row: a sequence may be longer than those of the training",
        )
    ],
    "relative_bias": [
        (
            "[iI]ndex|out of bounds",
            "the table is read beyond its rows: distances beyond the clip count as the nearest one that has an entry",
        )
    ],
}
ACCEPTED: dict[str, Callable[[Call, Any, Any], bool]] = {}  # where more than one value is right
TOGETHER: dict[str, Callable[[list[Call], list[Any]], list[int]]] = {}  # what only all calls together show


def check(function: Callable[..., Any], task: str = "") -> None:
    """Print the sentence, or "right"."""
    task = task or getattr(function, "__name__", "")
    if task not in TASKS:
        print(f"There is no task called {task!r}; the tasks are {', '.join(TASKS)}.")
        return
    some_calls = calls(task)
    print(sentence(task, some_calls, [run(function, call) for call in some_calls]) or "right")


# --- problem 1: tokens -----------------------------------------------------------------------------------------------


@kept_in(MAKERS, "tokens")
def make_tokens(draw: np.random.Generator) -> list[Call]:
    mixed = [[663, 497], [5, 17], [100, 900], [80, 7]]
    random = [[int(draw.integers(1, 10**size)) for size in draw.integers(1, 4, 2)] for _ in range(6)]
    return [{"pairs": [[663, 497], [208, 305]]}, {"pairs": mixed}, {"pairs": random}]


@kept_in(RULES, "tokens")
def tokens_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    if not all(isinstance(value, list) and len(value) == 3 for value in values):
        return "it should return three things, source, decoder_input and target, in this order"
    parts = ("source", "decoder_input", "target")
    for part in ("target", "source", "decoder_input"):  # the decoder's input is made of the target
        i = parts.index(part)
        for value, wanted in zip(values, right, strict=True):
            if not same(value[i], wanted[i]):
                return token_mistake(part, value[i], wanted[i])
    return ""


def token_mistake(part: str, rows: list[list[int]], expected: list[list[int]]) -> str:
    row, wanted = next((row, wanted) for row, wanted in zip(rows, expected, strict=True) if not same(row, wanted))
    shown = f"{part} of {''.join(names(wanted))!r} is {short(row)}"
    begun = [entry[0] for entry in rows]
    if part == "decoder_input":
        if given.BOS not in np.ravel(np.array([entry[0] for entry in rows])):
            first = {given.PAD: "PAD", given.PLUS: "+"}.get(begun[0], f"the digit {begun[0]}")
            return (
                f"the decoder's input begins with {first} and not with BOS, so nobody ever asks it for the first digit"
            )
        if len(row) > len(wanted):
            return "the decoder reads its own last digit: its input is one token longer than what it writes"
        return f"{shown}; it is BOS, then what was written before each digit"
    if part == "source":
        if given.BOS in row:
            return "there is a BOS in the source; only the decoder's input begins with it"
        if len(row) != len(wanted):
            return f"{shown}: a source has {len(wanted)} tokens, short ones are filled up with PAD"
        if given.PAD in wanted and given.PAD not in row:
            filled = [a for a, b in zip(row, wanted, strict=True) if b == given.PAD]
            if set(filled) == {0} and same(row[: len(row) - len(filled)], wanted[: len(row) - len(filled)]):
                return "a source is filled up with 0, which is a digit: PAD needs an id that no digit has"
            if given.PLUS in row and row.index(given.PLUS) == 3:
                return (
                    "operands are filled up with leading zeros; write them as they are, and PAD behind the last digit"
                )
        if row[0] == given.PAD and sorted(row) == sorted(wanted):
            return "PAD stands in front; it belongs behind the last digit"
        if given.PAD in row and 0 in wanted and 0 not in row:
            return "a digit 0 has become PAD: they need different ids"
        if same(row[::-1], wanted) or same([*row[:3][::-1], row[3], *row[4:][::-1]], wanted):
            return "the source stands the wrong way round; the most significant digit comes first"
    if part == "target":
        if same(row[::-1], wanted):
            return "the answer stands the wrong way round; the most significant digit comes first"
        if len(row) < len(wanted):
            return f"{shown}: every answer has {len(wanted)} digits, so short ones begin with zeros"
        if given.PAD in row:
            return "there is a PAD in the answer; answers have leading zeros, which the model has to write"
        if given.BOS in row:
            return "there is a BOS in the target; it belongs to what the decoder reads, not to what it writes"
    return f"{shown}, and {short(wanted)} is right"


def names(row: list[int]) -> list[str]:
    return [{given.PLUS: "+", given.BOS: "BOS ", given.PAD: ""}.get(token, str(token)) for token in row]


# --- problem 1: attention --------------------------------------------------------------------------------------------


@kept_in(MAKERS, "attention")
def make_attention(draw: np.random.Generator) -> list[Call]:
    def call(batch: int, queries: int, keys: int, width: int, mask: np.ndarray) -> Call:
        q, k, v = (array(draw.normal(size=(batch, n, d))) for n, d in ((queries, width), (keys, width), (keys, 3)))
        return {"q": q, "k": k, "v": v, "mask": array(mask, "bool")}

    free = np.ones((4, 6), dtype=bool)
    some = draw.random((5, 5)) < 0.5
    some[np.arange(5), (np.arange(5) + 2) % 5] = True
    return [
        call(2, 4, 6, 8, free),
        call(2, 5, 5, 8, np.tril(np.ones((5, 5), dtype=bool))),
        call(3, 5, 5, 4, some),
        call(1, 1, 3, 16, np.ones((1, 3), dtype=bool)),
    ]


@kept_in(RULES, "attention")
def attention_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    if not all(isinstance(value, list) and len(value) == 2 for value in values):
        return "it should return two things, weights and outputs, in this order"
    if all(same(value[::-1], wanted) for value, wanted in zip(values, right, strict=True)):
        return "weights and outputs have changed places"
    pairs = [(needed(value[0]), needed(wanted[0])) for value, wanted in zip(values, right, strict=True)]
    if other := [wanted.shape for found, wanted in pairs if found.shape != wanted.shape]:
        return f"the weights must have the shape {other[0]}, one row for each query"
    if all(same(*pair) for pair in pairs):
        return (
            "the weights are right but the outputs are not: each output "
            "is the mean of the values, by its row of weights"
        )
    found, wanted = pairs[0]
    if not np.isfinite(found).all():
        return "some weights are not numbers: look at what the softmax makes of hidden keys"
    if np.allclose(found.sum(-1), 1, atol=1e-3):
        slope = log_slope(found, wanted)
        if slope is not None and abs(slope - 1) > 0.02:
            width = numbers(calls[0]["q"]).shape[-1]
            if abs(slope - math.sqrt(width)) < 0.05 * math.sqrt(width):
                return (
                    f"the scores are {slope:.2f} times too large, the root of "
                    f"the width {width}: is a square root missing?"
                )
            return f"the scores are {slope:.2f} times as large as they should be: by what are they divided?"
        if slope is None:
            return "the scores are not products of queries and keys: look at which axes are multiplied"
    elif np.allclose(found.sum(-2), 1, atol=1e-3):
        return "the weights of each key sum to 1, not those of each query: the softmax goes over the wrong axis"
    elif np.allclose(found.sum(0), 1, atol=1e-3) or np.allclose(found.sum((-2, -1)), 1, atol=1e-3):
        return "the weights of a query do not sum to 1: the softmax goes over the wrong axis"
    else:
        return "the weights of a query do not sum to 1: is there a softmax over the keys?"
    return mask_mistake(calls, pairs)


def log_slope(found: np.ndarray, wanted: np.ndarray) -> float | None:
    """By how much the scores behind these weights are larger; None if they are others."""
    x, y = (np.log(np.maximum(w, 1e-30)) for w in (wanted, found))
    x, y = ((z - z.mean(-1, keepdims=True)).ravel() for z in (x, y))
    slope = float(x @ y / max(x @ x, 1e-9))
    return slope if np.abs(y - slope * x).max() < 0.02 * max(1, np.abs(y).max()) else None


def mask_mistake(calls: list[Call], pairs: list[tuple[np.ndarray, np.ndarray]]) -> str:
    for call, (found, wanted) in zip(calls, pairs, strict=True):
        mask = numbers(call["mask"]).astype(bool)
        if mask.all() or same(found, wanted):
            continue
        if not np.isfinite(found).all():
            if np.isfinite(found[:, 1:]).all():
                return "the first query sees no key at all: the mask is shifted by one"
            return "some weights are not numbers: a query that sees no key has no softmax"
        used = (np.abs(found) > 1e-7).all(0)
        sums = found.sum(-1)
        if (used == mask).all() and not np.allclose(sums, 1, atol=1e-3):
            return "hidden keys weigh nothing but the rest does not sum to 1: the mask comes after the softmax"
        if used.all() and np.allclose(sums, 1, atol=1e-3):
            equal = np.abs(found - found.mean(-1, keepdims=True)).max() < 1e-6
            return "" if equal else "hidden keys get weight: the mask is not used, or it changes scores by too little"
        if (used == mask.T).all():
            return "the mask is transposed: its rows are queries, its columns keys"
        some = ~mask.all(1)  # queries of which something is hidden
        if (used[some] == ~mask[some]).all():
            return "the mask is the wrong way round: True means that a query may look there"
        for shift in (1, -1):
            moved = np.tril(np.ones_like(mask), shift)
            if mask.shape[0] == mask.shape[1] and (used[1:] == moved[1:]).all():
                seen = "the next token, which it has to write" if shift == 1 else "not even its own token"
                return f"the mask is shifted by one: a query sees {seen}"
        return "other keys are hidden than those that the mask hides: look at the places where the mask is False"
    return ""


# --- problem 1: several heads ----------------------------------------------------------------------------------------


@kept_in(MAKERS, "multi_head")
def make_multi_head(draw: np.random.Generator) -> list[Call]:
    batch, queries, keys, width, heads = 2, 4, 6, 8, 4
    x, memory = (array(draw.normal(size=(batch, n, width))) for n in (queries, keys))
    q, k, v, o = (array(draw.normal(size=(width, width)) / 2) for _ in range(4))
    weights = {"w_q": q, "w_k": k, "w_v": v, "w_o": o}
    free, half = np.ones((queries, keys), dtype=bool), np.tri(queries, keys, 2, dtype=bool)
    base = {
        "x": x,
        "memory": memory,
        **weights,
        "n_heads": heads,
        "gate": array(np.ones(heads)),
        "mask": array(free, "bool"),
    }
    return [
        base,
        changed(base, w_q=np.zeros((width, width))),
        changed(base, gate=np.array([1.0, 0, 1, 1])),
        changed(base, gate=draw.random(heads), mask=half),
        changed(base, n_heads=2, gate=np.array([0.0, 0])),
    ]


@kept_in(VARIANTS, "multi_head")
def multi_head_variants(call: Call) -> dict[str, Call]:
    w_q, w_k = numbers(call["w_q"]), numbers(call["w_k"])
    heads, width = call["n_heads"], len(w_q)
    apart = np.arange(width).reshape(-1, heads).T.ravel()  # every n-th column
    scaled = {
        "the scores look too large: is a square root missing": (width / heads) ** 0.5,
        "the scores are divided by the root of the whole width; each head has a width of its own": heads**-0.5,
        "the scores are divided by the width of a head and not by its root": (heads / width) ** 0.5,
    }
    variants = {name: changed(call, w_q=w_q * factor) for name, factor in scaled.items()}
    return variants | {
        "the gate is not used: with a head closed its output is the same": changed(call, gate=np.ones(heads)),
        "the mask is not used": changed(call, mask=np.ones_like(numbers(call["mask"]))),
        "queries and keys have changed places": changed(call, w_q=w_k, w_k=w_q),
        "keys and values are read from x and not from memory": changed(
            call, memory=numbers(call["x"]), mask=np.ones((len(numbers(call["mask"])),) * 2, dtype=bool)
        ),
        "the weights are used transposed; a row of tokens is multiplied as x @ w": changed(
            call, **{name: numbers(call[name]).T for name in ("w_q", "w_k", "w_v", "w_o")}
        ),
        "the gate is squared or used twice": changed(call, gate=numbers(call["gate"]) ** 2),
        "the heads are numbered the other way round": changed(call, gate=numbers(call["gate"])[::-1]),
        "the heads are not mixed in the end: W_O is missing": changed(call, w_o=np.eye(width)),
        "a head takes columns that are no neighbours: its own stand side by side": changed(
            call,
            **{name: numbers(call[name])[:, apart] for name in ("w_q", "w_k", "w_v")},
            w_o=numbers(call["w_o"])[apart],
        ),
        "a head takes columns that are no neighbours: its own stand side by side ": changed(
            call, **{name: numbers(call[name])[:, apart] for name in ("w_q", "w_k", "w_v")}
        ),
    }


@kept_in(RULES, "multi_head")
def multi_head_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    if not all(isinstance(value, list) and len(value) == 2 for value in values):
        return "it should return two things, output and weights"
    if all(same(value[0], wanted[0]) for value, wanted in zip(values, right, strict=True)):
        return "the output is right but the weights are not: return those of each head, (B, H, Q, K)"
    found = [needed(value[0]) for value in values]
    if any(f.shape != np.shape(r[0]) for f, r in zip(found, right, strict=True)):
        return ""
    plain, uniform, closed, _, none = found
    gate = np.repeat(numbers(calls[2]["gate"]), plain.shape[-1] // calls[2]["n_heads"])
    if np.allclose(closed, plain * gate, atol=1e-3) and not np.allclose(closed, plain, atol=1e-3):
        return "the gate closes columns of the final output: it acts after W_O, which has mixed the heads already"
    if np.abs(none).max() > 1e-4:
        return "with every gate closed something is left: look at where the gate is multiplied"
    if np.abs(uniform - uniform[:, :1]).max() > 1e-3:
        return (
            "with queries of zero all tokens should get the same output, but they "
            "do not: the heads are split or joined without transposing"
        )
    if not same(values[1][0], right[1][0]):
        v = numbers(calls[1]["memory"]) @ numbers(calls[1]["w_v"])
        pieces = v.reshape(len(v), calls[1]["n_heads"], v.shape[1], -1).mean(2).reshape(len(v), 1, -1)
        if np.allclose(uniform, pieces @ numbers(calls[1]["w_o"]), atol=1e-3):
            return (
                "a head gets some of the tokens with all their numbers: the "
                "heads are split or joined without transposing"
            )
        return "even uniform attention comes out wrong, so look at the values, at how heads are joined, and at W_O"
    return ""


# --- problem 1: positions --------------------------------------------------------------------------------------------


@kept_in(MAKERS, "positions")
def make_positions(draw: np.random.Generator) -> list[Call]:
    return [
        {"length": 7, "d_model": 8},
        {"length": int(draw.integers(3, 12)), "d_model": int(2 * draw.integers(4, 20))},
    ]


@kept_in(VARIANTS, "positions")
def positions_variants(call: Call) -> dict[str, Call]:
    return {"(later)": changed(call, length=call["length"] + 1)}


LATER = "positions begin with 1; the first token stands at 0"


@kept_in(RULES, "positions")
def positions_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    call, found, wanted = calls[0], as_array(values[0]), np.array(right[0])
    later = np.array(answer("positions", positions_variants(call)["(later)"])["value"])
    return wave_mistake(found, wanted, later[1:])


def wave_mistake(found: np.ndarray | None, wanted: np.ndarray, later: np.ndarray) -> str:
    """What is wrong with rows of waves (length, d_model); `later` are the right rows one position on."""
    if found is None or found.ndim != 2:
        return ""
    if found.shape == wanted.T.shape != wanted.shape:
        return "the table is transposed: a row for each position"
    if found.shape != wanted.shape:
        return ""
    if np.allclose(found, later, atol=1e-3):
        return LATER
    for rows, start in ((wanted, ""), (later, ", and positions begin with 1")):
        sines, cosines = rows[:, 0::2], rows[:, 1::2]
        if np.allclose(found, np.hstack([sines, cosines]), atol=1e-3) or np.allclose(
            found, np.hstack([cosines, sines]), atol=1e-3
        ):
            return f"sines and cosines stand in two blocks{start}; they should take turns"
        if np.allclose(found[:, 0::2], cosines, atol=1e-3) and np.allclose(found[:, 1::2], sines, atol=1e-3):
            return f"sines and cosines have changed places{start}: sines stand in the even columns"
    if np.allclose(found[0, 0::2], 1, atol=1e-3) and np.allclose(found[0, 1::2], 0, atol=1e-3):
        return "sines and cosines have changed places: sines stand in the even columns"
    half = found.shape[1] // 2
    if np.allclose(found[0], [*[0] * half, *[1] * half], atol=1e-3) and not np.allclose(found[0], wanted[0], atol=1e-3):
        return "sines and cosines stand in two blocks; they should take turns"
    if np.allclose(found[0], later[0], atol=0.2) and not np.allclose(found[0], wanted[0], atol=1e-3):
        return LATER
    if not np.allclose(found[0], wanted[0], atol=1e-3):
        return "the first row is wrong: at position 0 every sine is 0 and every cosine 1"
    squares = found[:, 0::2] ** 2 + found[:, 1::2] ** 2
    if np.abs(found).max() > 1 + 1e-3:
        return "some numbers are no sine or cosine: they lie beyond -1..1"
    if not np.allclose(squares, 1, atol=1e-2):
        return "the frequencies are off: a sine and the cosine beside it must have the same one"
    return "the frequencies are off: look at how the exponent grows from the first pair of columns to the last"


# --- problem 1: decoding and accuracy --------------------------------------------------------------------------------


def some_sums(draw: np.random.Generator, count: int) -> np.ndarray:
    """Sums of which most, but not all, have a leading 1."""
    while True:
        pairs = draw.integers(100, 1_000, size=(count, 2))
        if count / 2 < (pairs.sum(1) >= 1_000).sum() < max(2, count):
            return pairs


def sources(pairs: np.ndarray) -> np.ndarray:
    digits = given.written_out
    return np.hstack([digits(pairs[:, 0], 3), np.full((len(pairs), 1), given.PLUS), digits(pairs[:, 1], 3)])


def targets(pairs: np.ndarray) -> np.ndarray:
    return given.written_out(pairs.sum(1), 4)


@kept_in(MAKERS, "greedy")
def make_greedy(draw: np.random.Generator) -> list[Call]:
    return [
        {
            "model": given_object("adder", seed=int(draw.integers(1_000))),
            "source": array(sources(some_sums(draw, n)), "int64"),
        }
        for n in (40, 1)
    ]


NO_BOS = "decoding begins with {}, not with BOS"
STARTS = {"the digit 0": 0, "+": given.PLUS, "PAD": given.PAD, "the true first digit": "true"}
STARTS["the most common first digit"] = "common"


def start_variants(call: Call, argument: str = "model") -> dict[str, Call]:
    variants = {}
    for name, start in STARTS.items():
        for kept in (True, False):
            variants[NO_BOS.format(name) + " " * (not kept)] = quirky(call, argument, start=start, keeps_start=kept)
    return variants


@kept_in(VARIANTS, "greedy")
def greedy_variants(call: Call) -> dict[str, Call]:
    forgets = {
        "each step reads only the digit written last: hand over all that is written so far": quirky(
            call, "model", forgets=True
        )
    }
    return start_variants(call) | forgets


@kept_in(RULES, "greedy")
def greedy_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    found, wanted = as_array(values[0]), np.array(right[0])
    if found is None or found.ndim != 2:
        return ""
    if found.shape[1] == 5 and (found[:, 0] == given.BOS).all():
        return "BOS is part of the answer; it is only what the decoder begins with"
    if found.shape[1] != 4:
        return f"it writes {found.shape[1]} digits; an answer has 4, one more than an operand"
    if same(values[0], targets(np.array([*zip(*given.operands(numbers(calls[0]["source"])), strict=True)])).tolist()):
        return "these are the true sums, not what the model writes: it makes mistakes, and they must show"
    if (found == found[:, :1]).all():
        return "every digit of an answer is the same: at each step the logits of the last position count"
    if (found[:, 0] == wanted[:, 0]).mean() < 0.9:
        return "the first digits are wrong already: with what does the decoder begin, and whose logits are read"
    return "the first digits are right but not those after them: does the model read the digits it has written itself"


@kept_in(MAKERS, "free_running_accuracy")
def make_free_running(draw: np.random.Generator) -> list[Call]:
    made = []
    for sizes in ((32, 32, 5), (20,), (7, 24)):
        seed = int(draw.integers(1_000))
        parts = [some_sums(draw, size) for size in sizes]
        batches = [[array(sources(part), "int64"), array(targets(part), "int64")] for part in parts]
        made.append({"model": given_object("adder", seed=seed), "batches": batches})
    return made


@kept_in(VARIANTS, "free_running_accuracy")
def free_running_variants(call: Call) -> dict[str, Call]:
    batches = call["batches"]
    single = (
        {f"(batch {i})": changed(call, batches=[batch]) for i, batch in enumerate(batches)} if len(batches) > 1 else {}
    )
    return start_variants(call) | single


@kept_in(RULES, "free_running_accuracy")
def free_running_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    found = [as_array(value) for value in values]
    if any(f is None or f.size != 1 for f in found):
        return "it should return one number, the share of right answers"
    given_values = np.array([float(np.squeeze(f)) for f in found if f is not None])
    right_values = np.array(right, dtype=float)
    for name, known in by_place(wrong_scores(call, answer) for call in calls):
        scores, seen = np.array([score for _, score in known]), np.array([i for i, _ in known])
        if np.allclose(given_values[seen], scores, atol=1e-4) and not np.allclose(
            scores, right_values[seen], atol=1e-4
        ):
            return name
    for factor, name in ((100.0, "it is a percentage; return a share between 0 and 1"), (-1.0, "")):
        if name and np.allclose(given_values, right_values * factor, rtol=1e-3):
            return name
    if np.allclose(given_values, 1 - right_values, atol=1e-4):
        return "this is the share of wrong answers"
    if (given_values > right_values + 1e-6).any():
        return (
            "the score is too high: is the model given anything but the "
            "sum and its own digits, or is anything not counted"
        )
    return "the score is too low: is every answer decoded from BOS and compared with its own target"


def by_place(scores: Iterable[list[tuple[str, float]]]) -> list[tuple[str, list[tuple[int, float]]]]:
    """[(mistake, [(call, score)])]: the same mistake in all calls that can show it."""
    table: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for number, row in enumerate(scores):
        times: dict[str, int] = {}
        for name, score in row:
            times[name] = times.get(name, 0) + 1
            table.setdefault((name, times[name]), []).append((number, score))
    return [(name, known) for (name, _), known in table.items()]


def writing(call: Call) -> Call:
    """The question what the model writes for all sums of these batches."""
    return {
        "model": call["model"],
        "source": array(np.vstack([numbers(source) for source, _ in call["batches"]]), "int64"),
    }


def wrong_scores(call: Call, answer: Answer) -> list[tuple[str, float]]:
    """Common mistakes, and what they would make of this call."""
    toy = decode(call["model"])
    hits, goal, sizes = [], [], []
    for source, target in call["batches"]:
        truth = numbers(target)
        reads = np.hstack([np.full((len(truth), 1), given.BOS), truth[:, :3]])
        hits.append(np.asarray(toy(torch.from_numpy(numbers(source)), torch.from_numpy(reads))).argmax(-1) == truth)
        goal.append(truth)
        sizes.append(len(truth))
    hit, truth, bounds = np.vstack(hits), np.vstack(goal), np.cumsum(sizes)[:-1]
    free = np.array(answer("greedy", writing(call))["value"]) == truth
    zero, digit = truth == 0, np.ones(4)
    per_digit = "this is teacher forcing: single digits are counted, each with the right ones before it"
    skipped = "zeros are not counted: digit 0 is an answer like any other"
    counted: list[tuple[str, Any, Any]] = [  # what is right, and what is counted
        (per_digit, hit, digit == 1),
        (skipped, hit | zero, digit == 1),
        (skipped, hit, ~zero),
        (skipped, free, ~zero),
        (skipped, np.asarray((hit | zero).all(1)), np.array(True)),
        (skipped, (free | zero).all(1), np.array(True)),
        ("the first digit is not counted, as if it were handed over", hit[:, 1:].all(1), np.array(True)),
        (per_digit, hit[:, 1:], np.array(True)),
        ("single digits are counted; an answer is right if all of its digits are", free, np.array(True)),
        ("only the last digit is compared", hit[:, -1], np.array(True)),
        ("only the first digit is compared", hit[:, 0], np.array(True)),
    ]
    found = []
    for name, right, counts in counted:
        counts = np.broadcast_to(counts, right.shape)
        found.append((name, float(right[counts].mean())))
        batches = zip(np.split(right, bounds), np.split(counts, bounds), strict=True)
        found.append((name, float(np.mean([part[c].mean() for part, c in batches]))))
    if len(sizes) > 1:
        single = [answer("free_running_accuracy", changed(call, batches=[batch]))["value"] for batch in call["batches"]]
        unequal = "batches of unequal size count alike: the mean of batch means is not the mean over answers"
        found = [(unequal, float(np.mean(single))), *found]
        found += [("only the first batch is counted", single[0]), ("only the last batch is counted", single[-1])]
    return found


# --- problem 1: training ---------------------------------------------------------------------------------------------


@kept_in(MAKERS, "unseen")
def make_unseen(draw: np.random.Generator) -> list[Call]:
    train = some_sums(draw, 12)
    new = some_sums(draw, 6)
    shared_number = np.column_stack([train[:3, 0], draw.integers(100, 1_000, 3)])
    test = np.vstack([new, train[2:5], train[5:9, ::-1], shared_number])
    test = test[draw.permutation(len(test))].tolist()
    return [
        {"train": [[663, 497], [208, 305]], "test": [[497, 663], [663, 305], [208, 305]]},
        {"train": train.tolist(), "test": test},
    ]


@kept_in(ACCEPTED, "unseen")
def unseen_accepted(call: Call, value: Any, right: Any) -> bool:
    """In any order."""
    found = as_array(value)
    return found is not None and same(sorted(np.array(value, dtype=float).tolist()), sorted(right))


@kept_in(RULES, "unseen")
def unseen_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for call, value, wanted in zip(calls, values, right, strict=True):
        if not isinstance(value, list) or any(not isinstance(pair, list) or len(pair) != 2 for pair in value):
            return "it should return a list of pairs"
        found, known = {tuple(pair) for pair in value}, {tuple(pair) for pair in call["train"]}
        if found & known:
            return "test pairs that stand in the training set are kept: the splits leak"
        if turned := [pair for pair in found if pair[::-1] in known]:
            a, b = turned[0]
            return f"the splits leak: {a} + {b} is kept, though training shows {b} + {a}"
        if missing := [pair for pair in wanted if tuple(pair) not in found]:
            a, b = missing[0]
            return f"{a} + {b} is left out, though training shows this sum in neither order"
    return ""


EPOCHS = 25


@kept_in(MAKERS, "train")
def make_train(draw: np.random.Generator) -> list[Call]:
    centres = np.array([[2, 0, 0, 1, 0, 0], [0, 2, 0, 0, 1, 0], [0, 0, 2, 0, 0, 1], [-1, -1, -1, -1, -1, -1]])
    labels = np.repeat(np.arange(4), 26)[draw.permutation(104)][:100]
    inputs = centres[labels] + 0.3 * draw.normal(size=(100, 6))
    shared = {"inputs": array(inputs), "labels": array(labels, "int64"), "epochs": EPOCHS}
    return [
        {
            "model": given_object("net", seed=int(draw.integers(1_000))),
            **shared,
            "batch_size": 16,
            "learning_rate": 0.03,
        }
    ]


def starting_loss(call: Call) -> float:
    with torch.no_grad():
        return F.cross_entropy(decode(call["model"])(decode(call["inputs"])), decode(call["labels"])).item()


def training_facts(call: Call, value: Any) -> tuple[np.ndarray, np.ndarray, float, np.ndarray] | None:
    """Losses, predictions, share of right ones, labels; None if the form is wrong."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    losses, predictions, labels = as_array(value[0]), as_array(value[1]), numbers(call["labels"])
    if losses is None or losses.shape != (call["epochs"],) or predictions is None or predictions.shape != labels.shape:
        return None
    return losses, predictions, float((predictions == labels).mean()), labels


@kept_in(ACCEPTED, "train")
def train_accepted(call: Call, value: Any, right: Any) -> bool:
    facts = training_facts(call, value)
    if facts is None:
        return False
    losses, _, share, _ = facts
    start = starting_loss(call)
    learned = losses[-1] < 0.4 * start and share >= 0.9
    return bool(
        np.isfinite(losses).all() and (losses >= 0).all() and 0.02 * start < losses[0] < 1.3 * start and learned
    )


@kept_in(RULES, "train")
def train_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    call, value = calls[0], values[0]
    facts = training_facts(call, value)
    if facts is None:
        return (
            f"it should return two lists: the mean loss of each of the {call['epochs']} "
            "epochs, and the trained model's answer to each input"
        )
    losses, predictions, share, _ = facts
    start, constant = starting_loss(call), math.log(4)
    end = f"the loss goes from {losses[0]:.2f} to {losses[-1]:.2f}"
    if not np.isfinite(losses).all():
        return "the loss is not a number in the end: the training has diverged"
    if np.ptp(losses) < 1e-3:
        return (
            f"the training is dead: the loss is {losses[0]:.2f} in every "
            "epoch, so no step changes the weights of this model"
        )
    if losses[-1] > 1.5 * max(losses[0], start):
        return f"{end}: the steps go uphill"
    own_label = "does each input still have its own label when the items are shuffled, and do all weights take part"
    if np.unique(predictions).size == 1:
        return (
            "a constant prediction: the trained model answers "
            f"{predictions[0]:.0f} to every input, and {end}: {own_label}"
        )
    if share < 0.7 and losses[-1] > 0.7 * constant:
        return f"{end}, no better than a guess, which has {constant:.2f}: {own_label}"
    if share < 0.9 and losses[-1] < 0.4 * start:
        return f"{end}, but only {share:.0%} of the answers are right: it learns other labels than those of the inputs"
    if share >= 0.9 and losses[0] < losses[-1] and train_accepted(call, [losses[::-1].tolist(), value[1]], None):
        return "it learns, but the losses are in reverse order: return the loss of each epoch in its order"
    if share >= 0.9 and losses[-1] > 0.4 * start and losses[0] < 1.3 * start:
        return (
            f"the answers are right but {end} and no further: is a softmax "
            "applied twice, or is the loss that of other weights"
        )
    if share >= 0.9 and (losses[0] > 1.3 * start or losses[0] < 0.02 * start):
        return (
            "it learns, but the losses are no means: the first is "
            f"{losses[0]:.2f}, and the untrained model's is {start:.2f}"
        )
    if share >= 0.9:
        return f"it learns, but {end}: return the mean loss of each epoch in its order"
    return (
        f"it learns too little ({end}, {share:.0%} right): does every item "
        "come once in each epoch, and does every batch make a step"
    )


@kept_in(MAKERS, "choose_checkpoint")
def make_history(draw: np.random.Generator) -> list[Call]:
    made = []
    for _ in range(2):
        scores = draw.permutation(np.linspace(0.5, 0.99, 30)).reshape(3, 10).round(3)
        best = np.array([1, 4, 6])[draw.permutation(3)]
        scores[np.arange(3), best] = 0.995 + draw.random(3).round(3) / 1_000
        names_of = ("training accuracy", "validation accuracy", "test accuracy")
        rows = [
            {"step": 100 * (i + 1), **{name: float(scores[j, i]) for j, name in enumerate(names_of)}} for i in range(10)
        ]
        made.append({"history": rows})
    return made


@kept_in(RULES, "choose_checkpoint")
def checkpoint_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    def best(call: Call, name: str, pick: Callable[..., Any] = max) -> int:
        return pick(call["history"], key=lambda row: row[name])["step"]

    wrong_choices = {
        "the checkpoint is chosen on the test set, so the test score is no longer a test": lambda c: best(
            c, "test accuracy"
        ),
        "the checkpoint is chosen on the training set, which overfitting pleases": lambda c: best(
            c, "training accuracy"
        ),
        "the last checkpoint is taken, whatever it scores": lambda c: c["history"][-1]["step"],
        "the worst checkpoint is taken": lambda c: best(c, "validation accuracy", min),
        "this is a row's place, not its step": lambda c: best(c, "validation accuracy") // 100 - 1,
        "the checkpoint is chosen with the test set's help: only validation may decide": lambda c: max(
            c["history"], key=lambda row: row["validation accuracy"] + row["test accuracy"]
        )["step"],
    }
    for name, choice in wrong_choices.items():
        if all(value == choice(call) for call, value in zip(calls, values, strict=True)):
            return name
    if any(isinstance(value, dict) for value in values):
        return "it should return the step, one number, not the whole row"
    return "another step is chosen than the one of the highest validation accuracy"


# --- problem 1: heads ------------------------------------------------------------------------------------------------


@kept_in(MAKERS, "head_drops")
def make_head_drops(draw: np.random.Generator) -> list[Call]:
    pairs = some_sums(draw, 40)
    return [
        {
            "model": given_object("adder", seed=int(draw.integers(1_000))),
            "source": array(sources(pairs), "int64"),
            "target": array(targets(pairs), "int64"),
        }
    ]


@kept_in(VARIANTS, "head_drops")
def head_drops_variants(call: Call) -> dict[str, Call]:
    source, target = numbers(call["source"]), numbers(call["target"])
    variants = {
        "head h is removed in all layers at once: a gate has a place for each layer": quirky(
            call, "model", gates="tied"
        ),
        "closed gates stay closed: each head must be removed from a complete model": quirky(
            call, "model", gates="sticky"
        ),
        "importance is measured on one item": changed(call, source=source[:1], target=target[:1]),
        "importance is measured on the last item only": changed(call, source=source[-1:], target=target[-1:]),
    }
    return variants | {
        name: other for name, other in start_variants(call).items() if "true" in name or "digit 0" in name
    }


@kept_in(RULES, "head_drops")
def head_drops_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    found, wanted = as_array(values[0]), np.array(right[0])
    if found is None:
        return "it should return a table of numbers, 6 layers by 4 heads"
    if (
        found.size == 24
        and found.shape != wanted.shape
        and any(np.allclose(each.ravel(), wanted.ravel(), atol=1e-4) for each in (found, found.T))
    ):
        return "the numbers are right, their table is not: a row for each of 6 layers, a column for each of 4 heads"
    if found.shape != wanted.shape:
        return "it should return a table of numbers, 6 layers by 4 heads"
    if np.allclose(found, -wanted, atol=1e-4):
        return "the sign is wrong: a drop is positive where accuracy falls"
    if np.ptp(found + wanted) < 1e-4:
        return "these are accuracies, not drops: how far is each below that of the complete model"
    if np.abs(found).max() < 1e-9:
        return "nothing ever drops: do the gates reach the model"
    if np.ptp(found, axis=0).max() < 1e-6:
        return "head h has the same drop in every layer: is it removed in all layers at once"
    ratios = found[wanted > 0] / wanted[wanted > 0]
    if np.ptp(ratios) < 1e-3 and np.abs(found[wanted == 0]).max(initial=0) < 1e-6:
        return (
            f"all drops are {ratios[0]:.3g} times as large as they should be: a drop is a difference of two accuracies"
        )
    if (few := items_behind(found)) < items_behind(wanted):
        count = "one item" if few == 1 else f"{few} items"
        return f"every drop is a share of {few}: importance is measured on {count} and not on all of them"
    if np.ptp(found, axis=1).max() < 1e-6:
        return "all heads of a layer have the same drop: are they closed together"
    if any(np.allclose(a, b) and a.any() for a, b in itertools.combinations(found, 2)):
        return "head h has the same drop in several layers: is it removed in all of them at once"
    if (np.diff(found, axis=1) >= -1e-6).all() and found[:, -1].mean() > 2 * wanted[:, -1].mean():
        return "drops only grow within a layer: closed gates stay closed, but heads are removed from a complete model"
    flat = found.ravel()
    if (np.diff(flat) >= -1e-6).all() and flat[-1] > wanted.max():
        return "drops only grow: closed gates stay closed, but each head must be removed from a complete model"
    if found.mean() < 0.7 * wanted.mean():
        return "the drops are too small: look at what is counted, and whether all of it is decoded without the head"
    return (
        "the drops are not those of one head at a time: look at which gates are 0 in each run, and at what is counted"
    )


def items_behind(shares: np.ndarray) -> int:
    """The smallest number of items of which all of these can be shares."""
    return next((n for n in range(1, 100) if np.allclose(shares * n, (shares * n).round(), atol=1e-3)), 100)


@kept_in(MAKERS, "singly_prunable")
def make_singly(draw: np.random.Generator) -> list[Call]:
    made = []
    for tolerance in (0.01, 0.05):
        drops = {
            f"Encoder L{i // 4} H{i % 4}": round(
                float(draw.choice([-0.02, 0.004, 0.03, 0.2, -0.08, 0.5])) + i / 10_000, 4
            )
            for i in range(6)
        }
        drops |= {
            "Decoder Self L0 H0": tolerance,
            "Decoder Self L0 H1": -0.03,
            "Decoder Cross L0 H0": 0.0,
            "Decoder Cross L1 H2": -0.2,
        }
        made.append({"drops": drops, "tolerance": tolerance})
    return made


@kept_in(ACCEPTED, "singly_prunable")
def names_accepted(call: Call, value: Any, right: Any) -> bool:
    """In any order."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and sorted(value) == sorted(right)


@kept_in(RULES, "singly_prunable")
def singly_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for call, value, wanted in zip(calls, values, right, strict=True):
        if not isinstance(value, list) or not set(map(str, value)) <= set(call["drops"]):
            return "it should return a list of names of heads"
        missing, added = set(wanted) - set(value), set(value) - set(wanted)
        if missing and all(call["drops"][name] == call["tolerance"] for name in missing):
            return "a head whose drop equals the tolerance is left out: at most means that it may go"
        if set(value) & set(wanted) == set() and added:
            return "these are the heads that are needed: which ones can go"
        if missing and all(call["drops"][name] < 0 for name in missing):
            return "a head without which accuracy rises is left out; its drop is negative, and it may go"
        if added:
            return (
                f"{sorted(added)[0]} is named, though its drop of "
                f"{call['drops'][sorted(added)[0]]} is above the tolerance"
            )
        if missing:
            return f"{sorted(missing)[0]} is left out, though its drop is only {call['drops'][sorted(missing)[0]]}"
    return ""


@kept_in(MAKERS, "jointly_prunable")
def make_jointly(draw: np.random.Generator) -> list[Call]:
    made = []
    for tolerance in (0.01, 0.02):
        seed = int(draw.integers(1_000))
        model = given_object("pruning", seed=seed)
        made.append({"accuracy_without": model, "heads": given.ToyPruning(seed).heads, "tolerance": tolerance})
    return made


ACCEPTED["jointly_prunable"] = names_accepted


@kept_in(RULES, "jointly_prunable")
def jointly_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for call, value, wanted in zip(calls, values, right, strict=True):
        toy: Any = decode(call["accuracy_without"])
        if not isinstance(value, list) or not set(map(str, value)) <= set(call["heads"]):
            return "it should return a list of names of heads"
        if set(value) == set(wanted):
            continue
        base, left = toy(), toy(value)
        alone = {head for head in call["heads"] if base - toy([head]) <= call["tolerance"]}
        if set(value) == alone:
            return (
                "all heads that can go alone are removed at once, and accuracy falls "
                f"from {base:.3f} to {left:.3f}: they stand in for each other"
            )
        if base - left > call["tolerance"] + 1e-9:
            steps = [toy(value[:i]) - toy(value[: i + 1]) for i in range(len(value))]
            if max(steps) <= call["tolerance"] + 1e-9:
                return (
                    f"each step costs little, but together they cost {base - left:.3f}: "
                    "compare with the complete model, not with the step before"
                )
            return f"without these heads accuracy falls from {base:.3f} to {left:.3f}, more than the tolerance"
        if len(value) < len(wanted):
            return (
                f"{len(value)} heads are removed, though more can go: after "
                "each removal every head left must be tried again"
            )
        return "another set of heads is removed: at each step the head goes whose removal leaves the highest accuracy"
    return ""


@kept_in(MAKERS, "flip_rate")
def make_flip_rate(draw: np.random.Generator) -> list[Call]:
    made = []
    seed = int(draw.integers(1_000))
    for layer, head in ((1, 1), (1, 2), (0, 2), (0, 1)):
        column = int(draw.integers(1, 3))
        place = 10 ** (2 - column)  # of the digit one column lower
        pairs = some_sums(draw, 400)
        lower = pairs // place % 10
        own = pairs // (10 * place) % 10
        keep = (lower.sum(1) <= 8) & (lower[:, 0] > 0) & (own.sum(1) != 9)
        pairs, lower = pairs[keep][:48], lower[keep][:48]
        other = pairs.copy()
        other[:, 1] += (10 - lower.sum(1)) * place
        turn = draw.random(len(pairs))[:, None] < 0.5
        first, second = np.where(turn, other, pairs), np.where(turn, pairs, other)
        made.append(
            {
                "model": given_object("patching", seed=seed),
                "source": array(sources(first), "int64"),
                "other": array(sources(second), "int64"),
                "layer": layer,
                "head": head,
                "column": column,
            }
        )
    return made


@kept_in(VARIANTS, "flip_rate")
def flip_variants(call: Call) -> dict[str, Call]:
    changes = "every changed digit is counted; a flip is a digit that becomes that of the other sum"
    return {
        "all heads of the layer are patched, not one": quirky(call, "model", patches="layer"),
        "head h is patched in both layers, not in one": quirky(call, "model", patches="number"),
        changes: quirky(call, "model", third=False),
        "the sums have changed places: the outputs of `other` go into the run of `source`": changed(
            call, source=numbers(call["other"]), other=numbers(call["source"])
        ),
        "another column is read": changed(call, column=call["column"] + 1),
        "another column is read ": changed(call, column=call["column"] - 1),
        "layer and head have changed places": changed(call, layer=call["head"] % 2, head=call["layer"]),
    }


@kept_in(RULES, "flip_rate")
def flip_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    found = [as_array(value) for value in values]
    if any(f is None or f.size != 1 for f in found):
        return "it should return one number, the share of sums whose digit flips"
    rates, wanted = np.array([float(np.squeeze(f)) for f in found if f is not None]), np.array(right, dtype=float)
    if np.abs(rates).max() < 1e-9:
        return "nothing ever flips: is the patched copy of the outputs the one that is written from"
    if np.allclose(rates, 1 - wanted, atol=1e-4):
        return "this is the share that does not flip"
    if np.allclose(rates, wanted * 100, rtol=1e-3):
        return "it is a percentage; return a share between 0 and 1"
    if np.abs(rates - 1).max() < 1e-9:
        return (
            "everything flips: is only one head replaced, and is the model's digit compared with that of the other sum"
        )
    return "the share is not that of one head: look at which outputs are replaced and which digit is compared"


# --- problem 2: positions --------------------------------------------------------------------------------------------


@kept_in(MAKERS, "add_positions")
def make_add_positions(draw: np.random.Generator) -> list[Call]:
    table = array(draw.normal(size=(6, 8)))
    return [
        {"x": array(draw.normal(size=(2, length, 8))), "encoding": encoding, "table": table}
        for encoding, length in (("sinusoidal", 5), ("learned", 4), ("none", 5), ("learned", 10), ("sinusoidal", 9))
    ]


@kept_in(VARIANTS, "add_positions")
def add_positions_variants(call: Call) -> dict[str, Call]:
    return {"(rows)": changed(call, x=np.zeros((1, len(numbers(call["x"])[0]) + 1, 8)))}


@kept_in(RULES, "add_positions")
def add_positions_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for call, value, wanted in sorted(
        zip(calls, values, right, strict=True), key=lambda each: each[0]["encoding"] != "none"
    ):
        if same(value, wanted):
            continue
        found, x = as_array(value), numbers(call["x"])
        if found is None or found.shape != x.shape:
            return ""
        if call["encoding"] == "none":
            return "without an encoding the embeddings must stay as they are"
        if np.abs(found - x).max() < 1e-6:
            return f"nothing is added with encoding {call['encoding']!r}"
        rows = found - x
        if np.abs(rows - rows[:1]).max() > 1e-3:
            return (
                "different items get different rows: a row depends on the position only, and is added, not multiplied"
            )
        if call["encoding"] == "sinusoidal":
            later = np.array(answer("add_positions", add_positions_variants(call)["(rows)"])["value"])[0]
            return wave_mistake(rows[0], later[:-1], later[1:])
        return table_mistake(rows[0], numbers(call["table"]))
    return ""


def table_mistake(rows: np.ndarray, table: np.ndarray) -> str:
    """Which row of the table does each position get?"""
    apart = np.abs(rows[:, None] - table[None]).max(-1)
    read = np.where(apart.min(1) < 1e-3, apart.argmin(1), -1)
    expected = np.minimum(np.arange(len(rows)), len(table) - 1)
    inside = np.arange(len(rows)) < len(table)
    if (read[inside] == expected[inside]).all():
        beyond = rows[~inside]
        if np.abs(beyond).max() < 1e-3:
            return "positions beyond the table get nothing; the last row serves them all"
        if (read == np.arange(len(rows)) % len(table)).all():
            return "beyond its last row the table begins again; the last row should serve all further positions"
        return "positions beyond the table get other rows than its last one"
    if ((read[:-1] == expected[1:]).all() and len(rows) <= len(table)) or (
        read == np.minimum(expected + 1, len(table) - 1)
    ).all():
        return LATER
    if (read == expected[::-1]).all():
        return "the rows stand in reverse order"
    if len(set(read.tolist())) == 1:
        return "every position gets the same row"
    return "the rows of the table go to other positions: row 0 belongs to the first token"


@kept_in(MAKERS, "relative_bias")
def make_relative(draw: np.random.Generator) -> list[Call]:
    return [
        {"table": array(draw.normal(size=(heads, 2 * clip + 1))), "length": length}
        for heads, clip, length in ((2, 2, 3), (2, 2, 7), (3, 1, 5))
    ]


@kept_in(RULES, "relative_bias")
def relative_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for call, value, wanted in zip(calls, values, right, strict=True):
        if same(value, wanted):
            continue
        found, expected, table = as_array(value), np.array(wanted), numbers(call["table"])
        clip, length = table.shape[1] // 2, call["length"]
        if found is None or found.shape != expected.shape:
            continue
        if np.allclose(found, expected.swapaxes(1, 2), atol=1e-4):
            return "left and right have changed places: the distance is key minus query, and rows are queries"
        apart = np.abs(found[0][..., None] - table[0])
        read = np.where(apart.min(-1) < 1e-3, apart.argmin(-1), -1)
        distance = np.arange(length)[None] - np.arange(length)[:, None]
        near = np.abs(distance) <= clip
        if (read[near] == (distance + clip)[near]).all():
            if (read[~near] == (distance + clip)[~near] % (2 * clip + 1)).all() or (read[~near] == -1).all():
                return "far distances read entries that are not theirs: beyond the clip the nearest entry counts"
            return (
                "near distances are right, but those beyond the clip are not: "
                "they count as the nearest one that has an entry"
            )
        if (read == np.minimum(np.abs(distance), clip)).all() or (
            read == np.minimum(np.abs(distance) + clip, 2 * clip)
        ).all():
            return "left and right are the same: the distance has a sign"
        if (read[near] == (distance % (2 * clip + 1))[near]).all():
            return (
                "negative distances are taken as indices from the end of the "
                "table: entry 0 belongs to the smallest distance"
            )
        return "distances read the wrong entries: the middle one belongs to the token itself"
    return ""


@kept_in(MAKERS, "interpolated")
def make_interpolated(draw: np.random.Generator) -> list[Call]:
    trained = int(draw.integers(10, 20))
    sizes = ((32, 16), (10, 16), (16, 16), (17, 16), (3 * trained, trained), (trained - 3, trained))
    return [{"length": length, "trained": n} for length, n in sizes]


@kept_in(RULES, "interpolated")
def interpolated_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for call, value, wanted in zip(calls, values, right, strict=True):
        if same(value, wanted):
            continue
        length, trained, found, t = call["length"], call["trained"], as_array(value), np.arange(call["length"])
        if found is None or found.shape != t.shape:
            return ""
        if length <= trained:
            if np.allclose(found, t + 1):
                return LATER
            return "short sequences are stretched, too; up to the trained length positions stay as they are"
        for start, words in ((0, ""), (1, " and positions begin with 1")):
            if np.allclose(found, (t + start) * trained / length, atol=1e-4):
                return (
                    f"the last position is {found[-1]:.2f}; squeezed positions should "
                    f"run from 0 to exactly the last trained one{words}"
                )
        if np.allclose(found, t):
            return "long sequences keep their positions, which training never reached"
        if np.allclose(found, np.minimum(t, trained - 1)):
            return "positions are clamped: many tokens share the last one, instead of all moving closer together"
        if np.allclose(found, t % trained):
            return "positions begin again after the trained ones"
        if np.allclose(found[0], 1) and np.allclose(np.diff(found), found[1] - found[0], atol=1e-4):
            return LATER
        if found.max() > trained - 1 + 1e-6:
            return f"the last position is {found.max():.2f}, beyond the last trained one, {trained - 1}"
        if np.allclose(found, found.round()):
            return "positions are rounded, so that neighbours share one; they may lie between whole numbers"
        if np.allclose(np.diff(found), found[1] - found[0], atol=1e-4):
            return (
                f"positions run from {found[0]:.2f} to {found[-1]:.2f}; they should run from 0 to the last trained one"
            )
        return "neighbours are not equally far apart"
    return ""


# --- problem 2: scores -----------------------------------------------------------------------------------------------


@kept_in(MAKERS, "mean_pool")
def make_mean_pool(draw: np.random.Generator) -> list[Call]:
    made = []
    for lengths, longest in (((5, 3, 1), 5), ((4, 4), 4), ((2, 6, 3, 4), 6)):
        real = np.arange(longest)[None] < np.array(lengths)[:, None]
        made.append({"x": array(draw.normal(size=(len(lengths), longest, 3))), "real": array(real, "bool")})
    return made


@kept_in(VARIANTS, "mean_pool")
def mean_pool_variants(call: Call) -> dict[str, Call]:
    real = numbers(call["real"]).astype(bool)
    inverted = np.where(real.all(1, keepdims=True), real, ~real)
    x = numbers(call["x"])
    return {
        "padding is inside the mean: divide, and add up, over real tokens only": changed(call, real=np.ones_like(real)),
        "the padding is averaged, not the tokens: True marks what is real": changed(call, real=inverted),
        "the sum leaves padding out, but it is divided by the padded length": changed(
            call, x=x * real[..., None], real=np.ones_like(real)
        ),
    }


@kept_in(RULES, "mean_pool")
def mean_pool_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for call, value, wanted in zip(calls, values, right, strict=True):
        if same(value, wanted):
            continue
        found, expected = as_array(value), np.array(wanted)
        x, real = numbers(call["x"]), numbers(call["real"]).astype(bool)
        counts = real.sum(1, keepdims=True)
        if found is None or found.shape != expected.shape:
            if found is not None and found.shape == (x.shape[0], x.shape[1]):
                return "the wrong axis is averaged: one vector is left for each sequence, the tokens go"
            continue
        if np.allclose(found, expected * counts, atol=1e-4):
            return "this is the sum, not the mean"
        if np.allclose(found, np.where(real[..., None], x, -np.inf).max(1), atol=1e-4):
            return "this is the maximum, not the mean"
        if np.allclose(found * real.shape[1], expected * counts, atol=1e-4):
            return "the sum leaves padding out, but it is divided by the padded length"
        if np.allclose(found * real.sum(), expected * counts * len(x), atol=1e-3) or np.allclose(
            found * counts.mean(), expected * counts, atol=1e-3
        ):
            return "all sequences are divided by the same number; each has its own count of real tokens"
        padded = ~real.all(1)
        hidden = (x * ~real[..., None]).sum(1)[padded] / (~real).sum(1, keepdims=True)[padded]
        if padded.any() and np.allclose(found[padded], hidden, atol=1e-4):
            return "the padding is averaged, not the tokens: True marks what is real"
        full = real.all(1)
        if full.any() and np.allclose(found[full], expected[full], atol=1e-4):
            return "sequences without padding are right, the others are not: padding is inside the mean"
    return ""


@kept_in(MAKERS, "score")
def make_score(draw: np.random.Generator) -> list[Call]:
    def batch(size: int, shift: float = 0.0, noise: float = 1.0) -> list[Any]:
        labels = draw.random(size) < 0.4
        logits = noise * draw.normal(size=size) + 0.6 * (2 * labels - 1) + shift
        return [array(logits), array(labels, "bool")]

    constant = [array(0.2 + draw.random(9)), array(np.arange(9) < 5, "bool")]
    half = [
        array(np.array([0.3, 0.3, 0.2, 0.4, -0.2, 0.3, 0.1, -0.4])),
        array(np.array([1, 1, 0, 1, 0, 1, 0, 1]), "bool"),
    ]
    share = [
        array(np.array([1.0, 1, -1, -1, 1])),
        array(np.array([1, 0, 0, 1, 1]), "bool"),
    ]  # accuracy is a class share
    return [
        {"batches": [batch(32), batch(32), batch(6, 1.0)]},
        {"batches": [constant]},
        {"batches": [half]},
        {"batches": [share]},
    ]


@kept_in(VARIANTS, "score")
def score_variants(call: Call) -> dict[str, Call]:
    def every(change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Call:
        changed_parts = [change(numbers(logits), numbers(labels)) for logits, labels in call["batches"]]
        return changed(call, batches=[[array(a), array(b, "bool")] for a, b in changed_parts])

    batches = call["batches"]
    single = (
        {f"(batch {i})": changed(call, batches=[batch]) for i, batch in enumerate(batches)} if len(batches) > 1 else {}
    )
    return {
        "a logit above 0.5 counts as sorted; that is a limit for probabilities, and a logit has its own": every(
            lambda a, b: (a - 0.5, b)
        ),
        "the answers are the wrong way round: a positive logit says sorted": every(lambda a, b: (-a, b)),
        "every item counts as answered sorted: the numbers that are compared are no logits": every(
            lambda a, b: (np.ones_like(a), b)
        ),
    } | single


@kept_in(RULES, "score")
def score_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    wanted_keys = list(right[0])
    for value in values:
        if not isinstance(value, dict):
            return f"it should return a dictionary with {', '.join(map(repr, wanted_keys))}"
        if missing := [name for name in wanted_keys if name not in value]:
            return f"{missing[0]!r} is missing in the dictionary that it returns"

    def differs(name: str) -> list[int]:
        return [i for i in range(len(calls)) if not same(values[i][name], right[i][name])]

    parts = [answer("score", changed(calls[0], batches=[batch]))["value"] for batch in calls[0]["batches"]]
    for name in wanted_keys[:3]:
        if 0 in differs(name) and same(values[0][name], float(np.mean([part[name] for part in parts]))):
            return "batches of unequal size count alike: the mean of batch means is not the mean over items"
        if 0 in differs(name) and same(values[0][name], parts[-1][name]):
            return "only the last batch is counted"
        if 0 in differs(name) and same(values[0][name], parts[0][name]):
            return "only the first batch is counted"
    sorted_share, said_share = wanted_keys[1:3]
    if all(
        same(v[sorted_share], r[said_share]) and same(v[said_share], r[sorted_share])
        for v, r in zip(values, right, strict=True)
    ):
        return "the two shares have changed places: one is of the labels, one of the answers"
    if differs(said_share) and all(same(v[said_share], r[sorted_share]) for v, r in zip(values, right, strict=True)):
        return "the share of answers is that of the labels, so a constant prediction can hide"
    balanced = [balanced_accuracy(call) for call in calls]
    if differs("accuracy") and all(same(v["accuracy"], b) for v, b in zip(values, balanced, strict=True)):
        return "this is the balanced accuracy, the mean of both classes; accuracy is the share of right answers"
    if wrong := differs("constant prediction"):
        said = values[wrong[0]]["constant prediction"]
        if said:
            return (
                "a varied prediction is called constant: an accuracy that equals "
                "a class share is no proof, look at the answers"
            )
        return "a constant prediction is not noticed: every answer is the same, whatever the accuracy"
    return ""


def balanced_accuracy(call: Call) -> float:
    logits, labels = (np.concatenate([numbers(batch[i]) for batch in call["batches"]]) for i in (0, 1))
    hit, labels = (logits > 0) == labels.astype(bool), labels.astype(bool)
    return float((hit[labels].mean() + hit[~labels].mean()) / 2)


@kept_in(MAKERS, "hard_negative")
def make_hard_negative(draw: np.random.Generator) -> list[Call]:
    plain = sorted(draw.choice(100, size=10, replace=False).tolist())
    ties = [5, 5, 5, 5, 9, 9, 9, 9]
    some_draws = [given_object("random", x=int(x)) for x in draw.integers(10**6, size=12)]
    shared = [{"sequence": plain, "draw": each} for each in some_draws[:8]]
    return shared + [{"sequence": ties, "draw": each} for each in some_draws[8:]]


def swapped_places(call: Call, value: Any) -> list[int] | None:
    """Where the result differs from the sorted sequence; None if it is no list of as many numbers."""
    found = as_array(value)
    if found is None or found.shape != (len(call["sequence"]),):
        return None
    return np.flatnonzero(found != np.array(call["sequence"])).tolist()


@kept_in(ACCEPTED, "hard_negative")
def hard_negative_accepted(call: Call, value: Any, right: Any) -> bool:
    places = swapped_places(call, value)
    if places is None or len(places) != 2 or places[1] != places[0] + 1:
        return False
    i, j = places
    return value[i] == call["sequence"][j] and value[j] == call["sequence"][i]


@kept_in(TOGETHER, "hard_negative")
def hard_negative_together(calls: list[Call], values: list[Any]) -> list[int]:
    places = {tuple(swapped_places(call, value) or ()) for call, value in zip(calls[:8], values[:8], strict=True)}
    return [0] if len(places) == 1 else []


@kept_in(RULES, "hard_negative")
def hard_negative_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    plain = [hard_negative_accepted(call, value, None) for call, value in zip(calls[:8], values[:8], strict=True)]
    if all(plain) and hard_negative_together(calls, values):
        return "the same place is changed every time: a model could learn to look there and nowhere else"
    for call, value in zip(calls, values, strict=True):
        places = swapped_places(call, value)
        if places is None:
            return "it should return a list of as many numbers as the sequence has"
        if sorted(value) != sorted(call["sequence"]):
            return "values are changed; a hard negative has the same values in another order"
        if not places:
            return "the sequence is still sorted: two equal neighbours have changed places, or none at all"
        if len(places) > 2:
            return "more than one pair has changed places; the hardest item has one mistake only"
        if places[1] != places[0] + 1:
            return "the values that change places are no neighbours, which is easier to see"
    return ""


@kept_in(MAKERS, "extrapolation")
def make_extrapolation(draw: np.random.Generator) -> list[Call]:
    made = []
    for seed, lengths in enumerate(((12, 16, 32, 64, 128), (16, 24, 48))):
        sets = {}
        for length in lengths:
            rows = np.sort(draw.integers(100, size=(30, length)), axis=1)
            wrong = draw.random(30) < 0.55
            for row in np.flatnonzero(wrong):
                i = draw.choice(np.flatnonzero(np.diff(rows[row]) > 0))
                rows[row, [i, i + 1]] = rows[row, [i + 1, i]]
            sets[str(length)] = {"tokens": array(rows, "int64"), "labels": array((np.diff(rows) >= 0).all(1), "bool")}
        made.append({"model": given_object("classifier", seed=seed), "sets": sets})
    return made


@kept_in(VARIANTS, "extrapolation")
def extrapolation_variants(call: Call) -> dict[str, Call]:
    def part(items: dict[str, Any]) -> dict[str, Any]:
        return {name: array(numbers(each)[:1], each["dtype"]) for name, each in items.items()}

    return {
        "long sequences are cut to 16: the model must read them whole": quirky(call, "model", reads=16),
        "long sequences are cut to 32: the model must read them whole": quirky(call, "model", reads=32),
        "each length is tested on one item": changed(call, sets={n: part(items) for n, items in call["sets"].items()}),
    }


@kept_in(RULES, "extrapolation")
def extrapolation_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for value, wanted in zip(values, right, strict=True):
        if not isinstance(value, dict):
            return "it should return a dictionary with an entry for each length"
        missing = [length for length in wanted if length not in value]
        beyond = [length for length in missing if int(length) > 16]
        if beyond and len(missing) < len(wanted):
            return (
                f"length {beyond[0]} is missing, and so may be the first one that training never showed: test them all"
            )
        if missing:
            return f"length {missing[0]} is missing; every set has its own row"
        for length, row in wanted.items():
            if not isinstance(value[length], dict):
                return "each length needs a dictionary as `score` returns it, so that constant predictions show"
            if absent := [name for name in row if name not in value[length]]:
                return f"{absent[0]!r} is missing at length {length}; `score` returns all that is needed"
        rows = [value[length]["accuracy"] for length in wanted]
        if len(rows) > 1 and same(rows, [rows[0]] * len(rows)):
            return "every length has the same accuracy: each set is scored by itself"
        for length, row in wanted.items():
            if not same(value[length], row):
                name = next(name for name in row if not same(value[length].get(name), row[name]))
                return (
                    f"at length {length} {name!r} is {short(value[length].get(name))} where {short(row[name])} "
                    "is right: which items, and which part of them, does the model read"
                )
    return ""


# --- problem 2: the certificate --------------------------------------------------------------------------------------


@kept_in(MAKERS, "rejected_sorted")
def make_rejected(draw: np.random.Generator) -> list[Call]:
    made = []
    for size in (3, 5):
        a, b, c = (np.arange(size).reshape(shape) for shape in ((-1, 1, 1), (1, -1, 1), (1, 1, -1)))
        middle = np.where((a <= b) & (b <= c), 1.0, -1.0) + 0.3 * draw.normal(size=(size,) * 3)
        first, last = (
            np.where(a[:, :, 0] <= b[:, :, 0], 1.0, -1.0) + 0.2 * draw.normal(size=(size, size)) for _ in range(2)
        )
        first[0, 1], first[1, 1], last[0, 2], last[2, 2] = -0.4, -0.2, -0.3, 0.0
        middle[0, 1, 1], middle[1, 1, 1], middle[0, 1, 2], middle[0, 0, 2] = -0.5, -0.1, 0.0, -0.3
        first[2, 0], last[1, 0], middle[2, 1, 0], middle[1, 1, 0] = -1.0, -1.0, -1.0, -0.6
        made.append({"first": array(first), "middle": array(middle), "last": array(last)})
    fine = {name: np.ones((3,) * (3 if name == "middle" else 2)) for name in ("first", "middle", "last")}
    return [*made, {name: array(table) for name, table in fine.items()}]


@kept_in(ACCEPTED, "rejected_sorted")
def rejected_accepted(call: Call, value: Any, right: Any) -> bool:
    """In any order, pairs and triples, each once or more often."""
    if not isinstance(value, list) or not all(isinstance(each, list) for each in value):
        return False
    return {tuple(each) for each in value} == {tuple(each) for each in right}


def triples(sequences: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    return {each for each in sequences if len(each) == 3}


@kept_in(RULES, "rejected_sorted")
def rejected_rule(calls: list[Call], values: list[Any], right: list[Any], answer: Answer) -> str:
    for call, value, wanted in zip(calls, values, right, strict=True):
        if not isinstance(value, list) or any(not isinstance(each, list) or len(each) not in (2, 3) for each in value):
            return "it should return a list of pairs and triples of values"
        found, expected = {tuple(each) for each in value}, {tuple(each) for each in wanted}
        missing, added = expected - found, found - expected
        if any(list(each) != sorted(each) for each in added):
            each = next(each for each in sorted(added) if list(each) != sorted(each))
            return f"{list(each)} is named, which is not sorted: part (a) is about sorted sequences only"
        tables = {name: numbers(call[name]) for name in ("first", "middle", "last")}
        if missing and all(
            0.0 in (tables["first"][e], tables["last"][e]) if len(e) == 2 else tables["middle"][e] == 0 for e in missing
        ):
            return "a logit of exactly 0 is let pass; a token accepts only if its logit is positive"
        levels = [tables["middle"][each] for each in triples(found)]
        if levels and min(levels) >= 0 and max(levels) > 0:
            return "these are sequences whose tokens accept: a token rejects if its logit is not positive"
        tied = [each for each in missing if len(set(each)) < len(each)]
        if tied and len(tied) == len(missing):
            return f"{list(sorted(tied)[0])} is left out: equal neighbours are in order, too"
        if missing and not any(len(each) == 3 for each in found) and any(len(each) == 3 for each in missing):
            return "no triple is checked: in longer sequences a token has two neighbours"
        if missing and not any(len(each) == 2 for each in found) and any(len(each) == 2 for each in missing):
            return "no pair is checked: the first and the last token have one neighbour only, and tables of their own"
        half = [each for each in missing if len(each) == 2 and max(tables["first"][each], tables["last"][each]) > 0]
        if half and len(half) == len(missing) and len({bool(tables["first"][each] > 0) for each in half}) == 2:
            return f"{list(half[0])} is left out, though one of its tokens rejects: one is enough"
        pairs = {each for each in missing if len(each) == 2}
        if pairs and all(tables["first"][e] > 0 for e in pairs):
            return "the table of last tokens is not checked"
        if pairs and all(tables["last"][e] > 0 for e in pairs):
            return "the table of first tokens is not checked"
        if added:
            return (
                f"{list(sorted(added)[0])} is named, though all its tokens "
                "accept: in which order are the tables indexed"
            )
        if missing:
            return f"{list(sorted(missing)[0])} is left out, though one of its tokens rejects"
    return ""
