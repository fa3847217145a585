"""Not an estimate: run the adder on every pair there is. `python -m problem1.every_pair` checks the published one."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from problem1 import published
from problem1.dataset import carry_facts, column_names, encode_pairs, every_pair, pair_count, to_digits
from problem1.model import Adder, load_adder
from problem1.shared.commands import Parser, one_sentence, parse_path
from problem1.shared.errors import UserError
from problem1.shared.parallel import parallel_map
from problem1.shared.storage import model_hash, write_json
from problem1.train import RESULTS, answers_right, run_pairs

BATCH = 9_000
DECODED_AT_ONCE = 1_000  # a model that is always wrong takes no more memory than one that is always right


def check_pairs(
    model: Adder, batches: Iterable[np.ndarray], total: int | None = None, progress: bool = True
) -> pd.DataFrame:
    """The pairs of these batches that greedy decoding gets wrong, with the model's answer."""
    name = "every pair" if progress else None
    found = parallel_map(lambda pairs: wrong_answers(model, pairs), batches, progress=name, total=total)
    return pd.DataFrame(np.concatenate([np.empty((0, 3), int), *found]), columns=["a", "b", "answer"])


def wrong_answers(model: Adder, pairs: np.ndarray) -> np.ndarray:
    """(wrong pairs, 3): a, b and what the model writes."""
    digits = model.shape["digits"]
    wrong = pairs[~answers_right(*run_pairs(model, pairs)).numpy()]
    sources = encode_pairs(wrong, digits)[0].split(DECODED_AT_ONCE)
    answers = np.concatenate([model.generate(source).numpy() for source in sources])
    return np.column_stack([wrong, answers @ 10 ** np.arange(digits, -1, -1)])


def check_every_pair(model: Adder, overwrite: bool = False, progress: bool = True) -> pd.DataFrame:
    """All wrong pairs of the input space. A stored result is read only if it was made by this very model."""
    key = model_hash(model)
    file = stored_check(key)
    if file and not overwrite:
        return pd.DataFrame(json.loads(file.read_text())["wrong"], columns=["a", "b", "answer"])
    digits, started = model.shape["digits"], time.process_time()
    count = pair_count(digits)
    if count > 10**8:
        raise UserError(f"there are {count:,} pairs of {digits}-digit numbers; at most 4 digits can be run whole.")
    wrong = check_pairs(model, every_pair(digits, BATCH), -(-count // BATCH), progress)
    seconds = round(time.process_time() - started, 1)
    result = {"model": key, "digits": digits, "pairs": count, "cpu seconds": seconds, "wrong": wrong.values.tolist()}
    write_json(published.check_file(key, RESULTS), result)
    return wrong


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
        wrong, digits = check_every_pair(model, arguments.overwrite), model.shape["digits"]
    print(f"{len(wrong):,} of {pair_count(digits):,} pairs wrong (model {model_hash(model)})")
    if len(wrong):
        print(error_table(wrong, digits).to_string(index=False), errors_by_digit(wrong, digits).to_string(), sep="\n\n")


if __name__ == "__main__":
    main()
