"""What is published is the old study or the new one, whole, and never less than it was."""

import os
import shutil
import sys
from multiprocessing import get_context

import pandas as pd
import pytest

from problem1.shared import publishing
from problem1.shared.errors import UserError
from problem1.shared.publishing import check_publishable, recover, same_models, staged
from tests.shared.processes import kill_me, killed_in

OLD = {"seeds.csv": b"old", "heads.csv": b"old", "every_pair/a.json": b"old"}
NEW = {"seeds.csv": b"new", "heads.csv": b"old", "every_pair/b.json": b"new"}


def contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "published"
    (folder / "every_pair").mkdir(parents=True)
    for name, content in OLD.items():
        (folder / name).write_bytes(content)
    return folder


def write_new(stage):
    (stage / "every_pair" / "a.json").unlink()
    (stage / "seeds.csv").write_bytes(b"new")
    (stage / "every_pair" / "b.json").write_bytes(b"new")


# --- the swap --------------------------------------------------------------------------------------------------------


def test_a_study_is_swapped_in_as_a_whole_when_it_is_done(folder):
    with staged(folder) as stage:
        assert contents(stage) == OLD
        write_new(stage)
        assert contents(folder) == OLD
    assert contents(folder) == NEW and list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, UserError])
def test_a_failure_leaves_what_is_published_as_it_was_and_no_stage(folder, error):
    with pytest.raises(error), staged(folder) as stage:
        write_new(stage)
        raise error
    assert contents(folder) == OLD and list(folder.parent.iterdir()) == [folder]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere folders change places in two steps")
def test_there_is_a_whole_study_at_every_moment(folder, monkeypatch):
    """Both folders change places in one system call: renaming is not even tried."""
    monkeypatch.setattr(os, "rename", None)
    with staged(folder) as stage:
        write_new(stage)
    assert contents(folder) == NEW and list(folder.parent.iterdir()) == [folder]


@pytest.fixture
def in_two_steps(monkeypatch):
    monkeypatch.setattr(publishing, "exchange_at_once", lambda folder, stage: False)


def test_a_swap_that_the_system_refuses_is_undone(folder, monkeypatch, in_two_steps):
    rename = os.rename

    def refuse(source, target):
        if target == folder and contents(source) == NEW:
            raise OSError("out of luck")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="out of luck"), staged(folder) as stage:
        write_new(stage)
    assert contents(folder) == OLD and list(folder.parent.iterdir()) == [folder]


def publish_and_die(folder, moment):
    rename, renamed = os.rename, []

    def counted(source, target):
        rename(source, target)
        renamed.append(target)
        if moment == f"rename {len(renamed)}":
            kill_me()

    def half(path, **_):
        if path.exists():
            (path / "seeds.csv").unlink()
            kill_me()

    os.rename = counted
    if moment == "old half removed":
        shutil.rmtree = half
    with staged(folder) as stage:
        write_new(stage)
        if moment == "written":
            kill_me()


def next_staged(folder):
    with staged(folder):
        pass


MOMENTS = {"written": OLD, "rename 1": OLD, "rename 2": NEW, "old half removed": NEW}


@pytest.mark.parametrize("mend", [recover, next_staged])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_killed_at_any_moment_leaves_one_whole_study(folder, moment, mend, in_two_steps):
    killed_in(publish_and_die, folder, moment)
    assert len(list(folder.parent.iterdir())) > 1  # it was killed in the middle
    mend(folder)
    assert contents(folder) == MOMENTS[moment]
    assert {file.name for file in folder.parent.iterdir()} <= {"published", ".published.lock"}


def test_of_two_publications_the_second_begins_with_what_the_first_has_published(folder):
    fork = get_context("fork")
    go, inside = fork.Event(), fork.Event()

    def add():
        go.wait(60)
        with staged(folder) as stage:
            inside.set()
            (stage / "flawed.csv").write_bytes(b"added")

    other = fork.Process(target=add, daemon=True)
    other.start()
    with staged(folder) as stage:
        go.set()
        assert not inside.wait(0.3)
        write_new(stage)
    other.join(20)
    assert other.exitcode == 0 and contents(folder) == {**NEW, "flawed.csv": b"added"}
    assert list(folder.parent.iterdir()) == [folder]


# --- what is refused -------------------------------------------------------------------------------------------------


def rows(seeds, codes):
    return pd.DataFrame([{"seed": seed, "code": code} for seed in range(seeds) for code in codes])


@pytest.mark.parametrize(
    ("quick", "table", "sentence"),
    [
        (True, rows(10, "a"), r"^a quick look is not published; run without QUICK\.$"),
        (False, rows(9, "aa"), r"^9 seeds are fewer than the 10 that are published; run at least as many\.$"),
        (False, rows(10, "ba"), r"^these rows were made by different code \(a, b\); remove the older ones .*\.$"),
    ],
    ids=["quick", "fewer seeds", "two codes"],
)
def test_what_would_replace_a_study_by_less_is_refused(quick, table, sentence):
    with pytest.raises(UserError, match=sentence):
        check_publishable(quick, table, published_seeds=10)


@pytest.mark.parametrize("seeds", [10, 11])
def test_as_many_seeds_by_one_code_are_published(seeds):
    check_publishable(False, pd.concat([rows(seeds, "a"), rows(seeds, "a")]), published_seeds=10)


def models(**by_seed):
    return pd.DataFrame({"seed": [int(seed[1:]) for seed in by_seed], "model": by_seed.values()})


def test_tables_that_name_different_models_for_a_seed_are_refused():
    tables = {"seeds": models(s0="aa", s1="bb"), "heads": models(s1="bb"), "groups": models(s2="dd", s1="cc")}
    with pytest.raises(UserError, match=r"^seeds and groups are of different models for seed 1 \(bb and cc\): .*\.$"):
        same_models(tables)
    keyed = {name: table.rename(columns={"seed": "key"}) for name, table in tables.items()}
    with pytest.raises(UserError, match=r"^seeds and groups are of different models for key 1 \(bb and cc\): .*\.$"):
        same_models(keyed, by="key")


def test_tables_of_the_same_models_may_hold_different_seeds_and_many_rows_of_one():
    same_models({"seeds": models(s0="aa", s1="bb"), "heads": pd.concat([models(s1="bb", s2="cc")] * 2)})


@pytest.mark.parametrize("codes", [["a", None], [None]])
def test_rows_without_a_code_are_refused(codes):
    with pytest.raises(UserError):
        check_publishable(False, rows(10, codes), published_seeds=10)
