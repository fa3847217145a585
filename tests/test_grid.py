import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from problem1.grid import row_file, run_grid


def square(number, folder):
    """A run that leaves a trace of every call."""
    with open(os.path.join(folder, "calls"), "a") as calls:
        calls.write(f"{number} {os.getpid()}\n")
    if number < 0:
        raise ValueError(f"{number} is below zero")
    return {"square": number * number, "threads": __import__("torch").get_num_threads()}


def calls(folder):
    return sorted(int(line.split()[0]) for line in (folder / "calls").read_text().splitlines())


def test_rows_come_in_order_and_what_is_done_is_skipped(tmp_path):
    def grid(numbers):
        return run_grid(square, [{"number": n, "folder": str(tmp_path)} for n in numbers], tmp_path, progress=False)

    table = grid([3, 1])
    assert table["square"].tolist() == [9, 1] and table["threads"].tolist() == [1, 1]
    assert grid([1, 3, 2])["square"].tolist() == [1, 9, 4]
    assert calls(tmp_path) == [1, 2, 3]


def test_a_run_that_fails_does_not_stop_the_others(tmp_path, capfd):
    configurations = [{"number": n, "folder": str(tmp_path)} for n in (-1, 5, 6)]
    with pytest.raises(RuntimeError, match="1 of 3 runs failed"):
        run_grid(square, configurations, tmp_path, progress=False)
    assert "-1 is below zero" in capfd.readouterr().err
    assert run_grid(square, configurations[1:], tmp_path, progress=False)["square"].tolist() == [25, 36]
    assert calls(tmp_path) == [-1, 5, 6]


def sleep(folder):
    (Path(folder) / "started").write_text(str(os.getpid()))
    time.sleep(60)


def test_workers_leave_when_the_grid_is_killed(tmp_path):
    code = f"from tests.test_grid import *; run_grid(sleep, [{{'folder': {str(tmp_path)!r}}}], {str(tmp_path)!r})"
    grid = subprocess.Popen(
        [sys.executable, "-c", f"if __name__ == '__main__':\n {code}"], cwd=Path(__file__).parents[1]
    )
    while not (tmp_path / "started").exists():
        time.sleep(0.05)
    worker = int((tmp_path / "started").read_text())
    grid.kill()
    grid.wait()
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists():
            break
        time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_row_holds_its_configuration(tmp_path):
    configuration = {"number": 4, "folder": str(tmp_path)}
    run_grid(square, [configuration], tmp_path, progress=False)
    row = json.loads(row_file(square, configuration, tmp_path).read_text())
    assert row["configuration"] == configuration and row["result"]["square"] == 16
    assert [file.name for file in tmp_path.glob(".*")] == []  # no temporary file is left


def test_a_module_finds_its_rows_as_a_command_and_as_an_import(tmp_path):
    code = "from problem1.grid import row_file\ndef run(): pass\nprint(row_file(run, {}, __import__('pathlib').Path()))"
    (tmp_path / "somewhere.py").write_text(code)
    ways = [["-m", "somewhere"], ["-c", "import somewhere"]]
    names = [
        subprocess.run([sys.executable, *way], capture_output=True, text=True, cwd=tmp_path).stdout for way in ways
    ]
    assert names[0] == names[1] != ""


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
