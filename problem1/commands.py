"""What the command lines share: options from a recipe, those of a sweep, and one sentence instead of a traceback."""

import argparse
import contextlib
import sys
from dataclasses import fields

from problem1.grid import RunsFailed


@contextlib.contextmanager
def one_sentence(program):
    """Bad input, failed runs and Ctrl-C end a command with what there is to say, and nothing from inside torch."""
    try:
        yield
    except (ValueError, RunsFailed) as error:
        sys.exit(f"{program}: {error}")
    except KeyboardInterrupt as error:
        sys.exit(f"{program}: {error if error.args else 'stopped'}")


def add_recipe_options(parser, recipe_class):
    """One command-line option for each field of a recipe, so that a new field needs no further line."""
    for entry in fields(recipe_class):
        name, default, choices = "--" + entry.name.replace("_", "-"), entry.default, entry.metadata["choices"]
        if entry.type is bool:
            text = f"{entry.metadata['help']} (default {'yes' if default else 'no'})"
            parser.add_argument(name, default=default, type=parse_bool, metavar="yes|no", help=text)
        else:
            text, metavar = f"{entry.metadata['help']} (default {default})", None if choices else entry.type.__name__
            parser.add_argument(name, default=default, type=entry.type, choices=choices, metavar=metavar, help=text)


def recipe_from(arguments, recipe_class):
    return recipe_class(**{entry.name: getattr(arguments, entry.name) for entry in fields(recipe_class)})


def add_sweep_options(parser, package, seeds):
    parser.add_argument("--seeds", type=parse_count, default=seeds, help=f"how many (default {seeds})")
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="of a Dask cluster that does the runs, as tcp://HOST:8786"
    )
    parser.add_argument(
        "--extend",
        action="store_true",
        help=f"begin with the runs in {package}/published, so that only others are done",
    )
    parser.add_argument("--publish", action="store_true", help=f"write to {package}/published what the notebooks study")


def parse_count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def parse_bool(text):
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text == "yes"
