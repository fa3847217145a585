"""What the command lines share: options from a recipe, those of a sweep, and one sentence instead of a traceback."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

from problem1.shared.errors import UserError
from problem1.shared.grid import PartDone, RunsFailed
from problem1.shared.training import Recipe

OLD_OPTIONS = {  # old: (the option to use instead, what to say)
    "--average": ("--ema-decay", "is now called --ema-decay"),
    "--fresh": ("--overwrite", "is now called --overwrite"),
    "--swap-operands": ("--swap", "is now --swap operands"),
    "--no-swap-operands": ("--swap", "is now --swap none"),
    "--scheduler": ("--part", "is gone; --part 1/2 does one machine's share"),
}

RecipeClass = TypeVar("RecipeClass", bound=Recipe)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose options are written out, and that knows what they were called before."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        for argument in sys.argv[1:]:
            old = argument.partition("=")[0]
            new, words = OLD_OPTIONS.get(old, ("", ""))
            if old not in self._option_string_actions and new in self._option_string_actions:
                message = f"{old} {words}"
        self.exit(2, f"{self.prog}: {message} (--help shows all options)\n")


@contextlib.contextmanager
def one_sentence(program: str) -> Iterator[None]:
    """What a user did wrong, failed runs, Ctrl-C and a part that is done end a command with what there is to say. Any
    other error is ours and keeps its traceback."""
    try:
        yield
    except (UserError, RunsFailed) as error:
        sys.exit(f"{program}: {error}")
    except PartDone as done:
        print(f"{program}: {done}")
        sys.exit()
    except KeyboardInterrupt as error:
        sys.exit(f"{program}: {error if error.args else 'stopped'}")


def add_recipe_options(parser: argparse.ArgumentParser, recipe_class: type[Recipe]) -> None:
    """One command-line option for each field of a recipe, so that a new field needs no further line. What its value may
    be is checked by the recipe."""
    for entry in fields(recipe_class):
        name, words = "--" + entry.name.replace("_", "-"), entry.metadata
        default, value_type = entry.default, entry.type
        shown = f"{words['help']} (default {default if default != '' else 'none'})"
        if value_type is bool:
            shown = f"{words['help']} (default {'yes' if default else 'no'})"
            parser.add_argument(name, default=default, type=parse_bool, metavar="yes|no", help=shown)
        elif words["choices"]:
            parser.add_argument(name, default=default, metavar="|".join(words["choices"]), help=shown)
        else:
            metavar, parse = PARSERS[value_type]
            parser.add_argument(name, default=default, type=parse, metavar=metavar, help=shown)


def recipe_from(arguments: argparse.Namespace, recipe_class: type[RecipeClass]) -> RecipeClass:
    return recipe_class(**{entry.name: getattr(arguments, entry.name) for entry in fields(recipe_class)})


def add_sweep_options(parser: argparse.ArgumentParser, package: str, seeds: int) -> None:
    parser.add_argument("--seeds", type=parse_count, default=seeds, help=f"how many (default {seeds})")
    parser.add_argument(
        "--part", type=parse_part, default=(1, 1), metavar="K/N", help="do only the K-th of N parts: a machine's share"
    )
    parser.add_argument(
        "--extend",
        action="store_true",
        help=f"begin with the rows in {package}/published, if there are any, so that only other runs are done",
    )
    parser.add_argument("--publish", action="store_true", help=f"write to {package}/published what the notebooks study")


# --- values ----------------------------------------------------------------------------------------------------------


def parse_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def parse_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1000")
    return int(text)


def parse_part(text: str) -> tuple[int, int]:
    number, slash, parts = text.partition("/")
    if not (slash and number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part like 1/2 or 2/2")
    return int(number), int(parts)


def parse_bool(text: str) -> bool:
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text == "yes"


def parse_path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("'' is not a path")
    return text


PARSERS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("int", parse_int),
    float: ("float", parse_float),
    str: ("text", str),
}
