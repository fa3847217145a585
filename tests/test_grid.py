import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from problem1 import grid, sweep
from problem1.grid import (
    RunsFailed,
    code_version,
    failed_file,
    pack_rows,
    read_row,
    row_file,
    run_grid,
    run_grids,
    run_row,
    unpack_rows,
)
from problem1.model import load_adder
from problem1.storage import one_process_at_a_time, weights_hash, write_json
from problem1.train import AdderRecipe, train_adder
from problem2 import sweep as sweep2
from problem2.model import load_judge
from problem2.train import JudgeRecipe, train_judge
from tests.grid_runs import alone, calls, of, square, start_grid, traces, until


def squares(folder, configurations):
    return run_grid(square, configurations, folder, progress=False)["square"].tolist()


def test_rows_come_in_order_and_what_is_done_is_skipped(tmp_path, capfd):
    table = run_grid(square, of(tmp_path, 3, 1), tmp_path, progress=False)
    assert table["square"].tolist() == [9, 1] and table["threads"].tolist() == [1, 1]
    assert squares(tmp_path, of(tmp_path, 1, 3, 2)) == [1, 9, 4]
    assert calls(tmp_path) == [1, 2, 3]
    for _, worker, _ in traces(tmp_path):
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
    assert capfd.readouterr() == ("", "")  # and they went in silence


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_run_that_fails_is_recorded_and_tried_again_and_does_not_stop_the_others(tmp_path, capfd):
    grids = (square, of(tmp_path, -1, 5)), (square, of(tmp_path, 6))
    with pytest.raises(RunsFailed, match=r"^square: 1 of 2 runs failed"):
        run_grids(grids, tmp_path)
    assert "-1 is below zero" in capfd.readouterr().err
    [configuration] = of(tmp_path, -1)
    failed = json.loads(failed_file(row_file(square, configuration, tmp_path)).read_text())
    assert failed["configuration"] == configuration and failed["error"] == "ValueError: -1 is below zero"
    assert "in square" in failed["traceback"]
    assert squares(tmp_path, of(tmp_path, 5, 6)) == [25, 36]
    with pytest.raises(RunsFailed):
        squares(tmp_path, of(tmp_path, -1, 5))
    assert calls(tmp_path) == [-1, -1, 5, 6]


def test_a_killed_worker_costs_its_run_only_which_is_tried_once_more(tmp_path):
    configurations = of(tmp_path, 1, deaths=1) + of(tmp_path, 2, deaths=2) + of(tmp_path, 3, 4)
    with pytest.raises(RunsFailed, match="1 of 4 runs failed"):
        squares(tmp_path, configurations)
    file = failed_file(row_file(square, configurations[1], tmp_path))
    assert "its worker died 2 times (exit code -9)" in json.loads(file.read_text())["error"]
    assert calls(tmp_path) == [1, 1, 2, 2, 3, 4]
    assert squares(tmp_path, configurations) == [1, 4, 9, 16]  # the failed one, and only that, again
    assert calls(tmp_path) == [1, 1, 2, 2, 2, 3, 4] and not file.exists()


# --- interruptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_grid_that_is_stopped_goes_on_where_it_was_and_its_workers_leave(tmp_path, how):
    configurations = of(tmp_path, 1) + of(tmp_path, 7, wait=50.0)
    process = start_grid(tmp_path, configurations)
    until(lambda: calls(tmp_path) == [1, 7] and read_row(row_file(square, configurations[0], tmp_path)))
    process.send_signal(how)
    assert process.wait(60) != 0
    for _, worker, _ in traces(tmp_path):
        until(lambda worker=worker: not Path(f"/proc/{worker}").exists())
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
    assert not list(tmp_path.glob("*.failed.json"))  # stopped is not failed
    (tmp_path / "go on").touch()
    assert squares(tmp_path, configurations) == [1, 49] and calls(tmp_path) == [1, 7, 7]


def test_two_grids_at_once_do_every_run_once(tmp_path):
    held, other = of(tmp_path, 1, 2, wait=50.0)
    first = start_grid(tmp_path, [held])
    until(lambda: calls(tmp_path) == [1])
    second = start_grid(tmp_path, [held, other], workers=2)
    until(lambda: calls(tmp_path) == [1, 2])  # by then it would have begun what the first is in the middle of
    (tmp_path / "go on").touch()
    assert first.wait(60) == 0 and second.wait(60) == 0
    assert calls(tmp_path) == [1, 2] and squares(tmp_path, [held, other]) == [1, 4]


def test_whoever_comes_second_to_a_training_waits(tmp_path):
    """Two sweeps, or a sweep and a notebook, may want the same judge: one trains it, the other loads it."""
    recipe = AdderRecipe(steps=1, evaluate_every=1, batch_size=8)
    training = threading.Thread(target=train_adder, args=(recipe, tmp_path), kwargs={"progress": False})
    with one_process_at_a_time(tmp_path / ".lock"):
        training.start()
        training.join(3)
        assert training.is_alive() and not (tmp_path / "checkpoint.safetensors").exists()
    training.join(60)
    assert (tmp_path / "training_log.json").exists()


def test_a_worker_with_several_threads_takes_one_run_at_a_time(tmp_path):
    """Dask gives a worker as many as there are cores; two trainings would draw from one random generator."""
    with ThreadPoolExecutor(2) as threads:
        rows = threads.map(lambda _: run_row("tests.grid_runs", "alone", {"folder": str(tmp_path)}), range(2))
    assert [row["result"] for row in rows] == [{"alone": True}] * 2


# --- rows ------------------------------------------------------------------------------------------------------------


def test_a_row_holds_what_is_needed_to_believe_it(tmp_path):
    [configuration] = of(tmp_path, 4)
    run_grid(square, [configuration], tmp_path, progress=False)
    row = json.loads(row_file(square, configuration, tmp_path).read_text())
    assert row["configuration"] == configuration and row["result"]["square"] == 16
    assert row["code"] == code_version() and 0 <= row["cpu seconds"] < 1 and row["machine"]
    assert {file.suffix for file in tmp_path.iterdir()} == {"", ".json"}  # nothing temporary is left


def test_rows_of_earlier_versions_are_read_and_half_a_file_is_not(tmp_path):
    old, half = of(tmp_path, 4, 5)
    row_file(square, old, tmp_path).write_text(json.dumps({"configuration": old, "result": {"square": 17}}))
    row_file(square, half, tmp_path).write_text('{"configuration": {"num')
    assert squares(tmp_path, [old]) == [17] and calls(tmp_path) == []
    assert read_row(row_file(square, half, tmp_path)) is None


def test_a_module_finds_its_rows_as_a_command_and_as_an_import(tmp_path):
    code = "from problem1.grid import row_file\ndef run(): pass\nprint(row_file(run, {}, __import__('pathlib').Path()))"
    (tmp_path / "somewhere.py").write_text(code)
    ways = [["-m", "somewhere"], ["-c", "import somewhere"]]
    names = [
        subprocess.run([sys.executable, *way], capture_output=True, text=True, cwd=tmp_path).stdout for way in ways
    ]
    assert names[0] == names[1] != ""


def test_the_key_of_a_row_is_that_of_the_rows_on_disk():
    """If this changes, everything is trained again."""
    assert row_file(sweep2.certify_seed, {"seed": 0}, Path()).name == "certify_seed-7a839fe5cec2.json"


def test_the_code_version_is_a_commit_marked_if_changed_or_the_packages(tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "__file__", str(tmp_path / "grid.py"))
    (tmp_path / "grid.py").touch()

    def git(*command):
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *name, *command], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert code_version.__wrapped__() == "1.0"
    git("init")
    assert code_version.__wrapped__() == "1.0"  # in somebody else's repository
    git("add", "grid.py")
    git("commit", "-m", "x")
    git("tag", "-a", "v7", "-m", "a name that may move")
    commit = git("rev-parse", "HEAD").strip()
    assert commit.startswith(code_version.__wrapped__()) and len(code_version.__wrapped__()) >= 7
    (tmp_path / "grid.py").write_text("changed")
    assert code_version.__wrapped__() == git("rev-parse", "--short", "HEAD").strip() + "-dirty"


# --- the commands ----------------------------------------------------------------------------------------------------


def sentence(monkeypatch, capsys, module, *arguments):
    """How a sweep ends that cannot do what it is asked for: (exit status or sentence, stderr)."""
    monkeypatch.setattr(sys, "argv", ["sweep", *arguments])
    with pytest.raises(SystemExit) as stopped:
        module.main()
    return stopped.value.code, capsys.readouterr().err


def test_packed_rows_are_done_wherever_they_are_unpacked(tmp_path):
    grids = [(square, of(tmp_path, 1, 2)), (alone, [{"folder": str(tmp_path)}])]
    for function, configurations in grids:
        run_grid(function, configurations, tmp_path / "here", progress=False)
    packed = [tmp_path / name for name in ("packed", "again")]
    for archive in packed:
        pack_rows(grids, tmp_path / "here", archive)
    assert packed[0].read_bytes() == packed[1].read_bytes()
    mine = row_file(square, of(tmp_path, 2)[0], tmp_path / "there")
    write_json(mine, {"configuration": {}, "result": {"square": 5}})  # a row that is there is left as it is
    unpack_rows(packed[0], tmp_path / "there")
    table = run_grid(square, of(tmp_path, 1, 2, 3), tmp_path / "there", progress=False)
    assert table["square"].tolist() == [1, 5, 9] and calls(tmp_path) == [1, 2, 3]
    assert table["code"].tolist()[::2] == [code_version()] * 2 and table["code"].isna()[1]


@pytest.mark.parametrize("module, seeds", [(sweep, sweep.SEEDS), (sweep2, sweep2.SEEDS["encodings"])])
def test_extending_begins_with_what_is_published(module, seeds, monkeypatch, tmp_path):
    """Before anything is run, and into the folder in which it is looked for."""
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    done = []

    def look(grids, folder, scheduler):
        done.append(all(row_file(f, c, folder).exists() for f, configurations in grids for c in configurations))
        raise RunsFailed("enough")

    monkeypatch.setattr(module, "run_grids", look)
    for extend in (False, True):
        with pytest.raises(RunsFailed):
            module.sweep(seeds, tmp_path, extend=extend)
    assert done == [False, True]


@pytest.mark.parametrize("module", [sweep, sweep2])
def test_bad_options_of_a_sweep_get_one_sentence(module, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    for wrong in ("0", "-1", "many"):
        status, text = sentence(monkeypatch, capsys, module, f"--seeds={wrong}")
        assert status == 2 and f"--seeds: '{wrong}' is not a whole number of 1 or more" in text
    for address in ("tcp://127.0.0.1:1", "nonsense"):
        monkeypatch.setattr("problem1.workers.PATIENCE", 0.5)
        text, _ = sentence(monkeypatch, capsys, module, "--scheduler", address)
        assert text.startswith(f"python -m {module.__name__}: no Dask scheduler answers at {address} (")


def test_seeds_by_which_something_was_chosen_are_left_out():
    assert sweep2.study_seeds(3) == [0, 1, 2] and not set(sweep2.study_seeds(30)) & set(sweep2.CHOICE_SEEDS)
    assert len(sweep2.study_seeds(30)) == 30
    assert {row["recipe"].seed for row in sweep2.runs(11)} == {*range(10), 12}


def test_more_seeds_add_rows_and_change_none():
    grids = [sweep.grids(range(n)) for n in (1, 5, 12)], [sweep2.grids(sweep2.runs(n)) for n in (1, 5, 12)]
    for few, many in itertools.chain.from_iterable(map(itertools.pairwise, grids)):
        for (function, less), (_, more) in zip(few, many, strict=True):
            assert all(configuration in more for configuration in less)
            assert len(more) > len(less) or function in (sweep2.train_and_develop, sweep2.certify_seed)


def test_a_sweep_with_failed_runs_says_so_and_fails(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sweep, "RESULTS", tmp_path)
    monkeypatch.setattr(sweep, "quick", lambda *_: 0)  # no seeds to study
    monkeypatch.setattr(sweep, "configurations", lambda seeds: [{"recipe": "impossible", "steps": 0}])
    told, errors = sentence(monkeypatch, capsys, sweep)
    assert told.startswith("python -m problem1.sweep: train_and_check: 1 of 1 runs failed")
    assert "ValueError: steps is 0" in errors and not (tmp_path / "sweep").exists()


TINY = {"steps": 1, "evaluate_every": 1, "batch_size": 8}


def test_the_published_adder_has_the_weights_of_its_row(monkeypatch, tmp_path):
    """A worker of a cluster keeps its weights: the adder is trained here, and must be the same."""
    recipe = AdderRecipe(seed=1, **TINY)
    model, _ = train_adder(recipe, tmp_path / "runs" / recipe.name, progress=False)
    (tmp_path / "check.json").write_text("none wrong")
    monkeypatch.setattr(sweep, "RESULTS", tmp_path)
    monkeypatch.setattr("problem1.train.RESULTS", tmp_path)
    monkeypatch.setattr(sweep, "AdderRecipe", functools.partial(AdderRecipe, **TINY))
    monkeypatch.setattr(sweep, "check_every_pair", lambda model: None)
    monkeypatch.setattr(sweep, "stored_check", lambda key: tmp_path / "check.json")
    monkeypatch.setattr(sweep, "patch_carries", lambda model: None)
    monkeypatch.setattr(sweep.plots, "patching", lambda table: Figure())
    with pytest.raises(ValueError, match=r"holds other weights than its row .*copy this folder from the machine"):
        sweep.publish_adder({"seed": 1, "weights": "of another processor"}, tmp_path / "published")
    assert not (tmp_path / "published").exists()
    key = weights_hash(model)
    sweep.publish_adder({"seed": 1, "weights": key}, tmp_path / "published")
    assert weights_hash(load_adder(tmp_path / "published" / "adder.safetensors")) == key
    written = {str(file.relative_to(tmp_path / "published")) for file in (tmp_path / "published").rglob("*.*")}
    assert written == {"adder.safetensors", "training_log.json", f"every_pair/{key}.json", "carry_heads.png"}


def test_the_published_judges_have_the_weights_of_their_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(sweep2, "RESULTS", tmp_path)
    monkeypatch.setattr("problem2.train.RESULTS", tmp_path)
    monkeypatch.setattr(sweep2, "JudgeRecipe", functools.partial(JudgeRecipe, **TINY))
    monkeypatch.setattr(sweep2, "ENCODINGS", ["causal"])
    (tmp_path / "certified" / "seed0").mkdir(parents=True)
    (tmp_path / "certified" / "seed0" / "certificate.json").write_text('{"lowest_sorted": 3.5}')
    (tmp_path / "certified" / "seed0" / "judge.safetensors").write_text("weights")
    recipes = [sweep2.JudgeRecipe(seed=0, encoding=name, **sweep2.AUGMENTED) for name in sweep2.ENCODINGS]
    judges = pd.DataFrame(
        {"key": [r.key for r in recipes], "weights": [weights_hash(train_judge(r, progress=False)[0]) for r in recipes]}
    )
    certificates = pd.DataFrame({"seed": [0], "lowest sorted logit": [3.5]})
    for wrong in ((judges.assign(weights="of another processor"), certificates), (judges, certificates + 1 - [1, 0])):
        with pytest.raises(ValueError, match="holds other weights than its row"):
            sweep2.publish_judges(*wrong, tmp_path / "published")
        assert not (tmp_path / "published").exists()
    sweep2.publish_judges(judges, certificates, tmp_path / "published")
    judge = load_judge(tmp_path / "published" / "judges" / "causal.safetensors")
    assert weights_hash(judge) == judges["weights"].item()
    assert {"judges", "judge.safetensors", "certificate.json"} == {f.name for f in (tmp_path / "published").iterdir()}


def test_quick_looks_write_to_a_folder_of_their_own():
    code = "from problem1.train import RESULTS, AdderRecipe; from problem1.settings import banner; "
    code += "print(RESULTS.name, AdderRecipe().steps < 1000, 'QUICK' in banner())"
    for quick, expected in [
        ("1", "results-quick True True"),
        ("0", "results False False"),
        ("", "results False False"),
    ]:
        environment = {**os.environ, "QUICK": quick}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.stdout.strip() == expected
