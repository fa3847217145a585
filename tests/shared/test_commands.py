"""Command lines: every option is there, nothing is guessed, and what a user did wrong is told in one sentence."""

import argparse
import math
import sys
from dataclasses import dataclass, fields

import pytest

from problem1.shared.commands import (
    Parser,
    add_recipe_options,
    add_sweep_options,
    one_sentence,
    parse_bool,
    parse_count,
    parse_float,
    parse_int,
    parse_part,
    recipe_from,
)
from problem1.shared.errors import UserError
from problem1.shared.grid import RunsFailed
from problem1.shared.training import Recipe, option

PROGRAM = "python -m something"
ODD = ["nan", "inf", "-1", "0", "1e12", "", "text"]


@dataclass(frozen=True)
class OwnRecipe(Recipe):
    data: str = option("exact", "old or new items", choices=["exact", "online"])
    label: str = option("mine", "a word of your own")
    smooth: bool = option(False, "start smoothly")
    swap: bool = option(True, "both orders")


@pytest.fixture
def run(monkeypatch):
    """What a command with all shared options makes of its arguments: they and the recipe."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["something", *arguments])
        parser = Parser(prog=PROGRAM)
        add_recipe_options(parser, OwnRecipe)
        add_sweep_options(parser, "problem9", seeds=7)
        parser.add_argument("--overwrite", action="store_true")
        parsed = parser.parse_args()
        with one_sentence(parser.prog):
            return parsed, recipe_from(parsed, OwnRecipe)

    return run


def told(capsys, run, *arguments):
    """Exit status and words of a command that does not run."""
    with pytest.raises(SystemExit) as end:
        run(*arguments)
    code, printed = end.value.code, capsys.readouterr().err
    return (1, f"{code}\n") if isinstance(code, str) else (code, printed)


# --- options ---------------------------------------------------------------------------------------------------------


def test_help_shows_every_option_with_its_words_and_its_default(run, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as end:
        run("--help")
    shown = " ".join(capsys.readouterr().out.split())
    kinds = {"data": "exact|online", "label": "text", "smooth": "yes|no", "swap": "yes|no"}
    for entry in fields(OwnRecipe):
        kind = kinds.get(entry.name, entry.type.__name__)
        default = entry.default if entry.default != "" else "none"
        default = {False: "no", True: "yes"}[default] if entry.type is bool else default
        assert f"--{entry.name.replace('_', '-')} {kind} {entry.metadata['help']} (default {default})" in shown
    assert end.value.code == 0 and "--seeds SEEDS how many (default 7)" in shown
    assert "--part K/N do only the K-th of N parts: a machine's share" in shown
    assert (
        "--extend begin with the rows in problem9/published, if there are any, so that only other runs are done"
        in shown
    )
    assert "--publish write to problem9/published what the notebooks study" in shown


def test_without_arguments_everything_has_its_default(run):
    arguments, recipe = run()
    assert recipe == OwnRecipe() and arguments.seeds == 7 and arguments.part == (1, 1)
    assert not (arguments.extend or arguments.publish or arguments.overwrite)


def test_every_option_reaches_the_recipe(run):
    values = {"seed": 3, "steps": 5, "batch_size": 2, "learning_rate": 0.5, "weight_decay": 0.25, "ema_decay": 0.75}
    values |= {"warmup": 0.125, "clip": 2.5, "evaluate_every": 4, "data": "online", "label": "a b", "smooth": True}
    values |= {"swap": False}
    words = {True: "yes", False: "no"}
    given = [f"--{n.replace('_', '-')}={words[v] if isinstance(v, bool) else v}" for n, v in values.items()]
    arguments, recipe = run(*given, "--seeds", "2", "--part", "2/3", "--extend", "--publish")
    assert set(values) == {entry.name for entry in fields(OwnRecipe)} and recipe == OwnRecipe(**values)
    assert arguments.seeds == 2 and arguments.part == (2, 3) and arguments.extend and arguments.publish


@pytest.mark.parametrize(
    ("given", "old", "new"),
    [
        (["--average", "0.9"], "--average", "is now called --ema-decay"),
        (["--average=0.9"], "--average", "is now called --ema-decay"),
        (["--fresh"], "--fresh", "is now called --overwrite"),
        (["--steps", "5", "--scheduler", "x"], "--scheduler", "is gone; --part 1/2 does one machine's share"),
    ],
)
def test_a_renamed_option_gets_a_sentence_with_its_new_name(run, capsys, given, old, new):
    expected = f"{PROGRAM}: {old} {new} (--help shows all options)\n"
    assert told(capsys, run, *given) == (2, expected)


def test_an_old_name_is_not_sent_to_an_option_that_the_command_does_not_have(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["command", "--fresh"])
    with pytest.raises(SystemExit):
        Parser(prog="command").parse_args()
    assert "unrecognized arguments: --fresh" in capsys.readouterr().err


def test_a_command_that_has_an_option_of_an_old_name_keeps_it(monkeypatch, capsys):
    parser = Parser(prog=PROGRAM)
    parser.add_argument("--fresh", action="store_true")
    monkeypatch.setattr(sys, "argv", ["something", "--fresh"])
    assert parser.parse_args().fresh
    monkeypatch.setattr(sys, "argv", ["something", "--fresh", "--web"])
    _, words = told(capsys, parser.parse_args)
    assert words == f"{PROGRAM}: unrecognized arguments: --web (--help shows all options)\n"


@pytest.mark.parametrize("short", ["--learning", "--batch", "--step", "--ext", "--over"])
def test_options_are_written_out(run, capsys, short):
    status, words = told(capsys, run, f"{short}=1")
    assert status == 2 and words == f"{PROGRAM}: unrecognized arguments: {short}=1 (--help shows all options)\n"


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [entry.name for entry in fields(OwnRecipe)] + ["seeds", "part"])
def test_every_odd_value_of_an_option_is_taken_or_named_in_one_sentence(run, capsys, name):
    """With status 2 if it cannot be read, with 1 if the recipe does not allow it."""
    flag = f"--{name.replace('_', '-')}"
    for text in ODD:
        try:
            _, recipe = run(f"{flag}={text}")
        except SystemExit as end:
            words = end.code if isinstance(end.code, str) else capsys.readouterr().err.removesuffix("\n")
            number = name not in ("data", "label") and isinstance(end.code, str)
            value = type(getattr(OwnRecipe, name))(text) if number else text
            begin = f"{name} is {value!r}; " if isinstance(end.code, str) else f"argument {flag}: {text!r} is "
            assert words.startswith(f"{PROGRAM}: {begin}") and "\n" not in words
        else:
            assert str(getattr(recipe, name)) in (text, f"{text}.0")


def test_a_learning_rate_that_is_no_number_is_not_called_diverged(run, capsys):
    expected = f"{PROGRAM}: learning_rate is nan; it must be between 1e-09 and 10.\n"
    assert told(capsys, run, "--learning-rate", "nan") == (1, expected)


@pytest.mark.parametrize(
    ("parse", "values", "sentence"),
    [
        (parse_int, {"-1": -1, "0": 0, "1001": 1_001}, "is not a whole number"),
        (
            parse_float,
            {"-1": -1.0, "0": 0.0, "1001": 1001.0, "1e12": 1e12, "inf": math.inf, "nan": math.nan},
            "is not a number",
        ),
        (parse_count, {"1": 1, "1000": 1_000}, "is not a whole number from 1 to 1000"),
        (parse_part, {"1/1": (1, 1), "2/3": (2, 3)}, "is not a part like 1/2 or 2/2"),
        (parse_bool, {"yes": True, "no": False}, "is neither yes nor no"),
    ],
)
def test_a_value_is_read_or_refused_with_what_it_should_be(parse, values, sentence):
    for text, value in values.items():
        found = parse(text)
        assert type(found) is type(value) and found == pytest.approx(value, rel=0, nan_ok=True)
    for text in {*ODD, "1.5x", "1001", "0/2", "3/2", "1/", "/2", "-1/2", "1/2/3", "Yes", "true"} - {*values}:
        with pytest.raises(argparse.ArgumentTypeError) as error:
            parse(text)
        assert str(error.value) == f"{text!r} {sentence}"


# --- one sentence ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (UserError("steps is 0."), "steps is 0."),
        (RunsFailed("1 of 2 runs failed."), "1 of 2 runs failed."),
        (KeyboardInterrupt(), "stopped"),
        (KeyboardInterrupt("stopped at step 3"), "stopped at step 3"),
    ],
)
def test_what_a_user_did_wrong_failed_runs_and_ctrl_c_end_with_one_sentence(capsys, error, sentence):
    """Python prints a text given to sys.exit and ends with status 1; tests of grids do it in processes."""
    with pytest.raises(SystemExit) as end, one_sentence(PROGRAM):
        raise error
    assert end.value.code == f"{PROGRAM}: {sentence}" and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("gone"), RuntimeError("another"), SystemExit(3)])
def test_any_other_error_is_ours_and_keeps_its_traceback(error):
    """A bug after two hours must not be told as if it were a wrong option."""
    with pytest.raises(type(error)) as raised, one_sentence(PROGRAM):
        raise error
    assert raised.value is error


def test_nothing_is_said_if_nothing_went_wrong(capsys):
    with one_sentence("something"):
        pass
    assert capsys.readouterr() == ("", "")
