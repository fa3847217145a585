"""What is on disk is whole, whoever was killed while it was written, and says of which model it is."""

import json
import os
import pickle
import platform
import time
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from safetensors.torch import save_file
from torch import nn

from problem1.model import Adder
from problem1.shared import storage
from problem1.shared.errors import UserError
from problem1.shared.storage import (
    atomic_path,
    load_into,
    load_model,
    load_tensors,
    model_hash,
    one_process_at_a_time,
    save_figure,
    save_model,
    save_tensors,
    write_json,
    write_table,
)
from tests.shared.processes import kill_me, killed_in

FORK = get_context("fork")
WRITERS = {
    "json": lambda path: write_json(path, {"a": 1}),
    "table": lambda path: write_table(pd.DataFrame({"a": [1]}), path),
    "figure": lambda path: save_figure(Figure(), path),
    "tensors": lambda path: save_tensors(path, {"a": torch.ones(2)}, {}),
    "model": lambda path: save_model(Small(), path),
}


class Small(nn.Module):
    """Two matrices and a shape, in the manner of the project's models."""

    def __init__(self, width=2, n_heads=2, order=("first", "second")):
        super().__init__()
        self.shape = {"width": width, "n_heads": n_heads}
        for name in order:
            self.register_parameter(name, nn.Parameter(torch.arange(width * width).reshape(width, width) / 3))


class Other(Small):
    pass


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def path(tmp_path):
    """A file that is there already."""
    path = tmp_path / "here.png"
    path.write_bytes(b"old")
    return path


# --- whole or not at all ---------------------------------------------------------------------------------------------


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "table.csv"
    with atomic_path(path) as temporary:
        temporary.write_text("a")
        assert not path.exists() and temporary.suffix == ".csv"  # by which matplotlib and others know the format
        temporary.write_text("a,b")
    assert contents(path.parent) == {"table.csv": b"a,b"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(path, error):
    with pytest.raises(error), atomic_path(path) as temporary:
        temporary.write_text("ne")
        raise error
    assert contents(path.parent) == {path.name: b"old"}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_every_writer_replaces_the_old_file_or_says_in_one_sentence_why_not(path, write, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(storage.os, "replace", fail)
        with pytest.raises(UserError) as raised:
            write(path)
    assert str(raised.value) == f"{path} cannot be written: No space left on device."
    assert contents(path.parent) == {path.name: b"old"}
    write(path)
    assert contents(path.parent).keys() == {path.name} and path.read_bytes() != b"old"


def lock(path):
    with one_process_at_a_time(path):
        pass


@pytest.mark.parametrize("write", [*WRITERS.values(), lock], ids=[*WRITERS, "lock"])
def test_a_path_that_no_file_can_have_gets_one_sentence_that_names_it(write, tmp_path):
    folder = tmp_path / "folder.png"
    folder.mkdir()
    for path in ("/dev/null/x/here.png", folder):
        with pytest.raises(UserError, match=rf"^{path} .*\.$") as raised:
            write(path)
        assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_lock_that_the_system_refuses_gets_one_sentence(tmp_path, monkeypatch):
    def refuse(*_, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(storage, "FileLock", refuse)
    with pytest.raises(UserError, match=rf"^{tmp_path}/lock cannot be written: Read-only file system\.$"):
        lock(tmp_path / "lock")


def write_and_die(path):
    with atomic_path(path) as temporary:
        temporary.write_text("half of a pict")
        kill_me()


def test_a_killed_process_leaves_nothing_that_the_next_one_does_not_clear(path):
    killed_in(write_and_die, path)
    assert path.read_bytes() == b"old" and len(contents(path.parent)) == 2
    write_json(path, "new")
    assert contents(path.parent) == {path.name: b'"new"\n'}


def test_whether_a_process_of_another_machine_lives_is_not_for_us_to_say(path, monkeypatch):
    with monkeypatch.context() as there:
        there.setattr(platform, "node", lambda: "another-machine")
        killed_in(write_and_die, path)
    write_json(path, "new")
    assert sorted(contents(path.parent).values()) == [b'"new"\n', b"half of a pict"]


def test_of_two_writers_neither_clears_what_the_other_is_writing(path):
    begun, go_on = FORK.Event(), FORK.Event()

    def write_slowly():
        with atomic_path(path) as temporary:
            temporary.write_text("theirs")
            begun.set()
            go_on.wait(60)

    other = FORK.Process(target=write_slowly, daemon=True)
    other.start()
    assert begun.wait(60)
    write_json(path, "ours")
    assert path.read_bytes() == b'"ours"\n'
    go_on.set()
    other.join(60)
    assert other.exitcode == 0 and contents(path.parent) == {path.name: b"theirs"}


def test_a_table_has_six_significant_digits_and_no_index(tmp_path):
    table = pd.DataFrame({"seed": [1234567], "loss": [1 / 3], "p": [1.23456789e-9], "name": ["a, b"], "none": [None]})
    write_table(table, tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines == ["seed,loss,p,name,none", '1234567,0.333333,1.23457e-09,"a, b",']


# --- locks -----------------------------------------------------------------------------------------------------------


def start_locking(path):
    """A process that waits until it is told to, then for the lock. Returns it, `go` and `inside`."""
    go, inside = FORK.Event(), FORK.Event()

    def wait():
        go.wait(60)
        with one_process_at_a_time(path):
            inside.set()

    other = FORK.Process(target=wait, daemon=True)
    other.start()
    return other, go, inside


@pytest.mark.parametrize("fails", [False, True])
def test_a_second_process_waits_until_the_first_is_done_or_has_failed(tmp_path, fails):
    other, go, inside = start_locking(tmp_path / "lock")
    try:
        with one_process_at_a_time(tmp_path / "lock"):
            go.set()
            assert not inside.wait(0.3)
            if fails:
                raise RuntimeError
    except RuntimeError:
        pass
    assert inside.wait(10)
    other.join(10)
    assert other.exitcode == 0 and contents(tmp_path) == {}


def lock_and_die(path):
    with one_process_at_a_time(path):
        kill_me()


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    killed_in(lock_and_die, tmp_path / "lock")
    other, go, inside = start_locking(tmp_path / "lock")
    go.set()
    assert inside.wait(10)
    other.join(10)
    assert other.exitcode == 0 and contents(tmp_path) == {}


# --- tensors and models ----------------------------------------------------------------------------------------------


def test_tensors_and_what_is_said_about_them_are_read_as_they_were_written(tmp_path):
    tensors = {
        "turned": torch.arange(6.0).reshape(2, 3).T,
        "trained": nn.Parameter(torch.tensor([0.1, -0.0, 1e-40])),
        "step": torch.tensor(7),
        "mask": torch.tensor([True, False]),
    }
    about = {"shape": {"digits": 3, "options": {"clip": None}}, "rows": [1.5, "ä"]}
    save_tensors(tmp_path / "a.safetensors", tensors, about)
    found, said = load_tensors(tmp_path / "a.safetensors")
    assert said == about and found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(found[name], tensor.detach(), rtol=0, atol=0)
    content = (tmp_path / "a.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["about"]) == about  # plain JSON, then numbers: no pickle


class Payload:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("harm",)


FILES = {  # what a file holds -> the sentence
    None: "does not exist.",
    b"": "is not a readable safetensors file (",
    b"weights of a model": "is not a readable safetensors file (",
    pickle.dumps(Payload()): "is not a readable safetensors file (",
}


@pytest.mark.parametrize(("content", "sentence"), FILES.items(), ids=["missing", "empty", "text", "pickle"])
def test_what_is_no_file_of_tensors_gets_one_sentence_and_is_never_run(content, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as raised:
        load_tensors(path)
    assert str(raised.value).startswith(f"{path} {sentence}") and "\n" not in str(raised.value)
    assert not (tmp_path / "harm").exists()


def test_a_file_that_was_cut_or_whose_header_is_damaged_gets_one_sentence(tmp_path):
    path = tmp_path / "a.safetensors"
    save_tensors(path, {"a": torch.ones(100)}, {})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"a\.safetensors is not a readable safetensors file \(.*\)\.$"):
        load_tensors(path)
    save_file({"a": torch.ones(2)}, path, metadata={"about": '{"shape":'})
    with pytest.raises(UserError, match=r"a\.safetensors is not a readable safetensors file \(.*\)\.$"):
        load_tensors(path)


def test_a_file_of_somebody_else_says_nothing_about_itself(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "a.safetensors")
    assert load_tensors(tmp_path / "a.safetensors")[1] == {}


def test_a_model_is_loaded_as_it_was_saved_and_does_not_train(tmp_path):
    model = Small(3, n_heads=1)
    save_model(model, tmp_path / "a.safetensors", seed=4)
    loaded = load_model(tmp_path / "a.safetensors", Small, "width")
    assert model_hash(loaded) == model_hash(model) and not loaded.training
    assert load_tensors(tmp_path / "a.safetensors")[1] == {"shape": model.shape, "seed": 4}


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({}, "holds no small: its header names no width (it says {})."),
        ({"shape": {"digits": 3}}, 'holds no small: its header names no width (it says {"shape": {"digits": 3}}).'),
        ({"shape": "wide"}, 'holds no small: its header names no width (it says {"shape": "wide"}).'),
        ({"shape": {"width": 2, "heads": 4}}, 'is of another version: its header says {"width": 2, "heads": 4}.'),
    ],
)
def test_a_model_of_another_class_or_version_is_refused(about, sentence, tmp_path):
    path = tmp_path / "a.safetensors"
    save_tensors(path, dict(Small().named_parameters()), about)
    with pytest.raises(UserError) as raised:
        load_model(path, Small, "width")
    assert str(raised.value) == f"{path} {sentence}"


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"first": (2, 2)}, "second is missing in the file, (2, 2) in the model."),
        ({"first": (2, 2), "second": (2, 3)}, "second is (2, 3) in the file, (2, 2) in the model."),
        ({"first": (2, 2), "second": (2, 2), "third": (1,)}, "third is (1,) in the file, absent in the model."),
    ],
)
def test_what_does_not_fit_is_named_and_the_model_stays_as_it_is(tensors, sentence):
    model = Small()
    before = model_hash(model)
    with pytest.raises(UserError) as raised:
        load_into(model, {name: torch.zeros(shape) for name, shape in tensors.items()}, "a.safetensors")
    assert str(raised.value) == f"a.safetensors does not fit this model: {sentence}" and model_hash(model) == before


def nudged(model):
    with torch.no_grad():
        model.second[1, 1] += 1e-6
    return model


def test_a_model_is_known_by_its_class_its_shape_and_its_weights():
    models = [Small(), Other(), Small(n_heads=1), Small(3), nudged(Small()), Small(order=("first", "third"))]
    hashes = [model_hash(model) for model in models]
    assert len(set(hashes)) == len(hashes) and all(len(bytes.fromhex(digits)) == 8 for digits in hashes)
    assert hashes[0] == model_hash(Small(order=("second", "first"))) == model_hash(Small().requires_grad_(False))
    evaluated = Small().eval()
    sum(parameter.sum() for parameter in evaluated.parameters()).backward()
    assert model_hash(evaluated) == hashes[0]


def test_an_adder_with_the_same_weights_in_fewer_heads_is_another_model():
    four, one = (Adder(digits=2, n_layers=1, d_model=16, d_ff=16, n_heads=n_heads) for n_heads in (4, 1))
    load_into(one, dict(four.named_parameters()), "four heads")
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), four.parameters(), strict=True))
    assert model_hash(one) != model_hash(four)


def test_weights_whose_writer_is_killed_leave_nothing_that_the_next_one_does_not_clear(tmp_path):
    path, end = tmp_path / "checkpoint.safetensors", time.monotonic() + 20
    writer = FORK.Process(target=save_tensors, args=(path, {"a": torch.ones(25_000_000)}, {}), daemon=True)
    writer.start()
    while not any(tmp_path.iterdir()) and time.monotonic() < end:
        pass
    writer.kill()
    writer.join()
    save_tensors(path, {"a": torch.ones(2)}, {})
    assert contents(tmp_path).keys() == {path.name}


def test_tensors_that_the_system_does_not_write_get_one_sentence():
    with pytest.raises(UserError, match=r"^/proc/a\.safetensors cannot be written: .*\.$"):
        save_tensors("/proc/a.safetensors", {"a": torch.ones(2)}, {})


@pytest.mark.parametrize("write", [lambda p: write_json(p, 1), lambda p: one_process_at_a_time(p).__enter__()])
def test_a_name_that_is_too_long_gets_one_sentence(write, tmp_path):
    with pytest.raises(UserError, match="cannot be written: File name too long"):
        write(tmp_path / ("x" * 300 + ".json"))


def test_a_failure_that_is_not_of_the_file_is_not_called_so(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a.zip") as temporary:
        temporary.write_bytes(Path("/nowhere/row.json").read_bytes())


def test_a_killed_writer_of_a_file_with_brackets_in_its_name_leaves_nothing(tmp_path):
    killed_in(write_and_die, tmp_path / "seed[1].png")
    write_json(tmp_path / "seed[1].png", 1)
    assert contents(tmp_path).keys() == {"seed[1].png"}


def test_a_header_that_is_no_dictionary_gets_one_sentence(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "a.safetensors", metadata={"about": "[]"})
    with pytest.raises(UserError):
        load_model(tmp_path / "a.safetensors", Small, "width")
