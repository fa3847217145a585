"""Not an estimate: run the adder on every pair there is. `python -m problem1.every_pair` checks the published one.

The margin of a pair is by how much the right digit's logit exceeds all others, at the digit where that is least: a pair
is right exactly if its margin is positive. How far rounding can move a logit is measured beside it, in float64.
"""

import copy
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from problem1 import published
from problem1.dataset import (
    carry_facts,
    column_names,
    encode_pairs,
    every_pair,
    from_digits,
    operand_range,
    pair_count,
    to_digits,
)
from problem1.model import Adder, Answers, load_adder
from problem1.shared.commands import Parser, one_sentence, parse_path
from problem1.shared.errors import UserError
from problem1.shared.parallel import parallel_results
from problem1.shared.storage import model_hash, write_json
from problem1.train import RESULTS, run_pairs

BATCH = 9_000
DECODED_AT_ONCE = 1_000  # a model that is always wrong takes no more memory than one that is always right
CLOSEST = 1_000  # pairs of smallest margin that are kept
RANDOM_SUMS = 20_000  # on which float32 is compared with float64, beside the closest ones


@dataclass(frozen=True)
class Check:
    """What every pair says of an adder."""

    wrong: pd.DataFrame  # a, b, answer: what greedy decoding gets wrong
    closest: pd.DataFrame  # a, b, margin: the pairs of smallest margin, smallest first

    @property
    def margin(self) -> float:
        return float(self.closest["margin"].iloc[0])


def check_pairs(
    model: Answers, batches: Iterable[np.ndarray], total: int | None = None, progress: bool = True
) -> Check:
    """The pairs of these batches that greedy decoding gets wrong, and those that are nearest to it."""
    name = "every pair" if progress else None
    wrong, closest = [np.empty((0, 3), int)], np.empty((0, 3))
    for mistakes, near in parallel_results(lambda pairs: check_batch(model, pairs), batches, name, total):
        wrong.append(mistakes)
        closest = smallest_margins(np.concatenate([closest, near]))
    return Check(
        pd.DataFrame(np.concatenate(wrong), columns=["a", "b", "answer"]),
        pd.DataFrame(closest, columns=["a", "b", "margin"]).astype({"a": int, "b": int}),
    )


def check_batch(model: Answers, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of these pairs the wrong ones with the model's answers, the closest ones with their margins: (..., 3) each."""
    digits = model.shape["digits"]
    margin = margins(*run_pairs(model, pairs)).numpy()
    wrong = pairs[margin <= 0]
    sources = encode_pairs(wrong, digits)[0].split(DECODED_AT_ONCE)
    answers = np.concatenate([from_digits(model.generate(source).numpy()) for source in sources])
    return np.column_stack([wrong, answers]), smallest_margins(np.column_stack([pairs, margin]))


def margins(logits: Tensor, target: Tensor) -> Tensor:
    """(N,): the logit of the right digit minus the largest other one, at the digit where that is least. Where two are
    equal the margin is zero, and the answer counts as wrong: which of them is written depends on the machine."""
    others = logits.scatter(-1, target[..., None], -torch.inf).amax(-1)
    return (logits.gather(-1, target[..., None])[..., 0] - others).amin(-1)


def smallest_margins(rows: np.ndarray) -> np.ndarray:
    """The rows (a, b, margin) of smallest margin, smallest first; of equal ones those that came first."""
    return rows[np.argsort(rows[:, 2], kind="stable")[:CLOSEST]]


def check_every_pair(model: Adder, overwrite: bool = False, progress: bool = True) -> Check:
    """All pairs of the input space. A stored result is read only if it was made by this very model."""
    key = model_hash(model)
    file = stored_check(key)
    if file and not overwrite:
        return read_check(json.loads(file.read_text()))
    digits, started = model.shape["digits"], time.process_time()
    count = pair_count(digits)
    if count > 10**8:
        raise UserError(f"there are {count:,} pairs of {digits}-digit numbers; at most 4 digits can be run whole.")
    check = check_pairs(model, every_pair(digits, BATCH), -(-count // BATCH), progress)
    seconds = round(time.process_time() - started, 1)
    result = {"model": key, "digits": digits, "pairs": count, "cpu seconds": seconds}
    rows = {"wrong": check.wrong, "closest": check.closest}
    result |= {name: [list(row) for row in table.itertuples(index=False)] for name, table in rows.items()}
    write_json(published.check_file(key, RESULTS), result)
    return check


def read_check(result: dict[str, Any]) -> Check:
    wrong, closest = ("a", "b", "answer"), ("a", "b", "margin")
    return Check(pd.DataFrame(result["wrong"], columns=wrong), pd.DataFrame(result["closest"], columns=closest))


@torch.inference_mode()
def float64_difference(model: Adder, pairs: np.ndarray) -> float:
    """By how much the logits on these pairs change at most when the same weights compute in float64."""
    exact = copy.deepcopy(model).double()
    differences = [
        (run_pairs(exact, part)[0] - run_pairs(model, part)[0]).abs().max().item()
        for part in np.array_split(pairs, -(-len(pairs) // BATCH))
    ]
    return max(differences)


def rounding(model: Adder, check: Check) -> pd.DataFrame:
    """What float64 changes on `compared_pairs`, beside the smallest margin."""
    changes = {name: float64_difference(model, pairs) for name, pairs in compared_pairs(check).items()}
    rows = [{"sums": name, "largest change of a logit": f"{change:.0e}"} for name, change in changes.items()]
    return pd.DataFrame(rows).assign(**{"smallest margin of all sums": f"{check.margin:.1f}"}).set_index("sums")


def compared_pairs(check: Check, digits: int = 3) -> dict[str, np.ndarray]:
    """On what float32 is compared with float64."""
    return {
        f"{RANDOM_SUMS:,} random sums": random_pairs(RANDOM_SUMS, digits),
        f"the {len(check.closest):,} sums of smallest margin": check.closest[["a", "b"]].to_numpy(int),
    }


def random_pairs(count: int = RANDOM_SUMS, digits: int = 3, seed: int = 0) -> np.ndarray:
    low, high = operand_range(digits)
    return np.random.default_rng(seed).integers(low, high + 1, size=(count, 2))


def stored_check(key: str) -> Path | None:
    """The file that holds the result for the model of this hash, if there is one."""
    files = [published.check_file(key), published.check_file(key, RESULTS)]
    return next((file for file in files if file.exists()), None)


def error_table(wrong: pd.DataFrame, digits: int = 3) -> pd.DataFrame:
    """Wrong pairs by number of carries, longest chain and carry through a 9, beside all pairs of that sort."""
    space = pd.concat(carry_facts(pairs, digits).value_counts() for pairs in every_pair(digits, 90_000))
    space = space.groupby(level=[0, 1, 2]).sum()
    errors = carry_facts(wrong[["a", "b"]].to_numpy(int).reshape(-1, 2), digits).value_counts()
    table = pd.DataFrame({"pairs": space, "wrong": errors.reindex(space.index, fill_value=0)})
    table["wrong per million"] = table["wrong"] / table["pairs"] * 1e6
    return table.reset_index()


def errors_by_digit(wrong: pd.DataFrame, digits: int = 3) -> pd.Series:
    """In how many wrong answers each digit is wrong."""
    right, given = ((wrong["a"] + wrong["b"]).to_numpy(int), wrong["answer"].to_numpy(int))
    counts = (to_digits(right, digits + 1) != to_digits(given, digits + 1)).sum(0)
    return pd.Series(counts, index=column_names(digits), name="wrong")


def main() -> None:
    parser = Parser(prog="python -m problem1.every_pair", description="Check an adder on every pair.")
    parser.add_argument(
        "weights", type=parse_path, nargs="?", help="a model.safetensors (default: the published adder)"
    )
    parser.add_argument("--overwrite", action="store_true", help="check again even if the result is stored")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        model = load_adder(arguments.weights) if arguments.weights else published.published_adder()[0]
        check, digits = check_every_pair(model, arguments.overwrite), model.shape["digits"]
    wrong, nearest = check.wrong, check.closest.iloc[0]
    print(f"{len(wrong):,} of {pair_count(digits):,} pairs wrong (model {model_hash(model)})")
    print(f"smallest margin: {check.margin:.3f}, at {nearest['a']:.0f}+{nearest['b']:.0f}")
    for name, pairs in compared_pairs(check, digits).items():
        print(f"float64 differs by at most {float64_difference(model, pairs):.1e} on {name}")
    if len(wrong):
        print(error_table(wrong, digits).to_string(index=False), errors_by_digit(wrong, digits).to_string(), sep="\n\n")


if __name__ == "__main__":
    main()
