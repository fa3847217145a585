"""A grid does each run once, whatever happens to it. Where processes do not matter, runs are done in this one."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from problem1.shared import grid
from problem1.shared.errors import UserError
from problem1.shared.grid import (
    PartDone,
    RunsFailed,
    failed_file,
    pack_rows,
    read_row,
    row_file,
    run_grid,
    run_grids,
    run_row,
    unpack_rows,
)
from problem1.shared.sources import code_of
from problem1.shared.storage import write_json
from tests.shared.grid_runs import calls, draw, of, square, start_grid, traces
from tests.shared.processes import is_gone, start_script, until


class Here:
    """Takes the place of the pool of processes, whose start takes seconds."""

    closed = False

    def call(self, function, *arguments):
        return function(*arguments)

    def close(self):
        self.closed = True


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(grid, "Workers", Here)


def squares(folder, configurations, **options):
    return run_grid(square, configurations, folder, progress=False, **options)["square"].tolist()


def test_rows_come_in_order_with_what_was_asked_and_a_worker_gives_what_this_process_would(tmp_path, capfd):
    table = run_grid(square, of(tmp_path, 3, 1), tmp_path, progress=False)
    assert table["square"].tolist() == [9, 1] and table["number"].tolist() == [3, 1]
    assert table["threads"].tolist() == [1, 1] and calls(tmp_path) == [1, 3]
    assert table["drawn"].tolist() == [draw(seed)["drawn"] for seed in (3, 1)]
    assert all(is_gone(worker) for _, worker in traces(tmp_path))
    assert capfd.readouterr() == ("", "")  # and they went in silence


def test_what_is_done_is_never_done_again(tmp_path, here):
    assert squares(tmp_path, of(tmp_path, 3, 1)) == [9, 1]
    assert squares(tmp_path, of(tmp_path, 1, 3, 2)) == [1, 9, 4]
    assert calls(tmp_path) == [1, 2, 3]


def test_a_configuration_that_comes_twice_is_refused_before_anything_runs(tmp_path, here):
    with pytest.raises(ValueError, match=r'a grid has the configuration {"number": 1, .*} twice') as raised:
        squares(tmp_path, of(tmp_path, 1, 2, 1))
    assert not isinstance(raised.value, UserError) and calls(tmp_path) == []
    turned = {name: value for name, value in reversed(of(tmp_path, 1)[0].items())}
    with pytest.raises(ValueError, match="twice"):  # whatever the order of its fields
        squares(tmp_path, [*of(tmp_path, 1), turned])


@pytest.mark.parametrize("shared", [True, False])
def test_the_parts_of_two_machines_are_the_whole(tmp_path, here, shared):
    """In one folder, or in two whose files are then copied together."""
    one, other = (tmp_path / "one", tmp_path / ("one" if shared else "other"))
    configurations = of(tmp_path, 1, 2, 3, 4, 5)
    with pytest.raises(PartDone, match=r"^part 1/2 is done; 2 runs of other parts are missing.$"):
        squares(one, configurations, part=(1, 2))
    assert calls(tmp_path) == [1, 3, 5]
    if shared:
        assert squares(other, configurations, part=(2, 2)) == [1, 4, 9, 16, 25]
    else:
        with pytest.raises(PartDone, match=r"^part 2/2 is done; 3 runs of other parts are missing.$"):
            squares(other, configurations, part=(2, 2))
        for file in other.iterdir():
            (one / file.name).write_bytes(file.read_bytes())
    assert squares(one, configurations) == [1, 4, 9, 16, 25] and calls(tmp_path) == [1, 2, 3, 4, 5]


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_run_that_fails_is_recorded_and_tried_again_and_does_not_stop_the_others(tmp_path, capfd, here):
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


def test_a_killed_worker_costs_its_run_only_which_is_tried_once_more(tmp_path, monkeypatch):
    configurations = of(tmp_path, 1, deaths=2) + of(tmp_path, 2, 3)
    with pytest.raises(RunsFailed, match="1 of 3 runs failed"):
        squares(tmp_path, configurations)
    file = failed_file(row_file(square, configurations[0], tmp_path))
    assert "its worker died 2 times (exit code -9)" in json.loads(file.read_text())["error"]
    assert calls(tmp_path) == [1, 1, 2, 3]
    monkeypatch.setattr(grid, "Workers", Here)
    assert squares(tmp_path, configurations) == [1, 4, 9]  # the failed one, and only that, again
    assert calls(tmp_path) == [1, 1, 1, 2, 3] and not file.exists()


def test_a_folder_that_cannot_be_written_gets_one_sentence(tmp_path, here):
    with pytest.raises(UserError, match=r"^/dev/null/x/.* cannot be written: Not a directory.$"):
        squares("/dev/null/x", of(tmp_path, 1))
    assert calls(tmp_path) == []


def test_a_script_without_a_guard_ends_with_a_sentence_and_does_not_hang(tmp_path):
    code = f"""
from problem1.shared.commands import one_sentence
from problem1.shared.grid import run_grid
from tests.shared.grid_runs import square
with one_sentence("my script"):
    run_grid(square, {of(tmp_path, 1)}, {str(tmp_path)!r}, progress=False)
"""
    script = start_script(tmp_path / "script.py", code)
    _, errors = script.communicate(timeout=60)
    assert script.returncode == 1 and calls(tmp_path) == [] and "Traceback" not in errors
    assert "my script: a script that starts a grid must do so below `if __name__ == '__main__':`." in errors


# --- interruptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_grid_that_is_stopped_goes_on_where_it_was_and_its_workers_leave(tmp_path, how, here):
    configurations = of(tmp_path, 1) + of(tmp_path, 7, wait=50.0)
    process = start_grid(tmp_path, configurations, workers=2)
    until(lambda: calls(tmp_path) == [1, 7] and read_row(row_file(square, configurations[0], tmp_path)))
    if how == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, how)  # Ctrl-C goes to the workers, too
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0 and errors == ("" if how == signal.SIGKILL else "sweep: stopped\n")
    until(lambda: all(is_gone(worker) for _, worker in traces(tmp_path)))
    assert all(is_gone(worker) for _, worker in traces(tmp_path))
    assert not list(tmp_path.glob("*.failed.json"))  # stopped is not failed
    (tmp_path / "go on").touch()
    assert squares(tmp_path, configurations) == [1, 49] and calls(tmp_path) == [1, 7, 7]


def test_two_grids_at_once_do_every_run_once(tmp_path, here):
    held, other = of(tmp_path, 1, 2, wait=50.0)
    first = start_grid(tmp_path, [held])
    until(lambda: calls(tmp_path) == [1])
    found = []
    second = threading.Thread(target=lambda: found.extend(squares(tmp_path, [held, other], workers=2)))
    second.start()
    until(lambda: calls(tmp_path) == [1, 2])  # by then it would have begun what the first is in the middle of
    (tmp_path / "go on").touch()
    second.join(60)
    first.communicate(timeout=60)
    assert first.returncode == 0 and found == [1, 4] and calls(tmp_path) == [1, 2]


# --- rows ------------------------------------------------------------------------------------------------------------


def test_a_row_holds_what_is_needed_to_believe_it(tmp_path, here):
    [configuration] = of(tmp_path, 4)
    table = run_grid(square, [configuration], tmp_path, progress=False)
    row = json.loads(row_file(square, configuration, tmp_path).read_text())
    assert row["configuration"] == configuration and row["result"]["square"] == 16
    assert row["code"] == code_of("tests.shared.grid_runs") == table["code"].item()
    assert 0 <= row["cpu seconds"] < 1 and row["machine"]
    assert {file.suffix for file in tmp_path.iterdir()} == {"", ".json"}  # nothing temporary is left


def test_a_run_outside_of_the_project_fails_with_a_reason(tmp_path):
    """There are no sources by which its row could be known."""
    row = run_row("json", "loads", {"s": "{}"})
    assert row["error"] == "ValueError: json is no module of this project"


def test_rows_of_earlier_versions_are_read_and_half_a_file_is_not(tmp_path, here):
    old, half = of(tmp_path, 4, 5)
    row_file(square, old, tmp_path).write_text(json.dumps({"configuration": old, "result": {"square": 17}}))
    row_file(square, half, tmp_path).write_text('{"configuration": {"num')
    assert squares(tmp_path, [old]) == [17] and calls(tmp_path) == []
    assert read_row(row_file(square, half, tmp_path)) is None
    assert squares(tmp_path, [old, half]) == [17, 25] and calls(tmp_path) == [5]


def test_a_module_finds_its_rows_as_a_command_and_as_an_import(tmp_path):
    (tmp_path / "somewhere.py").write_text("""
from pathlib import Path
from problem1.shared.grid import row_file
def run(): pass
print(row_file(run, {}, Path()))
""")
    commands = [["-m", "somewhere"], ["-c", "import somewhere"]]
    started = [subprocess.Popen([sys.executable, *c], stdout=subprocess.PIPE, cwd=tmp_path) for c in commands]
    names = [process.communicate(timeout=60)[0] for process in started]
    assert names[0] == names[1] != b""


def test_the_key_of_a_row_is_that_of_the_rows_on_disk():
    """If this changes, everything is trained again."""
    assert row_file(draw, {"seed": 0}, Path()).name == "draw-8e051121fd17.json"


def test_packed_rows_are_done_wherever_they_are_unpacked(tmp_path, here):
    grids = [(square, of(tmp_path, 1, 2)), (draw, [{"seed": 0}])]
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
    assert table["code"].tolist()[::2] == [code_of("tests.shared.grid_runs")] * 2 and table["code"].isna()[1]
