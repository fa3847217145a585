"""Not an estimate: run the adder on every pair there is. `python -m problem1.every_pair` checks the published one."""

import argparse
import json
import time

import numpy as np
import pandas as pd

from problem1.commands import one_sentence
from problem1.dataset import carry_facts, column_names, encode_pairs, every_pair, pair_count, to_digits
from problem1.model import load_adder
from problem1.parallel import parallel_map
from problem1.storage import weights_hash, write_json
from problem1.train import PUBLISHED, RESULTS, answers_right, run_pairs


def check_pairs(model, batches, total=None, progress=True):
    """The pairs of these batches that greedy decoding gets wrong, as a DataFrame with the model's answer."""

    def wrong_ones(pairs):
        return pairs[~answers_right(*run_pairs(model, pairs)).numpy()]

    found = parallel_map(wrong_ones, batches, progress="every pair" if progress else None, total=total)
    wrong = np.concatenate([np.empty((0, 2), int), *found])
    answers = model.generate(encode_pairs(wrong, model.shape["digits"])[0]).numpy() if len(wrong) else np.empty((0, 1))
    answers = answers @ 10 ** np.arange(answers.shape[1] - 1, -1, -1)
    return pd.DataFrame({"a": wrong[:, 0], "b": wrong[:, 1], "answer": answers.astype(int)})


def check_every_pair(model, fresh=False, progress=True):
    """All wrong pairs of the input space. A stored result is read only if it was made by these very weights."""
    key = weights_hash(model)
    file = stored_check(key)
    if file and not fresh:
        return pd.DataFrame(json.loads(file.read_text())["wrong"], columns=["a", "b", "answer"])
    digits, started, batch_size = model.shape["digits"], time.process_time(), 9_000
    count = pair_count(digits)
    if count > 10**8:
        raise ValueError(f"there are {count:,} pairs of {digits}-digit numbers; at most 4 digits can be run whole.")
    wrong = check_pairs(model, every_pair(digits, batch_size), -(-count // batch_size), progress)
    seconds = round(time.process_time() - started, 1)
    result = {"weights": key, "digits": digits, "pairs": count, "cpu seconds": seconds, "wrong": wrong.values.tolist()}
    write_json(RESULTS / "every_pair" / f"{key}.json", result)
    return wrong


def stored_check(key):
    """The file that holds the result for the weights of this hash, or None."""
    files = [folder / "every_pair" / f"{key}.json" for folder in (PUBLISHED, RESULTS)]
    return next((file for file in files if file.exists()), None)


def error_table(wrong, digits=3):
    """Wrong pairs by number of carries, longest chain and carry through a 9, beside all pairs of that kind."""
    space = pd.concat(carry_facts(pairs, digits).value_counts() for pairs in every_pair(digits, 90_000))
    space = space.groupby(level=[0, 1, 2]).sum()
    errors = carry_facts(wrong[["a", "b"]].to_numpy(int).reshape(-1, 2), digits).value_counts()
    table = pd.DataFrame({"pairs": space, "wrong": errors.reindex(space.index, fill_value=0)})
    table["wrong per million"] = table["wrong"] / table["pairs"] * 1e6
    return table.reset_index()


def errors_by_digit(wrong, digits=3):
    """In how many wrong answers each digit is wrong."""
    right, given = ((wrong["a"] + wrong["b"]).to_numpy(int), wrong["answer"].to_numpy(int))
    counts = (to_digits(right, digits + 1) != to_digits(given, digits + 1)).sum(0)
    return pd.Series(counts, index=column_names(digits), name="wrong")


def main():
    parser = argparse.ArgumentParser(prog="python -m problem1.every_pair", description="Check an adder on every pair.")
    parser.add_argument("weights", nargs="?", default=PUBLISHED / "adder.safetensors", help="default: published one")
    parser.add_argument("--fresh", action="store_true", help="check again even if a result for these weights is stored")
    arguments = parser.parse_args()
    with one_sentence(parser.prog):
        model = load_adder(arguments.weights)
        wrong, digits = check_every_pair(model, arguments.fresh), model.shape["digits"]
    print(f"{len(wrong):,} of {pair_count(digits):,} pairs wrong (weights {weights_hash(model)})")
    if len(wrong):
        print(error_table(wrong, digits).to_string(index=False), errors_by_digit(wrong, digits).to_string(), sep="\n\n")


if __name__ == "__main__":
    main()
