"""The training loop's promises, on a model of four numbers that trains in milliseconds."""

import contextlib
import itertools
import json
import math
import threading
from dataclasses import dataclass, fields
from multiprocessing import get_context

import pytest
import torch
from torch import nn

from problem1.shared import training
from problem1.shared.errors import UserError
from problem1.shared.storage import load_tensors
from problem1.shared.training import (
    Recipe,
    TrainingRun,
    fit,
    one_thread,
    option,
    plot_log,
    progress_text,
    schedule,
    steps_per_epoch,
)
from tests.shared.processes import kill_me, killed_in, until

TINY = {"steps": 12, "evaluate_every": 4, "learning_rate": 0.1, "ema_decay": 0.5}
NAMES = [entry.name for entry in fields(Recipe)]


@dataclass(frozen=True)
class OwnRecipe(Recipe):
    data: str = option("exact", "old or new items", choices=["exact", "online"])
    smooth: bool = option(False, "yes or no")


class Line(nn.Module):
    """Dropout draws random numbers in every step."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.layer, self.dropout = nn.Linear(3, 1), nn.Dropout(0.3)

    def forward(self, x):
        return self.layer(self.dropout(x))


def draw(seed, step):
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1_000 * seed + step))
    return x, x.sum(1, keepdim=True)


def loss(model, batch):
    x, y = batch
    return ((model(x) - y) ** 2).mean()


def validate(model):
    value = loss(model, draw(99, 0)).item()
    return {"loss": value, "free-running accuracy": math.exp(-value)}


def train(folder, batch=None, validate=validate, overwrite=False, **changes):
    """The trained model and its log."""
    recipe = Recipe(**{**TINY, **changes})
    model = Line(recipe.seed)
    batch = batch or (lambda step: draw(recipe.seed, step))
    return model, fit(model, recipe, batch, loss, validate, folder, overwrite, progress=False)


def never(*_):
    raise AssertionError("there was nothing to do")


def fail_at(stop, error):
    def batch(step):
        if step == stop:
            raise error
        return draw(0, step)

    return batch


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def without_times(log):
    rows = [{name: value for name, value in row.items() if name != "cpu seconds"} for row in log["rows"]]
    return {**log, "rows": rows, "cpu seconds": 0}


@pytest.fixture(autouse=True)
def pictures(monkeypatch):
    """matplotlib takes most of such a training's time."""
    monkeypatch.setattr(training, "save_figure", lambda figure, path: path.touch())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody has stopped: its folder and its log."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(folder)[1]


# --- the recipe ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_value_that_cannot_be_gets_a_sentence_with_the_value_and_what_is_allowed(name):
    """A learning rate of nan does not wait until it is called diverged."""
    [entry] = [entry for entry in fields(Recipe) if entry.name == name]
    between = f"it must be between {entry.metadata['low']} and {entry.metadata['high']}."
    numbers = [-1, 10**12] if entry.type is int else [-1.0, 1e12, math.nan, math.inf, -math.inf]
    others = ["1", None, True, [1]] + [1.5, math.nan] * (entry.type is int)
    sentences = [(value, between) for value in numbers]
    sentences += [(value, f"it must be of type {entry.type.__name__}.") for value in others]
    for value, allowed in sentences:
        with pytest.raises(UserError) as error:
            Recipe(**{name: value})
        assert str(error.value) == f"{name} is {value!r}; {allowed}"


@pytest.mark.parametrize("name", NAMES)
def test_both_ends_of_a_range_are_allowed(name):
    [about] = [entry.metadata for entry in fields(Recipe) if entry.name == name]
    for end in ("low", "high"):
        assert getattr(Recipe(**{name: about[end]}), name) == about[end]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"data": "web"}, "data is 'web'; choose from exact, online."),
        ({"data": "fresh"}, "data is 'fresh'; it is now called 'online'."),
        ({"data": "stream"}, "data is 'stream'; it is now called 'online'."),
        ({"data": "worst"}, "data is 'worst'; choose from exact, online."),  # 'min' is no data
        ({"data": None}, "data is None; it must be of type str."),
        ({"smooth": 1}, "smooth is 1; it must be of type bool."),
        ({"smooth": "yes"}, "smooth is 'yes'; it must be of type bool."),
    ],
)
def test_a_word_that_is_no_choice_gets_a_sentence_and_an_old_word_the_new_one(values, sentence):
    with pytest.raises(UserError) as error:
        OwnRecipe(**values)
    assert str(error.value) == sentence


def test_recipes_that_differ_anywhere_have_different_keys_and_the_same_recipe_has_one():
    changes = [{entry.name: entry.metadata["high"]} for entry in fields(Recipe)]
    changes += [{}, {"data": "online"}, {"smooth": True}, {"seed": 1}, {"seed": 11}, {"steps": 1}, {"clip": 1.0001}]
    keys = [OwnRecipe(**change).key for change in changes]
    assert len(set(keys)) == len(changes) and {len(key) for key in keys} == {6}
    assert keys == [OwnRecipe(**change).key for change in changes]


@pytest.mark.parametrize(
    ("one", "other"), [({"clip": 1}, {"clip": 1.0}), ({"weight_decay": -0.0}, {"weight_decay": 0})]
)
def test_one_recipe_has_one_key_however_its_numbers_are_written(one, other):
    assert Recipe(**one).key == Recipe(**other).key


def test_an_epoch_of_the_assignments_10000_items_is_157_batches_of_64():
    assert [steps_per_epoch(items, 64) for items in (1, 64, 65, 10_000)] == [1, 1, 2, 157]


@pytest.mark.parametrize(("steps", "warmup", "rises"), [(100, 0.1, 10), (100, 0.0, 1), (100, 0.99, 99), (1, 0.1, 1)])
def test_the_learning_rate_rises_in_a_line_and_falls_along_half_a_cosine(steps, warmup, rises):
    recipe = Recipe(steps=steps, warmup=warmup, learning_rate=2.0)
    rates = [schedule(step, recipe) for step in range(steps)]
    assert rates[:rises] == pytest.approx([2 * (step + 1) / rises for step in range(rises)])
    falls = steps - rises
    assert rates[rises:] == pytest.approx([1 + math.cos(math.pi * step / falls) for step in range(falls)])
    assert min(rates) > 0


# --- a step ----------------------------------------------------------------------------------------------------------


def test_a_step_takes_the_scheduled_rate_a_bounded_gradient_and_decays_matrices_only(tmp_path):
    recipe = Recipe(**TINY, clip=0.01, weight_decay=0.7)
    run = TrainingRun(Line(), recipe, tmp_path, overwrite=False)
    for step in (0, 5, 11):
        run.train_one_step(step, draw(0, step), lambda model, batch: 1_000 * loss(model, batch))
        assert {group["lr"] for group in run.optimizer.param_groups} == {schedule(step, recipe)}
        norm = torch.cat([p.grad.flatten() for p in run.model.parameters()]).norm()
        assert norm == pytest.approx(0.01, rel=1e-3)
    decays = {id(p): group["weight_decay"] for group in run.optimizer.param_groups for p in group["params"]}
    assert decays == {id(run.model.layer.weight): 0.7, id(run.model.layer.bias): 0.0}


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9])
def test_what_is_validated_is_the_average_of_the_weights_without_dropout(tmp_path, decay):
    model, after, seen = Line(), [], []

    def batch(step):
        after.append(model.layer.weight.detach().clone())  # of the step before
        return draw(0, step)

    def look(averaged):
        assert not averaged.training
        seen.append(averaged.layer.weight.clone())
        return validate(averaged)

    fit(model, Recipe(**{**TINY, "evaluate_every": 1, "ema_decay": decay}), batch, loss, look, tmp_path, False, False)
    average = after[1]
    for weight, found in zip(after[1:], seen[:-1], strict=True):
        average = decay * average + (1 - decay) * weight
        torch.testing.assert_close(found, average)


def test_the_training_loss_of_a_row_is_the_mean_since_the_row_before(tmp_path, whole):
    _, log = train(tmp_path, evaluate_every=1)
    each = [row["training loss"] for row in log["rows"]]
    expected = [sum(each[begin : begin + 4]) / 4 for begin in (0, 4, 8)]
    assert [row["training loss"] for row in whole[1]["rows"]] == pytest.approx(expected)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_there_is_a_row_for_each_validation_and_the_last_step_is_validated(tmp_path):
    _, log = train(tmp_path, steps=10)
    assert [row["step"] for row in log["rows"]] == [4, 8, 10]


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path, whole):
    train(tmp_path / "same")
    train(tmp_path / "other", seed=1)
    assert weights(tmp_path / "same") == weights(whole[0]) != weights(tmp_path / "other")


@pytest.mark.parametrize(("losses", "best"), [([3.0, 1.0, 2.0], 1), ([1.0, 1.0, 1.0], 0), ([3.0, 2.0, 1.0], 2)])
def test_the_weights_of_the_lowest_validation_loss_are_kept_and_loaded(tmp_path, losses, best):
    seen, script = [], iter(losses)

    def scripted(model):
        seen.append({name: p.clone() for name, p in model.named_parameters()})
        return {"loss": next(script)}

    model, log = train(tmp_path, validate=scripted)
    stored, about = load_tensors(tmp_path / "model.safetensors")
    assert log["best step"] == about["step"] == 4 * (best + 1)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, seen[best][name]) and torch.equal(stored[name], seen[best][name])
    assert not model.training


def test_a_finished_run_is_loaded_without_a_step(whole):
    before = contents(whole[0])
    assert set(before) == {"model.safetensors", "training_log.json", "training_curves.png"}
    model, log = train(whole[0], batch=never, validate=never)
    stored, _ = load_tensors(whole[0] / "model.safetensors")
    assert all(torch.equal(parameter, stored[name]) for name, parameter in model.named_parameters())
    assert contents(whole[0]) == before and log == whole[1] == json.loads(before["training_log.json"])


@pytest.mark.parametrize("old", [{"seed": 1}, {}, {"batch": fail_at(5, ZeroDivisionError)}])
def test_overwrite_trains_again_from_the_start_whatever_is_there(tmp_path, whole, old):
    """A run of another recipe, of the same, or one that has not finished."""
    with contextlib.suppress(ZeroDivisionError):
        train(tmp_path, **old)
    steps = []
    train(tmp_path, batch=lambda step: steps.append(step) or draw(0, step), overwrite=True)
    assert steps == list(range(12)) and weights(tmp_path) == weights(whole[0])
    assert set(contents(tmp_path)) == set(contents(whole[0]))


@pytest.mark.parametrize("trouble", ["error", "nan", "Ctrl-C"])
def test_overwrite_keeps_the_old_run_until_there_is_something_new(tmp_path, trouble):
    train(tmp_path)
    before = contents(tmp_path)
    parts = {
        "error": {"batch": fail_at(3, ZeroDivisionError)},
        "nan": {"validate": lambda model: {"loss": math.nan}},
        "Ctrl-C": {"batch": fail_at(3, KeyboardInterrupt)},
    }
    with pytest.raises((ZeroDivisionError, UserError, KeyboardInterrupt)):
        train(tmp_path, overwrite=True, **parts[trouble])
    assert contents(tmp_path) == before and train(tmp_path, batch=never)[1]["finished"]


def test_once_there_is_something_new_the_old_run_is_no_longer_taken_for_finished(tmp_path, whole):
    train(tmp_path, seed=1)
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, batch=fail_at(5, ZeroDivisionError), overwrite=True)
    with pytest.raises(UserError, match="holds a run with seed=0, not 1"):
        train(tmp_path, seed=1)
    train(tmp_path)
    assert weights(tmp_path) == weights(whole[0])


@pytest.mark.parametrize("stop", [None, 5])
def test_a_folder_with_another_recipe_is_refused_in_one_sentence(tmp_path, stop):
    """Whether its run has finished or not."""
    if stop is None:
        train(tmp_path)
    else:
        with pytest.raises(ZeroDivisionError):
            train(tmp_path, batch=fail_at(stop, ZeroDivisionError))
    before = contents(tmp_path)
    with pytest.raises(UserError) as error:
        train(tmp_path, batch=never, learning_rate=0.2)
    assert str(error.value) == (
        f"{tmp_path} holds a run with learning_rate=0.1, not 0.2: choose another folder, or retrain with "
        "overwrite=True (--overwrite)."
    )
    assert contents(tmp_path) == before


def test_a_folder_that_cannot_be_written_gets_one_sentence():
    with pytest.raises(UserError, match=r"^/dev/null/x/.lock cannot be written: Not a directory.$"):
        train("/dev/null/x", batch=never)


# --- interruptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "stop"), [(ZeroDivisionError, 2), (ZeroDivisionError, 8), (KeyboardInterrupt, 10)])
def test_a_training_that_was_stopped_goes_on_from_its_checkpoint_to_the_same_weights_and_log(
    tmp_path, whole, error, stop
):
    with pytest.raises(error):
        train(tmp_path, batch=fail_at(stop, error))
    assert (tmp_path / "checkpoint.safetensors").exists() == (stop > 4)
    steps = []
    _, log = train(tmp_path, batch=lambda step: steps.append(step) or draw(0, step))
    assert steps == list(range(stop // 4 * 4, 12))
    assert weights(tmp_path) == weights(whole[0]) and without_times(log) == without_times(whole[1])
    assert set(contents(tmp_path)) == set(contents(whole[0]))


def die_at(call, name, folder):
    """Train, and be killed when the run asks for this for the n-th time."""
    owner = TrainingRun if hasattr(TrainingRun, name) else training
    original, calls = getattr(owner, name), itertools.count(1)

    def counted(*arguments):
        if next(calls) == call:
            kill_me()
        return original(*arguments)

    setattr(owner, name, counted)
    train(folder)


@pytest.mark.parametrize(
    ("call", "name", "goes_on"),
    [
        (3, "train_one_step", 0),
        (7, "train_one_step", 4),
        (2, "evaluate", 4),
        (1, "save_checkpoint", 0),  # the weights are new, the checkpoint is not
        (3, "save_checkpoint", 8),
        (1, "finish", 12),
        (1, "write_json", 12),  # the last thing that is missing is the log
    ],
)
def test_a_training_that_was_killed_goes_on_to_the_same_weights_and_log(tmp_path, whole, call, name, goes_on):
    """By kill -9, in a process of its own; tests of problem 1 kill its command at random moments."""
    killed_in(die_at, call, name, tmp_path)
    assert not (tmp_path / "training_log.json").exists()
    steps = []
    _, log = train(tmp_path, batch=lambda step: steps.append(step) or draw(0, step))
    assert steps == list(range(goes_on, 12))
    assert weights(tmp_path) == weights(whole[0]) and without_times(log) == without_times(whole[1])
    assert set(contents(tmp_path)) == set(contents(whole[0]))


def test_ctrl_c_says_which_checkpoint_is_kept(tmp_path):
    with pytest.raises(KeyboardInterrupt) as stopped:
        train(tmp_path, batch=fail_at(10, KeyboardInterrupt))
    assert str(stopped.value) == (
        "stopped at step 10; the checkpoint of step 8 is kept and the same call goes on from it"
    )
    assert load_tensors(tmp_path / "checkpoint.safetensors")[1]["rows"][-1]["step"] == 8


def test_ctrl_c_before_there_is_a_checkpoint_says_that_nothing_is_kept(tmp_path):
    with pytest.raises(
        KeyboardInterrupt, match="stopped at step 2; nothing is kept yet and the same call begins again"
    ):
        train(tmp_path, fail_at(2, KeyboardInterrupt))


def test_a_run_that_is_replaced_leaves_no_checkpoint_to_go_on_from(tmp_path, monkeypatch):
    """Killed between its first weights and its first checkpoint, a new run is not continued as the old one."""
    with pytest.raises(RuntimeError):
        train(tmp_path, fail_at(9, RuntimeError()), seed=0)

    def stop(self):
        raise RuntimeError

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(TrainingRun, "save_checkpoint", stop)
        train(tmp_path, overwrite=True)
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_checkpoint_that_a_killed_process_left_behind_goes_when_the_run_is_loaded(tmp_path):
    train(tmp_path)
    (tmp_path / "checkpoint.safetensors").write_text("left behind")
    train(tmp_path, never)
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_run_with_a_field_more_is_another_run(tmp_path):
    fit(Line(), OwnRecipe(**TINY, data="online"), lambda step: draw(0, step), loss, validate, tmp_path, progress=False)
    with pytest.raises(UserError, match="holds a run with data=online, not None"):
        train(tmp_path)


def test_a_training_that_diverges_says_so_in_one_sentence_and_keeps_what_was_good(tmp_path):
    losses = iter([2.0, math.nan])
    with pytest.raises(UserError) as error:
        train(tmp_path, validate=lambda model: {"loss": next(losses)})
    assert str(error.value) == "the training has diverged at step 8; try a learning_rate below 0.1."
    assert load_tensors(tmp_path / "model.safetensors")[1]["step"] == 4


def test_whoever_comes_second_to_a_training_waits_and_loads_what_the_first_has_trained(tmp_path):
    """Two sweeps, or a sweep and a notebook, may want the same model."""
    found = []

    def slow(step):
        (tmp_path / "begun").touch()
        until(lambda: (tmp_path / "go on").exists(), 30)
        return draw(0, step)

    first = get_context("fork").Process(target=train, args=(tmp_path / "run", slow))
    second = threading.Thread(target=lambda: found.append(train(tmp_path / "run", batch=never)))
    first.start()
    until(lambda: (tmp_path / "begun").exists())
    second.start()
    second.join(0.3)
    assert second.is_alive()
    (tmp_path / "go on").touch()
    second.join(30)
    first.join(30)
    assert first.exitcode == 0 and found[0][1]["finished"]


# --- the surroundings ------------------------------------------------------------------------------------------------


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_training_takes_one_thread_and_leaves_threads_and_random_numbers_as_they_were(tmp_path, two_threads):
    counts, recipe, model = [], Recipe(**TINY), Line()

    def batch(step):
        counts.append(torch.get_num_threads())
        return draw(0, step) if step < 9 or len(counts) > 10 else 1 / 0

    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        fit(model, recipe, batch, loss, validate, tmp_path, progress=False)
    assert torch.get_num_threads() == 2 and torch.equal(before, torch.get_rng_state())
    fit(model, recipe, batch, loss, validate, tmp_path, progress=False)
    assert torch.get_num_threads() == 2 and torch.equal(before, torch.get_rng_state())
    assert set(counts) == {1} and len(counts) == 14


def test_one_thread_ends_with_its_block_whatever_happens(two_threads):
    with pytest.raises(ZeroDivisionError), one_thread():
        assert torch.get_num_threads() == 1
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == 2


# --- the log ---------------------------------------------------------------------------------------------------------


def test_both_panels_of_the_curves_are_labelled_and_show_what_the_log_says(whole):
    rows = whole[1]["rows"]
    left, right = plot_log(whole[1]).axes
    assert (left.get_xlabel(), left.get_ylabel()) == ("step", "cross-entropy (nats)")
    assert (right.get_xlabel(), right.get_ylabel()) == ("step", "accuracy")
    assert plot_log(whole[1], "What it shows").get_suptitle() == "What it shows"
    shown = {line.get_label(): line.get_xydata().tolist() for axes in (left, right) for line in axes.lines}
    names = ["training loss", "validation loss", "validation free-running accuracy"]
    assert shown == {name: [[row["step"], row[name]] for row in rows] for name in names}
    assert [text.get_text() for axes in (left, right) for text in axes.get_legend().get_texts()] == names


def test_without_accuracies_the_panel_is_empty_and_has_no_legend(whole):
    rows = [{"step": 4, "training loss": 1.0, "validation loss": 2.0}]
    _, right = plot_log({**whole[1], "rows": rows}).axes
    assert not right.lines and right.get_legend() is None


def test_the_curves_are_written_as_a_picture(tmp_path, monkeypatch):
    monkeypatch.undo()
    train(tmp_path)
    assert (tmp_path / "training_curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_progress_bar_shows_loss_and_free_running_accuracy():
    assert progress_text({"validation loss": 0.5}) == "loss 0.5000"
    row = {"validation loss": 0.5, "validation free-running accuracy": 0.25}
    assert progress_text(row) == "loss 0.5000, free-running 0.2500"
