"""Ten damaged folders; `python -m course.damage` tries more."""

import json
import os
from random import Random

import pytest
from course import damage


def test_ten_damaged_folders_are_audited():
    outcomes = damage.try_folders(10, first=1_000)
    assert [outcome.problems for outcome in outcomes] == [[]] * 10
    assert len({name for outcome in outcomes for name in outcome.done}) >= 5
    assert damage.in_rows(outcomes)[-1].split()[:2] == ["all", "10"]


@pytest.mark.parametrize("kind", damage.DAMAGES)
def test_every_damage_changes_the_folder(kind, tmp_path):
    file = tmp_path / "a" / "x.json"
    file.parent.mkdir()
    file.write_text(
        json.dumps({"baseline": 0.412, "enc_L0_H0": [0.1, 0.2, 0.3], "length": {"32": 0.5, "e": 1}}, indent=1)
    )
    before = damage.state(tmp_path), file.read_bytes()
    damage.DAMAGES[kind](file, Random(1))
    assert damage.state(tmp_path) != before[0]


def test_what_the_audit_must_not_do_is_noticed(monkeypatch):
    def misbehave():
        print("\x1b[31m", damage.SECRET)
        os.mkdir("unpickled")
        raise ValueError

    monkeypatch.setattr(damage, "audit_command", misbehave)
    try:
        (outcome,) = damage.try_folders(1)
    finally:
        os.rmdir("unpickled")
    noticed = " ".join(outcome.problems)
    assert all(words in noticed for words in ("control", "link", "written", "traceback", "status None"))


def test_the_command_ends_with_1_if_something_is_wrong(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["damage", "--folders", "1"])
    monkeypatch.setattr(damage, "try_folders", lambda *_: [damage.Outcome(["cut"], 1.0, None, ["traceback"])])
    with pytest.raises(SystemExit) as stop:
        damage.main()
    assert stop.value.code == 1 and "traceback" in capsys.readouterr().out
