"""What the command lines share: options from a recipe, and one sentence instead of a traceback."""

import argparse
import contextlib
import sys
from dataclasses import fields


@contextlib.contextmanager
def one_sentence(program):
    """Bad input and Ctrl-C end a command with what there is to say, and nothing from inside torch."""
    try:
        yield
    except ValueError as error:
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


def parse_bool(text):
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text == "yes"
