"""The study of ten programs: its rule, and that what is published is what its rows say."""

import shutil
import sys

import pandas as pd
import pytest

from problem1 import published, sweep
from problem1.program import study
from problem1.program.lines import at_a_glance
from problem1.program.tables import read_choice
from problem1.shared.errors import UserError
from problem1.shared.grid import run_grids, unpack_rows


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The published rows, read as the study reads them: nothing is run."""
    folder = tmp_path_factory.mktemp("rows")
    unpack_rows(published.FOLDER / published.PROGRAM_RUNS, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("problem1.shared.grid.do_runs", lambda function, missing, *_: dict.fromkeys(missing, "missing"))
        tried = run_grids(study.trials(), folder)
        return tried + run_grids(study.counts(sweep.SEEDS, study.share_of(tried[0])), folder)


def tried(*rows):
    return pd.DataFrame(
        [{"seed": 10, "shares": [dict(zip(("kept", "wrong", "rows"), row, strict=True)) for row in rows]}]
    )


def test_the_share_has_the_fewest_wrong_sums_and_then_the_smallest_tables():
    assert study.share_of(tried((0.0, 5, 10), (0.5, 0, 30), (0.9, 0, 40))) == 0.5
    assert study.share_of(tried((0.0, 5, 10), (0.5, 4, 30), (0.9, 3, 40))) == 0.9
    both = pd.concat([tried((0.0, 0, 10), (0.5, 0, 30)), tried((0.0, 9, 10), (0.5, 0, 30))])
    assert study.share_of(both) == 0.5


def test_it_is_decided_with_other_seeds_than_are_counted():
    tried_with = {c["seed"] for _, configurations in study.trials() for c in configurations}
    (_, programs), (_, controls) = study.counts(sweep.SEEDS, 0.5)
    counted = {c["seed"] for c in programs}
    assert tried_with == {10, 11} and counted == set(range(20, 30)) and {c["seed"] for c in controls} <= counted
    assert {c["kept"] for c in programs + controls} == {0.5}


def test_the_published_tables_are_made_of_the_published_rows(stored, tmp_path):
    published.write_tables(study.study_tables(*stored), tmp_path)
    for name in published.PROGRAMS:
        assert published.table_file(name, tmp_path).read_bytes() == published.table_file(name).read_bytes(), name


def test_all_rows_have_one_code_and_the_models_of_the_sweep(stored):
    assert len(set(pd.concat(stored)["code"])) == 1
    programs, adders = published.table("programs").set_index("seed"), published.table("adders").set_index("seed")
    assert programs["model"].equals(adders["model"]) and sorted(programs.index) == list(sweep.SEEDS)


def test_the_published_program_is_that_of_its_row(stored, program):
    choice = stored[1].set_index("seed").loc[study.published_seed(), "choice"]
    assert read_choice(choice) == program.choice


def test_ten_programs_are_counted_on_every_sum():
    """At least nine of ten without a mistake. Where a program is not whole, self-attention stays computed."""
    rows, heads = published.table("programs"), published.table("program_heads")
    assert len(rows) == 10 and (rows["wrong, all"] == 0).sum() >= 9
    tables = heads.assign(kind=heads["head"].str.rsplit(" ", n=2).str[0]).groupby("seed")["kind"].agg(set)
    for seed, whole in rows.set_index("seed")["whole"].items():
        assert tables[seed] == {"Encoder", "Decoder Cross"} | ({"Decoder Self"} if whole else set())
    assert ((rows["wrong, all"] == 0) == (rows["margin, all"] > 0)).all()


def test_the_table_at_a_glance_has_a_column_for_each_seed():
    table = at_a_glance(published.table("program_heads"), published.table("program_due"))
    assert [f"seed {seed}" for seed in sweep.SEEDS] == list(table.columns[:10])
    assert (table["the same head"] <= table["some head"]).all() and table["some head"].max() == 10


@pytest.fixture
def folder(monkeypatch, tmp_path):
    copy = tmp_path / "published"
    shutil.copytree(published.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(published, "FOLDER", copy)
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(study, "run_grids", lambda *_: pytest.fail("nothing may run"))
    return copy


def said(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["study", *arguments])
    with pytest.raises(SystemExit) as stopped:
        study.main()
    return str(stopped.value.code), capsys.readouterr().err


def test_fewer_seeds_than_are_published_are_refused_before_anything_runs(folder, monkeypatch, capsys):
    text, _ = said(monkeypatch, capsys, "--publish", "--seeds=2")
    assert text.startswith("python -m problem1.program.study: 2 seeds are fewer than the 10")


def test_extending_without_published_rows_gets_one_sentence(folder, monkeypatch, capsys):
    (folder / published.PROGRAM_RUNS).unlink()
    text, _ = said(monkeypatch, capsys, "--extend")
    assert text == "python -m problem1.program.study: there are no published runs to begin with; leave --extend out."


def test_a_quick_look_is_not_published(folder, monkeypatch):
    monkeypatch.setattr(study, "QUICK", True)
    with pytest.raises(UserError, match="QUICK"):
        study.study(sweep.SEEDS, store=True)


def test_models_that_the_sweep_does_not_know_are_refused(stored, folder):
    """Another machine may have trained them: last digits differ between processors."""
    changed = [stored[0], stored[1].assign(model="of another processor"), stored[2]]
    before = published.table_file("programs").read_bytes()
    with pytest.raises(UserError, match="different models for seed"):
        study.publish(changed, [])
    assert published.table_file("programs").read_bytes() == before
