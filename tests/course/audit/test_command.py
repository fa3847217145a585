"""The command, its exit status, and the folder by itself under another name."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import course.audit
import pytest
from course.audit import command
from course.handins import write_handin

from tests.course.audit.folders import heads, write


def status(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["audit", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        command.main()
    return stop.value.code


def test_the_status_says_whether_there_are_findings(tmp_path, monkeypatch, capsys):
    write_handin("right", "as_assigned", tmp_path / "right")
    assert status(monkeypatch, tmp_path / "right") == 0 and "None." in capsys.readouterr().out
    assert status(monkeypatch, write(tmp_path / "wrong", problem1__ablation=heads(0.412)), "--markdown") == 1
    assert capsys.readouterr().out.startswith("### Audit")


def test_a_folder_must_be_named(monkeypatch, capsys):
    assert status(monkeypatch) == 2 and "name the folder" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["missing", "", "a\0b", "/dev/null"])
def test_what_is_no_folder_gets_one_sentence(path, monkeypatch, capsys):
    assert status(monkeypatch, path) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_python_m_runs_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["audit", "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("course.audit", run_name="__main__")
    assert stop.value.code == 0 and "--markdown" in capsys.readouterr().out


def test_the_folder_works_alone_under_another_name(tmp_path):
    (tmp_path / "handout").mkdir()
    shutil.copytree(Path(course.audit.__file__).parent, tmp_path / "handout" / "checks")
    write(tmp_path / "handin", problem1__ablation=heads(0.412))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "handout.checks", "handin"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "sums below 1000" in done.stdout, done.stderr
