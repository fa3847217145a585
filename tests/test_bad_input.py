"""Any value of any option of any command gives a result or one sentence that names it, never a traceback."""

import argparse
import importlib
import shutil
import sys

import pytest

from problem1 import dataset as pairs
from problem1.shared.storage import atomic_path
from problem2 import dataset as sequences
from problem2.certificate import Certificate, counterexamples

SHORT = ("--steps=1", "--evaluate-every=1", "--batch-size=8")
COMMANDS = {  # module -> arguments with which a valid value costs no more than a moment
    "problem1.train": (*SHORT, "--train-size=100", "--folder=HERE"),
    "problem1.every_pair": (),
    "problem1.analysis": (),
    "problem1.sweep": (),
    "problem1.flawed": (),
    "problem1.bench": (),
    "problem2.train": (*SHORT, "--folder=HERE"),
    "problem2.analysis": (),
    "problem2.certificate.command": (),
    "problem2.certificate.counterexamples": ("--folder=HERE",),
    "problem2.sweep": (),
    "problem2.flawed": (),
    "problem2.bench": (),
    "course.audit.command": (),
    "course.damage": (),
    "run": (),
    "pdf": (),
    "nbval_matrix": (),
}
VALUES = ("nan", "inf", "-1", "0", "1000000000000", "", "word", "missing.safetensors", "/dev/null/x", "/dev/null")


class Found(Exception):
    """The parser of a command, before it has read anything."""


def parser_of(module):
    def stop(parser, *_):
        raise Found(parser)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        try:
            importlib.import_module(module).main()
        except Found as found:
            return found.args[0]


def arguments_of(module):
    """Every option of a command, and every place for a value without one: '--seed=', ''."""
    actions = [action for action in parser_of(module)._actions if action.dest != "help"]
    return [f"{action.option_strings[-1]}=" if action.option_strings else "" for action in actions]


CASES = [(module, option) for module in COMMANDS for option in arguments_of(module)]


@pytest.fixture
def moments(monkeypatch):
    """Whatever takes more than a moment when a value is valid."""

    def never(*_, **__):
        raise AssertionError("it was accepted and begins to work")

    for problem in (pairs, sequences):
        for split, size in {"train": 200, "validation": 50, "test": 50}.items():
            monkeypatch.setitem(problem.SPLIT_SIZES, split, size)
    for work in ("problem1.sweep.run_grids", "problem2.sweep.run_grids", "problem1.bench.training_steps"):
        monkeypatch.setattr(work, never)
    for work in (
        "problem1.flawed.run_grid",
        "problem2.flawed.run_grid",
        "problem2.bench.measure",
        "nbval_matrix.check",
    ):
        monkeypatch.setattr(work, never)
    monkeypatch.setattr("run.run_all", lambda paths, in_place: (paths, []))
    monkeypatch.setattr("course.damage.try_folders", lambda *_: [])
    for tool in ("run", "pdf"):
        monkeypatch.setattr(f"{tool}.write_pdf", lambda paths, output, *_, **__: write_nothing(output))
    recipe = counterexamples.certified_recipe
    short = {"steps": 1, "evaluate_every": 1}
    monkeypatch.setattr(counterexamples, "certified_recipe", lambda seed: type(recipe())(seed=seed, **short))
    certificate = Certificate(1.0, -1.0, [2, 1], 1e-6, 0.0, 0.0, 0, [], 0.0)
    rounds = [{"cpu seconds": 0.0}]
    monkeypatch.setattr(counterexamples, "train_on_counterexamples", lambda *_, **__: (certificate, rounds))


def write_nothing(output):
    with atomic_path(output) as temporary:
        temporary.touch()


def end_of(module, arguments, monkeypatch, capsys):
    """(exit status, what a user sees on stderr) of a command; anything but an exit is a traceback."""
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    try:
        importlib.import_module(module).main()
    except SystemExit as ended:
        said = ended.code if isinstance(ended.code, str) else ""
        return (1 if said else ended.code or 0), capsys.readouterr().err + said
    return 0, capsys.readouterr().err


def ask(module, option, value, monkeypatch, capsys, folder):
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    usual = [part.replace("HERE", str(folder / "run")) for part in COMMANDS[module]]
    others = [part for part in usual if not option or not part.startswith(option)]
    given = [f"{option}{value}"] if option or value != "-1" else ["--", value]
    return end_of(module, [*others, *given], monkeypatch, capsys)


@pytest.mark.parametrize(("module", "option"), CASES)
def test_every_value_gives_a_result_or_one_sentence_that_names_it(
    module, option, moments, monkeypatch, capsys, tmp_path
):
    for value in VALUES:
        status, said = ask(module, option, value, monkeypatch, capsys, tmp_path / "here")
        if status == 0:
            shutil.rmtree(tmp_path / "here")
            continue
        sentence = said.strip().splitlines()[-1] if said.strip() else ""
        name = option.rstrip("=")
        named = (value and value in sentence) or name.lstrip("-").replace("-", "_") in sentence or name in sentence
        assert named and sentence.endswith((".", ")")) and said.count("\n") <= 1, (value, said)
        assert "Traceback" not in said


@pytest.mark.parametrize("module", COMMANDS)
def test_an_option_that_does_not_exist_gets_one_sentence(module, monkeypatch, capsys):
    status, said = end_of(module, ["--nonsense"], monkeypatch, capsys)
    assert status == 2 and "--nonsense" in said and "Traceback" not in said
    assert end_of(module, ["--help"], monkeypatch, capsys)[0] == 0


def test_the_parsers_of_all_commands_were_found():
    assert {option for module, option in CASES if module == "problem1.train"} >= {"--seed=", "--warmup=", "--folder="}
    assert ("problem2.certificate.command", "") in CASES and ("run", "--output=") in CASES and len(CASES) > 60
